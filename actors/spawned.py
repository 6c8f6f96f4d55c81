"""Actors of people's own, beside the queue: `spawn`, `tell`, `ask`, `watch`.

An actor is whatever `build` gives: an object with `async def receive(self, message, context)`, or an async function of that
kind. It has a mailbox of its own and handles one message at a time, in a trio task of its own; what `receive` returns is the
answer to whoever asked. If it raises, the message is kept as undelivered, its sender told, and the actor built anew, with
others if its group says so; its mailbox stays. Groups are those of `supervision.py`; when a group crashes more often than it
bears and nobody above it does, the runtime ends and says why.

A sender is told by an exception while it still has the message in its hands, which is until `tell` has returned. After that
whoever asked has `AskFailed`, and an actor that told, and said so with `sender`, is sent `Failed`.
"""

import math
from collections.abc import Callable
from typing import Any

import attrs
import trio

from actors.behaviour import Receive, builder
from actors.context import CURRENT_WORKER
from actors.errors import ActorGone, AskFailed, EvenhandError, InvalidConfig, MailboxFull, RuntimeStopped
from actors.host import in_words
from actors.mailbox import Letter, Mailbox, MailboxOptions, Reply
from actors.messages import Address, Failed
from actors.reports import within
from actors.supervision import Group, Supervision
from actors.trace import ActorRestarted, Event, Undelivered

__all__ = ["ActorContext", "ActorRef", "Company", "Terminated"]

ROLE = "actor"
OUTSIDE: Address = "outside"
GONE_MAX = 1_000
"""Actors that are gone, of which it is remembered why."""


@attrs.frozen
class Terminated:
    """An actor that was watched is gone for good."""

    ref: "ActorRef"
    error: str | None
    """What ended it, or None if it was stopped."""


class ActorRef:
    """Where an actor is reached. Refs are equal if they mean the same actor."""

    __slots__ = ("_company", "address")

    def __init__(self, company: "Company", address: Address) -> None:
        self._company = company
        self.address = address

    def __repr__(self) -> str:
        return f"<ActorRef {self.address}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorRef) and (other._company, other.address) == (self._company, self.address)

    def __hash__(self) -> int:
        return hash(self.address)

    async def tell(self, message: Any, *, sender: "ActorRef | None" = None) -> None:
        """Send a message. ActorGone if there is nobody; MailboxFull if the mailbox is full and rejects.

        If this is cancelled, the message was not sent. `sender` is an actor that hears of it with `Failed`, from
        `actors.messages`, if the message comes back.
        """
        await self._company.deliver(self.address, Letter(message, OUTSIDE if sender is None else sender.address))

    async def ask(self, message: Any, *, timeout_seconds: float = math.inf) -> Any:
        """Send a message and wait for the answer; AskFailed if the actor crashed on it, TooSlowError if it takes too long.

        A message that was sent is handled, even if nobody waits for the answer any more.

        For use from outside: an actor that asks another holds up its own mailbox, and two that ask each other never end.
        """
        if not (isinstance(timeout_seconds, (int, float)) and timeout_seconds >= 0):
            raise InvalidConfig(f"timeout_seconds must be a number >= 0, got {timeout_seconds!r}")
        reply = Reply()
        with trio.move_on_after(timeout_seconds) as patience:
            await self._company.deliver(self.address, Letter(message, OUTSIDE, reply))
            await reply.given.wait()
        if patience.cancelled_caught:
            raise trio.TooSlowError(f"{self.address} did not answer within {timeout_seconds:g} s")
        if reply.error is not None:
            raise AskFailed(f"{self.address} could not answer: {reply.error}")
        return reply.result

    async def watch(self) -> Terminated:
        """Wait until the actor is gone for good; at once if it is."""
        return await self._company.wait_gone(self.address)

    async def stop(self) -> None:
        """Let the actor end the message it is at and go; what is left in its mailbox is undelivered.

        This waits until it is gone, unless the actor stops itself: then it goes after the message it is at.
        """
        await self._company.stop(self.address)


