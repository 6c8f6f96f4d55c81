"""Every message, grouped by the actor that receives it.

Orders are imperative (`Enqueue`, `Grant`, `Run`); facts are past tense or states (`Finished`, `Idle`, `Ready`). Nobody
ever waits for an answer: an answer is a message like any other. What describes a state carries the whole of it (a count,
not a difference), so the latest message from a sender is always right and a repeated one does no harm.

Messages are msgspec structs for the reason tasks are: a dozen are made for each task, at 0.1 µs each against 0.8 µs for a
frozen attrs class. The collector looks only at those that carry an exception, which alone could be part of a cycle.
"""

from collections.abc import Collection
from typing import Any, Literal

import msgspec

from actors.retry import RetryPolicy
from actors.task import Priority, Task

Address = str
"""Where an actor is reached: its role, or `role/name`."""

QUEUE: Address = "queue"
SCHEDULER: Address = "scheduler"
SUPERVISOR: Address = "supervisor"
SHARD = "shard"
WORKER = "worker"

Outcome = Literal["completed", "failed", "crashed", "released", "cancelled"]
"""What a worker can say of an execution; `crashed` means that the task took its worker down."""


def shard_address(user: str) -> Address:
    """Where a user's shard is reached.

    >>> shard_address("tenant/alice")
    'shard/tenant/alice'
    """
    return f"{SHARD}/{user}"


def worker_address(number: int) -> Address:
    """Where a worker is reached.

    >>> worker_address(3)
    'worker/3'
    """
    return f"{WORKER}/{number}"


def nobody_at(address: Address) -> str:
    """What is said of a message to an actor that does not exist.

    >>> nobody_at("worker/9")
    'no actor is at worker/9'
    """
    return f"no actor is at {address}"


class _Message(msgspec.Struct, frozen=True):
    pass


# To any actor, from its host


class Wake(_Message, frozen=True, gc=False):
    """The time that the actor asked to be woken at has come."""


class Failed(_Message, frozen=True):
    """Your message could not be handled: its receiver crashed on it or does not exist. It changed nothing."""

    receiver: Address
    message: Any
    error: str

    @property
    def absent(self) -> bool:
        """Whether nobody is there, so that it is no use to try again.

        >>> Failed("ask/1", Wake(), nobody_at("ask/1")).absent, Failed("front", Wake(), "ValueError: boom").absent
        (True, False)
        """
        return self.error == nobody_at(self.receiver)


# To the queue


class Submit(_Message, frozen=True, gc=False, kw_only=True):
    """Admit this task, or refuse it; either way `reply_to` hears of it."""

    id: str
    user: str
    kind: str
    payload: Any = None
    priority: Priority | str | int = Priority.NORMAL
    run_after: float | None = None
    expires_at: float | None = None
    retry: RetryPolicy | None = None
    cost: float | None = None
    idempotency_key: str | None = None
    persist: bool = True
    reply_to: Address | None = None


class Settled(_Message, frozen=True, gc=False):
    """A task's execution, or the task itself, has ended: free what it held. Also to the scheduler."""

    user: str
    kind: str
    task_id: str
    worker_id: str | None
    """Who ran it; None if it ended while it waited."""
    charged_seconds: float
    used_seconds: float
    outcome: str
    """As in `Attempt.outcome`."""
    ended: bool
    """Whether the task is terminal, so that its place at the door is free."""


class NothingDropped(_Message, frozen=True, gc=False):
    """A shard that was asked to drop a task has none that waits."""

    user: str


class Readmitted(_Message, frozen=True, gc=False):
    """An operator put an ended task back: it counts as admitted again."""

    task_id: str
    user: str


class Maintain(_Message, frozen=True, gc=False):
    """Remove the ended tasks that were kept long enough, or, if asked, all of them."""

    everything: bool = False
    reply_to: Address | None = None


class Withdraw(_Message, frozen=True, gc=False):
    """Whoever submitted this no longer waits at the door: let it not come in."""

    submitted_id: str
    user: str
    reply_to: Address | None = None


