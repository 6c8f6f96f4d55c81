"""I8 and I16: who claims a task loses it in time if it falls silent, and not before.

An owner lives by what was accepted of it: its start and its beats, each of which begins its lease anew. Nobody takes a
task from an owner whose lease has not run out. One whose lease has run out is judged at once by the supervisor; a lease's
length more than that is allowed, for messages may be late. When a run is over nothing is left in progress.
"""

from actors.config import Settings
from actors.trace import Extended
from sim.entries import Entry
from sim.violations import Broken

__all__ = ["ORPHANS", "RECOVERY", "Leases"]

RECOVERY = "I8 recovery"
ORPHANS = "I16 no orphan"


class Leases:
    """Judges when claims end."""

    def __init__(self, settings: Settings, broken: Broken) -> None:
        self._settings = settings
        self._broken = broken
        self._leaps: list[tuple[float, float]] = []
        """When the clock leapt, and how far: time in which nobody could do anything."""

    def leapt(self, at: float, seconds: float) -> None:
        """The clock leapt ahead."""
        self._leaps.append((at, seconds))

    def started(self, entry: Entry, at: float) -> None:
        """A lease begins."""
        entry.started_at = entry.alive_at = at
        entry.lease_until = at + self._settings.kind(entry.kind).lease_seconds

    def extended(self, event: Extended, entry: Entry) -> None:
        """It begins anew."""
        self.heard(event.task, entry, event.at)
        if event.until < entry.lease_until:
            self._broken(RECOVERY, event.at, f"{event.task} lost time by a beat: until {event.until:g}")
        entry.alive_at = event.at
        entry.lease_until = event.until

    def heard(self, task: str, entry: Entry, at: float) -> None:
        """Its owner spoke, and was believed."""
        if at > entry.lease_until and self._is_late(entry, at):
            said = f"{task} was left with a silent worker from {entry.alive_at:g} to {at:g} s"
            self._broken(RECOVERY, at, said)

    def taken_back(self, task: str, entry: Entry, at: float) -> None:
        """The task was taken from an owner that fell silent."""
        if at < entry.lease_until:
            said = f"{task} was recovered at {at:g} s, before its lease ended at {entry.lease_until:g} s"
            self._broken(RECOVERY, at, said)
        self.heard(task, entry, at)

    def left_over(self, task: str, entry: Entry, now: float) -> None:
        """The run is over, and the task still in progress."""
        self._broken(ORPHANS, now, f"{task} is in progress and nothing will end it")
        if self._is_late(entry, now):
            self._broken(RECOVERY, now, f"{task} was never recovered: its lease ended at {entry.lease_until:g} s")

    def _is_late(self, entry: Entry, at: float) -> bool:
        leapt = sum(seconds for leap_at, seconds in self._leaps if entry.alive_at <= leap_at <= at)
        return at > entry.lease_until + self._settings.kind(entry.kind).lease_seconds + leapt
