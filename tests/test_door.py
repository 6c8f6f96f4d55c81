"""The bounds at the door: who may enter, who waits in which order, who is pushed out, and that a restart changes none of it."""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import attrs
import msgspec
import pytest
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from actors import (
    Cause,
    InvalidConfig,
    InvalidTask,
    Notes,
    Priority,
    QueueFull,
    RetryPolicy,
    Settings,
    Status,
    Table,
    Task,
    moves,
)
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
    Drop,
    Enqueue,
    Failed,
    Finished,
    Grant,
    Maintain,
    NothingDropped,
    Refused,
    Requeue,
    Run,
    Settled,
    SetWeight,
    Submit,
    Wake,
    shard_address,
)
from actors.pushout import Pushout
from actors.queue import Queue
from actors.shard import Shard
from actors.trace import DeadLettered, Event
from actors.waiting import WaitingRoom

CLIENT, WORKER, KIND = "client/1", "worker/1", "crawl"
USERS = ("alice", "bob", "carol", "tenant/dave")
DRAW = keyed_draw(7)
FOR_EVER: dict[str, Any] = {
    "keep_completed_seconds": None,
    "keep_failed_seconds": None,
    "keep_cancelled_seconds": None,
}


QUICK = settings(
    max_examples=300,
    stateful_step_count=40,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    verbosity=Verbosity.quiet,
)


def quickly(*strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], None]:
    """Try a check on many examples, up to the first that fails."""
    return lambda check: QUICK(given(*strategies)(check))()


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


def _same(sink: Sink) -> Sink:
    return sink


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
            self.host.spawn(address, partial(_same, sink))
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
    """k users who submit for ever, and a light one with one task at a time."""

    def __init__(self, floods: int, bound: int, when_full: str = "reject") -> None:
        self.queue = Queue(Settings(admitted_max=bound, when_full=when_full), Notes(QUEUE))
        self.names = [f"flood/{number}" for number in range(floods)]
        self.held = dict.fromkeys([*self.names, "light"], 0)
        self.bound = bound
        self.waits = when_full == "wait"

    def tell(self, message: Any) -> None:
        for _, sent in self.queue.handle(message, 0.0, DRAW).sends:
            if isinstance(sent, Enqueue):
                self.let_in(sent.task.user)

    def let_in(self, user: str) -> None:
        if self.held[user]:
            assert sum(self.held.values()) + 1 < self.bound, "the last place is for who has none"
        self.held[user] += 1

    def submit(self, user: str) -> bool:
        before = self.held[user]
        self.tell(Submit(id="t", user=user, kind=KIND, reply_to=CLIENT))
        return self.held[user] > before

    def end(self, user: str) -> None:
        self.held[user] -= 1
        self.tell(Settled(user, KIND, "t", WORKER, 1.0, 1.0, "completed", True))

    def play(self, steps: Iterable[tuple[str, int]]) -> None:
        for name in self.names:
            assert self.submit(name)
        for action, which in steps:
            flood = self.names[which % len(self.names)]
            if action == "submit":
                self.submit(flood)
            elif action == "submit all it can":
                while self.submit(flood):
                    pass
            elif action == "end and submit" and not self.waits:
                self.end(flood)
                self.submit(flood)
                assert self.held[flood], "there is a place for who has none"
            elif action == "end" and self.held[flood] > 1:
                self.end(flood)
            elif action == "light comes" and not self.held["light"]:
                assert self.submit("light"), f"the light user was refused: {self.held} of {self.bound}"
            elif action == "light goes" and self.held["light"]:
                self.end("light")


flood_steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["submit", "submit", "submit all it can", "end", "end and submit", "light comes", "light goes"]
        ),
        st.integers(0, 9),
    ),
    max_size=300,
)


@pytest.mark.parametrize("when_full", ["reject", "wait"])
@given(floods=st.integers(1, 5), more=st.integers(0, 9), steps=flood_steps)
def test_floods_leave_room_for_a_light_user_whatever_the_interleaving(
    when_full: str, floods: int, more: int, steps: list[tuple[str, int]]
) -> None:
    Floods(floods, 1 + 8 * floods + more, when_full).play(steps)


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
    world = Floods(2, 17)
    world.let_in = lambda user: world.held.update({user: world.held[user] + 1})  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="the light user was refused"):
        world.play(NINE_AND_EIGHT)
    assert world.held == {"flood/0": 9, "flood/1": 8, "light": 0}


def test_the_property_of_floods_finds_room_counted_before_the_newcomer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Door, "needs", needs_counted_before)
    with pytest.raises(AssertionError, match="the last place is for who has none"):
        quickly(st.integers(1, 3), flood_steps)(lambda floods, steps: Floods(floods, 1 + 8 * floods).play(steps))


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


class RejectMachine(DoorMachine):
    """The same at a door that refuses."""

    when_full = "reject"


