"""How near a replay comes to what was recorded: the difference of each task's waits, then and now."""

import math
from collections import defaultdict

import attrs

from sim.groups import percentile
from sim.history import History
from sim.replay import Workload
from sim.words import count, duration

__all__ = ["Fidelity", "fidelity_of"]


@attrs.frozen(kw_only=True)
class Fidelity:
    """How far waits are from those that were recorded, task by task."""

    tasks: int
    """Tasks whose wait is known from both."""
    recorded_mean_seconds: float
    """What they waited on average when they were recorded."""
    replayed_mean_seconds: float
    error_mean_seconds: float
    """By how much they differ, on average."""
    error_p99_seconds: float
    error_max_seconds: float

    def in_words(self) -> str:
        """For a person.

        >>> fidelity = Fidelity(
        ...     tasks=315, recorded_mean_seconds=4.0, replayed_mean_seconds=4.0,
        ...     error_mean_seconds=0.0002, error_p99_seconds=0.001, error_max_seconds=0.02,
        ... )
        >>> fidelity.in_words()
        '315 waits against the recorded ones: off by 0.20 ms on average, 1.0 ms at p99, 20 ms at most (recorded mean 4.0 s)'
        """
        return (
            f"{count(self.tasks)} waits against the recorded ones: off by {duration(self.error_mean_seconds)} on average, "
            f"{duration(self.error_p99_seconds)} at p99, {duration(self.error_max_seconds)} at most "
            f"(recorded mean {duration(self.recorded_mean_seconds)})"
        )


def fidelity_of(workload: Workload, history: History) -> Fidelity | None:
    """Compare the waits of a replay with the recorded ones; None if no wait was recorded, or times were scaled.

    The tasks of a user are admitted in the order of its jobs, so the n-th of each is the same.
    """
    if workload.time_scale != 1.0:
        return None
    recorded: dict[str, list[float | None]] = defaultdict(list)
    for job in workload.jobs:
        recorded[job.user].append(job.waited_seconds)
    places: dict[str, int] = defaultdict(int)
    pairs: list[tuple[float, float]] = []
    for task in history.tasks():
        place = places[task.user]
        places[task.user] += 1
        then = recorded[task.user][place] if place < len(recorded[task.user]) else None
        if then is not None and task.seconds is not None:
            pairs.append((then, task.seconds))
    return _fidelity(pairs) if pairs else None


def _fidelity(pairs: list[tuple[float, float]]) -> Fidelity:
    errors = sorted(abs(now - then) for then, now in pairs)
    return Fidelity(
        tasks=len(pairs),
        recorded_mean_seconds=math.fsum(then for then, _ in pairs) / len(pairs),
        replayed_mean_seconds=math.fsum(now for _, now in pairs) / len(pairs),
        error_mean_seconds=math.fsum(errors) / len(errors),
        error_p99_seconds=percentile(errors, 0.99) or 0.0,
        error_max_seconds=errors[-1],
    )
