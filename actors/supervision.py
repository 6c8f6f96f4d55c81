"""Supervision: who is restarted with whom, how often, and what happens then. A tree, declared as data.

A group watches its children, which are actors or groups, in the order in which they depend on each other. When a child
crashes, the group's strategy says who is built anew:

- `one_for_one`: the child;
- `one_for_all`: all children;
- `rest_for_one`: the child and those behind it.

An actor is watched where the first child is that stands for it, and an actor that nobody stands for by the root, which
restarts it alone. Actors of one pattern depend on those before the pattern, and not on each other.

A group bears `restarts_max` crashes within `window_seconds`, counted for all its children together or, with `each`, for
every child apart. One more, and the group itself has crashed: the group above it decides, with the whole group as its
child, and a group that is built anew begins to count anew. When there is none above, everything has failed, and
`ActorFailed` says what happened: it is a group of the crashes, and where a group crashed, of what made that crash.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from actors.errors import ActorFailed, InvalidConfig
from actors.messages import Address
from actors.validators import greater_than, one_of, printable, whole

__all__ = ["STRATEGIES", "Group", "Supervision"]

STRATEGIES = ("one_for_one", "one_for_all", "rest_for_one")
"""Who is built anew when a child crashes."""


def _children(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
    if not (isinstance(value, tuple) and all(isinstance(child, (Group, str)) and child != "" for child in value)):
        raise InvalidConfig(f"{attribute.name} must be a tuple of groups and addresses, got {value!r}")


@attrs.frozen
class Group:
    """A supervisor and whom it watches.

    >>> Group("pipeline", ("reader", "parser", "writer"), strategy="rest_for_one").restarts_max
    3
    """

    name: str = attrs.field(validator=printable)
    children: "tuple[Group | str, ...]" = attrs.field(default=("*",), validator=_children)
    """Groups, addresses, or patterns: `shard/*` means every actor of that role, `*` everybody."""
    strategy: str = attrs.field(default="one_for_one", validator=one_of(STRATEGIES))
    """Who is built anew when a child crashes."""
    restarts_max: int = attrs.field(default=3, validator=whole(0))
    """Crashes within the window that are borne; one more is passed up."""
    window_seconds: float = attrs.field(default=5.0, validator=greater_than(0))
    """The time over which crashes are counted."""
    each: bool = False
    """Whether crashes are counted for every child apart."""

    def __attrs_post_init__(self) -> None:
        names = [group.name for group in self.groups()]
        addresses = [child for group in self.groups() for child in group.children if isinstance(child, str)]
        if name := _repeated(names):
            raise InvalidConfig(f"name of a group must not repeat, got {name!r} again")
        if address := _repeated(addresses):
            raise InvalidConfig(f"child of a group must not repeat, got {address!r} again")

    def groups(self) -> "Iterator[Group]":
        """This group and all below it."""
        yield self
        for child in self.children:
            if isinstance(child, Group):
                yield from child.groups()

    def stands_for(self, address: Address) -> bool:
        """Whether an actor is a child, or below one.

        >>> Group("core", ("queue", Group("shards", ("shard/*",)))).stands_for("shard/alice")
        True
        """
        return self.place_of(address) is not None

    def place_of(self, address: Address) -> int | None:
        """Which child an actor is or is below: the first that stands for it."""
        for place, child in enumerate(self.children):
            if child.stands_for(address) if isinstance(child, Group) else _means(child, address):
                return place
        return None


@attrs.define
class _Tally:
    """Crashes that are counted together, oldest first."""

    window_seconds: float
    crashes: deque[tuple[float, Exception]] = attrs.Factory(deque)

    def is_over(self, now: float) -> bool:
        return self.crashes[-1][0] < now - self.window_seconds

    def add(self, error: Exception, now: float) -> None:
        self.crashes.append((now, error))
        while self.crashes[0][0] < now - self.window_seconds:
            self.crashes.popleft()


@attrs.frozen
class _Way:
    """The groups from the root down to the one that watches an actor, and the place in each of the next, and of it."""

    groups: tuple[Group, ...]
    places: tuple[int, ...]
    """One for each group; none for an actor that nobody stands for."""


class Supervision:
    """Counts crashes and says who is restarted.

    >>> supervision = Supervision(Group("pair", ("queue", "scheduler"), strategy="one_for_all", restarts_max=1))
    >>> supervision.crashed("scheduler", ValueError("boom"), now=0.0, present=("front", "queue", "scheduler"))
    ['queue', 'scheduler']
    >>> supervision.crashed("scheduler", ValueError("boom"), now=1.0)
    Traceback (most recent call last):
    actors.errors.ActorFailed: pair crashed 2 times in 5 s, last scheduler
    """

    def __init__(self, root: Group) -> None:
        self._root = root
        self._tallies: OrderedDict[tuple[str, str], _Tally] = OrderedDict()
        """What crashed within each group's window, by the group, and with `each` by the child; the latest crash last."""

    def add(self, group: Group) -> None:
        """Have one more group watch below the root."""
        self._root = attrs.evolve(self._root, children=(*self._root.children, group))

    def crashed(self, address: Address, error: Exception, now: float, present: Iterable[Address] = ()) -> list[Address]:
        """Who of those present is to be built anew, in this order; ActorFailed if nobody above can bear it.

        The one that crashed is always among them.
        """
        way = self._way(address)
        failure: Exception = error
        for depth in reversed(range(len(way.groups))):
            group = way.groups[depth]
            child = address if depth == len(way.groups) - 1 else way.groups[depth + 1].name
            crashes = self._count(group, child, failure, now)
            if len(crashes) <= group.restarts_max:
                return self._restarted(address, way, depth, present)
            failure = ActorFailed(_in_words(group, child, address, len(crashes)), [crash for _, crash in crashes])
        raise failure from error

    def forget(self, address: Address) -> None:
        """The actor is gone for good: nothing of it is counted any more."""
        for group in self._root.groups():
            self._tallies.pop((group.name, address), None)

    def _way(self, address: Address) -> _Way:
        groups, places = [self._root], []
        while (place := groups[-1].place_of(address)) is not None:
            places.append(place)
            child = groups[-1].children[place]
            if not isinstance(child, Group):
                break
            groups.append(child)
        return _Way(tuple(groups), tuple(places))

    def _count(self, group: Group, child: str, error: Exception, now: float) -> deque[tuple[float, Exception]]:
        # What is no longer counted must not be kept: an exception holds on to the whole actor that raised it.
        while self._tallies and next(iter(self._tallies.values())).is_over(now):
            self._tallies.popitem(last=False)
        key = (group.name, child if group.each else "")
        tally = self._tallies.setdefault(key, _Tally(group.window_seconds))
        self._tallies.move_to_end(key)
        tally.add(error, now)
        return tally.crashes

    def _restarted(self, crashed: Address, way: _Way, depth: int, present: Iterable[Address]) -> list[Address]:
        """Whom the group at this depth has built anew; its whole groups begin to count anew."""
        group, above = way.groups[depth], way.places[:depth]
        is_group = depth < len(way.groups) - 1
        if not way.places or (group.strategy == "one_for_one" and not is_group):
            return [crashed]
        here = way.places[depth]
        if group.strategy == "one_for_one":
            chosen = {here}
        else:
            chosen = set(range(0 if group.strategy == "one_for_all" else here + (not is_group), len(group.children)))
        self._count_anew(group.children[place] for place in chosen)
        restarted = [(way.places, crashed)]
        for other in set(present) - {crashed}:
            places = self._way(other).places
            if places[:depth] == above and len(places) > depth and places[depth] in chosen:
                restarted.append((places, other))
        return [address for _, address in sorted(restarted)]

    def _count_anew(self, restarted: Iterable[Group | str]) -> None:
        names = {group.name for child in restarted if isinstance(child, Group) for group in child.groups()}
        for key in [key for key in self._tallies if key[0] in names]:
            del self._tallies[key]


def _means(child: str, address: Address) -> bool:
    return address.startswith(child[:-1]) if child.endswith("*") else address == child


def _repeated(names: list[str]) -> str | None:
    return next((name for name in names if names.count(name) > 1), None)


def _in_words(group: Group, child: str, address: Address, count: int) -> str:
    who = child if group.each else group.name
    last = "" if who == address else f", last {address}"
    return f"{who} crashed {count} times in {group.window_seconds:g} s{last}"
