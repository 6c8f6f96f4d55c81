"""Pictures over time: who has how much waiting, and who was given how much against the ideal fluid share."""

from collections.abc import Mapping, Sequence

from sim.curve import Curve, steps
from sim.history import Behind, History
from sim.picture import Picture
from sim.pictures.canvas import INK, Canvas, count_axis, time_axis
from sim.pictures.parties import Party, parties_of
from sim.words import count, duration

__all__ = ["backlog_picture", "service_picture"]

_POINTS_MAX = 1_000
"""More would not be seen."""


def backlog_picture(history: History, users_max: int = 7) -> Picture:
    """Each user's tasks that could start and wait, over time.

    >>> from sim import history_of, load_scenario
    >>> from sim.library import located
    >>> history = history_of(load_scenario(located("stealing_longest")))
    >>> backlog_picture(history).title.startswith("bob has most tasks waiting, up to ")
    True
    """
    highest = {user: max((waiting for _, waiting in history.backlog(user)), default=0) for user in history.users}
    most = max(highest, key=lambda user: highest[user], default=None)
    with Canvas(4.2) as canvas:
        (axes,) = canvas.axes
        unit = time_axis(axes, 0.0, history.last_at)
        peaks: dict[str, int] = {}
        for party in parties_of(history, users_max, most):
            found = _together(history, party)
            peaks[party.label] = max((waiting for _, waiting in found), default=0)
            at, waiting = _thinned([(0.0, 0), *found, (history.last_at, found[-1][1] if found else 0)])
            axes.plot(
                [time / unit for time in at],
                waiting,
                drawstyle="steps-post",
                color=party.colour,
                linestyle=party.dashes,
                label=f"{party.label}: at most {count(peaks[party.label])}",
            )
        count_axis(axes, list(peaks.values()))
        axes.set_ylabel("tasks that wait")
        canvas.legend()
        return canvas.finished("backlog", _backlog_title(highest, most))


def _backlog_title(highest: Mapping[str, int], most: str | None) -> str:
    if most is None or not highest[most]:
        return "nobody ever has a task that waits"
    rest = max((peak for user, peak in highest.items() if user != most), default=None)
    said = f"{most} has most tasks waiting, up to {count(highest[most])}"
    return said if rest is None else f"{said}; nobody else more than {count(rest)}"


def _together(history: History, party: Party) -> list[tuple[float, int]]:
    changes: list[tuple[float, int]] = []
    for user in party.members:
        before = 0
        for at, waiting in history.backlog(user):
            changes.append((at, waiting - before))
            before = waiting
    return list(steps(changes))


def _thinned(points: Sequence[tuple[float, int]]) -> tuple[list[float], list[int]]:
    """As many points as can be seen, the highest of each stretch among them."""
    stretch = len(points) // _POINTS_MAX + 1
    kept = [max(points[at : at + stretch], key=lambda point: point[1]) for at in range(0, len(points), stretch)]
    if kept[-1] != points[-1]:
        kept.append(points[-1])
    return [at for at, _ in kept], [value for _, value in kept]


def service_picture(history: History, users_max: int = 7, ideal: Mapping[str, Curve] | None = None) -> Picture:
    """What each user was given, against the ideal fluid share; and below, how far behind that it was.

    The ideal is worked out unless it is given: see sim/fluid.py.

    >>> from sim import history_of, load_scenario
    >>> from sim.library import located
    >>> history = history_of(load_scenario(located("shouting_user")), sharing="fifo")
    >>> service_picture(history).title.startswith("modest falls furthest behind the ideal fluid share: by ")
    True
    """
    ideal = history.ideal() if ideal is None else ideal
    received, worst = history.received(), history.worst_lag(ideal)
    with Canvas(6.0, rows=2, sharex=True, height_ratios=[3, 2]) as canvas:
        above, below = canvas.axes
        unit = time_axis(below, 0.0, history.last_at)
        times = [history.last_at * number / _POINTS_MAX for number in range(_POINTS_MAX + 1)]
        shown = [time / unit for time in times]
        for party in parties_of(history, users_max, None if worst is None else worst.user):
            given, wanted = (_sum(party, curves, times) for curves in (received, ideal))
            mean = ", mean" if party.is_rest else ""
            above.plot(shown, given, color=party.colour, label=f"{party.label}{mean}")
            above.plot(shown, wanted, color=party.colour, linestyle=(0, (1, 1.5)))
            behind = [want - have for want, have in zip(wanted, given, strict=True)]
            below.plot(shown, behind, color=party.colour, linestyle=party.dashes)
        above.plot([], [], color=INK, linestyle=(0, (1, 1.5)), label="ideal, dotted")
        above.set_ylabel("service given\n(worker-seconds)")
        above.set_ylim(bottom=0)
        above.yaxis.set_major_formatter("{x:,.0f}")
        canvas.legend()
        below.axhline(0.0, color=INK, linewidth=0.8)
        below.set_ylabel("behind the ideal\n(worker-seconds)")
        return canvas.finished("service", _service_title(worst, history))


def _sum(party: Party, curves: Mapping[str, Curve], times: Sequence[float]) -> list[float]:
    """What they had together; of the rest the mean, for there may be many and nobody is meant."""
    sums = [sum(values) for values in zip(*(curves[user].along(times) for user in party.members), strict=True)]
    return [value / len(party.members) for value in sums] if party.is_rest else sums


def _service_title(worst: Behind | None, history: History) -> str:
    if worst is None:
        return "nobody had a task"
    behind = count(round(worst.seconds, 2 if worst.seconds < 1 else 0))
    longest = max((stint.ended_at - stint.began_at for stint in history.stints()), default=0.0)
    if worst.seconds <= 2 * longest:
        # Less than what whoever finishes what it began cannot help.
        return f"nobody falls far behind the ideal fluid share: {worst.user} by {behind} worker-seconds at most"
    return (
        f"{worst.user} falls furthest behind the ideal fluid share: by {behind} worker-seconds, at {duration(worst.at)}"
    )
