"""The gate: what it does to messages on their way, and that none overtakes another of its pair."""

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import Table
from actors.actor import NEVER, Effects, keyed_draw
from actors.host import Host
from actors.messages import Beat, Ready, Wake
from actors.trace import ActorRestarted, Event, FaultInjected
from sim import CrashOnMessage, Delay, Drop, Duplicate
from sim.gate import FaultGate
from sim.injection import CRASHES_MAX, CRASHES_WINDOW_SECONDS, Injection


class Listener:
    """Writes down what it is given and when; has itself woken if a message is a time."""

    passive = False

    def __init__(self, world: "World", address: str) -> None:
        self.world, self.address = world, address

    def start(self, now: float) -> Effects:
        return Effects()

    def handle(self, message: Any, now: float, draw: Any) -> Effects:
        self.world.heard[self.address].append((now, message))
        effects = Effects()
        if isinstance(message, float):
            effects.timer = message
        return effects


class World:
    """Listeners at `a`, `b` and `c` behind a gate with these faults."""

    def __init__(self, *faults: Any, seed: int = 7) -> None:
        self.heard: dict[str, list[tuple[float, Any]]] = defaultdict(list)
        self.events: list[Event] = []
        table, draw = Table(), keyed_draw(seed)
        self.injection = Injection(faults, table, draw, self.events.append, lambda: self.host.now)
        self.gate = FaultGate(self.injection, table)
        self.host = Host(table, draw, observe=self.events.append, gate=self.gate)
        for address in ("a", "b", "c"):
            self.host.spawn(address, lambda address=address: Listener(self, address))  # type: ignore[misc]

    def run(self, until: float = NEVER) -> None:
        self.host.drain()
        while (at := self.host.next_timer()) <= until and at != NEVER:
            self.host.now = max(self.host.now, at)
            self.host.fire()
            self.host.drain()
        if until != NEVER:
            self.host.now = max(self.host.now, until)

    def at(self, now: float, sender: str, receiver: str, message: Any) -> None:
        self.run(now)
        self.host.post(sender, receiver, message)

    def injected(self) -> list[tuple[str, str]]:
        return [(event.fault, event.target) for event in self.events if isinstance(event, FaultInjected)]


ready = Ready("alice", {}, {}, 1)


def test_a_beat_is_dropped_on_its_way_to_or_from_the_target() -> None:
    world = World(Drop(target="a", messages=("Beat",)))
    for sender, receiver in (("a", "b"), ("b", "a"), ("b", "c")):
        world.host.post(sender, receiver, Beat("t1", 1))
    world.run()
    assert {address: len(heard) for address, heard in world.heard.items()} == {"c": 1}
    assert world.injected() == [("drop", "Beat to b"), ("drop", "Beat to a")]


def test_a_second_copy_comes_later() -> None:
    world = World(Duplicate(after_seconds=2.0, fires_max=1))
    world.host.post("a", "b", Beat("t1", 1))
    world.host.post("a", "b", Beat("t1", 2))
    world.run()
    assert [(at, beat.token) for at, beat in world.heard["b"]] == [(0.0, 1), (0.0, 2), (2.0, 1)]


def test_a_late_message_holds_back_those_behind_it_and_nobody_else() -> None:
    world = World(Delay(messages=("Ready",), seconds=3.0, fires_max=1))
    for sender, receiver, message in (
        ("a", "b", ready),
        ("a", "b", "second"),
        ("c", "b", "other"),
        ("a", "c", "third"),
    ):
        world.host.post(sender, receiver, message)
    world.at(1.0, "a", "b", "fourth")
    world.at(4.0, "a", "b", "fifth")
    world.run()
    assert world.heard["b"] == [(0.0, "other"), (3.0, ready), (3.0, "second"), (3.0, "fourth"), (4.0, "fifth")]
    assert world.heard["c"] == [(0.0, "third")]


