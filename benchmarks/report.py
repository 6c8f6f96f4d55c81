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
    """Something that was measured, and against what.

    The ratio is that of the two best laps; the least and the most are of laps of the same round.
    """

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
    ratio_least: float
    ratio_most: float
    better: Literal["higher", "lower"]

    def as_json(self) -> str:
        """One JSON object on a line."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Back from that line."""
        return cls(**json.loads(line))

    @property
    def ratio_range(self) -> str:
        """From the round with the least ratio to that with the most."""
        return f"{ratio_text(self.ratio_least)} to {ratio_text(self.ratio_most)}"

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
        ours, other = results.get(comparison.ours), _other(comparison, results)
        if ours is None or other is None:
            continue
        measure, (against, others) = comparison.measure, other
        values = measure.of(ours)
        (value, worst), (best, other_worst) = measure.best_and_worst(values), measure.best_and_worst(others)
        by_round = [mine / theirs for mine, theirs in zip(values, others, strict=True)]
        yield Figure(
            name=comparison.name,
            subject=subject.name,
            what=ours.title,
            value=value,
            worst=worst,
            unit=measure.unit,
            against=against,
            other=best,
            other_worst=other_worst,
            ratio=value / best,
            ratio_least=min(by_round),
            ratio_most=max(by_round),
            better=measure.better,
        )


def _other(comparison: Comparison, results: Mapping[str, Result]) -> tuple[str, list[float]] | None:
    """What the other side is called, and what it did in each round; the best one, if there are several."""
    other, measure = comparison.other, comparison.measure
    if isinstance(other, float):
        rounds = len(results[comparison.ours].laps) if comparison.ours in results else 0
        return number_text(other, measure.unit), [other] * rounds
    there = [results[name] for name in ((other,) if isinstance(other, str) else other) if name in results]
    if not there:
        return None
    best = (max if measure.better == "higher" else min)(
        there, key=lambda one: measure.best_and_worst(measure.of(one))[0]
    )
    return best.title, measure.of(best)


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
