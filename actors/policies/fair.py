"""Weighted fair sharing: start-time fair queueing (Goyal, Vin, Cheng 1996), over a tree of names.

Each user has a start tag; the smallest goes next; a dispatch of cost c moves the tag by c/weight. Virtual time v is the
largest tag picked so far, and a user that becomes active starts no earlier than v: nobody banks credit while idle,
paused, capped or throttled. Where costs were estimated too high, corrections take tags back and v stays where it is: then
whoever becomes active starts with the smallest tag of those who are, for behind v nobody would be there to compete with. With
exact costs no active tag is below v, and both are the same. Bound, for f and g over any interval in which both are active and eligible for every grant,
with D the charged and L the largest single cost:

    |D_f/w_f - D_g/w_g| <= L_f/w_f + L_g/w_g        at any number of workers, when costs are exact.

Why: a pick has the smallest tag S, so -L_g/w_g <= S_f - S_g <= L_f/w_f holds after every grant (only the picked tag
moves, by at most L/w, from below or at the other); tags move by exactly D/w, so subtracting the two ends of the interval
gives the bound. It needs one grant at a time, charged before the next pick, which is what the scheduler does. With
estimates that are corrected when the work is done, (m+1) times that, L being the larger of estimate and used, is what we
observe on m workers; that is a conjecture, asserted by the tests.

`tenant/alice` shares inside `tenant` first: every name on the way has a tag in the clock of the one above and a clock of
its own for those below, so the bound holds between siblings, and splitting a backlog over many names below one tenant
gains nothing. The tasks of `tenant` itself are a child of their own, of weight 1.

A changed weight binds what is queued already, the last charge included: tag = v + (tag - v) * before/after.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import zip_longest
from typing import Any

import attrs

from actors.messages import Head
from actors.policies.heaps import TagHeap
from actors.policies.sharing import Claims
from actors.table import Notes

__all__ = ["FairAccount", "TreeIndex", "WeightedFair"]

_ROOT = ""

RESTING_MAX = 100_000
"""Idle names remembered below one name, because they were given more than the others so far."""


def above(name: str) -> str:
    """The name above, or the root.

    >>> above("tenant/alice"), above("tenant")
    ('tenant', '')
    """
    at = name.rfind("/")
    return name[:at] if at >= 0 else _ROOT


@attrs.frozen
class WeightedFair:
    """Every user gets work in proportion to its weight, and an idle one banks nothing.

    >>> from actors import Settings
    >>> account = WeightedFair().start(Notes("scheduler"), Settings())
    >>> index = account.index()
    >>> for user in ("alice", "bob"):
    ...     account.activate(user, now=0.0)
    ...     index.put(user, None)
    >>> account.charge("alice", cost=2.0, now=0.0)
    >>> index.refresh("alice")
    >>> index.pick()
    'bob'
    """

    sees_heads = False
    sees_counts = False

    def start(self, notes: Notes, claims: Claims) -> "FairAccount":
        return FairAccount(notes, claims)


class _Node:
    """A name: where it stands with the one above, and the clock of those below."""

    __slots__ = (
        "active",
        "children",
        "key",
        "name",
        "own",
        "own_tag",
        "parent",
        "resting",
        "running",
        "standing",
        "tag",
        "virtual",
        "weight",
    )

    def __init__(self, name: str, key: str, weight: float, parent: "_Node | None", tag: float) -> None:
        self.name = name
        self.key = key
        """Where it is noted."""
        self.weight = weight
        self.parent = parent
        self.tag = tag
        self.own_tag = 0.0
        """Where its own tasks stand, in its own clock."""
        self.virtual = 0.0
        """Its own clock, which never goes back."""
        self.own = False
        """Whether it has tasks of its own that could start."""
        self.running = 0
        """Charges here and below that are not settled yet."""
        self.active = 0
        """Children that are active, its own tasks included."""
        self.children: set[str] | None = None
        """Children that are remembered, if there ever were any."""
        self.standing: TagHeap | None = None
        """Those of them that are active, by their tags."""
        self.resting: list[tuple[float, str]] = []
        """A heap of tags that children had when they fell idle: each is looked at once this clock has passed it."""


class FairAccount:
    """Tags and virtual times. A name that is idle, owes nothing and has nothing running is forgotten."""

    charges_only_raise = True
    """Its index finds out by itself what a charge has changed."""

    def __init__(self, notes: Notes, claims: Claims) -> None:
        self._notes = notes
        self._put = notes.put
        self._weight = claims.weight
        self._key = notes.prefix + "node/"
        self._root = _Node(_ROOT, self._key, 1.0, None, 0.0)
        self._nodes: dict[str, _Node] = {_ROOT: self._root}
        saved = notes.under("node/")
        for name in sorted(saved, key=lambda name: (name.count("/") if name else -1, name)):
            node = self._node(name)
            node.tag, node.own_tag, node.virtual, node.own, node.running = saved[name]
            node.active = int(node.own)
        for name in sorted(saved, key=lambda name: -name.count("/")):
            self._restore(name, self._nodes[name])
        for node in self._nodes.values():
            heapify(node.resting)

    def _restore(self, name: str, node: _Node) -> None:
        if node.parent is not None:
            if node.active:
                node.parent.active += 1
                self._stand(node.parent, node)
            else:
                node.parent.resting.append((node.tag, name))

    # The account

    def activate(self, user: str, now: float) -> None:
        node = self._nodes.get(user) or self._node(user)
        if not node.own:
            node.own_tag = max(node.own_tag, self._floor(node))
            node.own = True
            self._wake(node)

    def deactivate(self, user: str) -> None:
        node = self._nodes.get(user)
        if node is not None and node.own:
            node.own = False
            self._sleep(node)

    def charge(self, user: str, cost: float, now: float) -> None:
        node = self._nodes.get(user) or self._node(user)
        if node.own_tag > node.virtual:
            node.virtual = node.own_tag
        node.own_tag = (node.own_tag if node.own else node.virtual) + cost
        while (parent := node.parent) is not None:
            tag = node.tag
            if tag > parent.virtual:
                parent.virtual = tag
                if parent is self._root:
                    # The others are noted below, on the way up.
                    self._note(parent)
            elif not node.active:
                tag = parent.virtual
            node.tag = tag + cost / node.weight
            node.running += 1
            self._note(node)
            if parent.resting and parent.resting[0][0] <= parent.virtual:
                self._forget_passed(parent)
            node = parent

    def _floor(self, parent: _Node) -> float:
        """Where a child starts that becomes active: virtual time, or the smallest active tag if that is below it."""
        floor = parent.virtual
        if parent.own and parent.own_tag < floor:
            floor = parent.own_tag
        if parent.standing is not None and (first := parent.standing.first()) is not None and first[0] < floor:
            floor = first[0]
        return floor

    def _stand(self, parent: _Node, node: _Node) -> None:
        if parent.standing is None:
            parent.standing = TagHeap(self.tag)
        parent.standing.add(node.name)

    def correct(self, user: str, difference: float, now: float) -> None:
        leaf = node = self._nodes.get(user) or self._node(user)
        node.own_tag += difference
        while (parent := node.parent) is not None:
            node.tag += difference / node.weight
            node.running -= 1
            self._note(node)
            if difference < 0 and parent.standing is not None:
                parent.standing.lower(node.name)
            node = parent
        if not leaf.active:
            self._rest(leaf)

    def reweigh(self, name: str, before: float, after: float) -> None:
        node = self._nodes.get(name)
        if node is not None and node.parent is not None:
            virtual = node.parent.virtual
            node.weight = after
            node.tag = virtual + (node.tag - virtual) * before / after
            if node.parent.standing is not None:
                node.parent.standing.lower(name)
            self._note(node)
            self._rest(node)

    def rank(self, user: str, head: Head | None) -> Any:
        """Tag and name at each step of the way down; own tasks come before children of the same tag."""
        ranks: list[Any] = []
        parent = self._root
        for name in _way_down(user):
            node = self._nodes.get(name)
            if node is None:
                return (*ranks, self._floor(parent), name)
            ranks += (node.tag if node.active else max(node.tag, self._floor(parent)), name)
            parent = node
        return (*ranks, parent.own_tag if parent.own else max(parent.own_tag, self._floor(parent)), "")

    def gap(self, user: str, other: str) -> float:
        """The difference of their tags in the first clock that they share and in which they differ."""
        for mine, its in zip_longest(_way_down(user), _way_down(other)):
            if mine != its:
                # One of them may be the name above the other: then its own tasks are what stands beside the other.
                tag = self.own_tag(user) if mine is None else self.tag(mine)
                return tag - (self.own_tag(other) if its is None else self.tag(its))
        return 0.0

    def index(self) -> "TreeIndex":
        return TreeIndex(self)

    # For the index and for those who want to know

    def tag(self, name: str) -> float:
        """Where a name stands in the clock of the one above."""
        node = self._nodes.get(name)
        if node is not None:
            return node.tag
        parent = self._nodes.get(above(name))
        return 0.0 if parent is None else self._floor(parent)

    def own_tag(self, name: str) -> float:
        """Where a name's own tasks stand in its own clock."""
        node = self._nodes.get(name)
        return 0.0 if node is None else node.own_tag

    def virtual(self, name: str = _ROOT) -> float:
        """The clock of a name's children."""
        node = self._nodes.get(name)
        return 0.0 if node is None else node.virtual

    # The tree

    def _node(self, name: str) -> _Node:
        node = self._nodes.get(name)
        if node is None:
            parent = self._node(above(name))
            if parent.children is None:
                parent.children = set()
            parent.children.add(name)
            node = self._nodes[name] = _Node(name, self._key + name, self._weight(name), parent, self._floor(parent))
        return node

    def _wake(self, node: _Node) -> None:
        """One more child of the name is active; if it is the first, the name is active with the one above."""
        while (parent := node.parent) is not None:
            node.active += 1
            if node.active > 1:
                self._note(node)
                return
            node.tag = max(node.tag, self._floor(parent))
            self._stand(parent, node)
            self._note(node)
            node = parent

    def _sleep(self, leaf: _Node) -> None:
        """One child less of the name is active; if it was the last, the name is idle."""
        node = leaf
        while (parent := node.parent) is not None:
            node.active -= 1
            self._note(node)
            if node.active:
                break
            if parent.standing is not None:
                parent.standing.discard(node.name)
            node = parent
        self._rest(leaf)

    def _rest(self, node: _Node) -> None:
        """Forget an idle name and those above it, or remember to look again when the clock has passed its tag."""
        while (parent := node.parent) is not None:
            if node.active or node.running:
                return
            if node.tag > self._floor(parent):
                heappush(parent.resting, (node.tag, node.name))
                if len(parent.resting) > RESTING_MAX:
                    self._forget_least(parent)
            else:
                self._forget_child(parent, node.name)
            node = parent

    def _forget_least(self, parent: _Node) -> None:
        """Of too many that rest, the one that owes least. Where everybody comes once, the clock passes nobody."""
        tag, name = heappop(parent.resting)
        node = self._nodes.get(name)
        if node is not None and node.tag == tag and not (node.active or node.running):
            self._forget_child(parent, name)

    def _forget_child(self, parent: _Node, name: str) -> None:
        assert parent.children is not None, "a child has been adopted"
        parent.children.discard(name)
        self._forget(name)

    def _forget_passed(self, parent: _Node) -> None:
        floor = self._floor(parent)
        while parent.resting and parent.resting[0][0] <= floor:
            _, name = heappop(parent.resting)
            if (node := self._nodes.get(name)) is not None:
                self._rest(node)

    def _forget(self, name: str) -> None:
        """A name and all below it: whoever comes back to a name that nobody remembers starts with a new clock."""
        for child in sorted(self._nodes.pop(name).children or ()):
            self._forget(child)
        if "node/" + name in self._notes:
            del self._notes["node/" + name]

    def _note(self, node: _Node) -> None:
        self._put(node.key, (node.tag, node.own_tag, node.virtual, node.own, node.running))


