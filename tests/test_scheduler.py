"""The scheduler's core against a plain, slow model of who should be granted what, restarts included."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from actors import SHARING, Noted, Notes, Settings, Table, Task, moves
from actors.actor import Effects, keyed_draw
from actors.limits import Limit
from actors.messages import (
    SCHEDULER,
    Answered,
    Busy,
    Declined,
    Failed,
    Grant,
    Granted,
    Head,
    Idle,
    Pause,
    Ready,
    Resume,
    Resync,
    SetLimit,
    Settled,
    SetWeight,
    Wake,
    WorkerClass,
)
from actors.policies.fair import FairAccount
from actors.scheduler import Scheduler
from actors.trace import Reweighted

USERS = ("alice", "bob", "carol")
WEIGHTS = {"alice": 1.0, "bob": 3.0, "carol": 0.5}
CLASSES = (WorkerClass(frozenset({"crawl"})), WorkerClass(frozenset({"crawl", "mail"})))
WORKERS = {f"worker/{number}": CLASSES[number % 2] for number in range(1, 5)}
DRAW = keyed_draw(7)


class FairModel:
    """Start-time fair queueing by the book: every tag is kept for ever and every pick looks at everybody."""

    def __init__(self) -> None:
        self.tags = dict.fromkeys(USERS, 0.0)
        self.weights = dict(WEIGHTS)
        self.virtual = 0.0

    def join(self, user: str) -> None:
        self.tags[user] = max(self.tags[user], self.virtual)

    def key(self, user: str, waiting: list[Head]) -> Any:
        return self.tags[user]

    def charge(self, user: str, cost: float) -> None:
        self.virtual = max(self.virtual, self.tags[user])
        self.tags[user] += cost / self.weights[user]

    def correct(self, user: str, difference: float) -> None:
        self.tags[user] += difference / self.weights[user]

    def reweigh(self, user: str, weight: float) -> None:
        before, self.weights[user] = self.weights[user], weight
        self.tags[user] = self.virtual + (self.tags[user] - self.virtual) * before / weight


class TurnModel:
    """A plain list of whose turn it is."""

    def __init__(self) -> None:
        self.turns: list[str] = []

    def join(self, user: str) -> None:
        self.turns = [*(name for name in self.turns if name != user), user]

    def key(self, user: str, waiting: list[Head]) -> Any:
        return self.turns.index(user)

    def charge(self, user: str, cost: float) -> None:
        self.join(user)

    def correct(self, user: str, difference: float) -> None:
        """Turns are counted, not weighed."""

    def reweigh(self, user: str, weight: float) -> None:
        """Turns are counted, not weighed."""


class ArrivalModel(TurnModel):
    """The oldest task next in turn."""

    def key(self, user: str, waiting: list[Head]) -> Any:
        return min((head.order_at, head.sequence) for head in waiting)


MODELS: dict[str, Callable[[], Any]] = {"weighted_fair": FairModel, "round_robin": TurnModel, "fifo": ArrivalModel}


class SchedulerMachine(RuleBasedStateMachine):
    """Plays every shard and worker, and checks each grant."""

    policy = "weighted_fair"

    def __init__(self) -> None:
        super().__init__()
        self.table = Table()
        self.settings = Settings(sharing=SHARING.make(self.policy), weights=WEIGHTS)
        self.model = MODELS[self.policy]()
        self.waiting: dict[str, dict[str, list[Head]]] = {user: {} for user in USERS}
        """What each shard really has, oldest first."""
        self.told: dict[str, dict[str, list[Head]]] = {user: {} for user in USERS}
        """What the scheduler was last told."""
        self.eligible: set[str] = set()
        self.classes: set[WorkerClass] = set()
        self.heard: dict[str, int] = {}
        self.idle: set[str] = set()
        self.running: dict[str, tuple[str, str, float]] = {}
        self.open: Grant | None = None
        self.open_user = ""
        self.paused: set[str] = set()
        self.caps: dict[str, int] = {}
        self.sequence = 0
        self.core = self.build()

    def build(self) -> Scheduler:
        self.core = Scheduler(self.settings, self.table, Notes(SCHEDULER, self.table.notes(SCHEDULER)))
        self.apply(self.core.start(0.0))
        return self.core

    def send(self, message: Any) -> None:
        self.apply(self.core.handle(message, 0.0, DRAW))

    def apply(self, effects: Effects) -> None:
        for record in effects.records:
            self.table.apply(record)
        asked = []
        for receiver, message in effects.sends:
            if isinstance(message, Grant):
                self.check_grant(receiver, message)
            elif isinstance(message, Resync):
                asked.append(receiver)
        for receiver in asked:
            self.answer(receiver)

    def answer(self, receiver: str) -> None:
        role, _, name = receiver.partition("/")
        if role == "shard":
            self.announce(name, resync=True)
        elif receiver in self.running:
            self.send(Busy(receiver, WORKERS[receiver], self.epoch))
        else:
            self.send(Idle(receiver, WORKERS[receiver], self.epoch, self.heard[receiver]))

    @property
    def epoch(self) -> int:
        epoch: int = self.table.notes(SCHEDULER)["epoch"]
        return epoch

    # What the model says

    def candidates(self, kinds: frozenset[str]) -> dict[str, list[Head]]:
        """The users with work for a worker of these kinds, as far as the scheduler was told."""
        heads = {
            user: [waiting[0] for kind, waiting in told.items() if kind in kinds - self.paused and waiting]
            for user, told in self.told.items()
            if user not in self.paused and sum(self.running_of(user).values()) < self.caps.get(user, 99)
        }
        return {user: found for user, found in heads.items() if found}

    def running_of(self, user: str) -> dict[str, int]:
        return Counter(kind for owner, kind, _ in self.running.values() if owner == user)

    def rejoin(self) -> None:
        now = {user for found in self.classes for user in self.candidates(found.runs())}
        for user in sorted(now - self.eligible):
            self.model.join(user)
        self.eligible = now

    def check_grant(self, receiver: str, grant: Grant) -> None:
        assert self.open is None, "one grant at a time"
        assert grant.worker_id in self.idle, "only an idle worker is granted"
        worker_class = WORKERS[grant.worker_id]
        user = receiver.removeprefix("shard/")
        assert grant.kinds == worker_class.runs() - self.paused
        found = self.candidates(worker_class.runs())
        assert user == min(found, key=lambda name: (self.model.key(name, found[name]), name))
        self.open, self.open_user = grant, user

    @invariant()
    def nobody_idles_beside_work(self) -> None:
        if self.open is None:
            for worker in self.idle:
                assert not self.candidates(WORKERS[worker].runs()), f"{worker} idles"

    # What shards and workers do

    def announce(self, user: str, kinds: tuple[str, ...] = ("crawl", "mail"), resync: bool = False) -> None:
        message = self.ready(user, kinds, self.running_of(user) if resync else None)
        self.rejoin()
        self.send(message)

    def ready(self, user: str, kinds: tuple[str, ...], running: dict[str, int] | None = None) -> Ready:
        for kind in kinds:
            self.told[user][kind] = list(self.waiting[user].get(kind, []))
        counts = {kind: len(self.told[user][kind]) for kind in kinds}
        heads = {kind: self.told[user][kind][0] for kind in kinds if counts[kind]}
        return Ready(user, counts, heads if self.settings.sharing.sees_heads else {}, self.epoch, running)

    @rule(user=st.sampled_from(USERS), kind=st.sampled_from(["crawl", "mail"]), tasks=st.integers(1, 3))
    def arrive(self, user: str, kind: str, tasks: int) -> None:
        for _ in range(tasks):
            self.sequence += 1
            head = Head(3, float(self.sequence), self.sequence, 1.0 + self.sequence % 5)
            self.waiting[user].setdefault(kind, []).append(head)
        self.table.apply(Task(id=user, user=user, kind=kind, sequence=0, created_at=0.0, updated_at=0.0, order_at=0.0))
        self.announce(user, (kind,))

    @rule(user=st.sampled_from(USERS), kind=st.sampled_from(["crawl", "mail"]), silent=st.booleans())
    def cancel(self, user: str, kind: str, silent: bool) -> None:
        """A cancelled task leaves the shard; if its word is still under way a grant may come for nothing."""
        if waiting := self.waiting[user].get(kind):
            waiting.pop(0)
            if not (silent and self.open is not None and self.open_user == user):
                self.announce(user, (kind,))

    @precondition(lambda self: len(self.heard) < len(WORKERS))
    @rule()
    def hire(self) -> None:
        worker = sorted(WORKERS)[len(self.heard)]
        self.heard[worker] = 0
        self.become_idle(worker)

    def become_idle(self, worker: str) -> None:
        self.idle.add(worker)
        self.classes.add(WORKERS[worker])
        self.rejoin()
        self.send(Idle(worker, WORKERS[worker], self.epoch, self.heard[worker]))

    @precondition(lambda self: self.open is not None)
    @rule()
    def answer_grant(self) -> None:
        assert self.open is not None
        grant, user = self.open, self.open_user
        self.open = None
        kinds = [kind for kind in sorted(grant.kinds) if self.waiting[user].get(kind)]
        if not kinds:
            left = self.ready(user, tuple(sorted(grant.kinds)))
            self.rejoin()
            self.send(Declined(grant.number, left))
            return
        head = self.waiting[user][kinds[0]].pop(0)
        self.idle.discard(grant.worker_id)
        self.heard[grant.worker_id] = grant.number
        self.running[grant.worker_id] = (user, kinds[0], head.cost)
        self.model.charge(user, head.cost)
        left = self.ready(user, (kinds[0],))
        self.rejoin()
        self.send(Granted(grant.number, f"task/{grant.number}", user, kinds[0], head.cost, left))

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 9), used=st.floats(0, 9))
    def settle(self, which: int, used: float) -> None:
        worker = sorted(self.running)[which % len(self.running)]
        user, kind, cost = self.running.pop(worker)
        self.model.correct(user, used - cost)
        self.rejoin()
        task_id = f"task/{self.heard[worker]}"
        self.send(Settled(user, kind, task_id, worker, cost, used, "completed", True))
        self.become_idle(worker)

    @precondition(lambda self: self.idle)
    @rule(which=st.integers(0, 9), behind=st.integers(0, 1))
    def repeat_idle(self, which: int, behind: int) -> None:
        """A repeated word does no harm, and one from before the last run is stale."""
        worker = sorted(self.idle)[which % len(self.idle)]
        self.send(Idle(worker, WORKERS[worker], self.epoch, self.heard[worker] - behind))

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 9))
    def stale_idle_of_a_busy_worker(self, which: int) -> None:
        worker = sorted(self.running)[which % len(self.running)]
        self.send(Idle(worker, WORKERS[worker], self.epoch, self.heard[worker] - 1))

    @precondition(lambda self: self.open is not None)
    @rule()
    def shard_crashes_on_its_grant(self) -> None:
        assert self.open is not None
        grant, user = self.open, self.open_user
        self.open = None
        self.told[user] = {}
        self.rejoin()
        self.send(Failed(f"shard/{user}", grant, "boom"))
        self.announce(user)

    # What people do

    @rule(name=st.sampled_from([*USERS, "crawl", "mail"]), paused=st.booleans())
    def pause_or_resume(self, name: str, paused: bool) -> None:
        (self.paused.add if paused else self.paused.discard)(name)
        self.rejoin()
        order = Pause if paused else Resume
        self.send(order(user=name) if name in USERS else order(kind=name))

    @rule(user=st.sampled_from(USERS), cap=st.none() | st.integers(0, 2))
    def cap(self, user: str, cap: int | None) -> None:
        self.caps[user] = 99 if cap is None else cap
        self.rejoin()
        self.send(SetLimit(user=user, concurrency_max=cap))

    @rule(user=st.sampled_from(USERS), weight=st.sampled_from([0.5, 1.0, 4.0]))
    def weigh(self, user: str, weight: float) -> None:
        self.model.reweigh(user, weight)
        self.send(SetWeight(user, weight))

    @rule()
    def restart(self) -> None:
        """Everything but the epoch comes back: the model is not told that anything happened."""
        before = self.epoch
        self.build()
        assert self.epoch == before + 1


class RoundRobinMachine(SchedulerMachine):
    policy = "round_robin"


class FifoMachine(SchedulerMachine):
    policy = "fifo"


TestWeightedFair = SchedulerMachine.TestCase
TestRoundRobin = RoundRobinMachine.TestCase
TestFifo = FifoMachine.TestCase


def uncharged(self: FairAccount, user: str, cost: float, now: float) -> None:
    """Forgets to charge."""


def lost_wake_up(
    self: Scheduler, message: Idle, now: float, effects: Effects, original: Any = Scheduler._became_idle
) -> None:
    if message.grant % 3 != 2:
        original(self, message, now, effects)


def banking(self: FairAccount, user: str, now: float) -> None:
    node = self._node(user)
    if not node.own:
        tag, node.own = node.tag if node.running else 0.0, True
        self._wake(node)
        node.tag = tag


PLANTED: dict[str, tuple[Any, str, Any]] = {
    "nothing is charged": (FairAccount, "charge", uncharged),
    "credit is banked while idle": (FairAccount, "activate", banking),
    "a wake-up is lost": (Scheduler, "_became_idle", lost_wake_up),
    "a crash forgets the tags": (Notes, "under", lambda self, prefix: {}),
    "a stale word counts": (Scheduler, "_close", lambda self, number: None),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_the_machine_finds_a_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, replacement = PLANTED[bug]
    monkeypatch.setattr(owner, name, replacement)
    if owner is Scheduler and name == "_became_idle":
        monkeypatch.setitem(Scheduler.handle.__globals__["_HANDLERS"], Idle, replacement)
    quick = settings(
        max_examples=2_000,
        stateful_step_count=60,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    with pytest.raises((AssertionError, LookupError, ValueError)):
        run_state_machine_as_test(SchedulerMachine, settings=quick)


def new_scheduler() -> Scheduler:
    return Scheduler(Settings(), Table(), Notes(SCHEDULER))


def test_an_unknown_message_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"^scheduler cannot handle 'hello'$"):
        new_scheduler().handle("hello", 0.0, DRAW)


def test_a_wake_that_nobody_asked_for_changes_nothing() -> None:
    effects = new_scheduler().handle(Wake(), 0.0, DRAW)
    assert (effects.sends, effects.records) == ([], [])


def test_a_worker_whose_task_was_recovered_is_asked_and_its_lost_run_declared_void() -> None:
    scheduler = new_scheduler()
    scheduler.handle(Idle("worker/1", CLASSES[0], 1, 0), 0.0, DRAW)
    scheduler.handle(Ready("alice", {"crawl": 1}, {}, 1), 0.0, DRAW)
    scheduler.handle(Granted(1, "t1", "alice", "crawl", 1.0, Ready("alice", {"crawl": 0}, {}, 1)), 0.0, DRAW)
    effects = scheduler.handle(Settled("alice", "crawl", "t1", "worker/1", 1.0, 60.0, "recovered", False), 60.0, DRAW)
    assert effects.sends == [("worker/1", Resync(1, void=1))]


def test_a_shard_that_crashed_on_the_resync_has_not_answered_it() -> None:
    """Found by the mixed soak: rebuilt, it says what it has ready, which says nothing of what runs against a cap."""
    table = Table()
    settings = Settings(limit=Limit(concurrency_max=1))
    for user in ("alice", "bob"):
        task = Task(id=user, user=user, kind="crawl", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0)
        table.apply(task)
    table.apply(Noted(SCHEDULER, {"epoch": 1}))
    scheduler = Scheduler(settings, table, Notes(SCHEDULER, table.notes(SCHEDULER)))
    scheduler.start(0.0)
    scheduler.handle(Idle("worker/1", CLASSES[0], 2, 0), 0.0, DRAW)
    scheduler.handle(Ready("bob", {"crawl": 1}, {}, 2, {}), 0.0, DRAW)
    effects = scheduler.handle(Ready("alice", {"crawl": 0}, {}, 2), 0.0, DRAW)
    assert effects.sends == [], "alice may have something running"
    effects = scheduler.handle(Failed("shard/alice", Resync(2), "boom"), 0.0, DRAW)
    assert effects.sends == [("shard/alice", Resync(2))]
    effects = scheduler.handle(Ready("alice", {"crawl": 0}, {}, 2, {"crawl": 1}), 0.0, DRAW)
    assert effects.sends == [], "and she has"


def test_an_answer_to_one_that_crashed_since_does_not_close_the_open_grant() -> None:
    """Found by crashing the scheduler twice in a row: the grant was used, and its worker was given a second run."""
    table = Table()
    task = Task(id="t1", user="alice", kind="crawl", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0)
    table.apply(moves.claim(task, "worker/1", 60.0, 0.0))
    table.apply(Noted(SCHEDULER, {"epoch": 2, "grant": (8, "worker/1", "alice", True), "used/worker/1": (6, "t0")}))
    scheduler = Scheduler(Settings(), table, Notes(SCHEDULER, table.notes(SCHEDULER)))
    scheduler.start(0.0)
    scheduler.handle(Ready("alice", {"crawl": 1}, {}, 2, {"crawl": 1}, 8), 0.0, DRAW)
    scheduler.handle(Idle("worker/1", CLASSES[0], 2, 6), 0.0, DRAW)
    scheduler.handle(Granted(8, "t1", "alice", "crawl", 1.0, None), 0.0, DRAW)
    scheduler.handle(Ready("alice", {"crawl": 1}, {}, 3, {"crawl": 1}, 8), 0.0, DRAW)
    effects = scheduler.handle(Busy("worker/1", CLASSES[0], 3), 0.0, DRAW)
    assert effects.sends == [], "it is at work"


def test_a_worker_whose_run_ended_before_its_grant_was_heard_of_is_not_lost() -> None:
    """Found by crashing everybody on a quarter of their messages: the end of a task meant nothing, and then its grant did."""
    table = Table()
    task = Task(id="t1", user="alice", kind="crawl", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0)
    table.apply(task)
    scheduler = Scheduler(Settings(), table, Notes(SCHEDULER))
    scheduler.handle(Idle("worker/1", CLASSES[0], 1, 0), 0.0, DRAW)
    scheduler.handle(Ready("alice", {"crawl": 1}, {}, 1), 0.0, DRAW)
    effects = scheduler.handle(Settled("alice", "crawl", "t1", "worker/1", 1.0, 0.0, "crashed", False), 0.0, DRAW)
    assert effects.sends == []
    effects = scheduler.handle(Granted(1, "t1", "alice", "crawl", 1.0, None), 0.0, DRAW)
    assert effects.sends == [("worker/1", Resync(1, void=1))]


def test_a_worker_is_not_lost_where_the_end_of_its_run_is_heard_of_before_its_grant() -> None:
    """The shard's answer was lost in a crash and told again, after the worker had crashed on the run."""
    table = Table()
    scheduler = Scheduler(Settings(), table, Notes(SCHEDULER))
    scheduler.handle(Idle("worker/1", CLASSES[0], 1, 0), 0.0, DRAW)
    scheduler.handle(Ready("alice", {"crawl": 1}, {}, 1), 0.0, DRAW)
    table.apply(Task(id="t1", user="alice", kind="crawl", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0))
    scheduler.handle(Settled("alice", "crawl", "t1", "worker/1", 1.0, 0.0, "crashed", False), 0.0, DRAW)
    scheduler.handle(Idle("worker/1", CLASSES[0], 1, 0), 0.0, DRAW)
    granted = Granted(1, "t1", "alice", "crawl", 1.0, Ready("alice", {"crawl": 0}, {}, 1))
    assert scheduler.handle(granted, 0.0, DRAW).sends == [("worker/1", Resync(1, void=1))]
    scheduler.handle(Idle("worker/1", CLASSES[0], 1, 1), 0.0, DRAW)
    sends = scheduler.handle(Ready("alice", {"crawl": 1}, {}, 1), 0.0, DRAW).sends
    assert [message.number for _, message in sends] == [2]


