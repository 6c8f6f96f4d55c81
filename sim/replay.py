"""Work that was recorded, done again: a log or a run as the workload of a scenario.

A workload brings its own users and kinds. A user or kind is as the scenario's table of that name says, and else as any other
that nothing is said of. What a recording does not say, how long a task takes that never came to its end, is drawn from what
it says of others of that kind.
"""

import math
import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import attrs
import msgspec

from actors.validators import greater_than, one_of, or_none, printable, whole
from sim.jobs import Job
from sim.processes import Empirical, Fixed, Service
from sim.recorded import read_run
from sim.swf import read_swf

__all__ = ["READERS", "Workload", "numbers_by_size"]

READERS: dict[str, Callable[[str], Iterable[Job]]] = {"trace": read_run, "swf": read_swf}
"""What can be read, and how."""

DAY_SECONDS = 86_400.0


@attrs.frozen(kw_only=True)
class Workload:
    """Jobs from a file, beside whatever the users' own arrivals are."""

    process: str = attrs.field(validator=one_of(tuple(READERS)))
    """What the file is: `trace`, a recorded run, or `swf`, a log in the Standard Workload Format; either may be gzipped."""
    path: str = attrs.field(validator=printable)
    """Where it is, as seen from the scenario file."""
    time_scale: float = attrs.field(default=1.0, validator=greater_than(0))
    """What submit times are multiplied by: with 0.5 the same jobs come twice as fast. Run times stay as they are."""
    jobs_max: int | None = attrs.field(default=None, validator=or_none(whole(1)))
    """Only the first so many jobs."""
    days_max: float | None = attrs.field(default=None, validator=or_none(greater_than(0)))
    """Only the jobs of the first so many days, by the recording's own time."""

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs that are wanted, in the order of their times; the file is read once."""
        found = sorted(READERS[self.process](self.path), key=lambda job: job.at_seconds)
        until = math.inf if self.days_max is None else self.days_max * DAY_SECONDS
        return tuple(self._scaled(job) for job in found[: self.jobs_max] if job.at_seconds < until)

    @cached_property
    def users(self) -> tuple[str, ...]:
        """Whose jobs they are: `user7` before `user10`."""
        return tuple(sorted({job.user for job in self.jobs}, key=numbers_by_size))

    @cached_property
    def services(self) -> dict[str, Service]:
        """For each kind, how long a job takes of which the recording does not say it."""
        seconds: dict[str, list[float]] = {}
        for job in self.jobs:
            seconds.setdefault(job.kind, []).extend(execution.seconds for execution in job.executions)
        return {
            kind: Empirical(seconds=tuple(sorted(found))) if found else Fixed(seconds=1.0)
            for kind, found in sorted(seconds.items())
        }

    @property
    def duration_seconds(self) -> float:
        """A time at which the last job has arrived."""
        return math.floor(self.jobs[-1].at_seconds) + 1.0 if self.jobs else 1.0

    @property
    def longest_seconds(self) -> float:
        """What the longest execution took."""
        return max((execution.seconds for job in self.jobs for execution in job.executions), default=0.0)

    @property
    def lease_seconds(self) -> float:
        """So long that nobody needs to beat: a third of it outlasts whatever was recorded."""
        return max(60.0, 4 * self.longest_seconds)

    def _scaled(self, job: Job) -> Job:
        if self.time_scale == 1.0:
            return job
        return msgspec.structs.replace(job, at_seconds=job.at_seconds * self.time_scale)


def numbers_by_size(name: str) -> list[Any]:
    """Sorts `user7` before `user10`: text and numbers take turns, so that like is compared with like.

    >>> sorted(["user10", "user7", "amy"], key=numbers_by_size)
    ['amy', 'user7', 'user10']
    """
    return [int(part) if number % 2 else part for number, part in enumerate(re.split(r"([0-9]+)", name))]
