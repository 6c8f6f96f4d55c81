"""Policies side by side: each on the same work and the same random numbers, under several seeds, with how sure the means are.

A draw is keyed by seed, task and attempt, so under one seed every policy meets the same arrivals and the same service times;
what differs is the policy's doing. Means over seeds come with Student's t interval (sim/intervals.py), and two policies are
compared by their differences seed by seed, which are far surer than the difference of two means.
"""

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from actors.errors import InvalidConfig
from actors.policies import ORDERING, SHARING, Registry
from actors.policies.ordering import OrderingPolicy
from actors.policies.sharing import SharingPolicy
from sim.fleet import Errand, run_all
from sim.intervals import Interval, interval_of
from sim.outcome import RUN_METRICS, USER_METRICS, Outcome, tenants_of
from sim.picture import Picture
from sim.runner import with_options
from sim.scenario import Scenario

__all__ = ["SHARING_COMPARED", "Comparison", "compare"]

SHARING_COMPARED = ("fifo", "capped", "noisy_neighbour", "round_robin", "deficit", "weighted_fair")
"""The sharing policies that are compared where none are named: from no protection to the default."""


@attrs.frozen(kw_only=True)
class Comparison:
    """What came of every policy under every seed."""

    scenarios: tuple[str, ...]
    policies: tuple[str, ...]
    """What each is called: `weighted_fair`, or `weighted_fair, strict` where orders are compared too."""
    seeds: tuple[int, ...]
    outcomes: tuple[Outcome, ...]
    """One for each scenario, seed and policy."""
    pictures: tuple[tuple[str, str, Picture], ...] = ()
    """Scenario, policy and picture, of every run under the first seed, if they were asked for."""

    def users(self, scenario: str | None = None) -> list[str]:
        """Everybody who had a task, a tenant with several names as one, `tenant/*`."""
        seen = dict.fromkeys(
            user for outcome in self._of(scenario) for user in outcome.users if user != "all" and "/*" not in user
        )
        within = {user: tenant for tenant, members in tenants_of(list(seen)).items() for user in members}
        return list(dict.fromkeys(within.get(user, user) for user in seen))

    def values(
        self, metric: str, policy: str, user: str | None = None, scenario: str | None = None
    ) -> dict[int, float]:
        """What a metric came to under each seed, where there was anything to measure."""
        self._check(metric, user)
        found = {}
        for outcome in self._of(scenario):
            numbers = outcome.run if user is None else outcome.users.get(user, {})
            if outcome.policy == policy and (value := numbers.get(metric)) is not None:
                found[outcome.seed] = value
        return found

    def interval(
        self, metric: str, policy: str, user: str | None = None, scenario: str | None = None
    ) -> Interval | None:
        """The mean of a metric over the seeds, of a user (`all` for everybody) or of the run, and how sure it is."""
        return interval_of(list(self.values(metric, policy, user, scenario).values()))

    def difference(
        self, metric: str, policy: str, other: str, user: str | None = None, scenario: str | None = None
    ) -> Interval | None:
        """By how much a metric is larger under a policy than under another, compared seed by seed."""
        ones, others = (self.values(metric, name, user, scenario) for name in (policy, other))
        return interval_of([ones[seed] - others[seed] for seed in ones if seed in others])

    def shown(self, users_max: int, metric: str, scenario: str | None = None) -> dict[str, list[str]]:
        """Of many users those for whom the choice matters most by this metric, and the others, by what they are called."""
        users = self.users(scenario)
        if len(users) <= users_max:
            return {user: [user] for user in users}
        ranked = sorted(users, key=lambda user: -self._range(metric, user, scenario))
        named = set(ranked[: users_max - 1])
        others = [user for user in users if user not in named]
        return {user: [user] for user in users if user in named} | {f"worst of {len(others)} others": others}

    def worst(self, metric: str, policy: str, users: Sequence[str], scenario: str | None = None) -> Interval | None:
        """The interval of whoever has most of it under a policy."""
        found = (self.interval(metric, policy, user, scenario) for user in users)
        return max((one for one in found if one is not None), key=lambda one: one.mean, default=None)

    def _range(self, metric: str, user: str, scenario: str | None) -> float:
        """By which factor policies differ for a user; what is under a tenth is alike."""
        found = [self.interval(metric, policy, user, scenario) for policy in self.policies]
        means = [max(one.mean, 0.1) for one in found if one is not None]
        return max(means) / min(means) if means else 1.0

    def most_at_stake(self, metric: str, scenario: str | None = None) -> str | None:
        """The user for whom the choice matters most by this metric; None if nobody was measured."""
        users = [user for user in self.users(scenario) if self.worst(metric, self.policies[0], [user], scenario)]
        return max(users, key=lambda user: self._range(metric, user, scenario), default=None)

    def broken(self, policy: str, scenario: str | None = None) -> tuple[str, ...]:
        """The invariants that were broken under a policy, by name."""
        found = (outcome.broken for outcome in self._of(scenario) if outcome.policy == policy)
        return tuple(dict.fromkeys(name for names in found for name in names))

    def behind_most(self, policy: str, scenario: str | None = None) -> str | None:
        """Who fell behind the ideal fluid share furthest, under most seeds."""
        found = [outcome.behind for outcome in self._of(scenario) if outcome.policy == policy]
        return max(found, key=found.count, default=None)

    def _of(self, scenario: str | None) -> list[Outcome]:
        """The outcomes of one scenario: the first unless it is named."""
        name = self.scenarios[0] if scenario is None else scenario
        if name not in self.scenarios:
            raise InvalidConfig(f"scenario must be one of {', '.join(self.scenarios)}, got {name!r}")
        return [outcome for outcome in self.outcomes if outcome.scenario == name]

    def _check(self, metric: str, user: str | None) -> None:
        known = RUN_METRICS if user is None else USER_METRICS
        if metric not in known:
            of = "the run" if user is None else "a user"
            raise InvalidConfig(f"metric of {of} must be one of {', '.join(known)}, got {metric!r}")


