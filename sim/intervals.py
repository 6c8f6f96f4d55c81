"""How sure a mean over several seeds is: the two-sided confidence interval by Student's t distribution ("Student" 1908).

With n values of mean M and standard deviation s (n - 1 in its denominator) the interval is M +- t * s / sqrt(n), where t is
the quantile of Student's distribution with n - 1 degrees of freedom. It supposes that the values are independent, which runs under
different seeds are, and about normal. Two policies on the same seeds are compared by the interval of the differences seed by
seed: what a seed does to both of them alike drops out.

The distribution has a closed form for whole degrees of freedom (Abramowitz, Stegun 1964, 26.7.3 and 26.7.4), which is
inverted by bisection.
"""

import math
from collections.abc import Sequence
from functools import cache

import attrs

__all__ = ["CONFIDENCE", "Interval", "interval_of", "student_t"]

CONFIDENCE = 0.95
"""How often such an interval holds the true mean."""


@attrs.frozen
class Interval:
    """A mean and how sure it is."""

    mean: float
    half: float | None
    """Half the width of the interval; None where one value alone says nothing of that."""
    count: int
    """Values that it comes from."""

    @property
    def low(self) -> float:
        """The lower end; the mean itself where there is but one value."""
        return self.mean - (self.half or 0.0)

    @property
    def high(self) -> float:
        """The upper end."""
        return self.mean + (self.half or 0.0)

    @property
    def excludes_zero(self) -> bool:
        """Whether a difference is too large to be chance, at this confidence."""
        return self.half is not None and not self.low <= 0.0 <= self.high


def interval_of(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """The mean of these values with its confidence interval; None if there are none.

    >>> found = interval_of([1.0, 2.0, 3.0])
    >>> found.mean, round(found.half, 3), found.count
    (2.0, 2.484, 3)
    >>> interval_of([7.0])
    Interval(mean=7.0, half=None, count=1)
    """
    count = len(values)
    if not count:
        return None
    mean = math.fsum(values) / count
    if count == 1:
        return Interval(mean, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return Interval(mean, student_t(count - 1, confidence) * math.sqrt(variance / count), count)


@cache
def student_t(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The t that a value of Student's distribution exceeds on neither side with this probability.

    >>> [round(student_t(freedom), 3) for freedom in (1, 2, 9, 30)]
    [12.706, 4.303, 2.262, 2.042]
    """
    low, high = 0.0, 1.0
    while _within(high, freedom) < confidence:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if _within(middle, freedom) < confidence:
            low = middle
        else:
            high = middle
    return high


def _within(t: float, freedom: int) -> float:
    """The probability of a value between -t and t."""
    angle = math.atan2(t, math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = total = (cosine if freedom > 1 else 0.0) if odd else 1.0
    for number in range(2 + odd, freedom - 1, 2):
        term *= cosine * cosine * (number - 1) / number
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
