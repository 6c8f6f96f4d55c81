"""Who writes to whom: the messages of a run, counted by role of sender and receiver; and who steals from whom. Both as graphs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from actors.errors import InvalidConfig
from actors.host import Envelope
from sim.history import History
from sim.runner import Simulation
from sim.scenario import Scenario

if TYPE_CHECKING:
    from networkx import DiGraph

__all__ = ["MessageCounts", "count_messages", "message_graph", "steal_graph"]

MessageCounts = Mapping[tuple[str, str, str], int]
"""How many messages there were: by role of the sender, role of the receiver, and name of the message."""


class _Counting:
    """A gate that lets everything through."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, str]] = Counter()

    def envelopes(self, envelope: Envelope, now: float) -> Sequence[tuple[float, Envelope]]:
        sender, receiver, message = envelope
        self.counts[sender.partition("/")[0], receiver.partition("/")[0], type(message).__name__] += 1
        return ((0.0, envelope),)

    def timer(self, address: str, at: float, now: float) -> float:
        return at


def count_messages(scenario: Scenario) -> MessageCounts:
    """Run a scenario and count its messages; one with faults is refused, because they have a gate of their own.

    >>> from sim import Burst, Fixed, Kind, Scenario, User
    >>> kind = Kind(name="work", service=Fixed(seconds=1.0))
    >>> user = User(name="alice", arrivals=(Burst(kind="work", count=3),))
    >>> counts = count_messages(Scenario(name="demo", duration_seconds=10.0, kinds=(kind,), users=(user,)))
    >>> counts["source", "queue", "Submit"], counts["shard", "worker", "Run"]
    (3, 3)
    """
    if scenario.faults:
        raise InvalidConfig(f"messages must be counted without faults, which {scenario.name!r} has")
    counting = _Counting()
    Simulation(scenario, gate=counting).run()
    return counting.counts


def message_graph(counts: MessageCounts) -> "DiGraph[str]":
    """Roles, with an edge for each that writes to another: `count` in all, and `messages`, how many of each name.

    >>> graph = message_graph({("queue", "shard", "Enqueue"): 3, ("queue", "shard", "Drop"): 1})
    >>> graph.edges["queue", "shard"]
    {'count': 4, 'messages': {'Enqueue': 3, 'Drop': 1}}
    """
    import networkx

    graph: DiGraph[str] = networkx.DiGraph()
    for (sender, receiver, name), number in counts.items():
        if not graph.has_edge(sender, receiver):
            graph.add_edge(sender, receiver, count=0, messages={})
        edge: dict[str, Any] = graph.edges[sender, receiver]
        edge["count"] += number
        edge["messages"][name] = edge["messages"].get(name, 0) + number
    return graph


def steal_graph(history: History) -> "DiGraph[str]":
    """Users and workers, with an edge from each user to each worker that was not its own and ran tasks of it: how many.

    Nodes say their `role`, `user` or `worker`; all that had or did anything are there, with an edge or without.

    >>> from sim import history_of, load_scenario
    >>> from sim.library import located
    >>> graph = steal_graph(history_of(load_scenario(located("stealing_longest"))))
    >>> sorted(graph.successors("bob")), "worker/2" in graph
    (['worker/1', 'worker/3'], True)
    """
    import networkx

    graph: DiGraph[str] = networkx.DiGraph()
    graph.add_nodes_from(history.users, role="user")
    graph.add_nodes_from(history.workers, role="worker")
    stolen = Counter((stint.user, stint.worker) for stint in history.stints() if stint.stolen)
    for (user, worker), number in stolen.items():
        graph.add_edge(user, worker, count=number)
    return graph
