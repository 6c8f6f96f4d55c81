"""Actors of people's own that crash: built anew, with others if their group says so, until nobody bears it any more."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from actors import ActorContext, ActorFailed, ActorRef, AskFailed, InvalidConfig, Runtime, Terminated, open_runtime
from actors.trace import ActorRestarted
from tests.company import Desk, doubles, engine_of, restarts

NAMES = ("a", "b", "c")


class Office:
    """Desks a, b and c in one group; what was built, in order, and what each handled."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.desks: dict[str, Desk] = {}
        self.built: list[str] = []
        self.refs: dict[str, ActorRef] = {}
        self.restarts: list[tuple[str, str]] = []
        engine_of(runtime).add_sink(self.on_event)

    def on_event(self, event: Any) -> None:
        if isinstance(event, ActorRestarted):
            self.restarts.append((event.actor, event.error))

    def build(self, name: str) -> Desk:
        self.built.append(name)
        self.desks[name] = Desk()
        return self.desks[name]

    async def open(self, strategy: str, **options: Any) -> "Office":
        self.runtime.supervise("office", NAMES, strategy=strategy, **options)
        # Not in the order of the group.
        for name in reversed(NAMES):
            self.refs[name] = await self.runtime.spawn(self.build, name, name=name)
        self.built.clear()
        return self


async def test_a_crashed_actor_is_built_anew_and_its_mailbox_stays() -> None:
    async with open_runtime(workers=1) as runtime:
        office = await Office(runtime).open("one_for_one")
        a = office.refs["a"]
        first = office.desks["a"]
        for message in ("one", "boom", "two", "three"):
            await a.tell(message)
        assert await a.ask("four") == (3, "four"), "it counts from the beginning"
        assert (first.log, office.desks["a"].log) == (["one", "boom"], ["two", "three", "four"])
        assert runtime.undelivered() == [("outside", "actor/a", "boom")]
        assert office.built == ["a"]
        assert office.restarts == [("actor/a", "ValueError: boom")]


@pytest.mark.parametrize(
    ("strategy", "built"),
    [("one_for_one", ["b"]), ("one_for_all", ["a", "b", "c"]), ("rest_for_one", ["b", "c"])],
)
async def test_whom_the_strategy_names_is_built_anew_in_the_order_of_the_group(strategy: str, built: list[str]) -> None:
    async with open_runtime(workers=1) as runtime:
        office = await Office(runtime).open(strategy)
        bystander = await runtime.spawn(Desk, name="bystander")
        for ref in (*office.refs.values(), bystander):
            await ref.tell("before")
        await wait_all_tasks_blocked()
        with pytest.raises(AskFailed):
            await office.refs["b"].ask("boom")
        await wait_all_tasks_blocked()
        assert office.built == built
        counts = {name: (await ref.ask("after"))[0] for name, ref in office.refs.items()}
        assert counts == {name: 1 if name in built else 2 for name in NAMES}
        assert await bystander.ask("after") == (2, "after")
        others = [(f"actor/{name}", "actor/b crashed: ValueError: boom") for name in built if name != "b"]
        assert sorted(office.restarts) == sorted([("actor/b", "ValueError: boom"), *others])


async def test_a_message_in_progress_when_its_actor_is_restarted_for_another_comes_back() -> None:
    said: list[str] = []

    async def ask(ref: ActorRef) -> None:
        with pytest.raises(AskFailed) as raised:
            await ref.ask("wait")
        said.append(str(raised.value))

    async with open_runtime(workers=1) as runtime, trio.open_nursery() as nursery:
        office = await Office(runtime).open("one_for_all")
        teller = await runtime.spawn(Desk, name="teller")
        nursery.start_soon(ask, office.refs["a"])
        await office.refs["c"].tell("wait", sender=teller)
        await wait_all_tasks_blocked()
        for name in ("a", "c"):
            await office.refs[name].tell("next")
        await office.refs["b"].tell("boom")
        await wait_all_tasks_blocked()
        assert said == ["actor/a could not answer: actor/b crashed: ValueError: boom"]
        assert sorted(message for _, _, message in runtime.undelivered()) == ["boom", "wait", "wait"]
        assert (office.desks["a"].log, office.desks["c"].log) == (["next"], ["next"])
        assert await teller.ask("and?") == (2, "and?"), "it was told that its message came back"


async def test_a_message_that_is_ended_although_its_actor_is_to_be_restarted_is_answered_once() -> None:
    """The actor does not notice the cancel, because it is shielded: whoever asked was told, and nothing more is handled."""
    door = trio.Event()
    log: list[Any] = []

    async def stubborn(message: str, context: ActorContext) -> str:
        log.append(message)
        with trio.CancelScope(shield=True):
            await door.wait()
        return "done after all"

    said: list[str] = []

    async def ask(message: str) -> None:
        try:
            said.append(await ref.ask(message))
        except AskFailed as error:
            said.append(str(error))

    async with open_runtime(workers=1) as runtime, trio.open_nursery() as nursery:
        runtime.supervise("pair", ["stubborn", "desk"], strategy="one_for_all")
        ref = await runtime.spawn(stubborn, name="stubborn")
        desk = await runtime.spawn(Desk, name="desk")
        nursery.start_soon(ask, "first")
        await wait_all_tasks_blocked()
        nursery.start_soon(ask, "second")
        await desk.tell("boom")
        await wait_all_tasks_blocked()
        assert said == ["actor/stubborn could not answer: actor/desk crashed: ValueError: boom"]
        door.set()
        await wait_all_tasks_blocked()
        assert said[1:] == ["done after all"]
        assert log == ["first", "second"]
        assert restarts(runtime) == 2


