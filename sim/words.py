"""Numbers as people say them: how long, how many."""

import math

__all__ = ["count", "duration", "durations", "spread", "time_unit"]

_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))
_MILLI = (1e-3, "ms")
_ROUNDING = 1e-9


def duration(seconds: float) -> str:
    """A length of time with as many digits as matter.

    >>> [duration(seconds) for seconds in (0.0, 0.0042, 0.71, 14.2, 3100.0, 9000.0, 1e6)]
    ['0 s', '4.2 ms', '0.71 s', '14 s', '52 min', '2.5 h', '12 d']
    """
    if seconds < 0:
        return "-" + duration(-seconds)
    if seconds < 1e-6:
        return "0 s"
    for unit, name in _UNITS:
        # Up to 99 s and 90 min, because 1.2 min and 1.3 h say less.
        if seconds >= unit * (1.5 if unit > 1 else 1):
            return f"{_digits(seconds / unit)} {name}"
    return f"{_digits(seconds * 1000)} ms" if seconds < 0.0995 else f"{seconds:.2f} s"


def count(number: float) -> str:
    """A number of things.

    >>> count(30225), count(0.5)
    ('30,225', '0.50')
    """
    return f"{number:,.0f}" if number == int(number) else _digits(number)


def spread(mean: float, half: float | None, unit: str = "") -> str:
    """A mean and half the width of its interval, with as many digits as are sure.

    >>> spread(12.3456, 0.078), spread(30225.0, 12.0), spread(0.5, None), spread(50.1, 2.4, "%")
    ('12.346 ± 0.078', '30,225 ± 12', '0.50', '50.1 ± 2.4 %')
    """
    after = f" {unit}" if unit else ""
    if half is None or half <= abs(mean) * _ROUNDING:
        return _signed(mean) + after
    digits = min(4, max(0, 1 - math.floor(math.log10(half))))
    return f"{mean:,.{digits}f} ± {half:,.{digits}f}{after}"


def durations(mean: float, half: float | None) -> str:
    """The same for a length of time: both in the unit that fits the larger.

    >>> durations(3100.0, 24.0), durations(0.0071, 0.0002), durations(0.0, None)
    ('51.67 ± 0.40 min', '7.10 ± 0.20 ms', '0 s')
    """
    if half is None or half <= abs(mean) * _ROUNDING:
        return duration(mean)
    size = max(abs(mean), half)
    unit, name = next(((unit, name) for unit, name in _UNITS if size >= unit * (1.5 if unit > 1 else 0.0995)), _MILLI)
    return spread(mean / unit, half / unit, name)


def time_unit(span_seconds: float) -> tuple[float, str]:
    """In what times are told on an axis of this length: seconds to a unit, and its name.

    >>> time_unit(45.0), time_unit(3600.0)
    ((1.0, 's'), (60.0, 'min'))
    """
    for unit, name in _UNITS:
        if span_seconds >= unit * 3:
            return unit, name
    return 1.0, "s"


def _signed(number: float) -> str:
    return f"-{_digits(-number)}" if number < 0 else _digits(number)


def _digits(number: float) -> str:
    for digits, below in ((2, 1.0), (1, 9.95)):
        if number < below:
            return f"{number:.{digits}f}"
    return f"{number:,.0f}"
