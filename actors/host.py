"""The host: one mailbox and one loop that runs many actors.

A mailbox is a trio memory channel. What goes through it is a *round*: all that was said while the round before it was
handled, in order, a post for each actor that had something to say at one time. Messages to actors on the same host go
through that same channel with `send_nowait`, so the whole way of a task costs no task switch. Whoever drives the
host calls `drain` until nothing is under way, then moves `now` and calls `fire`. So timers fire only when the mailbox is
empty: after a stall nobody's lease is expired while the beat that saves it still waits to be read.

Three seams, all off by default: `gate` sees every envelope and timer before it takes effect and may drop, delay or
repeat it (faults), `journal` is given each batch of records with the sends that must wait for it (durability), and
`order` says which of the messages under way is next where that need not be the oldest (interleavings).
"""

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain
from typing import Any, NoReturn, Protocol

import attrs
import trio

from actors.actor import NEVER, Core, Draw, Effects
from actors.errors import MailboxFull
from actors.messages import Address, Failed, Wake, nobody_at
from actors.supervision import Group, Supervision
from actors.table import Record, Table
from actors.trace import ActorRestarted, Event, Undelivered

__all__ = ["HOST", "Envelope", "Gate", "Host", "Journal", "Limits", "Order", "Post", "in_words"]

HOST: Address = "host"
"""Who sends what no actor sends."""

_WAKE = Wake()
_TIMER_HEAP_MIN = 64
"""Up to so many entries nobody looks for timers that were replaced."""


Envelope = tuple[Address, Address, Any]
"""A message under way: sender, receiver, message."""

Post = tuple[Address, Sequence[tuple[Address, Any]]]
"""What an actor had to say at one time: sender, and messages with their receivers. Plain tuples, because there are many."""

Round = list[Post]
"""What was said while the round before it was handled."""


class Gate(Protocol):
    """Where faults get in: sees what is about to happen and says what happens instead."""

    def envelopes(self, envelope: Envelope, now: float) -> Sequence[tuple[float, Envelope]]:
        """What to deliver in place of this, each with a delay in seconds; nothing drops it. Wake-ups are shown too.

        What this raises is a crash of the receiver on that message.
        """

    def timer(self, address: Address, at: float, now: float) -> float:
        """When the actor is woken in place of `at`."""


class Journal(Protocol):
    """Where durability gets in: makes records safe, then releases what waited for them."""

    def commit(self, records: Sequence[Record], held: Post, release: Callable[[Iterable[Post]], None]) -> None:
        """Make the records safe and call `release([held])` once they are, if it holds anything; not before."""


class Order(Protocol):
    """Where interleavings get in: holds the messages under way and says which is next.

    Whatever it chooses, two messages from one sender to one receiver must come out as they went in, where `Failed` counts
    as said by the actor that it is about.
    """

    def put(self, envelope: Envelope) -> None:
        """One more is under way."""

    def take(self) -> Envelope:
        """The next to be delivered; there must be one."""

    def __len__(self) -> int:
        """How many are under way."""


@attrs.frozen(kw_only=True)
class Limits:
    """How much a host holds and bears.

    >>> Limits().mailbox_max
    1000000
    """

    mailbox_max: int = 1_000_000
    """Posts under way at once, each what an actor or somebody outside had to say at one time; one more is an error with a name, never a silent loss."""
    undelivered_max: int = 1_000
    """The latest undelivered messages kept for reading; all of them are counted."""
    passive_max: int = 10_000
    """Idle on-demand actors kept in memory before the longest idle is dropped."""


EACH_FOR_ITSELF = Group("host", each=True)
"""The supervision tree of a host that is given none: who crashes is restarted alone, three times in five seconds."""


