"""Letters that come back: kept, counted, and their senders told; and senders that give up at any point."""

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import ActorContext, ActorGone, ActorRef, AskFailed, MailboxFull, Runtime, open_runtime
from actors.mailbox import Letter, Mailbox
from actors.messages import Failed
from tests.company import Desk, cancelled_at_step, engine_of, restarts, run_on_virtual_time


class Sender:
    """Tells another what it is told to, in its own name, and keeps what comes back."""

    def __init__(self) -> None:
        self.back: list[Failed] = []

    async def receive(self, message: Any, context: ActorContext) -> None:
        if isinstance(message, Failed):
            self.back.append(message)
        else:
            to, what = message
            await to.tell(what, sender=context.ref)


async def sender_and_desk(runtime: Runtime, **options: Any) -> tuple[ActorRef, Sender, ActorRef, Desk]:
    sender, desk = Sender(), Desk()
    desk_ref = await runtime.spawn(lambda: desk, name="desk", **options)
    return await runtime.spawn(lambda: sender, name="sender"), sender, desk_ref, desk


# Whoever told is told


async def test_an_actor_hears_of_a_message_of_its_own_that_its_receiver_crashed_on() -> None:
    async with open_runtime(workers=1) as runtime:
        ref, sender, desk_ref, _ = await sender_and_desk(runtime)
        await ref.tell((desk_ref, "boom"))
        await wait_all_tasks_blocked()
        assert sender.back == [Failed("actor/desk", "boom", "ValueError: boom")]
        assert runtime.undelivered() == [("actor/sender", "actor/desk", "boom")]
        assert runtime.stats().lifetime.undelivered == 1


@pytest.mark.parametrize(("overflow", "dropped"), [("drop_oldest", "first"), ("drop_newest", "second")])
async def test_an_actor_hears_of_a_message_of_its_own_that_was_dropped(overflow: str, dropped: str) -> None:
    async with open_runtime(workers=1) as runtime:
        ref, sender, desk_ref, desk = await sender_and_desk(runtime, mailbox_max=1, overflow=overflow)
        await desk_ref.tell("wait")
        await wait_all_tasks_blocked()
        for message in ("first", "second"):
            await ref.tell((desk_ref, message))
        await wait_all_tasks_blocked()
        assert sender.back == [Failed("actor/desk", dropped, "the mailbox of actor/desk holds 1 messages")]
        desk.door.set()


async def test_an_actor_hears_of_messages_of_its_own_that_were_left_when_their_receiver_was_stopped() -> None:
    async with open_runtime(workers=1) as runtime, trio.open_nursery() as nursery:
        ref, sender, desk_ref, desk = await sender_and_desk(runtime)
        for message in ("wait", "left"):
            await ref.tell((desk_ref, message))
        await wait_all_tasks_blocked()
        nursery.start_soon(desk_ref.stop)
        await wait_all_tasks_blocked()
        assert sender.back == []
        desk.door.set()
        await wait_all_tasks_blocked()
        assert sender.back == [Failed("actor/desk", "left", "actor/desk is gone")]


async def test_a_message_to_nobody_is_kept_and_its_sender_has_an_exception_and_is_not_told_twice() -> None:
    async with open_runtime(workers=1) as runtime:
        ref, sender, desk_ref, _ = await sender_and_desk(runtime)
        await desk_ref.stop()
        with pytest.raises(ActorGone, match=r"^no actor is at actor/desk$"):
            await desk_ref.tell("from outside")
        await ref.tell((desk_ref, "from an actor"))
        await wait_all_tasks_blocked()
        assert runtime.undelivered() == [
            ("outside", "actor/desk", "from outside"),
            ("actor/sender", "actor/desk", "from an actor"),
            # It did not bear the exception, and crashed on what it had been told to tell.
            ("outside", "actor/sender", (desk_ref, "from an actor")),
        ]
        assert sender.back == []


async def test_an_actor_that_tells_itself_into_its_own_full_mailbox_is_refused_instead_of_waiting_for_ever() -> None:
    said: list[str] = []

    async def tells_itself(message: int, context: ActorContext) -> None:
        try:
            for number in range(5):
                await context.ref.tell(number)
        except MailboxFull as error:
            said.append(str(error))
            await context.ref.stop()

    with trio.fail_after(30):
        async with open_runtime(workers=1) as runtime:
            ref = await runtime.spawn(tells_itself, name="it", mailbox_max=2)
            await ref.tell(0)
            await ref.watch()
    assert said == ["the mailbox of actor/it holds 2 messages, no room for int"]


