"""Scenarios as text: what is written reads back as an equal scenario, and says no more than it must."""

from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import ORDERING, SHARING, InvalidConfig, Priority
from sim import (
    At,
    Burst,
    Check,
    Exponential,
    Fixed,
    FixedRate,
    Kind,
    PauseEvent,
    Poisson,
    PriorityOrder,
    RandomOrder,
    ResumeEvent,
    Runtime,
    Scenario,
    SetLimitEvent,
    SetWeightEvent,
    User,
    Workers,
    load_scenario,
    parse_scenario,
)
from sim.planted import PLANTED
from sim.storage import Storage
from sim.writing import write_scenario

SCENARIOS = sorted((Path(__file__).parent.parent / "scenarios").rglob("*.toml"))

above_zero = st.floats(1e-3, 1e6)
from_zero = st.floats(0, 1e6)
names = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=9)
levels = st.sampled_from(Priority)


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def tuples(values: st.SearchStrategy[Any], size: int = 2) -> st.SearchStrategy[Any]:
    return st.lists(values, max_size=size).map(tuple)


def arrivals_of(kinds: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    common: dict[str, Any] = {
        "kind": kinds,
        "priority": levels,
        "delay_seconds": optional(from_zero),
        "expires_after_seconds": optional(above_zero),
    }
    return st.one_of(
        st.builds(Poisson, per_second=above_zero, **common),
        st.builds(FixedRate, per_second=above_zero, **common),
        st.builds(At, seconds=tuples(from_zero, 4), **common),
        st.builds(Burst, count=st.integers(1, 99), at_seconds=from_zero, **common),
    )


def checks_of(users: st.SearchStrategy[str]) -> st.SearchStrategy[Check]:
    limits: st.SearchStrategy[dict[str, Any]] = st.one_of(
        st.fixed_dictionaries({"at_most": st.floats(-1e6, 1e6)}), st.fixed_dictionaries({"at_least": from_zero})
    )
    groups: st.SearchStrategy[dict[str, Any]] = st.one_of(
        st.just({}), st.fixed_dictionaries({"user": users}), st.fixed_dictionaries({"level": levels})
    )
    return st.tuples(st.text(max_size=9), st.sampled_from(["pass", "fail"]), limits, groups).map(
        lambda drawn: Check(name=drawn[0], expect=drawn[1], metric="wait_seconds_max", **drawn[2], **drawn[3])
    )


events = st.one_of(
    st.builds(PauseEvent, at_seconds=from_zero),
    st.builds(ResumeEvent, at_seconds=from_zero),
    st.builds(SetLimitEvent, at_seconds=from_zero, rate_limit=optional(above_zero), kind=st.just("work")),
    st.builds(SetWeightEvent, at_seconds=from_zero, weight=above_zero, user=st.just("alice")),
)
sharing = st.one_of(
    st.sampled_from(sorted(SHARING.classes)).map(SHARING.make),
    st.builds(lambda seed: SHARING.make({"policy": "lottery", "seed": seed}), st.integers(0, 9)),
)
ordering = st.one_of(
    st.sampled_from(sorted(ORDERING.classes)).map(ORDERING.make),
    st.builds(lambda seconds: ORDERING.make({"policy": "aging", "aging_seconds": seconds}), above_zero),
)
runtimes = st.builds(
    Runtime,
    workers=st.integers(1, 99),
    sharing=sharing,
    ordering=ordering,
    critical_burst=optional(st.integers(1, 99)),
    admission_share=optional(above_zero),
    rate_limit=optional(above_zero),
    admitted_max=optional(st.integers(0, 9)),
    planted=tuples(st.sampled_from(sorted(PLANTED))),
    store=optional(st.builds(Storage, commit_seconds=above_zero, flush_commits=st.integers(1, 9))),
)
interleavings = optional(
    st.one_of(
        st.builds(RandomOrder, seed=st.integers(0, 9)),
        st.builds(PriorityOrder, seed=st.integers(0, 9), changes=st.integers(0, 9), steps=st.integers(1, 9)),
    )
)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    kinds = ["work", *draw(st.lists(names.filter(lambda name: name != "work"), max_size=1))]
    users = ["alice", *draw(st.lists(names.filter(lambda name: name != "alice"), max_size=1))]
    services = st.one_of(st.builds(Fixed, seconds=above_zero), st.builds(Exponential, mean_seconds=above_zero))
    of_kind, of_user = st.sampled_from(kinds), st.sampled_from(users)
    return Scenario(
        name=draw(names),
        seed=draw(st.integers(0, 2**40)),
        duration_seconds=draw(above_zero),
        warmup_seconds=draw(from_zero),
        interleaving=draw(interleavings),
        runtime=draw(runtimes),
        kinds=tuple(
            Kind(
                name=name,
                service=draw(services),
                lease_seconds=draw(above_zero),
                cost=draw(optional(above_zero)),
                concurrency_max=draw(optional(st.integers(0, 9))),
            )
            for name in kinds
        ),
        users=tuple(
            User(name=name, weight=draw(above_zero), arrivals=draw(tuples(arrivals_of(of_kind)))) for name in users
        ),
        workers=draw(
            tuples(st.builds(Workers, count=st.integers(1, 9), users=optional(tuples(names)), steals=tuples(names)))
        ),
        events=draw(tuples(events)),
        checks=draw(tuples(checks_of(of_user))),
    )


@settings(max_examples=settings().max_examples // 2)
@given(scenarios())
def test_what_is_written_reads_back_as_an_equal_scenario(scenario: Scenario) -> None:
    assert parse_scenario(write_scenario(scenario)) == scenario


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_scenario_of_the_library_can_be_written(path: Path) -> None:
    scenario = load_scenario(path)
    assert parse_scenario(write_scenario(scenario, "a comment\nof two lines")) == scenario


def test_only_what_differs_from_the_defaults_is_written() -> None:
    kind = Kind(name="work", service=Fixed(seconds=1.0), lease_seconds=60.0, cost=2.0)
    user = User(name="tenant/alice", arrivals=(At(kind="work", seconds=(0.0, 2.5), priority=Priority.HIGH),))
    runtime = Runtime(critical_burst=None, ordering=ORDERING.make({"policy": "aging", "aging_seconds": 30.0}))
    scenario = Scenario(
        name='quotes " and \\',
        duration_seconds=9.0,
        kinds=(kind,),
        users=(user,),
        workers=(Workers(),),
        runtime=runtime,
        interleaving=RandomOrder(seed=2),
    )
    assert write_scenario(scenario, "why").splitlines() == [
        "# why",
        'name = "quotes \\" and \\\\"',
        "duration_seconds = 9.0",
        'interleaving = { order = "random", seed = 2 }',
        "",
        "[runtime]",
        'ordering = { policy = "aging", aging_seconds = 30.0 }',
        'critical_burst = "none"',
        "",
        "[[kind]]",
        'name = "work"',
        'service = { distribution = "fixed", seconds = 1.0 }',
        "cost = 2.0",
        "",
        "[[user]]",
        'name = "tenant/alice"',
        'arrivals = [{ process = "at", kind = "work", priority = "high", seconds = [0.0, 2.5] }]',
        "",
        "[[worker]]",
    ]


class Mine:
    """A sharing policy that no file can name, because it holds something that is not an option."""

    sees_heads = False

    def start(self, notes: Any, claims: Any) -> Any:
        raise NotImplementedError


def test_what_a_file_cannot_hold_is_refused() -> None:
    scenario = load_scenario(SCENARIOS[0])
    mine = attrs.evolve(scenario, runtime=attrs.evolve(scenario.runtime, sharing=Mine()))
    with pytest.raises(InvalidConfig, match=r"must be of things that a file can hold"):
        write_scenario(mine)
