"""What one run came to, in so few numbers that many runs fit side by side."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from sim.curve import Curve
from sim.fluid import Work
from sim.groups import percentile
from sim.history import History
from sim.observation import SimulationResult
from sim.scenario import Scenario

__all__ = ["RUN_METRICS", "USER_METRICS", "Ideals", "Outcome", "outcome_of", "tenants_of"]

USER_METRICS = (
    "tasks",
    "wait_seconds_mean",
    "wait_seconds_p50",
    "wait_seconds_p99",
    "wait_seconds_max",
    "share",
    "slowdown_mean",
)
"""What is known of each user, of each tenant with several names, and of `all`; `tasks` are those whose wait is known."""
RUN_METRICS = ("jain", "fluid_lag_seconds", "stolen", "recovered")
"""What is known of the run as a whole."""

ALL = "all"
_LAG_DIGITS = 6


@attrs.frozen(kw_only=True)
class Outcome:
    """What one run came to."""

    scenario: str
    policy: str
    seed: int
    jobs: int
    virtual_seconds: float
    judged: bool
    """Whether the run was held against every invariant."""
    broken: tuple[str, ...]
    """The invariants that were broken, by name."""
    users: dict[str, dict[str, float | None]]
    """Each of `USER_METRICS` for each user, for each tenant as `tenant/*`, and for `all`."""
    run: dict[str, float | None]
    """Each of `RUN_METRICS`."""
    behind: str | None
    """Who fell behind the ideal fluid share furthest, if anybody did."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Outcome":
        """What `attrs.asdict` and JSON made of one."""
        return cls(**{**data, "broken": tuple(data["broken"])})


class Ideals:
    """Ideal fluid shares that are known already: every policy is held against the same, because the work is the same."""

    def __init__(self) -> None:
        self._work: list[Work] = []
        self._curves: dict[str, Curve] = {}

    def of(self, history: History) -> dict[str, Curve]:
        """What the work of this history would have had, if it had flowed."""
        work = history.work()
        if not _same(work, self._work):
            self._work, self._curves = work, history.ideal()
        return self._curves


def _same(work: Sequence[Work], other: Sequence[Work]) -> bool:
    """Whether it is the same but for rounding: how long a task took is the difference of two times."""
    return len(work) == len(other) and all(
        one[1] == two[1] and abs(one[0] - two[0]) < 1e-6 and abs(one[2] - two[2]) < 1e-6
        for one, two in zip(work, other, strict=True)
    )


def tenants_of(users: Sequence[str]) -> dict[str, list[str]]:
    """The users below each outermost name that has several, as `tenant/*`.

    >>> tenants_of(["mallory/1", "mallory/2", "honest", "lone/one"])
    {'mallory/*': ['mallory/1', 'mallory/2']}
    """
    found: dict[str, list[str]] = {}
    for user in users:
        found.setdefault(user.partition("/")[0] or user, []).append(user)
    return {f"{tenant}/*": names for tenant, names in found.items() if len(names) > 1}


def outcome_of(
    scenario: Scenario, policy: str, history: History, result: SimulationResult | None, ideals: Ideals | None = None
) -> Outcome:
    """What a run came to: of the invariants only if it was judged, of the lag only where ideals are to be worked out."""
    violations = () if result is None else result.violations
    stints = list(history.stints())
    groups = {user: [user] for user in history.users} | tenants_of(history.users) | {ALL: history.users}
    behind = None if ideals is None else history.worst_lag(ideals.of(history))
    # Of the last digits it depends under which policy the ideal was worked out first.
    lag_seconds = None if behind is None else round(behind.seconds, _LAG_DIGITS)
    return Outcome(
        scenario=scenario.name,
        policy=policy,
        seed=scenario.seed,
        jobs=history.ended,
        virtual_seconds=history.last_at,
        judged=result is not None,
        broken=tuple(dict.fromkeys(violation.invariant for violation in violations)),
        users=_by_group(groups, history),
        run={
            "jain": history.jain(),
            "fluid_lag_seconds": lag_seconds,
            "stolen": sum(stint.stolen for stint in stints),
            "recovered": sum(stint.outcome == "recovered" for stint in stints),
        },
        behind=behind.user if behind is not None and lag_seconds else None,
    )


def _by_group(groups: Mapping[str, Sequence[str]], history: History) -> dict[str, dict[str, float | None]]:
    waits, slowdowns, service = history.waits(), history.slowdowns(), history.service()
    whole = math.fsum(service.values())
    return {
        name: _numbers(
            sorted(wait for user in members for wait in waits[user]),
            [slowdown for user in members for slowdown in slowdowns[user]],
            math.fsum(service[user] for user in members) / whole if whole else None,
        )
        for name, members in groups.items()
    }


def _numbers(waits: list[float], slowdowns: list[float], share: float | None) -> dict[str, float | None]:
    values = (
        len(waits),
        _mean(waits),
        percentile(waits, 0.50),
        percentile(waits, 0.99),
        waits[-1] if waits else None,
        share,
        _mean(slowdowns),
    )
    return dict(zip(USER_METRICS, values, strict=True))


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
