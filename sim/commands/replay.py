"""`evenhand sim replay`: what would have happened to recorded work under another policy."""

import math
import sys
from pathlib import Path
from typing import Any

from actors.errors import InvalidConfig
from actors.policies import ORDERING, SHARING
from sim.commands.running import run_and_report, whole_number
from sim.groups import percentile
from sim.recorded import recorded_header
from sim.replay import Workload
from sim.scenario import Runtime, Scenario, User

__all__ = ["replay"]


def replay(
    file: Path,
    /,
    *,
    sharing: str | None = None,
    ordering: str | None = None,
    workers: str | None = None,
    days: float | None = None,
    jobs: str | None = None,
    time_scale: float = 1.0,
    json: bool = False,
    trace: Path | None = None,
) -> int:
    """Do recorded work again, under another policy or with other workers: what would have happened.

    Parameters
    ----------
    file
        A recorded run, RUN.jsonl, or a log in the Standard Workload Format, LOG.swf; either may be gzipped.
    sharing
        The sharing policy, a name or module:Class; as recorded unless given.
    ordering
        The ordering policy, a name or module:Class; as recorded unless given.
    workers
        How many workers; as recorded unless given.
    days
        Only the first so many days.
    jobs
        Only the first so many jobs.
    time_scale
        What submit times are multiplied by: with 0.5 the same jobs come twice as fast.
    json
        Print one JSON object instead of tables.
    trace
        Write every event to this file, as JSON Lines.
    """
    sys.path.insert(0, "")
    workload = Workload(
        process=process_of(file),
        path=str(file),
        time_scale=time_scale,
        jobs_max=whole_number("--jobs", jobs, 1),
        days_max=days,
    )
    recorded = _recorded_options(workload)
    runtime = Runtime(
        workers=whole_number("--workers", workers, 1) or recorded.get("workers", 8),
        sharing=SHARING.make(sharing or _policy(recorded, "sharing", "weighted_fair")),
        ordering=ORDERING.make(ordering or _policy(recorded, "ordering", "aging")),
        critical_burst=recorded.get("critical_burst", 16),
    )
    scenario = Scenario(
        name=f"replay of {file.name}",
        duration_seconds=workload.duration_seconds,
        runtime=runtime,
        workload=workload,
        kinds=(),
        users=tuple(User(name=name, weight=weight) for name, weight in recorded.get("weights", {}).items()),
    )
    return run_and_report(scenario, read_from=file, trace=trace, as_json=json, also=_as_recorded(workload))


def process_of(file: Path) -> str:
    """What a file is, by its name.

    >>> process_of(Path("nasa.swf.gz")), process_of(Path("run.jsonl"))
    ('swf', 'trace')
    """
    suffixes = [suffix for suffix in file.suffixes if suffix != ".gz"]
    found = {".swf": "swf", ".jsonl": "trace"}.get(suffixes[-1] if suffixes else "")
    if found is None:
        raise InvalidConfig(f"{file}: must be a recorded run, .jsonl, or a log, .swf, gzipped or not")
    return found


def _as_recorded(workload: Workload) -> str | None:
    """What waits were when it was recorded, if that is known."""
    from sim.tables import number

    waits = sorted(job.waited_seconds for job in workload.jobs if job.waited_seconds is not None)
    if not waits:
        return None
    mean, p50, p99 = math.fsum(waits) / len(waits), percentile(waits, 0.50), percentile(waits, 0.99)
    said = f"mean {number(mean)}, p50 {number(p50)}, p99 {number(p99)}, max {number(waits[-1])}"
    return f"as recorded: {said} ({len(waits):,} tasks)"


def _policy(recorded: dict[str, Any], sort: str, default: str) -> dict[str, Any]:
    return {"policy": recorded.get(sort, default), **recorded.get(f"{sort}_options", {})}


def _recorded_options(workload: Workload) -> dict[str, Any]:
    """The options of the run that was recorded, if it was one and says so."""
    header = recorded_header(workload.path) if workload.process == "trace" else None
    return {} if header is None else header.options