MACHINES = [DoorMachine, DropMachine, RejectMachine]


@pytest.mark.parametrize("machine", MACHINES)
def test_the_door_does_what_the_model_does(machine: type[DoorMachine]) -> None:
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=30))


def stale_pick(self: Pushout) -> str | None:
    """Trusts entries that are too high."""
    first = self._most.first()
    return first[1] if first is not None and self._pending(first[1]) else None


def lone_let_in(self: Queue, now: float, effects: Effects, quiet: bool) -> None:
    """Lets in one for each that leaves, whoever else might fit."""
    if (user := self._room.first(self._door.free)) is not None:
        self._enter(user, now, effects)


def first_in_line(self: WaitingRoom, free: int) -> str | None:
    """By arrival."""
    able = [(line[0], user) for user, line in self._lines.items() if self._needs(user) <= free]
    return min(able)[1] if able else None


def head_only(self: WaitingRoom, free: int, first: Any = WaitingRoom.first) -> str | None:
    """Who is next and held back holds up the rest."""
    user: str | None = first(self, 10**6)
    return user if user is not None and self._needs(user) <= free else None


def hasty(self: Queue, now: float, effects: Effects, quiet: bool, let_in: Any = Queue._let_in) -> None:
    """Decides whom to ask while tasks are on their way."""
    let_in(self, now, effects, True)


PLANTED: dict[str, tuple[type[DoorMachine], Any, str, Any]] = {
    "who waits is not charged": (DoorMachine, WaitingRoom, "let_in", WaitingRoom.turn_away),
    "who waits enters by arrival": (DoorMachine, WaitingRoom, "first", first_in_line),
    "who is held back holds up the rest": (DoorMachine, WaitingRoom, "first", head_only),
    "a duplicate waits beside the first": (DoorMachine, WaitingRoom, "join", lambda self, submit: False),
    "weights are for ever": (DoorMachine, Queue, "_set_weight", lambda self, message: None),
    "one at a time enters": (DoorMachine, Queue, "_let_in", lone_let_in),
    "users are remembered for ever": (DoorMachine, WaitingRoom, "_forget_passed", lambda self: None),
    "the share is not kept": (RejectMachine, Door, "needs", lambda self, user: 1 if self._bound is not None else 0),
    "entries that are too high are believed": (DropMachine, Pushout, "_pick", stale_pick),
    "tasks under way are not waited for": (DropMachine, Queue, "_let_in", hasty),
    "any drop will do": (DropMachine, Door, "replaces_its_own", lambda self, user: False),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_the_machine_finds_a_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, owner, name, replacement = PLANTED[bug]
    monkeypatch.setattr(owner, name, replacement)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=QUICK)


# Restarts, and messages that cross


Step = tuple[Any, ...]
submits = st.tuples(
    st.just("submit"),
    st.sampled_from(USERS),
    st.sampled_from([None, None, "k"]),
    st.sampled_from([False, False, False, True]),
)
grants = st.tuples(st.just("grant"), st.sampled_from(USERS))
finishes = st.tuples(
    st.just("finish"),
    st.integers(0, 99),
    st.sampled_from(["completed", "completed", "failed", "released", "crashed"]),
    st.booleans(),
)
others = st.one_of(
    st.tuples(st.just("cancel"), st.integers(0, 99)),
    st.tuples(st.just("requeue"), st.integers(0, 99)),
    st.tuples(st.just("weigh"), st.sampled_from(USERS), st.sampled_from([0.5, 1.0, 3.0])),
    st.tuples(st.just("time"), st.sampled_from([0.5, 30.0])),
    st.tuples(st.just("maintain"), st.booleans()),
)
batches_of_steps = st.lists(
    st.lists(st.one_of(submits, submits, submits, grants, grants, finishes, finishes, others), min_size=2, max_size=8),
    min_size=1,
    max_size=25,
)
"""Each inner list is posted together, so that its messages cross those of the actors."""


def posted(world: World, step: Step) -> tuple[str, Any] | None:
    """Who is sent what in this step, if anybody."""
    action, *rest = step
    if action == "submit":
        user, key, later = rest
        run_after = world.host.now + 20.0 if later else None
        return QUEUE, world.new_submit(user, idempotency_key=key, run_after=run_after)
    if action == "grant":
        world.grants += 1
        return shard_address(rest[0]), Grant(world.grants, WORKER, frozenset({KIND}))
    if action == "weigh":
        return QUEUE, SetWeight(*rest)
    if action == "maintain":
        return QUEUE, Maintain(rest[0], CLIENT)
    wanted = {"cancel": Status.PENDING, "finish": Status.IN_PROGRESS, "requeue": Status.FAILED}[action]
    tasks = sorted((task for task in world.table if task.status is wanted), key=lambda task: task.sequence)
    if not tasks:
        return None
    task = tasks[rest[0] % len(tasks)]
    if action == "finish":
        outcome, give_up = rest[1:]
        report = Finished(task_id=task.id, token=task.token, worker_id=WORKER, outcome=outcome, give_up=give_up)
        return shard_address(task.user), report
    return shard_address(task.user), Cancel(task.id) if action == "cancel" else Requeue(task.id)


