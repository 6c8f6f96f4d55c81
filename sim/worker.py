"""How simulated workers execute a run: they wait out a service time. The worker itself is the runtime's own."""

from actors.actor import Draw
from actors.messages import Address, Finished, Run
from sim.service import ServiceTimes

__all__ = ["SimulatedExecutor"]


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
