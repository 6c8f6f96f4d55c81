"""The mailbox of an actor of people's own: letters in order, a bound, and a rule for what finds it full.

A letter that waits for room is handed over by whoever makes room, so that senders come in in the order in which they
began to wait, and a letter is either in the mailbox or with its sender, never both and never neither.

Signals are what Evenhand itself has to say to an actor: that another is gone, or that a message came back. They are taken in
turn like any letter, and have room of their own: a mailbox that is full of letters still hears of them.
"""

from collections import OrderedDict, deque
from typing import Any

import attrs
import trio

from actors.messages import Address
from actors.validators import one_of, or_none, whole

__all__ = ["OVERFLOWS", "Letter", "Mailbox", "MailboxOptions", "Reply"]

OVERFLOWS = ("wait", "reject", "drop_oldest", "drop_newest")
"""What becomes of a message to a full mailbox: its sender waits, or is refused, or the oldest or this one is dropped."""


class Reply:
    """What somebody who asked waits for: an answer, or what went wrong. The first word counts."""

    __slots__ = ("error", "given", "result")

    def __init__(self) -> None:
        self.given = trio.Event()
        self.result: Any = None
        self.error: str | None = None

    def give(self, result: Any, error: str | None = None) -> None:
        """Answer, whether or not anybody still waits."""
        if not self.given.is_set():
            self.result, self.error = result, error
            self.given.set()


@attrs.define(eq=False)
class Letter:
    """A message under way to an actor."""

    message: Any
    sender: Address
    reply: Reply | None = None
    """Where its answer goes, if somebody waits for one."""
    signal: bool = False
    """Whether it is Evenhand's own word."""


@attrs.frozen(kw_only=True)
class MailboxOptions:
    """How much a mailbox holds.

    >>> MailboxOptions(mailbox_max=10).overflow
    'wait'
    """

    mailbox_max: int | None = attrs.field(default=1_000, validator=or_none(whole(1)))
    """Messages that wait to be handled; None: any number."""
    overflow: str = attrs.field(default="wait", validator=one_of(OVERFLOWS))
    """What becomes of one more."""


class Mailbox:
    """What waits for one actor."""

    def __init__(self, options: MailboxOptions) -> None:
        self.options = options
        self._letters: deque[Letter] = deque()
        self._signals = 0
        self._waiting: OrderedDict[Letter, trio.Event] = OrderedDict()
        """Letters that wait for room, with what wakes their senders."""
        self._closing = False
        self._taker = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        return len(self._letters)

    @property
    def full(self) -> bool:
        """Whether it holds as many letters as it may; signals are not counted."""
        return _reached(len(self._letters) - self._signals, self.options.mailbox_max)

    @property
    def full_of_signals(self) -> bool:
        """Whether it holds as many signals as it may letters."""
        return _reached(self._signals, self.options.mailbox_max)

    # Putting in

    def put(self, letter: Letter) -> None:
        """Put a letter in, room or not."""
        self._letters.append(letter)
        self._signals += letter.signal
        self._taker.unpark()

    def drop_oldest(self) -> Letter:
        """Take the oldest letter out of a full mailbox, to be dropped."""
        oldest = next(letter for letter in self._letters if not letter.signal)
        self._letters.remove(oldest)
        return oldest

    async def put_when_room(self, letter: Letter) -> bool:
        """Wait for room in a full mailbox; False if it was closed before there was any. If cancelled, it is not in."""
        woken = self._waiting[letter] = trio.Event()
        try:
            await woken.wait()
        finally:
            closed = self._waiting.pop(letter, None) is not None
        return not closed

    # Taking out

    async def take(self) -> Letter | None:
        """The next letter, or None once no more are to be taken. If cancelled, nothing was taken."""
        await trio.lowlevel.cancel_shielded_checkpoint()
        while not (self._letters or self._closing):
            await self._taker.park()
        # Also where a letter came first and the cancel only then.
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._closing:
            return None
        letter = self._letters.popleft()
        self._signals -= letter.signal
        if self._waiting and not letter.signal:
            waited, woken = self._waiting.popitem(last=False)
            self.put(waited)
            woken.set()
        return letter

    def close_soon(self) -> None:
        """Let no more letters be taken."""
        self._closing = True
        self._taker.unpark()

    @property
    def closing(self) -> bool:
        """Whether no more letters are taken."""
        return self._closing

    def close(self) -> list[Letter]:
        """Nobody takes anything any more: the letters that are left. Whoever waits for room is told by `put_when_room`."""
        self._closing = True
        left = list(self._letters)
        self._letters.clear()
        self._signals = 0
        for woken in self._waiting.values():
            woken.set()
        return left


def _reached(count: int, maximum: int | None) -> bool:
    return maximum is not None and count >= maximum
