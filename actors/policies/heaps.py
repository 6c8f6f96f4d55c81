"""Names in the order of a key: the heap that every index of users is made of."""

from heapq import heapify, heappop, heappush
from typing import Any

__all__ = ["KeyHeap"]

_COMPACT_MIN = 64


class KeyHeap:
    """A heap of names by key, then by name. A name has one key; an outdated entry is skipped when it comes up.

    >>> heap = KeyHeap()
    >>> heap.put("alice", 2.0); heap.put("bob", 1.0); heap.put("alice", 0.5)
    >>> heap.first(), len(heap)
    ((0.5, 'alice'), 2)
    """

    __slots__ = ("_heap", "_keys")

    def __init__(self) -> None:
        self._keys: dict[str, Any] = {}
        self._heap: list[tuple[Any, str]] = []

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, name: str) -> bool:
        return name in self._keys

    def put(self, name: str, key: Any) -> None:
        """Put a name in, or give it another key."""
        keys = self._keys
        if keys.get(name) == key:
            return
        keys[name] = key
        heappush(self._heap, (key, name))
        if len(self._heap) > 2 * len(keys) + _COMPACT_MIN:
            self._heap = [(key, name) for name, key in keys.items()]
            heapify(self._heap)

    def discard(self, name: str) -> None:
        """Take a name out, if it is in."""
        self._keys.pop(name, None)

    def first(self) -> tuple[Any, str] | None:
        """The smallest key and its name, or None."""
        heap, keys = self._heap, self._keys
        while heap:
            entry = heap[0]
            if keys.get(entry[1]) == entry[0]:
                return entry
            heappop(heap)
        return None