class Delete(_Message, frozen=True, gc=False):
    """Remove this ended task now."""

    task_id: str
    reply_to: Address | None = None


# To a shard


class Enqueue(_Message, frozen=True, gc=False):
    """Take this admitted task; tell `reply_to` once it is safe."""

    task: Task
    reply_to: Address | None


class Grant(_Message, frozen=True, gc=False):
    """It is your user's turn: give this worker your best task of these kinds, or decline."""

    number: int
    """Grants are numbered over the scheduler's whole life, restarts included."""
    worker_id: Address
    kinds: frozenset[str]
    stolen: bool = False
    """Whether the worker is not one of the user's own."""


class Drop(_Message, frozen=True, gc=False):
    """The door is full: give up your oldest waiting task, or say that you have none."""


class Finished(_Message, frozen=True, gc=False, kw_only=True):
    """The worker is done with an execution. Counts only under the task's current token. Also to a worker, from its
    executor, where `cancelled` means that the execution ended because it was told to stop."""

    task_id: str
    token: int
    worker_id: Address
    outcome: Outcome
    result: Any = None
    error: str | None = None
    error_types: tuple[str, ...] = ()
    """The names of the error's class and its bases, for `RetryPolicy.retries`."""
    retry_after_seconds: float | None = None
    """The handler asked for this delay itself."""
    give_up: bool = False
    """The handler said that another try is no use."""
    traceback: str | None = None
    """Where the handler raised, if it did."""


class Beat(_Message, frozen=True, gc=False):
    """The worker is alive and at it."""

    task_id: str
    token: int
    progress: Any = None
    """How far it is, if the handler said so: any JSON value."""


class ExpireLease(_Message, frozen=True, gc=False):
    """This lease has run out, unless a beat came since."""

    task_id: str
    token: int


class Cancel(_Message, frozen=True, gc=False):
    """Cancel this task: at once if it waits, by asking its worker if it runs."""

    task_id: str
    reply_to: Address | None = None


class Requeue(_Message, frozen=True, gc=False):
    """Put this failed or running task back, with all its retries if asked."""

    task_id: str
    reset_retries: bool = False
    reply_to: Address | None = None


class Await(_Message, frozen=True, gc=False):
    """Tell `reply_to` when this task has ended; at once if it has."""

    task_id: str
    reply_to: Address


class Resync(_Message, frozen=True, gc=False):
    """The scheduler began anew: say how things stand with you. Also to workers."""

    epoch: int
    void: int = 0
    """A grant up to this one, or to a worker a run under it, that has not reached you is not coming."""


# To the scheduler


class Pause(_Message, frozen=True, gc=False):
    """Start nothing of this kind, of this user, or, if neither is given, nothing at all."""

    kind: str | None = None
    user: str | None = None
    reply_to: Address | None = None


class Resume(_Message, frozen=True, gc=False):
    """End the pause of this kind, of this user, or of everything."""

    kind: str | None = None
    user: str | None = None
    reply_to: Address | None = None


class SetWeight(_Message, frozen=True, gc=False):
    """From now on this user, or everybody below this name, weighs so much; the backlog included. Also to the queue."""

    user: str
    weight: float
    reply_to: Address | None = None


class SetLimit(_Message, frozen=True, gc=False, kw_only=True):
    """From now on these limits hold for this kind, this user, or, if neither is given, everything."""

    kind: str | None = None
    user: str | None = None
    rate_limit: float | None = None
    concurrency_max: int | None = None
    reply_to: Address | None = None


class Head(_Message, frozen=True, gc=False):
    """What a sharing policy may see of the task that a shard would start next."""

    level: int
    order_at: float
    sequence: int
    cost: float


class Ready(_Message, frozen=True, gc=False):
    """How many tasks of each kind a shard could start now."""

    user: str
    counts: dict[str, int]
    """Every kind whose count changed; after a resync, every kind there is."""
    heads: dict[str, Head]
    """The task next in turn of each of those kinds, if the policy sees heads and the count is not 0."""
    epoch: int
    running: dict[str, int] | None = None
    """After a resync: how many tasks of each kind it has running."""
    void: int = 0
    """After a resync: grants up to this one were answered before, or are lost."""


