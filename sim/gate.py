"""The host's seam for faults: every message and wake-up passes here, and some are lost, late, doubled, or crashed on.

An actor crashes on a message by what the gate raises: the host contains it as any crash. A message that is late holds back
those behind it of the same sender and receiver. What the gate adds of its own (a cancel, a crash) comes from the host and
is not looked at again.
"""

import math
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import attrs

from actors.host import HOST, Envelope
from actors.messages import SHARD, Address, Beat, Cancel, Finished, Grant, Run, Wake, shard_address
from actors.table import Table
from actors.task import Status
from sim.faults import (
    COVERED,
    CancelRace,
    CrashOnMessage,
    Delay,
    Drop,
    Duplicate,
    LostBeats,
    StealRace,
    WorkerCrash,
    Zombie,
)
from sim.injection import CrashNow, InjectedCrash, Injection

__all__ = ["FaultGate"]

_matches = cache(fnmatchcase)


@attrs.define
class _Mark:
    """An execution that a fault has chosen."""

    number: int
    fault: LostBeats | Zombie | WorkerCrash
    fired: bool = False
    lease_seconds: float = 0.0


class FaultGate:
    """Sees each message before its receiver does."""

    def __init__(self, injection: Injection, table: Table) -> None:
        self._injection = injection
        self._table = table
        self._faults: Any = injection.faults
        """Of whichever class those are whose numbers stand below."""
        self._crashing = injection.of(CrashOnMessage)
        self._touching = injection.of(Drop, Delay, Duplicate)
        self._racing = injection.of(CancelRace, StealRace)
        self._marking = [
            number
            for number in injection.of(LostBeats, Zombie, WorkerCrash)
            if getattr(self._faults[number], "when", "reported") == "reported"
        ]
        self._marks: dict[tuple[str, int], list[_Mark]] = {}
        """By task and token."""
        self._seen: Counter[tuple[str, Address, Address]] = Counter()
        self._held: dict[tuple[Address, Address], float] = {}
        """Until when a sender's messages to a receiver are held back."""
        self._late_until = 0.0
        """When the last message arrives that is late and that no lease covers."""

    def begin_life(self, table: Table) -> None:
        """The process began again, with this table: nothing is under way any more."""
        self._table = table
        self._marks.clear()
        self._held.clear()
        self._late_until = 0.0

    def under_way(self, now: float) -> bool:
        """Whether a message that the runtime waits for is late: then no instant is quiet."""
        return now < self._late_until

    def leap(self, now: float) -> None:
        """Time leapt to `now`: who was held back comes late, and still nobody overtakes."""
        for pair in self._held:
            self._held[pair] = max(self._held[pair], now)

    def timer(self, address: Address, at: float, now: float) -> float:
        return at

    def envelopes(self, envelope: Envelope, now: float) -> list[tuple[float, Envelope]]:
        sender, receiver, message = envelope
        if sender == HOST and type(message) is not Wake:
            return [(0.0, envelope)]
        name = type(message).__name__
        self._seen[name, sender, receiver] += 1
        self._crash_if_due(name, envelope)
        if type(message) is Wake:
            return [(0.0, envelope)]
        if self._marking and name in COVERED:
            marked = self._marked(envelope)
            if marked is not None:
                return marked
        deliveries = self._touched(name, envelope, now) if self._touching else [(0.0, envelope)]
        return self._raced(envelope, now, deliveries) if self._racing else deliveries

    # Crashes

    def _crash_if_due(self, name: str, envelope: Envelope) -> None:
        _, receiver, _ = envelope
        for number in self._crashing:
            fault = self._faults[number]
            if not _matches(receiver, fault.target) or (fault.messages and name not in fault.messages):
                continue
            about, count = self._key(name, envelope)
            if self._injection.strikes(number, about, count) and self._injection.may_crash(receiver):
                self._injection.fire(number, f"{receiver} on {name}")
                raise InjectedCrash(f"on {name}")

    # Lost, late, doubled

    def _touched(self, name: str, envelope: Envelope, now: float) -> list[tuple[float, Envelope]]:
        sender, receiver, _ = envelope
        late, copies = 0.0, []
        for number in self._touching:
            fault = self._faults[number]
            if name not in fault.messages:
                continue
            if not (_matches(receiver, fault.target) or _matches(sender, fault.target)):
                continue
            about, count = self._key(name, envelope)
            if not self._injection.strikes(number, about, count):
                continue
            self._injection.fire(number, f"{name} to {receiver}")
            match fault:
                case Drop():
                    return []
                case Duplicate():
                    copies.append((fault.after_seconds, envelope))
                case Delay():
                    late = max(late, self._seconds(number, fault, about, count))
        delay = self._in_order(name, (sender, receiver), late, now)
        return [(delay, envelope), *((delay + after, copy) for after, copy in copies)]

    def _seconds(self, number: int, fault: Delay, about: str, count: int) -> float:
        if fault.seconds_max is None:
            return fault.seconds
        part = self._injection.draw(number, "seconds", about, count)
        return fault.seconds + part * (fault.seconds_max - fault.seconds)

    def _in_order(self, name: str, pair: tuple[Address, Address], late: float, now: float) -> float:
        """The delay of a message that is to be so late, and may not overtake those before it."""
        held = self._held.get(pair, -math.inf)
        at = now + late
        if held >= now:
            # Those that are held until this very instant have not been delivered yet.
            at = max(at, held, math.nextafter(now, math.inf))
        if at <= now:
            return 0.0
        delay = at - now
        while now + delay < at:
            delay = math.nextafter(delay, math.inf)
        self._held[pair] = now + delay
        if name not in COVERED:
            self._late_until = max(self._late_until, now + delay)
        return delay

    # Executions that were chosen when they began

    def _marked(self, envelope: Envelope) -> list[tuple[float, Envelope]] | None:
        """What becomes of a message of a marked execution; None if nothing does."""
        sender, receiver, message = envelope
        if type(message) is Run:
            self._mark(message, receiver)
            return None
        key = (message.task_id, message.token)
        # A report is the last of an execution; what a worker says that was rebuilt on the way is one more.
        marks = self._marks.pop(key, []) if type(message) is Finished else self._marks.get(key, [])
        for mark in marks:
            if type(message) is Beat:
                if not isinstance(mark.fault, WorkerCrash) and self._fire(mark, message.task_id):
                    return []
            elif isinstance(mark.fault, Zombie) and self._fire(mark, message.task_id):
                # By itself, for its worker was long given up: what it does next is not held back by this.
                return [(mark.fault.leases_late * mark.lease_seconds, envelope)]
            elif (
                isinstance(mark.fault, WorkerCrash)
                and self._injection.may_crash(sender)
                and self._fire(mark, message.task_id)
            ):
                return [(0.0, (HOST, sender, CrashNow())), (0.0, envelope)]
        return None

    def _mark(self, run: Run, worker: Address) -> None:
        for number in self._marking:
            fault = self._faults[number]
            if fault.is_about(run, worker) and self._injection.strikes(number, run.task_id, run.attempt):
                mark = _Mark(number, fault, lease_seconds=run.lease_seconds)
                self._marks.setdefault((run.task_id, run.token), []).append(mark)

    def _fire(self, mark: _Mark, task_id: str) -> bool:
        """One execution is one fault, however many of its messages are lost."""
        if not mark.fired:
            mark.fired = self._injection.fire(mark.number, self._injection.task_name(task_id))
        return mark.fired

    # Cancels that race

    def _raced(
        self, envelope: Envelope, now: float, deliveries: list[tuple[float, Envelope]]
    ) -> list[tuple[float, Envelope]]:
        for number in self._racing:
            fault = self._faults[number]
            against = "steal" if isinstance(fault, StealRace) else fault.against
            task_id = self._raced_task(against, fault.user, envelope, now)
            if task_id is None or not self._injection.strikes(number, *self._key(against, envelope)):
                continue
            user = shard_address(self._table[task_id].user)
            self._injection.fire(number, self._injection.task_name(task_id))
            cancel = (0.0, (HOST, user, Cancel(task_id)))
            deliveries = [*deliveries, cancel] if against == "retry" else [cancel, *deliveries]
        return deliveries

    def _raced_task(self, against: str, user: str | None, envelope: Envelope, now: float) -> str | None:
        """The task that a message is about to move, if a cancel may race with that."""
        _, receiver, message = envelope
        name = receiver.removeprefix(f"{SHARD}/")
        match against, message:
            case ("claim", Grant()) | ("steal", Grant(stolen=True)) if user in (None, name):
                return next(self._waiting(name, message.kinds, now), None)
            case "run", Run(task_id=task_id) if user in (None, message.user):
                return task_id
            case ("completion", Finished(outcome="completed", task_id=task_id)) | (
                "retry",
                Finished(outcome="failed" | "crashed", task_id=task_id),
            ) if user in (None, name) and self._table.get(task_id) is not None:
                return str(task_id)
        return None

    def _waiting(self, user: str, kinds: frozenset[str], now: float) -> Iterator[str]:
        for task in self._table.live(user):
            if task.status is Status.PENDING and task.kind in kinds and (task.run_after or 0.0) <= now:
                yield task.id

    def _key(self, what: str, envelope: Envelope) -> tuple[str, int]:
        """What a draw for this message is keyed by."""
        sender, receiver, message = envelope
        if isinstance(message, (Run, Finished)):
            return f"{what}/{message.task_id}", message.token
        return f"{what}/{sender}/{receiver}", self._seen[type(message).__name__, sender, receiver]
