"""The scheduler: brings idle workers and ready users together, one grant at a time.

`Demand` knows who has work and whose turn it is; here is the protocol around it. Whenever a worker is idle and somebody
has work that it may take, that user's shard is sent a `Grant`. The next pick waits for the answer, because only then is
the user charged: with several grants under way the sharing bound is off by a factor that grows with the workers.

Restart: what demand must remember, the open grant and each worker's last grant are notes and come back as they were; counts
and idle workers are asked for anew with `Resync` under a new epoch. Nothing is granted until every shard and worker has
answered, so that a restart changes no pick. A worker is idle only if it has heard of the last grant that was used for it:
an answer that crossed a newer run is stale, whatever its epoch.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from actors.actor import NEVER, Draw, Effects
from actors.config import Settings
from actors.demand import Demand
from actors.errors import EvenhandError, InvalidConfig
from actors.limits import Limit
from actors.messages import (
    Address,
    Answered,
    Busy,
    Declined,
    Equip,
    Failed,
    Gone,
    Grant,
    Granted,
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
    shard_address,
)
from actors.policies.stealing import Lots
from actors.restraints import EVERYTHING, kind_key, user_key
from actors.standing import Standing
from actors.table import Notes, Table
from actors.task import IN_PROGRESS
from actors.trace import Paused, Reachable, Relimited, Resumed, Reweighted, Unreachable
from actors.validators import number_fault, user_name_fault

__all__ = ["Scheduler"]


class _OpenGrant(NamedTuple):
    number: int
    worker_id: Address
    user: str


class Scheduler:
    """The core of the scheduler actor."""

    passive = False

    def __init__(self, settings: Settings, table: Table, notes: Notes) -> None:
        self._table = table
        self._notes = notes
        self._epoch: int = notes.get("epoch", 0) + 1
        self._demand = Demand(settings, notes)
        self._idle: dict[WorkerClass, list[tuple[int, Address]]] = {}
        """A heap for each class, so that the worker with the lowest number goes first whatever happened before."""
        self._class_of: dict[Address, WorkerClass] = {}
        """Every worker that was heard of."""
        self._idle_workers: set[Address] = set()
        self._used: dict[Address, tuple[int, str]] = {
            worker: (number, task_id) for worker, (number, task_id) in notes.under("used/").items()
        }
        """Each worker's last used grant and the task it was for."""
        self._unsettled: dict[Address, str] = {
            worker: task_id for worker, (_, task_id) in self._used.items() if self._runs(worker, task_id)
        }
        """What each worker was last given, until that is settled: its charge must be right before the worker is given more."""
        self._early: set[Address] = set()
        """Workers that were idle before that, until nothing is under way: what they reported may be lost."""
        self._heard: dict[Address, int] = {}
        """The last grant that each worker had heard of when it said that it was idle."""
        number, worker_id, user, is_open = notes.get("grant", (0, "", "", False))
        self._number: int = number
        is_open = is_open and self._used.get(worker_id, (0, ""))[0] != number
        self._open = _OpenGrant(number, worker_id, user) if is_open else None
        self._awaited: set[Address] = set()
        """Who has not answered the resync yet."""
        self._wakes_at = NEVER

    def __repr__(self) -> str:
        return f"<Scheduler, epoch {self._epoch}: {self._demand.in_flight()} in flight, {len(self._idle_workers)} idle>"

    def standing(self, user: str, kind: str, now: float) -> Standing:
        """How a user stands with a kind: what may hold such a task back."""
        idle = [worker_class for worker_class, workers in self._idle.items() if workers]
        return self._demand.standing(user, kind, now, idle)

    def limit(self, kind: str | None, user: str | None) -> Limit:
        """What a kind, a user, or everything is held to."""
        return self._demand.limit(_key(kind, user))

    @property
    def unreachable(self) -> list[str]:
        """Users with work that no worker may take, sorted."""
        return sorted(self._demand.watch.unreachable)

    def start(self, now: float) -> Effects:
        effects = Effects()
        self._notes["epoch"] = self._epoch
        if self._epoch > 1:
            for user in self._table.live_users():
                self._ask(shard_address(user), self._number, effects)
            for worker in self._used:
                self._ask(worker, 0, effects)
        if self._awaited:
            self._demand.freeze()
        return effects.keep(self._notes)

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        handler = _HANDLERS.get(type(message))
        if handler is None:
            raise TypeError(f"scheduler cannot handle {message!r}")
        effects, demand = Effects(), self._demand
        resyncing = bool(self._awaited)
        handler(self, message, now, effects)
        if resyncing and not self._awaited:
            demand.thaw(now)
        demand.refill(now)
        if demand.ready_count and self._idle_workers and self._open is None and not self._awaited:
            self._decide(now, draw, effects)
        if demand.watch.changes:
            self._report_reach(now, effects)
        wakes_at = now if self._early else demand.wakes_at(now)
        if wakes_at != self._wakes_at:
            self._wakes_at = effects.timer = wakes_at
        return effects.keep(self._notes)

    # What shards say

    def _ready(self, message: Ready, now: float, effects: Effects) -> None:
        # A shard that crashed on the resync says what it has ready when it is rebuilt: only its answer says what runs.
        if message.running is not None and message.epoch == self._epoch:
            self._awaited.discard(shard_address(message.user))
            if (lost := self._open) is not None and lost.user == message.user and lost.number <= message.void:
                # It crashed on the grant, or its answer was lost with a scheduler that crashed on it.
                self._open = None
                self._unused(lost, effects)
        self._demand.hear(message, now)

    def _granted(self, message: Granted, now: float, effects: Effects) -> None:
        """Charged even if a restart came between: the work is under way."""
        self._demand.start(message.user, message.kind, message.cost, now)
        if message.left is not None:
            self._demand.hear(message.left, now)
        if (closed := self._close(message.number)) is not None:
            self._set_used(closed.worker_id, closed.number, message.task_id)
            if self._runs(closed.worker_id, message.task_id):
                self._unsettled[closed.worker_id] = message.task_id
                if self._heard.get(closed.worker_id, -1) >= closed.number:
                    self._early.add(closed.worker_id)
                return
            self._seat(closed.worker_id)
            if self._table.get(message.task_id) is not None:
                # Its end was heard of before, because this was told again: nothing more will be said of the worker.
                effects.send(closed.worker_id, Resync(self._epoch, void=closed.number))

    def _declined(self, message: Declined, now: float, effects: Effects) -> None:
        self._demand.hear(message.left, now)
        if (closed := self._close(message.number)) is not None:
            self._unused(closed, effects)

    def _settled(self, message: Settled, now: float, effects: Effects) -> None:
        difference = message.used_seconds - message.charged_seconds
        self._demand.settle(message.user, message.kind, difference, now)
        worker = message.worker_id
        if worker is not None and self._unsettled.get(worker) == message.task_id:
            del self._unsettled[worker]
            self._early.discard(worker)
            self._seat(worker)
        if message.outcome in ("recovered", "crashed") and worker is not None and worker not in self._idle_workers:
            number, task_id = self._used.get(worker, (0, ""))
            if task_id == message.task_id:
                # The task ended without a word from its worker, which may never have heard of it.
                effects.send(worker, Resync(self._epoch, void=number))

    # What workers say

    def _became_idle(self, message: Idle, now: float, effects: Effects) -> None:
        worker = message.worker_id
        if self._awaited or worker not in self._class_of:
            self._meet(worker, message.worker_class, message.epoch, now)
        if worker not in self._used:
            self._set_used(worker, message.grant, "")
        self._heard[worker] = message.grant
        if worker in self._unsettled and message.grant >= self._used[worker][0]:
            self._early.add(worker)
        self._seat(worker)

    def _seat(self, worker: Address) -> None:
        """Let a worker be idle if none of its grants is open, it was idle after the last that was used, and that is settled."""
        if worker in self._unsettled or (self._open is not None and self._open.worker_id == worker):
            return
        if self._heard.get(worker, -1) >= self._used[worker][0] and worker not in self._idle_workers:
            self._idle_workers.add(worker)
            heappush(self._idle.setdefault(self._class_of[worker], []), (len(worker), worker))

    def _busy(self, message: Busy, now: float, effects: Effects) -> None:
        self._meet(message.worker_id, message.worker_class, message.epoch, now)

    def _meet(self, worker: Address, worker_class: WorkerClass, epoch: int, now: float) -> None:
        if epoch == self._epoch:
            self._awaited.discard(worker)
        self._class_of[worker] = worker_class
        self._demand.add_class(worker_class, now)

    def _gone(self, message: Gone, now: float, effects: Effects) -> None:
        self._awaited.discard(message.worker_id)
        self._drop_worker(message.worker_id, now)

    def _told_failed(self, failed: Failed, now: float, effects: Effects) -> None:
        match failed.message:
            case Grant(number=number):
                # The rebuilt shard says what it has; until then it has nothing, or the same grant would go out again.
                closed = self._close(number)
                if closed is not None:
                    self._demand.forget(closed.user, now)
                    self._unused(closed, effects)
            case Resync() if failed.absent:
                self._awaited.discard(failed.receiver)
                self._drop_worker(failed.receiver, now)
            case Resync(void=void):
                # Under the epoch it is now: the one that asked may have crashed since.
                effects.send(failed.receiver, Resync(self._epoch, void))
            case _:
                effects.tell_again(failed)

    def _wake(self, message: Wake, now: float, effects: Effects) -> None:
        """What is free again by now is taken up by `handle`, as after any message."""
        self._wakes_at = NEVER
        for worker in sorted(self._early):
            del self._unsettled[worker]
            self._seat(worker)
        self._early.clear()

    # What people say

    def _pause(self, message: Pause, now: float, effects: Effects) -> None:
        def act(key: str) -> None:
            self._demand.pause(key, now)
            effects.events.append(Paused(now, message.kind, message.user))

        self._obey(message, act, effects)

    def _resume(self, message: Resume, now: float, effects: Effects) -> None:
        def act(key: str) -> None:
            self._demand.resume(key, now)
            effects.events.append(Resumed(now, message.kind, message.user))

        self._obey(message, act, effects)

    def _set_limit(self, message: SetLimit, now: float, effects: Effects) -> None:
        def act(key: str) -> None:
            limit = Limit(message.rate_limit, message.concurrency_max)
            self._demand.set_limit(key, limit, now)
            effects.events.append(Relimited(now, message.kind, message.user, limit.rate_limit, limit.concurrency_max))

        self._obey(message, act, effects)

    def _set_weight(self, message: SetWeight, now: float, effects: Effects) -> None:
        def act(key: str) -> None:
            if fault := user_name_fault(message.user) or number_fault("weight", message.weight):
                raise InvalidConfig(fault)
            self._demand.set_weight(message.user, float(message.weight))
            effects.events.append(Reweighted(now, message.user, message.weight))

        self._obey(message, act, effects)

    def _obey(self, message: Any, act: Callable[[str], None], effects: Effects) -> None:
        """Do it and say so, or change nothing and say why not."""
        error: EvenhandError | None = None
        kind = getattr(message, "kind", None)
        try:
            if kind is not None and message.user is not None:
                raise InvalidConfig(f"it must be a kind or a user, not both, got {kind!r} and {message.user!r}")
            act(_key(kind, message.user))
        except EvenhandError as refused:
            error = refused
        if message.reply_to is not None:
            effects.hold(message.reply_to, Answered("", error))

    def _equip(self, message: Equip, now: float, effects: Effects) -> None:
        self._demand.equip(now)

    # The decision

    def _decide(self, now: float, draw: Draw, effects: Effects) -> None:
        """If somebody is idle beside somebody's work, grant it: the one place where this is decided."""
        for worker_class in self._demand.classes():
            if not (idle := self._idle.get(worker_class)):
                continue
            worker = idle[0][1]
            number = self._number + 1
            lots = _lots(draw, worker, number) if self._demand.draws_lots else _no_lots
            choice = self._demand.choose(worker_class, now, lots)
            if choice is not None:
                heappop(idle)
                self._idle_workers.remove(worker)
                self._number = number
                self._open = _OpenGrant(number, worker, choice.user)
                self._notes["grant"] = (number, worker, choice.user, True)
                effects.send(shard_address(choice.user), Grant(number, worker, choice.kinds, choice.stolen))
                return

    # Shared by the above

    def _ask(self, address: Address, void: int, effects: Effects) -> None:
        self._awaited.add(address)
        effects.send(address, Resync(self._epoch, void))

    def _close(self, number: int) -> _OpenGrant | None:
        """The open grant if it has that number, closed; None for an answer to any other."""
        closed = self._open
        if closed is None or closed.number != number:
            return None
        self._open = None
        return closed

    def _unused(self, grant: _OpenGrant, effects: Effects) -> None:
        """Nothing was sent to the grant's worker: have it say again that it is idle."""
        self._note_closed(grant)
        effects.send(grant.worker_id, Resync(self._epoch))

    def _note_closed(self, grant: _OpenGrant) -> None:
        self._notes["grant"] = (grant.number, grant.worker_id, grant.user, False)

    def _runs(self, worker: Address, task_id: str) -> bool:
        task = self._table.get(task_id)
        return task is not None and task.status is IN_PROGRESS and task.worker_id == worker

    def _set_used(self, worker: Address, number: int, task_id: str) -> None:
        self._used[worker] = (number, task_id)
        self._notes["used/" + worker] = (number, task_id)

    def _drop_worker(self, worker: Address, now: float) -> None:
        """The worker is gone; if it was the last of its class, so is the class."""
        if self._open is None and self._notes.get("grant", (0, "", "", False))[1] == worker:
            self._note_closed(_OpenGrant(*self._notes["grant"][:3]))
        if worker in self._used:
            del self._used[worker]
            del self._notes["used/" + worker]
        self._heard.pop(worker, None)
        self._unsettled.pop(worker, None)
        self._early.discard(worker)
        worker_class = self._class_of.pop(worker, None)
        if worker_class is None:
            return
        if worker in self._idle_workers:
            self._idle_workers.remove(worker)
            self._idle[worker_class].remove((len(worker), worker))
            heapify(self._idle[worker_class])
        if worker_class not in self._class_of.values():
            self._demand.set_classes(self._class_of.values(), now)

    def _report_reach(self, now: float, effects: Effects) -> None:
        changes = self._demand.watch.changes
        for user, unreachable in changes:
            effects.events.append(Unreachable(now, user) if unreachable else Reachable(now, user))
        changes.clear()


def _no_lots(n: int) -> float:
    raise AssertionError("nobody draws lots")


def _lots(draw: Draw, worker: Address, number: int) -> Lots:
    return lambda n: draw(f"steal/{n}", worker, number)


def _key(kind: str | None, user: str | None) -> str:
    if kind is not None:
        return kind_key(kind)
    return EVERYTHING if user is None else user_key(user)


_HANDLERS: dict[type, Callable[..., None]] = {
    Ready: Scheduler._ready,
    Granted: Scheduler._granted,
    Declined: Scheduler._declined,
    Settled: Scheduler._settled,
    Idle: Scheduler._became_idle,
    Busy: Scheduler._busy,
    Gone: Scheduler._gone,
    Failed: Scheduler._told_failed,
    Pause: Scheduler._pause,
    Resume: Scheduler._resume,
    SetWeight: Scheduler._set_weight,
    SetLimit: Scheduler._set_limit,
    Equip: Scheduler._equip,
    Wake: Scheduler._wake,
}
