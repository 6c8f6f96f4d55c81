"""The bounds at the door: who may enter, who waits in which order, who is pushed out, and that a restart changes none of it."""

import math
from collections import Counter, deque
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, ClassVar

import attrs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from actors import Cause, InvalidConfig, InvalidTask, Notes, QueueFull, Settings, Status, Table, Task
from actors.actor import Draw, Effects, keyed_draw
from actors.config import make_converter, structure
from actors.door import Door
from actors.host import Host
from actors.ladder import Ladder
from actors.messages import (
    QUEUE,
    SCHEDULER,
    SUPERVISOR,
    Accepted,
    Cancel,
    Enqueue,
    Finished,
    Grant,
    Refused,
    Requeue,
    Run,
    Settled,
    SetWeight,
    Submit,
    shard_address,
)
from actors.queue import Queue
from actors.shard import Shard
from actors.trace import Event

CLIENT, WORKER, KIND = "client/1", "worker/1", "crawl"
USERS = ("alice", "bob", "carol", "tenant/dave")
DRAW = keyed_draw(7)
FOR_EVER: dict[str, Any] = {
    "keep_completed_seconds": None,
    "keep_failed_seconds": None,
    "keep_cancelled_seconds": None,
}


class Sink:
    """An actor that keeps what it is sent."""

    passive = False

    def __init__(self) -> None:
        self.got: list[Any] = []

    def start(self, now: float) -> Effects:
        return Effects()

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        self.got.append(message)
        return Effects()


class Restarting:
    """Rebuilds the queue before every message, whoever it is for, if told to."""

    def __init__(self, on: bool) -> None:
        self.on = on
        self.host: Host | None = None

    def envelopes(self, envelope: Any, now: float) -> list[Any]:
        if self.on and self.host is not None:
            self.host.restart(QUEUE)
        return [(0.0, envelope)]

    def timer(self, address: str, at: float, now: float) -> float:
        return at


class World:
    """A queue and real shards on a host; scheduler, supervisor, worker and client only listen."""

    def __init__(self, *, restarting: bool = False, **options: Any) -> None:
        self.settings = Settings(**FOR_EVER | options)
        self.table = Table()
        self.events: list[Event] = []
        self.gate = Restarting(restarting)
        self.host = Host(self.table, DRAW, observe=self.events.append, gate=self.gate)
        self.gate.host = self.host
        self.sinks = {address: Sink() for address in (SCHEDULER, SUPERVISOR, WORKER, CLIENT)}
        for address, sink in self.sinks.items():
            self.host.spawn(address, lambda sink=sink: sink)
        self.host.on_demand("shard", self.shard)
        self.host.spawn(QUEUE, self.queue)
        self.submitted = 0
        self.grants = 0

    def shard(self, user: str) -> Shard:
        address = shard_address(user)
        return Shard(user, self.settings, self.table, Notes(address, self.table.notes(address)))

    def queue(self) -> Queue:
        """The notes pass through JSON, as they would through a store."""
        saved = msgspec.json.decode(msgspec.json.encode(dict(self.table.notes(QUEUE))))
        return Queue(self.settings, Notes(QUEUE, saved), self.table)

    # What happens

    def settle(self) -> None:
        """Until nothing is under way and no timer is due."""
        host = self.host
        while True:
            assert host.drain(100_000), "no end"
            if self.gate.on:
                host.restart(QUEUE)
            if host.next_timer() > host.now:
                return
            host.fire()

    def pass_time(self, seconds: float) -> None:
        """Every timer on the way fires at its own time."""
        until = self.host.now + seconds
        while (at := self.host.next_timer()) <= until:
            self.host.now = max(at, self.host.now)
            self.host.fire()
            self.settle()
        self.host.now = until

    def tell(self, receiver: str, *messages: Any) -> None:
        for message in messages:
            self.host.post(CLIENT, receiver, message)
        self.settle()

    def new_submit(self, user: str = "alice", **changes: Any) -> Submit:
        self.submitted += 1
        return Submit(**{"id": f"t{self.submitted}", "user": user, "kind": KIND, "reply_to": CLIENT} | changes)

    def submit(self, user: str = "alice", **changes: Any) -> str:
        submit = self.new_submit(user, **changes)
        self.tell(QUEUE, submit)
        return submit.id

    def start(self, user: str) -> Run | None:
        """Let a worker have the user's next task, if there is one that may start."""
        self.grants += 1
        before = len(self.sinks[WORKER].got)
        self.tell(shard_address(user), Grant(self.grants, WORKER, frozenset({KIND})))
        runs = self.sinks[WORKER].got[before:]
        return runs[0] if runs else None

    def finish(self, run: Run, outcome: Any = "completed", give_up: bool = False) -> None:
        report = Finished(task_id=run.task_id, token=run.token, worker_id=WORKER, outcome=outcome, give_up=give_up)
        self.tell(shard_address(run.user), report)

    def end(self, task_id: str) -> None:
        self.tell(shard_address(self.table[task_id].user), Cancel(task_id))

    # What came of it

    def notes(self) -> dict[str, Any]:
        return dict(self.table.notes(QUEUE))

    def answers(self) -> list[Any]:
        return [message for message in self.sinks[CLIENT].got if isinstance(message, (Accepted, Refused))]

    def answer(self, submitted_id: str) -> Any:
        found = [message for message in self.answers() if message.submitted_id == submitted_id]
        assert len(found) <= 1, "nobody is answered twice"
        return found[0] if found else None

    def error(self, submitted_id: str) -> str:
        answer = self.answer(submitted_id)
        assert isinstance(answer, Refused) and isinstance(answer.error, QueueFull)
        return str(answer.error)

    def inside(self) -> list[Task]:
        return sorted((task for task in self.table if not task.status.terminal), key=lambda task: task.sequence)

    def held(self) -> dict[str, int]:
        return dict(Counter(task.user for task in self.inside()))

    def pending(self, user: str) -> list[Task]:
        waiting = [task for task in self.inside() if task.user == user and task.status is Status.PENDING]
        return sorted(waiting, key=lambda task: (task.order_at, task.sequence))