def play(world: World, batch: list[Step]) -> None:
    for step in batch:
        if step[0] == "time":
            world.settle()
            world.pass_time(step[1])
        elif (envelope := posted(world, step)) is not None:
            world.host.post(CLIENT, *envelope)
    world.settle()


def check_sane(world: World, requeues: bool) -> None:
    """Whatever crossed: nobody is answered twice, the counts are right, and the bound holds for all who came in."""
    answered = Counter(answer.submitted_id for answer in world.answers())
    assert not answered or max(answered.values()) == 1
    notes = world.notes()
    held = {key.removeprefix("held/"): count for key, count in notes.items() if key.startswith("held/")}
    assert held == world.held()
    bound = world.settings.admitted_max
    assert requeues or bound is None or len(world.inside()) <= bound
    if world.settings.when_full != "wait":
        assert len(answered) == world.submitted, "everybody is answered"


def check_restarts(options: dict[str, Any], batches: list[list[Step]]) -> None:
    """A queue that is rebuilt from its notes before every message does all that one does that never was."""
    plain, restarting = World(**options), World(restarting=True, **options)
    requeues = False
    for batch in batches:
        for world in (plain, restarting):
            play(world, batch)
        requeues |= any(step[0] == "requeue" for step in batch)
        check_sane(plain, requeues)
        assert restarting.events == plain.events
        assert repr(restarting.sinks[CLIENT].got) == repr(plain.sinks[CLIENT].got)
        assert list(restarting.table) == list(plain.table)
        assert restarting.notes() == plain.notes()
        assert restarting.host.next_timer() == plain.host.next_timer()


doors = st.fixed_dictionaries(
    {
        "when_full": st.sampled_from(["reject", "wait", "drop_oldest", "drop_oldest"]),
        "admitted_max": st.sampled_from([None, 0, 2, 3, 4, 5, 9]),
        "admitted_per_user_max": st.sampled_from([None, None, 2]),
        "admission_share": st.sampled_from([None, 0.5, 8.0]),
        "keep_completed_seconds": st.sampled_from([None, 0.0, 20.0]),
        "keep_failed_seconds": st.sampled_from([None, 40.0]),
    }
)


@given(doors, batches_of_steps)
def test_a_restart_between_any_two_messages_changes_nothing(options: dict[str, Any], batches: list[list[Step]]) -> None:
    check_restarts(options, batches)


def in_memory_tags(self: WaitingRoom, user: str, tag: float) -> None:
    self._tags[user] = tag


def in_memory_drops(self: Pushout, newcomer: str | None, victim: str | None, tried: list[str]) -> None:
    self.newcomer, self.victim, self._tried = newcomer, victim, tried


def in_memory_counts(self: Door, user: str, difference: int) -> None:
    self._held[user] = self._held.get(user, 0) + difference
    self.admitted += difference


def in_memory_joins(self: WaitingRoom, submit: Submit, join: Any = WaitingRoom.join) -> bool:
    """Keeps who joined where the next restart does not find it."""
    before = self._notes._written.copy()
    joined: bool = join(self, submit)
    self._notes._written.clear()
    self._notes._written.update(before)
    return joined


def no_timer(self: Queue, now: float) -> Effects:
    return Effects()


FORGOTTEN: dict[str, tuple[Any, str, Any]] = {
    "tags": (WaitingRoom, "_set_tag", in_memory_tags),
    "drops": (Pushout, "_note", in_memory_drops),
    "counts": (Door, "count", in_memory_counts),
    "weights": (Door, "set_weight", lambda self, user, weight: self._weights.update({user: weight})),
    "those who joined": (WaitingRoom, "join", in_memory_joins),
    "timers": (Queue, "start", no_timer),
}


@pytest.mark.parametrize("what", FORGOTTEN)
def test_the_property_of_restarts_finds_what_is_forgotten(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, replacement = FORGOTTEN[what]
    monkeypatch.setattr(owner, name, replacement)
    # A queue that cannot make sense of its notes crashes instead, which is as good.
    with pytest.raises((AssertionError, KeyError)):
        quickly(doors, batches_of_steps)(check_restarts)


# In particular


def waiting_world(admitted_max: int = 1, **options: Any) -> World:
    return World(when_full="wait", admitted_max=admitted_max, **options)


def dropping_world(admission_share: float | None = None, **options: Any) -> World:
    return World(when_full="drop_oldest", admission_share=admission_share, **options)


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
