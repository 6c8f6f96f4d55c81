"""The Standard Workload Format: logs of batch machines, one job a line, as the Parallel Workloads Archive keeps them.

A line has 18 columns of numbers, of which four matter here: 2 is when the job was submitted, in seconds from the start of the
log, 3 how long it waited, 4 how long it ran, 12 whose it was; -1 is what nobody knows. Lines that begin with `;` are comments. Jobs of which
no submit or run time is known are left out. See Chapin et al. 1999, "Benchmarks and standards for the evaluation of
parallel job schedulers".
"""

from collections.abc import Iterator

from actors.errors import InvalidConfig
from actors.validators import is_finite
from sim.jobs import Execution, Job, lines_of

__all__ = ["SWF_KIND", "read_swf"]

SWF_KIND = "job"
"""The one kind of work there is in such a log."""

_SUBMIT, _WAIT, _RUN, _USER = 2, 3, 4, 12
_NAMES = {_SUBMIT: "submit time", _WAIT: "wait time", _RUN: "run time", _USER: "user"}


def read_swf(path: str) -> Iterator[Job]:
    """The jobs of a log, in its order; InvalidConfig names the line that is none."""
    for number, line in lines_of(path):
        columns = line.split()
        if not columns or columns[0].startswith(b";"):
            continue
        where = f"workload {path}, line {number}:"
        if len(columns) < _USER:
            raise InvalidConfig(f"{where} a job must have 18 columns, got {len(columns)}")
        submitted, seconds = _number(columns, _SUBMIT, where), _number(columns, _RUN, where)
        waited, user = _number(columns, _WAIT, where), _number(columns, _USER, where)
        if submitted >= 0 and seconds >= 0:
            name = f"user{user:.0f}" if user >= 0 else "unknown"
            yield Job(
                at_seconds=submitted,
                user=name,
                kind=SWF_KIND,
                waited_seconds=waited if waited >= 0 else None,
                executions=(Execution(seconds),),
            )


def _number(columns: list[bytes], column: int, where: str) -> float:
    text = columns[column - 1]
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not is_finite(value) or (column == _USER and value != int(value)):
        wanted = "a whole number" if column == _USER else "a finite number"
        raise InvalidConfig(
            f"{where} column {column}, {_NAMES[column]}, must be {wanted}, got {text.decode(errors='backslashreplace')!r}"
        )
    return value
