"""For the tests of the door: a world to stand in front of it, and a plain model of what it must do."""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from typing import Any

import attrs
import msgspec
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st

from actors import (
    Notes,
    QueueFull,
    Settings,
    Status,
    Table,
    Task,
)
from actors.actor import Draw, Effects, keyed_draw
from actors.host import Host
from actors.messages import (
    QUEUE,
    SCHEDULER,
    SUPERVISOR,
    Accepted,
    Cancel,
    Finished,
    Grant,
    Refused,
    Run,
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
