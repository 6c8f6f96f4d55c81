"""Waiting at the door: against a plain model, in proportion to weights, and at a cost that does not grow."""

import math
from collections import Counter
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from actors import (
    Cause,
    InvalidTask,
    Priority,
    RetryPolicy,
    Status,
)
from actors.actor import Effects
from actors.door import Door
from actors.messages import (
    QUEUE,
    Accepted,
    Refused,
    Requeue,
    Run,
    SetWeight,
    shard_address,
)
from actors.queue import Queue
from actors.waiting import WaitingRoom
from tests.doorway import QUICK, USERS, Model, World, quickly

# Against a plain model


class DoorMachine(RuleBasedStateMachine):
    """Submits, ends, requeues, weights and restarts, at a door that lets the rest wait."""

    options: ClassVar[list[dict[str, Any]]] = [
        {"admitted_max": 5},
        {"admitted_max": 5, "admission_share": None},
        {"admitted_max": 12, "admission_share": 2.0, "admitted_per_user_max": 4},
        {"admitted_per_user_max": 2},
        {"admitted_max": 0},
    ]
    when_full = "wait"

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None

    @precondition(lambda self: self.world is None)
    @rule(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(self.options))
        self.world = World(when_full=self.when_full, **chosen)
        self.model = Model(self.world.settings)
        self.runs: list[Run] = []

    def here(self) -> World:
        assert self.world is not None
        return self.world

    def settle(self) -> None:
        self.model.let_all_in()

    @precondition(lambda self: self.world is not None)
    @rule(
        submits=st.lists(st.tuples(st.sampled_from(USERS), st.sampled_from([None, None, "k"])), min_size=1, max_size=8)
    )
    def submit(self, submits: list[tuple[str, str | None]]) -> None:
        """Together, so that they are all at the door before the first is in its shard."""
        world = self.here()
        messages = [world.new_submit(user, idempotency_key=key) for user, key in submits]
        for message in messages:
            self.model.submit(message)
        self.settle()
        world.tell(QUEUE, *messages)

    @precondition(lambda self: self.world is not None)
    @rule(user=st.sampled_from(USERS), fault=st.sampled_from([{"cost": -1.0}, {"priority": 9}, {"payload": {1}}]))
    def submit_what_is_no_task(self, user: str, fault: dict[str, Any]) -> None:
        """Refused at once, however full it is."""
        answer = self.here().answer(self.here().submit(user, **fault))
        assert isinstance(answer, Refused) and isinstance(answer.error, InvalidTask)
        self.model.refused.add(answer.submitted_id)

    @precondition(lambda self: self.world is not None and self.world.inside())
    @rule(place=st.integers(0, 99))
    def cancel(self, place: int) -> None:
        waiting = [task for task in self.here().inside() if task.status is Status.PENDING]
        if waiting:
            task = waiting[place % len(waiting)]
            self.model.held[task.user] -= 1
            self.model.pending[task.user].remove(self.model.places[task.id])
            self.settle()
            self.here().end(task.id)

    @precondition(lambda self: self.world is not None)
    @rule(user=st.sampled_from(USERS))
    def start(self, user: str) -> None:
        if (run := self.here().start(user)) is not None:
            self.runs.append(run)
            self.model.pending[user].remove(self.model.places[run.task_id])

    @precondition(lambda self: self.world is not None and self.runs)
    @rule(place=st.integers(0, 9), outcome=st.sampled_from(["completed", "failed", "given up", "released"]))
    def finish(self, place: int, outcome: str) -> None:
        run = self.runs.pop(place % len(self.runs))
        task = self.here().table[run.task_id]
        if outcome in ("completed", "given up") or (outcome == "failed" and task.attempts > task.max_retries):
            self.model.held[run.user] -= 1
            self.settle()
        else:
            self.model.pending[run.user].append(self.model.places[run.task_id])
        self.here().finish(run, "failed" if outcome == "given up" else outcome, give_up=outcome == "given up")

    @precondition(lambda self: self.world is not None and self.world.table.dead_letters())
    @rule(place=st.integers(0, 9))
    def requeue(self, place: int) -> None:
        """An operator may go over the bound."""
        letters = self.here().table.dead_letters()
        task = letters[place % len(letters)]
        self.model.held[task.user] = self.model.held.get(task.user, 0) + 1
        self.model.pending[task.user].append(self.model.places[task.id])
        if task.id in self.model.dropped:
            self.model.dropped.remove(task.id)
        self.here().tell(shard_address(task.user), Requeue(task.id))

    @precondition(lambda self: self.world is not None)
    @rule(user=st.sampled_from(USERS), weight=st.sampled_from([0.25, 0.5, 1.0, 3.0]))
    def set_weight(self, user: str, weight: float) -> None:
        self.model.reweigh(user, weight)
        self.here().tell(QUEUE, SetWeight(user, weight))

    @precondition(lambda self: self.world is not None)
    @rule(weight=st.sampled_from([0, -1.0, math.nan, "heavy"]))
    def set_what_is_no_weight(self, weight: Any) -> None:
        self.here().tell(QUEUE, SetWeight("alice", weight))

    @precondition(lambda self: self.world is not None)
    @rule(seconds=st.sampled_from([1.0, 30.0]))
    def pass_time(self, seconds: float) -> None:
        self.here().pass_time(seconds)
        self.model.now = self.here().host.now

    @precondition(lambda self: self.world is not None)
    @rule()
    def restart(self) -> None:
        self.here().host.restart(QUEUE)
        self.here().settle()

    @invariant()
    def the_world_is_as_the_model_has_it(self) -> None:
        if self.world is None:
            return
        world, model = self.world, self.model
        assert [task.id for task in sorted(world.table, key=lambda task: task.sequence)] == model.entered
        accepted = {answer.submitted_id: answer.task_id for answer in world.answers() if isinstance(answer, Accepted)}
        refused = [answer.submitted_id for answer in world.answers() if isinstance(answer, Refused)]
        assert (accepted, sorted(refused)) == (model.accepted, sorted(model.refused))
        assert world.held() == {user: held for user, held in model.held.items() if held}
        dropped = [task for task in world.table.dead_letters() if task.cause is Cause.DROPPED]
        assert [task.id for task in dropped] == model.dropped

    @invariant()
    def what_is_noted_is_what_is_needed(self) -> None:
        """Who is not inside is not counted, and who has left the waiting room leaves nothing behind."""
        if self.world is None:
            return
        notes, model = self.world.notes(), self.model
        held = {key.removeprefix("held/"): count for key, count in notes.items() if key.startswith("held/")}
        assert held == (self.world.held() if self.world.settings.bounded else {})
        waiting = [waiting for line in model.lines.values() for waiting in line]
        assert sum(key.startswith("wait/submit/") for key in notes) == len(waiting)
        assert sum(key.startswith("wait/joined/") for key in notes) == sum(bool(one.joined) for one in waiting)
        tags = {key.removeprefix("wait/tag/"): tag for key, tag in notes.items() if key.startswith("wait/tag/")}
        ahead = {user for user, tag in model.tags.items() if tag > model.virtual}
        assert set(model.lines) <= set(tags) <= ahead | set(model.lines)
        assert not model.lines or all(tags[user] == model.tags[user] for user in tags)
        if not model.lines:
            assert not any(key.startswith("wait/") and key != "wait/number" for key in notes)
            assert "drop" not in notes

    @invariant()
    def nobody_waits_whom_the_door_would_take(self) -> None:
        if self.world is not None:
            assert not any(self.model.may_enter(user) for user in self.model.lines)


