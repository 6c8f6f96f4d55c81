"""Pushing out: whose task makes room at a full door, against a plain model and in particular."""

from collections import Counter
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from actors import (
    Cause,
    Notes,
    Status,
    Table,
    Task,
    moves,
)
from actors.actor import Effects
from actors.door import Door
from actors.messages import (
    QUEUE,
    Accepted,
    Drop,
    Enqueue,
    Failed,
    NothingDropped,
    SetWeight,
    Submit,
    Wake,
)
from actors.pushout import Pushout
from actors.queue import Queue
from actors.shard import Shard
from actors.trace import DeadLettered
from tests.doorway import CLIENT, DRAW, KIND, QUICK, WORKER, World
from tests.test_waiting import DoorMachine

# Against a plain model


class DropMachine(DoorMachine):
    """The same at a door where the oldest task of whoever has most makes room."""

    options: ClassVar[list[dict[str, Any]]] = [*DoorMachine.options, {"admitted_max": 3, "admission_share": None}]
    when_full = "drop_oldest"

    def settle(self) -> None:
        """One after the other, once nothing is under way."""
        model = self.model
        model.let_all_in()
        while (user := model.first(model.lines)) is not None:
            if (victim := model.victim(user)) is None:
                model.turn_away(user)
            else:
                model.drop(victim)
                if model.may_replace(user):
                    model.let_in(user)
            model.let_all_in()

    @invariant()
    def nobody_is_left_waiting(self) -> None:
        if self.world is not None:
            assert not self.model.lines


def test_tasks_are_pushed_out_as_the_model_pushes_them_out() -> None:
    run_state_machine_as_test(DropMachine, settings=settings(stateful_step_count=30))


def stale_pick(self: Pushout) -> str | None:
    """Trusts entries that are too high."""
    first = self._most.first()
    return first[1] if first is not None and self._pending(first[1]) else None


def hasty(self: Queue, now: float, effects: Effects, quiet: bool, let_in: Any = Queue._let_in) -> None:
    """Decides whom to ask while tasks are on their way."""
    let_in(self, now, effects, True)


PLANTED: dict[str, tuple[Any, str, Any]] = {
    "entries that are too high are believed": (Pushout, "_pick", stale_pick),
    "tasks under way are not waited for": (Queue, "_let_in", hasty),
    "any drop will do": (Door, "replaces_its_own", lambda self, user: False),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_the_machine_finds_a_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, replacement = PLANTED[bug]
    monkeypatch.setattr(owner, name, replacement)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(DropMachine, settings=QUICK)


# In particular


def dropping_world(admission_share: float | None = None, **options: Any) -> World:
    return World(when_full="drop_oldest", admission_share=admission_share, **options)


def test_the_oldest_task_of_whoever_has_most_makes_room_and_is_a_dead_letter() -> None:
    world = dropping_world(admitted_max=4)
    many = [world.submit("bob") for _ in range(3)]
    world.submit("alice")
    world.pass_time(5.0)
    assert isinstance(world.answer(world.submit("carol")), Accepted)
    dropped = world.table[many[0]]
    assert (dropped.status, dropped.cause, dropped.completed_at) == (Status.FAILED, Cause.DROPPED, 5.0)
    assert dropped.error == "dropped to make room: the queue was full"
    (letter,) = [event for event in world.events if isinstance(event, DeadLettered)]
    assert letter == DeadLettered(5.0, "bob#1", 0, None, 0.0, "dropped", "dropped", dropped.error)
    assert world.held() == {"alice": 1, "bob": 2, "carol": 1}


def test_a_delayed_task_can_be_the_oldest_and_a_running_one_cannot() -> None:
    world = dropping_world(admitted_max=3)
    running, delayed, ready = world.submit(), world.submit(run_after=50.0), world.submit()
    assert world.start("alice") is not None
    world.submit()
    assert world.table[ready].cause is Cause.DROPPED, "it waits since earlier than the delayed one will"
    world.submit(run_after=60.0)
    world.submit(run_after=70.0)
    causes = {task.id: task.cause for task in world.table}
    assert (causes[running], causes[delayed]) == (None, Cause.DROPPED)


def test_weight_counts_for_who_has_most_and_names_break_ties() -> None:
    world = dropping_world(admitted_max=6, weights={"bob": 4.0})
    for user in ("bob", "bob", "bob", "carol", "alice", "alice"):
        world.submit(user)
    world.submit("dave")
    assert [task.user for task in world.table.dead_letters()] == ["alice"]
    world.submit("dave")
    assert [task.user for task in world.table.dead_letters()] == ["alice", "alice"]
    world.tell(QUEUE, SetWeight("bob", 1.0))
    world.submit("dave")
    assert [task.user for task in world.table.dead_letters()] == ["alice", "alice", "bob"]


def check_that_what_waits_again_can_go() -> None:
    world = dropping_world(admitted_max=1)
    first = world.submit("alice")
    run = world.start("alice")
    assert run is not None
    assert world.error(world.submit("bob")) == "admitted tasks must be at most 1, got one more"
    world.finish(run, "released")
    assert isinstance(world.answer(world.submit("bob")), Accepted)
    assert world.table[first].cause is Cause.DROPPED


def test_a_task_that_ran_cannot_be_pushed_out_and_one_that_waits_again_can() -> None:
    check_that_what_waits_again_can_go()


settle = Shard._settle


def silent_shards(self: Shard, task: Task, outcome: str, now: float, effects: Effects, ended: bool) -> float:
    """Tells the queue of ends only, as if it could see for itself that a task waits again."""
    used = settle(self, task, outcome, now, effects, ended)
    if not ended:
        effects.sends = [(receiver, sent) for receiver, sent in effects.sends if receiver != QUEUE]
    return used


def test_a_shard_that_does_not_say_that_a_task_waits_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shard, "_settle", silent_shards)
    with pytest.raises(AssertionError):
        check_that_what_waits_again_can_go()


