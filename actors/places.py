"""Places: which workers look where, and who has work there.

A class of workers looks at *views* in order: its own users, then those it may steal from. A view has a *slot* for each
kind of work, which holds the users of the view that have such work and says who is next. Classes that look at the same
users share a view.
"""

from collections.abc import Collection, Iterable

from actors.messages import Head, WorkerClass
from actors.policies.sharing import Account
from actors.policies.stealing import View, ViewKey, view_keys

__all__ = ["Places"]


class Places:
    """The classes of workers, their views, and the slots in those.

    >>> places = Places("none")
    >>> places.set_classes([WorkerClass(frozenset({"crawl"}), users=("alice",))], handled=())
    >>> len(places.views_of("alice")), len(places.views_of("bob")), places.handled
    (1, 0, frozenset({'crawl'}))
    """

    def __init__(self, stealing: str) -> None:
        self._stealing = stealing
        self._views: dict[ViewKey, View] = {}
        self.classes: dict[WorkerClass, list[View]] = {}
        """Every class of workers, in a fixed order, with the views that it looks at, in order."""
        self.runs: dict[WorkerClass, frozenset[str]] = {}
        """What the workers of each class can run."""
        self.handled: frozenset[str] = frozenset()
        """What any worker can run."""
        self.all_fair = True
        """Whether every view goes by accounts alone, and none by how much somebody has waiting."""
        self.draws_lots = False
        """Whether any view goes by chance."""

    def set_classes(self, classes: Iterable[WorkerClass], handled: Collection[str]) -> None:
        """There are workers of these classes and no others: every view is made anew, with no slots."""
        runs = {found: found.runs(handled) for found in classes}
        self._views, self.classes, self.runs = {}, {}, {}
        for found in sorted(runs, key=lambda found: (sorted(runs[found]), found.users or (), found.steals)):
            views = [self._views.setdefault(key, View(key)) for key in view_keys(found, self._stealing)]
            for view in views:
                view.kinds |= runs[found]
            self.classes[found] = views
            self.runs[found] = runs[found]
        self.handled = frozenset().union(*runs.values())
        self.all_fair = all(key.order == "fair" for key in self._views)
        self.draws_lots = any(key.order == "random_two" for key in self._views)

    def views_of(self, user: str) -> list[View]:
        """The views that a user is in."""
        return [view for view in self._views.values() if view.holds(user)]

    def put(
        self, user: str, view: View, kind: str, account: Account, limited: bool, head: Head | None, count: int
    ) -> None:
        """A user of a view has so much work of a kind, of which this is next; who is next there, the account says."""
        slot = view.slots.get(kind)
        if slot is None:
            slot = view.slots[kind] = view.new_slot(account, limited)
        slot.put(user, head, count)

    def refresh(self, name: str) -> None:
        """The account of this user, or of everybody below this name, changed."""
        for view in self._views.values():
            for slot in view.slots.values():
                slot.refresh(name)

    def drop_kind(self, kind: str) -> None:
        """The slots of a kind are to be made anew."""
        for view in self._views.values():
            view.slots.pop(kind, None)
