"""How long each execution of a simulated task takes, and what comes of it."""

from collections.abc import Mapping

import msgspec

from actors.actor import Draw
from actors.messages import Address, Finished, Run
from sim.jobs import Execution, Job
from sim.scenario import Kind

__all__ = ["ServiceTimes", "payload_of"]


def payload_of(job: Job) -> list[object] | None:
    """What a job's task carries, so that its executions go as they were recorded, wherever and whenever they are."""
    if not job.executions:
        return None
    return [msgspec.to_builtins(execution) for execution in job.executions]


def _recorded(run: Run) -> Execution:
    """How this execution went, which was recorded; beyond the last it goes as the last one did."""
    return msgspec.convert(run.payload[min(run.attempt, len(run.payload)) - 1], Execution)


class ServiceTimes:
    """The service times of one simulation, shared by its workers.

    By task, the default, an execution takes the same time whoever runs it and whenever: so policies are compared on the
    same work. By start, the n-th execution to start takes the n-th time, whichever task it is of: so starts and ends
    are at the same times under every order that lets no worker idle, and the total wait is the same.
    """

    def __init__(self, kinds: Mapping[str, Kind], draws: str = "task") -> None:
        self._samples = {name: kind.service.sample for name, kind in kinds.items()}
        self._by_start = draws == "start"
        self._starts = 0

    def seconds(self, run: Run, draw: Draw) -> float:
        """How long the execution that starts now takes."""
        if run.payload is not None:
            return _recorded(run).seconds
        if self._by_start:
            self._starts += 1
            return self._samples[run.kind](draw("service", "start", self._starts))
        return self._samples[run.kind](draw("service", run.task_id, run.attempt))

    def outcome(self, run: Run, worker: Address) -> Finished:
        """What comes of an execution that is left to end."""
        if run.payload is None or (recorded := _recorded(run)).error is None:
            return Finished(task_id=run.task_id, token=run.token, worker_id=worker, outcome="completed")
        return Finished(
            task_id=run.task_id,
            token=run.token,
            worker_id=worker,
            outcome="failed",
            error=recorded.error,
            retry_after_seconds=recorded.retry_after_seconds,
            give_up=recorded.retry_after_seconds is None,
        )
