"""`evenhand sim replay`: what would have happened to recorded work under another policy, and what that changes for whom."""

import math
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs

from actors.errors import InvalidConfig
from sim.commands.running import Also, run_and_report, whole_number
from sim.fidelity import Fidelity, fidelity_of
from sim.fleet import Errand, meanwhile
from sim.groups import percentile
from sim.history import History
from sim.observation import SimulationResult
from sim.outcome import outcome_of
from sim.replay import Workload
from sim.scenario import Scenario
from sim.what_if import Terms, WhatIf, process_of, scenarios_of, terms_in_words, what_if_of

__all__ = ["replay"]


def replay(
    file: Path,
    /,
    *,
    sharing: str | None = None,
    ordering: str | None = None,
    workers: str | None = None,
    weight: list[str] | None = None,
    before_sharing: str | None = None,
    before_ordering: str | None = None,
    before_workers: str | None = None,
    before_weight: list[str] | None = None,
    days: float | None = None,
    jobs: str | None = None,
    time_scale: float = 1.0,
    report: Path | None = None,
    png: Path | None = None,
    json: bool = False,
    trace: Path | None = None,
) -> int:
    """Do recorded work again, as it was or on other terms: what would have happened, and what that changes for whom.

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
    weight
        What a user or tenant weighs, such as alice=3; may be given several times.
    before_sharing
        The sharing policy that it is compared with: as recorded unless given, and fifo for a log, which does not say.
    before_ordering
        The ordering policy that it is compared with.
    before_workers
        The number of workers that it is compared with.
    before_weight
        What a user or tenant weighs in what it is compared with.
    days
        Only the first so many days.
    jobs
        Only the first so many jobs.
    time_scale
        What submit times are multiplied by: with 0.5 the same jobs come twice as fast.
    report
        Write a page about what changes for whom to this file: HTML that needs no other file.
    png
        Write a picture of that to this file.
    json
        Print one JSON object instead of tables.
    trace
        Write every event to this file, as JSON Lines.
    """
    sys.path.insert(0, "")
    workload = _workload(file, time_scale, jobs, days)
    before = _terms("--before-", before_sharing, before_ordering, before_workers, before_weight)
    after = _terms("--", sharing, ordering, workers, weight)
    outputs = _Outputs(file, report, png)
    outputs.check()
    return _run(_Replay(workload, before, after, outputs), file, trace, as_json=json)


def _workload(file: Path, time_scale: float, jobs: str | None, days: float | None) -> Workload:
    return Workload(
        process=process_of(file),
        path=str(file),
        time_scale=time_scale,
        jobs_max=whole_number("--jobs", jobs, 1),
        days_max=days,
    )


def _terms(
    prefix: str, sharing: str | None, ordering: str | None, workers: str | None, weights: Sequence[str] | None
) -> Terms:
    return Terms(
        sharing=sharing,
        ordering=ordering,
        workers=whole_number(f"{prefix}workers", workers, 1),
        weights=_weights(f"{prefix}weight", weights),
    )


def _run(replayed: "_Replay", file: Path, trace: Path | None, *, as_json: bool) -> int:
    with replayed:
        history = History.of(replayed.after)
        return run_and_report(
            replayed.after,
            read_from=file,
            trace=trace,
            as_json=as_json,
            watching=[history],
            also=lambda result: replayed.said(result, history),
        )


def _weights(option: str, texts: Sequence[str] | None) -> dict[str, float]:
    found = {}
    for text in texts or ():
        name, _, value = text.rpartition("=")
        try:
            found[name] = float(value)
        except ValueError:
            name = ""
        if not name or not 0 < found[name] < math.inf:
            raise InvalidConfig(f"{option} must be a user and a finite number > 0, such as alice=3, got {text!r}")
    return found


