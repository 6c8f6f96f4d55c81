"""What a run was like for a group of tasks: those of a user, of a level, of both, or all.

A wait is the first start minus `order_at`. A slowdown is the time from `order_at` to completion, over the time that the last
execution took. Percentiles are nearest-rank: the smallest value that at least that part of the values does not exceed.
"""

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from itertools import chain

import attrs

__all__ = ["Cell", "GroupMetrics", "group_of", "percentile"]


@attrs.frozen(kw_only=True)
class GroupMetrics:
    """What a run was like for one user, one level, or everybody. None: nothing to measure."""

    completed: int
    throughput: float | None
    """Tasks completed a second, over the whole run."""
    wait_seconds_mean: float | None
    wait_seconds_p50: float | None
    wait_seconds_p99: float | None
    wait_seconds_max: float | None
    slowdown_mean: float | None
    """From when it could first start to its completion, as a multiple of the time it took."""
    slowdown_p99: float | None
    service_seconds: float
    share: float | None
    """Of the service given to all."""
    refused: int
    """Submits turned away at the door; not known by level."""
    expired: int
    """Tasks that nobody started in time."""
    stolen: int
    """Starts by a worker that is not the user's own."""
    retried: int
    """Executions that failed and were followed by another."""
    recovered: int
    """Executions whose worker fell silent."""
    recovery_seconds_max: float | None
    """The longest time from the last sign of life of such a worker until its task was taken back."""
    zombies: int
    """Reports that came too late."""
    dead_lettered: int
    """Tasks that failed for good."""
    cancelled: int


@attrs.define(eq=False)
class Cell:
    """What is counted for one user and level."""

    user: str
    level: int
    waits: "array[float]" = attrs.Factory(lambda: array("d"))
    slowdowns: "array[float]" = attrs.Factory(lambda: array("d"))
    service_seconds: float = 0.0
    completed: int = 0
    stolen: int = 0
    retried: int = 0
    recovered: int = 0
    recovery_seconds_max: float | None = None
    zombies: int = 0
    cancelled: int = 0
    dead_letters: Counter[str] = attrs.Factory(Counter)
    """By cause."""


def group_of(cells: Sequence[Cell], service_of_all: float, refused: int, seconds: float) -> GroupMetrics:
    """What a run of so many seconds was like for these."""
    waits = sorted(chain.from_iterable(cell.waits for cell in cells))
    slowdowns = sorted(chain.from_iterable(cell.slowdowns for cell in cells))
    service_seconds = math.fsum(cell.service_seconds for cell in cells)
    recoveries = [cell.recovery_seconds_max for cell in cells if cell.recovery_seconds_max is not None]
    completed = sum(cell.completed for cell in cells)
    return GroupMetrics(
        completed=completed,
        throughput=completed / seconds if seconds else None,
        wait_seconds_mean=_mean(waits),
        wait_seconds_p50=percentile(waits, 0.50),
        wait_seconds_p99=percentile(waits, 0.99),
        wait_seconds_max=waits[-1] if waits else None,
        slowdown_mean=_mean(slowdowns),
        slowdown_p99=percentile(slowdowns, 0.99),
        service_seconds=service_seconds,
        share=service_seconds / service_of_all if service_of_all else None,
        refused=refused,
        expired=sum(cell.dead_letters["expired"] for cell in cells),
        stolen=sum(cell.stolen for cell in cells),
        retried=sum(cell.retried for cell in cells),
        recovered=sum(cell.recovered for cell in cells),
        recovery_seconds_max=max(recoveries, default=None),
        zombies=sum(cell.zombies for cell in cells),
        dead_lettered=sum(cell.dead_letters.total() for cell in cells),
        cancelled=sum(cell.cancelled for cell in cells),
    )


def percentile(ordered: list[float], part: float) -> float | None:
    """The nearest-rank percentile of sorted numbers, or None if there are none.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5), percentile([], 0.5)
    (2.0, None)
    """
    if not ordered:
        return None
    # A little less, because 0.07 * 100 is a little over 7 and its ceiling would be the next rank.
    rank = math.ceil(part * len(ordered) * (1 - 1e-12))
    return ordered[max(0, rank - 1)]


def _mean(numbers: list[float]) -> float | None:
    return math.fsum(numbers) / len(numbers) if numbers else None