async def test_what_an_actor_raises_because_it_is_restarted_for_another_is_said_and_no_crash_of_its_own() -> None:
    async def raises_when_cancelled(message: Any, context: ActorContext) -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            raise OSError("the line is broken") from None

    async with open_runtime(workers=1) as runtime:
        office = Office(runtime)
        runtime.supervise("pair", ["line", "a"], strategy="one_for_all", restarts_max=3)
        line = await runtime.spawn(raises_when_cancelled, name="line")
        a = await runtime.spawn(office.build, "a", name="a")
        for _ in range(3):
            await line.tell("hold")
            await wait_all_tasks_blocked()
            await a.tell("boom")
            await wait_all_tasks_blocked()
        because = "actor/a crashed: ValueError: boom; then OSError: the line is broken"
        assert office.restarts == [("actor/a", "ValueError: boom"), ("actor/line", because)] * 3


async def test_an_actor_is_built_only_after_those_it_depends_on_were_and_after_they_let_go() -> None:
    """The first takes its time to let go, and nobody behind it is built before it is."""
    letting_go = trio.Event()

    async def holds(message: Any, context: ActorContext) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await letting_go.wait()

    async with open_runtime(workers=1) as runtime:
        office = Office(runtime)

        def build_first() -> Any:
            office.built.append("first")
            return holds

        runtime.supervise("line", ["first", "b", "c"], strategy="one_for_all")
        first = await runtime.spawn(build_first, name="first")
        c = await runtime.spawn(office.build, "c", name="c")
        await runtime.spawn(office.build, "b", name="b")
        office.built.clear()
        await first.tell("hold")
        await c.tell("boom")
        await wait_all_tasks_blocked()
        assert office.built == []
        letting_go.set()
        await wait_all_tasks_blocked()
        assert office.built == ["first", "b", "c"]


async def test_who_waits_for_one_that_is_stopped_instead_of_built_waits_no_more() -> None:
    letting_go = trio.Event()

    async def holds(message: Any, context: ActorContext) -> None:
        with trio.CancelScope(shield=True):
            await letting_go.wait()

    async with open_runtime(workers=1) as runtime, trio.open_nursery() as nursery:
        runtime.supervise("line", ["first", "second"], strategy="one_for_all")
        first = await runtime.spawn(holds, name="first")
        second = await runtime.spawn(Desk, name="second")
        await first.tell("hold")
        await second.tell("boom")
        await wait_all_tasks_blocked()
        nursery.start_soon(first.stop)
        await wait_all_tasks_blocked()
        letting_go.set()
        with trio.fail_after(30):
            assert await second.ask("there?") == (1, "there?")


# Groups


async def test_a_group_may_name_actors_by_pattern_and_before_they_are_there() -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.supervise("crawlers", ["leader", "crawler *"], strategy="rest_for_one")
        office = Office(runtime)
        refs = {
            name: await runtime.spawn(office.build, name, name=name) for name in ("crawler 2", "crawler 1", "leader")
        }
        office.built.clear()
        await refs["leader"].tell("boom")
        await wait_all_tasks_blocked()
        assert office.built == ["leader", "crawler 1", "crawler 2"]


async def test_an_actor_is_in_one_group_and_a_group_has_a_name_of_its_own() -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.supervise("pair", ["a", "b"])
        for name, members, said in (
            ("pair", ["c"], "name of a group must not repeat, got 'pair' again"),
            ("actors", ["c"], "name of a group must not repeat, got 'actors' again"),
            ("other", ["b"], "child of a group must not repeat, got 'actor/b' again"),
        ):
            with pytest.raises(InvalidConfig) as raised:
                runtime.supervise(name, members)
            assert str(raised.value) == said
        # Nothing of that is left.
        runtime.supervise("other", ["c"])


# Nobody bears it any more


async def failure_of(program: Callable[[Runtime], Awaitable[None]]) -> ActorFailed:
    """What ends a runtime whose block does this and then waits for ever."""

    async def block() -> None:
        async with open_runtime(workers=1) as runtime:
            await program(runtime)
            await trio.sleep_forever()

    with pytest.raises(ActorFailed) as raised, trio.fail_after(30):
        await block()
    return raised.value


def crashes_in(error: BaseException) -> Iterator[str]:
    if isinstance(error, ActorFailed):
        for inner in error.exceptions:
            yield from crashes_in(inner)
    else:
        yield str(error)