async def test_an_actor_that_cannot_bear_to_be_told_is_not_told_of_that() -> None:
    async def cannot_bear_it(message: Any, context: ActorContext) -> None:
        if isinstance(message, Failed):
            raise RuntimeError("too much")
        await message.tell("boom", sender=context.ref)

    async with open_runtime(workers=1) as runtime:
        desk_ref = await runtime.spawn(Desk, name="desk")
        ref = await runtime.spawn(cannot_bear_it, name="it")
        await ref.tell(desk_ref)
        await wait_all_tasks_blocked()
        told = Failed("actor/desk", "boom", "ValueError: boom")
        assert runtime.undelivered() == [("actor/it", "actor/desk", "boom"), ("actor/desk", "actor/it", told)]
        assert restarts(runtime) == 2


async def test_what_comes_back_finds_room_in_a_full_mailbox_but_not_without_bound() -> None:
    async with open_runtime(workers=1) as runtime:
        busy, target = Desk(), Desk()
        busy_ref = await runtime.spawn(lambda: busy, name="busy", mailbox_max=2)
        target_ref = await runtime.spawn(lambda: target, name="target", mailbox_max=1, overflow="drop_newest")
        for ref in (busy_ref, target_ref):
            await ref.tell("wait")
        await wait_all_tasks_blocked()
        for message in ("one", "two"):
            await busy_ref.tell(message)
        await target_ref.tell("in")
        for number in range(5):
            await target_ref.tell(number, sender=busy_ref)
        assert len(engine_of(runtime).company.actor_at("actor/busy").mailbox) == 4, "two letters and two that came back"
        assert runtime.stats().lifetime.undelivered == 5 + 3
        busy.door.set()
        target.door.set()
        await busy_ref.ask("done?")
        back = [message.message for message in busy.log if isinstance(message, Failed)]
        assert back == [0, 1]


# Senders that give up


async def test_a_sender_that_gives_up_while_it_waits_for_room_has_sent_nothing() -> None:
    async with open_runtime(workers=1) as runtime:
        desk = Desk()
        ref = await runtime.spawn(lambda: desk, mailbox_max=1)
        await ref.tell("wait")
        await wait_all_tasks_blocked()
        await ref.tell("first")
        for send in (ref.tell, ref.ask):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(send, "given up")
                    await wait_all_tasks_blocked()
                    scope.cancel()
        desk.door.set()
        await ref.ask("last")
        assert desk.log == ["wait", "first", "last"]
        assert runtime.undelivered() == []


async def test_senders_that_wait_for_room_are_told_when_the_actor_goes_and_their_letters_are_kept() -> None:
    said: list[str] = []
    async with open_runtime(workers=1) as runtime, trio.open_nursery() as nursery:
        desk = Desk()
        ref = await runtime.spawn(lambda: desk, name="desk", mailbox_max=1)
        await ref.tell("wait")
        await wait_all_tasks_blocked()
        await ref.tell("left")

        async def send(send: Callable[[Any], Awaitable[Any]], message: str) -> None:
            with pytest.raises(ActorGone) as raised:
                await send(message)
            said.append(str(raised.value))

        nursery.start_soon(send, ref.tell, "told")
        await wait_all_tasks_blocked()
        nursery.start_soon(send, ref.ask, "asked")
        await wait_all_tasks_blocked()
        nursery.start_soon(ref.stop)
        await wait_all_tasks_blocked()
        desk.door.set()
        await ref.watch()
        # A successor of the same name is not who they meant.
        successor = Desk()
        await runtime.spawn(lambda: successor, name="desk")
        await wait_all_tasks_blocked()
        assert said == ["no actor is at actor/desk"] * 2
        assert sorted(message for _, _, message in runtime.undelivered()) == ["asked", "left", "told"]
        assert successor.log == []


