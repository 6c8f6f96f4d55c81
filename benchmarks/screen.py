"""What is seen in a terminal: progress, a table with the ratios first, and bars."""

from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from benchmarks.contestant import Subject
from benchmarks.report import Figure, bar, ratio_text, reach_of


def progress() -> Progress:
    """On standard error, so that what is printed can be saved."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("laps"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def show(console: Console, subject: Subject, figures: Sequence[Figure], *, quick: bool) -> None:
    """The table and the bars of one subject; a quick run is not held against the goals."""
    table = Table(title=f"{subject.name}: {subject.about}", title_justify="left", title_style="bold", show_lines=True)
    table.add_column("ratio, by round", justify="right", no_wrap=True)
    table.add_column("Evenhand, best (worst)")
    table.add_column("against, best (worst)")
    table.add_column("must / aim")
    for figure in figures:
        table.add_row(
            f"{ratio_text(figure.ratio)}\n{figure.ratio_range}",
            f"{figure.what}\n{figure.ours_text}",
            f"{figure.against}\n{figure.other_text}",
            "" if quick else figure.goal.replace(": ", "\n"),
        )
    console.print(table)
    console.print(_chart(figures))


def _chart(figures: Sequence[Figure]) -> Text:
    reach = reach_of(figures)
    chart = Text()
    for figure in figures:
        good = (figure.ratio >= 1) == (figure.better == "higher")
        chart.append(bar(figure.ratio, reach), "green" if good else "red")
        chart.append(f" {ratio_text(figure.ratio):>7} {figure.name}\n")
    return chart
