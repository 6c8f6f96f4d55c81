"""JSON values: what payloads, results and progress are, so that every store and every process gives back the same.

Whatever comes in is copied on the way: what its owner does to it later changes no task, and what one execution does to its
payload no other finds.
"""

import math
from typing import Any

import msgspec

from actors.errors import InvalidTask

__all__ = ["as_json", "own_copy", "same_json"]

_IMMUTABLE = (str, int, float, bool)
"""Which JSON values can be shared: exactly these, because an enum that is a str is more than JSON gives back."""

_REFUSALS = (TypeError, ValueError, OverflowError, msgspec.MsgspecError, RecursionError)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def as_json(what: str, value: Any) -> Any:
    """A value as JSON would give it back: what every store gives back, too.

    >>> as_json("result", {"at": (1, 2)})
    {'at': [1, 2]}
    >>> as_json("result", object())
    Traceback (most recent call last):
    actors.errors.InvalidTask: result must be a JSON value, got object: Encoding objects of type object is unsupported
    """
    return _as_json(what, value, check_numbers=True)[0]


def same_json(what: str, value: Any, bytes_max: int, *, converted: bool = False) -> Any:
    """A copy of a value that JSON gives back as the same and in at most so many bytes, or InvalidTask.

    What is `converted` from something else, by its annotation, need not be the same.

    >>> same_json("payload", {1, 2}, 100)
    Traceback (most recent call last):
    actors.errors.InvalidTask: payload must be a JSON value, got set: it would read back as another value
    """
    if value is None:
        return None
    # What would be read back as None is found by comparing, too.
    copy, size = _as_json(what, value, check_numbers=converted)
    if not (converted or copy == value):
        raise InvalidTask(
            f"{what} must be a JSON value, got {type(value).__name__}: it would read back as another value"
        )
    if size > bytes_max:
        raise InvalidTask(f"{what} must be at most {bytes_max} bytes as JSON, got {size}")
    return value if type(value) in _IMMUTABLE else copy


def own_copy(value: Any) -> Any:
    """A copy of a JSON value that can be changed without changing the value.

    >>> kept = {"at": [1, 2]}
    >>> own_copy(kept)["at"].append(3)
    >>> kept
    {'at': [1, 2]}
    """
    return msgspec.to_builtins(value) if type(value) in (dict, list) else value


def _as_json(what: str, value: Any, check_numbers: bool) -> tuple[Any, int]:
    """What JSON gives back, and how many bytes it takes."""
    try:
        encoded = _encode(value)
        if check_numbers and b"null" in encoded:
            _check_numbers(msgspec.to_builtins(value))
        return _decode(encoded), len(encoded)
    except _REFUSALS as error:
        raise InvalidTask(f"{what} must be a JSON value, got {type(value).__name__}: {error}") from None


def _check_numbers(value: Any) -> None:
    """ValueError if there is a number that JSON has no word for: it would be read back as None."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"JSON has no {value}")
    if isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            _check_numbers(item)
    elif isinstance(value, dict):
        for item in value.values():
            _check_numbers(item)
