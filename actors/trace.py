"""What happened: one event for each thing, in JSON Lines.

Cores return events, because only they know what they refused or recovered; the host passes them on. A trace is a header
(schema version, scenario, seed, options) and then one event a line. Tasks go by `user#sequence` and times are the
runtime's own, so the same scenario and seed give the same bytes in any process. The hash leaves out the header.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

import msgspec

from actors.errors import InvalidConfig

__all__ = [
    "SCHEMA_VERSION",
    "Acknowledged",
    "ActorRestarted",
    "Admitted",
    "CancelRequested",
    "Cancelled",
    "Completed",
    "DeadLettered",
    "Event",
    "Extended",
    "FaultInjected",
    "Header",
    "Paused",
    "Progressed",
    "Reachable",
    "Recovered",
    "Released",
    "Relimited",
    "ReportRefused",
    "Requeued",
    "Restored",
    "Resumed",
    "Retried",
    "Reweighted",
    "ScheduleFired",
    "Skipped",
    "Started",
    "StopIgnored",
    "SubmitRefused",
    "Swept",
    "Told",
    "TraceWriter",
    "Undelivered",
    "Unreachable",
    "encode_events",
    "read_trace",
]

SCHEMA_VERSION = 1


class _Base(msgspec.Struct, frozen=True, gc=False, tag_field="event"):
    at: float
    """When, in the runtime's seconds."""


class Header(msgspec.Struct, frozen=True, tag_field="event", tag="header"):
    """The first line of a trace: what was run.

    >>> Header(scenario="demo", seed=7, version="0.1.0").schema
    1
    """

    scenario: str
    seed: int
    version: str
    options: dict[str, Any] = {}
    schema: int = SCHEMA_VERSION


class Admitted(_Base, frozen=True, gc=False, tag="admitted"):
    """A task was let in and lies in its shard."""

    task: str
    user: str
    kind: str
    level: int
    order_at: float
    run_after: float | None
    expires_at: float | None
    max_retries: int
    cost: float


class SubmitRefused(_Base, frozen=True, gc=False, tag="submit_refused"):
    """A submit was turned away at the door."""

    user: str
    kind: str
    error: str


class Started(_Base, frozen=True, gc=False, tag="started"):
    """A worker claimed a task."""

    task: str
    token: int
    attempt: int
    worker: str
    waited_seconds: float | None = None
    """What it waited for its first start; None for any other start."""
    stolen: bool = False
    """Whether the worker is not one of the user's own."""


class Extended(_Base, frozen=True, gc=False, tag="extended"):
    """A beat was accepted and the lease starts anew."""

    task: str
    token: int
    until: float


class Completed(_Base, frozen=True, gc=False, tag="completed"):
    """A result was accepted."""

    task: str
    token: int
    worker: str
    used_seconds: float


class Retried(_Base, frozen=True, gc=False, tag="retried"):
    """An execution failed or crashed, and the task waits for another."""

    task: str
    token: int
    worker: str
    used_seconds: float
    outcome: str
    error: str
    run_after: float


class Recovered(_Base, frozen=True, gc=False, tag="recovered"):
    """A lease ran out and the task waits again, under the new token."""

    task: str
    token: int
    worker: str
    used_seconds: float


class Released(_Base, frozen=True, gc=False, tag="released"):
    """A worker handed a task back unharmed."""

    task: str
    token: int
    worker: str
    used_seconds: float


class Requeued(_Base, frozen=True, gc=False, tag="requeued"):
    """An operator put a task back, under the new token."""

    task: str
    token: int
    attempts: int
    worker: str | None
    """Who was running it, if anybody was."""


class DeadLettered(_Base, frozen=True, gc=False, tag="dead_lettered"):
    """A task failed for good."""

    task: str
    token: int
    worker: str | None
    """Who was running it, if anybody was."""
    used_seconds: float
    cause: str
    outcome: str
    error: str


