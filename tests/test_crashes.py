"""A crash injected in any one actor, on any one of its messages, is survived, and nobody else notices.

Every actor of a runtime is made to crash on each of its messages in turn, before or after it handled it, in a program of
people who give an order again when they are told that it could not be carried out. Everything must end as it does without
a crash, with the invariants of the simulator's ledger intact. Where every user has a worker of its own, what happens to
the others must be the same to the last event.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

import actors.opening as opening
import actors.shard
from actors import ActorFailed, EvenhandError, Options
from actors.front import FRONT
from actors.host import Host
from actors.messages import (
    QUEUE,
    SCHEDULER,
    SHARD,
    SUPERVISOR,
    WORKER,
    Accepted,
    Address,
    Await,
    Beat,
    Busy,
    Cancel,
    Ended,
    Enqueue,
    Equip,
    ExpireLease,
    Finished,
    Gone,
    Grant,
    Granted,
    Idle,
    Leased,
    Maintain,
    Pause,
    Readmitted,
    Ready,
    Requeue,
    Resume,
    Resync,
    Retire,
    Run,
    Schedule,
    Settled,
    SetWeight,
    Stop,
    Submit,
    Wake,
    shard_address,
    worker_address,
)
from actors.supervision import Supervision
from actors.timetable import TIMETABLE
from actors.trace import Started
from tests.crashes import (
    EXPECTED,
    LAYOUTS,
    USERS,
    WALL_CLOCK,
    Outcome,
    Plan,
    run_program,
    run_until_it_fails,
    watched_engines,
)

MESSAGES: dict[str, tuple[type, ...]] = {
    QUEUE: (Submit, Settled, SetWeight, Readmitted, Maintain),
    SCHEDULER: (Idle, Busy, Equip, Ready, Granted, Settled, Pause, Resume, SetWeight, Gone),
    SUPERVISOR: (Leased, Wake),
    TIMETABLE: (Schedule, Wake, Retire),
    FRONT: (Accepted, Ended),
    SHARD: (Enqueue, Grant, Cancel, Requeue, Finished, Beat, ExpireLease, Await, Wake),
    WORKER: (Run, Finished, Wake, Stop, Resync, Retire),
}
"""What the actors of each role are given in the program, in one layout or another."""

CONTROL = (QUEUE, SCHEDULER, SUPERVISOR, TIMETABLE, *map(shard_address, USERS))
"""Those who decide: after too many crashes of one they are all built anew."""

OWNERS = {address: user for n, user in enumerate(USERS) for address in (shard_address(user), worker_address(n + 1))}
"""Where every user has a worker of its own: whose business a crash of this actor is."""


@cache
def undisturbed(layout: str) -> Outcome:
    return run_program(layout, Plan())


def check_survived(layout: str, plan: Plan) -> Outcome:
    """Everything ended as it should, although somebody crashed."""
    outcome = run_program(layout, plan)
    crashes = [type(message).__name__ for message in plan.crashed_on]
    where = f"{layout}: {plan.address} crashed on {crashes}, from number {plan.number}, {plan.when} handling them"
    assert not outcome.late, f"{where}; somebody still waits for something"
    assert outcome.statuses == EXPECTED, where
    assert outcome.violations == [], where
    assert outcome.left == (), where
    assert outcome.places == 0, where
    assert sorted(outcome.undelivered) == sorted(crashes), where
    if layout == "apart":
        for user in (*USERS, None):
            if user is None or user != OWNERS.get(plan.address):
                assert outcome.of(user) == undisturbed(layout).of(user), f"{where}; {user} noticed"
    return outcome


# One crash


@pytest.mark.parametrize("layout", LAYOUTS)
def test_without_a_crash_everything_ends_as_expected_and_always_the_same(layout: str) -> None:
    outcome = check_survived(layout, Plan())
    assert outcome.restarted == []
    for user in USERS:
        assert Counter(map(type, outcome.of(user))) == Counter(map(type, undisturbed(layout).of(user)))
    if layout == "apart":
        assert [outcome.of(user) for user in USERS] == [undisturbed(layout).of(user) for user in USERS]


def role_of(address: Address) -> str:
    return address.partition("/")[0]


def test_every_message_of_the_program_is_one_that_somebody_is_made_to_crash_on() -> None:
    given = {
        (role_of(address), type(message))
        for layout in LAYOUTS
        for address, messages in undisturbed(layout).plan.given.items()
        for message in messages
    }
    assert given == {(role, kind) for role, kinds in MESSAGES.items() for kind in kinds}


def cases() -> Iterator[Any]:
    for role, kinds in MESSAGES.items():
        for kind in kinds:
            yield pytest.param(role, kind, id=f"{role}-{kind.__name__}")


@pytest.mark.parametrize(("role", "kind"), list(cases()))
def test_a_crash_of_any_actor_on_any_message_is_survived(role: str, kind: type) -> None:
    crashes = 0
    for layout in LAYOUTS:
        for address, messages in undisturbed(layout).plan.given.items():
            if role_of(address) != role:
                continue
            for number in range(1, 1 + sum(type(message) is kind for message in messages)):
                plan = Plan(address, kind, number, when="after" if number % 2 else "before")
                outcome = check_survived(layout, plan)
                # While the runtime stops, how much is said depends on who is first.
                assert plan.crashed_on or kind in (Retire, Gone)
                assert outcome.restarted == [address] * len(plan.crashed_on)
                crashes += len(plan.crashed_on)
    assert crashes


def test_a_worker_that_crashes_has_its_task_run_again_and_the_attempt_is_counted() -> None:
    outcome = check_survived("apart", Plan(worker_address(1), Finished))
    starts = [event for event in outcome.of("alice") if isinstance(event, Started)]
    usual = [event for event in undisturbed("apart").of("alice") if isinstance(event, Started)]
    assert len(starts) == len(usual) + 1


# The test itself


def told_nobody(self: Host, envelope: Any, error: str) -> None:
    self.undelivered.append(envelope)
    self.undelivered_count += 1


def restarts_everybody(
    self: Supervision, address: Address, error: Exception, now: float, present: Any = ()
) -> list[Any]:
    return sorted({*present, address})


def keeps_the_core(self: Host, envelope: Any, error: Exception) -> None:
    self._undeliver(envelope, str(error))


PLANTED: dict[str, tuple[str, type, tuple[Any, str, Any]]] = {
    "nobody is told of a crash": (SHARD, Grant, (Host, "_undeliver", told_nobody)),
    "facts are told once": (QUEUE, Settled, (actors.shard, "_FACTS", ())),
    "everybody is restarted with everybody": (QUEUE, Maintain, (Supervision, "crashed", restarts_everybody)),
    "a core that crashed goes on as it is": (SCHEDULER, Granted, (Host, "_contain", keeps_the_core)),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    role, kind, planted = PLANTED[bug]
    for layout in LAYOUTS:
        undisturbed(layout)
    monkeypatch.setattr(*planted)
    with pytest.raises((AssertionError, ActorFailed)):
        test_a_crash_of_any_actor_on_any_message_is_survived(role, kind)


# More than one


@given(data=st.data(), times=st.integers(2, 3), when=st.sampled_from(["before", "after"]))
def test_up_to_three_crashes_in_a_row_are_survived_as_one_is(data: st.DataObject, times: int, when: str) -> None:
    layout = data.draw(st.sampled_from(list(LAYOUTS)))
    address = data.draw(st.sampled_from(list(undisturbed(layout).plan.given)))
    number = data.draw(st.integers(1, len(undisturbed(layout).plan.given[address])))
    plan = Plan(address, number=number, times=times, when=when)
    outcome = check_survived(layout, plan)
    assert outcome.restarted == [address] * len(plan.crashed_on)


@given(data=st.data(), times=st.integers(4, 9), when=st.sampled_from(["before", "after"]))
def test_when_those_who_decide_are_built_anew_for_one_that_goes_on_crashing_nobody_notices(
    data: st.DataObject, times: int, when: str
) -> None:
    layout = data.draw(st.sampled_from(list(LAYOUTS)))
    address = data.draw(st.sampled_from(CONTROL))
    number = data.draw(st.integers(1, len(undisturbed(layout).plan.given[address])))
    outcome = check_survived(layout, Plan(address, number=number, times=times, when=when))
    assert {role_of(restarted) for restarted in outcome.restarted} <= {role_of(address) for address in CONTROL}


def flat(error: BaseException) -> Iterator[str]:
    if isinstance(error, ActorFailed):
        for inner in error.exceptions:
            yield from flat(inner)
    else:
        yield str(error)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("address", [QUEUE, SCHEDULER, SUPERVISOR, TIMETABLE, shard_address("alice")])
def test_one_of_those_who_decide_that_crashes_on_every_message_ends_the_runtime(address: Address, when: str) -> None:
    plan = Plan(address, times=float("inf"), when=when)
    with pytest.raises(ActorFailed) as raised:
        run_until_it_fails(plan)
    assert str(raised.value) == f"control crashed 4 times in 5 s, last {address}"
    assert [str(error) for error in raised.value.exceptions] == [f"{address} crashed 4 times in 5 s"] * 4
    assert list(flat(raised.value)) == [f"{address} on {type(message).__name__}" for message in plan.crashed_on]
    assert len(plan.crashed_on) == 16
    assert str(raised.value.__cause__) == list(flat(raised.value))[-1]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("address", [worker_address(1), FRONT])
def test_a_worker_or_the_front_that_crashes_on_every_message_ends_the_runtime(address: Address, when: str) -> None:
    plan = Plan(address, times=float("inf"), when=when)
    with pytest.raises(ActorFailed) as raised:
        run_until_it_fails(plan)
    assert str(raised.value) == f"{address} crashed 4 times in 5 s"
    assert list(flat(raised.value)) == [f"{address} on {type(message).__name__}" for message in plan.crashed_on]
    assert len(plan.crashed_on) == 4


def test_three_crashes_of_a_worker_end_nothing_that_others_run() -> None:
    outcome = check_survived("apart", Plan(worker_address(1), Finished, times=3))
    assert outcome.restarted == [worker_address(1)] * 3
    assert outcome.of("bob") == undisturbed("apart").of("bob")


def test_a_submit_that_is_under_way_when_the_runtime_fails_does_not_keep_its_block_from_ending() -> None:
    options = Options(workers=1, admitted_max=1, admission_share=None, when_full="wait", seed=7)

    async def main() -> None:
        async with opening.run_runtime(options, resources={}, wall_clock=lambda: WALL_CLOCK) as runtime:
            runtime.handler("work")(trio.sleep)
            async with trio.open_nursery() as nursery:
                for _ in range(2):
                    nursery.start_soon(partial(runtime.submit, "work", 50, user="alice"))
                await trio.sleep(1)
                while True:
                    with suppress(EvenhandError):
                        await runtime.schedule("* * * * *", "work", 1, user="dave")

    with watched_engines(Plan(TIMETABLE, times=float("inf")), options), pytest.raises(ActorFailed):
        trio.run(main, clock=MockClock(autojump_threshold=0))
