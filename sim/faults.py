"""What a scenario breaks, as its `[[fault]]` tables say: what, whom, when and how often.

Some happen at a time, and some take their chances with each message, execution or commit (see occasions.py). A run with
faults that have no end can only be judged for safety; where `liveness = true` every fault must have one, and then everything
that was admitted must end too.

Only what a lease covers is ever dropped: `Run`, `Finished` and `Beat`. Anything may be late, but no message overtakes
another of the same sender and receiver; late copies and zombies' reports, which tokens fence, excepted.
"""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import attrs

from actors import messages as every_message
from actors.errors import InvalidConfig
from actors.messages import Address, Run
from actors.validators import finite, greater_than, one_of, or_none, printable
from sim.occasions import ChanceFault, Occasion, TimedFault, check_window

__all__ = [
    "COVERED",
    "FAULTS",
    "AmbiguousWrite",
    "CancelRace",
    "ChanceFault",
    "ClockJump",
    "Crash",
    "CrashOnMessage",
    "Delay",
    "Drop",
    "Duplicate",
    "Fail",
    "Fault",
    "Hang",
    "Kill",
    "LostBeats",
    "MessageFault",
    "Poison",
    "PowerLoss",
    "Reconfigure",
    "RunFault",
    "Slow",
    "StealRace",
    "Stop",
    "StoreFault",
    "StoreStall",
    "TimedFault",
    "WorkerCrash",
    "WriteError",
    "Zombie",
    "mistakes",
    "name_of",
]

COVERED = ("Run", "Finished", "Beat")
"""The messages that may be lost: the lease of their task covers them."""

_MESSAGES = sorted(
    name
    for name, found in vars(every_message).items()
    if isinstance(found, type) and found.__module__ == Run.__module__ and not name.startswith("_")
)


def _names_of_messages(*names: str) -> Any:
    def check(_: Any, attribute: "attrs.Attribute[Any]", value: tuple[str, ...]) -> None:
        for name in value:
            if name not in names:
                raise InvalidConfig(f"{attribute.name} must be of {', '.join(names)}, got {name!r}")

    return check


# At a time


@attrs.frozen(kw_only=True)
class Crash(TimedFault):
    """Actors crash between two messages: `queue`, `scheduler`, `supervisor`, `shard/alice`, `worker/*`."""

    target: str = attrs.field(validator=printable)
    """Whom it is about: an address, or a glob such as `worker/*`."""


@attrs.frozen(kw_only=True)
class ClockJump(TimedFault):
    """Time leaps ahead, as for a process that was suspended: what was due meanwhile is late, in the order it was due."""

    seconds: float = attrs.field(validator=greater_than(0))
    """How long."""


@attrs.frozen(kw_only=True)
class Stop(TimedFault):
    """Workers retire in mid-work: they end what they run, or give it back at once."""

    target: str = attrs.field(default="worker/*", validator=printable)
    """Whom it is about: an address, or a glob such as `worker/*`."""
    at_once: bool = False
    """Whether they give back what they run, rather than end it."""
    back_after_seconds: float | None = attrs.field(default=None, validator=or_none(greater_than(0)))
    """When they begin again, if they are free by then; None: never."""


@attrs.frozen(kw_only=True)
class Reconfigure(Occasion):
    """An operator who cannot make up their mind: weights, limits and pauses change, and are put back in the end."""

    from_seconds: float = attrs.field(default=0.0, validator=finite(0))
    """Not before."""
    until_seconds: float = attrs.field(validator=finite(0))
    """Not from then on."""
    every_seconds: float = attrs.field(default=1.0, validator=greater_than(0))
    """How often something changes."""

    def __attrs_post_init__(self) -> None:
        check_window(self)


# By chance: messages


@attrs.frozen(kw_only=True)
class MessageFault(ChanceFault):
    """About messages to or from a target."""

    target: str = attrs.field(default="*", validator=printable)
    """Who sends or receives them: an address or a glob."""
    messages: tuple[str, ...] = attrs.field(default=COVERED, validator=_names_of_messages(*COVERED))
    """By their names."""


@attrs.frozen(kw_only=True)
class Drop(MessageFault):
    """A message is lost."""


