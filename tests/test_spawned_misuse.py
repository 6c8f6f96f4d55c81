"""Actors of people's own and what goes wrong around them: what would end a program, who is told by address, misuse."""

from typing import Any

import pytest
import trio

from actors import ActorContext, ActorGone, InvalidConfig, InvalidTask, MailboxFull, RuntimeStopped, open_runtime
from actors.errors import AskFailed
from tests.company import Desk


async def leaves(message: Any, context: ActorContext) -> Any:
    if message == "exit":
        raise SystemExit(3)
    if message == "group":
        async with trio.open_nursery():
            raise SystemExit(4)
    return message


@pytest.mark.parametrize(("message", "said"), [("exit", "SystemExit: 3"), ("group", "SystemExit")])
async def test_an_actor_that_would_end_the_program_crashes_and_is_built_anew(message: str, said: str) -> None:
    async with open_runtime(workers=1) as runtime:
        ref = await runtime.spawn(leaves)
        with pytest.raises(AskFailed):
            await ref.ask(message)
        assert await ref.ask("still there") == "still there"


async def test_an_actor_that_always_would_ends_the_runtime_with_a_name(autojump_clock: trio.abc.Clock) -> None:
    with pytest.raises(ExceptionGroup, match=r"actor/leaver crashed 4 times in 5 s") as failed:
        async with open_runtime(workers=1) as runtime:
            ref = await runtime.spawn(leaves, name="leaver")
            for _ in range(4):
                await ref.tell("exit")
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True), pytest.raises(RuntimeStopped):
                    await runtime.spawn(leaves)
    assert isinstance(failed.value.exceptions[0].__cause__, SystemExit)


async def test_a_message_to_the_address_of_an_actor_reaches_it() -> None:
    async with open_runtime(workers=1) as runtime:
        got: list[Any] = []

        async def keeps(message: Any, context: ActorContext) -> Any:
            got.append((message, context.sender))

        ref = await runtime.spawn(keeps, name="keeper", mailbox_max=1)
        runtime.tell("actor/keeper", "hello")
        with pytest.raises(MailboxFull):
            runtime.tell(ref.address, "one too many")
        await ref.ask("more")
        assert got == [("hello", "outside"), ("more", "outside")]
        with pytest.raises(ActorGone, match="no actor is at actor/nobody"):
            runtime.tell("actor/nobody", "hello")
        assert [(receiver, message) for _, receiver, message in runtime.undelivered()] == [
            ("actor/keeper", "one too many"),
            ("actor/nobody", "hello"),
        ]


async def test_an_answer_that_takes_too_long_says_whose(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:
        ref = await runtime.spawn(Desk, name="desk")
        with pytest.raises(trio.TooSlowError, match=r"^actor/desk did not answer within 2 s$"):
            await ref.ask("wait", timeout_seconds=2)


class Plain:
    def receive(self, message: Any, context: ActorContext) -> None: ...


async def test_what_can_be_no_actor_and_no_group_is_refused() -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(InvalidConfig, match="an actor must be an async function or have an async receive"):
            await runtime.spawn(Plain)
        with pytest.raises(InvalidConfig, match="members of a group must be a list of names, got 'abc'"):
            runtime.supervise("group", "abc")


async def test_what_no_runtime_can_be_opened_with_is_refused() -> None:
    from actors.policies.sharing import Fifo

    for options, said in (
        ({"resources": 3}, "resources must be a table of names, got 3"),
        ({"config": 3}, "config must be the name of a file, got 3"),
        ({"sharing": Fifo}, "sharing policy must be an object, got the class Fifo: call it"),
    ):
        with pytest.raises(InvalidConfig, match=said):
            async with open_runtime(**options):
                pass


async def test_a_result_is_asked_for_by_its_handle_from_threads_too() -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(InvalidTask, match="handle must be a TaskHandle, got 'id'"):
            await trio.to_thread.run_sync(runtime.from_thread.result, "id")  # type: ignore[arg-type]
