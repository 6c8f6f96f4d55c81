"""A worker: takes a run, has it executed, and reports what came of it.

The core is the protocol and the patience; how a run is executed is its executor's business: a handler in trio, a thread or
a process, or in the simulator a service time that passes. So the simulator runs the worker that production runs.

While it executes, the worker beats every third of the lease. A run that is cancelled, times out or is called in by a
shutdown is told to stop, and whatever it says then counts: a result that came first is a result. One that cannot stop, or
has not after `cancel_grace_seconds`, is fenced: the worker reports its end, which makes the shard refuse whatever it may
say later, and stays occupied until it is really over.

What must survive a restart (the last grant it heard of, and the run it is in) is noted. A worker that was rebuilt in
mid-run reports that run as crashed: so a task that takes its workers down is counted and contained.
"""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from actors.actor import NEVER, Draw, Effects
from actors.messages import (
    SCHEDULER,
    Address,
    Beat,
    Busy,
    Failed,
    Finished,
    Gone,
    Idle,
    Resync,
    Retire,
    Run,
    Stop,
    Wake,
    WorkerClass,
    shard_address,
)
from actors.table import Notes, Table
from actors.task import Status
from actors.trace import StopIgnored

__all__ = ["BEATS_PER_LEASE", "Executor", "Worker"]

BEATS_PER_LEASE = 3
"""So two beats may be lost before a task counts as stuck."""


class Executor(Protocol):
    """How a worker's runs are executed, one at a time."""

    def start(self, run: Run, now: float, draw: Draw) -> float:
        """Begin. When it will be over if that is known beforehand, else NEVER: then `Finished` is sent to the worker."""

    def outcome(self, run: Run) -> Finished:
        """What came of a run that was over when it said it would be."""

    def stop(self, run: Run) -> Finished | None:
        """End it now. What it says if it is over, or cannot be reached; None if it will say so itself."""

    @property
    def occupied(self) -> bool:
        """Whether anything of a run is still going on."""


class _Execution:
    __slots__ = ("beats_at", "ends_at", "fences_at", "reported", "run", "stopped", "times_out_at")

    def __init__(self, run: Run, ends_at: float, beats_at: float, times_out_at: float) -> None:
        self.run = run
        self.ends_at = ends_at
        self.beats_at = beats_at
        self.times_out_at = times_out_at
        self.stopped: str | None = None
        """Why it was told to stop, if it was: `cancelled`, `timed out` or `released`."""
        self.fences_at = NEVER
        """When it is fenced unless it has stopped."""
        self.reported = False
        """Whether its end was reported while it goes on."""

    def due_at(self) -> float:
        """When the worker must look at it again."""
        if self.reported:
            return NEVER
        return min(self.ends_at, self.beats_at, self.times_out_at, self.fences_at)


