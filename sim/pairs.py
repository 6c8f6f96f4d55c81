"""The worst service lag between any two names that share, as a part of what it may be: measured on request.

Over each time in which two siblings f and g both have work that any worker could take, the lag is how far apart D_f/w_f and
D_g/w_g went, D being what was charged. It may be L_f/w_f + L_g/w_g if all costs were exact (Goyal, Vin, Cheng 1996),
and m + 1 times that on m workers if they were corrected, which is a conjecture. The measure knows nothing of any policy, so
that any can be measured. It costs a look at every sibling that has work for each start.
"""

from collections.abc import Mapping

from actors.config import Settings
from actors.messages import Address, WorkerClass
from actors.trace import Event
from sim.entries import Entry
from sim.lag import Eligibility, is_correction
from sim.siblings import Clock, Sibling, Siblings

__all__ = ["PairLag"]

_ROUNDING = 1e-9


class PairLag:
    """Compares every name with each of its siblings."""

    def __init__(self, settings: Settings, workers: Mapping[Address, WorkerClass]) -> None:
        self._eligibility = Eligibility(settings, workers)
        self._siblings = Siblings(settings.weights)
        self._workers = len(workers)
        self._exact = True
        self._worst: float | None = None
        self._opening: dict[str, None] = {}
        self.restless = False
        self._open: dict[Clock, dict[Sibling, None]] = {}
        self._lags: dict[tuple[Sibling, Sibling], tuple[float, float]] = {}
        """For each pair that has work, the least and the most by which the first was ahead."""

    @property
    def worst(self) -> float | None:
        """The largest lag as a part of its bound; None if no two ever had work together."""
        if self._worst is None:
            return None
        return self._worst if self._exact else self._worst / (self._workers + 1)

    def saw(self, kind: str) -> None:
        """There are tasks of this kind."""
        self._eligibility.saw(kind)

    def has_work(self, user: str) -> None:
        """A user has a task that could start, and had none before."""
        for sibling in self._siblings.way(user):
            sibling.busy += 1
        self._opening[user] = None
        self.restless = True

    def has_none(self, user: str, at: float) -> None:
        """The last task of a user that could start is gone."""
        for sibling in self._siblings.way(user):
            sibling.busy -= 1
            if not sibling.busy and sibling.is_open:
                self._close(sibling)

    def started(self, entry: Entry, at: float) -> None:
        """A task was started, and is charged."""
        self._charge(entry.user, entry.cost, entry.cost)

    def stopped(self, entry: Entry, at: float, used: float) -> None:
        """Its turn is over, and the charge corrected."""
        if is_correction(used - entry.cost, at):
            self._exact = False
            self._charge(entry.user, used - entry.cost, max(used, entry.cost))

    def on_event(self, event: Event) -> None:
        """Something else happened, which may change who can be served: every comparison begins anew."""
        self._eligibility.on_event(event, self._siblings)
        for sibling in self._siblings.everybody():
            if sibling.is_open:
                self._close(sibling)
        self._opening.update(dict.fromkeys(self._siblings.users()))
        self.restless = True

    def on_quiet(self, now: float) -> None:
        """Begin to compare those that have work by now."""
        if not self._eligibility.of_all:
            return
        for user in self._opening:
            for sibling in self._siblings.way(user):
                if sibling.busy and not sibling.is_open:
                    sibling.is_open = True
                    others = self._open.setdefault(sibling.clock, {})
                    for other in others:
                        self._lags[other, sibling] = (other.service - sibling.service,) * 2
                        self._worst = self._worst or 0.0
                    others[sibling] = None
        self._opening.clear()
        self.restless = False

    def on_end(self, now: float) -> None:
        """Whoever still waits was compared at every charge of another."""

    def _charge(self, user: str, cost: float, single: float) -> None:
        for sibling in self._siblings.charge(user, cost, single):
            if sibling.is_open:
                for other in self._open[sibling.clock]:
                    if other is not sibling:
                        self._compare(sibling, other)

    def _compare(self, f: Sibling, g: Sibling) -> None:
        pair = (f, g) if (f, g) in self._lags else (g, f)
        lag = pair[0].service - pair[1].service
        low, high = self._lags[pair]
        if low <= lag <= high:
            return
        self._lags[pair] = low, high = min(low, lag), max(high, lag)
        # What rounding makes of a sum of many costs is no lag.
        spread = high - low - _ROUNDING * max(abs(low), abs(high))
        self._worst = max(self._worst or 0.0, spread / (f.largest + g.largest))

    def _close(self, sibling: Sibling) -> None:
        sibling.is_open = False
        others = self._open[sibling.clock]
        del others[sibling]
        for other in others:
            self._lags.pop((sibling, other), None)
            self._lags.pop((other, sibling), None)
