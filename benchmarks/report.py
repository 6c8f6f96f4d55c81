"""A figure, how it comes about, and how it is shown: as JSON, in a table, and as a bar."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, Self

import attrs

from benchmarks.contestant import Comparison, Result, Subject
from benchmarks.goals import GOALS

BAR_WIDTH = 16
"""Of each half of a bar."""


@attrs.frozen
class Figure:
    """Something that was measured, and against what; the ratio is that of the two best laps."""

    name: str
    subject: str
    what: str
    value: float
    worst: float
    unit: str
    against: str
    other: float
    other_worst: float
    ratio: float
    better: Literal["higher", "lower"]

    def as_json(self) -> str:
        """One JSON object on a line."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Back from that line."""
        return cls(**json.loads(line))

    @property
    def ours_text(self) -> str:
        """The best of ours, and the worst."""
        return f"{amount(self.value)} ({amount(self.worst)}) {self.unit}"

    @property
    def other_text(self) -> str:
        """The same of the other side; what is a number has neither."""
        if self.against == number_text(self.other, self.unit):
            return ""
        return f"{amount(self.other)} ({amount(self.other_worst)}) {self.unit}"

    @property
    def goal(self) -> str:
        """What it must reach and should reach, and whether it does."""
        goal = GOALS.get(self.name)
        if goal is None:
            return ""
        reached = self.value if goal.of == "value" else self.ratio
        unit = f" {self.unit}" if goal.of == "value" else ""
        kept = [reached >= line if self.better == "higher" else reached <= line for line in (goal.must, goal.aim)]
        return f"{goal.must:g} / {goal.aim:g}{unit}: {'reached' if all(kept) else 'kept' if kept[0] else 'missed'}"


def figures_of(subject: Subject, results: Mapping[str, Result]) -> Iterator[Figure]:
    """All comparisons of which both sides are there."""
    for comparison in subject.comparisons:
        measure = comparison.measure
        if comparison.ours not in results:
            continue
        ours = results[comparison.ours]
        value, worst = measure.best_and_worst(ours)
        against = _other(comparison, results)
        if against is not None:
            title, other, other_worst = against
            yield Figure(
                comparison.name, subject.name, ours.title, value, worst, measure.unit,
                title, other, other_worst, value / other, measure.better,
            )  # fmt: skip


def _other(comparison: Comparison, results: Mapping[str, Result]) -> tuple[str, float, float] | None:
    other, measure = comparison.other, comparison.measure
    if isinstance(other, float):
        return number_text(other, measure.unit), other, other
    names = (other,) if isinstance(other, str) else other
    there = [(*measure.best_and_worst(results[name]), results[name].title) for name in names if name in results]
    if not there:
        return None
    best, worst, title = max(there) if measure.better == "higher" else min(there)
    return title, best, worst


def bar(ratio: float, reach: float) -> str:
    """A bar from 1 to the ratio, on a scale of powers of two; `reach` is the largest power shown.

    >>> bar(0.25, 4)
    '        ████████│                '
    >>> bar(2.0, 2)
    '                │████████        '
    """
    length = round(min(abs(math.log2(ratio)) / reach, 1.0) * BAR_WIDTH)
    left, right = ("█" * length, "") if ratio < 1 else ("", "█" * length)
    return f"{left:>{BAR_WIDTH}}│{right:<{BAR_WIDTH}}"


def reach_of(figures: Iterable[Figure]) -> float:
    """The largest power of two among the ratios, and at least 1."""
    return max(1.0, *(math.ceil(abs(math.log2(figure.ratio))) for figure in figures))


def number_text(number: float, unit: str) -> str:
    """What a number is called that is the other side of a comparison.

    >>> number_text(600.0, "bytes")
    '600 bytes'
    """
    return f"{number:g} {unit}"


def amount(value: float) -> str:
    """A number with about three digits that mean something.

    >>> amount(123456.7), amount(12.345), amount(0.12345)
    ('123,457', '12.3', '0.123')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratio_text(ratio: float) -> str:
    """The same for a ratio.

    >>> ratio_text(12.34), ratio_text(0.0567), ratio_text(3.0)
    ('12.3x', '0.057x', '3.00x')
    """
    return f"{ratio:.1f}x" if ratio >= 10 else f"{ratio:.2f}x" if ratio >= 0.1 else f"{ratio:.3f}x"
