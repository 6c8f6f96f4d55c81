"""Student's t intervals: against tables, against the density, and that they hold the mean as often as they say."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import interval_of
from sim.intervals import student_t

# Two-sided 95 % and 99 % quantiles, as every table has them.
TABLE = [
    (1, 0.95, 12.706),
    (2, 0.95, 4.303),
    (3, 0.95, 3.182),
    (4, 0.95, 2.776),
    (7, 0.95, 2.365),
    (9, 0.95, 2.262),
    (19, 0.95, 2.093),
    (120, 0.95, 1.980),
    (1, 0.99, 63.657),
    (5, 0.99, 4.032),
    (10, 0.99, 3.169),
]


@pytest.mark.parametrize(("freedom", "confidence", "t"), TABLE)
def test_quantiles_are_those_of_the_tables(freedom: int, confidence: float, t: float) -> None:
    assert student_t(freedom, confidence) == pytest.approx(t, abs=6e-4)


@pytest.mark.parametrize("freedom", range(1, 41))
def test_so_much_of_the_density_lies_within(freedom: int) -> None:
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    t, parts = student_t(freedom, 0.9), 2_000
    middles = (t * (2 * part + 1) / (2 * parts) for part in range(parts))
    area = 2 * t / parts * sum(scale * (1 + x * x / freedom) ** (-(freedom + 1) / 2) for x in middles)
    assert area == pytest.approx(0.9, abs=1e-5)


def test_they_hold_the_mean_as_often_as_they_say() -> None:
    random, held, trials = Random(1), 0, 4_000
    for _ in range(trials):
        interval = interval_of([random.gauss(3.0, 2.0) for _ in range(5)])
        assert interval is not None
        held += interval.low <= 3.0 <= interval.high
    assert held / trials == pytest.approx(0.95, abs=0.015)


@given(
    values=st.lists(st.integers(-1000, 1000), min_size=2, max_size=9), by=st.integers(-50, 50), times=st.integers(1, 9)
)
def test_they_move_and_grow_with_the_values(values: list[int], by: int, times: int) -> None:
    one, other = interval_of(values), interval_of([value * times + by for value in values])
    assert one is not None and one.half is not None and other is not None
    assert other.mean == pytest.approx(one.mean * times + by)
    assert other.half == pytest.approx(one.half * times)


def test_what_one_value_or_none_says() -> None:
    assert interval_of([]) is None
    alone = interval_of([4.0])
    assert alone is not None and (alone.low, alone.high, alone.half, alone.excludes_zero) == (4.0, 4.0, None, False)


@pytest.mark.parametrize(("values", "sure"), [([1.0, 1.1, 0.9], True), ([1.0, -1.0, 0.5], False), ([-2.0, -2.0], True)])
def test_a_difference_is_sure_if_no_zero_is_within(values: list[float], sure: bool) -> None:
    interval = interval_of(values)
    assert interval is not None and interval.excludes_zero == sure
