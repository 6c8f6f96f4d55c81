"""The command: `evenhand sim run FILE`. Needs the `cli` extra.

Exit status: 0 every check passed, 1 a check failed, 2 bad input.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from actors.errors import EvenhandError, InvalidConfig
from actors.version import installed_version
from sim.commands_db import db
from sim.observation import SimulationResult
from sim.runner import simulate, with_options
from sim.scenario import load_scenario

__all__ = ["main"]

PASSED, FAILED, BAD_INPUT = 0, 1, 2


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit with its status."""
    try:
        import cyclopts
    except ImportError:
        print("evenhand: this command needs the cli extra: pip install 'evenhand[cli]'", file=sys.stderr)
        sys.exit(BAD_INPUT)
    try:
        # The parser's own errors are bad input too; its default status would say that a check failed.
        status = _app(cyclopts)(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except cyclopts.CycloptsError as error:
        print(f"evenhand: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except InvalidConfig as error:
        _complain(str(error))
        sys.exit(BAD_INPUT)
    except EvenhandError as error:
        # What a user's own policy raised is the cause; without it nobody could mend the policy.
        cause = f": {type(error.__cause__).__name__}: {error.__cause__}" if error.__cause__ is not None else ""
        _complain(f"{error}{cause}")
        sys.exit(FAILED)
    except BrokenPipeError:
        # Whoever read the output has seen enough; closing it again at exit must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BAD_INPUT)
    sys.exit(status if isinstance(status, int) else PASSED)


def _complain(said: str) -> None:
    for line in said.split("\n"):
        print(f"evenhand: {line}", file=sys.stderr)


def _app(cyclopts: Any) -> Any:
    app = cyclopts.App(
        name="evenhand", help="A fair task queue, and a simulator that proves it fair.", version=installed_version()
    )
    sim = cyclopts.App(name="sim", help="Simulate scenarios on virtual time.")
    app.command(sim)
    sim.command(run, name="run")
    app.command(db, name="db")
    return app


def run(
    file: Path,
    /,
    *,
    seed: str | None = None,
    sharing: str | None = None,
    ordering: str | None = None,
    json: bool = False,
    trace: Path | None = None,
) -> int:
    """Run a scenario and say whether it kept its promises.

    Parameters
    ----------
    file
        The scenario, a TOML file.
    seed
        Another seed than the file's: a whole number.
    sharing
        Another sharing policy than the file's: a name or module:Class.
    ordering
        Another ordering policy than the file's: a name or module:Class.
    json
        Print one JSON object instead of tables.
    trace
        Write every event to this file, as JSON Lines.
    """
    # A user's own policy, `module:Class`, is looked for where the command is run, as `python -m` would.
    sys.path.insert(0, "")
    number = None if seed is None else _seed(seed)
    scenario = with_options(load_scenario(file), seed=number, sharing=sharing, ordering=ordering)
    if trace is not None and trace.exists() and trace.samefile(file):
        raise InvalidConfig(f"--trace must be another file than the scenario, got {trace}")
    if trace is None:
        result = simulate(scenario)
    else:
        # A disk may be full when the file is opened, written or closed.
        try:
            with trace.open("wb") as output:
                result = simulate(scenario, trace=output)
        except OSError as error:
            raise InvalidConfig(f"--trace must be a file that can be written: {error}") from None
    _print_json(result) if json else _print_tables(result)
    return PASSED if result.passed else FAILED


def _seed(text: str) -> int:
    """Read here, because the parser takes 1.5 for a whole number, and rounds it."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise InvalidConfig(f"--seed must be a whole number >= 0, got {text}")
    return number


def _print_json(result: SimulationResult) -> None:
    print(json.dumps(result.as_json(), indent=2))


def _print_tables(result: SimulationResult) -> None:
    from rich.console import Console

    from sim.tables import checks_table, header, users_table, verdict, violation_line

    console = Console(highlight=False)
    console.print(header(result))
    console.print(users_table(result))
    console.print(checks_table(result))
    for violation in result.violations[:5]:
        console.print(violation_line(violation))
    console.print(verdict(result))
