"""The host with small fake cores: delivery, containment, timers, and the seams for faults and durability."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import ActorFailed, MailboxFull, Noted, Table
from actors.actor import NEVER, Draw, Effects, keyed_draw
from actors.host import EACH_FOR_ITSELF, HOST, Envelope, Gate, Host, Journal, Limits, Post
from actors.messages import Address, Failed, Wake
from actors.supervision import Group
from actors.table import Record
from actors.trace import ActorRestarted, Cancelled, Event, Undelivered

WAKE = Wake()
Script = Callable[["Fake", Any], Effects | None]


class Fake:
    """A core that writes down what it is given and does what its script says."""

    def __init__(self, world: "World", address: Address, script: Script, passive: bool, starts: Script) -> None:
        self.world, self.address, self.passive = world, address, passive
        self.script, self.starts = script, starts
        self.count = 0
        """Messages handled by this very core: 0 again after a rebuild."""

    def start(self, now: float) -> Effects:
        return self.starts(self, None) or Effects()

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        self.count += 1
        self.world.log.append((self.address, message))
        self.world.times.append(now)
        return self.script(self, message) or Effects()


def nothing(core: Fake, message: Any) -> Effects | None:
    return None


class World:
    """A host full of fakes, with everything that they were given in the order in which they were."""

    def __init__(
        self,
        *,
        gate: Gate | None = None,
        journal: Journal | None = None,
        limits: Limits = Limits(),
        supervision: Group = EACH_FOR_ITSELF,
    ) -> None:
        self.log: list[tuple[Address, Any]] = []
        self.times: list[float] = []
        self.events: list[Event] = []
        self.built: list[Address] = []
        self.table = Table()
        self.host = Host(
            self.table,
            keyed_draw(7),
            observe=self.events.append,
            gate=gate,
            journal=journal,
            limits=limits,
            supervision=supervision,
        )

    def add(
        self, *addresses: Address, script: Script = nothing, passive: bool = False, starts: Script = nothing
    ) -> None:
        for address in addresses:
            self.host.spawn(address, lambda address=address: self.build(address, script, passive, starts))  # type: ignore[misc]

    def add_role(self, role: str, script: Script = nothing, passive: bool = True) -> None:
        self.host.on_demand(role, lambda name: self.build(f"{role}/{name}", script, passive, nothing))

    def build(self, address: Address, script: Script, passive: bool, starts: Script) -> Fake:
        self.built.append(address)
        return Fake(self, address, script, passive, starts)

    def post(self, sender: Address, receiver: Address, *messages: Any) -> None:
        for message in messages:
            self.host.post(sender, receiver, message)

    def run(self) -> None:
        """What every driver of a host does: drain, move the clock, fire, until there is nothing left."""
        self.host.drain()
        while (at := self.host.next_timer()) != NEVER:
            self.host.now = max(self.host.now, at)
            self.host.fire()
            self.host.drain()

    def got(self, address: Address) -> list[Any]:
        return [message for receiver, message in self.log if receiver == address]

    def wakes(self) -> list[tuple[float, Address]]:
        return [
            (at, address)
            for at, (address, message) in zip(self.times, self.log, strict=True)
            if isinstance(message, Wake)
        ]


def sends(*messages: tuple[Address, Any]) -> Effects:
    effects = Effects()
    for receiver, message in messages:
        effects.send(receiver, message)
    return effects


def wants_timer(at: float | None) -> Effects:
    effects = Effects()
    effects.timer = at
    return effects


def timer_named_by_message(core: Fake, message: Any) -> Effects | None:
    return None if isinstance(message, Wake) else wants_timer(message)


def crash_on(*bad: Any) -> Script:
    def script(core: Fake, message: Any) -> Effects | None:
        if message in bad:
            raise ValueError(f"cannot bear {message}")
        return None

    return script


# Delivery


def test_all_messages_go_through_one_mailbox_in_the_order_they_were_posted() -> None:
    world = World()

    def fan_out(core: Fake, message: Any) -> Effects | None:
        return sends(("b", "b1"), ("c", "c1"), ("b", "b2")) if message == "go" else None

    def pass_on(core: Fake, message: Any) -> Effects | None:
        return sends(("c", f"from {message}"))

    world.add("a", script=fan_out)
    world.add("b", script=pass_on)
    world.add("c")
    world.post("outside", "a", "go", "last")
    world.host.drain()
    assert world.log == [
        ("a", "go"),
        ("a", "last"),
        ("b", "b1"),
        ("c", "c1"),
        ("b", "b2"),
        ("c", "from b1"),
        ("c", "from b2"),
    ]
    assert world.host.delivered_count == 7


def test_nothing_is_handled_before_drain() -> None:
    world = World()
    world.add("a")
    world.post("outside", "a", "hello")
    assert world.log == []
    world.host.drain()
    assert world.log == [("a", "hello")]


def test_drain_stops_at_the_most_messages_it_may_handle_and_says_whether_any_is_left() -> None:
    world = World()
    world.add("a")
    world.post("outside", "a", 1, 2, 3, 4, 5)
    assert not world.host.drain(2)
    assert world.got("a") == [1, 2]
    assert not world.host.drain(2)
    assert world.host.drain(1), "none is under way any more"
    assert world.got("a") == [1, 2, 3, 4, 5]
    assert world.host.drain(0)


def test_a_core_is_given_the_time_of_its_host_and_its_draw() -> None:
    seen: list[tuple[float, float]] = []

    class Looks(Fake):
        def handle(self, message: Any, now: float, draw: Draw) -> Effects:
            seen.append((now, draw("service", "t1", 1)))
            return Effects()

    world = World()
    world.host.spawn("a", lambda: Looks(world, "a", nothing, False, nothing))
    world.host.now = 12.5
    world.post("outside", "a", "look")
    world.host.drain()
    assert seen == [(12.5, keyed_draw(7)("service", "t1", 1))]


EVERYBODY = ("a", "b", "role/c", "role/d")
steps = st.lists(
    st.tuples(st.sampled_from(["handle", "crash"]), st.lists(st.sampled_from(EVERYBODY), max_size=4)), max_size=40
)


class RestartingGate:
    """Lets everything through, and rebuilds an actor before the messages with these numbers."""

    def __init__(self, before: dict[int, Address]) -> None:
        self.before, self.seen = before, 0
        self.restart: Callable[[Address], None] = lambda address: None

    def envelopes(self, envelope: Envelope, now: float) -> Sequence[tuple[float, Envelope]]:
        self.seen += 1
        if self.seen in self.before:
            self.restart(self.before[self.seen])
        return [(0.0, envelope)]

    def timer(self, address: Address, at: float, now: float) -> float:
        return at


@given(steps, st.dictionaries(st.integers(1, 60), st.sampled_from(EVERYBODY), max_size=10), st.integers(0, 2))
def test_between_a_sender_and_a_receiver_order_is_kept_through_crashes_and_restarts(
    program: list[tuple[str, list[Address]]], restarts: dict[int, Address], passive_max: int
) -> None:
    sent: dict[tuple[Address, Address], list[int]] = defaultdict(list)
    received: dict[tuple[Address, Address], list[int]] = defaultdict(list)
    waiting = list(program)
    gate = RestartingGate(restarts)
    world = World(
        gate=gate, limits=Limits(passive_max=passive_max), supervision=Group("all", each=True, restarts_max=1_000)
    )
    gate.restart = world.host.restart

    def script(core: Fake, message: Any) -> Effects | None:
        if isinstance(message, Failed):
            return None
        sender, number = message
        received[sender, core.address].append(number)
        # The n-th message handled is dealt with as the n-th step says.
        action, receivers = waiting.pop(0) if waiting else ("handle", [])
        if action == "crash":
            raise RuntimeError("a planned crash")
        effects = Effects()
        for receiver in receivers:
            numbers = sent[core.address, receiver]
            effects.send(receiver, (core.address, len(numbers)))
            numbers.append(len(numbers))
        return effects

    world.add("a", "b", script=script)
    world.add_role("role", script=script)
    for address in EVERYBODY:
        world.post("outside", address, ("outside", 0), ("outside", 1))
        sent["outside", address] = [0, 1]
    world.host.drain()
    assert received == sent


# Effects


def full_effects() -> Effects:
    effects = sends(("b", "sent"))
    effects.hold("b", "held")
    effects.records.append(Noted("a", {"color": "red"}))
    effects.events.append(Cancelled(0.0, "alice#1", 1))
    effects.timer = 3.0
    return effects


def test_effects_are_applied_after_success() -> None:
    world = World()
    world.add("a", script=lambda core, message: full_effects() if message == "go" else None)
    world.add("b")
    world.post("outside", "a", "go")
    world.run()
    assert world.table.notes("a") == {"color": "red"}
    assert world.events == [Cancelled(0.0, "alice#1", 1)]
    assert world.log == [("a", "go"), ("b", "sent"), ("b", "held"), ("a", WAKE)]
    assert world.wakes() == [(3.0, "a")]


def test_records_are_applied_before_events_are_passed_on() -> None:
    table = Table()
    seen: list[Any] = []
    world = World()
    world.host = Host(table, keyed_draw(0), observe=lambda event: seen.append(table.notes("a").get("color")))
    world.add("a", script=lambda core, message: full_effects() if message == "go" else None)
    world.add("b")
    world.post("outside", "a", "go")
    world.run()
    assert seen == ["red"]


def test_a_crash_discards_every_output() -> None:
    world = World()

    def prepare_then_crash(core: Fake, message: Any) -> Effects | None:
        full_effects()
        core.count = 99
        raise ValueError("boom")

    world.add("a", script=prepare_then_crash)
    world.add("b", "sender")
    world.post("sender", "a", "go")
    world.run()
    assert world.table.notes("a") == {}
    assert world.got("b") == []
    assert world.wakes() == []
    assert [type(event) for event in world.events] == [ActorRestarted, Undelivered]


def test_what_start_says_is_applied_at_spawn_and_again_at_each_rebuild() -> None:
    world = World()
    world.add("b")
    world.add("a", script=crash_on("bad"), starts=lambda core, message: sends(("b", "a is here")))
    world.post("outside", "a", "bad")
    world.host.drain()
    world.host.restart("a")
    world.host.drain()
    assert world.got("b") == ["a is here"] * 3
    assert world.built == ["b", "a", "a", "a"]


# Containment


def test_a_crash_is_contained_and_the_sender_is_told() -> None:
    world = World()
    world.add("a", script=crash_on("bad"))
    world.add("sender", "other")
    world.post("sender", "a", "good", "bad", "good")
    world.post("sender", "other", "hello")
    world.host.drain()
    assert world.got("a") == ["good", "bad", "good"]
    assert world.got("sender") == [Failed("a", "bad", "ValueError: cannot bear bad")]
    assert world.got("other") == ["hello"]
    assert list(world.host.undelivered) == [("sender", "a", "bad")]
    assert world.host.undelivered_count == 1
    assert world.events == [
        ActorRestarted(0.0, "a", "ValueError: cannot bear bad"),
        Undelivered(0.0, "sender", "a", "str"),
    ]


def test_a_crashed_core_is_built_anew_and_the_others_are_not() -> None:
    counts: list[tuple[Address, int]] = []
    world = World()

    def count(core: Fake, message: Any) -> Effects | None:
        counts.append((core.address, core.count))
        return crash_on("bad")(core, message)

    world.add("a", "b", script=count)
    for message in ("one", "bad", "two"):
        world.post("outside", "a", message)
        world.post("outside", "b", "fine")
    world.host.drain()
    assert [number for address, number in counts if address == "a"] == [1, 2, 1]
    assert [number for address, number in counts if address == "b"] == [1, 2, 3]
    assert world.built == ["a", "b", "a"]


def test_a_crash_drops_the_timer_of_the_crashed_actor_alone() -> None:
    world = World()

    def script(core: Fake, message: Any) -> Effects | None:
        return crash_on("bad")(core, message) or timer_named_by_message(core, message)

    world.add("a", "b", script=script)
    world.post("outside", "a", 5.0, "bad")
    world.post("outside", "b", 6.0)
    world.run()
    assert world.wakes() == [(6.0, "b")]


def test_a_crash_on_a_timer_is_contained_and_nobody_is_told() -> None:
    world = World()
    world.add(
        "a", script=crash_on(WAKE), starts=lambda core, message: wants_timer(1.0 if world.host.now < 1 else NEVER)
    )
    world.run()
    assert world.log == [("a", WAKE)]
    assert list(world.host.undelivered) == [(HOST, "a", WAKE)]
    assert world.host.next_timer() == NEVER


def test_only_exceptions_are_contained() -> None:
    def interrupt(core: Fake, message: Any) -> Effects | None:
        raise KeyboardInterrupt

    world = World()
    world.add("a", script=interrupt)
    world.post("outside", "a", "go")
    with pytest.raises(KeyboardInterrupt):
        world.host.drain()
    assert world.host.undelivered_count == 0


def crash_at(world: World, *times: float, address: Address = "a") -> None:
    for at in times:
        world.host.now = at
        world.post("sender", address, "bad")
        world.host.drain()


def test_the_fourth_crash_in_five_seconds_is_raised_with_its_cause() -> None:
    world = World()
    world.add("a", script=crash_on("bad"))
    world.add("sender")
    crash_at(world, 0.0, 1.0, 2.0)
    with pytest.raises(ActorFailed, match=r"^a crashed 4 times in 5 s$") as raised:
        crash_at(world, 5.0)
    assert isinstance(raised.value.__cause__, ValueError)
    assert str(raised.value.__cause__) == "cannot bear bad"


def test_crashes_that_are_far_enough_apart_are_survived_for_ever() -> None:
    world = World()
    world.add("a", script=crash_on("bad"))
    world.add("sender")
    crash_at(world, *(2.0 * number for number in range(20)))
    assert world.host.undelivered_count == 20
    assert len(world.got("sender")) == 20


def test_each_actor_has_a_restart_intensity_of_its_own() -> None:
    world = World()
    world.add("a", "b", script=crash_on("bad"))
    world.add("sender")
    crash_at(world, 0.0, 0.0, 0.0, address="a")
    crash_at(world, 0.0, 0.0, 0.0, address="b")
    assert world.host.undelivered_count == 6
    with pytest.raises(ActorFailed, match=r"^b crashed 4 times"):
        crash_at(world, 0.0, address="b")


def test_restart_intensity_is_the_supervision_trees() -> None:
    world = World(supervision=Group("all", each=True, restarts_max=0, window_seconds=0.5))
    world.add("a", script=crash_on("bad"))
    with pytest.raises(ActorFailed, match=r"^a crashed 1 times in 0.5 s$"):
        crash_at(world, 0.0)


def test_an_actor_that_cannot_be_started_on_demand_is_contained_like_one_that_crashed() -> None:
    world = World()
    attempts: list[str] = []

    def build(name: str) -> Fake:
        attempts.append(name)
        if name == "broken":
            raise ValueError("not today")
        return world.build(f"role/{name}", nothing, True, nothing)

    world.host.on_demand("role", build)
    world.add("sender")
    world.post("sender", "role/broken", "first")
    world.post("sender", "role/whole", "second")
    world.host.drain()
    assert world.got("role/whole") == ["second"], "one user's broken actor is not another's"
    assert world.got("sender") == [Failed("role/broken", "first", "ValueError: not today")]
    assert list(world.host.undelivered) == [("sender", "role/broken", "first")]


@pytest.mark.parametrize("fault", ["build", "start"])
def test_an_actor_that_cannot_be_rebuilt_ends_as_actor_failed_with_the_cause(fault: str) -> None:
    world = World()
    world.add("sender")

    def crash_if_rebuilt(core: Fake, message: Any) -> Effects | None:
        if world.built.count("a") > 1:
            raise ValueError("never again")
        return None

    def build() -> Fake:
        core = world.build("a", crash_on("bad"), False, crash_if_rebuilt if fault == "start" else nothing)
        if fault == "build":
            crash_if_rebuilt(core, None)
        return core

    world.host.spawn("a", build)
    with pytest.raises(ActorFailed, match=r"^a ") as raised:
        crash_at(world, 0.0, 0.0, 0.0, 0.0)
    assert str(raised.value.__cause__) == "never again"


# Undelivered


def test_a_message_to_an_unknown_actor_is_kept_and_its_sender_told() -> None:
    world = World()
    world.add("sender")
    world.post("sender", "nobody", "hello")
    world.host.drain()
    assert world.got("sender") == [Failed("nobody", "hello", "no actor is at nobody")]
    assert list(world.host.undelivered) == [("sender", "nobody", "hello")]
    assert world.host.undelivered_count == 1
    assert world.events == [Undelivered(0.0, "sender", "nobody", "str")]


def test_a_sender_that_does_not_exist_is_not_told_for_ever() -> None:
    world = World()
    world.post("ghost", "nobody", "hello")
    world.host.drain()
    assert list(world.host.undelivered) == [
        ("ghost", "nobody", "hello"),
        (HOST, "ghost", Failed("nobody", "hello", "no actor is at nobody")),
    ]
    assert world.host.undelivered_count == 2


def test_a_sender_that_crashes_on_being_told_is_not_told_again() -> None:
    world = World()
    failed = Failed("nobody", "hello", "no actor is at nobody")
    world.add("sender", script=crash_on(failed))
    world.post("sender", "nobody", "hello")
    world.host.drain()
    assert world.got("sender") == [failed]
    assert list(world.host.undelivered) == [("sender", "nobody", "hello"), (HOST, "sender", failed)]


def test_a_failure_that_is_passed_on_to_nobody_is_not_reported_in_turn() -> None:
    world = World()
    world.add("sender")
    world.post("sender", "nobody", Failed("elsewhere", "hello", "lost"))
    world.host.drain()
    assert world.got("sender") == []
    assert world.host.undelivered_count == 1


def test_an_actor_that_writes_to_nobody_is_told_itself() -> None:
    world = World()
    world.add("a", script=lambda core, message: sends(("nobody", "lost")) if message == "go" else None)
    world.post("outside", "a", "go")
    world.host.drain()
    assert world.got("a") == ["go", Failed("nobody", "lost", "no actor is at nobody")]


def test_the_latest_undelivered_are_kept_and_all_are_counted() -> None:
    world = World(limits=Limits(undelivered_max=3))
    world.add("sender")
    world.post("sender", "nobody", *range(10))
    world.host.drain()
    assert [message for _, _, message in world.host.undelivered] == [7, 8, 9]
    assert world.host.undelivered_count == 10
    assert len(world.got("sender")) == 10


# On demand


def test_an_on_demand_actor_starts_with_its_first_message() -> None:
    world = World()
    world.add_role("shard")
    assert world.host.addresses() == []
    world.post("outside", "shard/tenant/alice", "one", "two")
    world.host.drain()
    assert world.built == ["shard/tenant/alice"]
    assert world.got("shard/tenant/alice") == ["one", "two"]
    assert world.host.addresses() == ["shard/tenant/alice"]


@pytest.mark.parametrize("address", ["shard", "shard/", "shards/alice", "/alice", ""])
def test_an_address_that_is_not_a_role_and_a_name_starts_nobody(address: Address) -> None:
    world = World()
    world.add("sender")
    world.add_role("shard")
    world.post("sender", address, "hello")
    world.host.drain()
    assert world.host.addresses() == ["sender"]
    assert world.got("sender") == [Failed(address, "hello", f"no actor is at {address}")]


def test_the_longest_idle_actor_is_dropped_and_comes_back_with_its_next_message() -> None:
    world = World(limits=Limits(passive_max=2))
    world.add_role("role")
    for name in ("a", "b", "a", "c"):
        world.post("outside", f"role/{name}", name)
    world.host.drain()
    assert world.host.addresses() == ["role/a", "role/c"]
    world.post("outside", "role/b", "again")
    world.host.drain()
    assert world.host.addresses() == ["role/b", "role/c"]
    assert world.built == ["role/a", "role/b", "role/c", "role/b"]
    assert world.got("role/b") == ["b", "again"]


def test_an_actor_that_is_not_passive_is_never_dropped() -> None:
    def settle(core: Fake, message: Any) -> Effects | None:
        core.passive = message == "rest"
        return None

    world = World(limits=Limits(passive_max=1))
    world.add_role("role", script=settle)
    # `b` was idle once, but is at work when its turn to be dropped comes.
    world.post("outside", "role/a", "work")
    world.post("outside", "role/b", "rest", "work")
    for name in ("c", "d"):
        world.post("outside", f"role/{name}", "rest")
    world.host.drain()
    assert world.host.addresses() == ["role/a", "role/b", "role/d"]
    # Once it rests it can be dropped like any other.
    world.post("outside", "role/b", "rest")
    world.post("outside", "role/e", "rest")
    world.host.drain()
    assert world.host.addresses() == ["role/a", "role/e"]


def test_an_idle_actor_that_was_rebuilt_is_dropped_like_any_other() -> None:
    world = World(limits=Limits(passive_max=1))
    world.add("sender")
    world.add_role("role", script=crash_on("bad"))
    world.post("sender", "role/a", "bad")
    for name in ("b", "c"):
        world.post("sender", f"role/{name}", "hello")
    world.host.drain()
    assert world.host.addresses() == ["role/c", "sender"]


def test_a_spawned_actor_stays_however_idle_it_is() -> None:
    world = World(limits=Limits(passive_max=0))
    world.add("a", passive=True)
    world.add_role("role")
    world.post("outside", "a", "hello")
    world.post("outside", "role/b", "hello")
    world.host.drain()
    assert world.host.addresses() == ["a"]


def test_a_dropped_actor_comes_back_for_its_timer() -> None:
    world = World(limits=Limits(passive_max=0))
    world.add_role("role", script=timer_named_by_message)
    world.post("outside", "role/a", 4.0)
    world.host.drain()
    assert world.host.addresses() == []
    world.run()
    assert world.wakes() == [(4.0, "role/a")]
    assert world.built == ["role/a", "role/a"]


# Timers


def test_a_timer_wakes_its_actor_once() -> None:
    world = World()
    world.add("a", script=timer_named_by_message)
    world.post("outside", "a", 2.0)
    world.run()
    assert world.wakes() == [(2.0, "a")]
    assert world.host.next_timer() == NEVER


@pytest.mark.parametrize(
    ("timers", "woken_at"),
    [
        ([5.0, 3.0], [3.0]),
        ([3.0, 5.0], [5.0]),
        ([5.0, 3.0, 5.0], [5.0]),
        ([5.0, NEVER], []),
        ([NEVER, 5.0], [5.0]),
        ([5.0, None], [5.0]),
        ([None], []),
        ([5.0, NEVER, None], []),
        ([0.0], [0.0]),
    ],
)
def test_an_actor_has_one_timer_which_is_replaced_cancelled_or_left_alone(
    timers: list[float | None], woken_at: list[float]
) -> None:
    world = World()
    world.add("a", script=timer_named_by_message)
    world.post("outside", "a", *timers)
    world.run()
    assert world.wakes() == [(at, "a") for at in woken_at]


def test_timers_that_are_due_together_fire_in_the_order_of_their_addresses() -> None:
    world = World()
    world.add("a", "b", "c", script=timer_named_by_message)
    for address in ("c", "a", "b"):
        world.post("outside", address, 1.0)
    world.run()
    assert world.wakes() == [(1.0, "a"), (1.0, "b"), (1.0, "c")]


def test_fire_takes_one_due_timer_and_none_that_is_not_due() -> None:
    world = World()
    world.add("a", "b", "c", script=timer_named_by_message)
    world.post("outside", "a", 1.0)
    world.post("outside", "b", 1.0)
    world.post("outside", "c", 2.0)
    world.host.drain()
    world.host.fire()
    assert world.wakes() == []
    world.host.now = 1.5
    world.host.fire()
    assert world.wakes() == [(1.5, "a")]
    world.host.fire()
    world.host.fire()
    assert world.wakes() == [(1.5, "a"), (1.5, "b")]
    assert world.host.next_timer() == 2.0


def test_restart_throws_the_timer_away_and_start_sets_it_anew() -> None:
    world = World()
    world.add("a", script=timer_named_by_message, starts=lambda core, message: wants_timer(9.0))
    world.post("outside", "a", 2.0)
    world.host.drain()
    world.host.restart("a")
    world.run()
    assert world.wakes() == [(9.0, "a")]


def test_replaced_timers_do_not_pile_up() -> None:
    # An actor with one thing to do next year and another every second must not cost an entry a second.
    world = World()
    world.add("a", script=timer_named_by_message)
    for _ in range(5_000):
        world.post("outside", "a", 1e9, 5.0)
    world.host.drain()
    assert len(world.host._timer_heap) < 1_000
    assert world.host.next_timer() == 5.0


timer_values = st.one_of(st.none(), st.just(NEVER), st.integers(0, 5).map(float))


@given(st.lists(st.tuples(st.sampled_from("abc"), timer_values), max_size=30))
def test_timers_fire_as_a_plain_table_of_one_time_an_actor_says(changes: list[tuple[Address, float | None]]) -> None:
    world = World()
    world.add("a", "b", "c", script=timer_named_by_message)
    model: dict[Address, float] = {}
    for address, at in changes:
        world.post("outside", address, at)
        if at is not None:
            model[address] = at
    world.run()
    assert world.wakes() == sorted((at, address) for address, at in model.items() if at != NEVER)


# The gate


class ScriptedGate:
    """Answers by message; whatever it does not know goes through."""

    def __init__(self, answers: dict[Any, list[tuple[float, Envelope]]], timer_delay: float = 0.0) -> None:
        self.answers, self.timer_delay = answers, timer_delay
        self.seen: list[Any] = []

    def envelopes(self, envelope: Envelope, now: float) -> Sequence[tuple[float, Envelope]]:
        self.seen.append(envelope[2])
        return self.answers.get(envelope[2], [(0.0, envelope)])

    def timer(self, address: Address, at: float, now: float) -> float:
        return at + self.timer_delay


def test_the_gate_drops_delays_and_repeats() -> None:
    late: Envelope = ("outside", "a", "late")
    twice: Envelope = ("outside", "a", "twice")
    gate = ScriptedGate({"lost": [], "late": [(3.0, late)], "twice": [(0.0, twice), (1.0, twice)]})
    world = World(gate=gate)
    world.add("a")
    world.post("outside", "a", "lost", "late", "twice", "plain")
    world.run()
    assert list(zip(world.times, world.got("a"), strict=True)) == [
        (0.0, "twice"),
        (0.0, "plain"),
        (1.0, "twice"),
        (3.0, "late"),
    ]
    # What was dropped on purpose is no one's undelivered message, and what was delayed is not looked at again.
    assert world.host.undelivered_count == 0
    assert gate.seen == ["lost", "late", "twice", "plain"]


def test_the_gate_may_deliver_something_else_to_somebody_else() -> None:
    world = World(gate=ScriptedGate({"hello": [(0.0, ("outside", "b", "bonjour"))]}))
    world.add("a", "b")
    world.post("outside", "a", "hello")
    world.host.drain()
    assert world.log == [("b", "bonjour")]


def test_the_gate_moves_timers() -> None:
    world = World(gate=ScriptedGate({}, timer_delay=10.0))
    world.add("a", "b", script=timer_named_by_message)
    world.post("outside", "a", 2.0)
    world.post("outside", "b", 3.0, NEVER)
    world.run()
    assert world.wakes() == [(12.0, "a")]


def test_a_timer_that_the_gate_takes_away_never_fires() -> None:
    world = World(gate=ScriptedGate({}, timer_delay=NEVER))
    world.add("a", script=timer_named_by_message)
    world.post("outside", "a", 2.0)
    world.run()
    assert world.wakes() == []


def test_a_delayed_message_does_not_touch_its_receivers_timer() -> None:
    late: Envelope = ("outside", "a", 9.0)
    world = World(gate=ScriptedGate({9.0: [(1.0, late)]}))
    world.add("a", script=timer_named_by_message)
    world.post("outside", "a", 2.0, 9.0)
    world.run()
    # Until it arrives the first timer stands; then it replaces it.
    assert list(zip(world.times, world.got("a"), strict=True)) == [(0.0, 2.0), (1.0, 9.0), (9.0, WAKE)]


# The journal


class SlowJournal:
    """Keeps what it is to make safe until it is told that it is."""

    def __init__(self) -> None:
        self.commits: list[tuple[list[Record], Post]] = []
        self.releases: list[Callable[[], None]] = []

    def commit(self, records: Sequence[Record], held: Post, release: Callable[[Iterable[Post]], None]) -> None:
        self.commits.append((list(records), held))
        self.releases.append(lambda: release([held]))


def test_held_sends_wait_for_the_journal_and_plain_ones_do_not() -> None:
    journal = SlowJournal()
    world = World(journal=journal)
    world.add("a", script=lambda core, message: full_effects() if message == "go" else None)
    world.add("b")
    world.post("outside", "a", "go")
    world.run()
    assert world.got("b") == ["sent"]
    assert journal.commits == [([Noted("a", {"color": "red"})], ("a", [("b", "held")]))]
    journal.releases[0]()
    world.run()
    assert world.got("b") == ["sent", "held"]


def test_held_sends_go_at_once_without_a_journal() -> None:
    world = World()

    def hold_two(core: Fake, message: Any) -> Effects | None:
        effects = Effects()
        effects.hold("b", "first")
        effects.hold("b", "second")
        effects.send("b", "sent")
        return effects

    world.add("a", script=hold_two)
    world.add("b")
    world.post("outside", "a", "go")
    world.host.drain()
    assert world.got("b") == ["sent", "first", "second"]


def test_the_journal_is_given_every_record_and_nothing_empty() -> None:
    journal = SlowJournal()
    world = World(journal=journal)

    def note(core: Fake, message: Any) -> Effects | None:
        effects = Effects()
        if message == "note":
            effects.records.append(Noted("a", {"n": 1}))
        elif message == "hold":
            effects.hold("a", "later")
        return effects

    world.add("a", script=note)
    world.post("outside", "a", "note", "nothing", "hold")
    world.host.drain()
    assert journal.commits == [([Noted("a", {"n": 1})], ("a", [])), ([], ("a", [("a", "later")]))]


def test_the_journal_is_given_nothing_by_a_core_that_crashed() -> None:
    journal = SlowJournal()
    world = World(journal=journal)
    world.add("a", script=crash_on("bad"))
    world.post("outside", "a", "bad")
    world.host.drain()
    assert journal.commits == []


# The mailbox


def test_a_full_mailbox_is_an_error_with_a_name() -> None:
    world = World(limits=Limits(mailbox_max=2))
    world.add("queue")
    world.post("outside", "queue", "one", "two")
    with pytest.raises(MailboxFull, match=r"^the mailbox holds 2 messages, no room for Wake to queue$"):
        world.post("outside", "queue", WAKE)
    world.host.drain()
    assert world.got("queue") == ["one", "two"]


class CrashingGate(ScriptedGate):
    """Crashes the receiver of some messages."""

    def __init__(self, *bad: Any) -> None:
        super().__init__({})
        self.bad = list(bad)

    def envelopes(self, envelope: Envelope, now: float) -> Sequence[tuple[float, Envelope]]:
        if envelope[2] in self.bad:
            self.bad.remove(envelope[2])
            raise ValueError("boom")
        return super().envelopes(envelope, now)


def test_what_the_gate_raises_is_a_crash_of_the_receiver_on_that_message() -> None:
    world = World(gate=CrashingGate("bad"))
    world.add("a", "b")
    world.post("b", "a", "bad", "good")
    world.run()
    assert world.built == ["a", "b", "a"]
    assert world.got("a") == ["good"], "what it crashed on it never had"
    assert world.got("b") == [Failed("a", "bad", "ValueError: boom")]
    assert world.events == [ActorRestarted(0.0, "a", "ValueError: boom"), Undelivered(0.0, "b", "a", "str")]


def test_the_gate_sees_wake_ups_and_may_crash_on_them() -> None:
    world = World(gate=CrashingGate(WAKE))
    world.add("a", script=timer_named_by_message)
    world.post("outside", "a", 2.0)
    world.run()
    assert world.built == ["a", "a"]
    assert world.wakes() == []
