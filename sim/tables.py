"""A run as a person reads it in a terminal. Needs rich, from the `cli` extra."""

from rich.markup import escape
from rich.table import Table

from actors.task import Status
from actors.version import installed_version
from sim.groups import GroupMetrics
from sim.header import options_of
from sim.invariants import Violation
from sim.observation import SimulationResult
from sim.scenario import Scenario

__all__ = ["checks_table", "faults_table", "header", "said_lines", "users_table", "verdict", "violation_line"]


def header(scenario: Scenario) -> str:
    """What is run, with every option that is set: enough to run it again."""
    options = {name: value for name, value in options_of(scenario).items() if value not in (None, {}, ())}
    said = ", ".join(f"{name} {_option(value)}" for name, value in options.items())
    return f"[bold]{escape(scenario.name)}[/]  seed {scenario.seed}, evenhand {installed_version()}\n{escape(said)}"


def _option(value: object) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{name} {_option(item)}" for name, item in value.items()) + ")"
    return f"{value:g}" if isinstance(value, float) else str(value)


def users_table(result: SimulationResult) -> Table:
    """A row a user, then a row for all."""
    table = Table(title="waits in seconds, by user", title_justify="left")
    table.add_column("user")
    for name in ("tasks", "mean", "p50", "p99", "max", "service", "share"):
        table.add_column(name, justify="right")
    for user, group in result.users.items():
        table.add_row(escape(user), *_cells(group))
    table.add_section()
    table.add_row("all", *_cells(result.overall))
    return table


def checks_table(result: SimulationResult) -> Table:
    """A row a check."""
    table = Table(title="checks", title_justify="left")
    table.add_column("check")
    table.add_column("measured", justify="right")
    table.add_column("limit", justify="right")
    table.add_column("")
    for check in result.checks:
        mark = "pass" if check.passed else "fail" if check.as_expected else "FAIL"
        mark = f"[green]{mark}[/]" if check.as_expected else f"[bold red]{mark}[/]"
        if check.expect == "fail":
            mark += " (expected to fail)"
        table.add_row(escape(check.name), number(check.value), number(check.limit), mark)
    return table


def said_lines(result: SimulationResult) -> list[str]:
    """What checks of one's own had to say."""
    return [f"[red]{escape(check.name)}[/]: {escape(check.said)}" for check in result.checks if check.said]


def faults_table(result: SimulationResult) -> Table:
    """A row a fault."""
    table = Table(title="faults", title_justify="left")
    table.add_column("fault")
    table.add_column("target")
    table.add_column("fired", justify="right")
    for fault in result.faults:
        table.add_row(fault.fault, escape(fault.target), number(fault.fired))
    return table


def violation_line(violation: Violation) -> str:
    """An invariant that broke, when, and how."""
    return f"[red]{escape(violation.invariant)}[/] at {violation.at:g} s: {escape(violation.said)}"


def verdict(result: SimulationResult) -> str:
    """The last line."""
    word = "[bold green]pass[/]" if result.passed else "[bold red]fail[/]"
    jain = f", Jain's index {result.jain:.3f}" if result.jain is not None else ""
    waiting = result.table.counts[Status.PENDING]
    left = f"\n{waiting:,} tasks still wait: nothing could start them" if waiting else ""
    return (
        f"{word}: {result.jobs:,} jobs in {result.virtual_seconds:,.1f} virtual seconds "
        f"({result.wall_seconds:.2f} s){jain}{left}\ntrace sha256 {result.trace_sha256}"
    )


def number(value: float | None) -> str:
    """A measured number, or a dash if there was nothing to measure.

    >>> number(1234.5), number(None), number(3)
    ('1,234', '-', '3')
    """
    if value is None:
        return "-"
    return f"{value:,.2f}" if isinstance(value, float) and abs(value) < 1000 else f"{value:,.0f}"


def _cells(group: GroupMetrics) -> list[str]:
    share = "-" if group.share is None else f"{group.share:.1%}"
    waits = (group.wait_seconds_mean, group.wait_seconds_p50, group.wait_seconds_p99, group.wait_seconds_max)
    return [number(group.completed), *map(number, waits), number(group.service_seconds), share]