class CancelRequested(_Base, frozen=True, gc=False, tag="cancel_requested"):
    """A running task is no longer wanted, and its worker is told to stop."""

    task: str
    token: int


class Cancelled(_Base, frozen=True, gc=False, tag="cancelled", omit_defaults=True, repr_omit_defaults=True):
    """A task was cancelled."""

    task: str
    token: int
    worker: str | None = None
    """Who was running it, if anybody was."""
    used_seconds: float = 0.0
    outcome: str = "cancelled"
    """How its last execution ended, if it was running: `recovered` if nobody knows what became of the worker."""


class ReportRefused(_Base, frozen=True, gc=False, tag="report_refused"):
    """A worker spoke under a token that is no longer, or never was, the current one: a zombie."""

    task: str
    token: int
    current_token: int
    status: str
    worker: str | None
    """Who reported; None for a beat or a lease."""


class StopIgnored(_Base, frozen=True, gc=False, tag="stop_ignored"):
    """An execution that was told to stop goes on: it is fenced, and keeps its worker until it is over."""

    task: str
    token: int
    worker: str
    why: str
    """`cancelled`, `timed out` or `released`."""


class Progressed(_Base, frozen=True, gc=False, tag="progressed"):
    """A handler said how far it is."""

    task: str
    token: int
    progress: Any


class Swept(_Base, frozen=True, gc=False, tag="swept"):
    """An ended task was kept long enough, and removed."""

    task: str


class Paused(_Base, frozen=True, gc=False, tag="paused"):
    """A kind, a user, or, if neither is named, everything was paused."""

    kind: str | None
    user: str | None


class Resumed(_Base, frozen=True, gc=False, tag="resumed"):
    """The pause of a kind, a user, or everything ended."""

    kind: str | None
    user: str | None


class Reweighted(_Base, frozen=True, gc=False, tag="reweighted"):
    """A user, or everybody below a name, weighs so much from now on."""

    user: str
    weight: float


class Relimited(_Base, frozen=True, gc=False, tag="relimited"):
    """A kind, a user, or, if neither is named, everything is held to other limits from now on."""

    kind: str | None
    user: str | None
    rate_limit: float | None
    concurrency_max: int | None


class Unreachable(_Base, frozen=True, gc=False, tag="unreachable"):
    """A user has work and no worker may take it."""

    user: str


class Reachable(_Base, frozen=True, gc=False, tag="reachable"):
    """A user that no worker could reach can be reached again."""

    user: str


class ActorRestarted(_Base, frozen=True, gc=False, tag="actor_restarted"):
    """An actor crashed on a message and was rebuilt."""

    actor: str
    error: str


class FaultInjected(_Base, frozen=True, gc=False, tag="fault_injected"):
    """The simulator broke something on purpose."""

    fault: str
    """What sort of fault."""
    number: int
    """Its place among the faults of the scenario, from 0."""
    target: str
    """Whom or what it hit: an actor, a message on its way to one, or a task."""
    seconds: float = 0.0
    """How far the clock leapt, if that is what it did."""


class Acknowledged(_Base, frozen=True, gc=False, tag="acknowledged"):
    """A submitter was told that its task is safe: said by those who submit in a simulation with a store."""

    task: str


class Told(_Base, frozen=True, gc=False, tag="told"):
    """Whoever waited for a task was told how it ended: said by those who submit in a simulation with a store."""

    task: str
    status: str


class Restored(_Base, frozen=True, gc=False, tag="restored"):
    """A simulated process ended, and begins again with what its store had at this time: what came after is undone.

    Of all the events up to here that were not undone before, the first `kept` hold.
    """

    kept: int
    resumed_at: float
    """When it begins again."""


class Undelivered(_Base, frozen=True, gc=False, tag="undelivered"):
    """A message found no one to handle it."""

    sender: str
    receiver: str
    message: str