def test_notes_are_all_that_a_restart_needs() -> None:
    scheduler = new_scheduler()
    effects = scheduler.handle(Idle("worker/1", CLASSES[0], 1, 0), 0.0, DRAW)
    assert [type(record) for record in effects.records] == [Noted]


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (SetWeight("alice", 0.0), "weight must be a finite number > 0, got 0.0"),
        (SetWeight("alice", -1), "weight must be a finite number > 0, got -1"),
        (SetWeight("alice", math.nan), "weight must be a finite number > 0, got nan"),
        (SetWeight("alice", True), "weight must be a finite number > 0, got True"),
        (SetWeight("", 1.0), "user must be 1 to 128 printable characters, got ''"),
        (SetWeight("a\x07", 1.0), "user must be 1 to 128 printable characters, got 'a\\x07'"),
        (SetLimit(kind="crawl", rate_limit=0.0), "rate_limit must be a finite number > 0, got 0.0"),
        (SetLimit(user="alice", concurrency_max=-1), "concurrency_max must be a whole number >= 0, got -1"),
        (Pause("crawl", "alice"), "it must be a kind or a user, not both, got 'crawl' and 'alice'"),
        (Resume("crawl", "alice"), "it must be a kind or a user, not both, got 'crawl' and 'alice'"),
    ],
)
def test_a_bad_order_is_refused_with_the_value_and_changes_nothing(order: Any, said: str) -> None:
    effects = new_scheduler().handle(msgspec.structs.replace(order, reply_to="people"), 0.0, DRAW)
    ((receiver, answer),) = effects.held
    assert (receiver, str(answer.error)) == ("people", said)
    assert (effects.records, effects.events) == ([], [])


def test_a_good_order_is_answered_noted_and_traced() -> None:
    effects = new_scheduler().handle(SetWeight("alice", 2, "people"), 5.0, DRAW)
    assert effects.held == [("people", Answered("", None))]
    assert effects.records == [Noted(SCHEDULER, {"weight/alice": 2.0})]
    assert effects.events == [Reweighted(5.0, "alice", 2)]
