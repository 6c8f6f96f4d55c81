"""A source of work: the actor that submits what one user's arrival processes call for, or what was recorded.

Arrival times and ids depend on the seed and the user alone, so that every policy is tried on the same work. A source
submits at most `CREDIT` tasks before it looks up again: a burst of a million does not need a mailbox of a million.
"""

from collections.abc import Iterator
from heapq import merge
from random import Random
from typing import Any

import attrs

from actors.actor import NEVER, Draw, Effects
from actors.ids import derived_id
from actors.messages import QUEUE, Accepted, Address, Failed, Refused, Submit, Wake
from actors.retry import RetryPolicy
from sim.jobs import Job
from sim.processes import Arrivals
from sim.replay import Workload
from sim.scenario import Kind, Scenario, User
from sim.service import payload_of

__all__ = ["RECORDING", "Source", "recorded_submits", "source_address", "user_submits"]

CREDIT = 1_000

RECORDING: Address = "recording"
"""Where the source of what was recorded is reached."""

TimedSubmit = tuple[float, Submit]


def source_address(user: str) -> Address:
    """Where a user's source is reached."""
    return f"source/{user}"


class Source:
    """The core of one source: submits each in its time."""

    passive = False

    def __init__(self, submits: Iterator[TimedSubmit]) -> None:
        self._submits = submits
        self._next = next(submits, None)

    def start(self, now: float) -> Effects:
        effects = Effects()
        effects.timer = NEVER if self._next is None else self._next[0]
        return effects

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        if type(message) is Wake:
            return self._submit_due(now)
        if not isinstance(message, (Accepted, Refused, Failed)):
            raise TypeError(f"source cannot handle {message!r}")
        return Effects()

    def _submit_due(self, now: float) -> Effects:
        """One user's at a time: as if each had a source of its own, so that a recording is replayed as it was run."""
        effects = Effects()
        due, sends = self._next, effects.sends
        while due is not None and due[0] <= now and len(sends) < CREDIT:
            submit = due[1]
            if sends and submit.user != sends[0][1].user:
                break
            sends.append((QUEUE, submit))
            due = next(self._submits, None)
        self._next = due
        effects.timer = NEVER if due is None else due[0]
        return effects


def user_submits(scenario: Scenario, user: User) -> Iterator[TimedSubmit]:
    """What a user's arrivals call for, in order of time."""
    costs = {kind.name: kind.cost for kind in scenario.each_kind()}
    name, whose = user.name, f"{scenario.seed}/{user.name}#"
    for number, (at, _, arrivals) in enumerate(_merged(scenario, user), start=1):
        submit = Submit(
            id=derived_id(f"{whose}{number}", at),
            user=name,
            kind=arrivals.kind,
            priority=arrivals.priority,
            cost=costs[arrivals.kind],
            run_after=None if arrivals.delay_seconds is None else at + arrivals.delay_seconds,
            expires_at=None if arrivals.expires_after_seconds is None else at + arrivals.expires_after_seconds,
        )
        yield at, submit


def recorded_submits(scenario: Scenario, workload: Workload) -> Iterator[TimedSubmit]:
    """What was recorded, in order of time; of the same time, in the order of the recording."""
    kinds = {kind.name: kind for kind in scenario.each_kind()}
    for number, job in enumerate(workload.jobs, start=1):
        at = job.at_seconds
        if at >= scenario.duration_seconds:
            return
        kind = kinds[job.kind]
        submit = Submit(
            id=derived_id(f"{scenario.seed}/{RECORDING}#{number}", at),
            user=job.user,
            kind=job.kind,
            payload=payload_of(job),
            priority=job.priority,
            cost=job.cost if kind.cost is None else kind.cost,
            retry=_retry(job, kind),
            run_after=None if job.delay_seconds is None else at + job.delay_seconds,
            expires_at=None if job.expires_after_seconds is None else at + job.expires_after_seconds,
        )
        yield at, submit


def _retry(job: Job, kind: Kind) -> RetryPolicy | None:
    if job.max_retries is None or job.max_retries == kind.max_retries:
        return None
    return attrs.evolve(kind.settings().retry, max_retries=job.max_retries)


def _merged(scenario: Scenario, user: User) -> Iterator[tuple[float, int, Arrivals]]:
    """All of a user's arrivals in order of time, then of their place in the file."""

    def stream(number: int, arrivals: Arrivals) -> Iterator[tuple[float, int, Arrivals]]:
        random = Random(f"{scenario.seed}/arrivals/{user.name}/{number}")
        return ((at, number, arrivals) for at in arrivals.times(random, scenario.duration_seconds))

    streams = [stream(number, arrivals) for number, arrivals in enumerate(user.arrivals)]
    return streams[0] if len(streams) == 1 else merge(*streams, key=lambda item: item[:2])
