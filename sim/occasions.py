"""When a fault happens: at a time, or by chance.

*Timed* faults happen at `at_seconds`, or `times` times at moments drawn from `from_seconds` to `until_seconds`. Those that take
their *chances* have one for each message, execution or commit that they are about: it is hit with `probability` while
`from_seconds <= now < until_seconds`, at most `fires_max` times; without `until_seconds` they go on for ever.
"""

from typing import Any

import attrs

from actors.errors import InvalidConfig
from actors.validators import between, finite, or_none, whole

__all__ = ["ChanceFault", "Occasion", "TimedFault", "check_window"]


@attrs.frozen(kw_only=True)
class Occasion:
    """Something that goes wrong, now and then."""

    fires_min: int = attrs.field(default=0, validator=whole(0))
    """How often it must have happened in the end: a scenario whose fault never fired shows nothing."""


@attrs.frozen(kw_only=True)
class TimedFault(Occasion):
    """Happens at a time, or at times that are drawn from a window."""

    at_seconds: float | None = attrs.field(default=None, validator=or_none(finite(0)))
    """When."""
    from_seconds: float = attrs.field(default=0.0, validator=finite(0))
    """Not before."""
    until_seconds: float | None = attrs.field(default=None, validator=or_none(finite(0)))
    """Not from then on."""
    times: int = attrs.field(default=1, validator=whole(1))
    """How often, in the window."""

    def __attrs_post_init__(self) -> None:
        if (self.at_seconds is None) == (self.until_seconds is None):
            raise InvalidConfig("fault must have either at_seconds or until_seconds")
        if self.at_seconds is not None and (self.times > 1 or self.from_seconds):
            raise InvalidConfig("fault at at_seconds happens once: from_seconds and times need until_seconds")
        check_window(self)


@attrs.frozen(kw_only=True)
class ChanceFault(Occasion):
    """Takes its chances, one for each message or execution that it is about."""

    from_seconds: float = attrs.field(default=0.0, validator=finite(0))
    """Not before."""
    until_seconds: float | None = attrs.field(default=None, validator=or_none(finite(0)))
    """Not from then on."""
    probability: float = attrs.field(default=1.0, validator=between(0, 1))
    """Of each chance."""
    fires_max: int | None = attrs.field(default=None, validator=or_none(whole(1)))
    """How often it happens at most."""

    def __attrs_post_init__(self) -> None:
        check_window(self)

    def is_open(self, now: float) -> bool:
        """Whether it may happen now."""
        return self.from_seconds <= now and (self.until_seconds is None or now < self.until_seconds)


def check_window(fault: Any) -> None:
    """Raise InvalidConfig unless it ends after it begins, if it ends."""
    if fault.until_seconds is not None and fault.until_seconds <= fault.from_seconds:
        limits = f"{fault.from_seconds:g}, got {fault.until_seconds:g}"
        raise InvalidConfig(f"until_seconds must be after from_seconds, which is {limits}")
