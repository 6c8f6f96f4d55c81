"""Policies by users: how long one task in a hundred waits, as colour and as words."""

import math
from collections.abc import Mapping, Sequence
from textwrap import fill

from actors.errors import InvalidConfig
from sim.comparison import Comparison
from sim.picture import Picture
from sim.pictures.canvas import STEPS, Canvas
from sim.words import duration

__all__ = ["finding", "heatmap_picture"]

_WAITS = {"wait_seconds_p50": "median wait", "wait_seconds_p99": "p99 wait", "wait_seconds_max": "longest wait"}

Cells = Mapping[tuple[str, str], float]


def heatmap_picture(
    comparison: Comparison, users_max: int = 12, metric: str = "wait_seconds_p99", scenario: str | None = None
) -> Picture:
    """Each user's wait under each policy, the mean over the seeds: `wait_seconds_p50`, `_p99` or `_max`.

    Where there are too many users the rest are one column, for the one of them that waits longest.

    >>> from sim import compare, load_scenario
    >>> from sim.library import located
    >>> comparison = compare(load_scenario(located("shouting_user")), sharing=["fifo", "weighted_fair"], seeds=1, jobs=1)
    >>> heatmap_picture(comparison).title.startswith("p99 wait of modest: ")
    True
    """
    if metric not in _WAITS:
        raise InvalidConfig(f"metric must be one of {', '.join(_WAITS)}, got {metric!r}")
    columns = comparison.shown(users_max, metric, scenario)
    worst = {
        (policy, label): comparison.worst(metric, policy, users, scenario)
        for policy in comparison.policies
        for label, users in columns.items()
    }
    shown = {place: math.nan if interval is None else interval.mean for place, interval in worst.items()}
    with Canvas(1.7 + 0.46 * len(comparison.policies)) as canvas:
        _draw(canvas, shown, comparison.policies, list(columns))
        return canvas.finished("heatmap", finding(comparison, metric, scenario))


def finding(comparison: Comparison, metric: str = "wait_seconds_p99", scenario: str | None = None) -> str:
    """What a comparison comes to, in a line: for whom the choice matters most, and what it makes of their waits."""
    user = comparison.most_at_stake(metric, scenario)
    if user is None:
        return f"{_WAITS[metric]}: no task was started"
    found = {policy: comparison.interval(metric, policy, user, scenario) for policy in comparison.policies}
    waits = {policy: interval.mean for policy, interval in found.items() if interval is not None}
    said = {policy: duration(wait) for policy, wait in waits.items()}
    longest, shortest = (said[end(waits, key=lambda policy: waits[policy])] for end in (max, min))
    extremes = [longest] if longest == shortest else [longest, shortest]
    return f"{_WAITS[metric]} of {user}: " + ", ".join(f"{wait} under {_those(said, wait)}" for wait in extremes)


def _those(said: Mapping[str, str], wait: str) -> str:
    """The policies of which the same is said."""
    names = [policy for policy, found in said.items() if found == wait]
    return " and ".join(names) if len(names) <= 2 else f"{names[0]} and {len(names) - 1} others"


def _draw(canvas: Canvas, shown: Cells, policies: Sequence[str], columns: Sequence[str]) -> None:
    from matplotlib.colors import LogNorm

    (axes,) = canvas.axes
    found = [value for value in shown.values() if value > 0]
    low, high = max(min(found, default=0.1), 1e-3), max([*found, 1.0])
    norm = LogNorm(min(low, high / 10), high)
    rows = [[max(shown[policy, column], norm.vmin or low) for column in columns] for policy in policies]
    image = axes.imshow(rows, cmap="cividis_r", norm=norm, aspect="auto")
    for row, policy in enumerate(policies):
        for place, column in enumerate(columns):
            value = shown[policy, column]
            dark = not math.isnan(value) and norm(max(value, low)) > 0.55
            text = "-" if math.isnan(value) else duration(value)
            axes.text(place, row, text, ha="center", va="center", fontsize=9, color="white" if dark else "black")
    axes.set_xticks(
        range(len(columns)), labels=[fill(column, 14) for column in columns], rotation=0 if len(columns) <= 8 else 30
    )
    axes.set_yticks(range(len(policies)), labels=policies)
    axes.grid(visible=False)
    for edge in range(1, len(columns)):
        axes.axvline(edge - 0.5, color="white", linewidth=1.5)
    for edge in range(1, len(policies)):
        axes.axhline(edge - 0.5, color="white", linewidth=1.5)
    axes.tick_params(length=0)
    axes.set_xlabel("user")
    bar = canvas.figure.colorbar(image, ax=axes, fraction=0.03, pad=0.01)
    marked = [step for step in STEPS if (norm.vmin or low) <= step <= high]
    bar.set_ticks(marked, labels=[STEPS[step] for step in marked])
    bar.ax.minorticks_off()