def only(found: Iterable[Any]) -> Any:
    (item,) = found
    return item


# Who may enter


def book_rule(settings: Settings, held: dict[str, int], user: str) -> bool:
    """The rule as it is written down, with exact numbers."""
    mine, admitted = held.get(user, 0), sum(held.values())
    bound, user_bound, share = settings.admitted_max, settings.admitted_per_user_max, settings.admission_share
    if user_bound is not None and mine + 1 > user_bound:
        return False
    if bound is None:
        return True
    if admitted + 1 > bound:
        return False
    return mine == 0 or share is None or mine + 1 <= Fraction(str(share)) * (bound - admitted - 1)


shares = st.sampled_from([0.001, 0.1, 0.3, 0.5, 1, 1.5, 2.7, 8.0, 100.0])
bounds = st.none() | st.integers(0, 30)


@given(bounds, bounds, st.none() | shares, st.lists(st.tuples(st.sampled_from(USERS), st.booleans()), max_size=60))
def test_the_door_decides_as_the_rule_is_written(
    bound: int | None, user_bound: int | None, share: float | None, steps: list[tuple[str, bool]]
) -> None:
    rules = Settings(admitted_max=bound, admitted_per_user_max=user_bound, admission_share=share)
    door = Door(rules, Notes(QUEUE))
    held: dict[str, int] = {}
    for user, comes in steps:
        for name in USERS:
            assert door.may_enter(name) == (door.refusal(name) is None) == book_rule(rules, held, name)
        if comes and door.may_enter(user):
            held[user] = held.get(user, 0) + 1
            door.count(user, +1)
        elif not comes and held.get(user):
            held[user] -= 1
            door.count(user, -1)
        assert (door.admitted, door.users()) == (sum(held.values()), sorted(name for name in held if held[name]))


@given(st.integers(0, 2000), shares)
def test_a_lone_user_fills_its_share_of_the_bound_and_no_more(bound: int, share: float) -> None:
    door = Door(Settings(admitted_max=bound, admission_share=share), Notes(QUEUE))
    while door.may_enter("alice"):
        door.count("alice", +1)
    exact = Fraction(str(share))
    assert door.admitted == max(math.floor(exact / (1 + exact) * bound), min(bound, 1))


