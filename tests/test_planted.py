"""Planted mistakes: each is found by the check that is there for it, shrunk to a few lines, and replays."""

import os
from pathlib import Path
from typing import Any

import attrs
import pytest

from actors import InvalidConfig
from actors.messages import Beat, Finished
from sim import Burst, Fixed, Kind, Runtime, Scenario, Simulation, User, load_scenario, parse_scenario
from sim.explore import explore, variation
from sim.judgement import judge
from sim.planted import PLANTED
from sim.shrink import shrink
from sim.writing import write_scenario

FOLDER = Path(__file__).parent / "planted"
LINES_MAX = 25

CHECKS: dict[str, set[str]] = {
    "no_fencing": {"I3 fencing"},
    "no_lease_scan": {"I2 everything ends", "I8 recovery", "I16 no orphan"},
    "banked_credit": {"nobody waits for what another missed", "I12 service lag", "I23 virtual time"},
    "lost_wakeup": {"I9 work conservation"},
    "double_grant": {"I3 fencing"},
    "no_jitter": {"nobody waits behind a herd", "I20 herd"},
    "early_acknowledgement": {"I2 no lost acknowledgement"},
}
"""Which checks are there for each."""
KNOWN_SEEDS = {
    "no_fencing": 1,
    "no_lease_scan": 0,
    "banked_credit": 1,
    "lost_wakeup": 8,
    "double_grant": 1,
    "no_jitter": 2,
    "early_acknowledgement": 2,
}

MISTAKES = list(PLANTED)


def scenario_with(mistake: str) -> Scenario:
    scenario = load_scenario(FOLDER / f"{mistake}.toml")
    assert scenario.runtime.planted == (mistake,)
    return scenario


def check_found(mistake: str, scenario: Scenario, runs_max: int) -> None:
    """The run fails by a check that is there for the mistake; shrunk and saved, it fails the same one."""
    failed = judge(scenario).failed
    assert failed in CHECKS[mistake]
    shrunk = shrink(scenario, runs_max)
    text = write_scenario(shrunk.scenario, f"Breaks {failed}.")
    assert shrunk.judgement.failed == failed
    assert shrunk.scenario.runtime.planted == (mistake,)
    assert len(text.splitlines()) <= LINES_MAX, text
    assert judge(parse_scenario(text)) == shrunk.judgement


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found_under_a_known_seed_and_shrunk_to_a_few_lines(mistake: str) -> None:
    check_found(mistake, variation(scenario_with(mistake), KNOWN_SEEDS[mistake]), runs_max=150)


@pytest.mark.skipif(os.environ.get("HYPOTHESIS_PROFILE") != "explore", reason="a long look: make explore")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found_within_a_thousand_seeds_and_nothing_without_it(mistake: str) -> None:
    scenario = scenario_with(mistake)
    found = explore(scenario, seeds=range(1_000), jobs=2)
    assert found.scenario is not None
    check_found(mistake, found.scenario, runs_max=2_000)
    innocent = explore(without_mistakes(scenario), seeds=range(1_000), jobs=2)
    assert not innocent.failed, innocent


def without_mistakes(scenario: Scenario) -> Scenario:
    return attrs.evolve(scenario, runtime=attrs.evolve(scenario.runtime, planted=()))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_same_scenario_without_its_mistake_is_innocent(mistake: str) -> None:
    found = explore(without_mistakes(scenario_with(mistake)), seeds=range(10))
    assert not found.failed, found


class Silence:
    """Beats are lost, and the first report comes when the task has long been given to another."""

    def __init__(self) -> None:
        self.late = False

    def envelopes(self, envelope: Any, now: float) -> list[Any]:
        if isinstance(envelope[2], Beat):
            return []
        if isinstance(envelope[2], Finished) and not self.late:
            self.late = True
            return [(4.0, envelope)]
        return [(0.0, envelope)]

    def timer(self, address: str, at: float, now: float) -> float:
        return at


def silent(mistake: tuple[str, ...]) -> Simulation:
    """One task of 2 s with a lease of 1 s, on workers that nobody hears."""
    kind = Kind(name="work", service=Fixed(seconds=2.0), lease_seconds=1.0, max_retries=9)
    user = User(name="alice", arrivals=(Burst(kind="work", count=1),))
    scenario = Scenario(
        name="silent",
        duration_seconds=9.0,
        kinds=(kind,),
        users=(user,),
        runtime=Runtime(workers=8, planted=mistake),
    )
    simulation = Simulation(scenario, gate=Silence())
    simulation.run()
    return simulation


def test_without_fencing_a_zombies_report_is_accepted_and_seen() -> None:
    assert silent(()).ledger.counts["I3 fencing"] == 0
    assert silent(("no_fencing",)).ledger.counts["I3 fencing"] == 1


def test_without_a_look_at_leases_nothing_is_recovered() -> None:
    assert silent(()).result().recovered > 0
    assert silent(("no_lease_scan",)).result().recovered == 0


def test_several_mistakes_can_be_planted_together() -> None:
    simulation = silent(("no_fencing", "no_lease_scan", "double_grant", "no_jitter", "banked_credit"))
    assert simulation.result().recovered == 0


def test_a_mistake_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"^runtime\.planted must be of no_fencing, .*'no_fence' \(did you mean"):
        parse_scenario('name = "x"\nduration_seconds = 1\nkind = []\nuser = []\n[runtime]\nplanted = ["no_fence"]')