class Exchange:
    """Tells and asks an actor with a small mailbox that is sometimes full, cancelled at some step; then counts letters."""

    def __init__(self, runtime: Runtime, overflow: str) -> None:
        self.runtime, self.overflow = runtime, overflow
        self.handled: Counter[int] = Counter()
        self.sent: list[int] = []
        """What `tell` or `ask` returned for."""
        self.begun: list[tuple[str, int]] = []

    async def slow(self, message: int, context: ActorContext) -> int:
        await trio.sleep(1)
        self.handled[message] += 1
        return message

    async def program(self) -> None:
        for number in range(4):
            self.begun.append(("tell", number))
            await self.ref.tell(number)
            self.sent.append(number)
        self.begun.append(("ask", 10))
        with suppress(AskFailed):
            assert await self.ref.ask(10) == 10
        self.sent.append(10)

    async def run(self, step: int, when: str) -> bool:
        self.ref = await self.runtime.spawn(self.slow, name="slow", mailbox_max=2, overflow=self.overflow)
        cancelled = await cancelled_at_step(step, when, self.program)
        await trio.sleep(100)
        return cancelled

    def check(self) -> None:
        mailbox = engine_of(self.runtime).company.actor_at("actor/slow").mailbox
        assert len(mailbox) == 0 and not mailbox._waiting
        returned = Counter(message for _, _, message in self.runtime.undelivered())
        for kind, number in self.begun:
            times = self.handled[number] + returned[number]
            if number in self.sent:
                assert times == 1, "what was sent is handled or undelivered, and once"
            elif kind == "tell":
                assert times == 0, "a tell that was cancelled did not happen"
            else:
                assert times <= 1
        assert sum(self.handled.values()) + sum(returned.values()) <= len(self.begun)


async def exchange_cancelled_at(step: int, when: str, overflow: str) -> bool:
    async with open_runtime(workers=1) as runtime:
        exchange = Exchange(runtime, overflow)
        cancelled = await exchange.run(step, when)
        exchange.check()
    return cancelled


@pytest.mark.parametrize("overflow", ["wait", "drop_oldest", "drop_newest"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_cancelling_a_sender_at_any_step_loses_no_letter_and_leaves_nobody_waiting(when: str, overflow: str) -> None:
    steps = 1
    while run_on_virtual_time(partial(exchange_cancelled_at, steps, when, overflow)):
        steps += 1
    assert steps > 5, "there was something to cancel"


async def waits_without_end(self: Mailbox, letter: Letter) -> bool:
    """A sender that gives up leaves its letter in the line."""
    woken = self._waiting[letter] = trio.Event()
    await woken.wait()
    return True


async def may_be_cancelled() -> None:
    """A sender can be cancelled after its letter went in."""
    await trio.lowlevel.checkpoint()


PLANTED: dict[str, tuple[str, tuple[Any, str, Any]]] = {
    "a letter stays in the line": ("after", (Mailbox, "put_when_room", waits_without_end)),
    "a tell is cancelled after it happened": (
        "before",
        (trio.lowlevel, "cancel_shielded_checkpoint", may_be_cancelled),
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_sender_that_can_be_cancelled_between_two_states_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    when, planted = PLANTED[bug]
    monkeypatch.setattr(*planted)
    with pytest.raises(AssertionError):
        test_cancelling_a_sender_at_any_step_loses_no_letter_and_leaves_nobody_waiting(when, "wait")


async def test_an_ask_that_is_cancelled_while_the_actor_is_at_it_does_not_disturb_the_actor() -> None:
    async with open_runtime(workers=1) as runtime:
        desk = Desk()
        ref = await runtime.spawn(lambda: desk)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.ask, "wait")
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        desk.door.set()
        assert await ref.ask("next") == (2, "next")
        assert restarts(runtime) == 0 and runtime.undelivered() == []


async def test_whoever_asks_when_the_runtime_ends_is_told() -> None:
    said: list[str] = []

    async def ask(ref: ActorRef) -> None:
        with pytest.raises(AskFailed) as raised:
            await ref.ask("wait")
        said.append(str(raised.value))

    async with trio.open_nursery() as nursery, open_runtime(workers=1) as runtime:
        ref = await runtime.spawn(Desk, name="desk")
        for _ in range(2):
            nursery.start_soon(ask, ref)
            await wait_all_tasks_blocked()
    assert sorted(said) == [
        "actor/desk could not answer: actor/desk is gone",
        "actor/desk could not answer: actor/desk was stopped",
    ]
    assert [message for _, _, message in runtime.undelivered()] == ["wait", "wait"]