@attrs.frozen(kw_only=True)
class Delay(MessageFault):
    """A message is late, and holds back those behind it."""

    messages: tuple[str, ...] = attrs.field(default=COVERED, validator=_names_of_messages(*_MESSAGES))
    """Which messages, by name."""
    seconds: float = attrs.field(validator=greater_than(0))
    """How long."""
    seconds_max: float | None = attrs.field(default=None, validator=or_none(greater_than(0)))
    """With this, each delay is drawn between the two."""

    def __attrs_post_init__(self) -> None:
        check_window(self)
        if self.seconds_max is not None and self.seconds_max < self.seconds:
            raise InvalidConfig(f"seconds_max must be at least seconds, {self.seconds:g}, got {self.seconds_max:g}")


@attrs.frozen(kw_only=True)
class Duplicate(MessageFault):
    """A message arrives twice."""

    after_seconds: float = attrs.field(default=0.0, validator=finite(0))
    """How long after the first the second comes."""


@attrs.frozen(kw_only=True)
class CrashOnMessage(MessageFault):
    """An actor crashes on a message that it is given, its wake-ups included; the message is lost and its sender told."""

    target: str = attrs.field(validator=printable)
    """Who crashes: an address or a glob."""
    messages: tuple[str, ...] = attrs.field(default=(), validator=_names_of_messages(*_MESSAGES))
    """On which messages; any unless given."""


RACES = ("claim", "run", "completion", "retry")
"""What a cancel can race with."""


@attrs.frozen(kw_only=True)
class CancelRace(ChanceFault):
    """A cancel races with a claim, with the run that was claimed, with its report, or with its retry."""

    against: str = attrs.field(validator=one_of(RACES))
    """What it races: `claim`, `run`, `completion` or `retry`."""
    user: str | None = None
    """Of which user; of anybody unless given."""


@attrs.frozen(kw_only=True)
class StealRace(ChanceFault):
    """What a worker is about to steal is cancelled before its grant arrives."""

    user: str | None = None
    """Of which user; of anybody unless given."""


# By chance: executions


@attrs.frozen(kw_only=True)
class RunFault(ChanceFault):
    """About executions of a user's or a kind's tasks by some workers."""

    target: str = attrs.field(default="worker/*", validator=printable)
    """Which workers: an address or a glob."""
    user: str | None = None
    """Of which user; of anybody unless given."""
    kind: str | None = None
    """Of which kind; of any unless given."""

    def is_about(self, run: Run, worker: Address) -> bool:
        """Whether an execution is one of those."""
        return (
            (self.user is None or self.user == run.user)
            and (self.kind is None or self.kind == run.kind)
            and fnmatchcase(worker, self.target)
        )


MOMENTS = ("before", "during", "after", "reported")
"""When a worker can crash: on being given a run, in its midst, with the work done and nothing said, or having said it."""


@attrs.frozen(kw_only=True)
class WorkerCrash(RunFault):
    """A worker crashes, and comes back."""

    when: str = attrs.field(default="during", validator=one_of(MOMENTS))
    """`before` the work, `during` it, `after` it but before the report, or when it was `reported`."""


@attrs.frozen(kw_only=True)
class Hang(RunFault):
    """An execution never ends, while its worker beats: only a timeout ends it."""


@attrs.frozen(kw_only=True)
class Slow(RunFault):
    """An execution takes longer than it should."""

    factor: float = attrs.field(default=10.0, validator=greater_than(1))
    """So many times as long."""


@attrs.frozen(kw_only=True)
class Fail(RunFault):
    """An execution fails. With every one in a window: a retry herd."""

    error: str = attrs.field(default="injected failure", validator=printable)
    """What the execution says."""


@attrs.frozen(kw_only=True)
class Poison(RunFault):
    """A task takes its worker down, each time that it is run: the chance is each task's, not each execution's."""


@attrs.frozen(kw_only=True)
class LostBeats(RunFault):
    """A worker is at work, and nobody hears its beats."""


@attrs.frozen(kw_only=True)
class Zombie(RunFault):
    """A worker's beats are lost, and its report comes when the task has long been given to another."""

    leases_late: float = attrs.field(default=2.0, validator=greater_than(1))
    """How late, in leases."""


# To a process and its store

KILLED = ("at_once", "writing", "written")
"""When a process can be killed: at any moment, in the midst of its next commit, or with that stored and nobody told."""


