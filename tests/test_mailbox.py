"""A mailbox against a plain model, and what becomes of messages that find it full or come back, as people see it."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from actors import ActorRef, AskFailed, MailboxFull, Runtime, open_runtime
from actors.mailbox import Letter, Mailbox, MailboxOptions
from actors.trace import Undelivered
from tests.company import Desk, engine_of, run_on_virtual_time
from tests.test_sharing import finds

# The mailbox alone


@attrs.define(eq=False)
class Waiter:
    """A sender that waits for room."""

    letter: Letter
    scope: trio.CancelScope = attrs.Factory(trio.CancelScope)
    outcome: str = "waits"

    async def run(self, mailbox: Mailbox) -> None:
        with self.scope:
            self.outcome = "in" if await mailbox.put_when_room(self.letter) else "closed"
        if self.scope.cancelled_caught:
            self.outcome = "cancelled"


class Play:
    """A mailbox of two beside two plain queues: what is in it, and who waits to get in."""

    def __init__(self) -> None:
        self.mailbox = Mailbox(MailboxOptions(mailbox_max=2))
        self.inside: deque[Letter] = deque()
        self.outside: deque[Waiter] = deque()
        self.waiters: list[Waiter] = []
        self.count = 0

    def letter(self, signal: bool = False) -> Letter:
        self.count += 1
        return Letter(self.count, "outside", signal=signal)

    def letters(self) -> int:
        return sum(not letter.signal for letter in self.inside)

    async def step(self, action: str, which: int, nursery: trio.Nursery) -> None:
        match action:
            case "send" if self.letters() < 2:
                self.inside.append(self.letter())
                self.mailbox.put(self.inside[-1])
            case "send":
                waiter = Waiter(self.letter())
                self.outside.append(waiter)
                self.waiters.append(waiter)
                nursery.start_soon(waiter.run, self.mailbox)
            case "signal":
                self.inside.append(self.letter(signal=True))
                self.mailbox.put(self.inside[-1])
            case "take" if self.inside:
                taken = self.inside.popleft()
                assert await self.mailbox.take() is taken
                if not taken.signal and self.outside:
                    self.inside.append(self.outside.popleft().letter)
            case "drop" if self.letters() == 2 and not self.outside:
                oldest = next(letter for letter in self.inside if not letter.signal)
                self.inside.remove(oldest)
                assert self.mailbox.drop_oldest() is oldest
            case "cancel" if self.outside:
                waiter = self.outside[which % len(self.outside)]
                self.outside.remove(waiter)
                waiter.scope.cancel()
        await wait_all_tasks_blocked()
        self.check()

    def check(self) -> None:
        assert len(self.mailbox) == len(self.inside)
        assert self.mailbox.full == (self.letters() >= 2)
        assert self.mailbox.full_of_signals == (len(self.inside) - self.letters() >= 2)
        for waiter in self.waiters:
            waits, cancelled = waiter in self.outside, waiter.scope.cancel_called
            assert waiter.outcome == ("cancelled" if cancelled else "waits" if waits else "in")


STEPS = st.lists(
    st.tuples(st.sampled_from(["send", "send", "send", "signal", "take", "take", "drop", "cancel"]), st.integers(0, 5)),
    max_size=30,
)


@given(program=STEPS)
def test_a_mailbox_is_what_two_plain_queues_say_whoever_waits_and_gives_up(program: list[tuple[str, int]]) -> None:
    async def main() -> None:
        play = Play()
        async with trio.open_nursery() as nursery:
            for action, which in program:
                await play.step(action, which, nursery)
            assert play.mailbox.close() == list(play.inside)
        for waiter in play.outside:
            assert waiter.outcome == "closed"
        assert await play.mailbox.take() is None

    run_on_virtual_time(main)


async def taken_for_the_last(self: Mailbox) -> Letter | None:
    if not self._letters:
        return None
    letter = self._letters.popleft()
    self._signals -= letter.signal
    if self._waiting and not letter.signal:
        waited, woken = self._waiting.popitem()
        self.put(waited)
        woken.set()
    return letter


PLANTED: dict[str, tuple[str, Any]] = {
    "the last who waits comes in first": ("take", taken_for_the_last),
    "signals take room from letters": ("full", property(lambda self: len(self) >= self.options.mailbox_max)),
    "signals are dropped": ("drop_oldest", lambda self: self._letters.popleft()),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_the_model_finds_a_planted_bug_in_the_mailbox(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mailbox, *PLANTED[bug])
    finds(test_a_mailbox_is_what_two_plain_queues_say_whoever_waits_and_gives_up, program=STEPS)


async def test_a_taker_that_is_cancelled_takes_nothing_even_if_a_letter_came_first() -> None:
    mailbox = Mailbox(MailboxOptions())
    letter = Letter("hello", "outside")
    taken: list[Letter | None] = []

    async def take() -> None:
        taken.append(await mailbox.take())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await wait_all_tasks_blocked()
        # The taker is woken by the letter, and cancelled before it has its turn.
        mailbox.put(letter)
        nursery.cancel_scope.cancel()
    assert taken == [] and len(mailbox) == 1
    assert await mailbox.take() is letter


# A full mailbox


@asynccontextmanager
async def full_desk(runtime: Runtime, overflow: str, **options: Any) -> AsyncIterator[tuple[ActorRef, Desk]]:
    """A desk that is at "wait", with "first" and "second" in a mailbox of two; at the end it handles all that is left."""
    desk = Desk()
    ref = await runtime.spawn(lambda: desk, name="desk", mailbox_max=2, overflow=overflow, **options)
    await ref.tell("wait")
    await wait_all_tasks_blocked()
    for message in ("first", "second"):
        await ref.tell(message)
    yield ref, desk
    desk.door.set()
    await wait_all_tasks_blocked()


def undelivered_events(runtime: Runtime) -> list[tuple[str, str, str]]:
    """What the events say of undelivered messages, from now on."""
    found: list[tuple[str, str, str]] = []

    def sink(event: Any) -> None:
        if isinstance(event, Undelivered):
            found.append((event.sender, event.receiver, event.message))

    engine_of(runtime).add_sink(sink)
    return found


async def test_senders_wait_for_room_and_come_in_in_the_order_in_which_they_began_to_wait() -> None:
    async with open_runtime(workers=1) as runtime, trio.open_nursery() as nursery:
        async with full_desk(runtime, "wait") as (ref, desk):
            for number in range(20):
                nursery.start_soon(ref.tell, number)
                await wait_all_tasks_blocked()
            assert desk.log == ["wait"]
            assert len(nursery.child_tasks) == 20, "all of them wait"
        assert desk.log == ["wait", "first", "second", *range(20)]
        assert runtime.undelivered() == []


async def test_a_mailbox_that_rejects_says_so_and_the_message_is_kept_as_undelivered() -> None:
    async with open_runtime(workers=1) as runtime:
        events = undelivered_events(runtime)
        async with full_desk(runtime, "reject") as (ref, desk):
            with pytest.raises(MailboxFull, match=r"^the mailbox of actor/desk holds 2 messages, no room for dict$"):
                await ref.tell({"third": 3})
            with pytest.raises(MailboxFull):
                await ref.ask("fourth")
        assert desk.log == ["wait", "first", "second"]
        assert runtime.undelivered() == [("outside", "actor/desk", {"third": 3}), ("outside", "actor/desk", "fourth")]
        assert events == [("outside", "actor/desk", "dict"), ("outside", "actor/desk", "str")]
        assert runtime.stats().lifetime.undelivered == 2


@pytest.mark.parametrize(
    ("overflow", "handled", "dropped"),
    [
        ("drop_oldest", ["wait", "third", "fourth"], ["first", "second"]),
        ("drop_newest", ["wait", "first", "second"], ["third", "fourth"]),
    ],
)
async def test_a_mailbox_that_drops_keeps_what_it_dropped_as_undelivered(
    overflow: str, handled: list[str], dropped: list[str]
) -> None:
    async with open_runtime(workers=1) as runtime:
        events = undelivered_events(runtime)
        async with full_desk(runtime, overflow) as (ref, desk):
            for message in ("third", "fourth"):
                await ref.tell(message)
        assert desk.log == handled
        assert runtime.undelivered() == [("outside", "actor/desk", message) for message in dropped]
        assert events == [("outside", "actor/desk", "str")] * 2
        assert runtime.stats().lifetime.undelivered == 2


async def test_a_mailbox_without_a_bound_takes_any_number() -> None:
    async with open_runtime(workers=1) as runtime:
        desk = Desk()
        ref = await runtime.spawn(lambda: desk, mailbox_max=None, overflow="reject")
        await ref.tell("wait")
        for number in range(2_000):
            await ref.tell(number)
        desk.door.set()
        assert await ref.ask("last") == (2_002, "last")


async def test_whoever_asked_is_told_that_the_question_was_dropped() -> None:
    said: list[str] = []
    async with open_runtime(workers=1) as runtime, trio.open_nursery() as nursery:

        async def ask(message: str) -> None:
            with pytest.raises(AskFailed) as raised:
                await ref.ask(message)
            said.append(str(raised.value))

        desk = Desk()
        ref = await runtime.spawn(lambda: desk, name="desk", mailbox_max=1, overflow="drop_oldest")
        await ref.tell("wait")
        await wait_all_tasks_blocked()
        nursery.start_soon(ask, "first")
        await wait_all_tasks_blocked()
        await ref.tell("second")
        await wait_all_tasks_blocked()
        assert said == ["actor/desk could not answer: the mailbox of actor/desk holds 1 messages"]
        desk.door.set()
