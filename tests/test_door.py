"""Who may enter: the rule as it is written, what follows from it, and that a restart changes nothing."""

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from actors import (
    InvalidConfig,
    Notes,
    Settings,
    Status,
)
from actors.actor import Effects
from actors.config import make_converter, structure
from actors.door import Door
from actors.messages import (
    QUEUE,
    Accepted,
    Cancel,
    Enqueue,
    Finished,
    Grant,
    Maintain,
    Requeue,
    Settled,
    SetWeight,
    Submit,
    shard_address,
)
from actors.pushout import Pushout
from actors.queue import Queue
from actors.waiting import WaitingRoom
from tests.doorway import CLIENT, DRAW, KIND, QUICK, USERS, WORKER, World, book_rule, quickly
from tests.test_waiting import DoorMachine

# The rule


shares = st.sampled_from([0.001, 0.1, 0.3, 0.5, 1, 1.5, 2.7, 8.0, 100.0])
bounds = st.none() | st.integers(0, 30)


@given(bounds, bounds, st.none() | shares, st.lists(st.tuples(st.sampled_from(USERS), st.booleans()), max_size=60))
def test_the_door_decides_as_the_rule_is_written(
    bound: int | None, user_bound: int | None, share: float | None, steps: list[tuple[str, bool]]
) -> None:
    rules = Settings(admitted_max=bound, admitted_per_user_max=user_bound, admission_share=share)
    door = Door(rules, Notes(QUEUE))
    held: dict[str, int] = {}
    for user, comes in steps:
        for name in USERS:
            assert door.may_enter(name) == (door.refusal(name) is None) == book_rule(rules, held, name)
        if comes and door.may_enter(user):
            held[user] = held.get(user, 0) + 1
            door.count(user, +1)
        elif not comes and held.get(user):
            held[user] -= 1
            door.count(user, -1)
        assert (door.admitted, door.users()) == (sum(held.values()), sorted(name for name in held if held[name]))


@given(st.integers(0, 2000), shares)
def test_a_lone_user_fills_its_share_of_the_bound_and_no_more(bound: int, share: float) -> None:
    door = Door(Settings(admitted_max=bound, admission_share=share), Notes(QUEUE))
    while door.may_enter("alice"):
        door.count("alice", +1)
    exact = Fraction(str(share))
    assert door.admitted == max(math.floor(exact / (1 + exact) * bound), min(bound, 1))


@given(st.integers(0, 500))
def test_a_lone_user_fills_eight_ninths_by_default_and_everything_without_a_share(bound: int) -> None:
    for share, filled in ((Settings().admission_share, 8 * bound // 9 or min(bound, 1)), (None, bound)):
        door = Door(Settings(admitted_max=bound, admission_share=share), Notes(QUEUE))
        while door.may_enter("alice"):
            door.count("alice", +1)
        assert door.admitted == filled


class Floods:
    """k users who submit for ever, and a light one with one task at a time."""

    def __init__(self, floods: int, bound: int, when_full: str = "reject") -> None:
        self.queue = Queue(Settings(admitted_max=bound, when_full=when_full), Notes(QUEUE))
        self.names = [f"flood/{number}" for number in range(floods)]
        self.held = dict.fromkeys([*self.names, "light"], 0)
        self.bound = bound
        self.waits = when_full == "wait"

    def tell(self, message: Any) -> None:
        for _, sent in self.queue.handle(message, 0.0, DRAW).sends:
            if isinstance(sent, Enqueue):
                self.let_in(sent.task.user)

    def let_in(self, user: str) -> None:
        if self.held[user]:
            assert sum(self.held.values()) + 1 < self.bound, "the last place is for who has none"
        self.held[user] += 1

    def submit(self, user: str) -> bool:
        before = self.held[user]
        self.tell(Submit(id="t", user=user, kind=KIND, reply_to=CLIENT))
        return self.held[user] > before

    def end(self, user: str) -> None:
        self.held[user] -= 1
        self.tell(Settled(user, KIND, "t", WORKER, 1.0, 1.0, "completed", True))

    def play(self, steps: Iterable[tuple[str, int]]) -> None:
        for name in self.names:
            assert self.submit(name)
        for action, which in steps:
            flood = self.names[which % len(self.names)]
            if action == "submit":
                self.submit(flood)
            elif action == "submit all it can":
                while self.submit(flood):
                    pass
            elif action == "end and submit" and not self.waits:
                self.end(flood)
                self.submit(flood)
                assert self.held[flood], "there is a place for who has none"
            elif action == "end" and self.held[flood] > 1:
                self.end(flood)
            elif action == "light comes" and not self.held["light"]:
                assert self.submit("light"), f"the light user was refused: {self.held} of {self.bound}"
            elif action == "light goes" and self.held["light"]:
                self.end("light")


flood_steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["submit", "submit", "submit all it can", "end", "end and submit", "light comes", "light goes"]
        ),
        st.integers(0, 9),
    ),
    max_size=300,
)


