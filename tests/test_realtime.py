"""A host on trio's clock: who drives it, when timers fire, what time it is, and what becomes of a failure."""

import math
import signal
from collections.abc import Callable
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from actors import ActorFailed, Livelock, MailboxFull, Table, realtime
from actors.actor import NEVER, Draw, Effects, keyed_draw
from actors.host import Host, Limits
from actors.messages import Address, Wake
from actors.realtime import RealTime
from actors.supervision import Group
from actors.trace import Cancelled, Event

OUTSIDE = "outside"
Does = Callable[["Fake", Any], Effects | None]


class Fake:
    """A core that writes down what it is given and when, and does what it is told to."""

    passive = False

    def __init__(self, does: Does) -> None:
        self.does = does
        self.got: list[tuple[float, Any]] = []
        self.now = 0.0

    def start(self, now: float) -> Effects:
        return Effects()

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        self.now = now
        self.got.append((now, message))
        return self.does(self, message) or Effects()


def nothing(core: Fake, message: Any) -> Effects | None:
    return None


def timer_at(at: float) -> Effects:
    effects = Effects()
    effects.timer = at
    return effects


def sends(*messages: tuple[Address, Any]) -> Effects:
    effects = Effects()
    effects.sends += messages
    return effects


def timer_named_by_message(core: Fake, message: Any) -> Effects | None:
    """A number is how many seconds from now."""
    return None if isinstance(message, Wake) else timer_at(core.now + message)


class World:
    """A host of fakes on real time."""

    def __init__(self, wall_clock: Callable[[], float] = lambda: 1_000.0, **host: Any) -> None:
        self.events: list[Event] = []
        self.observe: Callable[[Event], None] = self.events.append
        self.host = Host(Table(), keyed_draw(7), observe=lambda event: self.observe(event), **host)
        self.time = RealTime(self.host, wall_clock)

    def add(self, address: Address, does: Does = nothing) -> Fake:
        core = Fake(does)
        self.host.spawn(address, lambda: core)
        return core

    def tell(self, receiver: Address, message: Any) -> None:
        self.time.tell(OUTSIDE, receiver, message)


# Driving


async def test_when_tell_returns_all_that_it_leads_to_has_happened() -> None:
    world = World()
    world.add("a", lambda core, message: sends(("b", 1), ("c", 2)))
    b = world.add("b", lambda core, message: sends(("c", 3)))
    c = world.add("c")
    world.tell("a", "go")
    assert [message for _, message in b.got] == [1]
    assert [message for _, message in c.got] == [2, 3]


async def test_whoever_is_called_from_within_only_adds_to_what_is_under_way() -> None:
    world = World()
    order: list[str] = []

    def first(core: Fake, message: Any) -> Effects:
        order.append("a began")
        effects = sends(("b", "from a"))
        effects.events.append(Cancelled(0.0, "alice#1", 1))
        return effects

    def observe(event: Event) -> None:
        world.tell("c", "from an observer")
        order.append("observer is back")

    world.observe = observe
    world.add("a", first)
    world.add("b", lambda core, message: order.append("b"))
    world.add("c", lambda core, message: order.append("c"))
    world.tell("a", "go")
    assert order == ["a began", "observer is back", "c", "b"], "nobody is handed anything in the middle of something"


async def test_drive_handles_what_was_posted_before() -> None:
    world = World()
    a = world.add("a")
    world.host.post(OUTSIDE, "a", 1)
    assert a.got == []
    world.time.drive()
    assert [message for _, message in a.got] == [1]


# Timers


async def test_timers_fire_when_they_are_due_whoever_set_them(autojump_clock: MockClock) -> None:
    world = World()
    late, early = world.add("late", timer_named_by_message), world.add("early", timer_named_by_message)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.time.run)
        await trio.sleep(1)
        world.tell("late", 10.0)
        world.tell("early", 2.0)
        await trio.sleep(20)
        nursery.cancel_scope.cancel()
    assert early.got == [(1_001.0, 2.0), (1_003.0, Wake())]
    assert late.got == [(1_001.0, 10.0), (1_011.0, Wake())]