def test_those_who_wait_are_let_in_as_the_model_lets_them_in() -> None:
    run_state_machine_as_test(DoorMachine, settings=settings(stateful_step_count=30))


def lone_let_in(self: Queue, now: float, effects: Effects, quiet: bool) -> None:
    """Lets in one for each that leaves, whoever else might fit."""
    if (user := self._room.first(self._door.free)) is not None:
        self._enter(user, now, effects)


def first_in_line(self: WaitingRoom, free: int) -> str | None:
    """By arrival."""
    able = [(next(iter(line)), user) for user, line in self._lines.items() if self._needs(user) <= free]
    return min(able)[1] if able else None


def head_only(self: WaitingRoom, free: int, first: Any = WaitingRoom.first) -> str | None:
    """Who is next and held back holds up the rest."""
    user: str | None = first(self, 10**6)
    return user if user is not None and self._needs(user) <= free else None


PLANTED: dict[str, tuple[Any, str, Any]] = {
    "who waits is not charged": (WaitingRoom, "let_in", WaitingRoom.turn_away),
    "who waits enters by arrival": (WaitingRoom, "first", first_in_line),
    "who is held back holds up the rest": (WaitingRoom, "first", head_only),
    "a duplicate waits beside the first": (WaitingRoom, "join", lambda self, submit: False),
    "weights are for ever": (WaitingRoom, "reweigh", lambda self, user, before, after: None),
    "one at a time enters": (Queue, "_let_in", lone_let_in),
    "users are remembered for ever": (WaitingRoom, "_forget_passed", lambda self: None),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_the_machine_finds_a_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, replacement = PLANTED[bug]
    monkeypatch.setattr(owner, name, replacement)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(DoorMachine, settings=QUICK)


# In particular


def waiting_world(admitted_max: int = 1, **options: Any) -> World:
    return World(when_full="wait", admitted_max=admitted_max, **options)


def test_a_submit_that_waits_is_the_same_task_when_it_enters() -> None:
    world = waiting_world()
    first = world.submit("bob")
    retry = RetryPolicy(max_retries=7, retry_on=("OSError",))
    payload = {"url": ["a", 1, None, 2.5]}
    second = world.submit(
        "alice", payload=payload, priority="high", retry=retry, cost=3, expires_at=99.0, persist=False, kind="mail"
    )
    assert world.answer(second) is None
    world.pass_time(4.0)
    world.end(first)
    task = world.table[second]
    assert (task.payload, task.priority, task.retry, task.kind) == (payload, Priority.HIGH, retry, "mail")
    assert (task.cost, task.expires_at, task.persist) == (3.0, 99.0, False)
    assert (task.created_at, task.order_at) == (4.0, 4.0), "it is admitted when it enters"


def test_whoever_joins_a_submit_that_waits_gets_its_answer() -> None:
    world = waiting_world()
    first = world.submit("bob")
    again = [world.submit("alice", idempotency_key="k") for _ in range(3)]
    other = world.submit("bob", idempotency_key="k")
    assert [world.answer(submitted_id) for submitted_id in [*again, other]] == [None] * 4
    world.end(first)
    assert [world.answer(submitted_id) for submitted_id in again] == [Accepted(name, again[0]) for name in again]
    assert world.answer(other) is None, "the key of another user is another key"
    assert [task.id for task in world.inside()] == [again[0]]
    assert repr(world.queue()) == "<Queue: 1 admitted of 1, 1 users wait>"


weights = st.sampled_from([0.2, 0.5, 1.0, 3.0, 8.0])


def check_admission_bound(each: list[float], picks: list[int]) -> None:
    """|A_f/w_f - A_g/w_g| <= 1/w_f + 1/w_g over every interval in which both wait."""
    names = [f"user/{number}" for number in range(len(each))]
    world = waiting_world(admitted_max=3, admission_share=None, weights=dict(zip(names, each, strict=True)))
    for name in names:
        world.tell(QUEUE, *(world.new_submit(name) for _ in range(4 + len(picks))))
    counts = [Counter(task.user for task in world.table)]
    for pick in picks:
        inside = world.inside()
        world.end(inside[pick % len(inside)].id)
        counts.append(Counter(task.user for task in world.table))
    for f in range(len(each)):
        for g in range(f):
            lags = [count[names[f]] / each[f] - count[names[g]] / each[g] for count in counts]
            assert max(lags) - min(lags) <= 1 / each[f] + 1 / each[g] + 1e-9


@given(st.lists(weights, min_size=2, max_size=4), st.lists(st.integers(0, 2), max_size=40))
def test_those_who_wait_are_admitted_in_proportion_to_their_weights(each: list[float], picks: list[int]) -> None:
    check_admission_bound(each, picks)


def equal_charge(self: WaitingRoom, user: str, let_in: Any = WaitingRoom.let_in) -> Any:
    weigh, self._weight = self._weight, lambda user: 1.0
    try:
        return let_in(self, user)
    finally:
        self._weight = weigh


@pytest.mark.parametrize("bug", [WaitingRoom.turn_away, equal_charge], ids=["no charge", "the same charge for all"])
def test_the_property_of_proportions_finds(bug: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WaitingRoom, "let_in", bug)
    with pytest.raises(AssertionError):
        quickly(st.lists(weights, min_size=2, max_size=4), st.lists(st.integers(0, 2), max_size=40))(
            check_admission_bound
        )


def test_nobody_banks_credit_while_held_back_by_a_bound_of_its_own() -> None:
    world = waiting_world(admitted_max=9, admission_share=None, admitted_per_user_max=3)
    for user in ("alice", "bob", "carol"):
        world.tell(QUEUE, *(world.new_submit(user) for _ in range(30)))
    order = [task.user for task in sorted(world.table, key=lambda task: task.sequence)]
    for _ in range(8):
        for user in ("bob", "carol"):
            world.end(world.pending(user)[0].id)
    world.end(world.pending("alice")[0].id)
    later = [task.user for task in sorted(world.table, key=lambda task: task.sequence)][len(order) :]
    assert later == ["bob", "carol"] * 8 + ["alice"]
    tags = {key: tag for key, tag in world.notes().items() if key.startswith("wait/tag/")}
    assert max(tags.values()) - min(tags.values()) <= 1.0, "eight turns behind are forgiven and forgotten"


def test_letting_one_in_looks_at_few_however_many_are_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world = waiting_world(admitted_max=2_001, admission_share=8.0)
    names = [f"user/{number}" for number in range(2_000)]
    world.tell(QUEUE, *(world.new_submit(name) for name in names))
    world.tell(QUEUE, *(world.new_submit(name) for name in names))
    assert len(world.inside()) == 2_000, "the last place is kept from all who have one"
    asked = Counter[str]()

    def counted(self: Door, user: str, needs: Any = Door.needs) -> Any:
        asked[user] += 1
        return needs(self, user)

    monkeypatch.setattr(Door, "needs", counted)
    world.host.restart(QUEUE)
    asked.clear()
    for task in world.inside()[:100]:
        world.end(task.id)
    assert len(world.inside()) >= 2_000
    assert asked.total() <= 100 * 8
