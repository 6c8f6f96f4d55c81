"""Why did it wait? The chain of what delayed one task, read off the causal graph of a run.

From its start we walk back along the worker that took it: what did that worker run before, and before that, until the task
was there to be taken. Where the worker was free meanwhile, a limit or a pause held the task back. Earlier stays of the
same task come before. So the steps lie end to end, from `order_at` to the start, and their seconds add up to the wait.
"""

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

import attrs

from actors.errors import UnknownTask
from actors.policies import suggestion
from actors.restraints import EVERYTHING, kind_key, user_key
from actors.task import Priority
from sim.causes import GONE, Hold, Key, Stay

if TYPE_CHECKING:
    from networkx import DiGraph

__all__ = ["Step", "why"]


@attrs.frozen(kw_only=True)
class Step:
    """A piece of a task's waiting, and what it was spent on."""

    began_at: float
    ended_at: float
    reason: str
    """`busy`, `turn`, `order`, `limit`, `pause`, `unreachable`, `restart`, `silent`, `run`, `door`, `retry`, `release` or `requeue`."""
    said: str
    """The same in words."""
    task: str | None = None
    """What ran instead, if something did."""
    worker: str | None = None

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return self.ended_at - self.began_at


def why(graph: "DiGraph[Key]", task: str) -> list[Step]:
    """What delayed the last start of a task, in the order in which it happened; or its end, if it was never started.

    The first step begins at the task's `order_at`, each begins where the one before ended, and the last ends at the start.

    >>> from sim import Burst, Causes, Fixed, Kind, Runtime, Scenario, User, simulate
    >>> kind = Kind(name="work", service=Fixed(seconds=2.0))
    >>> users = tuple(User(name=name, arrivals=(Burst(kind="work", count=1),)) for name in ("alice", "bob"))
    >>> causes = Causes()
    >>> _ = simulate(Scenario(name="x", duration_seconds=1.0, kinds=(kind,), users=users, runtime=Runtime(workers=1)),
    ...              observers=[causes])
    >>> [(step.seconds, step.reason, step.task) for step in why(causes.graph(), "bob#2")]
    [(2.0, 'turn', 'alice#1')]
    """
    number = 0
    while (task, number + 1) in graph:
        number += 1
    if not number:
        names = list(dict.fromkeys(name for name, _ in graph))
        raise UnknownTask(f"no task of this run is called {task!r}{_hint(task, names)}")
    steps: list[Step] = []
    for each in range(1, number + 1):
        chain = _Chain(graph, (task, each))
        steps += chain.steps()
        if each < number:
            steps += chain.run()
    return steps


def _hint(task: str, names: list[str]) -> str:
    if not names:
        return ": it had none"
    user, _, _ = task.rpartition("#")
    if own := [name for name in names if name.rpartition("#")[0] == user]:
        return f" (tasks are numbered over all users: those of {user} are {own[0]!r} to {own[-1]!r})"
    # A wrong name with a right number is most likely that task.
    numbered = [name for name in names if name.rpartition("#")[2] == task.rpartition("#")[2]]
    if numbered:
        return f" (did you mean {numbered[0]!r}?)"
    return suggestion(task, names) or f" (they are called {names[0]!r} to {names[-1]!r})"