async def test_a_group_that_is_added_does_not_make_crashes_forgotten(autojump_clock: MockClock) -> None:
    async def program(runtime: Runtime) -> None:
        ref = await runtime.spawn(Desk, name="it")
        for number in range(4):
            runtime.supervise(f"group {number}", [f"nobody {number}"])
            await ref.tell("boom")
            await wait_all_tasks_blocked()

    assert str(await failure_of(program)) == "actor/it crashed 4 times in 5 s"


async def test_an_actor_that_goes_on_crashing_ends_the_runtime_which_says_who_and_how_often() -> None:
    refs: list[ActorRef] = []
    runtimes: list[Runtime] = []

    async def program(runtime: Runtime) -> None:
        runtimes.append(runtime)
        refs.extend([await runtime.spawn(Desk, name="it"), await runtime.spawn(doubles)])
        for _ in range(5):
            await refs[0].tell("boom")

    failed = await failure_of(program)
    assert str(failed) == "actor/it crashed 4 times in 5 s"
    assert list(crashes_in(failed)) == ["boom"] * 4
    assert str(failed.__cause__) == "boom"
    assert await refs[0].watch() == Terminated(refs[0], "ActorFailed: actor/it crashed 4 times in 5 s")
    assert await refs[1].watch() == Terminated(refs[1], None)
    assert [message for _, _, message in runtimes[0].undelivered()] == ["boom"] * 5


async def test_crashes_that_are_far_enough_apart_are_borne_for_ever(autojump_clock: MockClock) -> None:
    async with open_runtime(workers=1) as runtime:
        ref = await runtime.spawn(Desk)
        for _ in range(20):
            await ref.tell("boom")
            await trio.sleep(2)
        assert restarts(runtime) == 20
        assert await ref.ask("still there?") == (1, "still there?")


async def test_a_group_is_built_anew_as_a_whole_before_everything_ends(autojump_clock: MockClock) -> None:
    offices: list[Office] = []

    async def program(runtime: Runtime) -> None:
        offices.append(await Office(runtime).open("one_for_one", restarts_max=1))
        for _ in range(8):
            await offices[0].refs["b"].tell("boom")
            await wait_all_tasks_blocked()

    failed = await failure_of(program)
    assert str(failed) == "office crashed 4 times in 5 s, last actor/b"
    assert [str(error) for error in failed.exceptions] == ["office crashed 2 times in 5 s, last actor/b"] * 4
    assert list(crashes_in(failed)) == ["boom"] * 8
    assert offices[0].built == ["b", "a", "b", "c"] * 3 + ["b"]


async def test_whoever_asked_an_actor_of_a_runtime_that_ends_so_is_told() -> None:
    said: list[str] = []

    async def ask(ref: ActorRef) -> None:
        with pytest.raises(AskFailed) as raised:
            await ref.ask("wait")
        said.append(str(raised.value))

    async with trio.open_nursery() as nursery:

        async def program(runtime: Runtime) -> None:
            quiet, loud = await runtime.spawn(Desk, name="quiet"), await runtime.spawn(Desk, name="loud")
            nursery.start_soon(ask, quiet)
            await wait_all_tasks_blocked()
            for _ in range(4):
                await loud.tell("boom")

        await failure_of(program)
    assert said == ["actor/quiet could not answer: actor/quiet was stopped"]


async def test_an_actor_that_cannot_be_built_again_ends_the_runtime() -> None:
    times = 0

    def build() -> Desk:
        nonlocal times
        times += 1
        if times > 1:
            raise LookupError(f"no such table, time {times}")
        return Desk()

    async def program(runtime: Runtime) -> None:
        await (await runtime.spawn(build, name="it")).tell("boom")

    failed = await failure_of(program)
    assert str(failed) == "actor/it crashed 4 times in 5 s"
    assert list(crashes_in(failed)) == ["boom"] + [f"no such table, time {time}" for time in (2, 3, 4)]


async def test_an_actor_that_cannot_be_built_again_for_a_while_has_its_mailbox_when_it_can() -> None:
    times = 0

    def build() -> Desk:
        nonlocal times
        times += 1
        if times in (2, 3):
            raise LookupError("no such table")
        return Desk()

    async with open_runtime(workers=1) as runtime:
        ref = await runtime.spawn(build)
        await ref.tell("boom")
        assert await ref.ask("there?") == (1, "there?")
        assert restarts(runtime) == 3


async def test_an_actor_that_crashes_without_end_under_a_group_that_bears_it_does_not_stop_the_program() -> None:
    times = 0

    def build() -> Desk:
        nonlocal times
        times += 1
        if times > 1:
            raise LookupError("never again")
        return Desk()

    async with open_runtime(workers=1) as runtime:
        runtime.supervise("patient", ["it"], restarts_max=10**9)
        ref = await runtime.spawn(build, name="it")
        await ref.tell("boom")
        for _ in range(200):
            await trio.lowlevel.checkpoint()
        assert times > 50, "it goes on and on, and so does this"
