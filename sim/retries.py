"""I19 and I20: what fails is contained, and what failed together does not come back together.

I19 poison: a task that took `poison_after` workers down in one requeue epoch never starts again, and none is called
poisoned before that.

I20 herd: after the n-th failure a task waits min(base * factor^(n-1), max), give or take its jitter. Where there is jitter, a few in
a row that land on the very same place of that interval were not spread. A task may have a retry policy of its own and a handler may name a
time, of which the trace does not tell: where that can be, I20 is not judged.
"""

import attrs

from actors.config import Settings
from actors.retry import RetryPolicy
from actors.trace import DeadLettered, Retried
from sim.entries import Entry
from sim.violations import Broken

__all__ = ["HERD", "POISON", "Retries"]

POISON = "I19 poison"
HERD = "I20 herd"

_IN_A_ROW_MAX = 2
"""So many may land on the same place by chance, which for two has a probability of about one in a billion."""
_ROUNDING = 1e-9


@attrs.define
class _Landing:
    """Where in its jitter interval, from -1 to 1, the last retry landed, and how many in a row did."""

    place: float
    in_a_row: int = 1


class Retries:
    """Judges what comes after a failure."""

    def __init__(self, settings: Settings, by_kind: bool, broken: Broken) -> None:
        self._settings = settings
        self._by_kind = by_kind
        """Whether every task is retried as its kind says."""
        self._broken = broken
        self._landings: dict[tuple[str, int], _Landing] = {}

    def started(self, entry: Entry, at: float) -> None:
        """A task starts; call it only for one that crashed before."""
        if entry.crashes >= self._settings.poison_after:
            said = f"{entry.name} started after it had crashed {entry.crashes} times"
            self._broken(POISON, at, said)

    def retried(self, event: Retried, entry: Entry) -> None:
        """An execution failed; another will follow."""
        entry.crashes += event.outcome == "crashed"
        if self._by_kind:
            self._judge_delay(event, entry, self._settings.kind(entry.kind).retry)

    def dead_lettered(self, event: DeadLettered, entry: Entry) -> None:
        """A task failed for good."""
        crashes = entry.crashes + (event.outcome == "crashed")
        if event.cause == "poisoned" and crashes < self._settings.poison_after:
            self._broken(POISON, event.at, f"{event.task} was called poisoned after {crashes} crashes")

    def _judge_delay(self, event: Retried, entry: Entry, policy: RetryPolicy) -> None:
        middle, spread = _interval(policy, entry.executions)
        off = event.run_after - event.at - middle
        rounding = _ROUNDING * (1 + event.run_after)
        if abs(off) > spread + rounding:
            said = f"{event.task} waits {event.run_after - event.at:g} s after failure {entry.executions}"
            self._broken(HERD, event.at, f"{said}, not {middle:g} s give or take {spread:g} s")
        elif spread > 1e3 * rounding:
            self._judge_place(event, entry, off / spread)

    def _judge_place(self, event: Retried, entry: Entry, place: float) -> None:
        key = (entry.kind, entry.executions)
        landing = self._landings.get(key)
        if landing is None or abs(landing.place - place) > _ROUNDING:
            self._landings[key] = _Landing(place)
            return
        landing.in_a_row += 1
        if landing.in_a_row > _IN_A_ROW_MAX:
            said = f"{landing.in_a_row} retries of {entry.kind!r} in a row, the last {event.task}, wait just as long"
            self._broken(HERD, event.at, f"{said}: they were not spread")


def _interval(policy: RetryPolicy, failures: int) -> tuple[float, float]:
    """The middle of where the delay after so many failures lies, and how far from it the delay may be."""
    delay = min(policy.base_seconds, policy.max_seconds)
    if policy.factor > 1 and delay:
        while failures > 1 and delay < policy.max_seconds:
            delay = min(delay * policy.factor, policy.max_seconds)
            failures -= 1
    return delay, delay * policy.jitter