@pytest.mark.parametrize("when_full", ["reject", "wait"])
@given(floods=st.integers(1, 5), more=st.integers(0, 9), steps=flood_steps)
def test_floods_leave_room_for_a_light_user_whatever_the_interleaving(
    when_full: str, floods: int, more: int, steps: list[tuple[str, int]]
) -> None:
    Floods(floods, 1 + 8 * floods + more, when_full).play(steps)


NINE_AND_EIGHT = [*[("submit", 1)] * 6, *[("submit", 0)] * 8, ("submit", 1), ("light comes", 0)]
"""To 8 and 7 of 17, then one more for each."""


def needs_counted_before(self: Door, user: str) -> int:
    """As if the room still free were counted before the newcomer takes its place."""
    held = self.held(user)
    return 1 if held == 0 else max(1, math.ceil((held + 1) / 8))


def test_two_floods_of_nine_and_eight_would_fill_seventeen_if_room_were_counted_before_the_newcomer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Floods(2, 17).play(NINE_AND_EIGHT)
    monkeypatch.setattr(Door, "needs", needs_counted_before)
    world = Floods(2, 17)
    world.let_in = lambda user: world.held.update({user: world.held[user] + 1})  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="the light user was refused"):
        world.play(NINE_AND_EIGHT)
    assert world.held == {"flood/0": 9, "flood/1": 8, "light": 0}


def test_the_property_of_floods_finds_room_counted_before_the_newcomer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Door, "needs", needs_counted_before)
    with pytest.raises(AssertionError, match="the last place is for who has none"):
        quickly(st.integers(1, 3), flood_steps)(lambda floods, steps: Floods(floods, 1 + 8 * floods).play(steps))


def test_a_refusal_names_the_bound_and_the_value() -> None:
    world = World(admitted_max=10, admitted_per_user_max=3)
    ids = [world.submit("alice") for _ in range(4)]
    assert world.error(ids[3]) == "admitted tasks of 'alice' must be at most 3, got one more"
    shared = World(admitted_max=10)
    ids = [shared.submit("alice") for _ in range(9)]
    assert shared.error(ids[8]) == (
        "admitted tasks of 'alice' must be at most admission_share (8) times the 1 of 10 places that would be left free, "
        "got 9"
    )
    for user in ("bob", "carol"):
        assert isinstance(shared.answer(shared.submit(user)), Accepted)
    assert shared.error(shared.submit("dave")) == "admitted tasks must be at most 10, got one more"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"admitted_max": 0}, "admitted tasks must be at most 0, got one more"),
        ({"admitted_per_user_max": 0}, "admitted tasks of 'alice' must be at most 0, got one more"),
    ],
)
def test_a_bound_of_zero_means_zero(options: dict[str, Any], said: str) -> None:
    world = World(**options)
    assert world.error(world.submit()) == said


