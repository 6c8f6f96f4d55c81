"""Who was at work for whom: a row a worker, a bar a stint, in its user's colour."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sim.history import History, Stint
from sim.picture import Picture
from sim.pictures.canvas import INK, Canvas, time_axis
from sim.pictures.parties import parties_of
from sim.words import duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["timeline_picture"]

_STINTS_PER_WORKER = 30
"""More would not be told apart."""
_WINDOWS = 200


def timeline_picture(
    history: History,
    users_max: int = 7,
    from_seconds: float | None = None,
    until_seconds: float | None = None,
    workers_max: int = 16,
) -> Picture:
    """What workers did over time, coloured by user; steals have a triangle, and where a worker fell silent there is a cross.

    Of a long run the stretch with most to see is shown, unless it is said which.

    >>> from sim import history_of, load_scenario
    >>> from sim.library import located
    >>> history = history_of(load_scenario(located("stealing_longest")))
    >>> timeline_picture(history, from_seconds=0.0, until_seconds=30.0).title.partition(";")[0]
    '0 s to 30 s: 3 workers, busy 100 % of the time'
    """
    stints = list(history.stints())
    workers = history.workers[:workers_max]
    began_at, ended_at = _stretch(history, stints, len(workers), from_seconds, until_seconds)
    within = [stint for stint in stints if stint.began_at < ended_at and stint.ended_at > began_at]
    with Canvas(1.9 + 0.26 * max(3, len(workers))) as canvas:
        (axes,) = canvas.axes
        unit = time_axis(axes, began_at, ended_at)
        rows = {worker: row for row, worker in enumerate(workers)}
        shown = [stint for stint in within if stint.worker in rows]
        for party in parties_of(history, users_max):
            members = set(party.members)
            _bars(axes, [stint for stint in shown if stint.user in members], rows, unit, party.colour)
            axes.plot([], [], color=party.colour, linewidth=7, label=party.label)
        _marks(axes, shown, rows, unit, began_at, ended_at)
        left = len(history.workers) - len(workers)
        axes.set_yticks(range(len(workers)), labels=workers)
        axes.set_ylim(len(workers) - 0.4, -0.6)
        axes.set_ylabel(f"worker ({left} more are not shown)" if left else "worker")
        axes.grid(axis="y", visible=False)
        canvas.figure.legend(loc="outside lower left", ncols=5, fontsize=9)
        return canvas.finished("timeline", _title(within, history, began_at, ended_at))


def _bars(axes: "Axes", stints: Sequence[Stint], rows: dict[str, int], unit: float, colour: str) -> None:
    from matplotlib.collections import PolyCollection

    corners = []
    for stint in stints:
        row, left, right = rows[stint.worker], stint.began_at / unit, stint.ended_at / unit
        corners.append([(left, row - 0.36), (left, row + 0.36), (right, row + 0.36), (right, row - 0.36)])
    axes.add_collection(PolyCollection(corners, facecolors=colour, edgecolors="white", linewidths=0.6))


def _marks(
    axes: "Axes", stints: Sequence[Stint], rows: dict[str, int], unit: float, began_at: float, ended_at: float
) -> None:
    steals = [stint for stint in stints if stint.stolen and stint.began_at >= began_at]
    silent = [stint for stint in stints if stint.outcome == "recovered" and stint.ended_at <= ended_at]
    axes.plot(
        [stint.began_at / unit for stint in steals],
        [rows[stint.worker] - 0.28 for stint in steals],
        linestyle="none",
        marker="v",
        markersize=5,
        color=INK,
        markeredgecolor="white",
        markeredgewidth=0.5,
        label=f"stolen ({len(steals)})",
    )
    axes.plot(
        [stint.ended_at / unit for stint in silent],
        [rows[stint.worker] for stint in silent],
        linestyle="none",
        marker="X",
        markersize=9,
        color=INK,
        markeredgecolor="white",
        label=f"recovered ({len(silent)})",
    )


def _stretch(
    history: History, stints: Sequence[Stint], workers: int, from_seconds: float | None, until_seconds: float | None
) -> tuple[float, float]:
    """Which stretch of the run is shown."""
    if from_seconds is not None or until_seconds is not None or not stints:
        return from_seconds or 0.0, history.last_at if until_seconds is None else until_seconds
    length = history.last_at * min(1.0, _STINTS_PER_WORKER * workers / len(stints))
    if length >= history.last_at * 0.99:
        return 0.0, history.last_at
    starts = [(history.last_at - length) * number / (_WINDOWS - 1) for number in range(_WINDOWS)]
    began_at = max(starts, key=lambda start: (*_to_see(stints, start, start + length), -start))
    return began_at, began_at + length


def _to_see(stints: Sequence[Stint], began_at: float, ended_at: float) -> tuple[int, int, int]:
    """Recoveries, then steals, then how many users: each up to a few, for more is not seen better."""
    from bisect import bisect_left

    first = bisect_left(stints, began_at, key=lambda stint: stint.began_at)
    last = bisect_left(stints, ended_at, key=lambda stint: stint.began_at)
    within = stints[first:last]
    recoveries = sum(stint.outcome == "recovered" and stint.ended_at <= ended_at for stint in within)
    steals = sum(stint.stolen for stint in within)
    return min(3, recoveries), min(3, steals), len({stint.user for stint in within})


def _title(stints: Sequence[Stint], history: History, began_at: float, ended_at: float) -> str:
    busy = sum(min(stint.ended_at, ended_at) - max(stint.began_at, began_at) for stint in stints)
    part = busy / (history.worker_count * (ended_at - began_at)) if ended_at > began_at else 0.0
    steals = sum(stint.stolen and stint.began_at >= began_at for stint in stints)
    silent = sum(stint.outcome == "recovered" and stint.ended_at <= ended_at for stint in stints)
    return (
        f"{duration(began_at)} to {duration(ended_at)}: {history.worker_count} workers, busy {part:.0%} of the time; "
        f"{steals} steals, {silent} recoveries"
    ).replace("%", " %")
