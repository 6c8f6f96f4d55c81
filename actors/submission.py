"""What a submit must be before it is a task: every field checked, each fault said with field, constraint and value."""

import math
from typing import Any

import msgspec

from actors.errors import InvalidTask
from actors.messages import Submit
from actors.validators import user_name_fault

__all__ = ["check_submit", "cost_of", "seconds_of"]

_SHOWN_MAX = 64

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def check_submit(submit: Submit, payload_bytes_max: int) -> None:
    """InvalidTask unless user, kind, key and payload are such as a task may have.

    >>> check_submit(Submit(id="t1", user="alice", kind="crawl", payload={1, 2}), payload_bytes_max=100)
    Traceback (most recent call last):
    actors.errors.InvalidTask: payload must be a JSON value, got set: it would read back as another value
    """
    if fault := user_name_fault(submit.user) or _kind_fault(submit.kind) or _key_fault(submit.idempotency_key):
        raise InvalidTask(fault)
    if submit.payload is not None and (size := _json_size(submit.payload)) > payload_bytes_max:
        raise InvalidTask(f"payload must be at most {payload_bytes_max} bytes as JSON, got {size}")


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


def _kind_fault(kind: object) -> str | None:
    if isinstance(kind, str) and kind and kind.isprintable():
        return None
    return f"kind must be printable text, got {kind!r}"


def _key_fault(key: object) -> str | None:
    if key is None or (isinstance(key, str) and key):
        return None
    return f"idempotency_key must be text that is not empty, got {key!r}"


def _json_size(payload: Any) -> int:
    """How many bytes the payload takes as JSON, which must say neither more nor less than the payload does."""
    what = type(payload).__name__
    try:
        encoded = _encode(payload)
        same = _decode(encoded) == payload
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError, RecursionError) as error:
        raise InvalidTask(f"payload must be a JSON value, got {what}: {error}") from None
    if not same:
        raise InvalidTask(f"payload must be a JSON value, got {what}: it would read back as another value")
    return len(encoded)


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
