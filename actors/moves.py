"""The moves a task makes, each a pure function from a record to the next one.

Every move goes through `TRANSITIONS`, so a move that is not in the table raises InvalidTransition and makes nothing.
The token goes up when a task is claimed, recovered or requeued: whoever held it before is fenced off from then on.
"""

from typing import Any

from msgspec.structs import replace

from actors.task import IN_PROGRESS, Attempt, Cause, Change, Task, next_status

__all__ = [
    "cancel",
    "claim",
    "complete",
    "drop",
    "expire",
    "extend",
    "fail",
    "recover",
    "release",
    "request_cancel",
    "requeue",
    "retry",
]

_CLAIM, _COMPLETE = Change.CLAIM, Change.COMPLETE


def claim(task: Task, worker_id: str, lease_seconds: float, now: float) -> Task:
    """A worker owns the task until its lease ends: a new token, one more attempt."""
    return replace(
        task,
        status=next_status(task.status, _CLAIM),
        token=task.token + 1,
        attempts=task.attempts + 1,
        worker_id=worker_id,
        started_at=now,
        lease_until=now + lease_seconds,
        run_after=None,
        updated_at=now,
    )


def extend(task: Task, lease_seconds: float, now: float, progress: Any = None) -> Task:
    """The owner beat: its lease starts anew, and it may say how far it is. Not a change of status."""
    progress = task.progress if progress is None else progress
    return replace(task, lease_until=now + lease_seconds, progress=progress, updated_at=now)


def complete(task: Task, result: Any, now: float) -> Task:
    """The owner's result is accepted; final."""
    return replace(
        task,
        status=next_status(task.status, _COMPLETE),
        result=result,
        history=_with_attempt(task, "completed", None, now),
        completed_at=now,
        lease_until=None,
        updated_at=now,
    )


def retry(task: Task, outcome: str, error: str, run_after: float, now: float, traceback: str | None = None) -> Task:
    """The execution failed or crashed, and another may follow at `run_after`."""
    return _back_to_pending(task, Change.RETRY, outcome, error, now, run_after, traceback)


def recover(task: Task, error: str, now: float) -> Task:
    """The owner fell silent: the task waits again under a new token, the attempt counted."""
    return _back_to_pending(task, Change.RECOVER, "recovered", error, now, token=task.token + 1)


def release(task: Task, now: float) -> Task:
    """The owner hands the task back unharmed, as at a shutdown: the attempt is refunded."""
    return _back_to_pending(task, Change.RELEASE, "released", task.error, now, attempts=task.attempts - 1)


def requeue(task: Task, reset_retries: bool, now: float) -> Task:
    """An operator puts a failed or running task back, whatever its expiry or a cancel said.

    A new requeue epoch begins. With `reset_retries` it has all its retries again; without, it is promised one more
    execution and whatever retries it had left.
    """
    attempts = 0 if reset_retries else min(task.attempts, task.max_retries)
    return _back_to_pending(
        task,
        Change.REQUEUE,
        "requeued",
        task.error,
        now,
        token=task.token + 1,
        attempts=attempts,
        requeues=task.requeues + 1,
        expires_at=None,
        completed_at=None,
        cause=None,
        cancel_requested=False,
    )


def fail(task: Task, cause: Cause, outcome: str, error: str, now: float, traceback: str | None = None) -> Task:
    """The execution failed and none may follow: a dead letter."""
    return _end(task, Change.FAIL, outcome, now, error, traceback, cause=cause)


def expire(task: Task, now: float) -> Task:
    """Nobody started it in time: a dead letter."""
    assert task.expires_at is not None, "only what has a time can be late"
    error = f"not started within {max(0.0, task.expires_at - task.created_at):g} s"
    return _end(task, Change.EXPIRE, "expired", now, cause=Cause.EXPIRED, error=error)


def drop(task: Task, now: float) -> Task:
    """It made room for another at a full door: a dead letter."""
    error = "dropped to make room: the queue was full"
    return _end(task, Change.DROP, "dropped", now, cause=Cause.DROPPED, error=error)


def request_cancel(task: Task, now: float) -> Task:
    """Its submitter no longer wants it, but it runs: its worker has the last word. Not a change of status."""
    return replace(task, cancel_requested=True, updated_at=now)


def cancel(task: Task, now: float, outcome: str = "cancelled", error: str | None = None) -> Task:
    """Its submitter no longer wants it; final. If it ran, `outcome` and `error` say how that execution ended."""
    return _end(task, Change.CANCEL, outcome, now, error=error)


def _back_to_pending(
    task: Task,
    change: Change,
    outcome: str,
    error: str | None,
    now: float,
    run_after: float | None = None,
    traceback: str | None = None,
    **changes: Any,
) -> Task:
    return replace(
        task,
        status=next_status(task.status, change),
        history=_with_attempt(task, outcome, error, now, traceback),
        error=error,
        run_after=run_after,
        lease_until=None,
        updated_at=now,
        **changes,
    )


def _end(
    task: Task,
    change: Change,
    outcome: str,
    now: float,
    error: str | None = None,
    traceback: str | None = None,
    **changes: Any,
) -> Task:
    return replace(
        task,
        status=next_status(task.status, change),
        history=_with_attempt(task, outcome, error, now, traceback),
        error=error if error is not None else task.error,
        completed_at=now,
        lease_until=None,
        updated_at=now,
        **changes,
    )


def _with_attempt(
    task: Task, outcome: str, error: str | None, now: float, traceback: str | None = None
) -> tuple[Attempt, ...]:
    """The history, with the execution that ends now if there is one."""
    if task.status is not IN_PROGRESS:
        return task.history
    assert task.worker_id is not None and task.started_at is not None, "a running task has an owner"
    attempt = Attempt(
        task.attempts, task.token, task.worker_id, task.started_at, now, outcome, error, task.requeues, traceback
    )
    return (*task.history, attempt) if task.history else (attempt,)
