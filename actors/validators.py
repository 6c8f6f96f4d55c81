"""Field validators for frozen attrs classes: each says the field, the constraint and the value, in that order."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import attrs

from actors.errors import InvalidConfig

__all__ = [
    "between",
    "finite",
    "greater_than",
    "is_finite",
    "number_fault",
    "one_of",
    "or_none",
    "printable",
    "user_name_fault",
    "whole",
]

Validator = Callable[[Any, "attrs.Attribute[Any]", Any], None]

USER_LENGTH_MAX = 128
_LARGEST = sys.float_info.max


def is_finite(value: object) -> TypeGuard[float]:
    """Whether this is a number to count with: not a bool, not infinite, not NaN."""
    # By comparison, because `math.isfinite` raises on a whole number that is larger than any float.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -_LARGEST <= value <= _LARGEST


def _refuse(attribute: "attrs.Attribute[Any]", constraint: str, value: object) -> InvalidConfig:
    return InvalidConfig(f"{attribute.name} must be {constraint}, got {value!r}")


def finite(minimum: float) -> Validator:
    """A finite number that is at least `minimum`."""

    def check(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
        if not (is_finite(value) and value >= minimum):
            raise _refuse(attribute, f"a finite number >= {minimum:g}", value)

    return check


def greater_than(limit: float) -> Validator:
    """A finite number above `limit`."""

    def check(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
        if not (is_finite(value) and value > limit):
            raise _refuse(attribute, f"a finite number > {limit:g}", value)

    return check


def between(low: float, high: float) -> Validator:
    """A number from `low` to `high`, both included."""

    def check(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
        if not (is_finite(value) and low <= value <= high):
            raise _refuse(attribute, f"between {low:g} and {high:g}", value)

    return check


def whole(minimum: int) -> Validator:
    """An int, not a bool, that is at least `minimum`."""

    def check(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            raise _refuse(attribute, f"a whole number >= {minimum}", value)

    return check


def one_of(names: Sequence[str]) -> Validator:
    """One of these words."""

    def check(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
        if value not in names:
            raise _refuse(attribute, f"one of {', '.join(names)}", value)

    return check


def printable(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
    """Text that shows as what it is."""
    if not (isinstance(value, str) and value and value.isprintable()):
        raise _refuse(attribute, "printable text", value)


def or_none(validator: Validator) -> Validator:
    """None, or what the validator lets through."""

    def check(instance: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
        if value is not None:
            validator(instance, attribute, value)

    return check


def number_fault(name: str, value: object) -> str | None:
    """What is wrong with a number that must be finite and above 0, or None.

    >>> number_fault("weight", -1)
    'weight must be a finite number > 0, got -1'
    """
    return None if is_finite(value) and value > 0 else f"{name} must be a finite number > 0, got {value!r}"


def user_name_fault(user: object) -> str | None:
    """What is wrong with a user's name, or None.

    >>> user_name_fault("tenant/alice")
    >>> user_name_fault("")
    "user must be 1 to 128 printable characters, got ''"
    """
    if isinstance(user, str) and 1 <= len(user) <= USER_LENGTH_MAX and user.isprintable():
        return None
    shown = repr(user) if len(repr(user)) <= 2 * USER_LENGTH_MAX else f"{len(str(user))} characters"
    return f"user must be 1 to {USER_LENGTH_MAX} printable characters, got {shown}"
