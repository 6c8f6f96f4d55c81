"""How simulated workers execute a run: they wait out a service time. The worker itself is the runtime's own."""

from collections.abc import Mapping

from actors.actor import Draw
from actors.messages import Address, Finished, Run
from sim.scenario import Kind

__all__ = ["SimulatedExecutor"]


class SimulatedExecutor:
    """Knows beforehand when a run is over, and stops at once when told to."""

    occupied = False

    def __init__(self, worker: Address, kinds: Mapping[str, Kind]) -> None:
        self._worker = worker
        self._kinds = kinds

    def start(self, run: Run, now: float, draw: Draw) -> float:
        return now + self._kinds[run.kind].service.sample(draw("service", run.task_id, run.attempt))

    def outcome(self, run: Run) -> Finished:
        return Finished(task_id=run.task_id, token=run.token, worker_id=self._worker, outcome="completed")

    def stop(self, run: Run) -> Finished:
        return Finished(task_id=run.task_id, token=run.token, worker_id=self._worker, outcome="cancelled")
