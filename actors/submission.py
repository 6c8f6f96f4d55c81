"""What a submit must be before it is a task: every field checked, each fault said with field, constraint and value."""

import math
from typing import Any, TypedDict

import attrs
import msgspec

from actors.errors import InvalidConfig, InvalidTask
from actors.messages import Address, Submit
from actors.retry import RetryPolicy
from actors.task import Priority
from actors.validators import user_name_fault
from actors.values import same_json

__all__ = [
    "DEFAULT_USER",
    "NewTask",
    "TaskOptions",
    "check_same_kind",
    "check_scope",
    "checked_payload",
    "cost_of",
    "kind_fault",
    "seconds_of",
]

DEFAULT_USER = "default"
"""Whose work it is, unless somebody is named."""

KIND_LENGTH_MAX = 128

_SHOWN_MAX = 64


class TaskOptions(TypedDict, total=False):
    """What can be said of a task besides its kind and payload, for type checkers: `NewTask` says what each means."""

    user: str
    priority: Priority | str | int
    delay_seconds: float | None
    run_after: float | None
    expires_after_seconds: float | None
    expires_at: float | None
    max_retries: int | None
    retry: RetryPolicy | None
    cost: float | None
    idempotency_key: str | None
    persist: bool


class NewTask(msgspec.Struct, frozen=True, gc=False):
    """A task to be submitted.

    >>> task = NewTask("crawl", {"url": "http://example.org"}, user="alice", priority="high", delay_seconds=5)
    >>> task.submit("t1", RetryPolicy(), now=10.0).run_after
    15.0
    """

    kind: str
    payload: Any = None
    user: str = DEFAULT_USER
    priority: Priority | str | int = Priority.NORMAL
    delay_seconds: float | None = None
    """Not before so long from now."""
    run_after: float | None = None
    """Not before this time."""
    expires_after_seconds: float | None = None
    """Not later than so long from now."""
    expires_at: float | None = None
    """Not later than this time."""
    max_retries: int | None = None
    """Executions after the first, if other than for the kind."""
    retry: RetryPolicy | None = None
    """When a failed execution is tried again, if other than for the kind."""
    cost: float | None = None
    """Expected seconds of work; the running mean of the kind unless given."""
    idempotency_key: str | None = None
    """The same key within its user means the same task, whatever the payload; it must be of the same kind."""
    persist: bool = True
    """Whether a durable store keeps it."""

    def submit(self, task_id: str, retry: RetryPolicy, now: float, reply_to: Address | None = None) -> Submit:
        """The message that submits it, where its kind is retried like this."""
        return Submit(
            id=task_id,
            user=self.user,
            kind=self.kind,
            payload=self.payload,
            priority=self.priority,
            run_after=self.run_after
            if self.delay_seconds is None
            else _either("run_after", self.run_after, "delay_seconds", self.delay_seconds, now),
            expires_at=self.expires_at
            if self.expires_after_seconds is None
            else _either("expires_at", self.expires_at, "expires_after_seconds", self.expires_after_seconds, now),
            retry=self.retry if self.max_retries is None else self._with_retries(self.max_retries, retry),
            cost=self.cost,
            idempotency_key=self.idempotency_key,
            persist=self.persist,
            reply_to=reply_to,
        )

    def _with_retries(self, max_retries: int, retry: RetryPolicy) -> RetryPolicy:
        if not isinstance(max_retries, int) or isinstance(max_retries, bool) or max_retries < 0:
            raise InvalidTask(f"max_retries must be a whole number >= 0, got {_shown(max_retries)}")
        if fault := _retry_fault(self.retry):
            raise InvalidTask(fault)
        return attrs.evolve(self.retry or retry, max_retries=max_retries)


def _either(at_name: str, at: float | None, after_name: str, after: float, now: float) -> float:
    if at is not None:
        raise InvalidTask(f"a task must have {at_name} or {after_name}, not both")
    seconds = _finite(after)
    if seconds is None or seconds < 0:
        raise InvalidTask(f"{after_name} must be a finite number of seconds >= 0, got {_shown(after)}")
    return now + seconds


