"""What was found to be broken: how often each invariant was, and the first cases in words."""

from collections.abc import Callable, Iterable

import attrs

__all__ = ["Broken", "Violation", "Violations"]

_KEPT = 100

Broken = Callable[[str, float, str], None]
"""Tells that an invariant did not hold: which, when, and what happened."""


@attrs.frozen
class Violation:
    """An invariant that did not hold."""

    invariant: str
    at: float
    said: str


class Violations:
    """Counts all of them and keeps the first.

    >>> found = Violations(["I1 conservation"])
    >>> found.add("I1 conservation", 3.0, "a task is nowhere")
    >>> found.counts, found.kept
    ({'I1 conservation': 1}, [Violation(invariant='I1 conservation', at=3.0, said='a task is nowhere')])
    """

    def __init__(self, invariants: Iterable[str]) -> None:
        self.counts = dict.fromkeys(invariants, 0)
        """How often each invariant was broken."""
        self.kept: list[Violation] = []

    def add(self, invariant: str, at: float, said: str) -> None:
        """One more."""
        self.counts[invariant] += 1
        if len(self.kept) < _KEPT:
            self.kept.append(Violation(invariant, at, said))

    def take_over(self, before: "Violations") -> None:
        """Forget what was found here, and have found what another did."""
        self.counts, self.kept = before.counts, before.kept