@given(st.integers(0, 500))
def test_a_lone_user_fills_eight_ninths_by_default_and_everything_without_a_share(bound: int) -> None:
    for share, filled in ((Settings().admission_share, 8 * bound // 9 or min(bound, 1)), (None, bound)):
        door = Door(Settings(admitted_max=bound, admission_share=share), Notes(QUEUE))
        while door.may_enter("alice"):
            door.count("alice", +1)
        assert door.admitted == filled


class Floods:
    """k users who submit for ever, and a light one with one task at a time, at a queue that refuses."""

    def __init__(self, floods: int, bound: int) -> None:
        self.queue = Queue(Settings(admitted_max=bound), Notes(QUEUE))
        self.names = [f"flood/{number}" for number in range(floods)]
        self.held = dict.fromkeys([*self.names, "light"], 0)
        self.bound = bound

    def submit(self, user: str) -> bool:
        effects = self.queue.handle(Submit(id="t", user=user, kind=KIND, reply_to=CLIENT), 0.0, DRAW)
        entered = isinstance(only(effects.sends)[1], Enqueue)
        if entered and self.held[user]:
            assert sum(self.held.values()) + 1 < self.bound, "the last place is for who has none"
        self.held[user] += entered
        return entered

    def end(self, user: str) -> None:
        self.held[user] -= 1
        self.queue.handle(Settled(user, KIND, "t", WORKER, 1.0, 1.0, "completed", True), 0.0, DRAW)

    def play(self, steps: Iterable[tuple[str, int]]) -> None:
        for name in self.names:
            assert self.submit(name)
        for action, which in steps:
            flood = self.names[which % len(self.names)]
            if action == "submit":
                self.submit(flood)
            elif action == "end and submit":
                self.end(flood)
                assert self.submit(flood), "there is room for what just ended"
            elif action == "end" and self.held[flood] > 1:
                self.end(flood)
            elif action == "light comes" and not self.held["light"]:
                assert self.submit("light"), f"the light user was refused: {self.held} of {self.bound}"
            elif action == "light goes" and self.held["light"]:
                self.end("light")


flood_steps = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "submit", "end", "end and submit", "light comes", "light goes"]),
        st.integers(0, 9),
    ),
    max_size=300,
)


@given(st.integers(1, 5), st.integers(0, 9), flood_steps)
def test_floods_leave_room_for_a_light_user_whatever_the_interleaving(
    floods: int, more: int, steps: list[tuple[str, int]]
) -> None:
    Floods(floods, 1 + 8 * floods + more).play(steps)


NINE_AND_EIGHT = [*[("submit", 1)] * 6, *[("submit", 0)] * 8, ("submit", 1), ("light comes", 0)]
"""To 8 and 7 of 17, then one more for each."""


def needs_counted_before(self: Door, user: str) -> int:
    """As if the room still free were counted before the newcomer takes its place."""
    held = self.held(user)
    return 1 if held == 0 else max(1, math.ceil((held + 1) / 8))


def test_two_floods_of_nine_and_eight_would_fill_seventeen_if_room_were_counted_before_the_newcomer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Floods(2, 17).play(NINE_AND_EIGHT)
    monkeypatch.setattr(Door, "needs", needs_counted_before)
    monkeypatch.setattr(Floods, "submit", lambda self, user: unchecked_submit(self, user))
    world = Floods(2, 17)
    with pytest.raises(AssertionError, match="the light user was refused"):
        world.play(NINE_AND_EIGHT)
    assert world.held == {"flood/0": 9, "flood/1": 8, "light": 0}


def unchecked_submit(world: Floods, user: str) -> bool:
    effects = world.queue.handle(Submit(id="t", user=user, kind=KIND, reply_to=CLIENT), 0.0, DRAW)
    entered = isinstance(only(effects.sends)[1], Enqueue)
    world.held[user] += entered
    return entered


def test_a_refusal_names_the_bound_and_the_value() -> None:
    world = World(admitted_max=10, admitted_per_user_max=3)
    ids = [world.submit("alice") for _ in range(4)]
    assert world.error(ids[3]) == "admitted tasks of 'alice' must be at most 3, got one more"
    shared = World(admitted_max=10)
    ids = [shared.submit("alice") for _ in range(9)]
    assert shared.error(ids[8]) == "admitted tasks of 'alice' must be at most 8 times the places still free (1), got 9"
    for user in ("bob", "carol"):
        assert isinstance(shared.answer(shared.submit(user)), Accepted)
    assert shared.error(shared.submit("dave")) == "admitted tasks must be at most 10, got one more"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"admitted_max": 0}, "admitted tasks must be at most 0, got one more"),
        ({"admitted_per_user_max": 0}, "admitted tasks of 'alice' must be at most 0, got one more"),
    ],
)
def test_a_bound_of_zero_means_zero(options: dict[str, Any], said: str) -> None:
    world = World(**options)
    assert world.error(world.submit()) == said


