"""Pictures of graphs: who stole from whom, and who wrote to whom."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sim.history import History
from sim.mail import MessageCounts, message_graph, steal_graph
from sim.picture import Picture
from sim.pictures.canvas import INK, Canvas
from sim.pictures.parties import Party, parties_of
from sim.words import count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["messages_picture", "steals_picture"]

Place = tuple[float, float]

_ROLES: dict[str, Place] = {
    "source": (0.0, 0.5),
    "recording": (0.0, 0.9),
    "operator": (0.0, 0.1),
    "queue": (0.25, 0.5),
    "shard": (0.52, 0.5),
    "scheduler": (0.76, 0.93),
    "worker": (1.0, 0.5),
    "supervisor": (0.76, 0.07),
    "host": (0.25, 0.0),
}
"""As in the drawing of the actors: work goes from left to right."""
_NAMES_SHOWN = 3


def steals_picture(history: History, users_max: int = 12, workers_max: int = 16) -> Picture:
    """Which workers ran tasks of users that are not their own: arrows from users to workers, as thick as there were many.

    >>> from sim import history_of, load_scenario
    >>> from sim.library import located
    >>> steals_picture(history_of(load_scenario(located("stealing_none")))).title
    'nothing was stolen'
    """
    graph = steal_graph(history)
    parties = parties_of(history, users_max)
    party_of = {user: party for party in parties for user in party.members}
    workers = history.workers[: workers_max - 1] if len(history.workers) > workers_max else history.workers
    others = f"others ({len(history.workers) - len(workers)})"
    rows = [*workers, *([others] if len(workers) < len(history.workers) else [])]
    edges: dict[tuple[str, str], int] = {}
    for user, worker, edge in graph.edges(data=True):
        ends = (party_of[user].label, worker if worker in workers else others)
        edges[ends] = edges.get(ends, 0) + edge["count"]
    canvas = Canvas(1.6 + 0.42 * max(len(rows), len(parties), 3))
    (axes,) = canvas.axes
    places = _column(0.0, [f"user {party.label}" for party in parties]) | _column(1.0, rows)
    _steal_arrows(axes, edges, parties, places)
    for party in parties:
        _node(axes, places[f"user {party.label}"], party.label, party.colour, right=False)
    for row in rows:
        _node(axes, places[row], row, INK, right=True)
    axes.set_xlim(-0.35, 1.35)
    axes.set_ylim(-0.06, 1.06)
    axes.axis("off")
    return canvas.finished("steals", _steals_title(history, edges))


def _steal_arrows(
    axes: "Axes", edges: Mapping[tuple[str, str], int], parties: Sequence[Party], places: Mapping[str, Place]
) -> None:
    most = max(edges.values(), default=1)
    colours = {party.label: party.colour for party in parties}
    for number, ((label, worker), stolen) in enumerate(sorted(edges.items())):
        begin, end = places[f"user {label}"], places[worker]
        axes.annotate(
            "",
            xy=(end[0] - 0.02, end[1]),
            xytext=(begin[0] + 0.02, begin[1]),
            arrowprops={"arrowstyle": "-|>", "color": colours[label], "linewidth": 0.8 + 4.5 * stolen / most},
        )
        # Not all at the middle, where lines that cross would have their numbers in one place.
        part = 0.3 + 0.4 * ((number * 0.382) % 1)
        x, y = (there + part * (to - there) for there, to in zip(begin, end, strict=True))
        axes.text(x, y, count(stolen), fontsize=9, ha="center", va="center", bbox=_LABEL)


_LABEL: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}


def _steals_title(history: History, edges: Mapping[tuple[str, str], int]) -> str:
    stolen = sum(edges.values())
    if not stolen:
        return "nothing was stolen"
    starts = sum(1 for _ in history.stints())
    (user, worker), most = max(edges.items(), key=lambda item: item[1])
    part = f"{stolen / starts:.0%}".replace("%", " %")
    return (
        f"{count(stolen)} of {count(starts)} starts are steals ({part}); most, {count(most)}, by {worker} from {user}"
    )


def _column(x: float, names: Sequence[str]) -> dict[str, Place]:
    return {name: (x, 1.0 - (row + 0.5) / len(names)) for row, name in enumerate(names)}


def _node(axes: "Axes", place: Place, label: str, colour: str, *, right: bool) -> None:
    axes.plot(*place, "o", markersize=11, color=colour)
    x = place[0] + (0.03 if right else -0.03)
    axes.text(x, place[1], label, ha="left" if right else "right", va="center")


def messages_picture(counts: MessageCounts) -> Picture:
    """Who wrote to whom, and what most: `count_messages` counts them.

    >>> messages_picture({("source", "queue", "Submit"): 3, ("queue", "shard", "Enqueue"): 3}).title
    '6 messages, 2.0 a submit; most, 3, are Submit from source to queue'
    """
    graph = message_graph(counts)
    canvas = Canvas(5.6)
    (axes,) = canvas.axes
    elsewhere = [role for role in graph if role not in _ROLES]
    places = _ROLES | {role: (0.25 + 0.2 * number, 1.05) for number, role in enumerate(elsewhere)}
    most = max((edge["count"] for _, _, edge in graph.edges(data=True)), default=1)
    for sender, receiver, edge in graph.edges(data=True):
        _arrow(axes, places[sender], places[receiver], edge, most)
    for role in graph:
        axes.text(*places[role], role, ha="center", va="center", fontweight="bold", bbox=_ROLE)
    axes.set_xlim(-0.1, 1.1)
    axes.set_ylim(-0.12, 1.12)
    axes.axis("off")
    return canvas.finished("messages", _messages_title(counts))


_ROLE: dict[str, Any] = {"boxstyle": "round,pad=0.45", "facecolor": "#e8f1f8", "edgecolor": "#0072B2"}


def _arrow(axes: "Axes", begin: Place, end: Place, edge: Mapping[str, Any], most: int) -> None:
    """Bent to its left, so that both directions are seen."""
    if begin == end:
        return
    width = 0.6 + 3.0 * math.log1p(edge["count"]) / math.log1p(most)
    bend = 0.16
    axes.annotate(
        "",
        xy=end,
        xytext=begin,
        arrowprops={
            "arrowstyle": "-|>",
            "color": "#8a8a8a",
            "linewidth": width,
            "shrinkA": 24,
            "shrinkB": 26,
            "connectionstyle": f"arc3,rad={bend}",
        },
    )
    names = sorted(edge["messages"].items(), key=lambda item: -item[1])
    lines = [f"{name} {count(number)}" for name, number in names[:_NAMES_SHOWN]]
    lines += [f"{len(names) - _NAMES_SHOWN} more"] if len(names) > _NAMES_SHOWN else []
    middle = ((begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2)
    across = (end[1] - begin[1], begin[0] - end[0])
    place = (middle[0] + across[0] * bend * 0.62, middle[1] + across[1] * bend * 1.25)
    axes.text(*place, "\n".join(lines), fontsize=8, ha="center", va="center", bbox=_LABEL)


def _messages_title(counts: MessageCounts) -> str:
    whole = sum(counts.values())
    if not whole:
        return "no messages"
    submits = sum(number for (_, _, name), number in counts.items() if name == "Submit")
    (sender, receiver, name), most = max(counts.items(), key=lambda item: item[1])
    each = f", {whole / submits:.1f} a submit" if submits else ""
    return f"{count(whole)} messages{each}; most, {count(most)}, are {name} from {sender} to {receiver}"
