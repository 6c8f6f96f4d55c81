"""The door as submitters meet it: refused, let in by fair share, let in for another's oldest, and gone again unharmed."""

from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import (
    Cause,
    NewTask,
    QueueFull,
    RetryPolicy,
    Runtime,
    RuntimeStopped,
    SomeRefused,
    Status,
    TaskFailed,
    UserOptions,
    open_runtime,
)
from tests.test_handle import on_virtual_time


async def fill(runtime: Runtime, user: str, count: int) -> int:
    """Submit until the door says no, or so many are in; how many are."""
    for number in range(count):
        try:
            await runtime.submit("x", user=user)
        except QueueFull:
            return number
    return count


# Refusing


async def test_a_full_door_refuses_and_says_which_bound_it_was() -> None:
    async with open_runtime(admitted_max=3, admission_share=None) as runtime:
        assert await fill(runtime, "alice", 10) == 3
        with pytest.raises(QueueFull) as full:
            await runtime.submit("x", user="bob")
        assert str(full.value) == "admitted tasks must be at most 3, got one more"
        with pytest.raises(QueueFull):
            runtime.submit_nowait("x", user="bob")
        with pytest.raises(SomeRefused) as refused:
            await runtime.submit_many([NewTask("x"), NewTask("x")])
        assert [type(error) for error in refused.value.errors.values()] == [QueueFull, QueueFull]
        assert len(runtime.tasks()) == 3


async def test_a_bound_on_each_user_is_nobody_elses() -> None:
    async with open_runtime(admitted_per_user_max=2) as runtime:
        assert [await fill(runtime, user, 10) for user in ("alice", "bob")] == [2, 2]
        with pytest.raises(QueueFull) as full:
            await runtime.submit("x", user="alice")
        assert str(full.value) == "admitted tasks of 'alice' must be at most 2, got one more"


async def test_a_bound_of_zero_lets_nobody_in_and_none_everybody() -> None:
    async with open_runtime(admitted_max=0) as runtime:
        with pytest.raises(QueueFull, match="admitted tasks must be at most 0, got one more"):
            await runtime.submit("x")
    async with open_runtime(admitted_max=None) as runtime:
        assert await fill(runtime, "alice", 500) == 500


@pytest.mark.parametrize("bound", [9, 18, 90])
async def test_a_lone_user_fills_eight_ninths(bound: int) -> None:
    async with open_runtime(admitted_max=bound) as runtime:
        assert await fill(runtime, "alice", 2 * bound) == bound * 8 // 9
        assert await fill(runtime, "bob", 1) == 1


@given(data=st.data(), floods=st.integers(1, 3), extra=st.integers(0, 4))
@settings(max_examples=40)
def test_floods_leave_room_for_who_has_nothing_inside(data: st.DataObject, floods: int, extra: int) -> None:
    """k floods that never let up, whatever their interleaving, and a bound of at least 1 + 8k."""
    bound = 1 + 8 * floods + extra
    order = data.draw(st.lists(st.integers(0, floods - 1), min_size=2 * bound, max_size=3 * bound))

    async def program() -> None:
        async with open_runtime(admitted_max=bound) as runtime:
            for flood in [*range(floods), *order]:
                await fill(runtime, f"flood{flood}", 1)
            assert len(runtime.tasks(limit=None)) < bound
            assert await fill(runtime, "light", 1) == 1

    on_virtual_time(program)


@pytest.mark.parametrize("way", ["completed", "failed", "cancelled"])
async def test_a_place_is_free_again_when_its_task_has_ended(way: str, autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1, admitted_max=1) as runtime:

        @runtime.handler("x", max_retries=0)
        async def end(payload: None) -> None:
            await trio.sleep(5)
            if way == "failed":
                raise ValueError("boom")

        handle = await runtime.submit("x")
        await trio.sleep(1)
        with pytest.raises(QueueFull):
            await runtime.submit("x")
        if way == "cancelled":
            await handle.cancel()
        assert (await handle.wait()).status == way
        await runtime.submit("x")


async def test_a_retry_has_its_place_already(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1, admitted_max=1) as runtime:

        @runtime.handler("x", retry=RetryPolicy(base_seconds=60, max_retries=2))
        async def fails(payload: None) -> None:
            raise ValueError("boom")

        handle = await runtime.submit("x")
        await trio.sleep(1)
        assert handle.task().status is Status.PENDING
        with pytest.raises(QueueFull):
            await runtime.submit("x")
        assert (await handle.wait()).attempts == 3


# Waiting


def submit_to(runtime: Runtime, user: str, entered: list[str]) -> Callable[[], Awaitable[None]]:
    async def submit() -> None:
        await runtime.submit("sleep", 1, user=user)
        entered.append(user)

    return submit


