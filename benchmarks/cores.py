"""Shards and a scheduler, wired by hand: what a task costs in them, without trio and without a host."""

import gc
import time
import tracemalloc
from typing import Any

from actors import Settings, Table, Task
from actors.actor import Core, Effects, keyed_draw
from actors.ids import derived_id
from actors.messages import Enqueue, Finished, Grant, Granted, Idle, Ready, Settled, WorkerClass, shard_address
from actors.scheduler import Scheduler
from actors.shard import Shard
from actors.table import Notes
from benchmarks.work import SEED, USERS

_WORKER = "worker/1"
_CLASS = WorkerClass(frozenset({"work"}))
_DRAW = keyed_draw(SEED)


def with_users(count: int, users: int) -> float:
    """The seconds to push, claim and settle so many, when each user has one waiting."""
    return _turn_over(users, users, count)


def with_queued(count: int, queued: int) -> float:
    """The same, when so many wait."""
    return _turn_over(queued, USERS, count)


def bytes_a_task(count: int) -> float:
    """What a waiting task without a payload takes, in all of the cores' memory."""
    cores = _Cores(USERS)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(count):
        cores.push(cores.names[number % USERS])
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / count


def _turn_over(queued: int, users: int, count: int) -> float:
    cores = _Cores(users)
    for number in range(queued):
        cores.push(cores.names[number % users])
    gc.collect()
    began = time.perf_counter()
    for number in range(count):
        cores.push(cores.names[number % users])
        cores.claim_and_settle()
    return time.perf_counter() - began


class _Cores:
    """Shards and a scheduler, wired by hand: messages between them are handed over directly."""

    def __init__(self, users: int) -> None:
        self.table = Table()
        self.settings = Settings()
        self.scheduler = Scheduler(self.settings, self.table, Notes("scheduler"))
        self.names = [f"user{number}" for number in range(users)]
        self.shards = {name: Shard(name, self.settings, self.table, Notes(shard_address(name))) for name in self.names}
        self.sequence = 0
        self.grant: Grant | None = None
        self.shard: Shard | None = None

    def push(self, name: str) -> None:
        self.sequence += 1
        now = float(self.sequence)
        task = Task(
            id=derived_id(f"{SEED}/{name}#{self.sequence}", now),
            user=name,
            kind="work",
            sequence=self.sequence,
            created_at=now,
            updated_at=now,
            order_at=now,
        )
        self._pass_on(self._handle(self.shards[name], Enqueue(task, None), now), now)

    def claim_and_settle(self) -> None:
        now = float(self.sequence)
        self._pass_on(self._handle(self.scheduler, Idle(_WORKER, _CLASS, 1, self._heard()), now), now)
        assert self.grant is not None and self.shard is not None, "somebody waits"
        effects = self._handle(self.shard, self.grant, now)
        (granted,) = [message for _, message in effects.sends if type(message) is Granted]
        self._handle(self.scheduler, granted, now)
        run = effects.held[0][1]
        report = Finished(task_id=run.task_id, token=run.token, worker_id=_WORKER, outcome="completed")
        self._pass_on(self._handle(self.shard, report, now), now)

    def _heard(self) -> int:
        return self.grant.number if self.grant is not None else 0

    def _handle(self, core: Core, message: Any, now: float) -> Effects:
        effects = core.handle(message, now, _DRAW)
        for record in effects.records:
            self.table.apply(record)
        return effects

    def _pass_on(self, effects: Effects, now: float) -> None:
        for receiver, message in effects.sends:
            if type(message) is Grant:
                self.grant, self.shard = message, self.shards[receiver.removeprefix("shard/")]
            elif type(message) is Ready or (type(message) is Settled and receiver == "scheduler"):
                self._pass_on(self._handle(self.scheduler, message, now), now)
