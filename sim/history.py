"""What happened in a run, as columns: who waited, who worked for whom and when. Pictures and comparisons are made of it.

It is an observer like any other, and it also reads what a runtime recorded: so a picture of production looks like one of a
simulation.
"""

import math
from array import array
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import attrs
import msgspec

from actors.policies.ordering import OrderingPolicy
from actors.policies.sharing import SharingPolicy
from actors.trace import (
    Admitted,
    Cancelled,
    Completed,
    DeadLettered,
    Event,
    Header,
    Recovered,
    Released,
    Requeued,
    Retried,
    Started,
)
from sim.curve import Curve, furthest_below, steps
from sim.fluid import Work, fluid_service
from sim.metrics import jain_index
from sim.recorded import RUNTIME, recorded_items
from sim.replay import numbers_by_size
from sim.runner import simulate, with_options
from sim.scenario import Scenario

__all__ = ["OUTCOMES", "Behind", "History", "Stint", "Waited", "history_of", "read_history"]

OUTCOMES = ("running", "completed", "retried", "recovered", "released", "requeued", "failed", "cancelled")
"""How a stint can end; one that is `running` had not ended when the history did."""

_OUTCOME_OF: dict[type, str] = {
    Completed: "completed",
    Retried: "retried",
    Recovered: "recovered",
    Released: "released",
    Requeued: "requeued",
    DeadLettered: "failed",
    Cancelled: "cancelled",
}
_NEVER = -1.0
_BEFORE, _AFTER = 0, 1


class Stint(NamedTuple):
    """One execution of a task by a worker."""

    task: str
    """As in a trace: `user#sequence`."""
    user: str
    level: int
    worker: str
    began_at: float
    ended_at: float
    outcome: str
    """One of `OUTCOMES`."""
    stolen: bool
    """Whether the worker was not one of the user's own."""


class Waited(NamedTuple):
    """One task, and how long it waited."""

    task: str
    user: str
    level: int
    ready_at: float
    """When it could first start."""
    seconds: float | None
    """None if it was never started."""


class Behind(NamedTuple):
    """How far a user fell behind its ideal fluid share."""

    user: str
    seconds: float
    """In seconds of one worker's time."""
    at: float
    """When that was."""


@attrs.define(eq=False)
class _Task:
    user: str
    level: int
    ready_at: float
    waits_from: float
    waited_seconds: float | None = None


@attrs.define(eq=False)
class _User:
    came: "array[float]" = attrs.Factory(lambda: array("d"))
    """When each of its tasks came to wait, again if it came back."""
    left: "array[float]" = attrs.Factory(lambda: array("d"))
    """When each was started, or ended as it waited."""