async def test_a_submit_waits_for_a_place(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1, admitted_max=1, when_full="wait") as runtime:
        runtime.handler("sleep")(trio.sleep)
        began = trio.current_time()
        for _ in range(4):
            await runtime.submit("sleep", 10)
        assert trio.current_time() - began == pytest.approx(30)


async def test_who_waits_is_let_in_by_fair_share_and_not_by_arrival(autojump_clock: trio.abc.Clock) -> None:
    entered: list[str] = []
    async with open_runtime(workers=1, admitted_max=1, when_full="wait") as runtime:
        runtime.handler("sleep")(trio.sleep)
        await runtime.submit("sleep", 10, user="first")
        async with trio.open_nursery() as nursery:
            for user in ["alice"] * 6 + ["bob"] * 2:
                nursery.start_soon(submit_to(runtime, user, entered))
                await trio.sleep(0.1)
    assert entered[:4].count("bob") == 2 and entered[4:] == ["alice"] * 4


async def test_who_was_not_at_the_door_has_banked_nothing(autojump_clock: trio.abc.Clock) -> None:
    """alice has been let in ten times when bob comes: from then on they take turns."""
    entered: list[str] = []
    async with open_runtime(workers=1, admitted_max=1, when_full="wait") as runtime:
        runtime.handler("sleep")(trio.sleep)
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(submit_to(runtime, "alice", entered))
            await trio.sleep(9.5)
            entered.clear()
            for _ in range(5):
                nursery.start_soon(submit_to(runtime, "bob", entered))
    assert abs(entered[:6].count("bob") - 3) <= 1


@given(
    weights=st.tuples(st.sampled_from([0.5, 1.0, 2.0, 3.0]), st.sampled_from([1.0, 2.5])),
    arrivals=st.lists(st.sampled_from(["alice", "bob"]), min_size=10, max_size=40),
    workers=st.integers(1, 3),
)
@settings(max_examples=40)
def test_who_waits_together_is_let_in_by_weight(
    weights: tuple[float, float], arrivals: list[str], workers: int
) -> None:
    """|A_f/w_f - A_g/w_g| <= 1/w_f + 1/w_g over any interval in which both wait."""
    weight = dict(zip(("alice", "bob"), weights, strict=True))
    users = {user: UserOptions(weight=value) for user, value in weight.items()}

    async def program() -> list[str]:
        entered: list[str] = []
        async with open_runtime(
            workers=workers, admitted_max=1, admission_share=None, when_full="wait", users=users, drain=True
        ) as runtime:
            runtime.handler("sleep")(trio.sleep)
            await runtime.submit("sleep", 10, user="first")
            async with trio.open_nursery() as nursery:
                for user in arrivals:
                    nursery.start_soon(submit_to(runtime, user, entered))
                    await trio.sleep(0.01)
        return entered

    entered = on_virtual_time(program)
    assert Counter(entered) == Counter(arrivals)
    left, leads = Counter(arrivals), [0.0]
    for user in entered:
        if min(left["alice"], left["bob"]) == 0:
            break
        left[user] -= 1
        leads.append(leads[-1] + (1 if user == "alice" else -1) / weight[user])
    assert max(leads) - min(leads) <= sum(1 / value for value in weight.values()) + 1e-9


@given(
    waits=st.lists(st.tuples(st.integers(0, 60), st.none() | st.integers(0, 60)), min_size=1, max_size=8),
    way=st.sampled_from(["one", "many", "soon"]),
)
@settings(max_examples=60)
def test_a_submit_that_gave_up_waiting_is_not_in_and_one_that_did_not_is(
    waits: list[tuple[int, int | None]], way: str
) -> None:
    """Each submits at one time and gives up at another, or never; a place is free every ten seconds."""

    async def program() -> None:
        admitted: list[str] = []
        async with open_runtime(workers=1, admitted_max=1, when_full="wait", drain=True) as runtime:
            runtime.handler("sleep")(trio.sleep)
            await runtime.submit("sleep", 10, user="first")
            began = trio.current_time()

            async def submit(user: str, since: int, until: int | None) -> None:
                await trio.sleep_until(began + since)
                scope = trio.CancelScope() if until is None else trio.CancelScope(deadline=began + until)
                with scope:
                    if way == "one":
                        await runtime.submit("sleep", 10, user=user)
                    elif way == "many":
                        await runtime.submit_many([NewTask("sleep", 10, user=user)])
                    else:
                        await runtime.run_soon(trio.sleep, 10, user=user)
                    admitted.append(user)

            async with trio.open_nursery() as nursery:
                for number, (since, until) in enumerate(waits):
                    nursery.start_soon(submit, f"user{number}", since, until)
            inside = {task.user for task in runtime.tasks()} - {"first"}
            assert inside == set(admitted)
            assert all(f"user{number}" in inside for number, (_, until) in enumerate(waits) if until is None)

    on_virtual_time(program)


