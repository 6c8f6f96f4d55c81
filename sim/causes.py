"""The causal graph of a run: what each execution came after, and what it waited for.

A node is one *stay* of a task: it waits, and mostly it is then executed. The first stay of `alice#3` is `("alice#3", 1)`, the
one after a retry, a recovery or a requeue is `("alice#3", 2)`. Edges lead from what delayed to what was delayed, with a
`reason` and the `seconds` of waiting that lie in between:

- `worker`: the worker that took it ran that before;
- `limit`: a worker was free, but a limit was used up by that; `key` says which limit;
- `retry`, `recovery`, `release`, `requeue`: an earlier stay of the same task.

All is read from the events, in one pass and O(1) each. With the settings of the run, limits are counted once more: a cap held a
task back if it was reached just before something ended under it, a rate if there was no permit to spare. Without them it is
inferred: a worker that was free beside a waiting task which it took later did not pass it over, because no worker idles
beside a task that it may run (I9). So what held it back was a pause, which the events tell, or else a limit.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import attrs

from actors.config import Settings
from actors.limits import Limit
from actors.policies.sharing import CapsUsers
from actors.restraints import EVERYTHING, kind_key, user_key
from actors.trace import (
    Admitted,
    Cancelled,
    Completed,
    DeadLettered,
    Event,
    Paused,
    Reachable,
    Recovered,
    Released,
    Relimited,
    Requeued,
    Restored,
    Resumed,
    Retried,
    Started,
    StopIgnored,
    Unreachable,
)
from sim.undone import standing

if TYPE_CHECKING:
    from networkx import DiGraph

__all__ = ["GONE", "Causes", "Hold", "Stay", "causal_graph"]

GONE = "gone"
"""The key of a hold in which there was no process."""

Key = tuple[str, int]
"""A task and the number of its stay."""


@attrs.define(kw_only=True, eq=False)
class Stay:
    """A task waits, and mostly it is then executed."""

    task: str
    number: int
    user: str
    kind: str
    level: int
    cost: float
    order_at: float
    waits_from: float
    """When this stay began."""
    ready_at: float
    """When it could have started."""
    because: str = "door"
    """What lies between the two: `door`, `retry`, `recovery`, `release` or `requeue`."""
    error: str | None = None
    """What the execution before said, if it failed."""
    started_at: float | None = None
    worker: str | None = None
    ended_at: float | None = None
    outcome: str | None = None
    """`completed`, `retried`, `recovered`, `released`, `requeued`, `cancelled`, or the cause of a dead letter."""
    lingers: bool = False
    """Whether its worker may have been busy with it after it had ended: nobody knows."""
    previous: Key | None = None
    """What its worker ran before."""
    blocker: Key | None = None
    """What had used up the limit that held it back last, if one did."""
    limit: str | None = None
    """That limit, in words."""
    by_rate: bool = False
    """Whether it is a rate, rather than a cap."""

    @property
    def key(self) -> Key:
        """Its node."""
        return (self.task, self.number)


@attrs.define
class Hold:
    """A time in which nothing of somebody could start."""

    key: str
    """`all`, `kind/...`, `user/...`, `reach/...` for a user whom no worker may serve, or `gone` where there was no process."""
    began_at: float
    ended_at: float | None = None


class Causes:
    """Watches a run and remembers what came after what. Not for a run of a hundred million tasks: it forgets nothing.

    >>> causes = Causes()
    >>> causes.on_event(Admitted(0.0, "alice#1", "alice", "crawl", 3, 0.0, None, None, 3, 1.0))
    >>> causes.on_event(Started(2.0, "alice#1", 1, 1, "worker/1"))
    >>> list(causes.graph().nodes)
    [('alice#1', 1)]
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._limits = None if settings is None else settings.limits()
        policy = None if settings is None else settings.sharing
        self._cap = policy.user_concurrency_max if isinstance(policy, CapsUsers) else None
        self.start_over()

    def start_over(self) -> None:
        """Nothing has been seen yet."""
        self._stays: dict[Key, Stay] = {}
        self._current: dict[str, Stay] = {}
        self._last_on: dict[str, Stay] = {}
        """What each worker ran last."""
        self._last_under: dict[str, Stay] = {}
        """What was started last under each key."""
        self._ended_now: list[Stay] = []
        self._running: Counter[str] = Counter()
        self._ran_before: dict[str, int] = {}
        """Where it changed in this instant, how many ran before."""
        self._permits: dict[str, tuple[float, float]] = {}
        """Of each rate, how many there were, and when."""
        self._now = 0.0
        self._holds: list[Hold] = []

    def on_event(self, event: Event) -> None:
        if event.at > self._now:
            self._now = event.at
            self._ended_now.clear()
            self._ran_before.clear()
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    def on_quiet(self, now: float) -> None:
        """Nothing to see."""

    def graph(self) -> "DiGraph[Key]":
        """What is known so far. Each node has the fields of its `Stay`; holds and the time are the graph's own."""
        import networkx

        graph: DiGraph[Key] = networkx.DiGraph(holds=tuple(self._holds), now=self._now)
        for key, stay in self._stays.items():
            graph.add_node(key, **attrs.asdict(stay))
        for stay in self._stays.values():
            self._add_edges(graph, stay)
        return graph

    def _add_edges(self, graph: "DiGraph[Key]", stay: Stay) -> None:
        """The most telling one last: between the same two, it replaces the others."""
        end = self._now if stay.started_at is None else stay.started_at
        for reason, key in (("worker", stay.previous), ("limit", stay.blocker)):
            if key is not None:
                before = self._stays[key]
                began_at = max(stay.ready_at, before.started_at or 0.0)
                until = end if reason == "limit" else min(end, end if before.ended_at is None else before.ended_at)
                graph.add_edge(key, stay.key, reason=reason, seconds=max(0.0, until - began_at))
                if reason == "limit":
                    graph.edges[key, stay.key]["key"] = stay.limit
        if stay.number > 1:
            earlier = (stay.task, stay.number - 1)
            graph.add_edge(earlier, stay.key, reason=stay.because, seconds=stay.ready_at - stay.waits_from)

    # One method an event

    def _admitted(self, event: Admitted) -> None:
        self._add(
            Stay(
                task=event.task,
                number=1,
                user=event.user,
                kind=event.kind,
                level=event.level,
                cost=event.cost,
                order_at=event.order_at,
                waits_from=event.order_at,
                ready_at=max(event.order_at, event.at),
            )
        )

    def _started(self, event: Started) -> None:
        stay = self._current.get(event.task)
        if stay is None:
            return
        stay.started_at, stay.worker = event.at, event.worker
        before = self._last_on.get(event.worker)
        stay.previous = None if before is None else before.key
        if stay.ready_at < event.at and not self._was_paused(stay):
            free_since = 0.0 if before is None or before.ended_at is None else before.ended_at
            self._find_limit(stay, was_free=free_since < event.at)
        self._last_on[event.worker] = stay
        for key in _keys(stay):
            self._last_under[key] = stay
            self._count(key, 1)
            if (limit := self._limit(key)) is not None and limit.rate_limit is not None:
                self._permits[key] = (self._refilled(key, limit) - 1, self._now)

    def _was_paused(self, stay: Stay) -> bool:
        keys = _keys(stay)
        return any(hold.ended_at == self._now and hold.key in keys for hold in self._holds)

    def _find_limit(self, stay: Stay, was_free: bool) -> None:
        """Which limit let it go just now: a cap under which something just ended, or else a rate."""
        for key in _keys(stay):
            limit = self._limit(key)
            ran = self._ran_before.get(key, self._running[key])
            cap = None if limit is None else limit.concurrency_max
            if was_free if limit is None else cap is not None and ran >= cap:
                for ended in self._ended_now:
                    if key in _keys(ended):
                        stay.blocker, stay.limit = ended.key, _said(key, limit, cap=True)
                        return
        for key in _keys(stay):
            limit = self._limit(key)
            spent = (
                was_free if limit is None else limit.rate_limit is not None and self._refilled(key, limit) < 1 + 1e-6
            )
            if spent and key in self._last_under:
                stay.blocker, stay.limit = self._last_under[key].key, _said(key, limit, cap=False)
                stay.by_rate = True
                return

    def _refilled(self, key: str, limit: Limit) -> float:
        """The permits of a rate now."""
        rate = limit.rate_limit or 0.0
        permits, at = self._permits.get(key, (math.inf, self._now))
        return min(max(1.0, rate), permits + (self._now - at) * rate)

    def _count(self, key: str, difference: int) -> None:
        self._ran_before.setdefault(key, self._running[key])
        self._running[key] += difference

    def _limit(self, key: str) -> Limit | None:
        """What a key is held to; None if nobody said."""
        if self._limits is None:
            return None
        limit = self._limits.get(key, Limit())
        if self._cap is not None and key.startswith(user_key("")):
            caps = [cap for cap in (limit.concurrency_max, self._cap) if cap is not None]
            limit = Limit(limit.rate_limit, min(caps))
        return limit

    def _completed(self, event: Completed) -> None:
        self._end(event.task, "completed")

    def _retried(self, event: Retried) -> None:
        self._again(event.task, "retried", "retry", event.run_after, event.error)

    def _recovered(self, event: Recovered) -> None:
        self._again(event.task, "recovered", "recovery", event.at)

    def _released(self, event: Released) -> None:
        self._again(event.task, "released", "release", event.at)

    def _requeued(self, event: Requeued) -> None:
        self._again(event.task, "requeued", "requeue", event.at)

    def _dead_lettered(self, event: DeadLettered) -> None:
        self._end(event.task, event.cause, lingers=event.outcome == "recovered")

    def _cancelled(self, event: Cancelled) -> None:
        self._end(event.task, "cancelled", lingers=event.outcome == "recovered")

    def _stop_ignored(self, event: StopIgnored) -> None:
        if (stay := self._last_on.get(event.worker)) is not None:
            stay.lingers = True

    def _paused(self, event: Paused) -> None:
        self._holds.append(Hold(_key(event.kind, event.user), event.at))

    def _resumed(self, event: Resumed) -> None:
        self._let_go(_key(event.kind, event.user))

    def _unreachable(self, event: Unreachable) -> None:
        self._holds.append(Hold("reach/" + event.user, event.at))

    def _restored(self, event: Restored) -> None:
        self._holds.append(Hold(GONE, event.at, event.resumed_at))

    def _reachable(self, event: Reachable) -> None:
        self._let_go("reach/" + event.user)

    def _relimited(self, event: Relimited) -> None:
        if self._limits is not None:
            key, limit = _key(event.kind, event.user), Limit(event.rate_limit, event.concurrency_max)
            if key in self._permits:
                self._permits[key] = (self._refilled(key, self._limits.get(key, Limit())), event.at)
            self._limits[key] = limit

    # Shared by the above

    def _add(self, stay: Stay) -> None:
        self._stays[stay.key] = self._current[stay.task] = stay

    def _end(self, task: str, outcome: str, lingers: bool = False) -> Stay | None:
        stay = self._current.get(task)
        if stay is not None and stay.ended_at is None:
            stay.ended_at, stay.outcome, stay.lingers = self._now, outcome, stay.lingers or lingers
            if stay.started_at is not None:
                self._ended_now.append(stay)
                for key in _keys(stay):
                    self._count(key, -1)
        return stay

    def _again(self, task: str, outcome: str, because: str, ready_at: float, error: str | None = None) -> None:
        stay = self._end(task, outcome, lingers=outcome in ("recovered", "requeued"))
        if stay is not None and stay.ended_at is not None:
            self._add(
                Stay(
                    task=task,
                    number=stay.number + 1,
                    user=stay.user,
                    kind=stay.kind,
                    level=stay.level,
                    cost=stay.cost,
                    order_at=stay.order_at,
                    waits_from=stay.ended_at,
                    ready_at=ready_at,
                    because=because,
                    error=error,
                )
            )

    def _let_go(self, key: str) -> None:
        for hold in self._holds:
            if hold.key == key and hold.ended_at is None:
                hold.ended_at = self._now


