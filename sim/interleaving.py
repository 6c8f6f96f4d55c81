"""Interleavings: in which order messages arrive that are under way at the same time.

Between actors nothing is promised but that two messages from one sender to one receiver arrive as they were sent; and
`Failed`, the word that an actor crashed, counts as that actor's own: it comes before whatever it says once it is rebuilt. The
host, which has one mailbox, promises more: first sent, first delivered. So a mistake that needs another order never shows
there. Here a seeded choice among the messages under way looks for it, and the same seed finds it again.

- `RandomOrder`: any sender-receiver pair that has something under way is as likely to be next as any other.
- `PriorityOrder`: probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi, Nagarakatte 2010). Pairs have random
  priorities and the highest goes first, except that at some random steps the one that would be next is put last. A mistake
  that needs d ordering constraints is found with probability >= 1 / (n * k^(d-1)) by d-1 changes in k steps among n pairs,
  which uniform choice does not promise. A run is long and a mistake is near: priorities and changes are drawn anew
  every `steps` messages, so that each stretch is a trial of its own.
"""

from collections import deque
from heapq import heappop, heappush
from random import Random
from typing import Any

import attrs

from actors.host import Envelope, Order
from actors.messages import Address, Failed
from actors.validators import whole

__all__ = ["ORDERS", "Interleaving", "PriorityOrder", "RandomOrder", "interleaving_in_words"]

Pair = tuple[Address, Address]


@attrs.frozen(kw_only=True)
class RandomOrder:
    """Whoever has something under way is as likely to be next as anybody else.

    >>> mail = RandomOrder(seed=2).start()
    >>> for number in range(3):
    ...     mail.put(("a", "c", number)); mail.put(("b", "c", number))
    >>> [(sender, number) for sender, _, number in (mail.take() for _ in range(len(mail)))]
    [('a', 0), ('b', 0), ('a', 1), ('a', 2), ('b', 1), ('b', 2)]
    """

    seed: int = attrs.field(default=0, validator=whole(0))
    """What the order comes from."""

    def start(self) -> Order:
        """A mailbox that chooses so."""
        return _RandomMail(Random(f"{self.seed}/interleaving"))


@attrs.frozen(kw_only=True)
class PriorityOrder:
    """Some always come before others, until that changes.

    >>> mail = PriorityOrder(seed=1, changes=0).start()
    >>> for number in range(3):
    ...     mail.put(("a", "c", number)); mail.put(("b", "c", number))
    >>> [(sender, number) for sender, _, number in (mail.take() for _ in range(len(mail)))]
    [('a', 0), ('a', 1), ('a', 2), ('b', 0), ('b', 1), ('b', 2)]
    """

    seed: int = attrs.field(default=0, validator=whole(0))
    """What the order comes from."""
    changes: int = attrs.field(default=2, validator=whole(0))
    """How often whoever would be next is put last, in each stretch: one less than the depth of the mistakes sought."""
    steps: int = attrs.field(default=200, validator=whole(1))
    """Messages in a stretch, after which all priorities are drawn anew."""

    def start(self) -> Order:
        """A mailbox that chooses so."""
        return _PriorityMail(Random(f"{self.seed}/interleaving"), self.changes, self.steps)


Interleaving = RandomOrder | PriorityOrder
ORDERS: dict[str, type[Any]] = {"random": RandomOrder, "pct": PriorityOrder}
"""The ways to choose what is delivered next, by name; without one it is what was sent first."""


def interleaving_in_words(interleaving: Interleaving | None) -> str:
    """An interleaving as a person reads it.

    >>> interleaving_in_words(None), interleaving_in_words(PriorityOrder(seed=3))
    ('as sent', 'pct, seed 3, changes 2, steps 200')
    """
    if interleaving is None:
        return "as sent"
    (name,) = (name for name, known in ORDERS.items() if type(interleaving) is known)
    return ", ".join([name, *(f"{key} {value}" for key, value in attrs.asdict(interleaving).items())])


def _pair_of(envelope: Envelope) -> Pair:
    sender, receiver, message = envelope
    return (message.receiver if isinstance(message, Failed) else sender, receiver)


class _Lines:
    """What is under way, in a line for each pair."""

    def __init__(self) -> None:
        self._lines: dict[Pair, deque[Envelope]] = {}
        self.count = 0

    def add(self, pair: Pair, envelope: Envelope) -> bool:
        """To the end of the pair's line; whether it had none."""
        self.count += 1
        line = self._lines.get(pair)
        if line is None:
            self._lines[pair] = deque([envelope])
            return True
        line.append(envelope)
        return False

    def pop(self, pair: Pair) -> tuple[Envelope, bool]:
        """The first of the pair's line, and whether there are more."""
        self.count -= 1
        line = self._lines[pair]
        envelope = line.popleft()
        if not line:
            del self._lines[pair]
        return envelope, bool(line)


class _RandomMail:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._lines = _Lines()
        self._pairs: list[Pair] = []

    def __len__(self) -> int:
        return self._lines.count

    def put(self, envelope: Envelope) -> None:
        pair = _pair_of(envelope)
        if self._lines.add(pair, envelope):
            self._pairs.append(pair)

    def take(self) -> Envelope:
        place = int(self._random.random() * len(self._pairs))
        envelope, has_more = self._lines.pop(self._pairs[place])
        if not has_more:
            # The last takes its place: their order is of no matter, as long as it is the same in any process.
            last = self._pairs.pop()
            if place < len(self._pairs):
                self._pairs[place] = last
        return envelope


class _PriorityMail:
    def __init__(self, random: Random, changes: int, steps: int) -> None:
        self._random = random
        self._changes = changes
        self._steps = steps
        self._lines = _Lines()
        self._step = 0
        self._ranks: dict[Pair, float] = {}
        """Drawn in [0, 1) when a pair is first heard of; the lowest is delivered first."""
        self._change_at: list[int] = []
        """The steps of this stretch at which whoever would be next is put last, the nearest at the end."""
        self._heap: list[tuple[float, Pair]] = []
        self._begin_stretch()

    def __len__(self) -> int:
        return self._lines.count

    def put(self, envelope: Envelope) -> None:
        pair = _pair_of(envelope)
        if self._lines.add(pair, envelope):
            self._push(pair)

    def take(self) -> Envelope:
        if self._step == self._steps:
            self._begin_stretch()
        _, pair = heappop(self._heap)
        if self._change_at and self._change_at[-1] == self._step:
            # Behind everybody, and behind whoever was put there before.
            self._ranks[pair] = 1.0 + self._change_at.pop()
            self._push(pair)
            _, pair = heappop(self._heap)
        self._step += 1
        envelope, has_more = self._lines.pop(pair)
        if has_more:
            self._push(pair)
        return envelope

    def _begin_stretch(self) -> None:
        self._step = 0
        self._ranks.clear()
        drawn = {int(self._random.random() * self._steps) for _ in range(self._changes)}
        self._change_at = sorted(drawn, reverse=True)
        # Sorted, so that who is given which rank does not depend on how the heap came about.
        waiting = sorted(pair for _, pair in self._heap)
        self._heap.clear()
        for pair in waiting:
            self._push(pair)

    def _push(self, pair: Pair) -> None:
        rank = self._ranks.get(pair)
        if rank is None:
            rank = self._ranks[pair] = self._random.random()
        heappush(self._heap, (rank, pair))
