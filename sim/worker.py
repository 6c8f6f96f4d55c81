"""A simulated worker: instead of running a handler it waits out a service time, and beats as a real one does.

What it must remember over a restart (the last grant it heard of, and the run it is in) is noted. A worker that was rebuilt
in mid-run reports that run as crashed: so a task that takes its workers down is counted and contained.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from actors.actor import NEVER, Draw, Effects
from actors.messages import (
    SCHEDULER,
    Address,
    Beat,
    Busy,
    Failed,
    Finished,
    Idle,
    Resync,
    Run,
    Stop,
    Wake,
    WorkerClass,
    shard_address,
)
from actors.table import Notes, Table
from actors.task import Status
from sim.scenario import Kind

__all__ = ["SimulatedWorker"]

_BEATS_PER_LEASE = 3


@attrs.define
class _Execution:
    run: Run
    ends_at: float
    beats_at: float
    timed_out: bool


class SimulatedWorker:
    """The core of one simulated worker."""

    passive = False

    def __init__(
        self, address: Address, worker_class: WorkerClass, kinds: Mapping[str, Kind], table: Table, notes: Notes
    ) -> None:
        self._address = address
        self._kinds = kinds
        self._class = worker_class
        self._notes = notes
        self._epoch: int = table.notes(SCHEDULER).get("epoch", 1)
        self._table = table
        self._heard: int = notes.get("run", (0,))[0]
        self._execution: _Execution | None = None

    def __repr__(self) -> str:
        doing = f"runs {self._execution.run.task_id}" if self._execution else "idle"
        return f"<SimulatedWorker {self._address}: {doing}>"

    def start(self, now: float) -> Effects:
        effects = Effects()
        _, user, task_id, token = self._notes.get("run", (0, "", "", 0))
        task = self._table.get(task_id)
        if task is not None and task.status is Status.IN_PROGRESS and task.token == token:
            report = Finished(
                task_id=task_id,
                token=token,
                worker_id=self._address,
                outcome="crashed",
                error="the worker was restarted",
            )
            effects.send(shard_address(user), report)
        self._say_idle(effects)
        return effects

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        effects = Effects()
        match message:
            case Run():
                # A grant already heard of is a repeated delivery, or one that was declared void.
                if message.grant > self._heard:
                    self._begin(message, now, draw, effects)
            case Stop():
                self._stop(message, effects)
            case Wake():
                self._wake(now, effects)
            case Resync():
                self._resync(message, effects)
            case Failed(message=Finished() as report):
                effects.send(message.receiver, report)
            case Failed():
                pass
            case _:
                raise TypeError(f"worker cannot handle {message!r}")
        return effects.keep(self._notes)

    def _begin(self, run: Run, now: float, draw: Draw, effects: Effects) -> None:
        assert self._execution is None, "a worker runs one task at a time"
        self._heard = run.grant
        self._notes["run"] = (run.grant, run.user, run.task_id, run.token)
        kind = self._kinds[run.kind]
        seconds = kind.service.sample(draw("service", run.task_id, run.attempt))
        timed_out = kind.timeout_seconds is not None and seconds > kind.timeout_seconds
        if timed_out:
            seconds = kind.timeout_seconds or 0.0
        self._execution = _Execution(run, now + seconds, now + run.lease_seconds / _BEATS_PER_LEASE, timed_out)
        effects.timer = min(self._execution.ends_at, self._execution.beats_at)

    def _wake(self, now: float, effects: Effects) -> None:
        execution = self._execution
        if execution is None:
            return
        run = execution.run
        if now >= execution.ends_at:
            if execution.timed_out:
                self._end(run, effects, outcome="failed", error="timed out", error_types=("TimeoutError",))
            else:
                self._end(run, effects, outcome="completed")
            return
        effects.send(shard_address(run.user), Beat(run.task_id, run.token))
        execution.beats_at = now + run.lease_seconds / _BEATS_PER_LEASE
        effects.timer = min(execution.ends_at, execution.beats_at)

    def _stop(self, stop: Stop, effects: Effects) -> None:
        """End the execution that is meant, if it is not over; what has ended was reported already."""
        run = self._execution.run if self._execution is not None else None
        if run is not None and (run.task_id, run.token) == (stop.task_id, stop.token):
            self._end(run, effects, outcome="cancelled")

    def _end(self, run: Run, effects: Effects, **said: Any) -> None:
        self._execution = None
        report = Finished(task_id=run.task_id, token=run.token, worker_id=self._address, **said)
        effects.send(shard_address(run.user), report)
        self._say_idle(effects)
        effects.timer = NEVER

    def _resync(self, message: Resync, effects: Effects) -> None:
        self._epoch = message.epoch
        if message.void > self._heard:
            self._heard = message.void
            self._notes["run"] = (message.void, "", "", 0)
        if self._execution is None:
            self._say_idle(effects)
        else:
            effects.send(SCHEDULER, Busy(self._address, self._class, self._epoch))

    def _say_idle(self, effects: Effects) -> None:
        effects.send(SCHEDULER, Idle(self._address, self._class, self._epoch, self._heard))