class Host:
    """Runs cores: delivers, applies what they return, contains what they raise."""

    def __init__(
        self,
        table: Table,
        draw: Draw,
        *,
        observe: Callable[[Event], None] = lambda event: None,
        gate: Gate | None = None,
        journal: Journal | None = None,
        order: Order | None = None,
        limits: Limits = Limits(),
        supervision: Group = EACH_FOR_ITSELF,
    ) -> None:
        self.table = table
        self.now = 0.0
        self.undelivered: deque[Envelope] = deque(maxlen=limits.undelivered_max)
        """The latest messages that nobody could handle."""
        self.undelivered_count = 0
        """How many there were in all."""
        self.delivered_count = 0
        """Messages handled or attempted, timers included."""
        self.mailbox_peak = 0
        """The most posts that were in one round."""
        self._draw = draw
        self._observe = observe
        self._gate = gate
        self._journal = journal
        self._order = order
        self._limits = limits
        self._mailbox_max = limits.mailbox_max
        self._cores: dict[Address, Core] = {}
        self._builders: dict[Address, Callable[[], Core]] = {}
        self._on_demand: dict[str, Callable[[str], Core]] = {}
        self._passive: OrderedDict[Address, None] = OrderedDict()
        self._supervision = Supervision(supervision)
        self._timers: dict[Address, float] = {}
        self._due: set[Address] = set()
        """Whose timers were due when they were set, and are not in the heap: most of them are gone before they fire."""
        self._timer_heap: list[tuple[float, Address, int, Address | Envelope]] = []
        self._timer_heap_max = _TIMER_HEAP_MIN
        self._timer_count = 0
        self._send, self._receive = trio.open_memory_channel[Round](1)
        self._said: Round = []
        """The next round, which goes into the mailbox when this one is over."""
        self._round: Iterator[Post] = iter(())
        """What is left of this one."""

    # Who is here

    def spawn(self, address: Address, build: Callable[[], Core]) -> None:
        """Start an actor; `build` makes its core now and again after each crash."""
        self._builders[address] = build
        core = build()
        self._begin(address, core, core.start(self.now))

    def on_demand(self, role: str, build: Callable[[str], Core]) -> None:
        """Actors `role/name` are started by their first message, from `build(name)`, and dropped when long idle."""
        self._on_demand[role] = build

    def dismiss(self, address: Address) -> None:
        """The actor is gone for good; a message to it is undelivered from now on."""
        self._builders.pop(address, None)
        self._supervision.forget(address)
        self._drop(address)

    def restart(self, address: Address) -> None:
        """Throw an actor's core away and build it anew from the table; a crash on the way is one more crash."""
        if (error := self._rebuild(address)) is not None:
            self._supervise(address, error)

    def core(self, address: Address) -> Core | None:
        """The core at an address, if it is in memory; to be looked at, not touched."""
        return self._cores.get(address)

    def addresses(self) -> list[Address]:
        """Every actor now in memory, sorted."""
        return sorted(self._cores)

    # Driving it

    def post(self, sender: Address, receiver: Address, message: Any) -> None:
        """Put a message into the mailbox."""
        if len(self._said) >= self._mailbox_max:
            self._overflow(receiver, message)
        self._said.append((sender, ((receiver, message),)))

    def drain(self, messages_max: int | None = None) -> bool:
        """Handle messages until none is under way, or at least `messages_max` were handled; False if some are left."""
        stop_at = math.inf if messages_max is None else self.delivered_count + messages_max
        if self._order is not None:
            return self._drain_in_order(self._order, stop_at)
        cores, now, draw, gate, apply = self._cores, self.now, self._draw, self._gate, self._apply
        while True:
            for post in self._round:
                if self.delivered_count >= stop_at:
                    self._round = chain((post,), self._round)
                    return False
                sender, sends = post
                for receiver, message in sends:
                    if gate is not None:
                        self._deliver_through_gate(gate, (sender, receiver, message))
                    elif (core := cores.get(receiver)) is None:
                        self._deliver((sender, receiver, message))
                    else:
                        # As `_deliver`, without the call.
                        self.delivered_count += 1
                        try:
                            effects = core.handle(message, now, draw)
                        except Exception as error:
                            self._contain((sender, receiver, message), error)
                            continue
                        apply(receiver, effects)
                        if core.passive:
                            self._rest(receiver)
            if not self._said:
                return True
            self._round = iter(self._next_round())

    def _next_round(self) -> Round:
        """Through the mailbox, as everything goes that is said here."""
        said = self._said
        self._send.send_nowait(said)
        self._said = []
        if len(said) > self.mailbox_peak:
            self.mailbox_peak = len(said)
        return self._receive.receive_nowait()

    def _drain_in_order(self, order: Order, stop_at: float) -> bool:
        while self._said or len(order):
            if self._said:
                for sender, sends in self._next_round():
                    for receiver, message in sends:
                        order.put((sender, receiver, message))
            if self.delivered_count >= stop_at:
                return False
            if self._gate is not None:
                self._deliver_through_gate(self._gate, order.take())
            else:
                self._deliver(order.take())
        return True

    def next_timer(self) -> float:
        """When the next timer is due, or NEVER."""
        if self._due:
            # They were due when they were set, so whatever lies in the heap, something is due.
            return min(self._timers[address] for address in self._due)
        heap = self._timer_heap
        while heap:
            at, _, _, target = heap[0]
            if not isinstance(target, str) or self._timers.get(target) == at:
                return at
            heappop(heap)
        return NEVER

    def fire(self) -> None:
        """Let the first timer that is due by `now` take effect. The mailbox must be empty."""
        while self._due:
            address = self._due.pop()
            self._push_timer(self._timers[address], address, address)
        if self.next_timer() > self.now:
            return
        _, _, _, target = heappop(self._timer_heap)
        if not isinstance(target, str):
            self._deliver(target)
            return
        del self._timers[target]
        if self._gate is not None:
            self._deliver_through_gate(self._gate, (HOST, target, _WAKE))
        else:
            self._deliver((HOST, target, _WAKE))

    def release(self, posts: Iterable[Post]) -> None:
        """Post what was held for a journal."""
        for post in posts:
            if len(self._said) >= self._mailbox_max:
                self._overflow(*post[1][0])
            self._said.append(post)

    # How a message is handled

    def _overflow(self, receiver: Address, message: Any) -> NoReturn:
        name = type(message).__name__
        raise MailboxFull(f"the mailbox holds {self._mailbox_max} messages, no room for {name} to {receiver}")

    def _deliver_through_gate(self, gate: Gate, envelope: Envelope) -> None:
        try:
            substitutes = gate.envelopes(envelope, self.now)
        except Exception as error:
            self._contain(envelope, error)
            return
        for delay_seconds, substitute in substitutes:
            if delay_seconds > 0:
                self._push_timer(self.now + delay_seconds, substitute[1], substitute)
            else:
                self._deliver(substitute)

    def _deliver(self, envelope: Envelope) -> None:
        _, receiver, message = envelope
        self.delivered_count += 1
        core = self._cores.get(receiver)
        if core is None and (core := self._activated(envelope)) is None:
            return
        try:
            effects = core.handle(message, self.now, self._draw)
        except Exception as error:
            self._contain(envelope, error)
            return
        self._apply(receiver, effects)
        if core.passive:
            self._rest(receiver)

    def _apply(self, address: Address, effects: Effects) -> None:
        if effects.records:
            self.table.apply_all(effects.records)
        for event in effects.events:
            self._observe(event)
        sends = effects.sends
        if effects.held and self._journal is None:
            # Nothing waits for anything.
            sends += effects.held
        if sends:
            said = self._said
            if len(said) >= self._mailbox_max:
                self._overflow(*sends[0])
            said.append((address, sends))
        if self._journal is not None and (effects.held or effects.records):
            self._journal.commit(effects.records, (address, effects.held), self.release)
        if effects.timer is not None:
            self._set_timer(address, effects.timer)

    def _contain(self, envelope: Envelope, error: Exception) -> None:
        """One core's exception is its own: its message is kept, its sender told, and the core rebuilt."""
        self._observe(ActorRestarted(self.now, envelope[1], in_words(error)))
        self._undeliver(envelope, in_words(error))
        self._supervise(envelope[1], error)

    def _supervise(self, address: Address, error: Exception) -> None:
        """Build anew whomever the supervision tree says, in its order; the actor that crashed is one of them.

        Who cannot be built has crashed once more: the tree is asked again, and what was left to do is done after that.
        """
        waiting = self._restarted(address, error)
        while waiting:
            address = next(iter(waiting))
            if (because := waiting.pop(address)) is not None:
                self._observe(ActorRestarted(self.now, address, because))
            if (failure := self._rebuild(address)) is not None:
                more = self._restarted(address, failure)
                waiting = more | {other: said for other, said in waiting.items() if other not in more}

    def _restarted(self, crashed: Address, error: Exception) -> dict[Address, str | None]:
        """Whom to build anew, and because of whom if it is not for a crash of their own."""
        # Until it is built anew nobody is there: what it did before it crashed must not be built upon.
        self._drop(crashed)
        because = f"{crashed} crashed: {in_words(error)}"
        restarted = self._supervision.crashed(crashed, error, self.now, self._cores)
        return {address: None if address == crashed else because for address in restarted}

    def _rebuild(self, address: Address) -> Exception | None:
        """Build an actor anew; what went wrong if it cannot be."""
        self._drop(address)
        try:
            built = self._built(address)
        except Exception as error:
            self._observe(ActorRestarted(self.now, address, in_words(error)))
            return error
        if built is not None:
            core, effects = built
            self._begin(address, core, effects)
            if core.passive:
                self._rest(address)
        return None

    def _undeliver(self, envelope: Envelope, error: str) -> None:
        self.undelivered.append(envelope)
        self.undelivered_count += 1
        sender, receiver, message = envelope
        self._observe(Undelivered(self.now, sender, receiver, type(message).__name__))
        # A sender that does not exist, or that crashed on being told, is not told again: that could go on for ever.
        if sender != HOST and type(message) is not Failed:
            self.post(HOST, sender, Failed(receiver, message, error))

    # Actors come and go

    def _activated(self, envelope: Envelope) -> Core | None:
        """The actor that this message starts; without one, or if it cannot be started, the message is undelivered."""
        address = envelope[1]
        try:
            built = self._built(address)
        except Exception as error:
            # Nothing is there to be rebuilt: the next message tries again.
            self._undeliver(envelope, in_words(error))
            self._supervision.crashed(address, error, self.now)
            return None
        if built is None:
            self._undeliver(envelope, nobody_at(address))
            return None
        core, effects = built
        self._begin(address, core, effects)
        return core

    def _built(self, address: Address) -> tuple[Core, Effects] | None:
        """A new core for this address and what it has to say, unless nobody can be there."""
        if (build := self._builders.get(address)) is not None:
            core = build()
        else:
            role, _, name = address.partition("/")
            build_named = self._on_demand.get(role)
            if not name or build_named is None:
                return None
            core = build_named(name)
        return core, core.start(self.now)

    def _drop(self, address: Address) -> None:
        self._cores.pop(address, None)
        self._passive.pop(address, None)
        self._set_timer(address, NEVER)

    def _begin(self, address: Address, core: Core, effects: Effects) -> None:
        self._cores[address] = core
        self._apply(address, effects)

    def _rest(self, address: Address) -> None:
        """Keep the actor for its next message, but not more than `passive_max` of its like, oldest dropped first."""
        if address in self._builders:
            return
        self._passive[address] = None
        self._passive.move_to_end(address)
        if len(self._passive) > self._limits.passive_max:
            oldest, _ = self._passive.popitem(last=False)
            if self._cores[oldest].passive:
                del self._cores[oldest]

    # Timers

    def _set_timer(self, address: Address, at: float) -> None:
        if self._gate is not None and at != NEVER:
            at = self._gate.timer(address, at, self.now)
        if at == NEVER:
            self._timers.pop(address, None)
            self._due.discard(address)
        elif self._timers.get(address) != at:
            self._timers[address] = at
            if at <= self.now:
                self._due.add(address)
            else:
                self._due.discard(address)
                self._push_timer(at, address, address)

    def _push_timer(self, at: float, address: Address, target: Address | Envelope) -> None:
        """Ties are broken by address, so that a restart, which sets its timers anew, changes no order."""
        self._timer_count += 1
        heappush(self._timer_heap, (at, address, self._timer_count, target))
        if len(self._timer_heap) > self._timer_heap_max:
            self._drop_replaced_timers()

    def _drop_replaced_timers(self) -> None:
        """Keep an entry for each timer that stands and each message that is delayed: the one that is first in the heap.

        Called when the heap has doubled, so it costs O(log n) a push, and there are never many more entries than timers.
        """
        standing: dict[Address | int, tuple[float, Address, int, Address | Envelope]] = {}
        for entry in sorted(self._timer_heap):
            at, _, number, target = entry
            if not isinstance(target, str):
                standing[number] = entry
            elif self._timers.get(target) == at:
                standing.setdefault(target, entry)
        self._timer_heap[:] = standing.values()
        self._timer_heap_max = max(_TIMER_HEAP_MIN, 2 * len(standing))


def in_words(error: BaseException) -> str:
    """An error as one line: what it is and what it says.

    >>> in_words(ValueError("boom"))
    'ValueError: boom'
    """
    return f"{type(error).__name__}: {error}"
