"""A host with small fake cores under each strategy: who is built anew, in which order, and what becomes of their messages."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import ActorFailed, Group
from actors.actor import NEVER, Effects
from actors.host import Host, Limits
from actors.messages import Address, Failed
from actors.supervision import STRATEGIES
from actors.trace import ActorRestarted, Undelivered
from tests.test_host import Fake, World, crash_on, sends, timer_named_by_message, wants_timer
from tests.test_sharing import finds

SAID = "ValueError: cannot bear bad"


def three(strategy: str, **options: Any) -> World:
    """Actors a, b and c, which crash on "bad", and somebody outside the group."""
    world = World(supervision=Group("all", ("a", "b", "c"), strategy, **options))
    world.add("a", "b", "c", "bystander", script=crash_on("bad"))
    world.built.clear()
    return world


def restarts(world: World) -> list[tuple[Address, str]]:
    return [(event.actor, event.error) for event in world.events if isinstance(event, ActorRestarted)]


@pytest.mark.parametrize(
    ("strategy", "built"),
    [("one_for_one", ["b"]), ("one_for_all", ["a", "b", "c"]), ("rest_for_one", ["b", "c"])],
)
def test_whom_the_strategy_names_is_built_anew_in_order_and_nobody_else(strategy: str, built: list[Address]) -> None:
    world = three(strategy)
    before = {address: world.host.core(address) for address in world.host.addresses()}
    world.post("bystander", "b", "bad")
    world.host.drain()
    assert world.built == built
    assert [address for address in before if world.host.core(address) is not before[address]] == built
    assert sorted(restarts(world)) == sorted(
        [("b", SAID), *((other, f"b crashed: {SAID}") for other in built if other != "b")]
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_message_is_lost_to_a_crash_and_everybody_restarted_gets_the_rest(strategy: str) -> None:
    world = three(strategy)
    for message in ("one", "bad", "two"):
        for address in ("a", "b", "c"):
            world.post("bystander", address, message if address == "b" else f"{message} for {address}")
    world.host.drain()
    assert world.got("b") == ["one", "bad", "two"]
    assert world.got("a") == ["one for a", "bad for a", "two for a"]
    assert world.got("c") == ["one for c", "bad for c", "two for c"]
    assert list(world.host.undelivered) == [("bystander", "b", "bad")]
    assert world.got("bystander") == [Failed("b", "bad", SAID)]


def test_a_sender_is_told_before_it_hears_from_those_who_were_built_anew() -> None:
    world = World(supervision=Group("all", ("a", "b"), "one_for_all"))
    world.add("sender")
    world.add(
        "a", "b", script=crash_on("bad"), starts=lambda core, message: sends(("sender", f"{core.address} is here"))
    )
    world.host.drain()
    world.log.clear()
    world.post("sender", "b", "bad")
    world.host.drain()
    assert world.got("sender") == [Failed("b", "bad", SAID), "a is here", "b is here"]


def test_those_who_are_restarted_lose_their_timers_and_the_others_keep_theirs() -> None:
    world = World(supervision=Group("all", ("a", "b", "c"), "rest_for_one"))

    def script(core: Fake, message: Any) -> Effects | None:
        return crash_on("bad")(core, message) or timer_named_by_message(core, message)

    world.add("a", "b", "c", script=script)
    for address, at in (("a", 5.0), ("b", 6.0), ("c", 7.0)):
        world.post("outside", address, at)
    world.post("outside", "b", "bad")
    world.run()
    assert world.wakes() == [(5.0, "a")]


def test_a_crash_on_a_timer_restarts_the_others_too() -> None:
    def starts(core: Fake, message: Any) -> Effects:
        return wants_timer(1.0 if core.world.host.now < 1 else NEVER)

    world = World(supervision=Group("all", ("a", "b"), "one_for_all"))
    world.add("a", starts=starts, script=lambda core, message: 1 / 0)  # type: ignore[arg-type,return-value]
    world.add("b")
    world.built.clear()
    world.run()
    assert world.built == ["a", "b"]
    assert world.events == [
        ActorRestarted(1.0, "a", "ZeroDivisionError: division by zero"),
        Undelivered(1.0, "host", "a", "Wake"),
        ActorRestarted(1.0, "b", "a crashed: ZeroDivisionError: division by zero"),
    ]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_actor_outside_every_group_is_built_anew_alone(strategy: str) -> None:
    world = three(strategy)
    world.post("a", "bystander", "bad")
    world.host.drain()
    assert world.built == ["bystander"]
    assert world.host.core("bystander") is not None


def test_only_those_on_demand_who_are_in_memory_are_restarted() -> None:
    world = World(supervision=Group("all", ("role/*", "b"), "one_for_all"))
    world.add("b", script=crash_on("bad"))
    world.add_role("role")
    world.post("outside", "role/y", "hello")
    world.post("outside", "role/x", "hello")
    world.host.drain()
    world.built.clear()
    world.post("outside", "b", "bad")
    world.host.drain()
    assert world.built == ["role/x", "role/y", "b"]


def test_an_idle_actor_that_was_restarted_for_another_can_be_dropped_like_any() -> None:
    world = World(supervision=Group("all", ("b", "role/*"), "one_for_all"), limits=Limits(passive_max=1))
    world.add("b", script=crash_on("bad"))
    world.add_role("role")
    world.post("outside", "role/x", "hello")
    world.post("outside", "b", "bad")
    world.post("outside", "role/y", "hello")
    world.host.drain()
    assert world.host.addresses() == ["b", "role/y"]


# On the way back up


class Brittle:
    """A world of three actors that, once they are there, cannot be built again as often as planned."""

    def __init__(self, supervision: Group, plan: dict[Address, int]) -> None:
        self.world = World(supervision=supervision)
        self.plan: dict[Address, int] = {}
        for address in ("a", "b", "c"):
            self.world.host.spawn(address, partial(self.build, address))
        self.world.built.clear()
        self.plan = dict(plan)

    def build(self, address: Address) -> Fake:
        core = self.world.build(address, crash_on("bad"), False, lambda core, message: None)
        if self.plan.get(address, 0):
            self.plan[address] -= 1
            raise RuntimeError(f"{address} is not ready")
        return core


def brittle(strategy: str, plan: dict[Address, int], restarts_max: int = 100) -> World:
    return Brittle(Group("all", ("a", "b", "c"), strategy, restarts_max), plan).world


def test_who_cannot_be_built_has_crashed_once_more_and_what_was_left_to_do_is_done_once() -> None:
    world = brittle("one_for_all", {"b": 1})
    world.post("outside", "a", "bad")
    world.host.drain()
    assert world.built == ["a", "b", "a", "b", "c"]
    assert restarts(world) == [
        ("a", SAID),
        ("b", f"a crashed: {SAID}"),
        ("b", "RuntimeError: b is not ready"),
        ("a", "b crashed: RuntimeError: b is not ready"),
        ("c", "b crashed: RuntimeError: b is not ready"),
    ]
    assert list(world.host.undelivered)[:1] == [("outside", "a", "bad")]
    assert [receiver for _, receiver, _ in world.host.undelivered] == ["a", "outside"], "a build is no message"


def test_who_cannot_be_built_does_not_keep_those_behind_it_from_being_built() -> None:
    world = Brittle(Group("all", (Group("first", ("a", "b", "c")), "d"), restarts_max=100), {"b": 1}).world
    for _ in range(4):
        world.post("outside", "a", "bad")
    world.host.drain()
    assert world.built == ["a", "a", "a", "a", "b", "b", "c"]


@given(
    strategy=st.sampled_from(STRATEGIES),
    crashes=st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=5),
    plan=st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 4)),
)
def test_after_any_crashes_and_failed_builds_everybody_is_there_and_everybody_due_was_built(
    strategy: str, crashes: list[Address], plan: dict[Address, int]
) -> None:
    world = brittle(strategy, plan)
    for address in crashes:
        before = {other: world.host.core(other) for other in ("a", "b", "c")}
        world.built.clear()
        world.post("outside", address, "bad")
        world.host.drain()
        due = {"one_for_one": address, "one_for_all": "abc", "rest_for_one": "abc"["abc".index(address) :]}[strategy]
        anew = "".join(other for other in "abc" if world.host.core(other) is not before[other])
        assert anew == due
        assert world.host.addresses() == ["a", "b", "c"]


def drops_the_rest(self: Host, address: Address, error: Exception) -> None:
    for other in self._restarted(address, error):
        if self._rebuild(other) is not None:
            return


def test_a_host_that_leaves_work_undone_after_a_failed_build_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "_supervise", drops_the_rest)
    finds(
        test_after_any_crashes_and_failed_builds_everybody_is_there_and_everybody_due_was_built,
        strategy=st.sampled_from(STRATEGIES),
        crashes=st.just(["a", "b"]),
        plan=st.just({"b": 1}),
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_actor_that_can_never_be_built_again_ends_the_host_with_every_crash(strategy: str) -> None:
    world = brittle(strategy, {"b": 100}, restarts_max=3)
    world.post("outside", "b", "bad")
    with pytest.raises(ActorFailed, match=r"^all crashed 4 times in 5 s, last b$") as raised:
        world.host.drain()
    assert [str(error) for error in raised.value.exceptions] == ["cannot bear bad"] + ["b is not ready"] * 3
    assert str(raised.value.__cause__) == "b is not ready"


def test_a_restart_that_was_asked_for_is_no_crash_unless_it_fails() -> None:
    world = brittle("one_for_all", {"b": 1}, restarts_max=1)
    for _ in range(5):
        world.host.restart("a")
    assert (world.built, world.events) == (["a"] * 5, [])
    world.built.clear()
    world.host.restart("b")
    assert world.built == ["b", "a", "b", "c"]
    assert restarts(world)[0] == ("b", "RuntimeError: b is not ready")


# Escalation


def nested() -> World:
    world = World(
        supervision=Group("top", (Group("pair", ("a", "b"), restarts_max=1), Group("other", ("c",))), restarts_max=1)
    )
    world.add("a", "b", "c", script=crash_on("bad"))
    world.built.clear()
    return world


def test_a_group_that_crashes_too_often_is_built_anew_as_a_whole_and_only_then_everything_ends() -> None:
    world = nested()
    built = []
    for _ in range(3):
        world.post("outside", "b", "bad")
        world.host.drain()
        built.append(list(world.built))
        world.built.clear()
    assert built == [["b"], ["a", "b"], ["b"]]
    world.post("outside", "b", "bad")
    with pytest.raises(ActorFailed, match=r"^top crashed 2 times in 5 s, last b$") as raised:
        world.host.drain()
    assert [str(error) for error in raised.value.exceptions] == ["pair crashed 2 times in 5 s, last b"] * 2


def test_when_everything_ends_nothing_is_built_any_more() -> None:
    world = three("one_for_all", restarts_max=0)
    world.post("outside", "b", "bad")
    with pytest.raises(ActorFailed):
        world.host.drain()
    assert world.built == []
    assert list(world.host.undelivered) == [("outside", "b", "bad")], "what it crashed on can still be read"


# Gone for good


def test_a_message_to_an_actor_that_was_dismissed_is_undelivered_and_its_timer_never_fires() -> None:
    world = World()
    world.add("sender")
    world.add("a", script=timer_named_by_message)
    world.post("outside", "a", 3.0)
    world.host.drain()
    world.host.dismiss("a")
    world.post("sender", "a", "hello")
    world.run()
    assert world.got("a") == [3.0]
    assert world.got("sender") == [Failed("a", "hello", "no actor is at a")]
    assert world.host.next_timer() == NEVER
    assert world.host.addresses() == ["sender"]


def test_dismissing_nobody_is_no_error_and_who_is_dismissed_is_not_restarted_for_others() -> None:
    world = three("one_for_all")
    world.host.dismiss("a")
    world.host.dismiss("nobody")
    world.post("outside", "b", "bad")
    world.host.drain()
    assert world.built == ["b", "c"]


def test_the_crashes_of_one_who_was_dismissed_are_not_held_against_its_successor() -> None:
    world = World(supervision=Group("all", each=True, restarts_max=1))
    world.add("sender")
    for _ in range(5):
        world.add("a", script=crash_on("bad"))
        world.post("sender", "a", "bad")
        world.host.drain()
        world.host.dismiss("a")
    assert world.host.undelivered_count == 5