class Granted(_Message, frozen=True, gc=False):
    """A grant was used: this much is charged."""

    number: int
    task_id: str
    user: str
    kind: str
    cost: float
    left: Ready | None = None
    """What the shard has left, if the scheduler must know."""


class Declined(_Message, frozen=True, gc=False):
    """A grant found nothing to start."""

    number: int
    left: Ready
    """What the shard really has."""


class WorkerClass(_Message, frozen=True, gc=False):
    """What a worker can take: workers of one class are interchangeable."""

    kinds: frozenset[str] | None = None
    """The kinds it runs; None: every kind that has a handler."""
    users: tuple[str, ...] | None = None
    """Its own users, names or globs; None: everybody."""
    steals: tuple[str, ...] = ()
    """Whom it may steal from when its own have nothing, names or globs."""

    def runs(self, handled: Collection[str] = ()) -> frozenset[str]:
        """The kinds it runs, where these have a handler.

        >>> sorted(WorkerClass().runs({"crawl", "mail"})), sorted(WorkerClass(frozenset({"mail"})).runs())
        (['crawl', 'mail'], ['mail'])
        """
        return frozenset(handled) if self.kinds is None else self.kinds


class Idle(_Message, frozen=True, gc=False):
    """A worker can take a task of its class."""

    worker_id: Address
    worker_class: WorkerClass
    epoch: int
    grant: int
    """The last grant it heard of, so that an answer which crossed a newer run is known as stale."""


class Busy(_Message, frozen=True, gc=False):
    """A worker, asked by a resync, is at work; it will be idle in time."""

    worker_id: Address
    worker_class: WorkerClass
    epoch: int


class Gone(_Message, frozen=True, gc=False):
    """A worker takes no more work, for good."""

    worker_id: Address


class Equip(_Message, frozen=True, gc=False):
    """What the workers can run, or how a kind is limited by its settings, has changed: look again."""


# To the timetable


class Schedule(_Message, frozen=True, gc=False, kw_only=True):
    """Submit such a task whenever this cron expression says so; a schedule of the same name is replaced."""

    name: str
    cron: str
    timezone: str
    submit: Submit
    misfire: str
    misfire_grace_seconds: float
    reply_to: Address | None = None


class Unschedule(_Message, frozen=True, gc=False):
    """Let this schedule fire no more."""

    name: str
    reply_to: Address | None = None


# To a worker


class Run(_Message, frozen=True, gc=False):
    """Execute this task under this token; beat well within the lease."""

    task_id: str
    user: str
    kind: str
    token: int
    attempt: int
    payload: Any
    lease_seconds: float
    grant: int
    timeout_seconds: float | None = None


class Retire(_Message, frozen=True, gc=False):
    """Take no more runs; end the one under way, and give it back at once if asked. To the timetable: fire no more."""

    at_once: bool = False


class Stop(_Message, frozen=True, gc=False):
    """End this execution if you can, and report whichever came first."""

    task_id: str
    token: int


# To the supervisor


class Leased(_Message, frozen=True, gc=False):
    """A task is owned until then, unless its worker beats."""

    task_id: str
    token: int
    until: float


# To whoever submitted


class Accepted(_Message, frozen=True, gc=False):
    """Your task is in. With a durable store: and safe."""

    submitted_id: str
    task_id: str
    """Another id than the submitted one when the idempotency key was known already."""


class Refused(_Message, frozen=True):
    """Your task was not admitted, and why."""

    submitted_id: str
    error: Exception


class Ended(_Message, frozen=True, gc=False):
    """A task that you waited for has ended. With a durable store: and that is safe."""

    task: Task


class Answered(_Message, frozen=True):
    """What became of your cancel or requeue: no error means done, or under way if the task to be cancelled runs."""

    task_id: str
    error: Exception | None = None


class Maintained(_Message, frozen=True, gc=False):
    """The sweep that you asked for is over."""

    removed: int
    """How many tasks were removed since you asked."""


ANSWERS = (Accepted, Refused, Ended, Answered, Maintained)
"""What somebody outside waits for."""