async def test_a_timer_that_is_replaced_by_a_later_one_does_not_fire_early(autojump_clock: MockClock) -> None:
    world = World()
    a = world.add("a", timer_named_by_message)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.time.run)
        world.tell("a", 2.0)
        world.tell("a", 7.0)
        await trio.sleep(20)
        nursery.cancel_scope.cancel()
    assert [at for at, message in a.got if message == Wake()] == [1_007.0]


async def test_after_a_stall_every_timer_fires_and_sees_the_time_it_is_now(mock_clock: MockClock) -> None:
    world = World()
    cores = [world.add(name, timer_named_by_message) for name in ("a", "b", "c")]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.time.run)
        for seconds, name in enumerate(("a", "b", "c"), start=1):
            world.tell(name, float(seconds))
        await wait_all_tasks_blocked()
        mock_clock.jump(100.0)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert [core.got[1:] for core in cores] == [[(1_100.0, Wake())]] * 3


async def test_a_message_that_is_under_way_is_handled_before_a_timer_that_is_due(mock_clock: MockClock) -> None:
    """So a stall expires no lease whose beat waits to be read."""
    world = World()
    order: list[Any] = []

    def keep(core: Fake, message: Any) -> Effects | None:
        order.append(message)
        return timer_named_by_message(core, message)

    world.add("a", keep)
    world.tell("a", 1.0)
    async with trio.open_nursery() as nursery:
        mock_clock.jump(50.0)
        world.host.post(OUTSIDE, "a", 5.0)
        world.time.drive()
        nursery.start_soon(world.time.run)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert order == [1.0, 5.0], "the timer was put off before it could fire"


times = st.floats(-1e10, 1e10)


@given(times, times, st.floats(0.0, 1e7))
def test_an_alarm_never_rings_before_its_time_however_numbers_are_rounded(
    wall: float, started: float, seconds: float
) -> None:
    """One that did would find nothing due and be set again, and with a clock that stands still until then, for ever."""

    async def program() -> float:
        world = World(lambda: wall)
        world.add("a", timer_named_by_message)
        world.tell("a", seconds)
        at = world.host.next_timer()
        world.time._set_alarm(at)
        return world.time._alarm.deadline + world.time._offset - at

    clock = MockClock()
    clock.jump(max(0.0, started))
    late_by = trio.run(program, clock=clock)
    assert 0 <= late_by <= 1e-5


@given(st.floats(0.0, 1.0), st.lists(st.floats(0.001, 3.0), min_size=1, max_size=5))
def test_timers_fire_once_each_whatever_the_wall_clock_says(wall: float, seconds: list[float]) -> None:
    async def program() -> list[float]:
        world = World(lambda: wall)
        cores = [world.add(f"a{number}", timer_named_by_message) for number, _ in enumerate(seconds)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.time.run)
            for number, wait in enumerate(seconds):
                world.tell(f"a{number}", wait)
            await trio.sleep(4.0)
            nursery.cancel_scope.cancel()
        return [at for core in cores for at, message in core.got if message == Wake()]

    fired = trio.run(program, clock=MockClock(autojump_threshold=0))
    assert len(fired) == len(seconds)
    assert all(at >= wall + wait for at, wait in zip(fired, seconds, strict=True))


# What time it is


async def test_time_goes_on_from_the_wall_clock_and_never_back_when_that_jumps(mock_clock: MockClock) -> None:
    wall = [5_000.0]
    world = World(lambda: wall[0])
    seen = [world.time.now()]
    for wall[0], passes in ((9_000.0, 1.0), (-3.0, 2.0), (5_000.0, 0.0), (math.nan, 4.0)):
        mock_clock.jump(passes)
        seen.append(world.time.now())
    assert seen == [5_000.0, 5_001.0, 5_003.0, 5_003.0, 5_007.0]


async def test_actors_see_the_time_of_the_message_and_a_new_host_the_time_it_began(mock_clock: MockClock) -> None:
    world = World()
    assert world.host.now == 1_000.0
    a = world.add("a")
    mock_clock.jump(2.5)
    world.tell("a", "hello")
    assert a.got == [(1_002.5, "hello")]


# Failures


def boom(core: Fake, message: Any) -> Effects | None:
    raise ValueError("boom")