@attrs.frozen
class ActorContext:
    """What an actor may know and do besides handling its message."""

    ref: ActorRef
    """The actor itself."""
    sender: Address
    """Who sent the message, or `outside`."""
    _company: "Company"

    async def spawn(self, build: Callable[..., Any], *arguments: Any, **options: Any) -> ActorRef:
        """Another actor, as `Runtime.spawn` makes it."""
        return await self._company.spawn(build, *arguments, **options)

    def watch(self, other: ActorRef) -> None:
        """Have `Terminated` put into this actor's mailbox when the other is gone for good: once, however often watched."""
        other._company.watch(other.address, self._company.actor_at(self.ref.address))


class Actor:
    """One actor: its mailbox, how it is built, and who wants to know when it is gone. For `Company` alone."""

    def __init__(self, address: Address, build: Callable[[], Receive], options: MailboxOptions) -> None:
        self.address = address
        self.build = build
        self.mailbox = Mailbox(options)
        self.task: trio.lowlevel.Task | None = None
        self.scope = trio.CancelScope()
        """What it does between two times of being built."""
        self.current: Letter | None = None
        """What it is handling."""
        self.because: str | None = None
        """What another did for which it is to be built anew."""
        self.built = trio.Event()
        self.built_after: trio.Event | None = None
        """What must be built before it."""
        self.watchers: dict[Actor, None] = {}
        self.watching: dict[Actor, None] = {}
        self.gone = trio.Event()
        self.error: str | None = None
        """What ended it."""

    def restart(self, because: str) -> None:
        """Leave everything as it is, and be built anew."""
        self.because = because
        self.scope.cancel()