def compare(
    scenarios: Scenario | Sequence[Scenario],
    *,
    sharing: Sequence[SharingPolicy | str] = (),
    ordering: Sequence[OrderingPolicy | str] = (),
    seeds: int | Sequence[int] = 10,
    jobs: int | None = None,
    pictures: bool = False,
    judge_all: bool = False,
    on_run: Callable[[], None] = lambda: None,
) -> Comparison:
    """Run every sharing policy with every ordering policy, as the scenario has it where none are named, under every seed.

    In `jobs` processes, as many as there are cores unless given; where a policy is an object that another process could not
    find, such as a class of a notebook, all runs are made in this one. With `pictures` each policy's run under the first seed is
    drawn too, which needs the `lab` extra. Runs under the first seed are held against every invariant, and with `judge_all` all
    are: the same happens, but it takes longer. `on_run` is called after each run.

    >>> from sim import Burst, Fixed, Kind, Scenario, User
    >>> kind = Kind(name="work", service=Fixed(seconds=1.0))
    >>> users = tuple(User(name=name, arrivals=(Burst(kind="work", count=40),)) for name in ("flood", "light"))
    >>> scenario = Scenario(name="demo", duration_seconds=1.0, kinds=(kind,), users=users)
    >>> comparison = compare(scenario, sharing=["fifo", "weighted_fair"], seeds=2, jobs=1)
    >>> comparison.policies, comparison.users()
    (('fifo', 'weighted_fair'), ['flood', 'light'])
    >>> comparison.interval("wait_seconds_p50", "fifo", "light").mean
    7.0
    >>> comparison.difference("wait_seconds_p50", "weighted_fair", "fifo", "light").mean
    -2.0
    """
    found = (scenarios,) if isinstance(scenarios, Scenario) else tuple(scenarios)
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    _check_names(found, numbers)
    entered = [(label, one) for scenario in found for label, one in contenders(scenario, sharing, ordering).items()]
    # Seed by seed, because what all policies of a seed have in common is worked out once in each process.
    errands = [
        Errand(
            policy=label,
            scenario=scenario,
            seed=seed,
            draws=pictures and seed == numbers[0],
            judged=judge_all or seed == numbers[0],
        )
        for name in dict.fromkeys(scenario.name for _, scenario in entered)
        for seed in numbers
        for label, scenario in entered
        if scenario.name == name
    ]
    answers = run_all(errands, jobs=jobs, on_run=on_run)
    return Comparison(
        scenarios=tuple(scenario.name for scenario in found),
        policies=tuple(dict.fromkeys(label for label, _ in entered)),
        seeds=numbers,
        outcomes=tuple(answer.outcome for answer in answers),
        pictures=tuple(
            (answer.outcome.scenario, answer.outcome.policy, picture)
            for answer in answers
            for picture in answer.pictures
        ),
    )


def contenders(
    scenario: Scenario, sharing: Sequence[SharingPolicy | str], ordering: Sequence[OrderingPolicy | str]
) -> dict[str, Scenario]:
    """The scenario under each combination of policies, by what that is called.

    Where a name is that of the scenario's own policy, it is meant with the options that the scenario gives it.
    """
    runtime = scenario.runtime
    found = {}
    for one in sharing or (runtime.sharing,):
        for other in ordering or (runtime.ordering,):
            shared = runtime.sharing if one == SHARING.name_of(runtime.sharing) else SHARING.make(one)
            ordered = runtime.ordering if other == ORDERING.name_of(runtime.ordering) else ORDERING.make(other)
            entered = with_options(scenario, sharing=shared, ordering=ordered)
            names = ([_name(SHARING, shared)] if sharing or not ordering else []) + (
                [_name(ORDERING, ordered)] if ordering else []
            )
            label = ", ".join(names)
            if label in found:
                raise InvalidConfig(f"policies must be compared once each, got {label} again")
            found[label] = entered
    return found


def _name(registry: Registry[Any], policy: Any) -> str:
    """What a policy is called, with the options that are not at their defaults: `capped (user_concurrency_max 4)`."""
    name = registry.name_of(policy).rpartition(":")[2].rpartition(".")[2]
    if not attrs.has(type(policy)):
        return name
    fields = [(field, getattr(policy, field.name)) for field in attrs.fields(type(policy)) if field.init]
    options = [f"{field.name} {value}" for field, value in fields if value != field.default]
    return f"{name} ({', '.join(options)})" if options else name


def _check_names(scenarios: Sequence[Scenario], seeds: Sequence[int]) -> None:
    if not scenarios:
        raise InvalidConfig("compare needs a scenario at least")
    names = [scenario.name for scenario in scenarios]
    if again := [name for name in names if names.count(name) > 1]:
        raise InvalidConfig(f"scenarios must have names of their own, got {again[0]!r} again")
    if not seeds or len(set(seeds)) < len(seeds):
        raise InvalidConfig(f"seeds must be one at least and none twice, got {list(seeds)}")