class ScheduleFired(_Base, frozen=True, gc=False, tag="schedule_fired"):
    """A schedule was due."""

    schedule: str
    due_at: float
    """The last time it was due."""
    submitted: int
    """How many tasks it submitted."""
    missed: int
    """How many times were missed, and had none."""


class Skipped(_Base, frozen=True, gc=False, tag="skipped"):
    """Here events are missing, because whoever reads or writes them was too slow."""

    count: int


Event = (
    Admitted
    | SubmitRefused
    | Started
    | Extended
    | Completed
    | Retried
    | Recovered
    | Released
    | Requeued
    | DeadLettered
    | CancelRequested
    | Cancelled
    | ReportRefused
    | StopIgnored
    | Progressed
    | Swept
    | Paused
    | Resumed
    | Reweighted
    | Relimited
    | Unreachable
    | Reachable
    | ActorRestarted
    | FaultInjected
    | Acknowledged
    | Told
    | Restored
    | Undelivered
    | ScheduleFired
    | Skipped
)

_BATCH = 512
_encoder = msgspec.json.Encoder()
_decoder: "msgspec.json.Decoder[Header | Event]" = msgspec.json.Decoder(Header | Event)


class TraceWriter:
    """Hashes events, and writes them if given somewhere to write to; in batches, because a call each costs more.

    >>> writer = TraceWriter()
    >>> writer.write(Cancelled(1.0, "alice#1", 1))
    >>> writer.sha256()[:8]
    'b4805804'
    """

    def __init__(self, output: BinaryIO | None = None, header: Header | None = None) -> None:
        self._output = output
        self._hash = hashlib.sha256()
        self._batch: list[Event] = []
        if output is not None and header is not None:
            output.write(encode_events([header]))

    def write(self, event: Event) -> None:
        """Take one event."""
        self._batch.append(event)
        if len(self._batch) >= _BATCH:
            self.flush()

    def write_all(self, events: Sequence[Event]) -> None:
        """Take several, for those who gather them themselves."""
        self._batch += events
        self.flush()

    def flush(self) -> None:
        """Hash and write what is waiting."""
        lines = encode_events(self._batch)
        self._batch.clear()
        self._hash.update(lines)
        if self._output is not None:
            self._output.write(lines)

    def sha256(self) -> str:
        """The hash of every event so far."""
        self.flush()
        return self._hash.hexdigest()


def encode_events(items: "Sequence[Header | Event]") -> bytes:
    """Events as JSON Lines.

    >>> encode_events([Cancelled(1.0, "alice#1", 1)])
    b'{"event":"cancelled","at":1.0,"task":"alice#1","token":1}\\n'
    """
    try:
        return _encoder.encode_lines(items)
    except UnicodeEncodeError:
        return _encoder.encode_lines([_escaped(item) for item in items])


def _escaped(item: "Header | Event") -> "Header | Event":
    """With a backslash sequence for each half of a surrogate pair: an error's text can hold one, UTF-8 cannot."""
    texts = {name: text for name, text in msgspec.structs.asdict(item).items() if isinstance(text, str)}
    return msgspec.structs.replace(
        item, **{name: text.encode(errors="backslashreplace").decode() for name, text in texts.items()}
    )


def read_trace(lines: Iterable[bytes]) -> Iterator[Header | Event]:
    """The header and events of a trace, from its lines.

    >>> line = b'{"event":"cancelled","at":1.0,"task":"alice#1","token":1}'
    >>> list(read_trace([line]))
    [Cancelled(at=1.0, task='alice#1', token=1)]
    """
    for number, line in enumerate(lines, start=1):
        try:
            item = _decoder.decode(line)
        except msgspec.DecodeError as error:
            raise InvalidConfig(f"trace line {number} must be an event, got {line[:80]!r}: {error}") from error
        if isinstance(item, Header) and item.schema != SCHEMA_VERSION:
            raise InvalidConfig(f"trace schema must be {SCHEMA_VERSION}, got {item.schema}")
        yield item
