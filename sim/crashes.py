"""Whether anybody crashed of itself: in a run with faults every crash must be one that the scenario asked for.

A crash is contained, so one that nobody meant would pass for one more fault. It is a mistake in an actor, or a state that
was thought impossible.
"""

from actors.trace import ActorRestarted, Event
from sim.injection import CrashNow, InjectedCrash
from sim.invariants import Violation

__all__ = ["NO_CRASH_OF_ITS_OWN", "Crashes"]

NO_CRASH_OF_ITS_OWN = "no crash but by a fault"

_INJECTED = (InjectedCrash.__name__, CrashNow.__name__)


class Crashes:
    """Watches a run for crashes that were not injected.

    >>> crashes = Crashes()
    >>> crashes.on_event(ActorRestarted(1.0, "queue", "InjectedCrash: on Submit"))
    >>> crashes.on_event(ActorRestarted(2.0, "worker/1", "AssertionError: a worker runs one task at a time"))
    >>> [violation.said for violation in crashes.violations]
    ['worker/1 crashed: AssertionError: a worker runs one task at a time']
    """

    def __init__(self) -> None:
        self.violations: list[Violation] = []

    def on_event(self, event: Event) -> None:
        # Who is restarted because of another that crashed says so, with that one's error.
        if type(event) is ActorRestarted and not any(name in event.error for name in _INJECTED):
            self.violations.append(Violation(NO_CRASH_OF_ITS_OWN, event.at, f"{event.actor} crashed: {event.error}"))

    def on_quiet(self, now: float) -> None:
        """Crashes happen when they happen."""
