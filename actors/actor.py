"""What an actor is: a pure core that a host runs.

A core is a synchronous state machine. It is handed a message, the time and a source of randomness, and gives back
everything it wants done as `Effects`. It imports no trio, reads no clock, draws no random number of its own, does no
I/O, and never writes the table. So it is tested without an event loop, and the simulator runs what production runs.

The contract between a core and its host:
- the host applies `records`, then passes on `events`, then posts `sends`, and only after the handler succeeded;
- `held` sends go out once the records beside them are safe (at once, unless the host has a journal);
- `timer` replaces the actor's one timer: a time, `NEVER`, or None to leave it alone;
- on an exception all outputs are dropped, the message is kept as undelivered, its sender is told `Failed`, and the core
  is built anew from the table. `start` then says whatever a newly built actor has to say.
"""

import math
from collections.abc import Callable
from hashlib import blake2b
from struct import Struct
from typing import Any, Protocol

import msgspec

from actors.messages import ANSWERS, Address, Failed
from actors.table import Notes, Record
from actors.trace import Event

__all__ = ["NEVER", "Core", "Draw", "Effects", "keyed_draw"]

NEVER = math.inf
"""As a timer: no wake-up wanted."""

_NUMBER = Struct("<Q")
_UNIT = 2.0**-53

Draw = Callable[[str, str, int], float]
"""`draw(stream, task_id, attempt)`: a number in [0, 1), always the same for the same arguments and seed."""


def keyed_draw(seed: int) -> Draw:
    """Random numbers that depend on what they are for and not on the order in which they are asked for.

    So two policies are compared on the same random numbers, and a replay draws what the first run drew.

    >>> draw = keyed_draw(7)
    >>> draw("service", "t1", 1) == draw("service", "t1", 1) != draw("service", "t1", 2)
    True
    """
    begin = blake2b(f"{seed}/".encode(), digest_size=8).copy

    def draw(stream: str, task_id: str, attempt: int) -> float:
        keyed = begin()
        keyed.update(f"{stream}/{task_id}/{attempt}".encode())
        (number,) = _NUMBER.unpack(keyed.digest())
        # 53 bits are what a float holds; taking all 64 could round up to 1.0.
        return float((number >> 11) * _UNIT)

    return draw


class Effects(msgspec.Struct, gc=False):
    """Everything that one message made a core want done.

    >>> effects = Effects()
    >>> effects.send("queue", "hello")
    >>> effects.sends
    [('queue', 'hello')]
    """

    sends: list[tuple[Address, Any]] = []
    """Messages to post now."""
    held: list[tuple[Address, Any]] = []
    """Messages to post once the records are safe."""
    records: list[Record] = []
    """What the table must hold from now on."""
    events: list[Event] = []
    """What happened."""
    timer: float | None = None
    """When to be woken: a time, NEVER, or None to leave the timer as it is."""

    def send(self, receiver: Address, message: Any) -> None:
        """Post this now."""
        self.sends.append((receiver, message))

    def hold(self, receiver: Address, message: Any) -> None:
        """Post this once the records are safe."""
        self.held.append((receiver, message))

    def tell_again(self, failed: Failed) -> None:
        """Repeat an answer that whoever waits for it crashed on; where nobody is, nobody wants to know."""
        if isinstance(failed.message, ANSWERS) and not failed.absent:
            self.sends.append((failed.receiver, failed.message))

    def keep(self, notes: Notes) -> "Effects":
        """Take over what was written into the notes; hand back these effects."""
        if notes.written:
            self.records.append(notes.hand_over())
        return self


class Core(Protocol):
    """A synchronous state machine, and nothing else."""

    def start(self, now: float) -> Effects:
        """What a core that was just built or rebuilt has to say."""

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        """Everything that this message leads to. An unknown message raises TypeError."""

    @property
    def passive(self) -> bool:
        """Whether the core could be dropped now and built again from the table at its next message."""
