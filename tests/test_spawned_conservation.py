"""No message to an actor of people's own is lost or told twice, whoever crashes and whoever is restarted for whom."""

from collections import Counter
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from actors import ActorContext, ActorRef, AskFailed, Runtime, open_runtime
from actors.mailbox import Letter, Mailbox
from actors.messages import Failed
from actors.spawned import Company
from actors.supervision import STRATEGIES
from tests.company import run_on_virtual_time
from tests.test_sharing import finds

NAMES = ("a", "b", "c")

SENDS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["tell", "ask"]), st.sampled_from(["ok", "slow", "boom"])),
    min_size=1,
    max_size=20,
)
PROGRAMS: dict[str, Any] = {
    "strategy": st.sampled_from(STRATEGIES),
    "sends": SENDS,
    "mailbox_max": st.integers(1, 3),
    "pauses": st.lists(st.booleans(), min_size=20, max_size=20),
}


class Flood:
    """Sends all of it at once or with pauses, and keeps for each message how often it was handled and came back."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.handled: Counter[int] = Counter()
        self.answered: Counter[int] = Counter()
        self.active: Counter[str] = Counter()
        self.back: Counter[int] = Counter()

    async def receive(self, message: Any, context: ActorContext) -> None:
        number, what = message
        name = context.ref.address
        self.active[name] += 1
        assert self.active[name] == 1, "one message at a time"
        try:
            await trio.sleep(1 if what == "slow" else 0)
            if what == "boom":
                raise ValueError("boom")
            self.handled[number] += 1
        finally:
            self.active[name] -= 1

    async def hear(self, message: Any, context: ActorContext) -> None:
        assert isinstance(message, Failed)
        self.back[message.message[0]] += 1

    async def send(self, ref: ActorRef, teller: ActorRef, how: str, number: int, what: str) -> None:
        if how == "tell":
            await ref.tell((number, what), sender=teller)
            return
        try:
            await ref.ask((number, what))
        except AskFailed:
            self.back[number] += 1
        self.answered[number] += 1


@given(**PROGRAMS)
def test_every_message_is_handled_once_or_comes_back_once_whoever_is_restarted_for_whom(
    strategy: str, sends: list[tuple[str, str, str]], mailbox_max: int, pauses: list[bool]
) -> None:
    async def main() -> None:
        async with open_runtime(workers=1) as runtime:
            runtime.supervise("flood", NAMES, strategy=strategy, restarts_max=1_000)
            flood = Flood(runtime)
            refs = {
                name: await runtime.spawn(lambda: flood.receive, name=name, mailbox_max=mailbox_max) for name in NAMES
            }
            teller = await runtime.spawn(lambda: flood.hear, mailbox_max=None)
            with trio.move_on_after(100) as scope:
                async with trio.open_nursery() as nursery:
                    for number, (name, how, what) in enumerate(sends):
                        nursery.start_soon(flood.send, refs[name], teller, how, number, what)
                        await trio.sleep(0.3 * pauses[number])
            assert not scope.cancelled_caught, "everybody has an answer"
            await trio.sleep(100)
            undelivered = Counter(message[0] for _, _, message in runtime.undelivered())
            for number, (_, how, what) in enumerate(sends):
                assert flood.handled[number] + undelivered[number] == 1
                assert flood.back[number] == undelivered[number], "whoever sent it was told"
                assert flood.handled[number] <= (what != "boom")
                assert flood.answered[number] == (how == "ask")

    run_on_virtual_time(main)


async def taken_though_cancelled(self: Mailbox) -> Letter | None:
    while not (self._letters or self.closing):
        await self._taker.park()
    return None if self.closing else self._letters.popleft()


PLANTED: dict[str, tuple[Any, str, Any]] = {
    "an actor that is to be restarted takes one more letter": (Mailbox, "take", taken_though_cancelled),
    "what is in progress is forgotten": (Company, "_drop_current", lambda self, actor, said: None),
    "senders are not told": (Company, "_return", lambda self, address, letter, said: self._record(address, letter)),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_messages_that_are_lost_in_a_restart_are_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*PLANTED[bug])
    programs = PROGRAMS | {"strategy": st.just("one_for_all"), "mailbox_max": st.just(100)}
    finds(test_every_message_is_handled_once_or_comes_back_once_whoever_is_restarted_for_whom, **programs)
