"""Statistics against a count over every task and every event, after anything that may happen to a runtime."""

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import example, given
from hypothesis import strategies as st

from actors import EvenhandError, Lifetime, Options, Priority, RetryPolicy, Runtime, Status, Task
from actors import stats as stats_module
from actors.meter import WINDOW_SECONDS
from actors.opening import run_runtime
from actors.shard import Shard
from actors.trace import (
    ActorRestarted,
    Admitted,
    Cancelled,
    Completed,
    DeadLettered,
    Event,
    Recovered,
    Released,
    ReportRefused,
    Requeued,
    Retried,
    Started,
    StopIgnored,
    SubmitRefused,
    Swept,
)
from tests.test_sharing import finds

BEGIN = 1.7e9
WORKERS = 2

Scenario = Callable[[Runtime, list[Event]], Awaitable[None]]


def run(scenario: Scenario, **options: Any) -> None:
    """A scenario on virtual time, with all that happens in a list."""

    async def main() -> None:
        said = {"workers": WORKERS, "seed": 0} | options
        async with run_runtime(Options(**said), resources={}, wall_clock=lambda: BEGIN, threads=False) as runtime:
            seen: list[Event] = []
            runtime._engine.add_sink(seen.append)
            register(runtime)
            await scenario(runtime, seen)
            await runtime.stop(0.0)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def register(runtime: Runtime) -> None:
    retry = RetryPolicy(max_retries=1, base_seconds=20, jitter=0)

    @runtime.handler("quick")
    async def quick(payload: Any) -> None:
        pass

    @runtime.handler("slow")
    async def slow(payload: Any) -> None:
        await trio.sleep(7)

    @runtime.handler("fails", retry=retry)
    async def fails(payload: Any) -> None:
        await trio.sleep(1)
        raise ValueError("boom")

    @runtime.handler("stubborn", timeout_seconds=3, max_retries=0)
    async def stubborn(payload: Any) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(30)


# Whatever may happen

users = st.sampled_from(["alice", "bob", "tenant/carol"])
kinds = st.sampled_from(["quick", "slow", "fails", "stubborn", "nobody"])
submits = st.fixed_dictionaries(
    {"kind": kinds, "user": users},
    optional={
        "priority": st.sampled_from(list(Priority)),
        "delay_seconds": st.sampled_from([0, 5, 100, 400]),
        "expires_after_seconds": st.sampled_from([1, 50]),
    },
)
steps = st.one_of(
    st.tuples(st.just("submit"), submits),
    st.tuples(st.just("submit"), submits),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 3.0, 10.0, 59.0, 61.0, 200.0])),
    st.tuples(st.just("cancel"), st.integers(0, 20)),
    st.tuples(st.just("requeue"), st.integers(0, 20)),
    st.tuples(st.just("delete"), st.integers(0, 20)),
    st.tuples(st.just("pause"), users),
    st.tuples(st.just("resume"), users),
    st.tuples(st.just("maintain"), st.booleans()),
    st.tuples(st.just("submit nonsense"), st.none()),
)
SCRIPTS: dict[str, Any] = {
    "script": st.integers(1, 40).flatmap(lambda length: st.lists(steps, min_size=length, max_size=length))
}


async def act(runtime: Runtime, what: str, value: Any) -> None:
    if what == "wait":
        await trio.sleep(value)
        return
    tasks = runtime.tasks(limit=None)
    # What is refused is refused, and counted.
    with suppress(EvenhandError):
        match what:
            case "submit":
                await runtime.submit(**value)
            case "submit nonsense":
                await runtime.submit("quick", user="")
            case "cancel" | "requeue" | "delete" if tasks:
                await getattr(runtime, what)(tasks[value % len(tasks)].id)
            case "pause" | "resume":
                await getattr(runtime, what)(user=value)
            case "maintain":
                await runtime.maintain(everything=value)


@given(**SCRIPTS)
@example(script=[("submit", {"kind": "fails", "user": "bob"}), ("wait", 10.0), ("wait", 61.0), ("requeue", 0)])
@example(
    script=[
        ("submit", {"kind": "nobody", "user": "bob", "delay_seconds": 100}),
        ("submit", {"kind": "nobody", "user": "bob"}),
        ("wait", 200.0),
    ]
)
def test_every_figure_is_what_a_count_over_everything_gives(script: list[tuple[str, Any]]) -> None:
    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        for what, value in script:
            await act(runtime, what, value)
            check(runtime, seen)

    run(scenario, admitted_max=12)


def check(runtime: Runtime, seen: list[Event]) -> None:
    stats, tasks, now = runtime.stats(), runtime.tasks(limit=None), BEGIN + trio.current_time()
    assert stats.at == now and stats.uptime_seconds == trio.current_time()
    assert stats.by_status == counted(tasks)
    assert (stats.pending, stats.in_progress) == (
        sum(task.status is Status.PENDING for task in tasks),
        sum(task.status is Status.IN_PROGRESS for task in tasks),
    )
    for found, key in ((stats.by_kind, "kind"), (stats.by_user, "user"), (stats.by_priority, "priority")):
        of_each = {value: counted([task for task in tasks if getattr(task, key) == value]) for value in found}
        assert found == of_each
        assert {getattr(task, key) for task in tasks} <= set(found)
    assert list(stats.by_priority) == list(Priority)
    assert stats.workers == WORKERS
    assert stats.in_progress <= stats.workers_busy <= WORKERS
    assert stats.oldest_wait_seconds == oldest_wait(tasks, now)
    check_recent(runtime, seen, now)
    check_lifetime(stats.lifetime, seen)


def counted(tasks: list[Task]) -> dict[Status, int]:
    found = Counter(task.status for task in tasks)
    return {status: found[status] for status in Status}


