"""Statistics and health: what a runtime looks like now, as frozen objects.

Everything is read off what is kept anyway (the table's tallies, the meter's counts), so that asking costs O(users + kinds) and
not O(tasks), and changes nothing. One thing costs more: to find who has waited longest, those are looked at who were admitted
before it and run, or are delayed.
"""

from collections.abc import Mapping
from types import MappingProxyType

import attrs

from actors.engine import Engine
from actors.explain import held_back
from actors.messages import SHARD
from actors.meter import Meter, NeverRan
from actors.options import AlertOptions
from actors.shard import Shard
from actors.task import Priority, Status, Task
from actors.trace import (
    ActorRestarted,
    Admitted,
    Cancelled,
    Completed,
    DeadLettered,
    Recovered,
    Released,
    ReportRefused,
    Requeued,
    Retried,
    Started,
    StopIgnored,
    SubmitRefused,
    Swept,
)

__all__ = ["Alert", "Health", "Lifetime", "Stats", "health_of", "stats_of"]

OLDEST = "oldest_wait_seconds"

Counts = Mapping[Status, int]

_NO_COUNTS: Counts = MappingProxyType(dict.fromkeys(Status, 0))


@attrs.frozen(kw_only=True)
class Lifetime:
    """What has happened since the runtime was opened.

    >>> Lifetime(admitted=3).completed
    0
    """

    admitted: int = 0
    refused: int = 0
    """Submits turned away at the door."""
    started: int = 0
    """Executions."""
    completed: int = 0
    retried: int = 0
    """Executions that failed, and another followed."""
    failed: int = 0
    """Tasks that became dead letters."""
    cancelled: int = 0
    recovered: int = 0
    """Tasks taken from a worker that fell silent."""
    released: int = 0
    """Tasks given back unharmed."""
    requeued: int = 0
    """Tasks that an operator put back."""
    removed: int = 0
    """Ended tasks that were kept long enough, or deleted."""
    late_reports: int = 0
    """Reports under an old token, which were refused."""
    stops_ignored: int = 0
    """Executions that went on although they were told to stop."""
    abandoned_threads: int = 0
    """Threads that were left behind because they went on."""
    restarts: int = 0
    """Actors built anew."""
    undelivered: int = 0
    """Messages that nobody could handle."""


@attrs.frozen(kw_only=True)
class Stats:
    """A runtime at one moment."""

    at: float
    """When, in seconds since 1970."""
    uptime_seconds: float
    by_status: Counts
    """How many tasks stand where, those included that have ended and are still kept."""
    by_kind: Mapping[str, Counts]
    by_user: Mapping[str, Counts]
    by_priority: Mapping[Priority, Counts]
    workers: int
    workers_busy: int
    wait_seconds_p50: float | None
    """What half of the tasks of the last minutes waited at most for their first start; None: none was started."""
    wait_seconds_p99: float | None
    """What 99 of 100 did."""
    oldest_wait_seconds: float
    """How long the task that has waited longest has done so since it could last run, as far as that is a question of time: its
    delays and executions do not count. 0 if none waits."""
    completed_per_second: float
    """Over the last minutes."""
    index_health: float
    """Live entries as a part of all in the shards' lanes; 1 when empty."""
    lifetime: Lifetime

    @property
    def pending(self) -> int:
        """Tasks that wait."""
        return self.by_status[Status.PENDING]

    @property
    def in_progress(self) -> int:
        """Tasks that run."""
        return self.by_status[Status.IN_PROGRESS]


@attrs.frozen
class Alert:
    """Something that a person should look at.

    >>> Alert("refused", 3, 0, "3 submits were refused in the last minutes").name
    'refused'
    """

    name: str
    """`oldest_wait_seconds`, `failure_rate`, `stuck`, `unreachable` or `refused`, as in `AlertOptions`."""
    value: float
    threshold: float
    said: str
    """In words."""


@attrs.frozen(kw_only=True)
class Health:
    """Whether a runtime needs looking after.

    >>> Health(status="ok").alerts
    ()
    """

    status: str
    """`ok`, or `degraded` if there is an alert or a recording has failed, or `stopped` if it has stopped, or stops."""
    alerts: tuple[Alert, ...] = ()
    unreachable: tuple[str, ...] = ()
    """Users with work that no worker may take."""
    unhandled: tuple[str, ...] = ()
    """Kinds of which tasks wait and that no worker runs: they have no handler here, or no worker is meant for them."""
    recording: str | None = None
    """Why nothing is recorded any more, if something was to be."""


