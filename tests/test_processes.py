"""Arrival processes and service times: what each draws, and its mean against the closed form."""

import math
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import InvalidConfig
from sim import Empirical, Exponential, Fixed, Lognormal, OnOff, Pareto, Uniform
from sim.processes import Service

POINTS = 5_000
seconds = st.floats(0.01, 1000)
uniforms = st.floats(0, 1, exclude_max=True)

SERVICES: list[tuple[Service, float, float]] = [
    (Fixed(seconds=3.0), 3.0, 3.0),
    (Exponential(mean_seconds=2.0), 2.0, 2.0 * math.log(2)),
    (Uniform(low_seconds=1.0, high_seconds=4.0), 2.5, 2.5),
    (Lognormal(mean_seconds=2.0, sigma=0.5), 2.0, 2.0 * math.exp(-0.125)),
    (Lognormal(mean_seconds=2.0, cv=1.0), 2.0, 2.0 / math.sqrt(2)),
    (Pareto(mean_seconds=3.0, alpha=3.0), 3.0, 2.0 * 2 ** (1 / 3)),
    (Pareto(scale_seconds=2.0, alpha=3.0), 3.0, 2.0 * 2 ** (1 / 3)),
    (Empirical(seconds=(1.0, 2.0, 6.0)), 3.0, 2.0),
]


def integrated(service: Service, power: int = 1) -> float:
    """The mean of a power of the time: its inverse distribution function, integrated over (0, 1)."""
    return math.fsum(service.sample((number + 0.5) / POINTS) ** power for number in range(POINTS)) / POINTS


@pytest.mark.parametrize(("service", "mean", "median"), SERVICES, ids=lambda value: repr(value))
def test_a_service_time_has_the_mean_and_the_median_of_its_formula(
    service: Service, mean: float, median: float
) -> None:
    assert integrated(service) == pytest.approx(mean, rel=0.01)
    assert service.sample(0.5) == pytest.approx(median, rel=1e-9)


@given(
    st.one_of(
        st.builds(Fixed, seconds=seconds),
        st.builds(Exponential, mean_seconds=seconds),
        st.builds(lambda low, more: Uniform(low_seconds=low, high_seconds=low + more), seconds, seconds),
        st.builds(Lognormal, mean_seconds=seconds, sigma=st.floats(0.01, 3)),
        st.builds(Lognormal, mean_seconds=seconds, cv=st.floats(0.01, 10)),
        st.builds(Pareto, mean_seconds=seconds, alpha=st.floats(1.01, 10)),
        st.builds(Empirical, seconds=st.lists(seconds, min_size=1).map(sorted).map(tuple)),
    ),
    uniforms,
    uniforms,
)
def test_a_larger_number_is_a_longer_time_and_every_number_is_one(service: Service, one: float, other: float) -> None:
    shorter, longer = service.sample(min(one, other)), service.sample(max(one, other))
    assert 0 <= shorter <= longer < math.inf


@settings(max_examples=20)
@given(seconds, st.floats(0.1, 1.0))
def test_the_coefficient_of_variation_of_a_lognormal_is_the_one_given(mean: float, cv: float) -> None:
    service = Lognormal(mean_seconds=mean, cv=cv)
    measured = integrated(service)
    assert measured == pytest.approx(mean, rel=0.005)
    assert math.sqrt(integrated(service, 2) - measured**2) / measured == pytest.approx(cv, rel=0.05)


@pytest.mark.parametrize("extreme", [0.0, 2.0**-53, 1 - 2.0**-53])
def test_the_smallest_and_the_largest_draw_have_a_time(extreme: float) -> None:
    for service, _, _ in SERVICES:
        assert 0 <= service.sample(extreme) < math.inf


BAD: list[tuple[type[Any], dict[str, Any], str]] = [
    (Uniform, {"low_seconds": 2.0, "high_seconds": 1.0}, "high_seconds must be >= low_seconds, 2, got 1.0"),
    (Uniform, {"low_seconds": 0.0, "high_seconds": 0.0}, "high_seconds must be a finite number > 0, got 0.0"),
    (Lognormal, {"mean_seconds": 1.0}, "lognormal must have either sigma or cv"),
    (Lognormal, {"mean_seconds": 1.0, "sigma": 1.0, "cv": 1.0}, "lognormal must have either sigma or cv"),
    (Pareto, {"alpha": 1.0, "mean_seconds": 1.0}, "alpha must be a finite number > 1, got 1.0"),
    (Pareto, {"alpha": 2.0}, "pareto must have either mean_seconds or scale_seconds"),
    (Empirical, {"seconds": ()}, "seconds must have at least one number in it, got none"),
    (Empirical, {"seconds": (1.0, -1.0)}, "seconds must be finite numbers >= 0, got -1.0"),
    (OnOff, {"kind": "k", "per_second": 1.0, "on_seconds": 0.0, "off_seconds": 1.0}, "on_seconds must be .* 0.001"),
]


@pytest.mark.parametrize(("made", "options", "said"), BAD, ids=[said for _, _, said in BAD])
def test_what_has_no_meaning_is_refused(made: type[Any], options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        made(**options)


# Bursts


def test_fixed_periods_have_arrivals_while_on_and_none_while_off() -> None:
    bursts = OnOff(kind="work", per_second=20.0, on_seconds=2.0, off_seconds=8.0, periods="fixed")
    times = list(bursts.times(Random(1), 1000.0))
    assert all(at % 10.0 < 2.0 for at in times)
    assert times == sorted(times) and times[-1] < 1000.0
    # 100 periods of 40 arrivals: four standard deviations of a Poisson count.
    assert abs(len(times) - 4000) < 4 * math.sqrt(4000)


def test_exponential_periods_are_on_for_their_part_of_the_time() -> None:
    bursts = OnOff(kind="work", per_second=50.0, on_seconds=1.0, off_seconds=3.0)
    times = list(bursts.times(Random(2), 20_000.0))
    # The number of on seconds in n periods has a deviation near sqrt(n) / 2 of them; four of those.
    assert abs(len(times) / 50.0 - 5000) < 4 * math.sqrt(5000)
    gaps = [later - at for at, later in pairwise(times)]
    long = [gap for gap in gaps if gap > 0.5]
    assert 2.5 < sum(long) / len(long) < 4.5, "between bursts nothing comes for three seconds and more"


def test_the_same_seed_gives_the_same_bursts() -> None:
    bursts = OnOff(kind="work", per_second=5.0, on_seconds=1.0, off_seconds=1.0)
    first, again, other = (list(bursts.times(Random(seed), 100.0)) for seed in (3, 3, 4))
    assert first == again != other
