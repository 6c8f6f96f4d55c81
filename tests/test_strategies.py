"""Scenarios for Hypothesis: they run, they are small, all there is comes up, and they shrink to something readable."""

import builtins
import importlib
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings

from actors import SHARING, Deficit, InvalidConfig
from sim import Burst, Fixed, Kind, Runtime, Scenario, User, simulate
from sim.operator import ACTIONS
from sim.processes import PROCESSES, SERVICES
from sim.strategies import DURATION_SECONDS, arrivals, crowds, kinds, scenarios, workloads

QUICK = settings(max_examples=2_000, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
SHRUNK = settings(max_examples=2_000, database=None)


@given(scenarios())
def test_any_scenario_runs_and_keeps_every_invariant(scenario: Scenario) -> None:
    result = simulate(scenario)
    assert result.passed, result.violations


@given(workloads())
@settings(max_examples=50)
def test_a_workload_ends_and_every_task_takes_what_it_costs(scenario: Scenario) -> None:
    result = simulate(scenario)
    assert result.passed and result.turns.exact
    assert all(task.status.terminal for task in result.table)


@given(workloads(max_tasks=30, users=3))
@settings(max_examples=50)
def test_a_workload_is_no_larger_than_it_may_be(scenario: Scenario) -> None:
    """A Poisson process has no largest number of arrivals: hardly ever more than three times its mean and a few."""
    assert simulate(scenario).jobs <= 3 * 30 + 10


FROM_FILES = {"trace", "swf"}
"""Arrivals that are read from a file, which a strategy cannot make up."""


@pytest.mark.parametrize("name", sorted(set(PROCESSES) - FROM_FILES))
def test_every_arrival_process_comes_up(name: str) -> None:
    find(arrivals(["crawl"], plain=False), lambda found: isinstance(found, PROCESSES[name]), settings=QUICK)


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"empirical"}))
def test_every_service_comes_up(name: str) -> None:
    find(kinds(), lambda found: isinstance(found[0].service, SERVICES[name]), settings=QUICK)


@pytest.mark.parametrize("name", sorted(ACTIONS))
def test_every_action_of_an_operator_comes_up(name: str) -> None:
    find(scenarios(), lambda found: any(isinstance(event, ACTIONS[name]) for event in found.events), settings=QUICK)


FEATURES: dict[str, Callable[[Scenario], bool]] = {
    "nested names": lambda found: any("/" in user.name for user in found.users),
    "assignments": lambda found: any(table.users for table in found.workers),
    "no assignments": lambda found: not found.workers,
    "a limited user": lambda found: any(user.rate_limit for user in found.users),
    "a limited kind": lambda found: any(kind.concurrency_max for kind in found.kinds),
    "a limit on everything": lambda found: found.runtime.rate_limit is not None,
    "a door": lambda found: found.runtime.admitted_max is not None,
    "weights": lambda found: len({user.weight for user in found.users}) > 1,
    "deadlines": lambda found: any(each.expires_after_seconds for user in found.users for each in user.arrivals),
    "delays": lambda found: any(each.delay_seconds for user in found.users for each in user.arrivals),
    "timeouts": lambda found: any(kind.timeout_seconds for kind in found.kinds),
}


@pytest.mark.parametrize("feature", FEATURES)
def test_whatever_a_runtime_can_be_set_up_with_comes_up(feature: str) -> None:
    find(scenarios(), FEATURES[feature], settings=QUICK)


@pytest.mark.parametrize("name", SHARING.classes)
def test_every_sharing_policy_comes_up(name: str) -> None:
    find(scenarios(), lambda found: SHARING.name_of(found.runtime.sharing) == name, settings=QUICK)


def test_a_workload_shrinks_to_two_users_with_one_task_each_on_one_worker() -> None:
    def one(name: str) -> User:
        return User(name=name, arrivals=(Burst(kind="crawl", count=1),))

    assert find(workloads(), lambda found: True, settings=SHRUNK) == Scenario(
        name="workload",
        duration_seconds=DURATION_SECONDS,
        kinds=(Kind(name="crawl", service=Fixed(seconds=0.5), cost=0.5),),
        users=(one("alice"), one("bob")),
        runtime=Runtime(workers=1),
    )


def test_users_may_be_named_and_policies_given() -> None:
    found = find(workloads(users=["x", "y/z"], sharing="deficit", ordering="fifo"), lambda found: True, settings=QUICK)
    assert [user.name for user in found.users] == ["x", "y/z"]
    assert found.runtime.sharing == Deficit()
    assert SHARING.name_of(found.runtime.sharing) == "deficit"


def test_weights_and_costs_can_be_left_out() -> None:
    for found in (find(workloads(weighted=False, exact=False), lambda found: True, settings=QUICK),):
        assert {user.weight for user in found.users} == {1.0}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: workloads(workers_max=0), "workers_max must be from 1 to 10000, got 0"),
        (lambda: crowds(["crawl"], names=9), "users must be from 1 to 8, got 9"),
        (lambda: crowds(["crawl"], max_tasks=0), "max_tasks must be from 1 to 1000000, got 0"),
        (lambda: kinds(count_max=4), "count_max must be from 1 to 3, got 4"),
    ],
)
def test_what_cannot_be_made_is_refused_at_once(make: Callable[[], object], said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        make()


def test_without_hypothesis_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def no_hypothesis(name: str, *rest: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "hypothesis":
            raise ImportError("no module named hypothesis")
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", no_hypothesis)
    monkeypatch.delitem(sys.modules, "sim.strategies")
    with pytest.raises(ImportError, match=r"needs the test extra: pip install 'evenhand\[test\]'"):
        importlib.import_module("sim.strategies")
