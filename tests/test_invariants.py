"""What must hold on every run does, whatever the policies, limits and messages lost; and what breaks is found."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import ORDERING, SHARING, Priority
from sim import (
    Burst,
    Exponential,
    Fixed,
    Kind,
    PauseEvent,
    Poisson,
    ResumeEvent,
    Runtime,
    Scenario,
    SetLimitEvent,
    SetWeightEvent,
    Simulation,
    User,
    Workers,
)
from sim.invariants import INVARIANTS
from tests.test_metrics import Unreliable

NAMES = ("alice", "bob", "tenant", "tenant/carol", "tenant/dave", "tenant/dave/eve")
SCRIPTS = st.lists(st.sampled_from(["deliver", "deliver", "drop", "repeat", "delay"]), max_size=25)


@st.composite
def kinds(draw: st.DrawFn, name: str) -> Kind:
    seconds = draw(st.sampled_from([0.5, 1.3, 4.0]))
    exact = draw(st.booleans())
    return Kind(
        name=name,
        service=Fixed(seconds=seconds) if exact else Exponential(mean_seconds=seconds),
        cost=seconds if exact else draw(st.sampled_from([None, 0.7])),
        lease_seconds=4.0,
        timeout_seconds=draw(st.sampled_from([None, None, 3.0])),
        max_retries=draw(st.integers(0, 3)),
        concurrency_max=draw(st.sampled_from([None, None, None, 1])),
    )


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    common: dict[str, Any] = {
        "kind": st.sampled_from(["even", "odd"]),
        "priority": st.sampled_from(Priority),
        "delay_seconds": st.sampled_from([None, None, 2.0]),
        "expires_after_seconds": st.sampled_from([None, None, 5.0]),
    }
    arrivals = st.one_of(
        st.builds(Burst, count=st.integers(1, 15), at_seconds=st.sampled_from([0.0, 5.0, 60.0]), **common),
        st.builds(Poisson, per_second=st.floats(0.2, 2), **common),
    )
    users = tuple(
        User(
            name=name,
            weight=draw(st.sampled_from([0.5, 1.0, 3.0])),
            arrivals=tuple(draw(st.lists(arrivals, min_size=1, max_size=3))),
        )
        for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    )
    events = st.one_of(
        st.builds(PauseEvent, at_seconds=st.just(3.0), user=st.just(users[0].name)),
        st.builds(ResumeEvent, at_seconds=st.just(9.0), user=st.just(users[0].name)),
        st.builds(SetWeightEvent, at_seconds=st.just(6.0), user=st.just(users[-1].name), weight=st.just(2.0)),
        st.builds(SetLimitEvent, at_seconds=st.just(12.0), kind=st.just("odd"), concurrency_max=st.just(2)),
    )
    return Scenario(
        name="any",
        seed=draw(st.integers(0, 99)),
        duration_seconds=20.0,
        kinds=(draw(kinds("even")), draw(kinds("odd"))),
        users=users,
        events=tuple(draw(st.one_of(st.just([]), st.lists(events, max_size=3)))),
        runtime=Runtime(
            workers=draw(st.integers(1, 6)),
            sharing=SHARING.make(draw(st.one_of(st.just("weighted_fair"), st.sampled_from(sorted(SHARING.classes))))),
            ordering=ORDERING.make(draw(st.one_of(st.just("aging"), st.sampled_from(sorted(ORDERING.classes))))),
            critical_burst=draw(st.sampled_from([None, 2, 16])),
            admitted_max=draw(st.sampled_from([None, None, 8])),
            admitted_per_user_max=draw(st.sampled_from([None, None, 5])),
            when_full=draw(st.sampled_from(["reject", "wait", "drop_oldest"])),
        ),
        workers=draw(st.sampled_from([(), (), (), (Workers(count=2), Workers(kinds=("odd",)))])),
    )


@given(scenarios(), st.one_of(st.just([]), SCRIPTS))
def test_no_run_breaks_an_invariant(scenario: Scenario, script: list[str]) -> None:
    simulation = Simulation(scenario, gate=Unreliable(script))
    simulation.run()
    assert simulation.ledger.violations == []


@pytest.mark.parametrize("ordering", sorted(ORDERING.classes))
@pytest.mark.parametrize("sharing", sorted(SHARING.classes))
@given(scenario=scenarios())
def test_no_pair_of_policies_does(sharing: str, ordering: str, scenario: Scenario) -> None:
    pass


def test_there_is_no_invariant_twice() -> None:
    assert len(set(INVARIANTS)) == len(INVARIANTS)
