"""Service times drawn by start: then the total wait is the same whatever the order of work."""

import math

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import ORDERING, SHARING, Capped, InvalidConfig, Priority
from sim import Burst, Exponential, Fixed, Kind, Pareto, Poisson, Runtime, Scenario, User, simulate, simulate_fully

WORKERS = 3


def total_wait(scenario: Scenario, sharing: str, ordering: str) -> float:
    # A cap is a limit, under which a worker may idle beside work; as wide as the pool it is none.
    policy = Capped(user_concurrency_max=WORKERS) if sharing == "capped" else SHARING.make(sharing)
    result = simulate(scenario, sharing=policy, ordering=ordering)
    assert result.passed, result.violations
    return math.fsum(task.started_at - task.order_at for task in result.table if task.started_at is not None)


def contended(seed: int, service: Exponential | Pareto | Fixed) -> Scenario:
    users = tuple(
        User(
            name=name,
            weight=weight,
            arrivals=(
                Poisson(kind="work", per_second=0.8, priority=level),
                Burst(kind="work", count=15, at_seconds=at, priority=Priority.HIGH),
                Poisson(kind="work", per_second=0.4, priority=Priority.LOW, expires_after_seconds=1e6),
            ),
        )
        for name, weight, level, at in (
            ("alice", 1.0, Priority.NORMAL, 5.0),
            ("bob", 3.0, Priority.CRITICAL, 10.0),
            ("tenant/carol", 0.5, Priority.VERY_LOW, 5.0),
        )
    )
    return Scenario(
        name="contended",
        seed=seed,
        duration_seconds=40.0,
        service_draws="start",
        runtime=Runtime(workers=WORKERS),
        kinds=(Kind(name="work", service=service, lease_seconds=1e6),),
        users=users,
    )


@settings(max_examples=3)
@given(
    st.integers(0, 1000),
    st.sampled_from([Exponential(mean_seconds=1.5), Pareto(mean_seconds=1.5, alpha=1.5), Fixed(seconds=1.5)]),
)
def test_the_total_wait_is_the_same_under_every_work_conserving_order(
    seed: int, service: Exponential | Pareto | Fixed
) -> None:
    scenario = contended(seed, service)
    totals = {
        (sharing, ordering): total_wait(scenario, sharing, ordering)
        for sharing in SHARING.classes
        for ordering in ORDERING.classes
    }
    assert len(totals) == 48
    expected = totals["fifo", "fifo"]
    assert expected > 0
    assert {names: total for names, total in totals.items() if abs(total - expected) > 1e-6} == {}


def times_in_order_of_start(scenario: Scenario, sharing: str) -> list[float]:
    tasks = sorted(simulate(scenario, sharing=sharing).table, key=lambda task: task.started_at or 0.0)
    return [round((task.completed_at or 0.0) - (task.started_at or 0.0), 6) for task in tasks]


def test_drawn_by_start_the_nth_to_start_takes_the_nth_time() -> None:
    """One worker, so that no two start together."""
    scenario = attrs.evolve(contended(1, Exponential(mean_seconds=1.5)), runtime=Runtime(workers=1))
    fair, plain = (times_in_order_of_start(scenario, sharing) for sharing in ("weighted_fair", "fifo"))
    assert fair == plain
    assert len(set(fair)) == len(fair) > 100


def test_drawn_by_task_the_total_wait_depends_on_the_order() -> None:
    scenario = attrs.evolve(contended(1, Exponential(mean_seconds=1.5)), service_draws="task")
    fair, plain = (total_wait(scenario, sharing, "aging") for sharing in ("weighted_fair", "fifo"))
    assert abs(fair - plain) > 1e-3


def test_drawn_by_start_the_run_is_the_same_every_time() -> None:
    scenario = contended(7, Exponential(mean_seconds=1.5))
    assert simulate(scenario).trace_sha256 == simulate(scenario).trace_sha256
    assert simulate(scenario).trace_sha256 != simulate(attrs.evolve(scenario, service_draws="task")).trace_sha256


def test_a_full_simulation_draws_by_task_only() -> None:
    with pytest.raises(InvalidConfig, match="service_draws must be 'task' in a full simulation, got 'start'"):
        simulate_fully(contended(7, Fixed(seconds=1.0)))