def test_without_a_bound_in_all_there_is_no_share() -> None:
    world = World(admission_share=0.001)
    assert all(isinstance(world.answer(world.submit()), Accepted) for _ in range(50))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"admitted_max": -1}, "admitted_max must be a whole number >= 0, got -1"),
        ({"admitted_per_user_max": 1.5}, "admitted_per_user_max must be a whole number, got 1.5"),
        ({"admitted_per_user_max": -1}, "admitted_per_user_max must be a whole number >= 0, got -1"),
        ({"admission_share": 0.0}, "admission_share must be a finite number > 0, got 0.0"),
        ({"admission_share": math.inf}, "admission_share must be a finite number > 0, got inf"),
        ({"when_full": "dropoldest"}, "when_full must be one of reject, wait, drop_oldest, got 'dropoldest'"),
        ({"keep_completed_seconds": -1.0}, "keep_completed_seconds must be a finite number >= 0, got -1.0"),
        ({"keep_failed_seconds": math.nan}, "keep_failed_seconds must be a finite number >= 0, got nan"),
        ({"keep_cancelled_seconds": "1h"}, "keep_cancelled_seconds must be a number, got '1h'"),
    ],
    ids=str,
)
def test_a_bad_setting_is_refused_with_key_constraint_and_value(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        structure(make_converter(), options, Settings)
    assert str(caught.value) == said


class RejectMachine(DoorMachine):
    """The same at a door that refuses."""

    when_full = "reject"


def test_a_door_that_refuses_does_what_the_model_does() -> None:
    run_state_machine_as_test(RejectMachine, settings=settings(stateful_step_count=30))


def test_the_machine_finds_a_share_that_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Door, "needs", lambda self, user: 1 if self._bound is not None else 0)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(RejectMachine, settings=QUICK)


# Restarts, and messages that cross, at every sort of door


Step = tuple[Any, ...]
submits = st.tuples(
    st.just("submit"),
    st.sampled_from(USERS),
    st.sampled_from([None, None, "k"]),
    st.sampled_from([False, False, False, True]),
)
grants = st.tuples(st.just("grant"), st.sampled_from(USERS))
finishes = st.tuples(
    st.just("finish"),
    st.integers(0, 99),
    st.sampled_from(["completed", "completed", "failed", "released", "crashed"]),
    st.booleans(),
)
others = st.one_of(
    st.tuples(st.just("cancel"), st.integers(0, 99)),
    st.tuples(st.just("requeue"), st.integers(0, 99)),
    st.tuples(st.just("weigh"), st.sampled_from(USERS), st.sampled_from([0.5, 1.0, 3.0])),
    st.tuples(st.just("time"), st.sampled_from([0.5, 30.0])),
    st.tuples(st.just("maintain"), st.booleans()),
)
batches_of_steps = st.lists(
    st.lists(st.one_of(submits, submits, submits, grants, grants, finishes, finishes, others), min_size=2, max_size=8),
    min_size=1,
    max_size=25,
)
"""Each inner list is posted together, so that its messages cross those of the actors."""


def posted(world: World, step: Step) -> tuple[str, Any] | None:
    """Who is sent what in this step, if anybody."""
    action, *rest = step
    if action == "submit":
        user, key, later = rest
        run_after = world.host.now + 20.0 if later else None
        return QUEUE, world.new_submit(user, idempotency_key=key, run_after=run_after)
    if action == "grant":
        world.grants += 1
        return shard_address(rest[0]), Grant(world.grants, WORKER, frozenset({KIND}))
    if action == "weigh":
        return QUEUE, SetWeight(*rest)
    if action == "maintain":
        return QUEUE, Maintain(rest[0], CLIENT)
    wanted = {"cancel": Status.PENDING, "finish": Status.IN_PROGRESS, "requeue": Status.FAILED}[action]
    tasks = sorted((task for task in world.table if task.status is wanted), key=lambda task: task.sequence)
    if not tasks:
        return None
    task = tasks[rest[0] % len(tasks)]
    if action == "finish":
        outcome, give_up = rest[1:]
        report = Finished(task_id=task.id, token=task.token, worker_id=WORKER, outcome=outcome, give_up=give_up)
        return shard_address(task.user), report
    return shard_address(task.user), Cancel(task.id) if action == "cancel" else Requeue(task.id)


