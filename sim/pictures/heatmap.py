"""Policies by users: how long one task in a hundred waits, as colour and as words."""

import math
from collections.abc import Mapping, Sequence

from actors.errors import InvalidConfig
from sim.comparison import Comparison
from sim.picture import Picture
from sim.pictures.canvas import Canvas
from sim.words import duration

__all__ = ["heatmap_picture"]

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
    cells = {
        (policy, user): interval.mean
        for user in comparison.users(scenario)
        for policy in comparison.policies
        if (interval := comparison.interval(metric, policy, user, scenario)) is not None
    }
    columns = _columns(cells, comparison, users_max)
    shown = {
        (policy, label): max((cells[policy, user] for user in users if (policy, user) in cells), default=math.nan)
        for policy in comparison.policies
        for label, users in columns.items()
    }
    canvas = Canvas(1.7 + 0.46 * len(comparison.policies))
    _draw(canvas, shown, comparison.policies, list(columns))
    return canvas.finished("heatmap", _title(_WAITS[metric], cells, comparison))


def _columns(cells: Cells, comparison: Comparison, users_max: int) -> dict[str, list[str]]:
    """Those for whom the choice of policy matters most, in the order of the scenario, and the others."""
    users = list(dict.fromkeys(user for _, user in cells))
    if len(users) <= users_max:
        return {user: [user] for user in users}
    ranked = sorted(users, key=lambda user: -_range(cells, user))
    named = set(ranked[: users_max - 1])
    others = [user for user in users if user not in named]
    return {user: [user] for user in users if user in named} | {f"worst of\n{len(others)} others": others}


def _range(cells: Cells, user: str) -> float:
    """By which factor the best and the worst policy for a user differ; what is under a tenth of a second is alike."""
    waits = [max(value, 0.1) for (_, of), value in cells.items() if of == user]
    return max(waits) / min(waits)


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
    axes.set_xticks(range(len(columns)), labels=columns, rotation=0 if len(columns) <= 8 else 30)
    axes.set_yticks(range(len(policies)), labels=policies)
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.set_xlabel("user")
    bar = canvas.figure.colorbar(image, ax=axes, fraction=0.03, pad=0.01)
    bar.set_ticks([10.0**power for power in range(math.ceil(math.log10(norm.vmin or low)), 1 + int(math.log10(high)))])
    bar.ax.yaxis.set_major_formatter(lambda value, _: duration(value))
    bar.ax.minorticks_off()


def _title(what: str, cells: Cells, comparison: Comparison) -> str:
    users = dict.fromkeys(user for _, user in cells)
    if not users:
        return f"{what}: no task was started"
    user = max(users, key=lambda user: _range(cells, user))
    waits = {policy: cells[policy, user] for policy in comparison.policies if (policy, user) in cells}
    best, worst = min(waits, key=lambda policy: waits[policy]), max(waits, key=lambda policy: waits[policy])
    if best == worst:
        return f"{what} of {user}: {duration(waits[best])} under {best}"
    return f"{what} of {user}: {duration(waits[worst])} under {worst}, {duration(waits[best])} under {best}"
