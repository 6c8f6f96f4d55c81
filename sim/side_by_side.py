"""A comparison as rows of text, for a terminal and for a page alike."""

from sim.comparison import Comparison
from sim.intervals import CONFIDENCE, Interval
from sim.what_if import Moved, WhatIf
from sim.words import count, duration, durations, spread

__all__ = [
    "CHANGE_HEAD",
    "RUN_HEAD",
    "USER_HEAD",
    "change_rows",
    "difference_head",
    "difference_rows",
    "method",
    "run_rows",
    "user_rows",
]

USER_HEAD = ("user", "policy", "wait p50", "wait p99", "wait max", "share", "slowdown")
RUN_HEAD = ("policy", "Jain's index", "worst lag (worker-s)", "behind most", "steals", "recoveries", "broken")

CHANGE_HEAD = ("user", "tasks", "p50", "after", "p99", "after", "max", "after", "p99 change")

P99 = "wait_seconds_p99"
USERS_MAX = 10
CHANGES_MAX = 25


def user_rows(comparison: Comparison, scenario: str, users_max: int = USERS_MAX) -> list[list[str]]:
    """For each user, of many those for whom the choice matters most, a row a policy."""
    rows = []
    for label, users in comparison.shown(users_max, P99, scenario).items():
        for policy in comparison.policies:
            p50, p99, longest, share, slowdown = (
                comparison.worst(metric, policy, users, scenario)
                for metric in ("wait_seconds_p50", P99, "wait_seconds_max", "share", "slowdown_mean")
            )
            waits = [_duration(found) for found in (p50, p99, longest)]
            rows.append([label, policy, *waits, _number(share, 100.0, "%"), _number(slowdown, 1.0, "x")])
    return rows


def run_rows(comparison: Comparison, scenario: str) -> list[list[str]]:
    """For all users together, a row a policy."""
    rows = []
    for policy in comparison.policies:
        numbers = [comparison.interval(metric, policy, scenario=scenario) for metric in ("jain", "fluid_lag_seconds")]
        events = [comparison.interval(metric, policy, scenario=scenario) for metric in ("stolen", "recovered")]
        broken = comparison.broken(policy, scenario)
        behind = comparison.behind_most(policy, scenario)
        jain, lag = (_number(found) for found in numbers)
        stolen, recovered = (_count(found) for found in events)
        rows.append([policy, jain, lag, behind or "-", stolen, recovered, ", ".join(broken) or "none"])
    return rows


def difference_rows(comparison: Comparison, scenario: str, users_max: int = USERS_MAX) -> list[list[str]]:
    """For each user by how much its p99 wait differs from that under the first policy, seed by seed."""
    first, *others = comparison.policies
    rows = []
    for label, users in comparison.shown(users_max, P99, scenario).items():
        for policy in others:
            found = [
                difference
                for user in users
                if (difference := comparison.difference(P99, policy, first, user, scenario)) is not None
            ]
            most = max(found, key=lambda one: abs(one.mean), default=None)
            sure = "" if most is None or most.half is None else "yes" if most.excludes_zero else "no"
            rows.append([label, policy, _duration(most), sure])
    return rows


def difference_head(comparison: Comparison) -> tuple[str, ...]:
    """What the columns of `difference_rows` are."""
    return ("user", "policy", f"p99 wait against {comparison.policies[0]}", "beyond chance")


def change_rows(what: WhatIf, users_max: int = CHANGES_MAX) -> list[list[str]]:
    """For each user what would have changed, of many those that change most, who gains most first; then for all."""
    users = what.by_change()
    most = sorted(users, key=lambda item: -abs(item[1].p99_change))[:users_max]
    rows = [_change_row(user, moved) for user, moved in users if (user, moved) in most]
    if left := len(users) - len(rows):
        changed = max(abs(moved.p99_change) for user, moved in users if (user, moved) not in most)
        empty = [""] * (len(CHANGE_HEAD) - 2)
        rows.append([f"{left} others", *empty, f"up to {duration(changed)}"])
    return [*rows, _change_row("all", what.overall)]


def _change_row(user: str, moved: Moved) -> list[str]:
    sides = (moved.before, moved.after)
    tasks = next((count(side.tasks) for side in sides if side is not None), "0")
    waits = ["-" if side is None else duration(getattr(side, name)) for name in ("p50", "p99", "max") for side in sides]
    change = moved.p99_change
    return [user, tasks, *waits, f"+{duration(change)}" if change > 0 else duration(change)]


def method(comparison: Comparison) -> str:
    """How the numbers came about, in a sentence or two."""
    seeds = len(comparison.seeds)
    sure = (
        "of one seed, so nobody knows how sure they are"
        if seeds == 1
        else f"means over {seeds} seeds ± half the {CONFIDENCE:.0%} confidence interval by Student's t".replace(
            "%", " %"
        )
    )
    return (
        f"{count(len(comparison.outcomes))} runs; under each seed all policies had the same work and the same random numbers. "
        f"Numbers are {sure}. {_judged(comparison)}."
    )


def _judged(comparison: Comparison) -> str:
    """Which runs were held against the invariants, and what came of that."""
    judged = [outcome for outcome in comparison.outcomes if outcome.judged]
    broken = sorted({name for outcome in judged for name in outcome.broken})
    seeds = sorted({outcome.seed for outcome in judged})
    if len(judged) == len(comparison.outcomes):
        which = "Every run was"
    else:
        which = f"The runs under seed {seeds[0]} were" if len(seeds) == 1 else f"{count(len(judged))} of the runs were"
    held = f"broken in some: {', '.join(broken)}" if broken else "none was broken"
    others = (
        "" if len(judged) == len(comparison.outcomes) else "; the others were not judged, which changes nothing else"
    )
    return f"{which} held against every invariant: {held}{others}"


def _duration(found: Interval | None) -> str:
    return "-" if found is None else durations(found.mean, found.half)


def _count(found: Interval | None) -> str:
    """Of what happens a whole number of times."""
    if found is not None and found.mean == int(found.mean) and not found.half:
        return count(found.mean)
    return _number(found)


def _number(found: Interval | None, times: float = 1.0, unit: str = "") -> str:
    return (
        "-" if found is None else spread(found.mean * times, None if found.half is None else found.half * times, unit)
    )