class _Chain:
    """What delayed one stay of a task."""

    def __init__(self, graph: "DiGraph[Key]", key: Key) -> None:
        self._graph = graph
        self._stay = stay = self._find(key)
        now: float = graph.graph["now"]
        self._end = next((at for at in (stay.started_at, stay.ended_at) if at is not None), now)
        self._tallies: dict[str, tuple[list[float], list[float]]] = {}

    def steps(self) -> list[Step]:
        """From the beginning of the stay to its start, or to its end if it had none."""
        stay = self._stay
        steps: list[Step] = []
        ready_at = min(stay.ready_at, self._end)
        if stay.waits_from < ready_at:
            steps.append(self._until_ready(ready_at))
        return [*steps, *self._with_holds(self._walk(ready_at))]

    def run(self) -> list[Step]:
        """The execution that did not end it, if there was one."""
        stay = self._stay
        if stay.started_at is None or stay.ended_at is None or stay.started_at == stay.ended_at:
            return []
        words = {"retried": "and failed", "recovered": "until its lease ran out", "released": "and was handed back"}
        said = f"ran on {stay.worker} {words.get(stay.outcome or '', f'and was {stay.outcome}')}"
        began_at, ended_at = stay.started_at, stay.ended_at
        return [Step(began_at=began_at, ended_at=ended_at, reason="run", said=said, task=stay.task, worker=stay.worker)]

    def _until_ready(self, ready_at: float) -> Step:
        stay = self._stay
        said = {
            "door": "waited at the door",
            "retry": f"waited to be tried again: {stay.error}",
            "requeue": "had ended, until an operator put it back",
        }
        words = said.get(stay.because, f"waited for its {stay.because}")
        return Step(began_at=stay.waits_from, ended_at=ready_at, reason=stay.because, said=words)

    # Back along the worker

    def _walk(self, ready_at: float) -> list[Step]:
        """What the worker did from the time at which the task was ready, latest last."""
        steps: list[Step] = []
        until, later, before = self._end, self._stay, self._before()
        while until > ready_at:
            if later.blocker is not None and self._concerns(later):
                # The limit is told by those who used it up, one after the other.
                blocker = self._find(later.blocker)
                began_at = max(ready_at, blocker.started_at or 0.0)
                steps.append(self._limited(later, blocker, began_at, until))
                until, later = began_at, blocker
                continue
            while before is not None and (before.started_at or 0.0) >= until:
                before = self._find_or_none(before.previous)
            free_since = ready_at if before is None else max(ready_at, self._ended_at(before, until))
            if free_since < until:
                steps.append(self._free(free_since, until, before))
            elif before is not None:
                free_since = max(before.started_at or 0.0, ready_at)
                steps.append(self._ran(before, free_since, until))
                later = before
            until = free_since
        return [step for step in reversed(steps) if step.seconds > 0]

    def _before(self) -> Stay | None:
        """What the worker that took it ran before; for one that was never started, what was started last beside it."""
        stay = self._stay
        if stay.started_at is not None:
            return self._find_or_none(stay.previous)
        started = [
            (found["started_at"], key)
            for key, found in self._graph.nodes.items()
            if found["started_at"] is not None and found["started_at"] < self._end
        ]
        return self._find(max(started)[1]) if started else None

    def _ended_at(self, stay: Stay, until: float) -> float:
        return until if stay.ended_at is None else min(stay.ended_at, until)

    def _ran(self, other: Stay, began_at: float, until: float) -> Step:
        """The worker ran something else."""
        stay, what = self._stay, f"{other.worker} ran {other.task}"
        assert other.started_at is not None, "what a worker ran was started"
        if other.started_at < stay.ready_at:
            reason, said = "busy", f"{other.worker} was running {other.task} when it came"
        elif other.user == stay.user:
            reason, said = "order", f"{what}: {self._rank(other)}"
        else:
            given, own = (self._given(user, other.started_at) for user in (other.user, stay.user))
            reason = "turn"
            said = f"{what}: {other.user}'s turn (given since it came: {other.user} {given:g} s, {stay.user} {own:g} s)"
        return Step(began_at=began_at, ended_at=until, reason=reason, said=said, task=other.task, worker=other.worker)

    def _rank(self, other: Stay) -> str:
        """Why another task of the same user went first."""
        stay = self._stay
        if other.level > stay.level:
            return f"{stay.user}'s own, more urgent ({Priority(other.level).name.lower()})"
        if other.order_at <= stay.order_at:
            return f"{stay.user}'s own, came before"
        return f"{stay.user}'s own, put first by the order"

    def _given(self, user: str, until: float) -> float:
        """The work of a user that was started from when the task was ready to some time, in seconds of cost."""
        if user not in self._tallies:
            starts = sorted(
                (found["started_at"], found["cost"])
                for found in self._graph.nodes.values()
                if found["user"] == user
                and found["started_at"] is not None
                and found["started_at"] >= self._stay.ready_at
            )
            self._tallies[user] = ([at for at, _ in starts], [0.0, *accumulate(cost for _, cost in starts)])
        times, sums = self._tallies[user]
        return sums[bisect_left(times, until)]

    # While the worker was free

    def _limited(self, later: Stay, blocker: Stay, began_at: float, until: float) -> Step:
        """A limit was used up by something else."""
        used = f"{blocker.task} had the turn" if later.by_rate else f"{blocker.worker} ran {blocker.task}"
        said = f"{later.limit}: {used}"
        return Step(
            began_at=began_at, ended_at=until, reason="limit", said=said, task=blocker.task, worker=blocker.worker
        )

    def _free(self, began_at: float, until: float, before: Stay | None) -> Step:
        """The worker was free and did not take it, and no limit is known that would tell why."""
        if before is not None and before.lingers:
            reason, said = "silent", f"{before.worker} was not heard of after {before.task}"
        else:
            held = self._stay.started_at is not None
            reason, said = "limit", "a limit held it back" if held else "nobody could start it"
        return Step(began_at=began_at, ended_at=until, reason=reason, said=said)

    def _concerns(self, later: Stay) -> bool:
        """Whether what held back another held this one back too."""
        return later is self._stay or later.kind == self._stay.kind or later.user == self._stay.user

    # Pauses

    def _with_holds(self, steps: list[Step]) -> list[Step]:
        """The same steps, but for the times in which nothing of the kind could start: those are one step each."""
        stay = self._stay
        keys = (EVERYTHING, kind_key(stay.kind), user_key(stay.user), "reach/" + stay.user, GONE)
        for hold in self._graph.graph["holds"]:
            if hold.key in keys and steps:
                steps = _cut(steps, hold, self._graph.graph["now"])
        return steps

    def _find(self, key: Key) -> Stay:
        return Stay(**self._graph.nodes[key])

    def _find_or_none(self, key: Key | None) -> Stay | None:
        return None if key is None else self._find(key)


def _cut(steps: list[Step], hold: Hold, now: float) -> list[Step]:
    """Put one step in the place of all that lies within a hold."""
    began_at = max(hold.began_at, steps[0].began_at)
    ended_at = min(now if hold.ended_at is None else hold.ended_at, steps[-1].ended_at)
    if ended_at <= began_at:
        return steps
    role, _, name = hold.key.partition("/")
    if role == "reach":
        reason, said = "unreachable", f"no worker may serve {name}"
    elif role == GONE:
        reason, said = "restart", "the process had ended"
    else:
        reason, said = (
            "pause",
            f"{'everything' if role == EVERYTHING else f'kind {name}' if role == 'kind' else name} was paused",
        )
    before = [attrs.evolve(step, ended_at=min(step.ended_at, began_at)) for step in steps if step.began_at < began_at]
    after = [attrs.evolve(step, began_at=max(step.began_at, ended_at)) for step in steps if step.ended_at > ended_at]
    return [*before, Step(began_at=began_at, ended_at=ended_at, reason=reason, said=said), *after]
