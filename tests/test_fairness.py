"""`assert_fair`: silent about what is fair, whatever the scenario, and precise about what is not."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings

from actors import InvalidConfig
from actors.policies.fair import FairAccount
from sim import (
    Burst,
    Fixed,
    Kind,
    Lag,
    PauseEvent,
    ResumeEvent,
    Runtime,
    Scenario,
    SetWeightEvent,
    User,
    Workers,
    assert_fair,
    simulate,
    worst_lag,
)
from sim import strategies as sst
from tests.test_service_lag import Lag as LagObserver

KINDS = (
    Kind(name="long", service=Fixed(seconds=8.0), cost=8.0),
    Kind(name="short", service=Fixed(seconds=1.0), cost=1.0),
)


def scenario(*users: User, workers: int = 1, **options: Any) -> Scenario:
    runtime = options.pop("runtime", Runtime(workers=workers))
    return Scenario(name="two", duration_seconds=100.0, kinds=KINDS, users=users, runtime=runtime, **options)


def burst(name: str, kind: str, count: int, **options: Any) -> User:
    return User(name=name, arrivals=(Burst(kind=kind, count=count),), **options)


def two_backlogs(**options: Any) -> Scenario:
    return scenario(burst("alice", "long", 10), burst("bob", "short", 80), **options)


@contextmanager
def unfair(*said: str) -> Iterator[None]:
    """The assertion fails, with these lines."""
    with pytest.raises(AssertionError) as raised:
        yield
    assert tuple(str(raised.value).split("\n")) == said


# The bound


@given(sst.workloads(nested=True))
def test_weighted_fair_sharing_is_fair_to_users_and_tenants_when_costs_are_exact(found: Scenario) -> None:
    assert_fair(simulate(found))


@given(sst.workloads(exact=False, nested=True))
def test_weighted_fair_sharing_is_within_the_conjectured_bound_when_costs_are_corrected(found: Scenario) -> None:
    assert_fair(simulate(found))


@given(sst.scenarios(sharing="weighted_fair"))
def test_limits_pauses_assignments_and_new_weights_raise_no_false_alarm(found: Scenario) -> None:
    assert_fair(simulate(found))


@given(sst.workloads(exact=False))
@settings(max_examples=50)
def test_the_worst_lag_is_what_an_observer_of_the_events_works_out(found: Scenario) -> None:
    observer = LagObserver({user.name: user.weight for user in found.users})
    result = simulate(found, observers=[observer], sharing="round_robin")
    lag = worst_lag(result)
    assert (lag.ratio if lag is not None else 0.0) == pytest.approx(observer.worst, abs=1e-6)


def test_who_is_behind_whom_from_when_to_when_and_by_how_much_is_said() -> None:
    with unfair(
        "bob fell behind alice by 64 s of work per weight, 7.11 times the bound of 9 s (allowed: 1): from 0 s to "
        "80 s both had work waiting, and alice was given 72 s per weight, bob 8 s"
    ):
        assert_fair(simulate(two_backlogs(), sharing="round_robin"))


def test_a_lag_is_data_too() -> None:
    lag = worst_lag(simulate(two_backlogs(), sharing="round_robin"))
    assert lag is not None
    assert (lag.ahead, lag.behind, lag.began_at, lag.ended_at) == ("alice", "bob", 0.0, 80.0)
    assert (lag.given_ahead, lag.given_behind, lag.bound_seconds) == (72.0, 8.0, 9.0)
    assert lag.ratio == pytest.approx(64 / 9)


@pytest.mark.parametrize("policy", ["round_robin", "fifo", "lottery", "strict", "noisy_neighbour", "capped"])
def test_other_policies_break_the_bound(policy: str) -> None:
    with pytest.raises(AssertionError, match="fell behind"):
        assert_fair(simulate(two_backlogs(workers=4), sharing=policy))


def test_a_policy_that_charges_nothing_breaks_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FairAccount, "charge", lambda self, user, cost, now: None)
    monkeypatch.setattr(FairAccount, "correct", lambda self, user, difference, now: None)
    with pytest.raises(AssertionError, match="bob fell behind alice"):
        assert_fair(simulate(two_backlogs()))


def test_more_than_the_bound_can_be_allowed_and_nothing_at_all() -> None:
    result = simulate(two_backlogs(), sharing="round_robin")
    assert_fair(result, lag_max=7.112)
    assert_fair(result, lag_max=math.inf)
    with pytest.raises(AssertionError, match=r"7\.11 times the bound of 9 s \(allowed: 7\)"):
        assert_fair(result, lag_max=7.0)


def test_weights_count() -> None:
    heavy = scenario(burst("alice", "short", 90, weight=3.0), burst("bob", "short", 90))
    assert_fair(simulate(heavy))
    with pytest.raises(AssertionError, match="alice fell behind bob"):
        assert_fair(simulate(heavy, sharing="round_robin"))


def test_a_tenant_is_compared_as_a_whole_and_its_own_tasks_as_one_below_it() -> None:
    names = ("firm", "firm/a", "firm/b", "honest")
    found = scenario(*(burst(name, "short", 40) for name in names))
    assert_fair(simulate(found))
    lag = worst_lag(simulate(found, sharing="round_robin"))
    assert lag is not None
    assert (lag.ahead, lag.behind) == ("firm", "honest")
    within = scenario(burst("firm", "short", 40), burst("firm/a", "long", 40))
    inner = worst_lag(simulate(within, sharing="round_robin"))
    assert inner is not None
    assert (inner.ahead, inner.behind) == ("firm/a", "firm/")


def test_a_new_weight_begins_the_comparison_anew() -> None:
    event = SetWeightEvent(at_seconds=20.5, user="alice", weight=4.0)
    assert_fair(simulate(scenario(burst("alice", "short", 90), burst("bob", "short", 90), events=(event,))))


# What is not the policy's doing


def test_nobody_is_behind_for_being_paused() -> None:
    events = (PauseEvent(at_seconds=5.5, user="alice"), ResumeEvent(at_seconds=60.5, user="alice"))
    result = simulate(scenario(burst("alice", "short", 90), burst("bob", "short", 90), events=events))
    assert_fair(result, starved_after_seconds=3.0)
    kinds = (PauseEvent(at_seconds=5.5, kind="long"), ResumeEvent(at_seconds=60.5, kind="long"))
    assert_fair(simulate(two_backlogs(events=kinds)))


def test_nobody_is_behind_for_a_limit_or_for_workers_of_its_own() -> None:
    assert_fair(
        simulate(scenario(burst("alice", "short", 90, concurrency_max=1), burst("bob", "short", 90), workers=8))
    )
    tables = (Workers(users=("alice",)), Workers(count=5, users=("bob",)))
    apart = Scenario(
        name="apart",
        duration_seconds=100.0,
        kinds=KINDS,
        users=(burst("alice", "short", 90), burst("bob", "short", 90)),
        workers=tables,
    )
    assert_fair(simulate(apart))
    assert worst_lag(simulate(apart)) is None


def test_a_user_alone_is_never_behind() -> None:
    assert worst_lag(simulate(scenario(burst("alice", "short", 9)))) is None


# Waits, Jain's index, starvation


def test_waits_are_held_to_a_limit_for_all_or_for_some() -> None:
    result = simulate(two_backlogs())
    assert_fair(result, wait_seconds_max=200.0)
    with unfair("bob waited up to 159 s, which must be at most 100 s"):
        assert_fair(result, wait_seconds_max={"bob": 100.0, "alice": 160.0})
    with pytest.raises(InvalidConfig, match=r"must name a user of the run, got 'bbo' \(did you mean 'bob'\?\)"):
        assert_fair(result, wait_seconds_max={"bbo": 100.0})


def test_jains_index_is_held_to_a_limit() -> None:
    result = simulate(two_backlogs(), sharing="round_robin")
    assert result.jain is not None
    with unfair(f"Jain's index is {result.jain:.4g}, which must be at least 0.9"):
        assert_fair(result, lag_max=math.inf, jain_at_least=0.9)
    assert_fair(simulate(two_backlogs()), jain_at_least=0.9)


def test_a_user_with_work_of_which_nothing_is_started_starves() -> None:
    late = User(name="late", arrivals=(Burst(kind="short", count=2, at_seconds=9.5),))
    found = scenario(burst("flood", "short", 30), late)
    assert_fair(simulate(found), starved_after_seconds=4.0)
    with unfair(
        "late starved: nothing of it was started from 9.5 s to 30 s while it had work waiting, 20.5 s, which must be at most 4 s"
    ):
        assert_fair(simulate(found, sharing="fifo"), lag_max=math.inf, starved_after_seconds=4.0)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(AssertionError) as raised:
        assert_fair(simulate(two_backlogs(), sharing="round_robin"), wait_seconds_max=1.0, jain_at_least=0.99)
    assert [line.split()[0] for line in str(raised.value).split("\n")] == ["bob", "alice", "bob", "Jain's"]


def test_the_ratio_of_a_lag_is_relative_to_its_bound() -> None:
    lag = Lag(
        ahead="a",
        behind="b",
        began_at=0.0,
        ended_at=1.0,
        given_ahead=3.0,
        given_behind=0.0,
        seconds=3.0,
        bound_seconds=2.0,
    )
    assert lag.ratio == 1.5