def play(world: World, batch: list[Step]) -> None:
    for step in batch:
        if step[0] == "time":
            world.settle()
            world.pass_time(step[1])
        elif (envelope := posted(world, step)) is not None:
            world.host.post(CLIENT, *envelope)
    world.settle()


def check_sane(world: World, requeues: bool) -> None:
    """Whatever crossed: nobody is answered twice, the counts are right, and the bound holds for all who came in."""
    answered = Counter(answer.submitted_id for answer in world.answers())
    assert not answered or max(answered.values()) == 1
    notes = world.notes()
    held = {key.removeprefix("held/"): count for key, count in notes.items() if key.startswith("held/")}
    assert held == (world.held() if world.settings.bounded else {})
    bound = world.settings.admitted_max
    assert requeues or bound is None or len(world.inside()) <= bound
    if world.settings.when_full != "wait":
        assert len(answered) == world.submitted, "everybody is answered"


def check_restarts(options: dict[str, Any], batches: list[list[Step]]) -> None:
    """A queue that is rebuilt from its notes before every message does all that one does that never was."""
    plain, restarting = World(**options), World(restarting=True, **options)
    requeues = False
    for batch in batches:
        for world in (plain, restarting):
            play(world, batch)
        requeues |= any(step[0] == "requeue" for step in batch)
        check_sane(plain, requeues)
        assert restarting.events == plain.events
        assert repr(restarting.sinks[CLIENT].got) == repr(plain.sinks[CLIENT].got)
        assert list(restarting.table) == list(plain.table)
        assert restarting.notes() == plain.notes()
        assert restarting.host.next_timer() == plain.host.next_timer()


doors = st.fixed_dictionaries(
    {
        "when_full": st.sampled_from(["reject", "wait", "drop_oldest", "drop_oldest"]),
        "admitted_max": st.sampled_from([None, 0, 2, 3, 4, 5, 9]),
        "admitted_per_user_max": st.sampled_from([None, None, 2]),
        "admission_share": st.sampled_from([None, 0.5, 8.0]),
        "keep_completed_seconds": st.sampled_from([None, 0.0, 20.0]),
        "keep_failed_seconds": st.sampled_from([None, 40.0]),
    }
)


@given(doors, batches_of_steps)
def test_a_restart_between_any_two_messages_changes_nothing(options: dict[str, Any], batches: list[list[Step]]) -> None:
    check_restarts(options, batches)


def in_memory_tags(self: WaitingRoom, user: str, tag: float) -> None:
    self._tags[user] = tag


def in_memory_drops(self: Pushout, newcomer: str | None, victim: str | None, tried: list[str]) -> None:
    self.newcomer, self.victim, self._tried = newcomer, victim, tried


def in_memory_counts(self: Door, user: str, difference: int) -> None:
    self._held[user] = self._held.get(user, 0) + difference
    self.admitted += difference


def in_memory_joins(self: WaitingRoom, submit: Submit, join: Any = WaitingRoom.join) -> bool:
    """Keeps who joined where the next restart does not find it."""
    before = self._notes.written.copy()
    joined: bool = join(self, submit)
    self._notes.written.clear()
    self._notes.written.update(before)
    return joined


def no_timer(self: Queue, now: float) -> Effects:
    return Effects()


FORGOTTEN: dict[str, tuple[Any, str, Any]] = {
    "tags": (WaitingRoom, "_set_tag", in_memory_tags),
    "drops": (Pushout, "_note", in_memory_drops),
    "counts": (Door, "count", in_memory_counts),
    "weights": (Door, "set_weight", lambda self, user, weight: self._weights.update({user: weight})),
    "those who joined": (WaitingRoom, "join", in_memory_joins),
    "timers": (Queue, "start", no_timer),
}


@pytest.mark.parametrize("what", FORGOTTEN)
def test_the_property_of_restarts_finds_what_is_forgotten(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, replacement = FORGOTTEN[what]
    monkeypatch.setattr(owner, name, replacement)
    # A queue that cannot make sense of its notes crashes instead, which is as good.
    with pytest.raises((AssertionError, KeyError)):
        quickly(doors, batches_of_steps)(check_restarts)
