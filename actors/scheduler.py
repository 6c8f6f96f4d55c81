"""The scheduler: brings idle workers and ready users together, one grant at a time.

It keeps, for each user and kind, how many tasks the shard says are ready, and for each class of workers (those that run
the same kinds) who is idle. Whenever both sides have somebody, the sharing policy picks a user and that user's shard is
sent a `Grant`. The next pick waits for the answer, because only then is the user charged: with several grants under way
the sharing bound is off by a factor that grows with the workers.

Restart: the account, the open grant and each worker's last grant are notes and come back as they were; counts and idle
workers are asked for anew with `Resync` under a new epoch. Nothing is granted until every shard and worker has answered,
so that a restart changes no pick. A worker is idle only if it has heard of the last grant that was used for it: an
answer that crossed a newer run is stale.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

import attrs

from actors.actor import Draw, Effects
from actors.config import Settings
from actors.messages import (
    Address,
    Busy,
    Declined,
    Failed,
    Grant,
    Granted,
    Head,
    Idle,
    Ready,
    Resync,
    Settled,
    Wake,
    shard_address,
)
from actors.policies.sharing import Index
from actors.table import Notes, Table

__all__ = ["Scheduler"]


@attrs.define
class _Pool:
    """The workers that run the same kinds, and the users with work for them."""

    kinds: frozenset[str]
    index: Index
    idle: list[tuple[int, Address]] = attrs.Factory(list)
    """A heap, so that the worker with the lowest number goes first whatever happened before."""


@attrs.define
class _User:
    """What a shard last said."""

    counts: dict[str, int] = attrs.Factory(dict)
    heads: dict[str, Head] = attrs.Factory(dict)


@attrs.frozen
class _OpenGrant:
    number: int
    worker_id: Address
    user: str


class Scheduler:
    """The core of the scheduler actor."""

    passive = False

    def __init__(self, settings: Settings, table: Table, notes: Notes) -> None:
        self._settings = settings
        self._table = table
        self._notes = notes
        self._epoch: int = notes.get("epoch", 0) + 1
        self._account = settings.sharing.start(notes)
        self._users: dict[str, _User] = {}
        self._pools: dict[frozenset[str], _Pool] = {}
        self._idle: dict[Address, _Pool] = {}
        self._used: dict[Address, tuple[int, str]] = {
            worker: (number, task_id) for worker, (number, task_id) in notes.under("used/").items()
        }
        """Each worker's last used grant and the task it was for."""
        number, worker_id, user, is_open = notes.get("grant", (0, "", "", False))
        self._number: int = number
        is_open = is_open and self._used[worker_id][0] != number
        self._open = _OpenGrant(number, worker_id, user) if is_open else None
        self._awaited: set[Address] = set()
        """Who has not answered the resync yet."""

    def __repr__(self) -> str:
        ready = sum(sum(user.counts.values()) for user in self._users.values())
        return f"<Scheduler, epoch {self._epoch}: {ready} ready, {len(self._idle)} idle>"

    def start(self, now: float) -> Effects:
        effects = Effects()
        self._notes["epoch"] = self._epoch
        if self._epoch > 1:
            shards = [shard_address(user) for user in self._table.live_users()]
            for address in [*shards, *self._used]:
                self._ask(address, effects)
        return effects.keep(self._notes)

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        handler = _HANDLERS.get(type(message))
        if handler is None:
            raise TypeError(f"scheduler cannot handle {message!r}")
        effects = Effects()
        resyncing = bool(self._awaited)
        handler(self, message, effects)
        if resyncing and not self._awaited:
            self._reindex_all()
        self._decide(effects)
        return effects.keep(self._notes)

    # What shards say

    def _ready(self, message: Ready, effects: Effects) -> None:
        address = shard_address(message.user)
        if message.epoch == self._epoch:
            self._awaited.discard(address)
        self._take_counts(message)

    def _granted(self, message: Granted, effects: Effects) -> None:
        """Charged even if a restart came between: the work is under way."""
        name = message.left.user
        self._account.charge(name, self._settings.weight(name), message.cost)
        self._take_counts(message.left)
        if (closed := self._close(message.number)) is not None:
            self._set_used(closed.worker_id, closed.number, message.task_id)

    def _declined(self, message: Declined, effects: Effects) -> None:
        self._take_counts(message.left)
        if (closed := self._close(message.number)) is not None:
            self._notes["grant"] = (closed.number, closed.worker_id, closed.user, False)
            self._unused(closed, effects)

    def _settled(self, message: Settled, effects: Effects) -> None:
        difference = message.used_seconds - message.charged_seconds
        self._account.correct(message.user, self._settings.weight(message.user), difference)
        if (user := self._users.get(message.user)) is not None:
            self._reindex(message.user, user)
        worker = message.worker_id
        if message.outcome in ("recovered", "crashed") and worker is not None and worker not in self._idle:
            number, task_id = self._used.get(worker, (0, ""))
            if task_id == message.task_id:
                # The task ended without a word from its worker, which may never have heard of it.
                effects.send(worker, Resync(self._epoch, void=number))

    # What workers say

    def _became_idle(self, message: Idle, effects: Effects) -> None:
        worker = message.worker_id
        pool = self._pool(message.kinds)
        if message.epoch == self._epoch:
            self._awaited.discard(worker)
        if worker not in self._used:
            self._set_used(worker, message.grant, "")
        granted = self._open is not None and self._open.worker_id == worker
        if message.grant == self._used[worker][0] and worker not in self._idle and not granted:
            self._make_idle(worker, pool)

    def _busy(self, message: Busy, effects: Effects) -> None:
        self._pool(message.kinds)
        if message.epoch == self._epoch:
            self._awaited.discard(message.worker_id)

    def _told_failed(self, failed: Failed, effects: Effects) -> None:
        match failed.message:
            case Grant(number=number):
                # The rebuilt shard says what it has; until then it has nothing, or the same grant would go out again.
                closed = self._close(number)
                if closed is not None:
                    self._notes["grant"] = (closed.number, closed.worker_id, closed.user, False)
                    self._forget(closed.user)
                    self._unused(closed, effects)
            case Resync() if failed.error.startswith("no actor"):
                self._awaited.discard(failed.receiver)
                self._drop_worker(failed.receiver)
            case Resync():
                self._ask(failed.receiver, effects)

    def _wake(self, message: Wake, effects: Effects) -> None:
        """The scheduler sets no timer."""

    # The decision

    def _decide(self, effects: Effects) -> None:
        """If somebody is idle beside somebody's work, grant it: the one place where this is decided."""
        if self._open is not None or self._awaited:
            return
        for pool in self._pools.values():
            if not pool.idle or (user := pool.index.pick()) is None:
                continue
            _, worker = heappop(pool.idle)
            del self._idle[worker]
            self._number += 1
            self._open = _OpenGrant(self._number, worker, user)
            self._notes["grant"] = (self._number, worker, user, True)
            effects.send(shard_address(user), Grant(self._number, worker, pool.kinds))
            return

    # Shared by the above

    def _ask(self, address: Address, effects: Effects) -> None:
        self._awaited.add(address)
        effects.send(address, Resync(self._epoch))

    def _close(self, number: int) -> _OpenGrant | None:
        """The open grant if it has that number, closed; None for an answer to any other."""
        closed = self._open
        if closed is None or closed.number != number:
            return None
        self._open = None
        return closed

    def _unused(self, grant: _OpenGrant, effects: Effects) -> None:
        """Nothing was sent to the grant's worker: have it say again that it is idle."""
        effects.send(grant.worker_id, Resync(self._epoch))

    def _take_counts(self, ready: Ready) -> None:
        user = self._users.get(ready.user)
        if user is None:
            user = self._users[ready.user] = _User()
        for kind, count in ready.counts.items():
            if count:
                user.counts[kind] = count
            else:
                user.counts.pop(kind, None)
                user.heads.pop(kind, None)
        if ready.heads:
            user.heads.update(ready.heads)
        self._reindex(ready.user, user)

    def _reindex(self, name: str, user: _User) -> None:
        """Put the user into the index of every pool it has work for, with its current key, and out of the others."""
        if self._awaited:
            # Until all have answered nobody knows who is eligible; who was must not lose its place by looking idle.
            return
        wanted = [pool for pool in self._pools.values() if not pool.kinds.isdisjoint(user.counts)]
        if wanted:
            self._account.activate(name, self._settings.weight(name))
        else:
            self._account.deactivate(name)
        for pool in wanted:
            pool.index.put(name, [head for kind, head in user.heads.items() if kind in pool.kinds])
        if len(wanted) < len(self._pools):
            for pool in self._pools.values():
                if pool not in wanted:
                    pool.index.discard(name)
        if not user.counts:
            self._users.pop(name, None)

    def _reindex_all(self) -> None:
        # By name, because the order of the table of users is another one after a restart.
        for name, user in sorted(self._users.items(), key=lambda item: item[0]):
            self._reindex(name, user)

    def _forget(self, name: str) -> None:
        if (user := self._users.get(name)) is not None:
            user.counts.clear()
            user.heads.clear()
            self._reindex(name, user)

    def _pool(self, kinds: frozenset[str]) -> _Pool:
        pool = self._pools.get(kinds)
        if pool is None:
            pool = _Pool(kinds, self._account.index())
            self._pools[kinds] = pool
            self._pools = dict(sorted(self._pools.items(), key=lambda item: sorted(item[0])))
            self._reindex_all()
        return pool

    def _make_idle(self, worker: Address, pool: _Pool) -> None:
        self._idle[worker] = pool
        heappush(pool.idle, (len(worker), worker))

    def _set_used(self, worker: Address, number: int, task_id: str) -> None:
        self._used[worker] = (number, task_id)
        self._notes["used/" + worker] = (number, task_id)

    def _drop_worker(self, worker: Address) -> None:
        if worker in self._used:
            del self._used[worker]
            del self._notes["used/" + worker]
        if (pool := self._idle.pop(worker, None)) is not None:
            pool.idle.remove((len(worker), worker))
            heapify(pool.idle)


_HANDLERS: dict[type, Callable[..., None]] = {
    Ready: Scheduler._ready,
    Granted: Scheduler._granted,
    Declined: Scheduler._declined,
    Settled: Scheduler._settled,
    Idle: Scheduler._became_idle,
    Busy: Scheduler._busy,
    Failed: Scheduler._told_failed,
    Wake: Scheduler._wake,
}
