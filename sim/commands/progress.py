"""How far a run is: a bar on the terminal, once the run has taken a second."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from actors.trace import Event
from sim.invariants import Observer
from sim.scenario import Scenario

__all__ = ["RunProgress", "watched"]

PATIENCE_SECONDS = 1.0
_INSTANTS_PER_LOOK = 256
"""A look at the clock costs more than an instant of the run."""


class RunProgress:
    """An observer that shows virtual time on a bar of rich's; nothing if the run is over within a second."""

    def __init__(self, bar: Any, duration_seconds: float) -> None:
        self._bar = bar
        self._duration_seconds = duration_seconds
        self._began = time.monotonic()
        self._instants = 0
        self._task: Any = None
        self._draining = False

    def on_event(self, event: Event) -> None:
        """What happens is no measure of how far it is."""

    def on_quiet(self, now: float) -> None:
        self._instants += 1
        if self._instants % _INSTANTS_PER_LOOK:
            return
        if self._task is None:
            if time.monotonic() - self._began < PATIENCE_SECONDS:
                return
            self._bar.start()
            self._task = self._bar.add_task("arrivals", total=self._duration_seconds)
        if now < self._duration_seconds:
            self._bar.update(self._task, completed=now)
        elif not self._draining:
            # How long the backlog takes nobody knows: from here on a bar that only moves.
            self._draining = True
            self._bar.remove_task(self._task)
            self._task = self._bar.add_task("draining", total=None)


@contextmanager
def watched(scenario: Scenario) -> Iterator[tuple[Observer, ...]]:
    """Whoever shows how far the run is, where there is a terminal to show it on."""
    if not sys.stderr.isatty():
        yield ()
        return
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    try:
        yield (RunProgress(bar, scenario.duration_seconds),)
    finally:
        bar.stop()
