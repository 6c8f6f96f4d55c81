"""`evenhand sim run`: a scenario, and whether it kept its promises."""

import sys
from pathlib import Path

from sim.commands.running import run_and_report, whole_number
from sim.library import located
from sim.reading import load_scenario
from sim.runner import with_options

__all__ = ["run"]


def run(
    file: str,
    /,
    *,
    seed: str | None = None,
    sharing: str | None = None,
    ordering: str | None = None,
    json: bool = False,
    trace: Path | None = None,
    twice: bool = False,
    why: str | None = None,
) -> int:
    """Run a scenario and say whether it kept its promises.

    Parameters
    ----------
    file
        The scenario: a TOML file, or the name of one in the library.
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
    twice
        Run it again in a new process, and fail unless both leave the same trace.
    why
        Also tell what delayed this task, such as alice#3.
    """
    # A user's own policy or check, `module:name`, is looked for where the command is run, as `python -m` would.
    sys.path.insert(0, "")
    number = whole_number("--seed", seed, 0)
    path = located(file)
    scenario = with_options(load_scenario(path), seed=number, sharing=sharing, ordering=ordering)
    return run_and_report(scenario, read_from=path, trace=trace, as_json=json, twice=twice, why=why)
