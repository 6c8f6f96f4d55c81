"""`evenhand sim explore FILE`: many seeds, interleavings and faults, until one run breaks a check.

Exit status: 0 every run kept every check, 1 there is a counter-example, 2 bad input.
"""

import re
import shlex
import sys
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from actors.errors import InvalidConfig
from actors.version import installed_version
from sim.explore import Exploration, explore
from sim.interleaving import interleaving_in_words
from sim.library import located
from sim.reading import load_scenario
from sim.scenario import Scenario
from sim.shrink import Shrunk, shrink
from sim.writing import in_a_line, name_in_file, write_scenario

__all__ = ["explore_command"]


def explore_command(
    file: str,
    /,
    *,
    seeds: int = 1_000,
    from_seed: int = 0,
    jobs: int = 2,
    save: Path | None = None,
    shrink_runs: int = 2_000,
) -> int:
    """Run a scenario under many seeds, interleavings and faults; shrink and save the first that breaks a check.

    Parameters
    ----------
    file
        The scenario: a TOML file, or the name of one in the library.
    seeds
        How many seeds to try.
    from_seed
        The first of them.
    jobs
        In how many processes.
    save
        Where the counter-example goes; named after scenario and seed, in this folder, unless given.
    shrink_runs
        How many runs it may take to make the counter-example small; 0 saves it as it was found.
    """
    for name, value, minimum in (
        ("--seeds", seeds, 1),
        ("--from-seed", from_seed, 0),
        ("--jobs", jobs, 1),
        ("--shrink-runs", shrink_runs, 0),
    ):
        if value < minimum:
            raise InvalidConfig(f"{name} must be a whole number >= {minimum}, got {value}")
    # A user's own policy, `module:Class`, is looked for where the command is run, as `python -m` would.
    sys.path.insert(0, "")
    path = located(file)
    scenario = load_scenario(path)
    if save is not None and save.exists() and save.samefile(path):
        raise InvalidConfig(f"--save must be another file than the scenario, got {save}")
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"[bold]{escape(scenario.name)}[/]  seeds {from_seed} to {from_seed + seeds - 1}, jobs {jobs}, "
        f"evenhand {installed_version()}"
    )
    found = _explore(scenario, range(from_seed, from_seed + seeds), min(jobs, seeds))
    console.print(_runs_line(scenario, found))
    if found.seed is None:
        console.print("[bold green]pass[/]: every run kept every check")
        return 0
    _report(found, save or Path(f"{_slug(scenario.name)}-{found.seed}.toml"), shrink_runs, console)
    return 1


def _explore(scenario: Scenario, seeds: range, jobs: int) -> Exploration:
    errors = Console(stderr=True)
    columns = (TextColumn("exploring"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, disable=not errors.is_terminal, transient=True) as progress:
        bar = progress.add_task("exploring", total=len(seeds))
        return explore(scenario, seeds=seeds, jobs=jobs, on_run=lambda: progress.advance(bar))


def _report(found: Exploration, path: Path, shrink_runs: int, console: Console) -> None:
    """Say what failed and what its seed stands for, then make it small and save it."""
    assert found.scenario is not None and found.judgement is not None, "there is a counter-example"
    failed, said = found.judgement.failed, found.judgement.said
    console.print(f"[bold red]fail[/]: seed {found.seed} breaks {escape(str(failed))}: {escape(said)}")
    console.print(f"  delivery {interleaving_in_words(found.scenario.interleaving)}")
    for fault in getattr(found.scenario, "faults", ()):
        console.print(f"  fault {escape(in_a_line(fault))}")
    shrunk = Shrunk(scenario=found.scenario, judgement=found.judgement, runs=0)
    if shrink_runs:
        shrunk = _shrink(found.scenario, shrink_runs)
    text = write_scenario(shrunk.scenario, f"Breaks {failed}: {shrunk.judgement.said}.")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidConfig(f"--save must be a file that can be written: {error}") from None
    if shrink_runs:
        before, after = (len(write_scenario(one).splitlines()) for one in (found.scenario, shrunk.scenario))
        console.print(f"shrunk from {before} to {after} lines in {shrunk.runs} runs")
    console.print(f"saved as {escape(str(path))}")
    console.print(f"trace sha256 {shrunk.judgement.trace_sha256}")
    console.print(f"replay: evenhand sim run {escape(shlex.quote(str(path)))}")


def _shrink(scenario: Scenario, runs_max: int) -> Shrunk:
    errors = Console(stderr=True)
    columns = (TextColumn("shrinking"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=errors, disable=not errors.is_terminal, transient=True) as progress:
        bar = progress.add_task("shrinking", total=runs_max)
        return shrink(scenario, runs_max, on_run=lambda: progress.advance(bar))


def _runs_line(scenario: Scenario, found: Exploration) -> str:
    """How many runs there were, and which faults happened in them."""
    fired = ", ".join(f"{fault} {count:,}" for fault, count in sorted(found.fired.items())) or "none"
    return f"{found.runs:,} runs; faults that fired: {escape(fired)}{_never_fired(scenario, found)}"


def _never_fired(scenario: Scenario, found: Exploration) -> str:
    sorts = {name_in_file(fault) for fault in scenario.faults}
    never = ", ".join(sorted(sorts - found.fired.keys()))
    return f"; never fired: [yellow]{escape(never)}[/]" if never else ""


def _slug(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_") or "scenario"
