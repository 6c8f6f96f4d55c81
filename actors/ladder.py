"""A ladder: names on rungs, and the smallest key on any rung up to a given one, in O(log n).

The queue keeps those who wait at the door on one: the rung says how much room a user needs, the key whose turn it is. A
heap alone would have to look past everybody who needs more room than there is. Here each rung is a heap, and a binary
tree over the rungs knows the smallest entry below each of its nodes; nodes with nothing below take no memory.
"""

from actors.policies.heaps import KeyHeap

__all__ = ["Ladder"]


class Ladder:
    """Names by rung, then by key, then by name.

    >>> ladder = Ladder(rungs=9)
    >>> ladder.put("alice", rung=7, key=1.0); ladder.put("bob", rung=2, key=5.0)
    >>> ladder.first(6), ladder.first(7), ladder.first(1)
    ('bob', 'alice', None)
    """

    __slots__ = ("_best", "_heaps", "_leaves", "_rungs")

    def __init__(self, rungs: int) -> None:
        self._leaves = 1 << (rungs - 1).bit_length()
        self._rungs: dict[str, int] = {}
        self._heaps: dict[int, KeyHeap] = {}
        self._best: dict[int, tuple[float, str]] = {}
        """By node: 1 is the root, 2n and 2n + 1 are below n, and the leaves are the rungs."""

    def __len__(self) -> int:
        return len(self._rungs)

    def put(self, name: str, rung: int, key: float) -> None:
        """Put a name on a rung, or move it there."""
        assert 0 <= rung < self._leaves, "the ladder has no such rung"
        if self._rungs.get(name, rung) != rung:
            self.discard(name)
        self._rungs[name] = rung
        heap = self._heaps.get(rung)
        if heap is None:
            heap = self._heaps[rung] = KeyHeap()
        heap.put(name, key)
        self._mend(rung, heap)

    def discard(self, name: str) -> None:
        """Take a name off, if it is on."""
        rung = self._rungs.pop(name, None)
        if rung is not None:
            heap = self._heaps[rung]
            heap.discard(name)
            self._mend(rung, heap)

    def first(self, rung_max: int) -> str | None:
        """The name with the smallest key on the rungs up to this one, or None."""
        if rung_max < 0:
            return None
        node = self._leaves + min(rung_max, self._leaves - 1)
        found = self._best.get(node)
        while node > 1:
            # All that is below the left neighbour of a right node is on a lower rung.
            if node & 1 and (left := self._best.get(node - 1)) is not None and (found is None or left < found):
                found = left
            node >>= 1
        return found[1] if found is not None else None

    def _mend(self, rung: int, heap: KeyHeap) -> None:
        """Carry the smallest entry of a rung up to the root."""
        node = self._leaves + rung
        found = heap.first()
        if found is None:
            del self._heaps[rung]
        while True:
            if found is None:
                self._best.pop(node, None)
            else:
                self._best[node] = found
            if node == 1:
                return
            beside = self._best.get(node ^ 1)
            if beside is not None and (found is None or beside < found):
                found = beside
            node >>= 1