class Company:
    """All actors of people's own, and who watches over them."""

    def __init__(
        self,
        now: Callable[[], float],
        observe: Callable[[Event], None],
        undelivered: Callable[[Address, Address, Any], None],
    ) -> None:
        self._now = now
        self._observe = observe
        self._undelivered = undelivered
        self._actors: dict[Address, Actor] = {}
        self._gone: dict[Address, str | None] = {}
        self._supervision = Supervision(Group("actors", (), each=True))
        self._nursery: trio.Nursery | None = None
        self._count = 0

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled; raises ActorFailed if a group crashed more often than anybody bears."""
        try:
            async with trio.open_nursery() as self._nursery:
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None

    # What people do

    def supervise(self, group: Group) -> None:
        """Have a group watch over the actors that are spawned into it."""
        self._supervision.add(group)

    async def spawn(
        self, build: Callable[..., Any], *arguments: Any, name: str | None = None, **options: Any
    ) -> ActorRef:
        """Start an actor, with `MailboxOptions`; when this returns it can be told things."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._nursery is None or self._nursery.cancel_scope.cancel_called:
            raise RuntimeStopped("the runtime has stopped, or stops: actors can be spawned only while it runs")
        actor = Actor(self._address(name), builder(build, arguments), MailboxOptions(**options))
        # What goes wrong the first time is for whoever spawns it to know, and no crash.
        receive = actor.build()
        actor.built.set()
        self._actors[actor.address] = actor
        self._gone.pop(actor.address, None)
        self._nursery.start_soon(self._live, actor, receive, name=actor.address)
        await trio.lowlevel.cancel_shielded_checkpoint()
        return ActorRef(self, actor.address)

    def find(self, name: str) -> ActorRef:
        """The actor of a name; ActorGone if there is none."""
        return ActorRef(self, self.actor_at(f"{ROLE}/{name}").address)

    async def deliver(self, address: Address, letter: Letter) -> None:
        """Put a letter into an actor's mailbox, by the rules of that mailbox."""
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            actor = self.actor_at(address)
            by_itself = actor.task is trio.lowlevel.current_task()
            if by_itself and letter.reply is not None:
                raise AskFailed(f"{address} could not answer: it asks itself")
            if not actor.mailbox.full:
                actor.mailbox.put(letter)
            elif actor.mailbox.options.overflow == "wait" and not by_itself:
                if not await actor.mailbox.put_when_room(letter):
                    raise ActorGone(f"no actor is at {address}")
            else:
                self._overflow(actor, letter)
        except EvenhandError:
            self._record(address, letter)
            raise
        await trio.lowlevel.cancel_shielded_checkpoint()

    def tell(self, address: Address, message: Any) -> None:
        """The same for whoever cannot wait: MailboxFull where the letter would have to."""
        letter = Letter(message, OUTSIDE)
        try:
            actor = self.actor_at(address)
            if actor.mailbox.full:
                self._overflow(actor, letter)
            else:
                actor.mailbox.put(letter)
        except EvenhandError:
            self._record(address, letter)
            raise

    def watch(self, watched: Address, watcher: Actor) -> None:
        """Have an actor told when another is gone for good."""
        if (actor := self._actors.get(watched)) is not None:
            actor.watchers[watcher] = None
            watcher.watching[actor] = None
        else:
            self._tell_gone(watcher, watched, self._gone.get(watched))

    async def wait_gone(self, address: Address) -> Terminated:
        """Wait until an actor is gone for good."""
        actor = self._actors.get(address)
        if actor is None:
            await trio.lowlevel.checkpoint()
            return Terminated(ActorRef(self, address), self._gone.get(address))
        await actor.gone.wait()
        return Terminated(ActorRef(self, address), actor.error)

    async def stop(self, address: Address) -> None:
        """Let an actor go when it has ended the message it is at."""
        await trio.lowlevel.checkpoint()
        if (actor := self._actors.get(address)) is not None:
            actor.mailbox.close_soon()
            if actor.task is not trio.lowlevel.current_task():
                await actor.gone.wait()

    # An actor's life

    async def _live(self, actor: Actor, receive: Receive) -> None:
        """Handle letters and be built anew, again and again."""
        CURRENT_WORKER.set(None)
        actor.task = trio.lowlevel.current_task()
        try:
            while not (await self._handle_letters(actor, receive) or actor.mailbox.closing):
                receive = await self._rebuilt(actor)
        except Exception as error:
            actor.error = in_words(error)
            raise
        finally:
            self._leave(actor)

    async def _handle_letters(self, actor: Actor, receive: Receive) -> bool:
        """Handle letters until the actor is to stop, which is True, or to be built anew."""
        ref = ActorRef(self, actor.address)
        try:
            with actor.scope:
                while (letter := await actor.mailbox.take()) is not None:
                    actor.current = letter
                    result = await receive(letter.message, ActorContext(ref, letter.sender, self))
                    actor.current = None
                    if letter.reply is not None:
                        letter.reply.give(result)
                return True
        except BaseException as error:
            if not _is_its_own(error):
                raise
            if actor.because is None:
                self._crashed(actor, error)
            else:
                # It had to leave everything as it was, and this came of that.
                actor.because += f"; then {in_words(error)}"
        return False

    async def _rebuilt(self, actor: Actor) -> Receive:
        """Build an actor anew, after those on whom it depends."""
        while True:
            await trio.lowlevel.checkpoint()
            if actor.built_after is not None:
                await actor.built_after.wait()
            if actor.because is not None:
                self._observe(ActorRestarted(self._now(), actor.address, actor.because))
            actor.because = None
            actor.scope = trio.CancelScope()
            try:
                receive = actor.build()
            except (Exception, SystemExit) as error:
                self._crashed(actor, error)
            else:
                actor.built.set()
                return receive

    def _crashed(self, actor: Actor, error: BaseException) -> None:
        """Have built anew whomever the groups say, each after the one before it. The actor itself is about to be."""
        said = in_words(error)
        self._observe(ActorRestarted(self._now(), actor.address, said))
        self._drop_current(actor, said)
        before: trio.Event | None = None
        for address in self._supervision.crashed(actor.address, _as_crash(error), self._now(), self._actors):
            other = self._actors[address]
            if other is not actor:
                other.restart(f"{actor.address} crashed: {said}")
                self._drop_current(other, f"{actor.address} crashed: {said}")
            if other.built.is_set():
                other.built = trio.Event()
            other.built_after, before = before, other.built

    def _drop_current(self, actor: Actor, said: str) -> None:
        if actor.current is not None:
            self._return(actor.address, actor.current, said)
            actor.current = None

    def _leave(self, actor: Actor) -> None:
        """The actor is gone for good: its mailbox is undelivered, and whoever watched is told."""
        del self._actors[actor.address]
        self._supervision.forget(actor.address)
        self._gone[actor.address] = actor.error
        if len(self._gone) > GONE_MAX:
            del self._gone[next(iter(self._gone))]
        self._drop_current(actor, actor.error or f"{actor.address} was stopped")
        for letter in actor.mailbox.close():
            self._return(actor.address, letter, f"{actor.address} is gone")
        actor.built.set()
        actor.gone.set()
        for watched in actor.watching:
            del watched.watchers[actor]
        for watcher in actor.watchers:
            del watcher.watching[actor]
            self._tell_gone(watcher, actor.address, actor.error)

    # Shared by the above

    def actor_at(self, address: Address) -> Actor:
        """The actor that is at an address; ActorGone if there is none."""
        actor = self._actors.get(address)
        if actor is None:
            raise ActorGone(f"no actor is at {address}")
        return actor

    def _tell_gone(self, watcher: Actor, gone: Address, error: str | None) -> None:
        watcher.mailbox.put(Letter(Terminated(ActorRef(self, gone), error), gone, signal=True))

    def _overflow(self, actor: Actor, letter: Letter) -> None:
        options = actor.mailbox.options
        held = f"the mailbox of {actor.address} holds {options.mailbox_max} messages"
        if options.overflow == "drop_newest":
            self._return(actor.address, letter, held)
        elif options.overflow == "drop_oldest":
            self._return(actor.address, actor.mailbox.drop_oldest(), held)
            actor.mailbox.put(letter)
        else:
            raise MailboxFull(f"{held}, no room for {type(letter.message).__name__}")

    def _return(self, address: Address, letter: Letter, said: str) -> None:
        """Nobody handles this: it is kept as undelivered, and its sender told."""
        self._record(address, letter)
        sender = self._actors.get(letter.sender)
        if letter.reply is not None:
            letter.reply.give(None, said)
        elif sender is not None and not letter.signal:
            # Who cannot bear to be told is not told of that: it could go on for ever.
            back = Letter(Failed(address, letter.message, said), address, signal=True)
            if sender.mailbox.full_of_signals:
                self._record(sender.address, back)
            else:
                sender.mailbox.put(back)

    def _record(self, address: Address, letter: Letter) -> None:
        self._undelivered(letter.sender, address, letter.message)
        self._observe(Undelivered(self._now(), letter.sender, address, type(letter.message).__name__))

    def _address(self, name: str | None) -> Address:
        while name is None:
            self._count += 1
            if f"{ROLE}/{self._count}" not in self._actors:
                name = str(self._count)
        if not (isinstance(name, str) and name and name.isprintable()):
            raise InvalidConfig(f"name of an actor must be printable text, got {name!r}")
        address = f"{ROLE}/{name}"
        if address in self._actors:
            raise InvalidConfig(f"name of an actor must not repeat, got {name!r} again")
        return address


def _is_its_own(error: BaseException) -> bool:
    """Whether what an actor raised is a crash of that actor. Ctrl-C ends the program, and what trio cancels with is trio's."""
    return not any(isinstance(one, (KeyboardInterrupt, GeneratorExit, trio.Cancelled)) for one in within(error))


def _as_crash(error: BaseException) -> Exception:
    """An error as one of a group of crashes, which has no place for what would end a program."""
    if isinstance(error, Exception):
        return error
    crash = EvenhandError(in_words(error))
    crash.__cause__ = error
    return crash
