"""A recorded run as a workload: from a trace of the simulator, or of a runtime in production (`record=`).

Every task that was admitted is a job, with its user, kind, level, cost, delay, expiry and retries. Its executions go as they
went: as long, and the failed ones fail again, with the same error and the same delay before the next. An execution that was
cut short (a lease that ran out, a release, a cancel) says nothing of how long the work takes and is left out. What operators
did on the way is theirs and is not repeated: cancels, requeues, pauses, new weights and limits.
"""

from collections.abc import Iterator

import attrs
import msgspec

from actors.errors import InvalidConfig
from actors.submission import kind_fault
from actors.task import Priority
from actors.trace import Admitted, Completed, DeadLettered, Event, Header, Retried, Started, read_trace
from actors.validators import is_finite, user_name_fault
from sim.jobs import Execution, Job, lines_of

__all__ = ["RUNTIME", "read_run", "recorded_header", "recorded_items"]

RUNTIME = "runtime"
"""What a runtime's recordings give as their scenario. Their times are of the day; a simulated run begins at 0."""


@attrs.define
class _Recorded:
    admitted: Admitted
    waited_seconds: float | None = None
    executions: list[Execution] = attrs.Factory(list)

    def start(self, event: Started) -> None:
        if event.waited_seconds is not None:
            self.waited_seconds = event.waited_seconds

    def end(self, event: Completed | Retried | DeadLettered) -> None:
        if isinstance(event, Completed):
            self.executions.append(Execution(event.used_seconds))
        elif isinstance(event, Retried):
            self.executions.append(Execution(event.used_seconds, event.error, event.run_after - event.at))
        elif event.worker is not None and event.outcome != "recovered":
            self.executions.append(Execution(event.used_seconds, event.error))

    def job(self, began_at: float) -> Job:
        admitted = self.admitted
        at = admitted.at
        return Job(
            at_seconds=at - began_at,
            user=admitted.user,
            kind=admitted.kind,
            priority=Priority(admitted.level),
            cost=admitted.cost if admitted.cost > 0 else None,
            delay_seconds=None if admitted.run_after is None else max(0.0, admitted.run_after - at),
            expires_after_seconds=None if admitted.expires_at is None else admitted.expires_at - at,
            max_retries=admitted.max_retries,
            waited_seconds=self.waited_seconds,
            executions=tuple(self.executions),
        )


def read_run(path: str) -> Iterator[Job]:
    """The jobs of a recorded run, in the order in which they were admitted; InvalidConfig names the line that is none."""
    tasks: dict[str, _Recorded] = {}
    began_at: float | None = 0.0
    for number, item in recorded_items(path):
        if isinstance(item, Header):
            began_at = None if item.scenario == RUNTIME else 0.0
            continue
        if began_at is None:
            began_at = item.at
        if isinstance(item, Admitted):
            if fault := _fault(item):
                raise InvalidConfig(f"workload {path}, line {number}: {fault}")
            tasks[item.task] = _Recorded(item)
        elif isinstance(item, (Started, Completed, Retried, DeadLettered)) and item.task in tasks:
            # A task that is not there was admitted before the recording began, or where it says that events are missing.
            if isinstance(item, Started):
                tasks[item.task].start(item)
            elif not (is_finite(item.used_seconds) and item.used_seconds >= 0):
                used = item.used_seconds
                raise InvalidConfig(
                    f"workload {path}, line {number}: used_seconds must be a finite number >= 0, got {used}"
                )
            else:
                tasks[item.task].end(item)
    return (task.job(began_at or 0.0) for task in tasks.values())


def recorded_header(path: str) -> Header | None:
    """What was run, if the recording says so in its first line."""
    first = next((item for _, item in recorded_items(path)), None)
    return first if isinstance(first, Header) else None


def recorded_items(path: str) -> Iterator[tuple[int, Header | Event]]:
    """What a trace has on each line, with the number of the line; InvalidConfig names one that is no event."""
    for number, line in lines_of(path):
        try:
            (item,) = read_trace([line])
        except InvalidConfig as error:
            said = str(error).removeprefix("trace ").removeprefix("line 1 ")
            raise InvalidConfig(f"workload {path}, line {number}: {said}") from None
        yield number, item


def _fault(event: Admitted) -> str | None:
    """What is wrong with a task that somebody else's program may have written."""
    fault = user_name_fault(event.user) or kind_fault(event.kind)
    if fault is None and event.level not in list(Priority):
        fault = f"level must be one of {Priority.VERY_LOW:d} to {Priority.CRITICAL:d}, got {event.level}"
    for name, value in msgspec.structs.asdict(event).items():
        if fault is None and isinstance(value, float) and not is_finite(value):
            fault = f"{name} must be a finite number, got {value}"
    if fault is None and event.max_retries < 0:
        fault = f"max_retries must be a whole number >= 0, got {event.max_retries}"
    return fault
