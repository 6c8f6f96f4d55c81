"""Who can be reached? A user that no worker serves or may steal from is found and reported, and never waits in silence."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from actors.messages import WorkerClass
from actors.policies.stealing import View, view_keys
from actors.table import Notes

if TYPE_CHECKING:
    pass

__all__ = ["Reach", "Watch"]


class Reach:
    """Which users some worker can reach: a graph from the pool over worker classes to users.

    >>> reach = Reach()
    >>> reach.set_classes([WorkerClass(frozenset(), users=("a*",))], "none")
    >>> reach.add("alice"), reach.add("bob"), reach.unreachable()
    (True, False, ['bob'])
    """

    _POOL = ("pool",)

    def __init__(self) -> None:
        # Imported here, because it takes longer than all the rest and few runtimes have assignments.
        import networkx

        self._networkx = networkx
        self._graph: networkx.DiGraph[Any] = networkx.DiGraph()
        self._users: dict[str, None] = {}
        self._views: list[tuple[WorkerClass, View]] = []
        self._graph.add_node(self._POOL)

    def set_classes(self, classes: Iterable[WorkerClass], stealing: str) -> None:
        """From now on there are workers of these classes and no others."""
        self._graph.remove_nodes_from([node for node in self._graph if node != self._POOL])
        self._views = [(found, View(key)) for found in classes for key in view_keys(found, stealing)]
        for user in self._users:
            self._connect(user)

    def add(self, user: str) -> bool:
        """There is such a user: whether anybody reaches it."""
        self._users[user] = None
        self._connect(user)
        return bool(self._graph.in_degree(user))

    def remove(self, user: str) -> None:
        """There is no such user any more."""
        if user in self._users:
            del self._users[user]
            self._graph.remove_node(user)

    def unreachable(self) -> list[str]:
        """The users that no path leads to, sorted."""
        reached = self._networkx.descendants(self._graph, self._POOL)
        return sorted(user for user in self._users if user not in reached)

    def _connect(self, user: str) -> None:
        self._graph.add_node(user)
        for found, view in self._views:
            if view.holds(user):
                self._graph.add_edge(self._POOL, found)
                self._graph.add_edge(found, user)


class Watch:
    """Which users with work are unreachable, and what changed. Without assignments everybody is reached."""

    def __init__(self, stealing: str, notes: Notes) -> None:
        self._stealing = stealing
        self._notes = notes
        self._reach: Reach | None = None
        self.unreachable: set[str] = set(notes.under("unreachable/"))
        """Users with work that no worker may take."""
        self.changes: list[tuple[str, bool]] = []
        """Users that became unreachable (True) or reachable (False); whoever reads it clears it."""

    def look(self, classes: Iterable[WorkerClass], users: Iterable[str]) -> None:
        """There are these workers and these users, and no others."""
        classes = list(classes)
        if self._reach is None:
            if all(found.users is None for found in classes):
                for user in sorted(self.unreachable):
                    self._set(user, False)
                return
            self._reach = Reach()
        for user in users:
            self._reach.add(user)
        self._reach.set_classes(classes, self._stealing)
        unreachable = set(self._reach.unreachable())
        for user in sorted(self.unreachable ^ unreachable):
            self._set(user, user in unreachable)

    def add(self, user: str) -> None:
        """A user appeared."""
        if self._reach is not None:
            self._set(user, not self._reach.add(user))

    def remove(self, user: str) -> None:
        """A user has no work any more; whether it could be reached is no longer a question."""
        if self._reach is not None:
            self._reach.remove(user)
        if user in self.unreachable:
            self.unreachable.remove(user)
            del self._notes["unreachable/" + user]

    def _set(self, user: str, unreachable: bool) -> None:
        if unreachable == (user in self.unreachable):
            return
        if unreachable:
            self.unreachable.add(user)
            self._notes["unreachable/" + user] = True
        else:
            self.unreachable.remove(user)
            del self._notes["unreachable/" + user]
        self.changes.append((user, unreachable))