def causal_graph(events: Iterable[Any], settings: Settings | None = None) -> "DiGraph[Key]":
    """The graph of these events: of a trace that was read, or a list of them. A header among them is passed over.

    >>> graph = causal_graph([
    ...     Admitted(0.0, "bob#1", "bob", "crawl", 3, 0.0, None, None, 3, 1.0),
    ...     Started(0.0, "bob#1", 1, 1, "worker/1"),
    ...     Admitted(1.0, "alice#2", "alice", "crawl", 3, 1.0, None, None, 3, 1.0),
    ...     Completed(5.0, "bob#1", 1, "worker/1", 5.0),
    ...     Started(5.0, "alice#2", 1, 1, "worker/1"),
    ... ])
    >>> graph.edges[("bob#1", 1), ("alice#2", 1)]
    {'reason': 'worker', 'seconds': 4.0}
    """
    causes = Causes(settings)
    for event in standing(event for event in events if hasattr(event, "at")):
        causes.on_event(event)
    return causes.graph()


def _keys(stay: Stay) -> tuple[str, str, str]:
    return (kind_key(stay.kind), user_key(stay.user), EVERYTHING)


def _key(kind: str | None, user: str | None) -> str:
    if kind is not None:
        return kind_key(kind)
    return EVERYTHING if user is None else user_key(user)


def _said(key: str, limit: Limit | None, cap: bool) -> str:
    role, _, name = key.partition("/")
    what = "everything together" if role == EVERYTHING else f"kind {name}" if role == "kind" else name
    if limit is None:
        return f"a limit on {what}"
    return (
        f"{what} may run {limit.concurrency_max} at once" if cap else f"{what} may start {limit.rate_limit:g} a second"
    )


_HANDLERS: dict[type, Callable[[Causes, Any], None]] = {
    Admitted: Causes._admitted,
    Started: Causes._started,
    Completed: Causes._completed,
    Retried: Causes._retried,
    Recovered: Causes._recovered,
    Released: Causes._released,
    Requeued: Causes._requeued,
    DeadLettered: Causes._dead_lettered,
    Cancelled: Causes._cancelled,
    StopIgnored: Causes._stop_ignored,
    Paused: Causes._paused,
    Resumed: Causes._resumed,
    Relimited: Causes._relimited,
    Unreachable: Causes._unreachable,
    Reachable: Causes._reachable,
    Restored: Causes._restored,
}
