"""The ideal fluid share: against a slow reference in fractions, and what must hold of any ideal."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import Curve, fluid_service, max_min
from sim.curve import furthest_below, steps
from sim.fluid import Work

amounts = st.floats(0.0, 100.0)
weights = st.floats(0.05, 20.0)
asked = st.lists(st.tuples(amounts, weights), min_size=1, max_size=8)


@given(capacity=st.floats(0.1, 100.0), asked=asked)
def test_max_min_gives_what_there_is_to_those_who_ask(capacity: float, asked: list[tuple[float, float]]) -> None:
    demands, weights = [demand for demand, _ in asked], [weight for _, weight in asked]
    rates = max_min(capacity, demands, weights)
    assert sum(rates) == pytest.approx(min(capacity, sum(demands)))
    assert all(0 <= rate <= demand * (1 + 1e-9) for rate, demand in zip(rates, demands, strict=True))
    # Whoever got less than it asked for got as much for its weight as anybody.
    levels = [rate / weight for rate, weight in zip(rates, weights, strict=True)]
    for rate, demand, level in zip(rates, demands, levels, strict=True):
        if rate < demand * (1 - 1e-9):
            assert level == pytest.approx(max(levels))


whole = st.integers(0, 6)
works = st.lists(
    st.tuples(whole.map(float), st.sampled_from(["a", "b", "c"]), st.integers(1, 5).map(float)), min_size=1, max_size=8
)
heavy = st.fixed_dictionaries({name: st.integers(1, 3).map(float) for name in "abc"})


def reference(work: Sequence[Work], workers: int, weights: Mapping[str, float]) -> dict[str, dict[Fraction, Fraction]]:
    """What each user was given by each time at which anything changes: task by task, in fractions."""
    coming = sorted((Fraction(at), user, Fraction(seconds)) for at, user, seconds in work)
    given: dict[str, Fraction] = {user: Fraction(0) for _, user, _ in coming}
    seen: dict[str, dict[Fraction, Fraction]] = {user: {} for user in given}
    tasks: list[list[Fraction | str]] = []
    now = Fraction(0)
    while coming or tasks:
        while coming and coming[0][0] <= now:
            _, user, seconds = coming.pop(0)
            tasks.append([user, seconds])
        for user, amount in given.items():
            seen[user][now] = amount
        counts = {user: sum(task[0] == user for task in tasks) for user in given}
        rates = poured(Fraction(workers), counts, weights)
        each = {user: rates[user] / counts[user] for user in given if counts[user]}
        ends = [Fraction(task[1]) / each[str(task[0])] for task in tasks]
        ahead = [*ends, *([coming[0][0] - now] if coming else [])]
        length = min(ahead)
        for user in each:
            given[user] += rates[user] * length
        tasks = [[user, Fraction(left) - each[str(user)] * length] for user, left in tasks]
        tasks = [task for task in tasks if task[1]]
        now += length
    for user, amount in given.items():
        seen[user][now] = amount
    return seen


def poured(capacity: Fraction, counts: Mapping[str, int], weights: Mapping[str, float]) -> dict[str, Fraction]:
    """Fill everybody's glass at the speed of its weight until it is full or nothing is left."""
    rates = {user: Fraction(0) for user in counts}
    while thirsty := [user for user in counts if rates[user] < counts[user]]:
        if not capacity:
            break
        heavy = sum(Fraction(weights[user]) for user in thirsty)
        step = min((counts[user] - rates[user]) / Fraction(weights[user]) for user in thirsty)
        step = min(step, capacity / heavy)
        for user in thirsty:
            rates[user] += step * Fraction(weights[user])
        capacity -= step * heavy
    return rates


@given(work=works, workers=st.integers(1, 4), weights=heavy)
def test_the_fluid_is_what_a_slow_reference_says(work: list[Work], workers: int, weights: dict[str, float]) -> None:
    curves = fluid_service(work, workers, weights)
    for user, points in reference(work, workers, weights).items():
        for at, amount in points.items():
            assert curves[user].at(float(at)) == pytest.approx(float(amount), abs=1e-6), (user, float(at))


