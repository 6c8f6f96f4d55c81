"""Interleavings: pairs keep their order, the rest is drawn, and what was drawn is drawn again."""

import io
from collections import defaultdict
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import InvalidConfig, Table
from actors.actor import Draw, Effects, keyed_draw
from actors.host import HOST, Envelope, Host
from actors.messages import Failed, Wake
from actors.trace import Header, read_trace
from sim import (
    Burst,
    Exponential,
    Kind,
    PriorityOrder,
    RandomOrder,
    Scenario,
    Simulation,
    User,
    Workers,
    parse_scenario,
    simulate,
)
from sim.interleaving import Interleaving
from tests.test_simulation import policies, scenarios

interleavings = st.one_of(
    st.builds(RandomOrder, seed=st.integers(0, 99)),
    st.builds(PriorityOrder, seed=st.integers(0, 99), changes=st.integers(0, 4), steps=st.integers(1, 30)),
)
addresses = st.sampled_from(["queue", "scheduler", "shard/alice"])
envelopes = st.tuples(addresses, addresses)


@given(interleavings, st.lists(st.one_of(envelopes, st.none()), max_size=60))
def test_a_pair_keeps_its_order_and_nothing_is_lost(order: Interleaving, steps: list[tuple[str, str] | None]) -> None:
    """None takes one; at the end all are taken."""
    mail = order.start()
    given_in: dict[tuple[str, str], list[int]] = defaultdict(list)
    taken: dict[tuple[str, str], list[int]] = defaultdict(list)

    def take() -> None:
        sender, receiver, number = mail.take()
        taken[sender, receiver].append(number)

    for number, pair in enumerate(steps):
        if pair is not None:
            given_in[pair].append(number)
            mail.put((*pair, number))
        elif len(mail):
            take()
    while len(mail):
        take()
    assert taken == given_in


@given(interleavings)
def test_the_word_that_an_actor_crashed_comes_before_what_it_says_once_rebuilt(order: Interleaving) -> None:
    mail = order.start()
    sent: list[Envelope] = [
        (HOST, "scheduler", Failed("shard/alice", Wake(), "boom")),
        ("shard/alice", "scheduler", "what it has now"),
        ("queue", "scheduler", "something else"),
    ]
    for envelope in sent:
        mail.put(envelope)
    taken = [mail.take() for _ in sent]
    assert taken.index(sent[0]) < taken.index(sent[1])


def order_of(order: Interleaving, count: int = 6) -> str:
    mail = order.start()
    for number in range(count):
        for sender in "abc":
            mail.put((sender, "z", number))
    return "".join(mail.take()[0] for _ in range(3 * count))


def test_a_random_order_is_drawn_anew_with_each_seed_and_the_same_with_the_same() -> None:
    assert len({order_of(RandomOrder(seed=seed)) for seed in range(20)}) == 20
    assert order_of(RandomOrder(seed=7)) == order_of(RandomOrder(seed=7))


def test_without_changes_priorities_serve_one_pair_after_the_other_and_every_order_is_drawn() -> None:
    orders = {order_of(PriorityOrder(seed=seed, changes=0)) for seed in range(50)}
    assert orders == {x * 6 + y * 6 + z * 6 for x, y, z in ("abc", "acb", "bac", "bca", "cab", "cba")}


def test_a_change_puts_whoever_would_be_next_behind_everybody() -> None:
    found = order_of(PriorityOrder(seed=3, changes=1, steps=18))
    runs = [name for place, name in enumerate(found) if place == 0 or found[place - 1] != name]
    assert len(runs) == 4, f"{found} has one change"
    assert runs[-1] in runs[:-1], f"whoever was put last in {found} had been served before"


def test_each_stretch_has_priorities_of_its_own() -> None:
    assert len({order_of(PriorityOrder(seed=seed, changes=0, steps=3)) for seed in range(50)}) > 6


class Echo:
    """Sends on what it is given, and writes it down."""

    passive = False

    def __init__(self, log: list[Any], sends: list[tuple[str, Any]]) -> None:
        self.log, self.sends = log, sends

    def start(self, now: float) -> Effects:
        return Effects()

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        self.log.append(message)
        effects = Effects()
        if message == "go":
            effects.sends += self.sends
        return effects


class LastFirst:
    """The last in, first out; one message a pair, so no order is broken."""

    def __init__(self) -> None:
        self.held: list[Envelope] = []

    def put(self, envelope: Envelope) -> None:
        self.held.append(envelope)

    def take(self) -> Envelope:
        return self.held.pop()

    def __len__(self) -> int:
        return len(self.held)