class Worker:
    """The core of one worker."""

    passive = False

    def __init__(
        self,
        address: Address,
        worker_class: WorkerClass,
        executor: Executor,
        table: Table,
        notes: Notes,
        cancel_grace_seconds: float = 5.0,
    ) -> None:
        self._address = address
        self._class = worker_class
        self._executor = executor
        self._table = table
        self._notes = notes
        self._cancel_grace_seconds = cancel_grace_seconds
        self._epoch: int = table.notes(SCHEDULER).get("epoch", 1)
        self._heard: int = notes.get("run", (0,))[0]
        self._execution: _Execution | None = None
        self._retiring: bool = notes.get("retiring", False)
        self._wakes_at = NEVER

    def __repr__(self) -> str:
        doing = f"runs {self._execution.run.task_id}" if self._execution else "idle"
        return f"<{self._address}: {doing}>"

    @property
    def owes_report(self) -> bool:
        """Whether it has not reported yet what came of its run."""
        return self._execution is not None and not self._execution.reported

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
        self._say_free(effects)
        return effects

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        handler = _HANDLERS.get(type(message))
        if handler is None:
            raise TypeError(f"worker cannot handle {message!r}")
        effects = Effects()
        handler(self, message, now, draw, effects)
        self._set_timer(effects)
        return effects.keep(self._notes)

    # An execution

    def _begin(self, run: Run, now: float, draw: Draw, effects: Effects) -> None:
        if run.grant <= self._heard:
            # A repeated delivery, or one that was declared void.
            return
        self._heard = run.grant
        current = run if self._execution is None else self._execution.run
        self._notes["run"] = (run.grant, current.user, current.task_id, current.token)
        if self._retiring or self._execution is not None:
            # Granted before the scheduler heard that it retires; or that an older run was still on its way to it.
            self._report(run, self._released(run), effects)
            return
        ends_at = self._executor.start(run, now, draw)
        times_out_at = NEVER if run.timeout_seconds is None else now + run.timeout_seconds
        self._execution = _Execution(run, ends_at, now + run.lease_seconds / BEATS_PER_LEASE, times_out_at)

    def _finished(self, said: Finished, now: float, draw: Draw, effects: Effects) -> None:
        self._over(said, effects)

    def _over(self, said: Finished, effects: Effects) -> None:
        """The executor is done with a run; if it was fenced, this is what it says too late."""
        execution = self._execution
        if execution is None or execution.run.token != said.token or execution.run.task_id != said.task_id:
            return
        if not execution.reported:
            self._report(execution.run, _because(execution.stopped, said, execution.run), effects)
        self._execution = None
        self._say_free(effects)

    def _look(self, message: Wake, now: float, draw: Draw, effects: Effects) -> None:
        """See to whatever is due."""
        self._wakes_at = NEVER
        execution = self._execution
        if execution is None or execution.reported:
            return
        run = execution.run
        if now >= execution.ends_at:
            self._over(self._executor.outcome(run), effects)
        elif now >= execution.fences_at:
            self._fence(execution, self._stopped(run), now, effects)
        elif now >= execution.times_out_at:
            execution.times_out_at = NEVER
            self._stop(execution, "timed out", now, effects)
        elif now >= execution.beats_at:
            effects.send(shard_address(run.user), Beat(run.task_id, run.token))
            execution.beats_at = now + run.lease_seconds / BEATS_PER_LEASE

    # Stopping it

    def _stop_if_current(self, stop: Stop, now: float, draw: Draw, effects: Effects) -> None:
        """End the execution that is meant, if it is not over; what has ended was reported already."""
        execution = self._execution
        if execution is not None and (execution.run.task_id, execution.run.token) == (stop.task_id, stop.token):
            self._stop(execution, "cancelled", now, effects)

    def _stop(self, execution: _Execution, why: str, now: float, effects: Effects) -> None:
        if execution.stopped is not None:
            return
        execution.stopped = why
        said = self._executor.stop(execution.run)
        if said is None:
            execution.fences_at = now + self._cancel_grace_seconds
        elif self._executor.occupied:
            self._fence(execution, said, now, effects)
        else:
            self._over(said, effects)

    def _fence(self, execution: _Execution, said: Finished, now: float, effects: Effects) -> None:
        """Report the end of an execution that goes on: it keeps its worker, and nobody listens to it."""
        run = execution.run
        task = self._table.get(run.task_id)
        name = task.identity if task is not None else run.task_id
        effects.events.append(StopIgnored(now, name, run.token, self._address, execution.stopped or ""))
        self._report(run, _because(execution.stopped, said, run), effects)
        execution.reported = True

    def _stopped(self, run: Run) -> Finished:
        return Finished(task_id=run.task_id, token=run.token, worker_id=self._address, outcome="cancelled")

    def _released(self, run: Run) -> Finished:
        return Finished(task_id=run.task_id, token=run.token, worker_id=self._address, outcome="released")

    # What others say

    def _told_failed(self, failed: Failed, now: float, draw: Draw, effects: Effects) -> None:
        if isinstance(failed.message, Finished):
            effects.send(failed.receiver, failed.message)
        elif isinstance(failed.message, (Idle, Gone)) and self._execution is None:
            self._say_free(effects)

    def _resync(self, message: Resync, now: float, draw: Draw, effects: Effects) -> None:
        self._epoch = message.epoch
        if message.void > self._heard:
            self._heard = message.void
            self._notes["run"] = (message.void, "", "", 0)
        if self._execution is None:
            self._say_free(effects)
        else:
            effects.send(SCHEDULER, Busy(self._address, self._class, self._epoch))

    def _retire(self, message: Retire, now: float, draw: Draw, effects: Effects) -> None:
        self._retiring = self._notes["retiring"] = True
        if self._execution is None:
            self._say_free(effects)
        elif message.at_once:
            self._stop(self._execution, "released", now, effects)

    # Shared by the above

    def _report(self, run: Run, report: Finished, effects: Effects) -> None:
        effects.send(shard_address(run.user), report)

    def _say_free(self, effects: Effects) -> None:
        if self._retiring:
            effects.send(SCHEDULER, Gone(self._address))
        else:
            effects.send(SCHEDULER, Idle(self._address, self._class, self._epoch, self._heard))

    def _set_timer(self, effects: Effects) -> None:
        """A timer that comes too early is left to come: most executions are over long before a beat is due."""
        if self._execution is not None and (due_at := self._execution.due_at()) < self._wakes_at:
            self._wakes_at = effects.timer = due_at


_HANDLERS: dict[type, Callable[..., None]] = {
    Run: Worker._begin,
    Finished: Worker._finished,
    Wake: Worker._look,
    Stop: Worker._stop_if_current,
    Resync: Worker._resync,
    Retire: Worker._retire,
    Failed: Worker._told_failed,
}


def _because(why: str | None, said: Finished, run: Run) -> Finished:
    """What an execution said, in the light of why it was told to stop; a result or an error of its own stands."""
    if said.outcome != "cancelled":
        return said
    if why == "timed out":
        error = f"timed out after {run.timeout_seconds:g} s"
        return msgspec.structs.replace(said, outcome="failed", error=error, error_types=("TimeoutError", "OSError"))
    return said if why == "cancelled" else msgspec.structs.replace(said, outcome="released")