def test_without_a_bound_in_all_there_is_no_share() -> None:
    world = World(admission_share=0.001)
    assert all(isinstance(world.answer(world.submit()), Accepted) for _ in range(50))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"admitted_max": -1}, "admitted_max must be a whole number >= 0, got -1"),
        ({"admitted_per_user_max": 1.5}, "admitted_per_user_max must be a whole number, got 1.5"),
        ({"admitted_per_user_max": -1}, "admitted_per_user_max must be a whole number >= 0, got -1"),
        ({"admission_share": 0.0}, "admission_share must be a finite number > 0, got 0.0"),
        ({"admission_share": math.inf}, "admission_share must be a finite number > 0, got inf"),
        ({"when_full": "dropoldest"}, "when_full must be one of reject, wait, drop_oldest, got 'dropoldest'"),
        ({"keep_completed_seconds": -1.0}, "keep_completed_seconds must be a finite number >= 0, got -1.0"),
        ({"keep_failed_seconds": math.nan}, "keep_failed_seconds must be a finite number >= 0, got nan"),
        ({"keep_cancelled_seconds": "1h"}, "keep_cancelled_seconds must be a number, got '1h'"),
    ],
    ids=str,
)
def test_a_bad_setting_is_refused_with_key_constraint_and_value(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        structure(make_converter(), options, Settings)
    assert str(caught.value) == said


# The ladder


@given(st.integers(1, 40), st.data())
def test_the_ladder_finds_the_smallest_key_up_to_a_rung(rungs: int, data: st.DataObject) -> None:
    ladder = Ladder(rungs)
    places: dict[str, tuple[float, int]] = {}
    for _ in range(data.draw(st.integers(0, 60))):
        name = data.draw(st.sampled_from(["a", "b", "c", "d", "e"]))
        if data.draw(st.integers(0, 3)):
            places[name] = (data.draw(st.integers(0, 5)) / 2, data.draw(st.integers(0, rungs - 1)))
            ladder.put(name, places[name][1], places[name][0])
        else:
            places.pop(name, None)
            ladder.discard(name)
        assert len(ladder) == len(places)
        for rung_max in range(-1, rungs + 1):
            reached = [(key, name) for name, (key, rung) in places.items() if rung <= rung_max]
            assert ladder.first(rung_max) == (min(reached)[1] if reached else None)


# Waiting and pushing out, against a plain model


@attrs.define
class Waiting:
    """A submit that waits, and those that joined it."""

    id: str
    key: str | None
    joined: list[str] = attrs.Factory(list)


class Model:
    """Everything by the book: every tag is kept while anybody waits, every pick looks at everybody."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.weights: dict[str, float] = {}
        self.held: dict[str, int] = {}
        self.keys: dict[tuple[str, str], str] = {}
        self.lines: dict[str, deque[Waiting]] = {}
        self.tags: dict[str, float] = {}
        self.virtual = 0.0
        self.entered: list[str] = []
        """The ids of admitted tasks, in order."""
        self.accepted: dict[str, str] = {}
        self.refused: set[str] = set()
        self.pending: dict[str, list[tuple[float, int, str]]] = {user: [] for user in USERS}
        """When each pending task of a user was admitted, as what number, and its id."""
        self.places: dict[str, tuple[float, int, str]] = {}
        self.dropped: list[str] = []
        self.now = 0.0

    def weight(self, user: str) -> float:
        return self.weights.get(user, 1.0)

    def may_enter(self, user: str) -> bool:
        return book_rule(self.settings, self.held, user)

    def submit(self, submit: Submit) -> None:
        user, key = submit.user, submit.idempotency_key
        if key is not None and (user, key) in self.keys:
            self.accepted[submit.id] = self.keys[user, key]
            return
        for waiting in self.lines.get(user, ()):
            if key is not None and waiting.key == key:
                waiting.joined.append(submit.id)
                return
        if user not in self.lines and self.may_enter(user):
            self.enter(user, Waiting(submit.id, key))
        elif self.settings.when_full == "reject":
            self.refused.add(submit.id)
        else:
            if user not in self.lines:
                self.lines[user] = deque()
                self.tags[user] = max(self.tags.get(user, 0.0), self.virtual)
            self.lines[user].append(Waiting(submit.id, key))

    def enter(self, user: str, waiting: Waiting) -> None:
        self.entered.append(waiting.id)
        self.held[user] = self.held.get(user, 0) + 1
        self.places[waiting.id] = (self.now, len(self.entered), waiting.id)
        self.pending[user].append(self.places[waiting.id])
        if waiting.key is not None:
            self.keys[user, waiting.key] = waiting.id
        for submitted_id in (waiting.id, *waiting.joined):
            self.accepted[submitted_id] = waiting.id

    def first(self, users: Iterable[str]) -> str | None:
        return min(users, key=lambda user: (self.tags[user], user), default=None)

    def take(self, user: str) -> Waiting:
        waiting = self.lines[user].popleft()
        if not self.lines[user]:
            del self.lines[user]
        return waiting

    def let_in(self, user: str) -> None:
        self.virtual = max(self.virtual, self.tags[user])
        self.tags[user] = self.virtual + 1 / self.weight(user)
        self.enter(user, self.take(user))
        self.end_busy_period()

    def end_busy_period(self) -> None:
        if not self.lines:
            self.tags, self.virtual = {}, 0.0

    def let_all_in(self) -> None:
        while (user := self.first(user for user in self.lines if self.may_enter(user))) is not None:
            self.let_in(user)

    def turn_away(self, user: str) -> None:
        waiting = self.take(user)
        self.refused.update((waiting.id, *waiting.joined))
        self.end_busy_period()

    def reweigh(self, user: str, weight: float) -> None:
        ahead = self.tags.get(user, 0.0) - self.virtual
        if ahead > 0:
            self.tags[user] = self.virtual + ahead * self.weight(user) / weight
        self.weights[user] = weight

    # What is pushed out

    def may_replace(self, user: str) -> bool:
        bound, user_bound = self.settings.admitted_max, self.settings.admitted_per_user_max
        in_all = bound is None or sum(self.held.values()) < bound
        return in_all and (user_bound is None or self.held.get(user, 0) < user_bound)

    def victim(self, user: str) -> str | None:
        bound, user_bound = self.settings.admitted_max, self.settings.admitted_per_user_max
        full = bound is not None and sum(self.held.values()) >= bound
        if not full or (user_bound is not None and self.held.get(user, 0) >= user_bound):
            return user if self.pending[user] else None
        having = [name for name in USERS if self.pending[name]]
        return min(having, key=lambda name: (-len(self.pending[name]) / self.weight(name), name), default=None)

    def drop(self, victim: str) -> None:
        oldest = min(self.pending[victim])
        self.pending[victim].remove(oldest)
        self.held[victim] -= 1
        self.dropped.append(oldest[2])


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

    def arrive(self, submits: list[Submit]) -> None:
        for submit in submits:
            self.model.submit(submit)
        self.settle()

    def settle(self) -> None:
        self.model.let_all_in()

    @precondition(lambda self: self.world is not None)
    @rule(submits=st.lists(st.tuples(st.sampled_from(USERS), st.sampled_from([None, None, "k"])), min_size=1, max_size=8))
    def submit(self, submits: list[tuple[str, str | None]]) -> None:
        """Together, so that they are all at the door before the first is in its shard."""
        world = self.here()
        messages = [world.new_submit(user, idempotency_key=key) for user, key in submits]
        self.arrive(messages)
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
        assert held == self.world.held()
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


class DropMachine(DoorMachine):
    """The same at a door where the oldest task of whoever has most makes room."""

    options: ClassVar[list[dict[str, Any]]] = [*DoorMachine.options, {"admitted_max": 3, "admission_share": None}]
    when_full = "drop_oldest"
    open: tuple[str, str] | None = None
    """For whom a task is to be dropped, and whose."""

    def arrive(self, submits: list[Submit]) -> None:
        """The first that finds no room has somebody asked at once, unless tasks are on their way; the rest waits."""
        before = len(self.model.entered)
        for submit in submits:
            self.model.submit(submit)
            if self.open is None and len(self.model.entered) == before:
                self.decide()
        self.settle()

    def decide(self) -> None:
        while self.open is None and (user := self.model.first(self.model.lines)) is not None:
            if (victim := self.model.victim(user)) is None:
                self.model.turn_away(user)
            else:
                self.open = (user, victim)

    def settle(self) -> None:
        while True:
            if self.open is not None:
                user, victim = self.open
                self.open = None
                self.model.drop(victim)
                if self.model.may_replace(user):
                    self.model.let_in(user)
            self.model.let_all_in()
            self.decide()
            if self.open is None:
                return

    @invariant()
    def nobody_is_left_waiting(self) -> None:
        if self.world is not None:
            assert not self.model.lines


class RejectMachine(DoorMachine):
    """The same at a door that refuses."""

    when_full = "reject"


MACHINES = [DoorMachine, DropMachine, RejectMachine]


@pytest.mark.parametrize("machine", MACHINES)
def test_the_door_does_what_the_model_does(machine: type[DoorMachine]) -> None:
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=30))
