"""The command: `evenhand sim run FILE` and its neighbours. Needs the `cli` extra.

Exit status: 0 every check passed, 1 a check failed, 2 bad input.
"""

import os
import sys
from typing import Any

from actors.errors import EvenhandError, InvalidConfig
from actors.version import installed_version
from sim.commands.check import check
from sim.commands.db import db
from sim.commands.list import list_library
from sim.commands.replay import replay
from sim.commands.run import run

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
    sim.command(check, name="check")
    sim.command(list_library, name="list")
    sim.command(replay, name="replay")
    # These are loaded when they are run, so what the list of commands says of them must be said here.
    sim.command("sim.commands.explore:explore_command", name="explore", help="Look for a run that breaks a promise.")
    sim.command(
        "sim.commands.compare:compare_command", name="compare", help="Run policies side by side on the same work."
    )
    app.command(db, name="db")
    return app
