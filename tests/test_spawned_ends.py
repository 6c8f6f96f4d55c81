"""How actors of people's own end, and who hears of it: `stop` and `watch`."""

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import ActorContext, ActorGone, ActorRef, Runtime, Terminated, open_runtime
from actors.spawned import GONE_MAX
from tests.company import Desk, doubles, engine_of, restarts


class Watcher:
    """Watches whom it is told to, and keeps whatever else it gets."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    async def receive(self, message: Any, context: ActorContext) -> None:
        match message:
            case ("watch", ref):
                context.watch(ref)
            case _:
                self.log.append(message)


async def watching(runtime: Runtime, *refs: ActorRef, **options: Any) -> tuple[ActorRef, Watcher]:
    watcher = Watcher()
    ref = await runtime.spawn(lambda: watcher, **options)
    for other in refs:
        await ref.ask(("watch", other))
    return ref, watcher


# Stopping


async def test_an_actor_that_is_stopped_ends_the_message_it_is_at_and_the_rest_is_undelivered() -> None:
    async with open_runtime(workers=1) as runtime, trio.open_nursery() as nursery:
        desk = Desk()
        ref = await runtime.spawn(lambda: desk, name="desk")
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await ref.ask("wait"))

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        await ref.tell("left")
        stopped = trio.Event()

        async def stop() -> None:
            await ref.stop()
            stopped.set()

        nursery.start_soon(stop)
        await wait_all_tasks_blocked()
        assert not stopped.is_set()
        await ref.tell("too late")
        desk.door.set()
        await stopped.wait()
        assert (desk.log, answers) == (["wait"], [(1, "wait")])
        assert runtime.undelivered() == [("outside", "actor/desk", "left"), ("outside", "actor/desk", "too late")]
        with pytest.raises(ActorGone):
            runtime.actor("desk")


async def test_an_idle_actor_is_stopped_at_once_and_stopping_it_again_is_no_error() -> None:
    async with open_runtime(workers=1) as runtime, trio.open_nursery() as nursery:
        ref = await runtime.spawn(doubles)
        for _ in range(3):
            nursery.start_soon(ref.stop)
        await ref.stop()
        await ref.stop()
        assert restarts(runtime) == 0


async def test_an_actor_may_stop_itself_and_ends_what_it_is_at() -> None:
    async def stops_itself(message: str, context: ActorContext) -> str:
        await context.ref.stop()
        return "goodbye"

    with trio.fail_after(30):
        async with open_runtime(workers=1) as runtime:
            ref = await runtime.spawn(stops_itself, name="it")
            assert await ref.ask("go") == "goodbye"
            assert await ref.watch() == Terminated(ref, None)
            with pytest.raises(ActorGone):
                await ref.tell("more")


async def test_a_stop_that_is_cancelled_still_stops_the_actor_in_its_time() -> None:
    async with open_runtime(workers=1) as runtime:
        desk = Desk()
        ref = await runtime.spawn(lambda: desk)
        await ref.tell("wait")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.stop)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        desk.door.set()
        assert await ref.watch() == Terminated(ref, None)


async def test_an_actor_that_crashes_on_its_last_message_is_not_built_again_to_be_stopped() -> None:
    door, built = trio.Event(), 0

    async def crashes(message: Any, context: ActorContext) -> None:
        await door.wait()
        raise ValueError("boom")

    def build() -> Any:
        nonlocal built
        built += 1
        return crashes

    async with open_runtime(workers=1) as runtime, trio.open_nursery() as nursery:
        ref = await runtime.spawn(build)
        await ref.tell("go")
        await wait_all_tasks_blocked()
        nursery.start_soon(ref.stop)
        await wait_all_tasks_blocked()
        door.set()
        assert await ref.watch() == Terminated(ref, None)
        assert built == 1
        assert [message for _, _, message in runtime.undelivered()] == ["go"]


# Watching


async def test_whoever_waits_for_an_actor_hears_that_it_is_gone_at_once_if_it_is() -> None:
    async with open_runtime(workers=1) as runtime, trio.open_nursery() as nursery:
        ref = await runtime.spawn(doubles)
        heard: list[Terminated] = []

        async def watch() -> None:
            heard.append(await ref.watch())

        for _ in range(2):
            nursery.start_soon(watch)
        await wait_all_tasks_blocked()
        assert heard == []
        await ref.stop()
        await watch()
    assert heard == [Terminated(ref, None)] * 3


async def test_an_actor_hears_once_that_another_is_gone_however_often_it_watches_it() -> None:
    async with open_runtime(workers=1) as runtime:
        other = await runtime.spawn(doubles, name="other")
        ref, watcher = await watching(runtime, other, other)
        await ref.tell(("watch", other))
        await other.stop()
        await ref.ask("and?")
        assert watcher.log == [Terminated(other, None), "and?"]


async def test_who_is_watched_when_it_is_already_gone_is_reported_at_once() -> None:
    async with open_runtime(workers=1) as runtime:
        other = await runtime.spawn(doubles)
        await other.stop()
        ref, watcher = await watching(runtime, other)
        await ref.ask("and?")
        assert watcher.log == [Terminated(other, None), "and?"]


async def test_the_end_of_an_actor_is_heard_after_what_it_had_to_say() -> None:
    async def says_and_stops(message: ActorRef, context: ActorContext) -> None:
        await message.tell("my last words", sender=context.ref)
        await context.ref.stop()

    async with open_runtime(workers=1) as runtime:
        other = await runtime.spawn(says_and_stops)
        ref, watcher = await watching(runtime, other)
        await other.tell(ref)
        await other.watch()
        await ref.ask("and?")
        assert watcher.log == ["my last words", Terminated(other, None), "and?"]


@pytest.mark.parametrize("overflow", ["wait", "reject", "drop_oldest", "drop_newest"])
async def test_the_end_of_an_actor_is_heard_although_the_mailbox_is_full(overflow: str) -> None:
    async with open_runtime(workers=1) as runtime, trio.open_nursery() as nursery:
        others = [await runtime.spawn(doubles) for _ in range(3)]
        desk = Desk()
        ref = await runtime.spawn(lambda: desk, mailbox_max=1, overflow=overflow)
        company = engine_of(runtime).company
        for other in others:
            company.watch(other.address, company.actor_at(ref.address))
        await ref.tell("wait")
        await wait_all_tasks_blocked()
        await ref.tell("first")
        for other in others:
            await other.stop()
        if overflow != "reject":
            nursery.start_soon(ref.tell, "second")
            await wait_all_tasks_blocked()
        desk.door.set()
        await wait_all_tasks_blocked()
        assert [message for message in desk.log if isinstance(message, Terminated)] == [
            Terminated(other, None) for other in others
        ]


async def test_who_watches_and_is_gone_first_is_not_told_and_neither_is_its_successor() -> None:
    async with open_runtime(workers=1) as runtime:
        other = await runtime.spawn(doubles, name="other")
        ref, watcher = await watching(runtime, other, name="watcher")
        await ref.stop()
        _, successor = await watching(runtime, name="watcher")
        company = engine_of(runtime).company
        assert not company.actor_at(other.address).watchers, "nothing is kept of who is gone"
        await other.stop()
        await wait_all_tasks_blocked()
        assert (watcher.log, successor.log) == ([], [])
        assert runtime.undelivered() == []


async def test_an_actor_that_was_rebuilt_still_watches() -> None:
    async with open_runtime(workers=1) as runtime:
        other = await runtime.spawn(doubles)
        desk_log: list[Any] = []

        async def crashes_on_numbers(message: Any, context: ActorContext) -> None:
            desk_log.append(message)
            if isinstance(message, ActorRef):
                context.watch(message)
            if message == 1:
                raise ValueError("boom")

        ref = await runtime.spawn(crashes_on_numbers)
        await ref.tell(other)
        await ref.tell(1)
        await wait_all_tasks_blocked()
        await other.stop()
        await ref.ask("and?")
        assert desk_log == [other, 1, Terminated(other, None), "and?"]


async def test_an_actor_of_another_runtime_can_be_watched_too() -> None:
    async with open_runtime(workers=1) as runtime:
        async with open_runtime(workers=1) as elsewhere:
            other = await elsewhere.spawn(doubles, name="it")
            ref, watcher = await watching(runtime, other, name="it")
        await ref.ask("and?")
        assert watcher.log == [Terminated(other, None), "and?"]


async def test_why_the_latest_actors_are_gone_is_remembered_and_no_more() -> None:
    async with open_runtime(workers=1) as runtime:
        for _ in range(GONE_MAX + 10):
            await (await runtime.spawn(doubles)).stop()
        assert len(engine_of(runtime).company._gone) == GONE_MAX


async def test_actors_that_watch_each_other_all_end_with_the_runtime() -> None:
    with trio.fail_after(30):
        async with open_runtime(workers=1) as runtime:
            first, _ = await watching(runtime)
            second, _ = await watching(runtime, first)
            await first.ask(("watch", second))
            await first.ask(("watch", first))
        assert await first.watch() == Terminated(first, None)
        assert await second.watch() == Terminated(second, None)
