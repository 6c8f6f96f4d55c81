import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import InvalidConfig, RetryPolicy


@given(
    base=st.floats(0, 1e6),
    factor=st.floats(1, 1e3),
    limit=st.floats(0, 1e6),
    jitter=st.floats(0, 1),
    failures=st.integers(1, 10_000),
    uniform=st.floats(0, 1, exclude_max=True),
)
def test_backoff_stays_inside_its_band(
    base: float, factor: float, limit: float, jitter: float, failures: int, uniform: float
) -> None:
    policy = RetryPolicy(base_seconds=base, factor=factor, max_seconds=limit, jitter=jitter)
    try:
        plain = min(base * math.pow(factor, failures - 1), limit)
    except OverflowError:
        plain = limit if base else 0.0
    delay = policy.delay_seconds(failures, uniform)
    assert plain * (1 - jitter) - 1e-9 * plain <= delay <= plain * (1 + jitter) + 1e-9 * plain


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 10.0), (2, 20.0), (5, 160.0), (12, 20_480.0), (13, 21_600.0), (10_000, 21_600.0)]
)
def test_unless_said_otherwise_delays_double_from_ten_seconds_up_to_six_hours(failures: int, seconds: float) -> None:
    policy = RetryPolicy()
    assert policy.delay_seconds(failures, 0.5) == pytest.approx(seconds)
    assert policy.delay_seconds(failures, 0.0) == pytest.approx(0.8 * seconds)
    assert (policy.max_retries, policy.retry_on, policy.give_up_on) == (3, (), ())


def test_jitter_reaches_both_ends_of_its_band() -> None:
    policy = RetryPolicy(base_seconds=10, jitter=0.2)
    assert policy.delay_seconds(1, 0.0) == 8.0
    assert policy.delay_seconds(1, 1 - 1e-12) == pytest.approx(12.0)


def test_what_is_given_up_on_wins() -> None:
    policy = RetryPolicy(retry_on=("OSError",), give_up_on=("PermissionError",))
    assert policy.retries(["ConnectionError", "OSError"])
    assert not policy.retries(["PermissionError", "OSError"])
    assert not policy.retries(["ValueError"])
    assert RetryPolicy().retries(["ValueError"])


@pytest.mark.parametrize(
    ("field", "bad", "constraint"),
    [
        ("max_retries", -1, "a whole number >= 0"),
        ("max_retries", 2.5, "a whole number >= 0"),
        ("base_seconds", math.nan, "a finite number >= 0"),
        ("factor", 0.5, "a finite number >= 1"),
        ("max_seconds", math.inf, "a finite number >= 0"),
        ("jitter", 1.5, "between 0 and 1"),
    ],
)
def test_a_bad_policy_is_refused_with_field_constraint_and_value(field: str, bad: Any, constraint: str) -> None:
    with pytest.raises(InvalidConfig, match=f"^{field} must be {constraint}, got {bad}$"):
        RetryPolicy(**{field: bad})
