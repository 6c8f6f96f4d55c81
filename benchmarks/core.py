"""The pure cores: push, claim and settle one task, without a host; growth with users and queue; memory."""

import gc
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

from actors import Settings, Table, Task
from actors.actor import Core, Effects, keyed_draw
from actors.ids import derived_id
from actors.messages import Enqueue, Finished, Grant, Granted, Idle, Ready, Settled, WorkerClass, shard_address
from actors.scheduler import Scheduler
from actors.shard import Shard
from actors.table import Notes
from benchmarks.report import Figure

_WORKER = "worker/1"
_CLASS = WorkerClass(frozenset({"work"}))
_DRAW = keyed_draw(7)
TARGET_US = 25.0
TARGET_BYTES = 600.0


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
            id=derived_id(f"7/{name}#{self.sequence}", now),
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


def measure(queued: int, rounds: int) -> Iterator[Figure]:
    """Each figure the best of several rounds, sizes interleaved."""
    many = min(100_000, queued)
    by_users = _best({10: 10, many: many}, 1_000, rounds, by_users=True)
    for users, micros in by_users.items():
        yield Figure(
            f"core_push_claim_settle_{users}_users", micros, "us/task", f"{TARGET_US:g} us", micros / TARGET_US
        )
    by_queue = _best({1_000: 10, queued: 10}, 1_000, max(1, rounds - 2), by_users=False)
    small, large = by_queue.values()
    yield Figure(f"core_growth_1000_to_{queued}_queued", large, "us/task", "1,000 queued", large / small)
    per_task = _bytes_a_task(min(queued, 100_000))
    yield Figure("core_bytes_a_queued_task", per_task, "bytes", f"{TARGET_BYTES:g} bytes", per_task / TARGET_BYTES)


def _best(sizes: dict[int, int], tasks: int, rounds: int, *, by_users: bool) -> dict[int, float]:
    """Microseconds a task at each size, with every user's shard active and its queue filled beforehand."""
    prepared = {}
    for size, users in sizes.items():
        cores = _Cores(users)
        filled = users if by_users else size
        for number in range(filled):
            cores.push(cores.names[number % users])
        prepared[size] = cores
    gc.collect()
    best = dict.fromkeys(sizes, float("inf"))
    for _ in range(rounds):
        for size, cores in prepared.items():
            began = time.perf_counter()
            for number in range(tasks):
                cores.push(cores.names[number % len(cores.names)])
                cores.claim_and_settle()
            best[size] = min(best[size], (time.perf_counter() - began) / tasks * 1e6)
    return best


def _bytes_a_task(count: int) -> float:
    cores = _Cores(10)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(count):
        cores.push(cores.names[number % 10])
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / count
