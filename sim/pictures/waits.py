"""How long tasks wait for their first start: the spread of waits, by user and by level."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from actors.task import Priority
from sim.groups import percentile
from sim.history import History
from sim.picture import Picture
from sim.pictures.canvas import INK, Canvas, duration_axis
from sim.pictures.parties import parties_of
from sim.words import duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["waits_picture"]

_LEVEL_COLOUR = "#555555"


@attrs.frozen
class _Spread:
    label: str
    colour: str
    waits: list[float]

    def at(self, part: float) -> float:
        return percentile(self.waits, part) or 0.0


def waits_picture(history: History, users_max: int = 12) -> Picture:
    """The spread of waits: from the 1st to the 99th percentile, with the middle half, the median and the longest.

    Below the users are the levels, if there are several.

    >>> from sim import history_of, load_scenario
    >>> from sim.library import located
    >>> history = history_of(load_scenario(located("heavy_and_light")))
    >>> waits_picture(history).title.startswith("1 task in 100 of ")
    True
    """
    users = [
        _Spread(party.label, party.colour, _waits(history, party.members)) for party in parties_of(history, users_max)
    ]
    levels = _levels(history)
    panels = [users, *([levels] if len(levels) > 1 else [])]
    rows = [max(1, len(panel)) for panel in panels]
    with Canvas(1.5 + 0.34 * sum(rows), rows=len(panels), sharex=True, height_ratios=rows) as canvas:
        longest = max((wait for spread in users for wait in spread.waits), default=0.0)
        for axes, panel, of in zip(canvas.axes, panels, ("user", "level"), strict=False):
            duration_axis(axes, longest)
            _draw(axes, panel)
            axes.set_ylabel(of)
        canvas.axes[-1].set_xlabel(
            "wait for the first start: line 1st to 99th percentile, bar the middle half, dot the median, x the longest"
        )
        return canvas.finished("waits", _title(users))


def _draw(axes: "Axes", panel: Sequence[_Spread]) -> None:
    for row, spread in enumerate(panel):
        if not spread.waits:
            continue
        axes.plot([spread.at(0.01), spread.at(0.99)], [row, row], color=spread.colour, linewidth=1.6)
        axes.plot([spread.at(0.25), spread.at(0.75)], [row, row], color=spread.colour, linewidth=7, alpha=0.45)
        axes.plot([spread.at(0.5)], [row], "o", color=spread.colour, markersize=6, markeredgecolor="white")
        axes.plot([spread.waits[-1]], [row], "x", color=spread.colour, markersize=6)
    axes.set_yticks(
        range(len(panel)), labels=[f"{spread.label}  p99 {duration(spread.at(0.99))}" for spread in panel], color=INK
    )
    axes.set_ylim(max(1, len(panel)) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)


def _waits(history: History, users: Sequence[str]) -> list[float]:
    waits = history.waits()
    return sorted(wait for user in users for wait in waits[user])


def _levels(history: History) -> list[_Spread]:
    found: dict[int, list[float]] = {}
    for task in history.tasks():
        if task.seconds is not None:
            found.setdefault(task.level, []).append(task.seconds)
    return [
        _Spread(Priority(level).name.lower().replace("_", " "), _LEVEL_COLOUR, sorted(found[level]))
        for level in sorted(found, reverse=True)
    ]


def _title(users: Sequence[_Spread]) -> str:
    waited = [spread for spread in users if spread.waits]
    if not waited:
        return "no task was started, so none waited"
    slow = max(waited, key=lambda spread: spread.at(0.99))
    quick = min(waited, key=lambda spread: spread.at(0.99))
    said = f"1 task in 100 of {slow.label} waits {duration(slow.at(0.99))} or longer"
    return said if quick is slow else f"{said}; of {quick.label}, {duration(quick.at(0.99))}"
