"""Why is my task not running? A sentence and the data behind it.

A pure function over a snapshot: the task, its user's other live tasks, and what the scheduler knows of that user and kind.
It names everything that holds the task back, not only the first thing: lift all of it beside a free worker, and the task
starts. O(the user's tasks).
"""

import math
from collections.abc import Iterable

import attrs

from actors.config import Settings
from actors.policies.ordering import as_moving
from actors.scheduler import Scheduler
from actors.standing import Standing
from actors.table import Table
from actors.task import Cause, Priority, Status, Task

__all__ = ["Block", "Explanation", "explain", "explain_task", "held_back"]


@attrs.frozen
class Block:
    """One thing that holds a task back.

    >>> Block("delayed", "it is delayed, and due in 4.2 s", 30.0).until
    30.0
    """

    reason: str
    """`delayed`, `paused`, `rate_limit`, `concurrency`, `no_handler`, `unreachable`, `behind`, `turn` or `busy`; or
    `stopped`."""
    said: str
    """In words."""
    until: float | None = None
    """When it ends by itself, if that is known."""
    scope: str | None = None
    """What is paused or limited: `all`, `kind/...` or `user/...`."""


@attrs.frozen
class Explanation:
    """Where a task stands and why."""

    task_id: str
    status: Status
    sentence: str
    blocks: tuple[Block, ...] = ()
    """All that holds it back; empty unless it is pending."""
    ahead: int | None = None
    """How many of its user's tasks go first, if it waits."""


def explain(
    task: Task, others: Iterable[Task], standing: Standing, settings: Settings, now: float, stopped: bool = False
) -> Explanation:
    """Why a task is where it is, given its user's live tasks and how its user and kind stand.

    >>> task = Task(id="t", user="u", kind="k", sequence=1, created_at=0.0, updated_at=0.0, order_at=9.0, run_after=9.0)
    >>> explain(task, [task], Standing(), Settings(), now=1.0).sentence
    'u#1 waits: it is delayed, and due in 8 s.'
    """
    if task.status is Status.PENDING and stopped:
        block = Block("stopped", "the runtime has stopped, or stops")
        return Explanation(task.id, task.status, f"{task.identity} {_waits(task)}: {block.said}.", (block,))
    if task.status is Status.PENDING:
        return _explain_pending(task, others, standing, settings, now)
    return Explanation(task.id, task.status, f"{task.identity} {_fate(task, now)}.")


def explain_task(
    task_id: str, table: Table, scheduler: Scheduler, settings: Settings, now: float, stopped: bool = False
) -> Explanation:
    """The same, with the snapshot taken from a table and a scheduler; UnknownTask if there is no such task."""
    task = table[task_id]
    return explain(task, table.live(task.user), scheduler.standing(task.user, task.kind, now), settings, now, stopped)


def held_back(task: Task, standing: Standing, now: float) -> list[Block]:
    """What keeps such a task from starting even if it were alone."""
    blocks = [Block("paused", f"{_scope(key)} is paused", scope=key) for key in standing.paused]
    blocks += [_limit_block(key, free_at, now) for key, free_at in standing.limited]
    if not standing.handled:
        blocks.append(Block("no_handler", f"no worker has a handler for {task.kind!r}"))
    elif not standing.reachable:
        blocks.append(Block("unreachable", f"no worker for {task.kind!r} may serve {task.user}"))
    return blocks


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f}".removesuffix(".0") + " s"


def _waits(task: Task) -> str:
    last = task.history[-1].outcome if task.history else ""
    if last in ("failed", "crashed", "recovered"):
        return f"failed ({task.error}) and waits to be tried again"
    return "waits"


def _fate(task: Task, now: float) -> str:
    ago = _seconds(now - (task.started_at or 0.0 if task.completed_at is None else task.completed_at))
    match task.status:
        case Status.IN_PROGRESS:
            return f"runs on {task.worker_id} for {ago} now, execution {task.attempts}"
        case Status.FAILED:
            cause = "" if task.cause is Cause.FAILED else f" ({task.cause})"
            return f"failed{cause} {ago} ago: {task.error}"
        case _:
            return f"was {task.status} {ago} ago"


def _explain_pending(
    task: Task, others: Iterable[Task], standing: Standing, settings: Settings, now: float
) -> Explanation:
    blocks = []
    if task.run_after is not None and task.run_after > now:
        due = f"it is delayed, and due in {_seconds(task.run_after - now)}"
        blocks.append(Block("delayed", due, task.run_after))
    blocks += held_back(task, standing, now)
    ahead = _ahead(task, others, standing, settings, now)
    if ahead:
        blocks.append(Block("behind", f"{ahead} of {task.user}'s own tasks go first"))
    if standing.front is not None:
        gap = "" if standing.gap is None else f", by {standing.gap:.3g} s of work per weight"
        blocks.append(Block("turn", f"it is {standing.front}'s turn{gap}"))
    if standing.reachable and not standing.idle:
        blocks.append(Block("busy", "every worker that may take it is busy"))
    said = "; ".join(block.said for block in blocks) or "it is about to start"
    return Explanation(task.id, task.status, f"{task.identity} {_waits(task)}: {said}.", tuple(blocks), ahead)


def _limit_block(key: str, free_at: float, now: float) -> Block:
    if math.isinf(free_at):
        return Block("concurrency", f"{_scope(key)} runs as many as it may", scope=key)
    return Block("rate_limit", f"{_scope(key)} has its next permit in {_seconds(free_at - now)}", free_at, key)


def _scope(key: str) -> str:
    role, _, name = key.partition("/")
    return "everything" if role == "all" else f"{role} {name!r}"


def _ahead(task: Task, others: Iterable[Task], standing: Standing, settings: Settings, now: float) -> int:
    """How many ready tasks the shard would start before this one: those of kinds that are held back do not count."""
    own = _rank(task, settings, now)
    return sum(
        other.id != task.id
        and other.status is Status.PENDING
        and (other.kind == task.kind or other.kind in standing.competing)
        and (other.run_after is None or other.run_after <= now)
        and _rank(other, settings, now) < own
        for other in others
    )


def _rank(task: Task, settings: Settings, now: float) -> tuple[bool, object]:
    if task.priority is Priority.CRITICAL:
        return (False, (task.order_at, task.sequence))
    ordering = settings.ordering
    key = ordering.key(task)
    moving = as_moving(ordering)
    rank = key if moving is None else moving.rank(task, now)
    return (True, (rank, key, task.order_at, task.sequence))
