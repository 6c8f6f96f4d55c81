from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import (
    TRANSITIONS,
    Cause,
    Change,
    InvalidTask,
    InvalidTransition,
    Priority,
    Status,
    Task,
    moves,
    next_status,
)

MOVES: dict[Change, Any] = {
    Change.CLAIM: lambda task: moves.claim(task, "worker/1", 60.0, 9.0),
    Change.COMPLETE: lambda task: moves.complete(task, None, 9.0),
    Change.RETRY: lambda task: moves.retry(task, "failed", "boom", 10.0, 9.0),
    Change.RECOVER: lambda task: moves.recover(task, "silent", 9.0),
    Change.RELEASE: lambda task: moves.release(task, 9.0),
    Change.REQUEUE: lambda task: moves.requeue(task, True, 9.0),
    Change.FAIL: lambda task: moves.fail(task, Cause.FAILED, "failed", "boom", 9.0),
    Change.EXPIRE: lambda task: moves.expire(task, 9.0),
    Change.DROP: lambda task: moves.drop(task, 9.0),
    Change.CANCEL: lambda task: moves.cancel(task, 9.0),
}


def new_task(**changes: Any) -> Task:
    fields: dict[str, Any] = {
        "id": "t1",
        "user": "alice",
        "kind": "work",
        "sequence": 1,
        "created_at": 0.0,
        "updated_at": 0.0,
        "order_at": 0.0,
        "expires_at": 8.0,
    }
    return Task(**fields | changes)


def in_status(status: Status) -> Task:
    if status is Status.PENDING:
        return new_task()
    running = moves.claim(new_task(), "worker/1", 60.0, 1.0)
    ended = {
        Status.IN_PROGRESS: lambda: running,
        Status.COMPLETED: lambda: moves.complete(running, None, 2.0),
        Status.FAILED: lambda: moves.fail(running, Cause.FAILED, "failed", "boom", 2.0),
        Status.CANCELLED: lambda: moves.cancel(running, 2.0),
    }
    return ended[status]()


@pytest.mark.parametrize(("status", "change"), list(product(Status, MOVES)))
def test_every_move_goes_where_the_table_says_and_nowhere_else(status: Status, change: Change) -> None:
    task = in_status(status)
    expected = TRANSITIONS[status].get(change)
    if expected is None:
        with pytest.raises(InvalidTransition, match=rf"^an? {status} task cannot be {change} \({status} -> \w+\)$"):
            MOVES[change](task)
    else:
        assert MOVES[change](task).status is expected
    assert task == in_status(status), "a move never changes the record it starts from"


def test_the_table_is_the_contract() -> None:
    allowed = {(status.value, to.value) for status, row in TRANSITIONS.items() for to in row.values()}
    assert allowed == {
        ("pending", "in_progress"),
        ("pending", "cancelled"),
        ("pending", "failed"),
        ("in_progress", "completed"),
        ("in_progress", "pending"),
        ("in_progress", "failed"),
        ("in_progress", "cancelled"),
        ("failed", "pending"),
    }
    assert TRANSITIONS[Status.FAILED] == {Change.REQUEUE: Status.PENDING}


@given(st.lists(st.sampled_from(sorted(MOVES)), max_size=30))
def test_after_any_moves_tokens_rise_history_counts_and_the_end_is_the_end(changes: list[Change]) -> None:
    task = new_task(expires_at=8.0)
    claims = 0
    for change in changes:
        if change is Change.EXPIRE and task.expires_at is None:
            continue
        before = task
        try:
            task = MOVES[change](task)
        except InvalidTransition:
            assert change not in TRANSITIONS[before.status]
            continue
        claims += change is Change.CLAIM
        assert before.status not in (Status.COMPLETED, Status.CANCELLED)
        assert task.token >= before.token
        if change in (Change.CLAIM, Change.RECOVER, Change.REQUEUE):
            assert task.token > before.token, "every change of ownership fences off the last owner"
        assert task.attempts >= 0
        assert len(task.history) == claims - (task.status is Status.IN_PROGRESS)


def test_a_release_refunds_its_attempt_and_a_recovery_does_not() -> None:
    running = moves.claim(new_task(), "worker/1", 60.0, 1.0)
    assert moves.release(running, 2.0).attempts == 0
    assert moves.recover(running, "silent", 2.0).attempts == 1


def test_requeue_promises_one_more_execution_or_all_of_them() -> None:
    task = new_task(attempts=4, status=Status.FAILED, expires_at=8.0, cause=Cause.FAILED, error="boom")
    plain, fresh = moves.requeue(task, False, 9.0), moves.requeue(task, True, 9.0)
    assert (plain.attempts, fresh.attempts) == (3, 0)
    assert (plain.requeues, plain.cause, plain.expires_at, plain.error) == (1, None, None, "boom")


@pytest.mark.parametrize(
    ("given", "meant"),
    [("HIGH", 4), ("very_low", 1), (6, 6), (Priority.LOW, 2), ("medium", 3), ("Medium", 3)],
)
def test_a_priority_is_taken_as_enum_name_or_number(given: Any, meant: int) -> None:
    assert Priority.parse(given) == meant


@pytest.mark.parametrize("bad", ["urgent", 0, 7, 3.0, None, True, ""])
def test_a_bad_priority_is_refused_with_the_value(bad: Any) -> None:
    with pytest.raises(InvalidTask, match=r"^priority must be one of very_low, .* or 1 to 6, got "):
        Priority.parse(bad)


def test_times_derive_from_the_record() -> None:
    task = new_task(order_at=2.0)
    assert (task.age(5.0), task.time_in_queue(5.0), task.time_in_progress(5.0)) == (5.0, 3.0, 0.0)
    running = moves.claim(task, "worker/1", 60.0, 6.0)
    assert (running.time_in_queue(9.0), running.time_in_progress(9.0)) == (4.0, 3.0)
    again = moves.claim(moves.recover(running, "silent", 10.0), "worker/2", 60.0, 12.0)
    assert (again.time_in_queue(13.0), again.time_in_progress(13.0)) == (4.0, 5.0)


def test_a_move_that_is_not_in_the_table_is_refused_with_both_states() -> None:
    """The change alone does not say where it leads: a task that cannot be claimed was to be in progress."""
    refused: dict[Change, str] = {}
    for change in Change:
        with pytest.raises(InvalidTransition) as caught:
            next_status(Status.CANCELLED, change)
        refused[change] = str(caught.value)
    leads_to = {
        "claimed": "in_progress",
        "completed": "completed",
        **dict.fromkeys(["retried", "recovered", "released", "requeued"], "pending"),
        **dict.fromkeys(["failed", "expired", "dropped"], "failed"),
        "cancelled": "cancelled",
    }
    assert refused == {
        change: f"a cancelled task cannot be {change} (cancelled -> {status})" for change, status in leads_to.items()
    }
