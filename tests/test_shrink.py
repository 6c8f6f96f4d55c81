"""Shrinking: smaller, simpler, and still the same check for the same reason."""

from pathlib import Path

import attrs
import pytest

from sim import Burst, Check, Exponential, FixedRate, Kind, Poisson, RandomOrder, Runtime, Scenario, User, load_scenario
from sim.explore import variation
from sim.judgement import judge
from sim.shrink import shrink
from sim.writing import write_scenario

NO_JITTER = Path(__file__).parent / "planted" / "no_jitter.toml"


def crowded(*checks: Check) -> Scenario:
    """Far more than is needed to make somebody wait."""
    kinds = tuple(Kind(name=name, service=Exponential(mean_seconds=2.0), cost=1.5) for name in ("work", "mail"))
    users = (
        User(name="alice", weight=2.5, arrivals=(Poisson(kind="work", per_second=1.7), Burst(kind="mail", count=9))),
        User(name="bob", arrivals=(FixedRate(kind="work", per_second=1.3),)),
        User(name="carol", arrivals=(Burst(kind="work", count=30, at_seconds=7.3),)),
    )
    return Scenario(
        name="crowded",
        seed=5,
        duration_seconds=40.0,
        kinds=kinds,
        users=users,
        runtime=Runtime(workers=3, critical_burst=4),
        checks=checks,
        interleaving=RandomOrder(seed=7),
    )


def test_all_that_a_check_does_not_need_is_left_out() -> None:
    unneeded = Check(name="fine", metric="completed", at_least=1)
    quick = Check(name="quick", metric="wait_seconds_max", at_most=2.0)
    shrunk = shrink(crowded(unneeded, quick))
    assert shrunk.judgement.failed == "quick"
    assert write_scenario(shrunk.scenario).splitlines()[-4:] == [
        "[[check]]",
        'name = "quick"',
        'metric = "wait_seconds_max"',
        "at_most = 2.0",
    ]
    small = shrunk.scenario
    assert (len(small.kinds), len(small.users), small.interleaving, small.runtime.workers) == (1, 1, None, 1)
    (arrivals,) = small.users[0].arrivals
    count = arrivals.count if isinstance(arrivals, Burst) else len(arrivals.seconds)  # type: ignore[union-attr]
    assert count <= 5, "a few tasks on one worker are enough to make one of them wait for more than 2 s"


def test_the_runs_are_bounded_and_counted() -> None:
    scenario = crowded(Check(name="quick", metric="wait_seconds_max", at_most=2.0))
    calls: list[None] = []
    shrunk = shrink(scenario, runs_max=20, on_run=lambda: calls.append(None))
    # The one that is shrunk is judged too, and each candidate may be run a second time without what disturbs it.
    assert shrunk.runs <= 21
    assert len(calls) == shrunk.runs - 1
    assert judge(shrunk.scenario) == shrunk.judgement


def test_a_check_that_measured_something_still_does() -> None:
    shrunk = shrink(crowded(Check(name="slow", metric="wait_seconds_max", user="carol", at_least=1e9)), runs_max=200)
    assert shrunk.judgement.said != "measured nothing, limit 1e+09"
    assert [user.name for user in shrunk.scenario.users] == ["carol"]


def test_what_only_a_mistake_breaks_is_still_broken_only_by_it() -> None:
    """On one worker everybody waits, mistake or not: the scenario must not shrink to that."""
    scenario = variation(load_scenario(NO_JITTER), 2)
    broken = judge(scenario).failed
    shrunk = shrink(scenario, runs_max=100).scenario
    assert shrunk != scenario
    calm = attrs.evolve(shrunk, interleaving=None, runtime=attrs.evolve(shrunk.runtime, planted=()))
    assert judge(shrunk).failed == broken
    assert judge(calm).failed is None


def test_a_scenario_that_breaks_nothing_is_not_shrunk() -> None:
    with pytest.raises(ValueError, match=r"^scenario must break a check to be shrunk, got 'crowded'$"):
        shrink(crowded())
