"""What the commands that run a scenario have in common: the header first, then the run, then what came of it."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from actors.errors import EvenhandError, InvalidConfig, UnknownTask
from sim.causes import Causes
from sim.commands.progress import watched
from sim.delays import Step
from sim.delays import why as delays_of
from sim.explore import hash_elsewhere
from sim.invariants import Observer
from sim.observation import SimulationResult
from sim.runner import simulate
from sim.scenario import Scenario

__all__ = ["FAILED", "PASSED", "Also", "run_and_report", "whole_number"]

PASSED, FAILED = 0, 1

_VIOLATIONS_SHOWN = 5


@attrs.frozen
class Also:
    """What a command has to say beside what came of the run."""

    said: Sequence[Any] = ()
    """Lines and tables."""
    data: Mapping[str, Any] = attrs.field(factory=dict)
    """The same for a program."""


def run_and_report(
    scenario: Scenario,
    *,
    read_from: Path,
    trace: Path | None,
    as_json: bool,
    watching: Sequence[Observer] = (),
    also: Callable[[SimulationResult], Also] | None = None,
    twice: bool = False,
    why: str | None = None,
) -> int:
    """Say what is run, run it, and say what came of it, and what else there is to say: the exit status."""
    if trace is not None and trace.exists() and trace.samefile(read_from):
        raise InvalidConfig(f"--trace must be another file than the one that is read, got {trace}")
    if not as_json:
        _print_header(scenario)
    causes = Causes(scenario.settings())
    with watched(scenario) as observers:
        result = _simulate(scenario, [*observers, *watching, *([] if why is None else [causes])], trace)
    more = Also() if also is None else also(result)
    steps = None if why is None else _steps(causes, why)
    _print_json(result, steps, more) if as_json else _print_tables(result, more)
    if why is not None and steps is not None and not as_json:
        _print_why(why, steps)
    if twice and (elsewhere := hash_elsewhere(scenario)) != result.trace_sha256:
        raise EvenhandError(f"I24 determinism: this run left trace {result.trace_sha256}, another process {elsewhere}")
    return PASSED if result.passed else FAILED


def whole_number(option: str, text: str | None, minimum: int) -> int | None:
    """What an option says, if it is given; read here, because the parser takes 1.5 for a whole number, and rounds it."""
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = minimum - 1
    if number < minimum:
        raise InvalidConfig(f"{option} must be a whole number >= {minimum}, got {text}")
    return number


def _simulate(scenario: Scenario, observers: Sequence[Observer], trace: Path | None) -> SimulationResult:
    if trace is None:
        return simulate(scenario, observers=observers)
    # A disk may be full when the file is opened, written or closed.
    try:
        with trace.open("wb") as output:
            return simulate(scenario, observers=observers, trace=output)
    except OSError as error:
        raise InvalidConfig(f"--trace must be a file that can be written: {error}") from None


def _print_header(scenario: Scenario) -> None:
    from rich.console import Console

    from sim.tables import header

    # Not broken into lines: it is there to be found and copied.
    Console(highlight=False).print(header(scenario), soft_wrap=True)


def _steps(causes: Causes, task: str) -> list[Step]:
    try:
        return delays_of(causes.graph(), task)
    except UnknownTask as error:
        raise InvalidConfig(f"--why: {error}") from None


def _print_json(result: SimulationResult, steps: list[Step] | None, also: Also) -> None:
    why = {} if steps is None else {"why": [{**attrs.asdict(step), "seconds": step.seconds} for step in steps]}
    print(json.dumps({**result.as_json(), **why, **also.data}, indent=2))


def _print_why(task: str, steps: list[Step]) -> None:
    from rich.console import Console

    from sim.tables import why_lines

    console = Console(highlight=False)
    for line in why_lines(task, steps):
        console.print(line, soft_wrap=True)


def _print_tables(result: SimulationResult, also: Also) -> None:
    from rich.console import Console

    from sim.tables import checks_table, faults_table, said_lines, users_table, verdict, violation_line

    console = Console(highlight=False)
    console.print(users_table(result))
    for said in also.said:
        console.print(said, markup=False, soft_wrap=isinstance(said, str))
    if result.faults:
        console.print(faults_table(result))
    console.print(checks_table(result))
    for line in said_lines(result):
        console.print(line)
    for violation in result.violations[:_VIOLATIONS_SHOWN]:
        console.print(violation_line(violation))
    console.print(verdict(result))