@attrs.frozen(kw_only=True)
class Kill(TimedFault):
    """The whole process is killed, and begins again with what its store has. A commit under way is stored, torn or not there, by lot."""

    when: str = attrs.field(default="at_once", validator=one_of(KILLED))
    """`at_once`, in the midst of `writing` its next commit, or when that is `written` and nobody was told."""
    back_after_seconds: float = attrs.field(default=1.0, validator=finite(0))
    """How long it is gone."""


@attrs.frozen(kw_only=True)
class PowerLoss(TimedFault):
    """The machine goes down: what was not flushed to the disk is lost from some byte on, so that the last commit there may be torn."""

    back_after_seconds: float = attrs.field(default=1.0, validator=finite(0))
    """How long it is gone."""


@attrs.frozen(kw_only=True)
class WriteError(ChanceFault):
    """A commit fails and is not stored: the process ends, and begins again."""

    back_after_seconds: float = attrs.field(default=1.0, validator=finite(0))
    """How long it is gone."""


@attrs.frozen(kw_only=True)
class AmbiguousWrite(ChanceFault):
    """A commit fails though it was stored: the process, which cannot know, ends, and begins again."""

    back_after_seconds: float = attrs.field(default=1.0, validator=finite(0))
    """How long it is gone."""


@attrs.frozen(kw_only=True)
class StoreStall(ChanceFault):
    """A commit takes longer."""

    seconds: float = attrs.field(validator=greater_than(0))
    """So much longer."""


StoreFault = Kill | PowerLoss | WriteError | AmbiguousWrite | StoreStall
Fault = (
    Crash
    | ClockJump
    | Stop
    | Reconfigure
    | Drop
    | Delay
    | Duplicate
    | CrashOnMessage
    | CancelRace
    | StealRace
    | WorkerCrash
    | Hang
    | Slow
    | Fail
    | Poison
    | LostBeats
    | Zombie
    | Kill
    | PowerLoss
    | WriteError
    | AmbiguousWrite
    | StoreStall
)
FAULTS: dict[str, type[Any]] = {
    "crash": Crash,
    "clock_jump": ClockJump,
    "stop": Stop,
    "reconfigure": Reconfigure,
    "drop": Drop,
    "delay": Delay,
    "duplicate": Duplicate,
    "crash_on_message": CrashOnMessage,
    "cancel_race": CancelRace,
    "steal_race": StealRace,
    "worker_crash": WorkerCrash,
    "hang": Hang,
    "slow": Slow,
    "fail": Fail,
    "poison": Poison,
    "lost_beats": LostBeats,
    "zombie": Zombie,
    "kill": Kill,
    "power_loss": PowerLoss,
    "write_error": WriteError,
    "ambiguous_write": AmbiguousWrite,
    "store_stall": StoreStall,
}
_NAMES = {found: name for name, found in FAULTS.items()}


def name_of(fault: Fault) -> str:
    """What a file calls such a fault.

    >>> name_of(Hang(until_seconds=9.0))
    'hang'
    """
    return _NAMES[type(fault)]


# What a scenario cannot have


def mistakes(
    faults: Sequence[Fault],
    liveness: bool,
    addresses: Sequence[Address],
    untimed_kinds: Sequence[str],
    has_store: bool,
) -> Iterator[str]:
    """What is wrong with the faults of a scenario that has these actors, these kinds without a timeout, and maybe a store."""
    for number, fault in enumerate(faults):
        path, target = f"fault[{number}]", getattr(fault, "target", None)
        if target is not None and not any(fnmatchcase(address, target) for address in addresses):
            yield f"{path}.target must be an actor of this scenario, or a glob for some, got {target!r}"
        if isinstance(fault, Hang):
            for kind in untimed_kinds:
                if fault.kind in (None, kind):
                    yield f"{path} must be of kinds with a timeout_seconds, or it hangs for ever: {kind!r} has none"
        if isinstance(fault, StoreFault) and not has_store:
            yield f"{path} must be in a scenario with a runtime.store: {name_of(fault)} is about what is stored"
        if liveness and isinstance(fault, ChanceFault) and fault.until_seconds is None:
            yield f"{path}.until_seconds must be given where liveness is true: every fault must end"
        if liveness and isinstance(fault, Stop) and fault.back_after_seconds is None:
            yield f"{path}.back_after_seconds must be given where liveness is true: every fault must end"
