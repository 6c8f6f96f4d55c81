"""Scenarios for Hypothesis, to test a policy of one's own: small, quick to run, and readable when they are shrunk.

`workloads` is what the bounds of fair sharing are about: users with weights, kinds of work, arrivals, and a pool of workers
that serve everybody alike. `scenarios` adds all that a runtime can be set up with: levels, delays and deadlines, leases and
timeouts, assignments and stealing, limits, a door, and an operator who changes things on the way.

All times are multiples of half a second and all weights are plain numbers, so that what Hypothesis finds can be worked
out by hand. Earlier alternatives are simpler ones: a counter-example shrinks towards a few bursts on one worker. Needs
hypothesis, from the `test` extra.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import attrs

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise ImportError("sim.strategies needs the test extra: pip install 'evenhand[test]'") from error

from actors.errors import InvalidConfig
from actors.policies import ORDERING, SHARING, Registry
from actors.policies.stealing import STEALING
from actors.task import Priority
from sim.operator import (
    AddWorkersEvent,
    PauseEvent,
    ResumeEvent,
    RetireWorkersEvent,
    SetLimitEvent,
    SetWeightEvent,
    TimedEvent,
)
from sim.processes import (
    Arrivals,
    At,
    Burst,
    Exponential,
    Fixed,
    FixedRate,
    Lognormal,
    OnOff,
    Pareto,
    Poisson,
    Service,
    Uniform,
)
from sim.scenario import Kind, Runtime, Scenario, User, Workers

__all__ = ["arrivals", "crowds", "kinds", "scenarios", "services", "workloads"]

NAMES = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi")
NESTED = ("alice", "team/bob", "team/carol", "team", "dave", "firm/lab/erin", "firm/frank", "grace")
KINDS = ("crawl", "mail", "report")
DURATION_SECONDS = 20.0
"""How long work arrives."""

_halves = st.integers(1, 20).map(lambda n: n / 2)
_times = st.integers(0, int(2 * DURATION_SECONDS) - 1).map(lambda n: n / 2)
_weights = st.sampled_from([1.0, 2.0, 3.0, 0.5, 5.0, 10.0, 0.1])
_rates = st.sampled_from([None, None, 2.0, 0.5])
_caps = st.sampled_from([None, None, 2, 1])


@cache
def services(*, exact: bool = False) -> st.SearchStrategy[Service]:
    """How long a kind of work takes; always the same if `exact`.

    >>> from hypothesis import find
    >>> find(services(), lambda service: True)
    Fixed(seconds=0.5)
    """
    fixed = st.builds(Fixed, seconds=_halves)
    if exact:
        return fixed
    return st.one_of(
        fixed,
        st.builds(Exponential, mean_seconds=_halves),
        _halves.map(lambda low: Uniform(low_seconds=low, high_seconds=2.0 * low)),
        st.builds(Lognormal, mean_seconds=_halves, sigma=st.just(1.0)),
        st.builds(Pareto, mean_seconds=_halves, alpha=st.just(2.0)),
    )


def kinds(*, count_max: int = 3, exact: bool = False, plain: bool = True) -> st.SearchStrategy[tuple[Kind, ...]]:
    """Kinds of work. `exact`: they take what they cost. Unless `plain`, with leases, timeouts, retries and limits.

    >>> from hypothesis import find
    >>> [kind.name for kind in find(kinds(exact=True), lambda kinds: len(kinds) == 2)]
    ['crawl', 'mail']
    """
    _check_between("count_max", count_max, 1, len(KINDS))

    return _kinds(count_max, exact, plain)


# Kept, here and below, because to make a strategy costs far more than to draw from it.
@cache
def _kinds(count_max: int, exact: bool, plain: bool) -> st.SearchStrategy[tuple[Kind, ...]]:
    each = [_kind(name, exact, plain) for name in KINDS[:count_max]]
    return st.integers(1, count_max).flatmap(lambda count: st.tuples(*each[:count]))


@st.composite
def _kind(draw: st.DrawFn, name: str, exact: bool, plain: bool) -> Kind:
    service = draw(services(exact=exact))
    cost = service.seconds if exact and isinstance(service, Fixed) else draw(st.none() | _halves)
    kind = Kind(name=name, service=service, cost=cost)
    if plain:
        return kind
    return attrs.evolve(
        kind,
        lease_seconds=draw(st.sampled_from([60.0, 5.0, 1.0])),
        timeout_seconds=draw(st.none() | _halves),
        max_retries=draw(st.integers(0, 3)),
        rate_limit=draw(_rates),
        concurrency_max=draw(_caps),
    )


def arrivals(kind_names: Sequence[str], *, count_max: int = 20, plain: bool = True) -> st.SearchStrategy[Arrivals]:
    """About `count_max` tasks of one of these kinds, at most. Unless `plain`, with levels, delays and deadlines."""
    _check_between("count_max", count_max, 1, 10_000)
    return _arrivals(tuple(kind_names), count_max, plain)


@cache
def _arrivals(kind_names: tuple[str, ...], count_max: int, plain: bool) -> st.SearchStrategy[Arrivals]:
    common: dict[str, st.SearchStrategy[Any]] = {"kind": st.sampled_from(list(kind_names))}
    if not plain:
        common |= {
            "priority": st.sampled_from(
                [Priority.NORMAL, *(level for level in Priority if level is not Priority.NORMAL)]
            ),
            "delay_seconds": st.none() | _halves,
            "expires_after_seconds": st.none() | _halves,
        }
    counts = st.integers(1, count_max)
    rates = counts.map(lambda n: n / DURATION_SECONDS)
    # The first alternative needs no more choices than any other, or Hypothesis would take another for simpler.
    # Random bursts shrink badly, so that those who ask for plain work get none.
    bursts = [] if plain else [st.builds(OnOff, per_second=rates, on_seconds=_halves, off_seconds=_halves, **common)]
    return st.one_of(
        st.builds(Burst, count=counts, **common),
        st.builds(Burst, count=counts, at_seconds=_times, **common),
        st.builds(At, seconds=st.lists(_times, min_size=1, max_size=min(count_max, 9)).map(tuple), **common),
        st.builds(FixedRate, per_second=rates, **common),
        st.builds(Poisson, per_second=rates, **common),
        *bursts,
    )


def crowds(
    kind_names: Sequence[str],
    *,
    names: int | Sequence[str] = 3,
    max_tasks: int = 60,
    weighted: bool = True,
    nested: bool = False,
    plain: bool = True,
) -> st.SearchStrategy[tuple[User, ...]]:
    """Users who submit about `max_tasks` tasks together, at most. Unless `plain`, with limits.

    `names` is how many there may be, at least two if it is two or more, or who they are. With `nested`, some of the names
    that are made up lie below others.
    """
    listed = (NESTED if nested else NAMES) if isinstance(names, int) else tuple(names)
    count_max = names if isinstance(names, int) else len(listed)
    _check_between("users", count_max, 1, len(listed))
    _check_between("max_tasks", max_tasks, 1, 1_000_000)
    counts = st.integers(min(2, count_max), count_max) if isinstance(names, int) else st.just(count_max)
    return counts.flatmap(lambda count: _crowd(tuple(kind_names), listed[:count], max_tasks, weighted, plain))


@cache
def _crowd(
    kind_names: tuple[str, ...], names: tuple[str, ...], max_tasks: int, weighted: bool, plain: bool
) -> st.SearchStrategy[tuple[User, ...]]:
    each = arrivals(kind_names, count_max=max(1, max_tasks // (2 * len(names))), plain=plain)
    common: dict[str, st.SearchStrategy[Any]] = {"arrivals": st.lists(each, min_size=1, max_size=2).map(tuple)}
    if weighted:
        common["weight"] = _weights
    if plain:
        return st.tuples(*(st.builds(User, name=st.just(name), **common) for name in names))
    limits = {"rate_limit": _rates, "concurrency_max": _caps}
    return st.tuples(*(st.builds(User, name=st.just(name), **common, **limits) for name in names))


def workloads(
    *,
    users: int | Sequence[str] = 3,
    max_tasks: int = 60,
    workers_max: int = 8,
    kinds_max: int = 3,
    exact: bool = True,
    weighted: bool = True,
    nested: bool = False,
    sharing: object = None,
    ordering: object = None,
) -> st.SearchStrategy[Scenario]:
    """Users who share a pool of workers that serve everybody alike.

    `exact`: tasks take what they cost, so the bound of fair sharing is the plain one. `sharing` and `ordering` are a policy,
    its name, or a strategy for either.
    """
    _check_between("workers_max", workers_max, 1, 10_000)

    @st.composite
    def some(draw: st.DrawFn) -> Scenario:
        found = draw(kinds(count_max=kinds_max, exact=exact))
        kind_names = [kind.name for kind in found]
        crowd = crowds(kind_names, names=users, max_tasks=max_tasks, weighted=weighted, nested=nested)
        return Scenario(
            name="workload",
            duration_seconds=DURATION_SECONDS,
            kinds=found,
            users=draw(crowd),
            runtime=Runtime(workers=draw(st.integers(1, workers_max)), **_policies(draw, sharing, ordering)),
            seed=draw(st.integers(0, 99)),
        )

    return some()


def scenarios(
    *,
    users: int | Sequence[str] = 4,
    max_tasks: int = 60,
    workers_max: int = 8,
    nested: bool = True,
    sharing: object = None,
    ordering: object = None,
) -> st.SearchStrategy[Scenario]:
    """Whole scenarios, with all that a runtime can be set up with. Policies of any sort unless they are given."""
    _check_between("workers_max", workers_max, 1, 10_000)
    sharing = st.sampled_from(list(SHARING.classes)) if sharing is None else sharing
    ordering = st.sampled_from(list(ORDERING.classes)) if ordering is None else ordering

    @st.composite
    def some(draw: st.DrawFn) -> Scenario:
        found = draw(kinds(exact=False, plain=False))
        kind_names = tuple(kind.name for kind in found)
        crowd = draw(crowds(kind_names, names=users, max_tasks=max_tasks, nested=nested, plain=False))
        user_names = tuple(user.name for user in crowd)
        return Scenario(
            name="scenario",
            duration_seconds=DURATION_SECONDS,
            kinds=found,
            users=crowd,
            workers=draw(_assignments(kind_names, user_names, workers_max)),
            events=draw(_events(kind_names, user_names)),
            runtime=Runtime(
                workers=draw(st.integers(1, workers_max)), **draw(_options()), **_policies(draw, sharing, ordering)
            ),
            seed=draw(st.integers(0, 99)),
        )

    return some()


def _policies(draw: st.DrawFn, sharing: object, ordering: object) -> dict[str, Any]:
    given: dict[str, tuple[object, Registry[Any]]] = {"sharing": (sharing, SHARING), "ordering": (ordering, ORDERING)}
    drawn = {
        name: (draw(policy) if isinstance(policy, st.SearchStrategy) else policy, registry)
        for name, (policy, registry) in given.items()
        if policy is not None
    }
    return {name: registry.make(policy) for name, (policy, registry) in drawn.items()}


@cache
def _options() -> st.SearchStrategy[dict[str, Any]]:
    """Of the runtime, but for its workers and policies."""
    options: dict[str, st.SearchStrategy[Any]] = {
        "critical_burst": st.sampled_from([16, 2, 1, None]),
        "stealing": st.sampled_from(list(STEALING)),
        "rate_limit": st.sampled_from([None, None, 5.0]),
        "concurrency_max": st.sampled_from([None, None, 3]),
        "admitted_max": st.sampled_from([None, 20, 5]),
        "admitted_per_user_max": st.sampled_from([None, 5]),
        "when_full": st.sampled_from(["reject", "wait", "drop_oldest"]),
        "admission_share": st.sampled_from([8.0, 1.0, None]),
    }
    return st.fixed_dictionaries(options)


@cache
def _assignments(
    kind_names: tuple[str, ...], user_names: tuple[str, ...], workers_max: int
) -> st.SearchStrategy[tuple[Workers, ...]]:
    """None, or workers of which the first takes anything from anybody, so that everybody can be served."""
    patterns = st.lists(st.sampled_from([*user_names, "*"]), max_size=2).map(tuple)
    table = st.builds(
        Workers,
        count=st.integers(1, max(1, workers_max // 3)),
        kinds=st.none() | st.lists(st.sampled_from(list(kind_names)), min_size=1, max_size=2).map(tuple),
        users=st.none() | patterns,
        steals=patterns,
    )
    some = st.lists(table, max_size=2).map(lambda tables: (Workers(), *tables))
    return st.just(()) | some


@cache
def _events(kind_names: tuple[str, ...], user_names: tuple[str, ...]) -> st.SearchStrategy[tuple[TimedEvent, ...]]:
    """What an operator does; whatever is paused goes on when all work has arrived."""
    a_user: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries({"user": st.sampled_from(list(user_names))})
    somebody: st.SearchStrategy[dict[str, Any]] = st.one_of(
        a_user, st.fixed_dictionaries({"kind": st.sampled_from(list(kind_names))}), st.just({})
    )
    one = st.one_of(
        st.tuples(_times, somebody).map(lambda said: _paused(said[0], said[1])),
        st.tuples(_times, a_user, _weights).map(
            lambda said: (SetWeightEvent(at_seconds=said[0], weight=said[2], **said[1]),)
        ),
        st.tuples(_times, somebody, _rates, _caps).map(
            lambda said: (SetLimitEvent(at_seconds=said[0], rate_limit=said[2], concurrency_max=said[3], **said[1]),)
        ),
        _times.map(lambda at: (AddWorkersEvent(at_seconds=at), RetireWorkersEvent(at_seconds=at + 3.0))),
    )
    return st.lists(one, max_size=3).map(_apart)


def _apart(listed: list[tuple[TimedEvent, ...]]) -> tuple[TimedEvent, ...]:
    """Each at an instant of its own: what is said while a grant is under way comes too late for that grant."""
    return tuple(
        attrs.evolve(event, at_seconds=event.at_seconds + (number + 1) / 10)
        for number, events in enumerate(listed)
        for event in events
    )


def _paused(at: float, whom: dict[str, str]) -> tuple[TimedEvent, ...]:
    return (PauseEvent(at_seconds=at, **whom), ResumeEvent(at_seconds=DURATION_SECONDS + 5.0, **whom))


def _check_between(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InvalidConfig(f"{name} must be from {low} to {high}, got {value!r}")
