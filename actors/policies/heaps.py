"""Names in the order of a key: the heaps that every index of users is made of."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

__all__ = ["KeyHeap", "TagHeap"]

_COMPACT_MIN = 64


class KeyHeap:
    """A heap of names by key, then by name. A name has one key; an outdated entry is skipped when it comes up.

    >>> heap = KeyHeap()
    >>> heap.put("alice", 2.0); heap.put("bob", 1.0); heap.put("alice", 0.5)
    >>> heap.first(), len(heap)
    ((0.5, 'alice'), 2)
    """

    __slots__ = ("_heap", "names")

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        """Who is in, by what key."""
        self._heap: list[tuple[Any, str]] = []

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def put(self, name: str, key: Any) -> None:
        """Put a name in, or give it another key."""
        keys = self.names
        if keys.get(name) == key:
            return
        keys[name] = key
        heappush(self._heap, (key, name))
        if len(self._heap) > 2 * len(keys) + _COMPACT_MIN:
            self._heap = [(key, name) for name, key in keys.items()]
            heapify(self._heap)

    def discard(self, name: str) -> None:
        """Take a name out, if it is in."""
        self.names.pop(name, None)

    def first(self) -> tuple[Any, str] | None:
        """The smallest key and its name, or None."""
        heap, keys = self._heap, self.names
        while heap:
            entry = heap[0]
            if keys.get(entry[1]) == entry[0]:
                return entry
            heappop(heap)
        return None


class TagHeap:
    """A heap of names by tags that somebody else keeps and that mostly rise.

    A tag that rose is found out when its name comes up, so a rise costs nothing here; `lower` must be told of a fall. The key
    under which a name lies is never above its tag: that is all it takes.

    >>> tags = {"alice": 1.0, "bob": 2.0}
    >>> heap = TagHeap(tags.__getitem__)
    >>> heap.add("alice"); heap.add("bob")
    >>> tags["alice"] = 3.0
    >>> heap.first()
    (2.0, 'bob')
    """

    __slots__ = ("_heap", "_keys", "_tag")

    def __init__(self, tag: Callable[[str], float]) -> None:
        self._tag = tag
        self._keys: dict[str, float] = {}
        """The key under which each name lies; an entry with another one is skipped when it comes up."""
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, name: str) -> bool:
        return name in self._keys

    def add(self, name: str) -> None:
        """Put a name in, if it is not in."""
        if name not in self._keys:
            self._push(name, self._tag(name))

    def lower(self, name: str) -> None:
        """The name's tag may have fallen, if it is in."""
        if (key := self._keys.get(name)) is not None and (tag := self._tag(name)) < key:
            self._push(name, tag)

    def discard(self, name: str) -> None:
        """Take a name out, if it is in."""
        self._keys.pop(name, None)

    def first(self) -> tuple[float, str] | None:
        """The smallest tag and its name, by name where tags are equal, or None."""
        heap, keys = self._heap, self._keys
        while heap:
            entry = heap[0]
            key, name = entry
            if keys.get(name) != key:
                heappop(heap)
                continue
            tag = self._tag(name)
            if tag <= key:
                return entry
            keys[name] = tag
            heapreplace(heap, (tag, name))
        return None

    def _push(self, name: str, key: float) -> None:
        self._keys[name] = key
        heappush(self._heap, (key, name))
        if len(self._heap) > 2 * len(self._keys) + _COMPACT_MIN:
            self._heap = [(key, name) for name, key in self._keys.items()]
            heapify(self._heap)
