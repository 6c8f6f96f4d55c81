"""`evenhand sim compare FILE... --sharing a,b,c`: policies side by side, on the same work and the same random numbers.

Exit status: 0 no run broke an invariant that its file does not name, 1 one did, 2 bad input.
"""

import json as json_lines
import sys
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from actors.errors import InvalidConfig
from actors.version import installed_version
from sim.commands.running import FAILED, PASSED, whole_number
from sim.comparison import SHARING_COMPARED, Comparison, compare
from sim.library import located
from sim.reading import load_scenario
from sim.scenario import Scenario
from sim.side_by_side import RUN_HEAD, USER_HEAD, difference_head, difference_rows, method, run_rows, user_rows

__all__ = ["compare_command"]


def compare_command(
    *files: str,
    sharing: str | None = None,
    ordering: str | None = None,
    seeds: str = "10",
    from_seed: str = "0",
    jobs: str | None = None,
    report: Path | None = None,
    png: Path | None = None,
    judge_all: bool = False,
    json: bool = False,
) -> int:
    """Run policies side by side, on the same work and the same random numbers, and say what each means for each user.

    Parameters
    ----------
    files
        The scenarios: TOML files, or names of the library.
    sharing
        Sharing policies, names or module:Class, with commas between; six of the built-in ones if no policy is named.
    ordering
        Ordering policies likewise; each is combined with each sharing policy.
    seeds
        How many seeds.
    from_seed
        The first of them.
    jobs
        In how many processes; as many as there are cores unless given.
    report
        Write a page with tables and pictures to this file: HTML that needs no other file.
    png
        Write the heat map of policies by users to this file.
    judge_all
        Hold the runs under all seeds against every invariant, not only those under the first: it takes longer.
    json
        Print one JSON object instead of tables.
    """
    # A user's own policy, `module:Class`, is looked for where the command is run, as `python -m` would.
    sys.path.insert(0, "")
    count = whole_number("--seeds", seeds, 1) or 1
    first = whole_number("--from-seed", from_seed, 0) or 0
    if not files:
        raise InvalidConfig("compare needs a FILE at least")
    paths = [located(file) for file in files]
    for option, output in (("--report", report), ("--png", png)):
        if output is not None and output.exists() and any(output.samefile(path) for path in paths):
            raise InvalidConfig(f"{option} must be another file than the ones that are read, got {output}")
    if report is not None or png is not None:
        # Whether anything can be drawn is better known before the runs than after them.
        from sim.pictures.canvas import require

        require()
    scenarios = [load_scenario(path) for path in paths]
    policies = (_names(sharing), _names(ordering))
    if not any(policies):
        policies = (list(SHARING_COMPARED), [])
    comparison = _compared(
        scenarios,
        *policies,
        range(first, first + count),
        whole_number("--jobs", jobs, 1),
        pictures=report is not None,
        judge_all=judge_all,
        quiet=json,
    )
    _print_json(comparison) if json else _print_tables(comparison)
    _write(comparison, report, png)
    return FAILED if _surprises(comparison, scenarios) else PASSED


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()] if text is not None else []


def _compared(
    scenarios: list[Scenario],
    sharing: list[str],
    ordering: list[str],
    seeds: range,
    jobs: int | None,
    *,
    pictures: bool,
    judge_all: bool,
    quiet: bool,
) -> Comparison:
    runs = len(scenarios) * max(1, len(sharing)) * max(1, len(ordering)) * len(seeds)
    if not quiet:
        names = ", ".join(f"[bold]{escape(scenario.name)}[/]" for scenario in scenarios)
        said = f"{names}  seeds {seeds[0]} to {seeds[-1]}, {runs} runs, evenhand {installed_version()}"
        Console(highlight=False).print(said, soft_wrap=True)
    errors = Console(stderr=True)
    columns = (TextColumn("comparing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, disable=not errors.is_terminal, transient=True) as progress:
        bar = progress.add_task("comparing", total=runs)
        return compare(
            scenarios,
            sharing=sharing,
            ordering=ordering,
            seeds=seeds,
            jobs=jobs,
            pictures=pictures,
            judge_all=judge_all,
            on_run=lambda: progress.advance(bar),
        )


def _surprises(comparison: Comparison, scenarios: list[Scenario]) -> bool:
    expected = {scenario.name: set(scenario.breaks) for scenario in scenarios}
    return any(set(outcome.broken) - expected[outcome.scenario] for outcome in comparison.outcomes)


def _print_tables(comparison: Comparison) -> None:
    console = Console(highlight=False)
    for scenario in comparison.scenarios:
        title = escape(scenario)
        console.print(_table(f"{title}: each user", USER_HEAD, user_rows(comparison, scenario)))
        console.print(_table(f"{title}: all users", RUN_HEAD, run_rows(comparison, scenario)))
        if len(comparison.policies) > 1:
            head = difference_head(comparison)
            console.print(_table(f"{title}: differences", head, difference_rows(comparison, scenario)))
    console.print(escape(method(comparison)))


def _table(title: str, head: tuple[str, ...], rows: list[list[str]]) -> Table:
    table = Table(title=title, title_justify="left")
    for place, name in enumerate(head):
        table.add_column(name, justify="left" if place == 0 or name == "policy" else "right")
    before = None
    for row in rows:
        # Of each user the first row says who it is.
        again = row[0] == before
        if before is not None and not again and head[0] == "user":
            table.add_section()
        before = row[0]
        table.add_row("" if again else escape(row[0]), *(escape(cell) for cell in row[1:]))
    return table


def _print_json(comparison: Comparison) -> None:
    data: dict[str, Any] = attrs.asdict(comparison, filter=attrs.filters.exclude("pictures"))
    print(json_lines.dumps(data, indent=2))


def _write(comparison: Comparison, report: Path | None, png: Path | None) -> None:
    if report is not None:
        from sim.report import write_report

        write_report(comparison, report)
    if png is not None:
        from sim.report import heatmap_picture

        for number, scenario in enumerate(comparison.scenarios, start=1):
            several = len(comparison.scenarios) > 1
            path = png.with_stem(f"{png.stem}-{number}") if several else png
            heatmap_picture(comparison, scenario=scenario).save(path)