async def test_of_many_that_give_up_waiting_those_that_are_in_stay_in(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1, admitted_max=2, admission_share=None, when_full="wait") as runtime:
        runtime.handler("sleep")(trio.sleep)
        with trio.move_on_after(15):
            await runtime.submit_many([NewTask("sleep", 10) for _ in range(6)])
        await trio.sleep(100)
        assert [task.status for task in runtime.tasks()] == [Status.COMPLETED] * 3


async def test_who_waits_behind_one_that_gave_up_is_let_in_as_if_it_had_never_been(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(workers=1, admitted_max=1, when_full="wait") as runtime:
        runtime.handler("sleep")(trio.sleep)
        began = trio.current_time()
        await runtime.submit("sleep", 10)

        async def give_up() -> None:
            with trio.move_on_after(5):
                await runtime.submit("sleep", 1_000, user="alice")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(give_up)
            await trio.sleep(1)
            await runtime.submit("sleep", 1, user="alice")
            assert trio.current_time() - began == pytest.approx(10)
    assert [task.user for task in runtime.tasks()] == ["default", "alice"]


async def test_submits_of_one_key_wait_together_and_one_that_gives_up_leaves_the_other(
    autojump_clock: trio.abc.Clock,
) -> None:
    ids: list[str] = []
    async with open_runtime(workers=1, admitted_max=1, when_full="wait") as runtime:
        runtime.handler("sleep")(trio.sleep)
        await runtime.submit("sleep", 10)

        async def submit(payload: int, patience: float) -> None:
            with trio.move_on_after(patience):
                ids.append((await runtime.submit("sleep", payload, user="alice", idempotency_key="k")).id)

        async with trio.open_nursery() as nursery:
            for payload, patience in ((1, 5), (2, 100), (3, 100)):
                nursery.start_soon(submit, payload, patience)
                await trio.sleep(0.1)
        assert len(ids) == 2 and len(set(ids)) == 1
        assert len(runtime.tasks(user="alice")) == 1


async def test_who_waits_when_the_runtime_ends_is_told_so_and_is_not_in(autojump_clock: trio.abc.Clock) -> None:
    told: list[str] = []
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery, open_runtime(admitted_max=1, when_full="wait") as runtime:

            async def submit() -> None:
                with pytest.raises(RuntimeStopped) as stopped:
                    await runtime.submit("x", user="bob")
                told.append(str(stopped.value))

            await runtime.submit("x", user="alice")
            nursery.start_soon(submit)
            await trio.sleep(1)
    assert told == ["the runtime has stopped"]
    assert [task.user for task in runtime.left] == ["alice"]


# Making room


async def test_the_oldest_of_who_has_most_waiting_makes_room(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1, admitted_max=4, admission_share=None, when_full="drop_oldest") as runtime:
        alice = [await runtime.submit("x", number, user="alice") for number in range(3)]
        bob = await runtime.submit("x", user="bob")
        carol = await runtime.submit("x", user="carol")
        with pytest.raises(TaskFailed) as failed:
            await alice[0].result()
        assert str(failed.value) == (
            "alice#1 failed (dropped) after 0 executions: dropped to make room: the queue was full"
        )
        (letter,) = runtime.dead_letters()
        assert (letter.id, letter.cause) == (alice[0].id, Cause.DROPPED)
        live = [task.id for task in runtime.tasks(status="pending")]
        assert live == [alice[1].id, alice[2].id, bob.id, carol.id]


async def test_who_weighs_more_may_have_more_waiting_before_it_pays(autojump_clock: trio.abc.Clock) -> None:
    users = {"alice": UserOptions(weight=10)}
    async with open_runtime(admitted_max=5, admission_share=None, when_full="drop_oldest", users=users) as runtime:
        for user in ["alice"] * 3 + ["bob"] * 2:
            await runtime.submit("x", user=user)
        await runtime.submit("x", user="carol")
        assert [task.user for task in runtime.dead_letters()] == ["bob"]
        await runtime.set_weight("alice", 0.1)
        await runtime.submit("x", user="dave")
        assert [task.user for task in runtime.dead_letters()] == ["bob", "alice"]


async def test_what_runs_is_not_dropped_and_a_newcomer_for_whom_nothing_can_be_is_refused(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(workers=2, admitted_max=2, admission_share=None, when_full="drop_oldest") as runtime:
        runtime.handler("sleep")(trio.sleep)
        running = [await runtime.submit("sleep", 10, user="alice") for _ in range(2)]
        with pytest.raises(QueueFull, match="admitted tasks must be at most 2, got one more"):
            await runtime.submit("sleep", 10, user="bob")
        assert [(await handle.wait()).status for handle in running] == [Status.COMPLETED] * 2
