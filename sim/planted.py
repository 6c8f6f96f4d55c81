"""Mistakes made on purpose, to see that the checks and the explorer find them.

Each is one that somebody could make. The actors know nothing of them: a simulation that is told to, by `planted` under
`[runtime]`, builds altered cores in the place of the real ones. The ledger is told the truth, so it sees the difference.
"""

from collections.abc import Sequence
from typing import Any

import attrs

from actors.actor import Draw, Effects
from actors.config import Settings
from actors.host import Host
from actors.messages import (
    QUEUE,
    SCHEDULER,
    SHARD,
    SUPERVISOR,
    Address,
    Grant,
    Granted,
    Idle,
    Ready,
    Run,
)
from actors.policies.fair import FairAccount, WeightedFair
from actors.policies.sharing import Claims
from actors.queue import Queue
from actors.scheduler import Scheduler
from actors.shard import Shard
from actors.supervisor import Supervisor
from actors.table import Notes
from actors.task import Status, Task
from actors.trace import Started
from actors.wiring import notes_of

__all__ = ["EARLY", "PLANTED", "spawn_planted_cores"]

PLANTED = {
    "no_fencing": "a report is accepted whatever its token, as long as the task runs",
    "no_lease_scan": "nobody looks for leases that have run out",
    "banked_credit": "under weighted_fair a user that comes back is given what it missed while it had nothing to do",
    "lost_wakeup": "one in twenty of the words `Idle` and `Ready` that come while a grant is open is forgotten",
    "double_grant": "a thief and a worker of the user's own that come in the same instant are given the same task",
    "no_jitter": "tasks that failed together come back together",
    "early_acknowledgement": "what should wait for a commit is told before it",
}
"""What can be planted, and what is then wrong."""

EARLY = "early_acknowledgement"
"""Made by the journal, and not by a core."""

_FORGOTTEN = 0.05


def spawn_planted_cores(host: Host, settings: Settings, planted: Sequence[str]) -> None:
    """Start the cores that every runtime has, with these mistakes in them."""
    table = host.table
    settings = _altered(settings, planted)
    shard, scheduler, supervisor = (
        _with(base, [found for name in planted if issubclass(found := _ALTERED.get(name, object), base)])
        for base in (Shard, Scheduler, Supervisor)
    )
    host.on_demand(SHARD, lambda user: shard(user, settings, table, notes_of(table, f"{SHARD}/{user}")))
    host.spawn(QUEUE, lambda: Queue(settings, notes_of(table, QUEUE), table))
    host.spawn(SCHEDULER, lambda: scheduler(settings, table, notes_of(table, SCHEDULER)))
    host.spawn(SUPERVISOR, lambda: supervisor(table))


def _with(base: type[Any], altered: list[type[Any]]) -> type[Any]:
    return type(base.__name__, (*altered, base), {})


def _altered(settings: Settings, planted: Sequence[str]) -> Settings:
    if "banked_credit" in planted and isinstance(settings.sharing, WeightedFair):
        settings = attrs.evolve(settings, sharing=_Banked())
    if "no_jitter" in planted:
        kinds = {
            name: attrs.evolve(kind, retry=attrs.evolve(kind.retry, jitter=0.0))
            for name, kind in settings.kinds.items()
        }
        settings = attrs.evolve(settings, kinds=kinds)
    return settings


class _Unfenced(Shard):
    def _owned(self, task_id: str, token: int, worker: Address | None, now: float, effects: Effects) -> Task | None:
        task = self._current(task_id)
        if task is not None and task.status is Status.IN_PROGRESS:
            return task
        return super()._owned(task_id, token, worker, now, effects)


class _Unscanned(Supervisor):
    def _look(self, now: float, effects: Effects) -> None:
        """Looks away."""


class _Forgetful(Scheduler):
    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        if self._open is not None and isinstance(message, (Idle, Ready)):
            about = message.worker_id if isinstance(message, Idle) else message.user
            if draw("planted", about, self._open.number) < _FORGOTTEN:
                return Effects()
        return super().handle(message, now, draw)


class _Generous(Shard):
    _given: tuple[Task, bool] | None = None
    """What was given last, and whether to a thief."""

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        if isinstance(message, Grant) and self._given is not None:
            task, stolen = self._given
            if task.started_at == now and stolen != message.stolen:
                return self._give_again(message, task, now)
        effects = super().handle(message, now, draw)
        if isinstance(message, Grant):
            claimed = [record for record in effects.records if isinstance(record, Task)]
            self._given = (claimed[0], message.stolen) if claimed else None
        return effects

    def _give_again(self, grant: Grant, task: Task, now: float) -> Effects:
        self._given = None
        effects = Effects()
        kind = self._settings.kind(task.kind)
        effects.events.append(
            Started(now, task.identity, task.token, task.attempts, grant.worker_id, None, grant.stolen)
        )
        run = Run(
            task.id,
            self._user,
            task.kind,
            task.token,
            task.attempts,
            task.payload,
            kind.lease_seconds,
            grant.number,
            kind.timeout_seconds,
        )
        effects.hold(grant.worker_id, run)
        effects.send(SCHEDULER, Granted(grant.number, task.id, self._user, task.kind, task.cost))
        return effects


@attrs.frozen
class _Banked:
    """Weighted fair sharing that remembers what idle users missed."""

    sees_heads = False
    sees_counts = False

    def start(self, notes: Notes, claims: Claims) -> "_BankingAccount":
        return _BankingAccount(notes, claims)


class _BankingAccount(FairAccount):
    def activate(self, user: str, now: float) -> None:
        node = self._node(user)
        tag, own_tag = node.tag, node.own_tag
        super().activate(user, now)
        node.tag, node.own_tag = tag, own_tag
        self._note(node)

    def _rest(self, node: Any) -> None:
        """Nobody is forgotten."""


_ALTERED: dict[str, type[Any]] = {
    "no_fencing": _Unfenced,
    "no_lease_scan": _Unscanned,
    "lost_wakeup": _Forgetful,
    "double_grant": _Generous,
}