def stats_of(engine: Engine) -> Stats:
    """A runtime's statistics."""
    now, meter = engine.now(), engine.meter
    by_kind: dict[str, dict[Status, int]] = {}
    by_user: dict[str, dict[Status, int]] = {}
    by_priority: dict[Priority, dict[Status, int]] = {level: dict(_NO_COUNTS) for level in Priority}
    for (user, kind, priority), tally in engine.table.tallies().items():
        for counts in (
            by_kind.setdefault(kind, dict(_NO_COUNTS)),
            by_user.setdefault(user, dict(_NO_COUNTS)),
            by_priority[priority],
        ):
            for status, count in tally.items():
                counts[status] += count
    return Stats(
        at=now,
        uptime_seconds=now - meter.began_at,
        by_status=dict(engine.table.counts),
        by_kind=by_kind,
        by_user=by_user,
        by_priority=by_priority,
        workers=len(engine.executors),
        workers_busy=sum(executor.occupied for executor in engine.executors.values()),
        wait_seconds_p50=meter.wait_percentile(now, 0.5),
        wait_seconds_p99=meter.wait_percentile(now, 0.99),
        oldest_wait_seconds=_oldest_wait(engine, now)[0],
        completed_per_second=meter.completed_per_second(now),
        index_health=_index_health(engine),
        lifetime=_lifetime(engine),
    )


def health_of(engine: Engine, thresholds: AlertOptions) -> Health:
    """Whether a runtime needs looking after, and why."""
    now = engine.now()
    unreachable = tuple(engine.scheduler().unreachable)
    oldest_wait, oldest = _oldest_wait(engine, now)
    values = {
        OLDEST: oldest_wait,
        "failure_rate": _failure_rate(engine.meter, now),
        "stuck": float(engine.meter.recent(now, Recovered, StopIgnored)),
        "unreachable": float(len(unreachable)),
        "refused": float(engine.meter.recent(now, SubmitRefused)),
    }
    alerts = tuple(
        Alert(name, value, threshold, _SAID[name].format(value) + (_why(engine, oldest, now) if name == OLDEST else ""))
        for name, value in values.items()
        if (threshold := getattr(thresholds, name)) is not None and value > threshold
    )
    recording = engine.recorder.error if engine.recorder is not None else None
    return Health(
        status="stopped" if engine.stopping else "degraded" if alerts or recording else "ok",
        alerts=alerts,
        unreachable=unreachable,
        unhandled=_unhandled(engine, now),
        recording=recording,
    )


_SAID = {
    "oldest_wait_seconds": "a task has waited for {:.1f} s",
    "failure_rate": "{:.0%} of the executions of the last minutes failed",
    "stuck": "{:.0f} of the executions of the last minutes fell silent or would not stop",
    "unreachable": "no worker may take the work of {:.0f} of the users",
    "refused": "{:.0f} of the submits of the last minutes were refused",
}


def _failure_rate(meter: Meter, now: float) -> float:
    """What never ran is a dead letter, and no execution that failed."""
    failed = meter.recent(now, Retried, DeadLettered) - meter.recent(now, NeverRan)
    ended = failed + meter.recent(now, Completed)
    return failed / ended if ended else 0.0


def _why(engine: Engine, task: Task | None, now: float) -> str:
    """What holds a task back, if anything does besides others."""
    if task is None:
        return ""
    blocks = held_back(task, engine.scheduler().standing(task.user, task.kind, now), now)
    return ": " + "; ".join(block.said for block in blocks) if blocks else " though it could run"


def _oldest_wait(engine: Engine, now: float) -> tuple[float, Task | None]:
    longest, oldest = 0.0, None
    for task in engine.table.every_live():
        # They are in the order in which they came, or were put back: nobody further on has waited for longer than this.
        if now - task.created_at <= longest:
            break
        if task.status is Status.PENDING:
            since = max(task.order_at, task.updated_at)
            waited = now - (since if task.run_after is None else max(since, task.run_after))
            if waited > longest:
                longest, oldest = waited, task
    return longest, oldest


def _unhandled(engine: Engine, now: float) -> tuple[str, ...]:
    waiting = {kind: user for (user, kind, _), tally in engine.table.tallies().items() if tally[Status.PENDING]}
    scheduler = engine.scheduler()
    return tuple(sorted(kind for kind, user in waiting.items() if not scheduler.standing(user, kind, now).handled))


def _index_health(engine: Engine) -> float:
    shards = [engine.host.core(address) for address in engine.host.addresses() if address.startswith(f"{SHARD}/")]
    sizes = [shard.index_size for shard in shards if isinstance(shard, Shard)]
    entries = sum(entries for _, entries in sizes)
    return sum(live for live, _ in sizes) / entries if entries else 1.0


def _lifetime(engine: Engine) -> Lifetime:
    counts = engine.meter.counts
    return Lifetime(
        admitted=counts[Admitted],
        refused=counts[SubmitRefused],
        started=counts[Started],
        completed=counts[Completed],
        retried=counts[Retried],
        failed=counts[DeadLettered],
        cancelled=counts[Cancelled],
        recovered=counts[Recovered],
        released=counts[Released],
        requeued=counts[Requeued],
        removed=counts[Swept],
        late_reports=counts[ReportRefused],
        stops_ignored=counts[StopIgnored],
        abandoned_threads=engine.abandoned_threads,
        restarts=counts[ActorRestarted],
        undelivered=engine.host.undelivered_count,
    )