def oldest_wait(tasks: list[Task], now: float) -> float:
    """Since each task that waits could last run: when it came, came back, or its delay was over."""
    since = [
        max(task.order_at, task.updated_at, task.order_at if task.run_after is None else task.run_after)
        for task in tasks
        if task.status is Status.PENDING
    ]
    return max([0.0, *(now - at for at in since)])


def check_recent(runtime: Runtime, seen: list[Event], now: float) -> None:
    """Over the last four minutes, and as much of the fifth as is over of the current one."""
    stats = runtime.stats()
    since = max(BEGIN, BEGIN + (trio.current_time() // WINDOW_SECONDS - 4) * WINDOW_SECONDS)
    recent = [event for event in seen if event.at >= since]
    waits = [event.waited_seconds for event in recent if isinstance(event, Started)]
    waited = sorted(wait for wait in waits if wait is not None)
    for found, part in ((stats.wait_seconds_p50, 0.5), (stats.wait_seconds_p99, 0.99)):
        if not waited:
            assert found is None
            continue
        exact = waited[-int(-part * len(waited) // 1) - 1]
        assert found is not None and abs(found - exact) <= max(exact / 20, 1e-6)
    completed = sum(isinstance(event, Completed) for event in recent)
    assert stats.completed_per_second == completed / max(now - since, 1e-3)


FIELDS: dict[str, type] = {
    "admitted": Admitted,
    "refused": SubmitRefused,
    "started": Started,
    "completed": Completed,
    "retried": Retried,
    "failed": DeadLettered,
    "cancelled": Cancelled,
    "recovered": Recovered,
    "released": Released,
    "requeued": Requeued,
    "removed": Swept,
    "late_reports": ReportRefused,
    "stops_ignored": StopIgnored,
    "restarts": ActorRestarted,
}


def check_lifetime(lifetime: Lifetime, seen: list[Event]) -> None:
    for field, kind in FIELDS.items():
        assert getattr(lifetime, field) == sum(type(event) is kind for event in seen), field


def first_that_could_run(engine: Any, now: float) -> tuple[float, Any]:
    """In the order of admission: which is not the order in which they began to wait."""
    for task in engine.table.every_live():
        if task.status is Status.PENDING and (task.run_after is None or task.run_after <= now):
            return now - task.order_at, task
    return 0.0, None


def test_a_wait_that_is_not_the_longest_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_module, "_oldest_wait", first_that_could_run)
    finds(test_every_figure_is_what_a_count_over_everything_gives, **SCRIPTS)


# One by one


def test_every_sort_of_event_is_counted_where_it_belongs_and_nowhere_else() -> None:
    """Also those that a healthy runtime never has."""

    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        rare: dict[str, Event] = {
            "recovered": Recovered(BEGIN, "alice#1", 1, "worker/1", 1.0),
            "late_reports": ReportRefused(BEGIN, "alice#1", 1, 2, "completed", "worker/1"),
            "stops_ignored": StopIgnored(BEGIN, "alice#1", 1, "worker/1", "timed out"),
            "restarts": ActorRestarted(BEGIN, "queue", "boom"),
        }
        for field, event in rare.items():
            before = runtime.stats().lifetime
            runtime._engine._observe(event)
            after = runtime.stats().lifetime
            changed = {name for name in [*FIELDS, "undelivered"] if getattr(after, name) != getattr(before, name)}
            assert changed == {field}

    run(scenario)


def test_messages_that_nobody_could_handle_are_counted() -> None:
    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        runtime.tell("nobody", "hello")
        assert runtime.stats().lifetime.undelivered == 1 == len(runtime.undelivered())

    run(scenario)


def test_a_worker_that_cannot_stop_is_busy_until_it_does() -> None:
    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        await runtime.submit("stubborn")
        await trio.sleep(15)
        stats = runtime.stats()
        assert (stats.in_progress, stats.workers_busy, stats.lifetime.stops_ignored) == (0, 1, 1)
        await trio.sleep(20)
        assert runtime.stats().workers_busy == 0

    run(scenario)


def test_the_index_is_as_healthy_as_the_lanes_of_all_shards_together() -> None:
    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        assert runtime.stats().index_health == 1.0
        handles = [await runtime.submit("nobody", user=f"user{number % 3}") for number in range(30)]
        assert runtime.stats().index_health == 1.0
        for handle in handles[3::2]:
            await handle.cancel()
        host = runtime._engine.host
        shards = [core for address in host.addresses() if isinstance(core := host.core(address), Shard)]
        live, entries = (sum(sizes) for sizes in zip(*(shard.index_size for shard in shards), strict=True))
        assert live == 16 < entries
        assert runtime.stats().index_health == live / entries

    run(scenario)


def test_asking_changes_nothing_and_what_was_given_never_changes() -> None:
    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        await runtime.submit("slow", user="alice")
        before = runtime.stats()
        assert runtime.stats() == before
        await trio.sleep(10)
        assert before.in_progress == 1 and before.by_user["alice"][Status.IN_PROGRESS] == 1
        assert runtime.stats().by_user["alice"][Status.COMPLETED] == 1

    run(scenario)


def test_to_find_the_longest_wait_only_those_before_it_are_looked_at() -> None:
    """A long backlog behind it must not be."""

    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        for number in range(200):
            await runtime.submit("nobody", user=f"user{number % 7}", delay_seconds=1_000 if number < 5 else None)
            await trio.sleep(1)
        looked = 0
        every_live = runtime._engine.table.every_live

        def counting() -> Any:
            nonlocal looked
            for task in every_live():
                looked += 1
                yield task

        runtime._engine.table.every_live = counting  # type: ignore[method-assign]
        assert runtime.stats().oldest_wait_seconds == 195.0
        assert looked <= 7

    run(scenario)