@given(work=works, workers=st.integers(1, 4), weights=heavy)
def test_all_work_is_done_and_never_by_more_than_there_are_workers(
    work: list[Work], workers: int, weights: dict[str, float]
) -> None:
    curves = fluid_service(work, workers, weights)
    for user, curve in curves.items():
        assert curve.last == pytest.approx(sum(seconds for _, whose, seconds in work if whose == user))
        assert all(one <= other + 1e-9 for one, other in pairwise(curve.values))
    times = sorted({at for curve in curves.values() for at in curve.times})
    for began_at, ended_at in pairwise(times):
        served = sum(curve.at(ended_at) - curve.at(began_at) for curve in curves.values())
        assert served <= workers * (ended_at - began_at) + 1e-6


@given(work=works, workers=st.integers(1, 4))
def test_users_alike_are_served_alike(work: list[Work], workers: int) -> None:
    twins = [(at, user, seconds) for at, _, seconds in work for user in ("one", "other")]
    curves = fluid_service(twins, workers, {})
    times = sorted({*curves["one"].times, *curves["other"].times})
    assert list(curves["one"].along(times)) == pytest.approx(list(curves["other"].along(times)), abs=1e-6)


def test_a_tenant_gains_nothing_from_many_names() -> None:
    names = [(0.0, f"tenant/{number}", 100.0) for number in range(9)]
    curves = fluid_service([*names, *[(0.0, "alone", 100.0)] * 9], 2, {})
    assert curves["alone"].at(10.0) == pytest.approx(10.0)
    assert sum(curves[name].at(10.0) for _, name, _ in names) == pytest.approx(10.0)


def test_a_tenants_weight_and_its_own_tasks_count() -> None:
    work = [(0.0, user, 100.0) for user in ("t", "t/a", "b") for _ in range(9)]
    curves = fluid_service(work, 4, {"t": 3.0, "t/a": 2.0})
    assert [curves[user].at(1.0) for user in ("t", "t/a", "b")] == pytest.approx([1.0, 2.0, 1.0])


def test_work_of_no_length_and_no_work_at_all() -> None:
    assert fluid_service([], 1, {}) == {}
    assert fluid_service([(1.0, "a", 0.0)], 1, {})["a"].last == 0.0


# Curves

points = st.lists(st.tuples(st.integers(0, 20), st.integers(-5, 5)), min_size=1, max_size=8).map(sorted)

bends = st.lists(
    st.tuples(st.integers(0, 20), st.integers(-5, 5)), min_size=1, max_size=8, unique_by=lambda point: point[0]
).map(sorted)


def curve_of(points: Sequence[tuple[int, int]]) -> Curve:
    curve = Curve()
    for at, value in points:
        curve.add(float(at), float(value))
    return curve


@given(points=points, times=st.lists(st.floats(-3.0, 25.0), max_size=20).map(sorted))
def test_a_way_along_a_curve_sees_what_single_looks_see(points: list[tuple[int, int]], times: list[float]) -> None:
    curve = curve_of(points)
    assert list(curve.along(times)) == pytest.approx([curve.at(time) for time in times])


@given(one=bends, other=bends)
def test_the_furthest_below_is_as_far_as_any_look_finds(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    low, high = curve_of(one), curve_of(other)
    below, at = furthest_below(low, high)
    assert below == 0.0 or high.at(at) - low.at(at) == pytest.approx(below)
    first = min(low.times[0], high.times[0])
    assert all(high.at(first + n / 8) - low.at(first + n / 8) <= below + 1e-9 for n in range(200))


@given(changes=st.lists(st.tuples(st.integers(0, 9).map(float), st.sampled_from([1, -1])), max_size=30))
def test_steps_are_the_sums_up_to_each_time(changes: list[tuple[float, int]]) -> None:
    found = dict(steps(changes))
    count = 0
    for time in range(10):
        count = int(found.get(float(time), count))
        assert count == sum(change for at, change in changes if at <= time)
