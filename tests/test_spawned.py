"""Actors of people's own: spawned, told, asked, watched and stopped."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import (
    ActorContext,
    ActorGone,
    ActorRef,
    AskFailed,
    Context,
    InvalidConfig,
    RuntimeStopped,
    Terminated,
    open_runtime,
)
from actors.spawned import Company
from actors.trace import ActorRestarted
from tests.company import Desk, doubles, engine_of, restarts


class Adds:
    def __init__(self, base: int = 0, more: int = 0) -> None:
        self.total = base + more

    async def receive(self, message: int, context: ActorContext) -> int:
        self.total += message
        return self.total


async def adds_to(base: int, message: int, context: ActorContext) -> int:
    return base + message


# Spawning


@pytest.mark.parametrize(
    ("build", "arguments", "answer"),
    [
        (doubles, (), 8),
        (Adds, (), 4),
        (Adds, (10, 1), 15),
        (lambda base: Adds(base), (7,), 11),
        (lambda: doubles, (), 8),
        (partial(adds_to, 3), (), 7),
        (lambda base: partial(adds_to, base), (5,), 9),
    ],
)
async def test_an_actor_is_an_async_function_or_what_is_built_and_receives(
    build: Callable[..., Any], arguments: tuple[Any, ...], answer: int
) -> None:
    async with open_runtime(workers=1) as runtime:
        ref = await runtime.spawn(build, *arguments)
        assert await ref.ask(4) == answer


async def test_an_actor_has_the_name_it_was_given_and_is_found_by_it() -> None:
    async with open_runtime(workers=1) as runtime:
        ref = await runtime.spawn(doubles, name="twice")
        assert ref.address == "actor/twice"
        assert repr(ref) == "<ActorRef actor/twice>"
        found = runtime.actor("twice")
        assert found == ref and hash(found) == hash(ref)
        assert await found.ask(3) == 6
        with pytest.raises(ActorGone, match=r"^no actor is at actor/thrice$"):
            runtime.actor("thrice")


async def test_refs_of_two_runtimes_mean_two_actors() -> None:
    async with open_runtime(workers=1) as one, open_runtime(workers=1) as other:
        first, second = await one.spawn(doubles, name="twice"), await other.spawn(doubles, name="twice")
        assert first != second
        assert first != "actor/twice"


async def test_a_name_is_taken_once_and_free_again_when_its_actor_is_gone() -> None:
    async with open_runtime(workers=1) as runtime:
        ref = await runtime.spawn(Adds, name="sum")
        await ref.ask(5)
        with pytest.raises(InvalidConfig, match=r"^name of an actor must not repeat, got 'sum' again$"):
            await runtime.spawn(Adds, name="sum")
        assert await ref.ask(1) == 6, "nothing happened to the first"
        await ref.stop()
        assert await (await runtime.spawn(Adds, name="sum")).ask(1) == 1


async def test_an_actor_without_a_name_gets_one_that_nobody_has() -> None:
    async with open_runtime(workers=1) as runtime:
        named = [await runtime.spawn(doubles, name=str(number)) for number in (1, 2, 4)]
        unnamed = [await runtime.spawn(doubles) for _ in range(3)]
        assert len({ref.address for ref in named + unnamed}) == 6


@pytest.mark.parametrize("name", ["", "line\nbreak", 3])
async def test_a_name_that_cannot_be_read_is_refused(name: Any) -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(InvalidConfig) as raised:
            await runtime.spawn(doubles, name=name)
        assert str(raised.value) == f"name of an actor must be printable text, got {name!r}"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mailbox_max": 0}, "mailbox_max must be a whole number >= 1, got 0"),
        ({"mailbox_max": 1.5}, "mailbox_max must be a whole number >= 1, got 1.5"),
        ({"overflow": "drop"}, "overflow must be one of wait, reject, drop_oldest, drop_newest, got 'drop'"),
    ],
)
async def test_a_mailbox_that_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(InvalidConfig) as raised:
            await runtime.spawn(doubles, name="twice", **options)
        assert str(raised.value) == said
        await runtime.spawn(doubles, name="twice")


async def test_what_cannot_be_an_actor_is_refused_and_leaves_nothing_behind() -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(InvalidConfig, match=r"^an actor must be built by a function or a class, got 3$"):
            await runtime.spawn(3, name="it")  # type: ignore[arg-type]
        with pytest.raises(InvalidConfig, match=r"^an async function must be spawned without arguments, got \(4,\)$"):
            await runtime.spawn(doubles, 4, name="it")
        with pytest.raises(
            InvalidConfig, match=r"^an actor must be an async function or have an async receive, got None$"
        ):
            await runtime.spawn(lambda: None, name="it")
        with pytest.raises(ActorGone):
            runtime.actor("it")
        assert await (await runtime.spawn(doubles, name="it")).ask(1) == 2


async def test_an_actor_that_cannot_be_built_is_the_spawners_problem_and_nobody_elses() -> None:
    class Broken:
        def __init__(self) -> None:
            raise LookupError("no such table")

        async def receive(self, message: Any, context: ActorContext) -> None: ...

    async with open_runtime(workers=1) as runtime:
        for _ in range(10):
            with pytest.raises(LookupError, match=r"^'?no such table'?$"):
                await runtime.spawn(Broken, name="it")
        assert restarts(runtime) == 0
        assert await (await runtime.spawn(doubles, name="it")).ask(1) == 2


async def test_a_runtime_that_has_stopped_spawns_nobody() -> None:
    async with open_runtime(workers=1) as runtime:
        ref = await runtime.spawn(doubles)
    with pytest.raises(RuntimeStopped):
        await runtime.spawn(doubles)
    with pytest.raises(ActorGone, match=r"^no actor is at actor/1$"):
        await ref.tell(1)
    with pytest.raises(ActorGone):
        await ref.ask(1)
    assert await ref.watch() == Terminated(ref, None)


async def test_actors_live_only_while_their_company_runs() -> None:
    company = Company(lambda: 0.0, lambda event: None, lambda sender, receiver, message: None)
    with pytest.raises(RuntimeStopped, match=r"actors can be spawned only while it runs$"):
        await company.spawn(doubles)
    async with trio.open_nursery() as nursery:
        await nursery.start(company.run)
        await company.spawn(doubles)
        nursery.cancel_scope.cancel()
    with pytest.raises(RuntimeStopped, match=r"actors can be spawned only while it runs$"):
        await company.spawn(doubles)


async def test_a_spawn_that_is_cancelled_leaves_no_actor() -> None:
    async with open_runtime(workers=1) as runtime:
        with trio.CancelScope() as scope:
            scope.cancel()
            await runtime.spawn(doubles, name="it")
        assert scope.cancelled_caught
        with pytest.raises(ActorGone):
            runtime.actor("it")
        await runtime.spawn(doubles, name="it")


# Telling and asking


async def test_messages_are_handled_one_at_a_time_in_the_order_in_which_they_were_sent() -> None:
    log: list[str] = []

    async def slow(message: int, context: ActorContext) -> None:
        log.append(f"begin {message}")
        await trio.lowlevel.checkpoint()
        log.append(f"end {message}")

    async with open_runtime(workers=1) as runtime:
        ref = await runtime.spawn(slow)
        for number in range(3):
            await ref.tell(number)
        await ref.ask(3)
    assert log == [f"{what} {number}" for number in range(4) for what in ("begin", "end")]


async def test_an_actor_knows_itself_and_who_sent_the_message() -> None:
    async def tells(message: Any, context: ActorContext) -> tuple[ActorRef, str]:
        return context.ref, context.sender

    async def asks_about_a_tell(message: ActorRef, context: ActorContext) -> None:
        await message.tell("hello", sender=context.ref)

    senders: list[str] = []

    async def listens(message: Any, context: ActorContext) -> None:
        senders.append(context.sender)

    async with open_runtime(workers=1) as runtime:
        ref = await runtime.spawn(tells, name="it")
        assert await ref.ask("who?") == (ref, "outside")
        listener = await runtime.spawn(listens)
        other = await runtime.spawn(asks_about_a_tell, name="other")
        await other.ask(listener)
        await listener.ask("done?")
    assert senders == ["actor/other", "outside"]


async def test_whoever_asks_is_told_what_the_actor_raised_and_the_actor_goes_on() -> None:
    async with open_runtime(workers=1) as runtime:
        ref = await runtime.spawn(Desk, name="desk")
        with pytest.raises(AskFailed, match=r"^actor/desk could not answer: ValueError: boom$"):
            await ref.ask("boom")
        assert await ref.ask("hello") == (1, "hello")


async def test_an_answer_can_be_anything_none_and_exceptions_included() -> None:
    async def echo(message: Any, context: ActorContext) -> Any:
        return message

    async with open_runtime(workers=1) as runtime:
        ref = await runtime.spawn(echo)
        error = ValueError("an answer like any other")
        for message in (None, error, [1], ref):
            assert await ref.ask(message) is message


async def test_an_ask_that_takes_too_long_ends_and_the_actor_does_not_notice(
    autojump_clock: trio.testing.MockClock,
) -> None:
    handled: list[int] = []

    async def slow(message: int, context: ActorContext) -> int:
        await trio.sleep(10)
        handled.append(message)
        return message

    async with open_runtime(workers=1) as runtime:
        ref = await runtime.spawn(slow)
        started_at = trio.current_time()
        for number in (1, 2):
            with pytest.raises(trio.TooSlowError):
                await ref.ask(number, timeout_seconds=3)
        assert trio.current_time() - started_at == 6
        assert await ref.ask(3, timeout_seconds=60) == 3
        assert handled == [1, 2, 3], "what was sent is handled all the same"
        assert restarts(runtime) == 0 and runtime.undelivered() == []


@pytest.mark.parametrize("seconds", [-1, float("nan"), "3"])
async def test_a_timeout_that_is_none_is_refused(seconds: Any) -> None:
    async with open_runtime(workers=1) as runtime:
        ref = await runtime.spawn(doubles)
        with pytest.raises(InvalidConfig) as raised:
            await ref.ask(1, timeout_seconds=seconds)
        assert str(raised.value) == f"timeout_seconds must be a number >= 0, got {seconds!r}"


async def test_an_actor_that_asks_itself_is_told_so_instead_of_waiting_for_ever() -> None:
    async def asks_itself(message: str, context: ActorContext) -> str:
        if message == "inner":
            return "never"
        with pytest.raises(AskFailed) as raised:
            await context.ref.ask("inner")
        return str(raised.value)

    with trio.fail_after(30):
        async with open_runtime(workers=1) as runtime:
            ref = await runtime.spawn(asks_itself, name="it")
            assert await ref.ask("outer") == "actor/it could not answer: it asks itself"


async def test_an_actor_may_spawn_others_and_tell_them_things() -> None:
    async def parent(message: int, context: ActorContext) -> ActorRef:
        child = await context.spawn(Adds, 100, name=f"child {message}", mailbox_max=5)
        await child.tell(message)
        return child

    async with open_runtime(workers=1) as runtime:
        ref = await runtime.spawn(parent)
        children = [await ref.ask(number) for number in (1, 2)]
        assert [child.address for child in children] == ["actor/child 1", "actor/child 2"]
        assert [await child.ask(0) for child in children] == [101, 102]


async def test_an_actor_that_a_handler_spawned_is_not_taken_for_the_handler() -> None:
    """Else it would be warned of a full pool when it waits for a task, though it keeps no worker busy."""

    async def works(message: str, context: ActorContext) -> Any:
        return await (await runtime.submit("leaf", message, user="alice")).result()

    async with open_runtime(workers=1) as runtime:

        @runtime.handler("spawns")
        async def spawns(payload: None) -> None:
            await runtime.spawn(works, name="it")

        @runtime.handler("leaf")
        async def leaf(payload: str, context: Context) -> str:
            return payload.upper()

        await (await runtime.submit("spawns", None, user="alice")).result()
        ref = runtime.actor("it")
        hold = trio.Event()

        @runtime.handler("hold")
        async def holds(payload: None) -> None:
            await hold.wait()

        async with trio.open_nursery() as nursery:
            held = await runtime.submit("hold", None, user="alice")
            await wait_all_tasks_blocked()
            nursery.start_soon(ref.ask, "hello")
            await wait_all_tasks_blocked()
            hold.set()
            await held.result()
        assert restarts(runtime) == 0, "the warning would have been an error"


async def test_an_actor_that_never_waits_lets_others_have_their_turn() -> None:
    beats = 0

    async def busy(message: int, context: ActorContext) -> int:
        return beats

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await trio.lowlevel.checkpoint()

    async with open_runtime(workers=1) as runtime, trio.open_nursery() as nursery:
        ref = await runtime.spawn(busy)
        company = engine_of(runtime).company
        nursery.start_soon(beat)
        async with trio.open_nursery() as asking:
            for number in range(100):
                asking.start_soon(ref.ask, number)
            await trio.lowlevel.checkpoint()
        assert len(company.actor_at(ref.address).mailbox) == 0
        assert beats >= 50
        nursery.cancel_scope.cancel()


async def test_every_answer_of_many_who_ask_at_once_is_to_their_own_question() -> None:
    answers: dict[int, int] = {}
    async with open_runtime(workers=1) as runtime:
        ref = await runtime.spawn(doubles, mailbox_max=3)

        async def ask(number: int) -> None:
            answers[number] = await ref.ask(number)

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(ask, number)
    assert answers == {number: 2 * number for number in range(50)}


async def test_the_restarts_of_actors_are_events_like_any_other() -> None:
    async with open_runtime(workers=1) as runtime, runtime.events() as events:
        ref = await runtime.spawn(Desk, name="desk")
        with pytest.raises(AskFailed):
            await ref.ask("boom")
        event = await anext(events)
        assert isinstance(event, ActorRestarted)
        assert (event.actor, event.error) == ("actor/desk", "ValueError: boom")
