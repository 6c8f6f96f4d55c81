"""What can be asked about tasks, and what can be done to them: get, list, cancel, requeue, delete, purge, sweep, explain."""

from itertools import pairwise, product
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import (
    Cause,
    GiveUp,
    InvalidConfig,
    InvalidTransition,
    NewTask,
    Retry,
    RetryPolicy,
    Runtime,
    Status,
    Task,
    TaskCancelled,
    TaskFailed,
    UnknownTask,
    open_runtime,
    shard,
)
from actors.messages import Beat
from tests.test_handle import on_virtual_time

AT_ONCE = RetryPolicy(base_seconds=0, jitter=0)


async def fate(payload: str) -> str:
    """Does what its payload says."""
    if payload == "fail":
        raise ValueError("boom")
    if payload == "hang":
        await trio.sleep_forever()
    return payload


def register(runtime: Runtime) -> None:
    for kind in ("x", "y"):
        runtime.handler(kind, max_retries=0, timeout_seconds=None)(fate)


# Looking


async def test_a_task_can_be_looked_up_until_it_is_removed(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        register(runtime)
        handle = await runtime.submit("x", "done")
        assert (await handle.wait()) is runtime.get(handle.id) is handle.task()
        assert handle.task().result == "done"
        await runtime.delete(handle.id)
        for look in (runtime.get, runtime.explain):
            with pytest.raises(UnknownTask) as unknown:
                look(handle.id)
            assert str(unknown.value) == f"no task has id {handle.id!r}"
        with pytest.raises(UnknownTask):
            await handle.result()


KINDS, USERS = ("x", "y", "z"), ("alice", "bob")


@given(
    tasks=st.lists(
        st.tuples(
            st.sampled_from(KINDS), st.sampled_from(USERS), st.sampled_from(["done", "fail", "hang"]), st.booleans()
        ),
        max_size=15,
    ),
    limit=st.none() | st.integers(0, 5),
    offset=st.integers(0, 5),
)
@settings(max_examples=60)
def test_lists_are_what_a_plain_filter_gives(
    tasks: list[tuple[str, str, str, bool]], limit: int | None, offset: int
) -> None:
    """Nobody runs kind z, so some wait; of these some are cancelled, and of those that failed some are put back."""

    async def program() -> None:
        async with open_runtime(workers=4, stop_grace_seconds=0) as runtime:
            register(runtime)
            handles = await runtime.submit_many([NewTask(kind, does, user=user) for kind, user, does, _ in tasks])
            await trio.sleep(1)
            await runtime.pause()
            for handle, (_, _, _, touched) in zip(handles, tasks, strict=True):
                if touched and handle.task().status is Status.PENDING:
                    await handle.cancel()
                if touched and handle.task().status is Status.FAILED:
                    await runtime.requeue(handle.id)
            every = [handle.task() for handle in handles]
            for status, kind, user in product((None, *Status), (None, *KINDS), (None, *USERS)):
                wanted = [task for task in every if fits(task, status, kind, user)]
                found = runtime.tasks(status=status, kind=kind, user=user, limit=None)
                if status is None or not status.terminal:
                    assert found == wanted
                else:
                    assert sorted(found, key=lambda task: task.sequence) == wanted
                    assert [task.completed_at for task in found] == sorted(task.completed_at or 0 for task in wanted)
                end = None if limit is None else offset + limit
                some = runtime.tasks(status=status, kind=kind, user=user, limit=limit, offset=offset)
                assert some == found[offset:end]
                if status is Status.FAILED:
                    assert runtime.dead_letters(kind=kind, user=user, limit=limit) == found[:limit]

    on_virtual_time(program)


def fits(task: Task, status: Status | None, kind: str | None, user: str | None) -> bool:
    return status in (None, task.status) and kind in (None, task.kind) and user in (None, task.user)


async def test_a_list_has_a_hundred_tasks_unless_more_are_asked_for(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        await runtime.submit_many([NewTask("x") for _ in range(120)])
        assert (len(runtime.tasks()), len(runtime.tasks(limit=110)), len(runtime.tasks(limit=None))) == (100, 110, 120)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({"status": "done"}, "status must be one of pending, in_progress, completed, failed, cancelled, got 'done'"),
        ({"limit": -1}, "limit must be a whole number >= 0, got -1"),
        ({"limit": 1.5}, "limit must be a whole number >= 0, got 1.5"),
        ({"offset": -2}, "offset must be a whole number >= 0, got -2"),
        ({"offset": None}, "offset must be a whole number >= 0, got None"),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(question: dict[str, Any], said: str) -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(InvalidConfig) as refused:
            runtime.tasks(**question)
        assert str(refused.value) == said


async def test_dead_letters_of_a_cause_that_does_not_exist_are_refused() -> None:
    async with open_runtime(workers=1) as runtime:
        said = "cause must be one of failed, expired, poisoned, dropped, got 'lost'"
        with pytest.raises(InvalidConfig, match=said):
            runtime.dead_letters(cause="lost")
        with pytest.raises(InvalidConfig, match="limit must be a whole number >= 0, got -1"):
            runtime.dead_letters(limit=-1)
        with pytest.raises(InvalidConfig, match=said):
            await runtime.purge(cause="lost")


# Cancelling


async def test_a_waiting_task_is_cancelled_at_once_and_never_runs(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        await runtime.pause()
        register(runtime)
        handle = await runtime.submit("x", "done", user="alice")
        await handle.cancel()
        assert handle.task().status is Status.CANCELLED
        await runtime.resume()
        await trio.sleep(1)
        with pytest.raises(TaskCancelled, match="alice#1 was cancelled"):
            await handle.result()
        assert (handle.task().attempts, handle.task().history) == (0, ())


async def test_a_running_task_is_told_to_stop(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        register(runtime)
        handle = await runtime.submit("x", "hang")
        await trio.sleep(5)
        await handle.cancel()
        with trio.fail_after(1):
            with pytest.raises(TaskCancelled) as cancelled:
                await handle.result()
        (attempt,) = cancelled.value.history
        assert attempt.outcome == "cancelled" and attempt.ended_at - attempt.started_at == pytest.approx(5)


async def test_a_result_that_comes_before_the_stop_counts(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("stubborn")
        async def stubborn(payload: None) -> str:
            with trio.CancelScope(shield=True):
                await trio.sleep(2)
            return "done"

        handle = await runtime.submit("stubborn")
        await trio.sleep(1)
        await handle.cancel()
        assert handle.task().status is Status.IN_PROGRESS and handle.task().cancel_requested
        assert await handle.result() == "done"


@pytest.mark.parametrize(("does", "status"), [("done", "completed"), ("fail", "failed")])
async def test_what_has_ended_cannot_be_cancelled(does: str, status: str) -> None:
    async with open_runtime(workers=1) as runtime:
        register(runtime)
        handle = await runtime.submit("x", does)
        await handle.wait()
        with pytest.raises(InvalidTransition) as refused:
            await handle.cancel()
        assert str(refused.value) == f"a {status} task cannot be cancelled ({status} -> cancelled)"
        with pytest.raises(UnknownTask, match="no task has id 'nobody'"):
            await runtime.cancel("nobody")


# Putting back


async def test_a_dead_letter_that_is_put_back_runs_again(autojump_clock: trio.abc.Clock) -> None:
    works = False
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("x", retry=AT_ONCE, max_retries=2)
        async def sometimes(payload: None) -> str:
            if not works:
                raise ValueError("boom")
            return "done"

        handle = await runtime.submit("x")
        with pytest.raises(TaskFailed, match=r"failed after 3 executions: ValueError: boom"):
            await handle.result()
        token = handle.task().token
        await runtime.requeue(handle.id)
        with pytest.raises(TaskFailed, match="after 4 executions"):
            await handle.result()
        assert handle.task().token > token
        await runtime.requeue(handle.id, reset_retries=True)
        with pytest.raises(TaskFailed, match="after 7 executions"):
            await handle.result()
        works = True
        await runtime.requeue(handle.id)
        assert await handle.result() == "done" and runtime.dead_letters() == []
        tokens = [attempt.token for attempt in handle.task().history]
        assert tokens == sorted(set(tokens)) and len(tokens) == 8


async def test_a_running_task_that_is_put_back_runs_again_and_its_first_run_is_fenced(
    autojump_clock: trio.abc.Clock,
) -> None:
    begun: list[int] = []
    async with open_runtime(workers=2) as runtime:

        @runtime.handler("x")
        async def slow(payload: None) -> int:
            begun.append(len(begun))
            mine = begun[-1]
            await trio.sleep(10 - mine)
            return mine

        handle = await runtime.submit("x")
        await trio.sleep(5)
        await runtime.requeue(handle.id)
        assert await handle.result() == 1 and begun == [0, 1]
        await trio.sleep(100)
        assert handle.task().result == 1
        assert [attempt.outcome for attempt in handle.task().history] == ["requeued", "completed"]


@pytest.mark.parametrize("status", ["completed", "cancelled", "pending"])
async def test_what_waits_is_done_or_was_cancelled_cannot_be_put_back(
    status: str, autojump_clock: trio.abc.Clock
) -> None:
    """Completed and cancelled are final, and what waits is where it would be put."""
    async with open_runtime(workers=1) as runtime:
        register(runtime)
        handle = await runtime.submit("x", "done", delay_seconds=None if status == "completed" else 99)
        if status == "cancelled":
            await handle.cancel()
        await trio.sleep(1)
        with pytest.raises(InvalidTransition) as refused:
            await runtime.requeue(handle.id)
        assert str(refused.value) == f"a {status} task cannot be requeued ({status} -> pending)"
        with pytest.raises(UnknownTask):
            await runtime.requeue("nobody")


# Removing


async def test_only_what_has_ended_can_be_removed(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1, stop_grace_seconds=0) as runtime:
        register(runtime)
        running, waiting = [await runtime.submit("x", "hang") for _ in range(2)]
        await trio.sleep(1)
        for handle, status in ((running, "in_progress"), (waiting, "pending")):
            with pytest.raises(InvalidTransition) as refused:
                await runtime.delete(handle.id)
            assert str(refused.value) == f"a task that is {status} cannot be deleted: cancel it first"
        await waiting.cancel()
        await runtime.delete(waiting.id)
        assert runtime.tasks() == [running.task()]
        with pytest.raises(UnknownTask, match="no task has id"):
            await runtime.delete(waiting.id)


async def test_dead_letters_are_purged_by_what_they_are(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        register(runtime)
        tasks = [NewTask(kind, "fail", user=user) for kind in "xy" for user in ("alice", "bob")]
        expiring = [NewTask("z", expires_after_seconds=1, user="alice"), NewTask("x", "done")]
        await runtime.submit_many([*tasks, *expiring])
        await trio.sleep(2)
        assert [task.cause for task in runtime.dead_letters()] == [Cause.FAILED] * 4 + [Cause.EXPIRED]
        assert await runtime.purge(cause="expired") == 1
        assert await runtime.purge(kind="x", user="alice") == 1
        assert sorted((task.kind, task.user) for task in runtime.dead_letters()) == [
            ("x", "bob"),
            ("y", "alice"),
            ("y", "bob"),
        ]
        assert await runtime.purge() == 3
        with trio.testing.assert_checkpoints():
            assert await runtime.purge() == 0
        assert [task.status for task in runtime.tasks()] == [Status.COMPLETED]


async def test_what_has_ended_is_kept_as_long_as_its_status_says(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(
        workers=1, keep_completed_seconds=30, keep_failed_seconds=60, keep_cancelled_seconds=None
    ) as runtime:
        register(runtime)
        for does in ("done", "fail"):
            await (await runtime.submit("x", does)).wait()
        cancelled = await runtime.submit("z")
        await cancelled.cancel()
        seen = []
        for seconds in (29, 2, 28, 2, 1_000_000):
            await trio.sleep(seconds)
            seen.append([str(task.status) for task in runtime.tasks()])
        three, two, one = ["completed", "failed", "cancelled"], ["failed", "cancelled"], ["cancelled"]
        assert seen == [three, two, two, one, one]


async def test_a_sweep_takes_what_is_due_or_everything_that_has_ended(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1, keep_completed_seconds=None) as runtime:
        register(runtime)
        handles = await runtime.submit_many([NewTask("x", "done") for _ in range(250)] + [NewTask("z")])
        await handles[249].wait()
        assert await runtime.maintain() == 0 and len(runtime.tasks(limit=None)) == 251
        assert await runtime.maintain(everything=True) == 250
        assert runtime.tasks() == [handles[250].task()]
        assert await runtime.maintain(everything=True) == 0


# Retrying


async def test_a_failed_execution_is_tried_again_after_a_delay_that_grows(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1, seed=7) as runtime:
        policy = RetryPolicy(base_seconds=10, factor=2, max_seconds=25, jitter=0, max_retries=3)
        runtime.handler("x", retry=policy)(fate)
        handle = await runtime.submit("x", "fail")
        await trio.sleep(1)
        task = handle.task()
        assert (task.status, task.attempts, task.error) == (Status.PENDING, 1, "ValueError: boom")
        assert [block.reason for block in runtime.explain(handle.id).blocks] == ["delayed"]
        await handle.wait()
        starts = [attempt.started_at for attempt in handle.task().history]
        assert [after - before for before, after in pairwise(starts)] == pytest.approx([10, 20, 25])
        assert runtime.dead_letters() == [handle.task()]


async def test_a_handler_says_when_to_try_again_and_when_to_give_up(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("x", retry=AT_ONCE)
        async def says(payload: None, context: Any) -> None:
            if context.attempt == 1:
                raise Retry(after=77)
            raise GiveUp("the page is gone")

        with pytest.raises(TaskFailed) as failed:
            await (await runtime.submit("x", user="alice")).result()
        assert str(failed.value) == "alice#1 failed after 2 executions: the page is gone"
        first, second = failed.value.history
        assert first.error == "retry after 77 s" and failed.value.error == second.error == "the page is gone"
        assert second.started_at - first.ended_at == pytest.approx(77)


@pytest.mark.parametrize(
    ("policy", "executions"),
    [
        (RetryPolicy(base_seconds=0, retry_on=(OSError,)), 1),
        (RetryPolicy(base_seconds=0, retry_on=("LookupError",)), 4),
        (RetryPolicy(base_seconds=0, give_up_on=(KeyError,)), 1),
        (RetryPolicy(base_seconds=0, give_up_on=("OSError",)), 4),
    ],
)
async def test_classes_of_exceptions_say_what_is_worth_another_try(
    policy: RetryPolicy, executions: int, autojump_clock: trio.abc.Clock
) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("x", retry=policy)
        async def lookup(payload: None) -> None:
            raise KeyError("gone")

        task = await (await runtime.submit("x")).wait()
        assert len(task.history) == executions == task.attempts


async def test_a_handler_that_asks_for_another_try_gets_it_whatever_its_policy_is_for(
    autojump_clock: trio.abc.Clock,
) -> None:
    """`retry_on` and `give_up_on` judge what goes wrong; `Retry` is the handler's own word, as long as tries are left."""
    async with open_runtime(workers=1) as runtime:
        policies = {"retry_on": RetryPolicy(retry_on=(OSError,)), "give_up_on": RetryPolicy(give_up_on=(Exception,))}
        for kind, policy in policies.items():

            @runtime.handler(kind, retry=policy, max_retries=2)
            async def asks(payload: None) -> None:
                raise Retry(after=77)

            task = await (await runtime.submit(kind)).wait()
            starts = [attempt.started_at for attempt in task.history]
            assert [after - before for before, after in pairwise(starts)] == pytest.approx([77, 77])
            assert (task.attempts, task.cause, task.error) == (3, Cause.FAILED, "retry after 77 s")


async def test_a_crash_is_judged_by_how_often_it_happens_and_not_by_what_is_worth_a_retry(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("x", retry=RetryPolicy(base_seconds=0, retry_on=(OSError,), max_retries=9))
        async def crashes(payload: None) -> None:
            raise SystemExit(3)

        @runtime.handler("y", retry=RetryPolicy(base_seconds=0, give_up_on=(SystemExit,), max_retries=9))
        async def is_given_up_on(payload: None) -> None:
            raise SystemExit(3)

        tasks = [await (await runtime.submit(kind)).wait() for kind in "xy"]
        assert [(task.cause, len(task.history)) for task in tasks] == [(Cause.POISONED, 3), (Cause.FAILED, 1)]


async def test_while_a_task_waits_for_its_next_try_its_worker_runs_others(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("x", retry=RetryPolicy(base_seconds=1_000, jitter=0))(fate)
        waits = await runtime.submit("x", "fail")
        await trio.sleep(1)
        began = trio.current_time()
        assert [await (await runtime.submit("x", "done")).result() for _ in range(5)] == ["done"] * 5
        assert trio.current_time() == began and runtime.stats().workers_busy == 0
        assert (waits.task().status, waits.task().attempts, waits.task().worker_id) == (Status.PENDING, 1, "worker/1")


async def test_tasks_that_failed_together_come_back_spread_over_the_band_of_the_jitter(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(workers=40) as runtime:
        runtime.handler("x", retry=RetryPolicy(base_seconds=100, jitter=0.2, max_retries=1))(fate)
        handles = await runtime.submit_many([NewTask("x", "fail") for _ in range(40)])
        histories = [(await handle.wait()).history for handle in handles]
        delays = [second.started_at - first.ended_at for first, second in histories]
        assert all(80 - 1e-3 <= delay <= 120 + 1e-3 for delay in delays)
        assert len({round(delay, 3) for delay in delays}) > 30 and min(delays) < 95 < 105 < max(delays)


async def test_a_retry_never_runs_before_its_time_but_keeps_its_place_by_age(autojump_clock: trio.abc.Clock) -> None:
    ran: list[str] = []
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("x", retry=RetryPolicy(base_seconds=10, jitter=0))
        async def fails_once(payload: str, context: Any) -> None:
            ran.append(payload)
            if payload == "old" and context.attempt == 1:
                raise ValueError("boom")

        old = await runtime.submit("x", "old")
        await trio.sleep(1)
        order_at = old.task().order_at
        await runtime.submit("x", "before its time")
        await trio.sleep(1)
        await runtime.pause()
        await runtime.submit("x", "came after it")
        await trio.sleep(20)
        await runtime.resume()
        await trio.sleep(1)
        assert ran == ["old", "before its time", "old", "came after it"] and old.task().order_at == order_at


# Dead letters, by cause


async def die(runtime: Runtime, cause: str) -> Task:
    """The dead letter that is made in this way; its handler works from then on."""
    works = False

    @runtime.handler("x", retry=AT_ONCE, max_retries=9 if cause == "poisoned" else 1)
    async def sometimes(payload: None) -> str:
        if works:
            return "done"
        raise SystemExit("bang") if cause == "poisoned" else ValueError("boom")

    if cause in ("expired", "dropped"):
        await runtime.pause()
    handle = await runtime.submit("x", expires_after_seconds=5 if cause == "expired" else None)
    if cause == "dropped":
        await runtime.submit("x")
    task = await handle.wait()
    works = True
    await runtime.resume()
    return task


DEATHS = {
    "failed": (["failed", "failed"], "ValueError: boom"),
    "expired": ([], "not started within "),
    "poisoned": (["crashed", "crashed", "crashed"], "SystemExit: bang"),
    "dropped": ([], "dropped to make room: the queue was full"),
}


@pytest.mark.parametrize("cause", DEATHS)
async def test_a_dead_letter_has_its_cause_its_reason_and_its_history_and_can_be_put_back(
    cause: str, autojump_clock: trio.abc.Clock
) -> None:
    outcomes, reason = DEATHS[cause]
    async with open_runtime(workers=1, admitted_max=1, when_full="drop_oldest") as runtime:
        task = await die(runtime, cause)
        assert (task.status, task.cause) == (Status.FAILED, cause)
        assert [attempt.outcome for attempt in task.history] == outcomes
        assert task.error is not None and task.error.startswith(reason)
        assert runtime.dead_letters(cause=cause) == [task]
        assert all(runtime.dead_letters(cause=other) == [] for other in Cause if other != cause)
        await runtime.requeue(task.id, reset_retries=True)
        again = await runtime.wait(task.id)
        assert (again.status, again.result, again.attempts, again.cause) == (Status.COMPLETED, "done", 1, None)
        assert again.token > task.token and runtime.dead_letters() == []


@pytest.mark.parametrize("how", ["takes too long", "falls silent"])
async def test_a_task_that_takes_too_long_or_whose_worker_falls_silent_is_never_poisoned(
    how: str, autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what takes its worker down is poison; the rest fails when it is out of retries."""
    if how == "falls silent":
        monkeypatch.setitem(shard._HANDLERS, Beat, lambda *nothing: None)
    async with open_runtime(workers=6, poison_after=2, stop_grace_seconds=0) as runtime:
        timeout = 5 if how == "takes too long" else None
        runtime.handler("x", retry=AT_ONCE, max_retries=4, timeout_seconds=timeout, lease_seconds=10)(fate)
        task = await (await runtime.submit("x", "hang")).wait()
        outcome = "failed" if how == "takes too long" else "recovered"
        assert (task.cause, [attempt.outcome for attempt in task.history]) == (Cause.FAILED, [outcome] * 5)


async def test_only_crashes_count_towards_poison_and_they_count_anew_when_an_operator_puts_the_task_back(
    autojump_clock: trio.abc.Clock,
) -> None:
    ends = ["fail", "hang", "crash", "hang", "crash", "fail", "crash", "crash", "crash", "crash"]
    async with open_runtime(workers=1, poison_after=3) as runtime:

        @runtime.handler("x", retry=AT_ONCE, max_retries=20, timeout_seconds=5)
        async def ends_in_turn(payload: None) -> None:
            end = ends.pop(0)
            if end == "crash":
                raise SystemExit("bang")
            await fate(end)

        handle = await runtime.submit("x")
        assert (await handle.wait()).cause is Cause.POISONED and len(ends) == 3
        await runtime.requeue(handle.id)
        assert (await handle.wait()).cause is Cause.POISONED and ends == []
        assert [attempt.outcome for attempt in handle.task().history[:3]] == ["failed", "failed", "crashed"]


# Explaining


async def test_a_task_is_explained_wherever_it_stands(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1, stop_grace_seconds=0) as runtime:
        register(runtime)
        running = await runtime.submit("x", "hang", user="alice")
        behind, paused = [await runtime.submit(kind, "done", user="alice") for kind in "xy"]
        delayed = await runtime.submit("x", "done", user="bob", delay_seconds=60)
        await runtime.pause(kind="y")
        assert [runtime.explain(handle.id).sentence for handle in (running, behind, paused, delayed)] == [
            "alice#1 runs on worker/1 for 0 s now, execution 1.",
            "alice#2 waits: every worker that may take it is busy.",
            "alice#3 waits: kind 'y' is paused; 1 of alice's own tasks go first; every worker that may take it is busy.",
            "bob#4 waits: it is delayed, and due in 60 s; every worker that may take it is busy.",
        ]
        await running.cancel()
        await trio.sleep(1)
        assert runtime.explain(running.id).sentence == "alice#1 was cancelled 1 s ago."
        assert runtime.explain(behind.id).sentence == "alice#2 was completed 1 s ago."