def checked_payload(submit: Submit, payload_bytes_max: int) -> Any:
    """The payload, which nobody else can change any more; InvalidTask unless user, kind, key and payload may be a task's.

    >>> checked_payload(Submit(id="t1", user="alice", kind="crawl", payload={1, 2}), payload_bytes_max=100)
    Traceback (most recent call last):
    actors.errors.InvalidTask: payload must be a JSON value, got set: it would read back as another value
    """
    fault = user_name_fault(submit.user) or kind_fault(submit.kind)
    if submit.idempotency_key is not None:
        fault = fault or _key_fault(submit.idempotency_key)
    if submit.retry is not None:
        fault = fault or _retry_fault(submit.retry)
    if submit.persist is not True:
        fault = fault or _persist_fault(submit.persist)
    if fault:
        raise InvalidTask(fault)
    return None if submit.payload is None else same_json("payload", submit.payload, payload_bytes_max)


def check_scope(kind: object, user: object) -> None:
    """InvalidConfig unless what is given of these can be a name.

    >>> check_scope(kind="crawl", user=None)
    >>> check_scope(kind=None, user=7)
    Traceback (most recent call last):
    actors.errors.InvalidConfig: user must be 1 to 128 printable characters, got 7
    """
    fault = None if kind is None else kind_fault(kind)
    if fault := fault or (None if user is None else user_name_fault(user)):
        raise InvalidConfig(fault)


def check_same_kind(key: str, before: str, kind: str) -> None:
    """InvalidTask if a key that means a task of one kind comes with another."""
    if kind != before:
        raise InvalidTask(f"idempotency_key {_shown(key)} must stay with kind {before!r}, got {kind!r}")


def cost_of(value: object) -> float:
    """The cost that a submit gives, or InvalidTask."""
    cost = _finite(value)
    if cost is None or cost <= 0:
        raise InvalidTask(f"cost must be a finite number > 0, got {_shown(value)}")
    return cost


def seconds_of(name: str, value: object) -> float | None:
    """The time that a submit gives under this name, if it gives one, or InvalidTask."""
    if value is None:
        return None
    seconds = _finite(value)
    if seconds is None:
        raise InvalidTask(f"{name} must be a finite number of seconds, got {_shown(value)}")
    return seconds


def kind_fault(kind: object) -> str | None:
    """What is wrong with the name of a kind, or None.

    >>> kind_fault("crawl")
    >>> kind_fault("")
    "kind must be 1 to 128 printable characters, got ''"
    """
    if isinstance(kind, str) and 1 <= len(kind) <= KIND_LENGTH_MAX and kind.isprintable():
        return None
    return f"kind must be 1 to {KIND_LENGTH_MAX} printable characters, got {_shown(kind)}"


def _key_fault(key: object) -> str | None:
    if key is None or (isinstance(key, str) and key):
        return None
    return f"idempotency_key must be text that is not empty, got {_shown(key)}"


def _retry_fault(retry: object) -> str | None:
    if retry is None or isinstance(retry, RetryPolicy):
        return None
    return f"retry must be a RetryPolicy, got {_shown(retry)}"


def _persist_fault(persist: object) -> str | None:
    return None if isinstance(persist, bool) else f"persist must be true or false, got {_shown(persist)}"


def _finite(value: object) -> float | None:
    """The number as a float, or None if it is none, or none that a float can hold."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _shown(value: object) -> str:
    """A value in an error message, cut short: a number may have more digits than anybody wants to read."""
    try:
        shown = repr(value)
    except ValueError:
        # Python prints no int of more than some thousands of digits.
        return f"{type(value).__name__} of too many digits"
    return shown if len(shown) <= _SHOWN_MAX else shown[:_SHOWN_MAX] + "..."
