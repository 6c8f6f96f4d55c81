"""Who is measured, how their laps are read, and who is compared with whom: a subject is data."""

import importlib.metadata
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import attrs

Lap = Sequence[float]
"""What one process reported: the seconds of its work, or one number for each thing that it saw."""


@attrs.frozen
class Contestant:
    """Somebody who does the work, each lap in a process of its own."""

    run: str
    """`module:function`, called with the amounts; it gives a lap."""
    title: str
    """For people; `{version}` is the library's, `{size}` the last of the amounts."""
    amounts: tuple[int, ...]
    """The first is how much is done, and what a rate is counted from."""
    quick: tuple[int, ...]
    """The same, tiny."""
    library: str = ""
    peer: bool = False
    """Only in the peers' environment."""
    warm: bool = True
    """Whether a twentieth of the work is done before the clock starts."""

    @property
    def installed(self) -> bool:
        """Whether the library is here, if it takes one."""
        return not self.library or version_of(self.library) is not None

    def title_with(self, amounts: tuple[int, ...]) -> str:
        """The title with the version that is installed and the size that is measured."""
        return self.title.format(version=version_of(self.library) if self.library else "", size=amounts[-1])


@attrs.frozen
class Result:
    """All laps of one contestant."""

    title: str
    amount: int
    laps: tuple[Lap, ...]


@attrs.frozen
class Measure:
    """What is read from a lap, and which way is better."""

    unit: str
    better: Literal["higher", "lower"]
    read: Callable[[Lap, int], float]

    def of(self, result: Result) -> list[float]:
        """What was read in each round."""
        return [self.read(lap, result.amount) for lap in result.laps]

    def best_and_worst(self, values: Sequence[float]) -> tuple[float, float]:
        """Of what was read."""
        return (max(values), min(values)) if self.better == "higher" else (min(values), max(values))


def rate(of: str) -> Measure:
    """So many a second."""
    return Measure(f"{of}/s", "higher", lambda lap, amount: amount / lap[0])


MICROSECONDS = Measure("us/task", "lower", lambda lap, amount: lap[0] / amount * 1e6)
SECONDS = Measure("s", "lower", lambda lap, amount: lap[0])
BYTES = Measure("bytes", "lower", lambda lap, amount: lap[0])
MEGABYTES = Measure("MB", "lower", lambda lap, amount: lap[0] / 1e6)


def milliseconds(percent: int) -> Measure:
    """The wait that so many percent do not exceed."""
    return Measure(
        f"ms at p{percent}", "lower", lambda lap, amount: statistics.quantiles(lap, n=100)[percent - 1] * 1e3
    )


@attrs.frozen
class Comparison:
    """A figure: one contestant against another, against the best of several, or against a number."""

    name: str
    ours: str
    other: str | tuple[str, ...] | float
    measure: Measure


@attrs.frozen
class Subject:
    """One thing that is measured."""

    name: str
    about: str
    """What is done, in a sentence."""
    limit: str
    """What limits it."""
    contestants: Mapping[str, Contestant]
    comparisons: tuple[Comparison, ...]
    rounds: int = 5


def version_of(library: str) -> str | None:
    """The version that is installed here, if it is.

    >>> version_of("no-such-library") is None
    True
    """
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None
