"""Pictures of graphs: who stole from whom, and who wrote to whom."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from actors.host import HOST
from sim.history import History
from sim.mail import MessageCounts, message_graph, steal_graph
from sim.picture import Picture
from sim.pictures.canvas import INK, Canvas
from sim.pictures.parties import Party, parties_of
from sim.replay import numbers_by_size
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
    "supervisor": (0.52, 0.07),
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
    edges = _steals(history, parties_of(history, users_max), workers_max)
    labels = {label for label, _ in edges}
    parties = [party for party in parties_of(history, users_max) if party.label in labels]
    thieves = sorted({worker for _, worker in edges}, key=numbers_by_size)
    with Canvas(1.5 + 0.4 * max(len(thieves), len(parties), 2)) as canvas:
        (axes,) = canvas.axes
        users = _column(0.0, [party.label for party in parties])
        workers = _column(1.0, thieves)
        _steal_arrows(axes, edges, parties, users, workers)
        for party in parties:
            _node(axes, users[party.label], party.label, party.colour, right=False)
        for worker in thieves:
            _node(axes, workers[worker], worker, INK, right=True)
        left = [len(history.users) - sum(len(party.members) for party in parties), len(history.workers) - len(thieves)]
        axes.text(0.5, -0.03, f"{left[0]} users were not stolen from; {left[1]} workers did not steal", ha="center")
        axes.set_xlim(-0.35, 1.35)
        axes.set_ylim(-0.06, 1.06)
        axes.axis("off")
        return canvas.finished("steals", _steals_title(history, edges))


def _steals(history: History, parties: Sequence[Party], workers_max: int) -> dict[tuple[str, str], int]:
    """How often each worker stole from whom is shown; workers beyond so many are one, `other workers`."""
    party_of = {user: party for party in parties for user in party.members}
    graph = steal_graph(history)
    by_worker = {worker: sum(edge["count"] for _, _, edge in graph.in_edges(worker, data=True)) for worker in graph}
    thieves = sorted(history.workers, key=lambda worker: -by_worker[worker])
    named = set(thieves if len(thieves) <= workers_max else thieves[: workers_max - 1])
    edges: dict[tuple[str, str], int] = {}
    for user, worker, edge in graph.edges(data=True):
        ends = (party_of[user].label, worker if worker in named else "other workers")
        edges[ends] = edges.get(ends, 0) + edge["count"]
    return edges


def _steal_arrows(
    axes: "Axes",
    edges: Mapping[tuple[str, str], int],
    parties: Sequence[Party],
    users: Mapping[str, Place],
    workers: Mapping[str, Place],
) -> None:
    most = max(edges.values(), default=1)
    for party in parties:
        own = [(worker, stolen) for (label, worker), stolen in edges.items() if label == party.label]
        begin = users[party.label]
        for number, (worker, stolen) in enumerate(sorted(own, key=lambda item: -workers[item[0]][1])):
            end = workers[worker]
            axes.annotate(
                "",
                xy=(end[0] - 0.02, end[1]),
                xytext=(begin[0] + 0.02, begin[1]),
                arrowprops={"arrowstyle": "-|>", "color": party.colour, "linewidth": 0.8 + 4.5 * stolen / most},
            )
            # Near the user, where lines have not met those of others, and not all at one distance.
            part = 0.14 + 0.09 * (number % 4)
            x, y = (there + part * (to - there) for there, to in zip(begin, end, strict=True))
            axes.text(x, y, count(stolen), fontsize=9, ha="center", va="center", bbox=_LABEL, zorder=9)


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
    with Canvas(4.8) as canvas:
        (axes,) = canvas.axes
        woken = {role: edge["count"] for _, role, edge in graph.out_edges(HOST, data=True)} if HOST in graph else {}
        graph.remove_nodes_from([HOST])
        elsewhere = [role for role in graph if role not in _ROLES]
        places = _ROLES | {role: (0.25 + 0.2 * number, 1.05) for number, role in enumerate(elsewhere)}
        most = max((edge["count"] for _, _, edge in graph.edges(data=True)), default=1)
        for sender, receiver, edge in graph.edges(data=True):
            _arrow(axes, places[sender], places[receiver], edge, most)
        for role in graph:
            axes.text(*places[role], role, ha="center", va="center", fontweight="bold", bbox=_ROLE)
            if role in woken:
                x, y = places[role]
                axes.text(x, y - 0.085, f"woken {count(woken[role])} times", fontsize=8, ha="center", va="center")
        axes.set_xlim(-0.1, 1.1)
        axes.set_ylim(-0.08, 1.0)
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
    # To be woken is no message of anybody's.
    counts = {names: number for names, number in counts.items() if names[0] != HOST}
    whole = sum(counts.values())
    if not whole:
        return "no messages"
    submits = sum(number for (_, _, name), number in counts.items() if name == "Submit")
    (sender, receiver, name), most = max(counts.items(), key=lambda item: item[1])
    each = f", {whole / submits:.1f} a submit" if submits else ""
    return f"{count(whole)} messages{each}; most, {count(most)}, are {name} from {sender} to {receiver}"
