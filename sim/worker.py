"""How simulated workers execute a run: they wait out a service time. The worker itself is the runtime's own.

Where a scenario has faults of executions, a second executor stands before the first and has some of them hang, take long,
fail, or take their worker down: by what it raises when a run begins, and when it should be over.
"""

import msgspec

from actors.actor import NEVER, Draw
from actors.messages import Address, Finished, Run
from actors.worker import Executor
from sim.faults import Fail, Hang, Poison, RunFault, Slow, WorkerCrash
from sim.injection import InjectedCrash, Injection
from sim.service import ServiceTimes

__all__ = ["FaultyExecutor", "SimulatedExecutor"]


class SimulatedExecutor:
    """Knows beforehand when a run is over, and stops at once when told to."""

    occupied = False

    def __init__(self, worker: Address, times: ServiceTimes) -> None:
        self._worker = worker
        self._times = times

    def start(self, run: Run, now: float, draw: Draw) -> float:
        return now + self._times.seconds(run, draw)

    def outcome(self, run: Run) -> Finished:
        return self._times.outcome(run, self._worker)

    def stop(self, run: Run) -> Finished:
        return Finished(task_id=run.task_id, token=run.token, worker_id=self._worker, outcome="cancelled")


class FaultyExecutor:
    """Has some executions of another executor go wrong."""

    def __init__(self, worker: Address, executor: Executor, injection: Injection) -> None:
        self._worker = worker
        self._executor = executor
        self._injection = injection
        self._numbers = injection.of(WorkerCrash, Hang, Slow, Fail, Poison)
        self._ends_at = NEVER
        self._fault: RunFault | None = None
        """What becomes of the run in place of its result."""
        self._number = 0

    @property
    def occupied(self) -> bool:
        return self._executor.occupied

    def start(self, run: Run, now: float, draw: Draw) -> float:
        self._ends_at, self._fault = self._executor.start(run, now, draw), None
        for number in self._numbers:
            fault = self._injection.faults[number]
            assert isinstance(fault, RunFault), "these are"
            # A poisonous task is so whenever it is run.
            attempt = 0 if isinstance(fault, Poison) else run.attempt
            if fault.is_about(run, self._worker) and self._injection.strikes(number, run.task_id, attempt):
                self._strike(number, fault, run, now)
        return self._ends_at

    def outcome(self, run: Run) -> Finished:
        said, fault = self._executor.outcome(run), self._fault
        match fault:
            case WorkerCrash():
                self._crash_if_borne(fault, run)
            case Fail():
                return msgspec.structs.replace(said, outcome="failed", error=fault.error)
            case Poison():
                return msgspec.structs.replace(said, outcome="crashed", error="the task took its worker down")
        return said

    def stop(self, run: Run) -> Finished | None:
        return self._executor.stop(run)

    def _strike(self, number: int, fault: RunFault, run: Run, now: float) -> None:
        if isinstance(fault, WorkerCrash):
            self._plan_crash(number, fault, run, now)
            return
        self._injection.fire(number, self._injection.task_name(run.task_id))
        if isinstance(fault, Hang):
            self._ends_at = NEVER
        elif isinstance(fault, Slow):
            self._ends_at = now + (self._ends_at - now) * fault.factor
        else:
            self._fault = fault

    def _plan_crash(self, number: int, fault: WorkerCrash, run: Run, now: float) -> None:
        """Crash now, or have the run be over when its worker crashes on its outcome. The gate sees to `reported`."""
        if fault.when == "reported" or self._ends_at == NEVER:
            return
        part = {"before": 0.0, "after": 1.0}.get(fault.when)
        if part is None:
            part = self._injection.draw(number, "part", run.task_id, run.attempt)
        self._ends_at = now + (self._ends_at - now) * part
        self._fault, self._number = fault, number
        if fault.when == "before":
            self._crash_if_borne(fault, run)

    def _crash_if_borne(self, fault: WorkerCrash, run: Run) -> None:
        if self._injection.may_crash(self._worker) and self._injection.fire(self._number, self._worker):
            raise InjectedCrash(f"{fault.when} the work on {self._injection.task_name(run.task_id)}")