class History:
    """Watches a run and keeps what pictures are drawn from.

    >>> from sim import Burst, Fixed, Kind, Runtime, Scenario, User, simulate
    >>> kind = Kind(name="work", service=Fixed(seconds=2.0))
    >>> users = tuple(User(name=name, arrivals=(Burst(kind="work", count=2),)) for name in ("alice", "bob"))
    >>> scenario = Scenario(
    ...     name="demo", duration_seconds=1.0, kinds=(kind,), users=users, runtime=Runtime(workers=1)
    ... )
    >>> history = History.of(scenario)
    >>> _ = simulate(scenario, sharing="fifo", observers=[history])
    >>> [(stint.task, stint.began_at, stint.ended_at) for stint in history.stints()]
    [('alice#1', 0.0, 2.0), ('alice#2', 2.0, 4.0), ('bob#3', 4.0, 6.0), ('bob#4', 6.0, 8.0)]
    >>> history.worst_lag()
    Behind(user='bob', seconds=2.0, at=4.0)
    """

    def __init__(
        self, workers: int | None = None, weights: Mapping[str, float] | None = None, warmup_seconds: float = 0.0
    ) -> None:
        self._workers = workers
        self.weights = dict(weights or {})
        """Of users and tenants, as they were at the beginning; 1 unless given."""
        self.warmup_seconds = warmup_seconds
        """Waits of tasks that could start before this do not count."""
        self.last_at = 0.0
        """When something last happened."""
        self.ended = 0
        """Tasks that ended, one way or another."""
        self._seen = {user: _User() for user in self.weights}
        self._hands: dict[str, int] = {}
        """The workers that were seen, with their places."""
        self._tasks: dict[str, _Task] = {}
        self._by = array("l")
        """For each stint the place of its worker."""
        self._began, self._ended = array("d"), array("d")
        self._outcomes, self._stolen = array("b"), array("b")
        self._names: list[str] = []
        self._running: dict[str, int] = {}
        """For each task at work, its stint."""

    @classmethod
    def of(cls, scenario: Scenario) -> Self:
        """One that knows the workers and weights of a scenario."""
        weights = {user.name: user.weight for user in scenario.each_user()}
        return cls(len(scenario.worker_classes()), weights, scenario.warmup_seconds)

    # What it sees

    def on_event(self, event: Event) -> None:
        self.last_at = event.at
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    def on_quiet(self, now: float) -> None:
        """Only events are kept."""

    def _admitted(self, event: Admitted) -> None:
        user = self._seen.get(event.user)
        if user is None:
            user = self._seen[event.user] = _User()
        ready_at = max(event.at, event.order_at)
        self._tasks[event.task] = _Task(event.user, event.level, ready_at, ready_at)
        user.came.append(ready_at)

    def _started(self, event: Started) -> None:
        task = self._tasks.get(event.task)
        if task is None:
            # Of what was admitted before the recording began nobody knows whose it is.
            return
        user = self._seen[task.user]
        user.left.append(event.at)
        if event.waited_seconds is not None:
            task.waited_seconds = event.waited_seconds
        self._running[event.task] = len(self._began)
        self._names.append(event.task)
        self._by.append(self._hands.setdefault(event.worker, len(self._hands)))
        self._began.append(event.at)
        self._ended.append(_NEVER)
        self._outcomes.append(0)
        self._stolen.append(event.stolen)

    def _stopped(self, event: Completed) -> None:
        self.ended += 1
        self._end(event.task, _OUTCOME_OF[type(event)], event.at)

    def _back(self, event: Retried | Recovered | Released | Requeued) -> None:
        """It waits again."""
        self._end(event.task, _OUTCOME_OF[type(event)], event.at)
        if (task := self._tasks.get(event.task)) is not None:
            task.waits_from = event.run_after if isinstance(event, Retried) else event.at
            self._seen[task.user].came.append(task.waits_from)

    def _gone(self, event: DeadLettered | Cancelled) -> None:
        """It ended, at work or while it waited."""
        self.ended += 1
        task = self._tasks.get(event.task)
        if event.worker is None and task is not None:
            # One that was delayed and ends before its time never waited.
            self._seen[task.user].left.append(max(event.at, task.waits_from))
        outcome = "recovered" if event.outcome == "recovered" else _OUTCOME_OF[type(event)]
        self._end(event.task, outcome, event.at)

    def _end(self, task: str, outcome: str, at: float) -> None:
        stint = self._running.pop(task, None)
        if stint is not None:
            self._ended[stint] = at
            self._outcomes[stint] = OUTCOMES.index(outcome)

    # What it tells

    @property
    def users(self) -> list[str]:
        """Everybody who had a task, in the order of the scenario or else of their first tasks."""
        return [name for name, user in self._seen.items() if user.came]

    @property
    def workers(self) -> list[str]:
        """Everybody who worked, by number."""
        return sorted(self._hands, key=numbers_by_size)

    @property
    def worker_count(self) -> int:
        """How many workers there are: as many as were said, or as were seen."""
        return self._workers or max(1, len(self._hands))

    def stints(self) -> Iterator[Stint]:
        """Every execution, in the order of their starts."""
        hands = list(self._hands)
        columns = (self._names, self._by, self._began, self._ended, self._outcomes, self._stolen)
        for name, by, began_at, ended_at, outcome, stolen in zip(*columns, strict=True):
            task = self._tasks[name]
            ended_at = self.last_at if ended_at == _NEVER else ended_at
            yield Stint(name, task.user, task.level, hands[by], began_at, ended_at, OUTCOMES[outcome], bool(stolen))

    def tasks(self) -> Iterator["Waited"]:
        """Every task, with what it waited for its first start: None if it never had one, or not after the warm-up."""
        for name, task in self._tasks.items():
            counts = task.ready_at >= self.warmup_seconds
            yield Waited(name, task.user, task.level, task.ready_at, task.waited_seconds if counts else None)

    def waits(self) -> dict[str, list[float]]:
        """For each user, what its tasks waited for their first start, sorted."""
        found: dict[str, list[float]] = {user: [] for user in self.users}
        for task in self.tasks():
            if task.seconds is not None:
                found[task.user].append(task.seconds)
        return {user: sorted(waits) for user, waits in found.items()}

    def slowdowns(self) -> dict[str, list[float]]:
        """For each user, the time from when a task could start to its completion, over what its last execution took."""
        found: dict[str, list[float]] = {user: [] for user in self.users}
        for stint in self.stints():
            seconds, ready_at = stint.ended_at - stint.began_at, self._tasks[stint.task].ready_at
            if stint.outcome == "completed" and seconds > 0 and ready_at >= self.warmup_seconds:
                found[stint.user].append((stint.ended_at - ready_at) / seconds)
        return found

    def service(self) -> dict[str, float]:
        """For each user, the seconds of workers' time that it was given."""
        found: dict[str, list[float]] = {user: [] for user in self.users}
        for stint in self.stints():
            found[stint.user].append(stint.ended_at - stint.began_at)
        return {user: math.fsum(seconds) for user, seconds in found.items()}

    def backlog(self, user: str) -> list[tuple[float, int]]:
        """How many of a user's tasks could start and waited, from each time on at which that changed."""
        seen = self._seen[user]
        return list(steps([*((at, 1) for at in seen.came), *((at, -1) for at in seen.left)]))

    def jain(self) -> float | None:
        """Jain's index over the users that ever had a task waiting, while all of them had: see sim/metrics.py."""
        # What starts as a backlog ends was started while it was there, and what starts as one begins was not.
        log: list[tuple[float, int, str, float]] = []
        named = {}
        for user in self.users:
            before = 0
            for at, waiting in self.backlog(user):
                if (waiting > 0) != (before > 0):
                    log.append((at, _AFTER, user, 1.0 if waiting else -1.0))
                    named[user] = 0.0
                before = waiting
        log += [(stint.began_at, _BEFORE, stint.user, stint.ended_at - stint.began_at) for stint in self.stints()]
        together = 0.0
        for _, when, user, value in sorted(log, key=lambda line: line[:2]):
            if when == _AFTER:
                together += value
            elif together == len(named) and user in named:
                named[user] += value
        return jain_index([seconds / self.weights.get(user, 1.0) for user, seconds in named.items()])

    def received(self) -> dict[str, Curve]:
        """For each user, the seconds of workers' time that it had been given by each time."""
        edges: dict[str, list[tuple[float, int]]] = {user: [] for user in self.users}
        for stint in self.stints():
            edges[stint.user] += ((stint.began_at, 1), (stint.ended_at, -1))
        return {user: _given(found) for user, found in edges.items()}

    def work(self) -> list[Work]:
        """What was asked for: when each task could start, whose it is and how long workers were at it in all."""
        seconds: dict[str, float] = dict.fromkeys(self._tasks, 0.0)
        for stint in self.stints():
            seconds[stint.task] += stint.ended_at - stint.began_at
        return [(task.ready_at, task.user, seconds[name]) for name, task in self._tasks.items()]

    def ideal(self) -> dict[str, Curve]:
        """The same as `received`, if the same work had flowed as the ideal fluid share has it: see sim/fluid.py."""
        curves = fluid_service(self.work(), self.worker_count, self.weights)
        return {user: curves[user] for user in self.users}

    def lags(self, ideal: Mapping[str, Curve] | None = None) -> list[Behind]:
        """How far each user fell behind the ideal, at worst; whose ideal is known already need not be worked out again."""
        wanted = self.ideal() if ideal is None else ideal
        return [Behind(user, *furthest_below(curve, wanted[user])) for user, curve in self.received().items()]

    def worst_lag(self, ideal: Mapping[str, Curve] | None = None) -> Behind | None:
        """Who fell behind furthest; None if nobody had a task."""
        return max(self.lags(ideal), key=lambda behind: behind.seconds, default=None)


