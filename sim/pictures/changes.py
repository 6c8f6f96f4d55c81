"""What would have changed for each user: a line from what one task in a hundred waited to what it would wait."""

from textwrap import fill

from sim.picture import Picture
from sim.pictures.canvas import INK, Canvas, duration_axis
from sim.what_if import Moved, WhatIf
from sim.words import duration

__all__ = ["changes_picture"]

_LESS, _MORE = "#0072B2", "#D55E00"


def changes_picture(what: WhatIf, users_max: int = 20) -> Picture:
    """For each user its p99 wait before, a ring, and after, an arrow's head; those whose waits change most if there are many."""
    shown = _shown(what, users_max)
    with Canvas(1.8 + 0.3 * max(2, len(shown))) as canvas:
        (axes,) = canvas.axes
        longest = max((p99 for _, moved in shown for p99 in _p99s(moved)), default=0.0)
        duration_axis(axes, longest)
        for row, (_, moved) in enumerate(shown):
            before, after = _p99s(moved)
            colour = _MORE if after > before else _LESS
            axes.plot([before, after], [row, row], color=colour, linewidth=2.5)
            axes.plot([before], [row], "o", color="white", markeredgecolor=colour, markersize=8, markeredgewidth=1.8)
            axes.plot(
                [after], [row], ">" if after > before else "<" if after < before else "o", color=colour, markersize=9
            )
        labels = [f"{user}  {duration(_p99s(moved)[0])} → {duration(_p99s(moved)[1])}" for user, moved in shown]
        axes.set_yticks(range(len(shown)), labels=labels, color=INK)
        axes.set_ylim(max(1, len(shown)) - 0.5, -0.5)
        axes.grid(axis="y", visible=False)
        axes.plot([], [], color=_LESS, linewidth=2.5, label="waits less")
        axes.plot([], [], color=_MORE, linewidth=2.5, label="waits longer")
        left = len(what.users) - len(shown)
        more = f"; {left} users who change less are not shown" if left else ""
        axes.set_xlabel(fill(f"p99 wait: the ring is under {what.before}; the arrow under {what.after}{more}", 100))
        canvas.figure.legend(loc="outside lower left", ncols=2, fontsize=9)
        return canvas.finished("changes", _title(what))


def _p99s(moved: Moved) -> tuple[float, float]:
    return (moved.before.p99 if moved.before else 0.0, moved.after.p99 if moved.after else 0.0)


def _shown(what: WhatIf, users_max: int) -> list[tuple[str, Moved]]:
    """Those that change most, who gains most first."""
    users = what.by_change()
    if len(users) <= users_max:
        return users
    most = sorted(users, key=lambda item: -abs(item[1].p99_change))[:users_max]
    return [item for item in users if item in most]


def _title(what: WhatIf) -> str:
    users = what.by_change()
    less = [item for item in users if item[1].p99_change < 0]
    more = [item for item in users if item[1].p99_change > 0]
    if not less and not more:
        return "nobody's p99 wait would have changed"
    said = []
    for changed, word, found in ((less, "less", less[:1]), (more, "longer", more[-1:])):
        for user, moved in found:
            before, after = map(duration, _p99s(moved))
            said.append(f"{len(changed)} of {len(users)} users wait {word}, most of all {user}: p99 {before} → {after}")
    return "; ".join(said)