def test_what_is_sent_at_the_very_instant_of_a_late_arrival_comes_after_it() -> None:
    world = World(Delay(messages=("Ready",), seconds=3.0, fires_max=1))
    world.host.post("a", "b", ready)
    world.host.drain()
    world.host.now = 3.0
    world.host.post("a", "b", "second")
    world.run()
    assert [message for _, message in world.heard["b"]] == [ready, "second"]


def test_no_instant_is_quiet_while_something_is_late_that_no_lease_covers() -> None:
    world = World(Delay(messages=("Ready", "Beat"), seconds=3.0))
    world.host.post("a", "b", Beat("t1", 1))
    world.host.drain()
    assert not world.gate.under_way(0.0)
    world.host.post("c", "b", ready)
    world.host.drain()
    assert world.gate.under_way(2.9)
    assert not world.gate.under_way(3.0)


messages = st.tuples(st.floats(0, 5), st.sampled_from("ab"), st.sampled_from("bc"), st.booleans())


@given(st.lists(messages, max_size=40), st.integers(0, 99), st.floats(0, 3), st.lists(st.floats(0, 5), max_size=3))
def test_nobody_overtakes_whatever_is_late_and_however_time_leaps(
    sent: list[tuple[float, str, str, bool]], seed: int, shortest: float, leaps: list[float]
) -> None:
    late = Delay(messages=("Ready",), probability=0.5, seconds=shortest + 1e-9, seconds_max=5.0)
    world = World(late, seed=seed)
    plan = [(at, number, sender, receiver) for number, (at, sender, receiver, _) in enumerate(sent)]
    steps = sorted([*plan, *((at, -1, "", "") for at in leaps)])
    given_to: dict[tuple[str, str], list[int]] = defaultdict(list)
    leapt = False
    for at, number, sender, receiver in steps:
        if not leapt:
            world.run(max(at, world.host.now))
        # What is sent right after a leap meets what should have arrived meanwhile, and has not yet.
        if leapt := number < 0:
            world.host.drain()
            world.host.now += 2.0
            world.gate.leap(world.host.now)
            continue
        about_ready = sent[number][3]
        message: Any = Ready(sender, {"n": number}, {}, 1) if about_ready else (sender, number)
        given_to[sender, receiver].append(number)
        world.host.post(sender, receiver, message)
    world.run()
    heard: dict[tuple[str, str], list[int]] = defaultdict(list)
    for receiver, listened in world.heard.items():
        for _, message in listened:
            sender, number = (message.user, message.counts["n"]) if isinstance(message, Ready) else message
            heard[sender, receiver].append(number)
    assert heard == given_to


def test_an_actor_crashes_on_its_messages_and_wake_ups_but_no_more_often_than_is_borne() -> None:
    world = World(CrashOnMessage(target="a"))
    world.run(1.0)
    for _ in range(CRASHES_MAX + 1):
        world.host.post("b", "a", 3.0)
    world.run(3.0)
    assert world.injected() == [("crash_on_message", "a on float")] * CRASHES_MAX
    assert world.heard["a"] == [(1.0, 3.0), (3.0, Wake())]
    world.at(1.0 + CRASHES_WINDOW_SECONDS, "b", "a", "still too soon")
    world.at(1.1 + CRASHES_WINDOW_SECONDS, "b", "a", "late enough")
    world.run()
    assert [message for _, message in world.heard["a"]] == [3.0, Wake(), "still too soon"]
    restarted = [event.at for event in world.events if isinstance(event, ActorRestarted)]
    assert restarted == [1.0, 1.0, 1.0, 6.1]


def test_an_actor_crashes_on_a_wake_up() -> None:
    world = World(CrashOnMessage(target="a", messages=("Wake",)))
    world.host.post("b", "a", 1.0)
    world.run()
    assert world.injected() == [("crash_on_message", "a on Wake")]
    assert world.heard["a"] == [(0.0, 1.0)]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_chance_is_taken_about_as_often_as_its_probability_says(seed: int) -> None:
    world = World(Drop(probability=0.25), seed=seed)
    for number in range(2_000):
        world.host.post("a", "b", Beat("t1", number))
    world.run()
    assert 420 <= len(world.injected()) <= 580
