"""`python -m benchmarks.page [FIGURES]`: docs/performance.md, from the JSON of a whole run.

Whoever wants other numbers there measures again; a test compares the page with the saved figures.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks.contestant import Subject
from benchmarks.environment import Environment
from benchmarks.race import ROOT
from benchmarks.report import Figure, bar, ratio_text, reach_of
from benchmarks.subjects import SUBJECTS

FIGURES = ROOT / "benchmarks" / "figures.jsonl"
PAGE = ROOT / "docs" / "performance.md"
OPPONENTS = ROOT / "benchmarks" / "opponents"

INTRODUCTION = """\
# How fast it is, and what limits it

This page is made by a script from the figures of one run; nobody writes numbers into it.

Everybody does the same work side by side: the runtime, what it is made of, and other libraries at settings that suit them. Each
lap is a process of its own, rounds go through everybody and then back, and a part of the work is done before the clock
starts, except where a size is what is measured. A ratio is that of the two best laps, because noise only ever slows down;
beside it stand the least and the most of the ratios of single rounds, and the worst laps in brackets. Ratios travel between machines, numbers do not. A bar to the left of
the line says that Evenhand's number is the smaller one; its length is the logarithm of the ratio.
"""

AGAIN = """\
## Measure it yourself

```console
$ make bench                                   # everything, beside the limits and the libraries that come with it
$ make bench-peers                             # once: an environment with all peers
$ .venv/bin/python -m benchmarks --peers       # everything, beside everybody
$ .venv/bin/python -m benchmarks sim --quick   # one subject, tiny, to see that it runs
$ make bench-page                              # all of it, and this page
```

`--json` prints one object a line, the first for the environment; `--rounds N` measures more or less often. What belongs to
the runtime is measured together: `runtime` includes `latency` and `growth`, which also go by their own names.
"""

OTHERS = """\
## Who is measured, and how

One file each, in full. What they promise differs: of those in memory none shares fairly between users, and of those in files
none fences a worker that was given up.
"""


def main(arguments: Sequence[str]) -> None:
    """Write the page."""
    (path,) = arguments or [str(FIGURES)]
    environment, figures = read(Path(path).read_text(encoding="utf-8").splitlines())
    PAGE.write_text(page(environment, figures), encoding="utf-8")


def read(lines: Iterable[str]) -> tuple[Environment, list[Figure]]:
    """What `--json` printed: the environment, then the figures."""
    first, *others = lines
    environment, figures = Environment.from_json(first), [Figure.from_json(line) for line in others]
    if environment.quick:
        raise ValueError("figures must come from a whole run, got one with --quick")
    if not figures:
        raise ValueError("figures must be >= 1, got 0")
    return environment, figures


def page(environment: Environment, figures: Sequence[Figure]) -> str:
    """The whole page."""
    parts = [INTRODUCTION, f"Measured with {environment.as_text()}.\n"]
    parts += ["\n".join(_subject(subject, figures)) + "\n" for subject in SUBJECTS.values()]
    return "\n".join([*parts, AGAIN, OTHERS, "\n".join(_opponents()) + "\n"])


def _subject(subject: Subject, all_figures: Sequence[Figure]) -> Iterator[str]:
    figures = [figure for figure in all_figures if figure.subject == subject.name]
    yield f"## {subject.name}\n\n{subject.about[0].upper()}{subject.about[1:]}.\n"
    if figures:
        yield "| ratio | by round | Evenhand | best (worst) | against | best (worst) | must / aim |\n|---|---|---|---|---|---|---|"
        yield from map(_row, figures)
        yield "\n```"
        reach = reach_of(figures)
        for figure in figures:
            yield f"{bar(figure.ratio, reach)} {ratio_text(figure.ratio):>7} {figure.name}"
        yield "```\n"
    absent = sorted({one.name for one in subject.comparisons} - {figure.name for figure in figures})
    if absent:
        yield f"Not in this run: {', '.join(f'`{name}`' for name in absent)}.\n"
    yield f"**What limits it.** {subject.limit}"


def _row(figure: Figure) -> str:
    sides = f"{figure.what} | {figure.ours_text} | {figure.against} | {figure.other_text}"
    return f"| **{ratio_text(figure.ratio)}** | {figure.ratio_range} | {sides} | {figure.goal} |"


def _opponents() -> Iterator[str]:
    for path in sorted(OPPONENTS.glob("*.py")):
        if path.name != "__init__.py":
            about = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
            yield f"- `benchmarks/opponents/{path.name}`: {about}"


if __name__ == "__main__":
    main(sys.argv[1:])