def history_of(
    scenario: Scenario,
    *,
    seed: int | None = None,
    sharing: SharingPolicy | str | None = None,
    ordering: OrderingPolicy | str | None = None,
) -> History:
    """Run a scenario, with another seed or policies if given, and keep what happened: what pictures are drawn from.

    >>> from sim import load_scenario
    >>> from sim.library import located
    >>> history = history_of(load_scenario(located("stealing_longest")), sharing="round_robin")
    >>> history.users, history.workers, any(stint.stolen for stint in history.stints())
    (['alice', 'bob', 'carol'], ['worker/1', 'worker/2', 'worker/3'], True)
    """
    scenario = with_options(scenario, seed=seed, sharing=sharing, ordering=ordering)
    history = History.of(scenario)
    simulate(scenario, observers=[history])
    return history


def read_history(path: str | Path) -> History:
    """The history of a recorded run: a trace of the simulator's, or what a runtime wrote (`record=`); gzipped or not."""
    history = History()
    began_at: float | None = 0.0
    for _, item in recorded_items(str(path)):
        if isinstance(item, Header):
            options = item.options
            history = History(options.get("workers"))
            history.weights.update(options.get("weights", {}))
            began_at = None if item.scenario == RUNTIME else 0.0
            continue
        if began_at is None:
            began_at = item.at
        history.on_event(_since(began_at, item) if began_at else item)
    return history


def _since(began_at: float, event: Event) -> Event:
    """The same with times since the start in the place of times of the day, as where it is replayed."""
    times = {name: getattr(event, name, None) for name in ("at", "order_at", "run_after")}
    changed: Any = {name: at - began_at for name, at in times.items() if at is not None}
    return msgspec.structs.replace(event, **changed)


def _given(edges: list[tuple[float, int]]) -> Curve:
    """What so many workers gave, where each edge is one more or one less."""
    curve = Curve()
    given, running, since = 0.0, 0, 0.0
    for at, change in sorted(edges):
        given += running * (at - since)
        running, since = running + change, at
        if curve.times and curve.times[-1] == at:
            continue
        curve.add(at, given)
    return curve


_HANDLERS: dict[type, Callable[[History, Any], None]] = {
    Admitted: History._admitted,
    Started: History._started,
    Completed: History._stopped,
    Retried: History._back,
    Recovered: History._back,
    Released: History._back,
    Requeued: History._back,
    DeadLettered: History._gone,
    Cancelled: History._gone,
}
