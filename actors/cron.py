"""When a cron expression fires, in a time zone: also on the days on which the clocks are changed.

It goes as in Debian. What is meant for a time of day (`30 2 * * *`) fires once on each of its days: at the first, if there are
two such times, and as soon as there is a later one, if there is none. What has a `*` for its minute or hour goes by the clock
on the wall, and fires whenever that shows such a time: in an hour that comes twice it fires twice, in one that is skipped never.

The calendar is cronsim's. Going by the clock on the wall is done here, stretch by stretch between two changes of the clocks,
because cronsim takes each day to begin with a midnight, which in Cairo or Santiago is the very hour that is skipped.
"""

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

from actors.errors import InvalidConfig

__all__ = ["fire_times"]

_LOOK_SECONDS = 3 * 3600.0
"""Clocks that are changed stay so for longer than this."""


def fire_times(cron: str, timezone: str, after: float) -> Iterator[float]:
    """The times of a cron expression after a time, in seconds since 1970, each later than the one before.

    >>> times = fire_times("30 2 * * *", "Europe/Berlin", 0.0)
    >>> next(times) / 3600, next(times) / 3600
    (1.5, 25.5)
    """
    try:
        from cronsim import CronSim, CronSimError
    except ImportError:
        raise InvalidConfig("schedules need the schedule extra: pip install 'evenhand[schedule]'") from None
    zone = _zone(timezone)
    # All times are whole seconds; parts of one would be rounded, and the next second skipped with them.
    after = math.floor(after)
    try:
        times = CronSim(cron, datetime.fromtimestamp(after, zone))
    except (CronSimError, AttributeError, TypeError) as error:
        raise InvalidConfig(
            f"cron must be an expression of five fields, or six with seconds first, got {cron!r}: {error}"
        ) from None
    fields = cron.split()
    if len(fields) == 6 or fields[0].startswith("*") or fields[1].startswith("*"):
        return _by_the_wall_clock(cron, zone, after)
    # From the second of two equal times of day it finds the first again.
    return (at.timestamp() for at in times if at.timestamp() > after)


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        if isinstance(name, str):
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # Unknown, no path at all, or that of a folder.
        pass
    raise InvalidConfig(f"timezone must be a name such as 'Europe/Berlin', got {name!r}")


def _by_the_wall_clock(cron: str, zone: tzinfo, after: float) -> Iterator[float]:
    from cronsim import CronSim

    here, offset = after, _offset(zone, after)
    begin = _shown(zone, after)
    while True:
        for shown in CronSim(cron, begin):
            at = (shown.replace(tzinfo=UTC) - offset).timestamp()
            if (change := _first_change(zone, offset, here, at)) is not None:
                here, offset = change, _offset(zone, change)
                # What is looked for is later than this, and may be at the very change.
                begin = _shown(zone, change) - timedelta(seconds=1)
                break
            yield at
            here = at
        else:
            return


def _shown(zone: tzinfo, at: float) -> datetime:
    """What the clocks show."""
    return datetime.fromtimestamp(at, zone).replace(tzinfo=None)


def _offset(zone: tzinfo, at: float) -> timedelta:
    offset = datetime.fromtimestamp(at, zone).utcoffset()
    assert offset is not None, "a zone knows its offset"
    return offset


def _first_change(zone: tzinfo, offset: timedelta, after: float, until: float) -> float | None:
    """The first time, to the second, at which the offset is another, if that is not later than `until`."""
    same = after
    while same < until:
        other = min(same + _LOOK_SECONDS, until)
        if _offset(zone, other) != offset:
            before, changed = int(same), int(other)
            while changed - before > 1:
                middle = (before + changed) // 2
                before, changed = (middle, changed) if _offset(zone, middle) == offset else (before, middle)
            return float(changed)
        same = other
    return None