def _way_down(user: str) -> Iterator[str]:
    """Every name on the way to a user.

    >>> list(_way_down("a/b/c"))
    ['a', 'a/b', 'a/b/c']
    """
    at = user.find("/", 1)
    while at >= 0:
        yield user[:at]
        at = user.find("/", at + 1)
    yield user


class TreeIndex:
    """Some of the active users, as a tree of heaps: a pick walks down along the smallest tags."""

    def __init__(self, account: FairAccount) -> None:
        self._account = account
        self._own: set[str] = set()
        self._children: dict[str, TagHeap] = {}

    def put(self, user: str, head: Head | None) -> None:
        if user in self._own:
            return
        self._own.add(user)
        name = user
        while name:
            parent = above(name)
            heap = self._children.get(parent)
            if heap is None:
                heap = self._children[parent] = TagHeap(self._account.tag)
            heap.add(name)
            name = parent

    def discard(self, user: str) -> None:
        if user not in self._own:
            return
        self._own.remove(user)
        name = user
        while name and name not in self._own and name not in self._children:
            parent = above(name)
            heap = self._children[parent]
            heap.discard(name)
            if not heap:
                del self._children[parent]
            name = parent

    def refresh(self, name: str) -> None:
        while name:
            parent = above(name)
            if (heap := self._children.get(parent)) is not None:
                heap.lower(name)
            name = parent

    def pick(self) -> str | None:
        name = _ROOT
        while (heap := self._children.get(name)) is not None:
            first = heap.first()
            if first is None:
                break
            if name in self._own and self._account.own_tag(name) <= first[0]:
                return name
            name = first[1]
        return name if name in self._own else None