def test_a_user_at_its_own_bound_or_share_replaces_its_own_task_and_nobody_elses() -> None:
    bounded = dropping_world(admitted_per_user_max=2)
    shared = dropping_world(admitted_max=10, admission_share=8.0)
    for world, fits in ((bounded, 2), (shared, 8)):
        world.tell(QUEUE, *(world.new_submit("zoe") for _ in range(1)))
        mine = [world.submit("alice") for _ in range(fits)]
        before = len(world.inside())
        extra = world.submit("alice")
        assert isinstance(world.answer(extra), Accepted)
        assert [task.id for task in world.table.dead_letters()] == [mine[0]]
        assert len(world.inside()) == before
        while world.start("alice") is not None:
            pass
        assert "admitted tasks of 'alice' must be at most" in world.error(world.submit("alice"))


def test_a_burst_that_has_not_arrived_yet_costs_nobody_else_a_task() -> None:
    world = dropping_world(admitted_max=4)
    light = world.submit("bob")
    burst = [world.new_submit("alice") for _ in range(9)]
    world.tell(QUEUE, *burst)
    assert world.table[light].status is Status.PENDING
    assert world.held() == {"alice": 3, "bob": 1}
    assert [task.id for task in world.table.dead_letters()] == [submit.id for submit in burst[:6]]


class Core:
    """A queue without a host, and a table that is told what shards would have done."""

    def __init__(self, **options: Any) -> None:
        self.table = Table()
        self.queue = Queue(dropping_world(**options).settings, Notes(QUEUE), self.table)

    def tell(self, message: Any) -> list[Any]:
        effects = self.queue.handle(message, 0.0, DRAW)
        for _, sent in effects.sends:
            if isinstance(sent, Enqueue):
                self.table.apply(sent.task)
        return effects.sends


def test_who_has_nothing_to_drop_is_not_asked_again_and_the_next_is() -> None:
    core = Core(admitted_max=4)
    for number, user in enumerate(("alice", "alice", "alice", "bob")):
        core.tell(Submit(id=f"t{number}", user=user, kind=KIND))
    for newcomer in ("carol", "dave"):
        assert core.tell(Submit(id=newcomer, user=newcomer, kind=KIND, reply_to=CLIENT)) == [], "not before it is quiet"
    assert core.tell(Wake()) == [("shard/alice", Drop())]
    assert core.tell(Wake()) == [], "one drop at a time"
    core.tell(NothingDropped("carol"))
    assert core.tell(Wake()) == [], "who was not asked has nothing to say"
    core.tell(NothingDropped("alice"))
    assert core.tell(Wake()) == [("shard/bob", Drop())]
    core.tell(Failed("shard/bob", Drop(), "boom"))
    (receiver, refused), again = core.tell(Wake())
    assert (receiver, refused.submitted_id) == (CLIENT, "carol")
    assert str(refused.error) == "admitted tasks must be at most 4, got one more"
    assert again == ("shard/alice", Drop()), "for the next newcomer everybody may be asked"


def test_with_nobody_pending_a_newcomer_is_refused_and_so_is_whoever_joined_it() -> None:
    core = Core(admitted_max=2)
    for user in ("alice", "bob"):
        core.tell(Submit(id=user, user=user, kind=KIND))
        core.table.apply(moves.claim(core.table[user], WORKER, 60.0, 0.0))
    for name in ("x", "y"):
        assert core.tell(Submit(id=name, user="carol", kind=KIND, idempotency_key="k", reply_to=CLIENT)) == []
    refusals = core.tell(Wake())
    assert [(receiver, refused.submitted_id) for receiver, refused in refusals] == [(CLIENT, "x"), (CLIENT, "y")]
    assert {str(refused.error) for _, refused in refusals} == {"admitted tasks must be at most 2, got one more"}


def test_a_shard_that_has_nothing_says_so_until_it_is_heard() -> None:
    world = dropping_world(admitted_max=4)
    shard = world.shard("alice")
    assert shard.handle(Drop(), 0.0, DRAW).sends == [(QUEUE, NothingDropped("alice"))]
    again = shard.handle(Failed(QUEUE, NothingDropped("alice"), "boom"), 0.0, DRAW)
    assert again.sends == [(QUEUE, NothingDropped("alice"))]
    assert World().shard("alice").handle(Drop(), 0.0, DRAW).sends == [(QUEUE, NothingDropped("alice"))]


def test_picking_the_one_with_most_looks_at_few_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    world = dropping_world(admitted_max=2_000)
    world.tell(QUEUE, *(world.new_submit(f"user/{number % 1_000}") for number in range(2_000)))
    looked = Counter[str]()

    def counted(self: Table, user: str, pending: Any = Table.pending) -> Any:
        looked[user] += 1
        return pending(self, user)

    monkeypatch.setattr(Table, "pending", counted)
    for number in range(200):
        world.submit(f"newcomer/{number}")
    assert len(world.table.dead_letters()) == 200
    assert looked.total() <= 200 * 20