NO_PATIENCE = Group("all", restarts_max=0)


async def test_a_failure_is_raised_by_the_task_that_runs_the_timers_and_not_where_it_was_driven() -> None:
    world = World(supervision=NO_PATIENCE)
    world.add("a", boom)
    b = world.add("b")
    raised: list[BaseException] = []

    async def run() -> None:
        with pytest.raises(ActorFailed) as caught:
            await world.time.run()
        raised.append(caught.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await wait_all_tasks_blocked()
        world.tell("a", "go")
        assert world.time.failed
        world.tell("b", "hello")
        world.time.drive()
    assert b.got == [], "it is driven no more"
    assert [str(error) for error in raised] == ["all crashed 1 times in 5 s, last a"]


async def test_a_failure_before_the_timers_run_is_raised_when_they_do() -> None:
    world = World(supervision=NO_PATIENCE)
    world.add("a", boom)
    world.tell("a", "go")
    with pytest.raises(ActorFailed, match=r"^all crashed 1 times in 5 s, last a$"):
        await world.time.run()


async def test_a_failure_at_a_timer_is_raised(autojump_clock: MockClock) -> None:
    world = World(supervision=NO_PATIENCE)
    world.add("a", lambda core, message: boom(core, message) if message == Wake() else timer_at(1_003.0))
    world.tell("a", "set")
    with pytest.raises(ActorFailed):
        await world.time.run()
    assert trio.current_time() == 3.0


async def test_an_observer_that_raises_ends_the_host_and_nobody_who_drove_it() -> None:
    world = World()

    def observe(event: Event) -> None:
        raise KeyError("observer")

    world.observe = observe
    effects = Effects()
    effects.events.append(Cancelled(0.0, "alice#1", 1))
    world.add("a", lambda core, message: effects)
    world.tell("a", "go")
    with pytest.raises(KeyError, match="observer"):
        await world.time.run()


async def test_a_mailbox_that_overflows_is_a_failure_with_a_name_and_the_first_failure_is_the_one_raised() -> None:
    world = World(limits=Limits(mailbox_max=1))
    world.add("a")
    world.host.post(OUTSIDE, "a", 1)
    world.tell("a", 2)
    for _ in range(3):
        world.tell("a", 3)
    with pytest.raises(MailboxFull, match=r"^the mailbox holds 1 messages, no room for int to a$"):
        await world.time.run()


async def test_actors_that_never_stop_talking_do_not_stop_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(realtime, "MESSAGES_AT_ONCE_MAX", 1_000)
    world = World()
    world.add("a", lambda core, message: sends(("a", message)))
    world.tell("a", "again")
    with pytest.raises(Livelock, match=r"^1000 messages at once and no end$"):
        await world.time.run()


async def test_an_actor_that_never_stops_waking_does_not_stop_the_program(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(realtime, "MESSAGES_AT_ONCE_MAX", 1_000)
    world = World()
    world.add("a", lambda core, message: timer_at(core.now))
    world.tell("a", "wake me now")
    with pytest.raises(Livelock, match=r"^1000 timers at once and no end$"):
        await world.time.run()


def test_ctrl_c_never_lands_in_the_middle_of_an_actor() -> None:
    """A host that is torn out of a message would be driven no more, and its messages half handled."""
    handled: list[str] = []
    failed: list[bool] = []

    def interrupted(core: Fake, message: Any) -> Effects:
        signal.raise_signal(signal.SIGINT)
        handled.append("a, to its end")
        return sends(("b", "go"))

    async def program() -> None:
        world = World()
        world.add("a", interrupted)
        world.add("b", lambda core, message: handled.append("b"))
        try:
            world.tell("a", "go")
            await trio.sleep_forever()
        finally:
            failed.append(world.time.failed)

    with pytest.raises(KeyboardInterrupt):
        trio.run(program)
    assert handled == ["a, to its end", "b"]
    assert failed == [False]


def test_there_is_no_alarm_where_there_is_no_timer() -> None:
    async def program() -> float:
        world = World()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.time.run)
            await wait_all_tasks_blocked()
            deadline = world.time._alarm.deadline
            nursery.cancel_scope.cancel()
        return deadline

    assert trio.run(program) == NEVER