@attrs.frozen
class _Outputs:
    """What is written beside what is printed."""

    read_from: Path
    report: Path | None
    png: Path | None

    @property
    def wanted(self) -> bool:
        return self.report is not None or self.png is not None

    def check(self) -> None:
        """Say what is wrong before anything is run."""
        for option, path in (("--report", self.report), ("--png", self.png)):
            if path is not None and path.exists() and path.samefile(self.read_from):
                raise InvalidConfig(f"{option} must be another file than the one that is read, got {path}")
        if self.wanted:
            from sim.pictures.canvas import require

            require()

    def write(self, what: WhatIf) -> None:
        if self.report is not None:
            from sim.report import write_change_report

            write_change_report(what, self.report)
        if self.png is not None:
            from sim.report import changes_picture

            changes_picture(what).save(self.png)


class _Replay:
    """A replay, and beside it, in another process, the one that it is compared with if there is anything to compare."""

    def __init__(self, workload: Workload, before: Terms, after: Terms, outputs: _Outputs) -> None:
        self._workload = workload
        self._outputs = outputs
        first, self.after = scenarios_of(workload, before, after)
        # A log says nothing of workers: to say how many there are is no change.
        told = attrs.evolve(after, workers=None) if workload.process == "swf" else after
        asked = before != Terms() or told != Terms() or outputs.wanted
        self._before: Scenario | None = first if asked and first != self.after else None
        self._as_recorded = workload.process == "trace" and before == Terms()
        self._stack = ExitStack()
        if outputs.wanted and self._before is None:
            raise InvalidConfig(
                "--report and --png need something that changes: --sharing, --ordering, --workers, --weight"
            )

    def __enter__(self) -> None:
        if self._before is not None:
            errand = Errand(
                policy=terms_in_words(self._before), scenario=self._before, seed=self._before.seed, measures_lag=False
            )
            self._answer = self._stack.enter_context(meanwhile(errand))

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def said(self, result: SimulationResult, history: History) -> Also:
        """What there is to say beside what came of the run itself."""
        lines = [line for line in [_as_recorded(self._workload)] if line is not None]
        if self._before is None:
            fidelity = fidelity_of(self._workload, history) if self._as_recorded else None
            return Also([*lines, *_fidelity_lines(fidelity)], {"fidelity": _data(fidelity)} if fidelity else {})
        outcome = outcome_of(self.after, terms_in_words(self.after), history, result)
        name = Path(self._workload.path).name
        what = what_if_of(name, self._answer(), outcome, as_recorded=self._as_recorded)
        self._outputs.write(what)
        return Also([*lines, _table(what), *_fidelity_lines(what.fidelity)], {"what_if": what.as_json()})


def _data(fidelity: Fidelity) -> dict[str, Any]:
    return attrs.asdict(fidelity)


def _fidelity_lines(fidelity: Fidelity | None) -> list[str]:
    return [] if fidelity is None else [f"replayed as recorded, {fidelity.in_words()}"]


def _table(what: WhatIf) -> Any:
    from rich.markup import escape
    from rich.table import Table

    from sim.side_by_side import CHANGE_HEAD, change_rows

    table = Table(title=f"before: {escape(what.before)}\nafter: {escape(what.after)}", title_justify="left")
    for place, name in enumerate(CHANGE_HEAD):
        table.add_column(name, justify="right" if place else "left")
    *rows, overall = change_rows(what)
    for row in rows:
        table.add_row(*map(escape, row))
    table.add_section()
    table.add_row(*map(escape, overall))
    return table


def _as_recorded(workload: Workload) -> str | None:
    """What waits were when it was recorded, if that is known."""
    from sim.tables import number

    waits = sorted(job.waited_seconds for job in workload.jobs if job.waited_seconds is not None)
    if not waits:
        return None
    mean, p50, p99 = math.fsum(waits) / len(waits), percentile(waits, 0.50), percentile(waits, 0.99)
    said = f"mean {number(mean)}, p50 {number(p50)}, p99 {number(p99)}, max {number(waits[-1])}"
    return f"as recorded: {said} ({len(waits):,} tasks)"