class Twice:
    """A gate that lets everything through twice."""

    def envelopes(self, envelope: Envelope, now: float) -> list[tuple[float, Envelope]]:
        return [(0.0, envelope), (0.0, envelope)]

    def timer(self, address: str, at: float, now: float) -> float:
        return at


def test_the_host_delivers_in_the_order_it_is_given_through_the_gate_and_stops_in_between() -> None:
    log: list[Any] = []
    host = Host(Table(), keyed_draw(1), order=LastFirst())
    host.spawn("a", lambda: Echo(log, [("b", "to b"), ("c", "to c")]))
    for name in "bc":
        host.spawn(name, lambda: Echo(log, []))
    host.post("outside", "a", "go")
    assert not host.drain(2)
    assert log == ["go", "to c"]
    assert host.drain()
    assert log == ["go", "to c", "to b"]

    log.clear()
    gated = Host(Table(), keyed_draw(1), order=LastFirst(), gate=Twice())
    gated.spawn("a", lambda: Echo(log, []))
    gated.post("outside", "a", "once")
    assert gated.drain()
    assert log == ["once", "once"]


def busy_scenario() -> Scenario:
    kinds = tuple(
        Kind(name=name, service=Exponential(mean_seconds=1.0), concurrency_max=cap)
        for name, cap in (("work", 2), ("mail", None))
    )
    arrivals = tuple(Burst(kind=kind.name, count=20) for kind in kinds)
    users = tuple(User(name=name, arrivals=arrivals) for name in ("alice", "bob"))
    workers = (Workers(count=2), Workers(count=2, users=("bob",), steals=("*",)))
    return Scenario(name="busy", duration_seconds=9.0, kinds=kinds, users=users, workers=workers)


@pytest.mark.parametrize("order", [RandomOrder(seed=5), PriorityOrder(seed=5)], ids=["random", "pct"])
def test_a_run_under_an_interleaving_is_another_run_and_replays_byte_for_byte(order: Interleaving) -> None:
    traces = [io.BytesIO(), io.BytesIO()]
    first, second = (simulate(busy_scenario(), interleaving=order, trace=trace) for trace in traces)
    assert traces[0].getvalue() == traces[1].getvalue()
    assert first.trace_sha256 == second.trace_sha256 != simulate(busy_scenario()).trace_sha256
    assert first.passed, first.violations


def test_header_and_result_name_the_interleaving() -> None:
    trace = io.BytesIO()
    scenario = attrs.evolve(busy_scenario(), interleaving=PriorityOrder(seed=5, changes=1))
    result = simulate(scenario, trace=trace)
    header = next(iter(read_trace(io.BytesIO(trace.getvalue()))))
    assert isinstance(header, Header)
    assert header.options["interleaving"] == result.interleaving == "pct, seed 5, changes 1, steps 200"
    assert simulate(busy_scenario()).interleaving == "as sent"


@settings(max_examples=settings().max_examples // 3)
@given(scenarios(), policies, interleavings)
def test_every_invariant_holds_under_any_interleaving(
    scenario: Scenario, names: tuple[str, str], order: Interleaving
) -> None:
    result = simulate(scenario, sharing=names[0], ordering=names[1], interleaving=order)
    assert result.passed, result.violations
    assert all(task.status.terminal for task in result.table)


def test_nobody_crashes_under_any_of_many_interleavings() -> None:
    for seed in range(10):
        for order in (RandomOrder(seed=seed), PriorityOrder(seed=seed, changes=seed % 4, steps=50)):
            simulation = Simulation(attrs.evolve(busy_scenario(), interleaving=order, seed=seed))
            simulation.run()
            assert simulation.host.undelivered_count == 0, f"{order}: {simulation.host.undelivered}"


def test_a_file_names_an_interleaving_and_a_wrong_one_is_refused() -> None:
    text = 'name = "x"\nduration_seconds = 1\nkind = []\nuser = []\n'
    scenario = parse_scenario(text + 'interleaving = { order = "pct", seed = 3 }')
    assert scenario.interleaving == PriorityOrder(seed=3)
    assert parse_scenario(text).interleaving is None
    with pytest.raises(InvalidConfig, match=r"^interleaving\.order must be one of random, pct, got 'randon'"):
        parse_scenario(text + 'interleaving = { order = "randon" }')
    with pytest.raises(InvalidConfig, match=r"^interleaving\.seed must be a whole number >= 0, got -1$"):
        parse_scenario(text + 'interleaving = { order = "random", seed = -1 }')
