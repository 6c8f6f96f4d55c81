"""I12 and I23: the service lag of weighted fair sharing, and the virtual times it goes by.

With D the charged and L the largest single cost, w the weight, for siblings f and g over any time in which both have work and
could be given any worker that is granted: |D_f/w_f - D_g/w_g| <= L_f/w_f + L_g/w_g when costs are exact.

To compare every pair would cost a look at all siblings for each start. Instead each is compared with the virtual time v that
the scheduler notes. A pick has the smallest start tag of all that could be served, and v is the largest tag picked so far: so
v <= tag <= v + L_f/w_f, and as the tag moves by D_f/w_f, the span of D_f/w_f - v over any such time is at most L_f/w_f.
Subtract that for f and g, and v is gone: what holds for each gives the bound of each pair.

With estimates that are corrected when the work is done, at most m at a time: whoever is picked may be corrected before it is
charged, so v may rise above the tag of f by m L/w of another; after that at most m corrections lower the tag of f, and
since it was last picked at most m raise it. So the span is at most (2m + 1) L_f/w_f + m L/w, the last of the sibling with the largest.
For pairs, (m+1) times the exact bound is a conjecture: `service_lag` measures against that.

It is judged where nothing but sharing decides: no limits, no pauses, one class of workers that takes anything. Elsewhere
only I23 is, that the root's virtual time never goes back; the clock of an inner name is forgotten when nobody is there.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from actors.config import Settings
from actors.limits import Limit
from actors.messages import SCHEDULER, Address, WorkerClass
from actors.policies.fair import WeightedFair
from actors.table import Table
from actors.trace import Event, Paused, Relimited, Resumed, Reweighted
from sim.entries import Entry
from sim.siblings import Clock, Sibling, Siblings
from sim.violations import Broken

__all__ = ["LAG", "VIRTUAL_TIME", "Eligibility", "Lag", "SharingJudge", "is_correction", "lag_of", "virtual_time"]

LAG = "I12 service lag"
VIRTUAL_TIME = "I23 virtual time"

_ROUNDING = 1e-9


def lag_of(
    settings: Settings, table: Table, workers: Mapping[Address, WorkerClass], is_shared: bool, broken: Broken
) -> "SharingJudge | None":
    """The judge of a sharing policy that promises a bound, or None. A lone user has nobody to share with."""
    if type(settings.sharing) is not WeightedFair:
        return None
    return Lag(settings, table, workers, broken) if is_shared else Lone(table, broken)


def virtual_time(table: Table) -> float:
    """The virtual time of the pool, as the scheduler noted it.

    >>> virtual_time(Table())
    0.0
    """
    return _virtual(table.notes(SCHEDULER), "")


def is_correction(difference: float, now: float) -> bool:
    """Whether what a task used is not what it was charged, but for what rounding makes of a difference of times."""
    return abs(difference) > _ROUNDING * (1 + now)


class SharingJudge(Protocol):
    """Watches what each user is given while it has work."""

    restless: bool
    """Whether it has anything to look at when it is quiet; it sets that itself."""

    def saw(self, kind: str) -> None:
        """There are tasks of this kind."""

    def has_work(self, user: str) -> None:
        """A user has a task that could start, and had none before."""

    def has_none(self, user: str, at: float) -> None:
        """The last task of a user that could start is gone."""

    def started(self, entry: Entry, at: float) -> None:
        """A task was started, and is charged."""

    def stopped(self, entry: Entry, at: float, used: float) -> None:
        """Its turn is over, and the charge corrected."""

    def on_event(self, event: Event) -> None:
        """Something else happened, which may change who can be served."""

    def on_quiet(self, now: float) -> None:
        """Nothing is under way."""

    def on_end(self, now: float) -> None:
        """Nothing will ever happen again."""


class Eligibility:
    """Whether nothing but sharing decides: no limit or pause is in force, and every worker takes anything of anybody."""

    def __init__(self, settings: Settings, workers: Mapping[Address, WorkerClass]) -> None:
        self._settings = settings
        limits: dict[tuple[str | None, str | None], Limit] = {(None, None): settings.limit}
        limits |= {(kind, None): found.limit for kind, found in settings.kinds.items()}
        limits |= {(None, user): limit for user, limit in settings.user_limits.items()}
        self._limits = {key for key, limit in limits.items() if limit.holds}
        self._pauses: set[tuple[str | None, str | None]] = set()
        self._class = next(iter(workers.values()), WorkerClass())
        self._alike = len(set(workers.values())) == 1 and self._class.users is None

    @property
    def of_all(self) -> bool:
        """Whether whoever has work could be given any worker."""
        return self._alike and not (self._limits or self._pauses)

    def saw(self, kind: str) -> None:
        """There is a task of this kind."""
        if self._alike and kind not in self._class.runs(self._settings.handled):
            self._alike = False

    def on_event(self, event: Event, siblings: Siblings) -> None:
        """An operator may have changed something."""
        if isinstance(event, Reweighted):
            siblings.reweigh(event.user, event.weight)
        elif isinstance(event, Relimited):
            holds = Limit(event.rate_limit, event.concurrency_max).holds
            (self._limits.add if holds else self._limits.discard)((event.kind, event.user))
        elif isinstance(event, Paused):
            self._pauses.add((event.kind, event.user))
        elif isinstance(event, Resumed):
            self._pauses.discard((event.kind, event.user))


class Lag:
    """Compares what each name was given with the virtual time."""

    def __init__(
        self, settings: Settings, table: Table, workers: Mapping[Address, WorkerClass], broken: Broken
    ) -> None:
        self._table = table
        self._broken = broken
        self._siblings = Siblings(settings.weights)
        self._eligibility = Eligibility(settings, workers)
        self._in_flight = 0
        self._in_flight_max = len(workers)
        """The most that was charged and not corrected at one time: more than workers, where their reports were lost."""
        self._exact = True
        self._moved: dict[Sibling, None] = {}
        """Who was charged since the last quiet instant. Corrections alone need no look: virtual time stands still."""
        self._opening: dict[str, None] = {}
        """Users whose backlog is to be opened."""
        self.restless = False

    # What happens to tasks

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
                self._close(sibling, at)

    def started(self, entry: Entry, at: float) -> None:
        """A task was started, and is charged."""
        self._in_flight += 1
        if self._in_flight > self._in_flight_max:
            self._in_flight_max = self._in_flight
        cost = entry.cost
        for sibling in self._siblings.charge(entry.user, cost, cost):
            self._moved[sibling] = None
        self.restless = True

    def stopped(self, entry: Entry, at: float, used: float) -> None:
        """Its turn is over, and the charge corrected."""
        self._in_flight -= 1
        cost = entry.cost
        if is_correction(used - cost, at):
            self._exact = False
            self._siblings.charge(entry.user, used - cost, used if used > cost else cost)

    def on_event(self, event: Event) -> None:
        """Something else happened, which may change who can be served: every backlog begins anew."""
        self._eligibility.on_event(event, self._siblings)
        for sibling in self._siblings.everybody():
            sibling.is_open = False
        self._opening.update(dict.fromkeys(self._siblings.users()))
        self.restless = True

    # Quiet instants

    def on_quiet(self, now: float) -> None:
        """Compare those that were given something, and open new backlogs."""
        notes = self._table.notes(SCHEDULER)
        if _grant_is_open(notes):
            return
        if self._moved:
            self._look(notes, now)
        if self._opening and self._eligibility.of_all:
            self._open(notes, now)
        self.restless = bool(self._opening)

    def on_end(self, now: float) -> None:
        """Also compare those that were given nothing for long."""
        for sibling in self._siblings.everybody():
            if sibling.is_open:
                self._close(sibling, now)

    def _look(self, notes: Mapping[str, Any], now: float) -> None:
        for sibling in self._moved:
            clock = sibling.clock
            if clock.looked_at != now:
                clock.looked_at = now
                clock.before = clock.virtual
                self._read(clock, notes, now)
            if sibling.is_open:
                # Between two charges the virtual time only rises: the lowest was just before this one.
                lowest = sibling.seen - clock.before
                here = sibling.service - clock.virtual
                if lowest < sibling.low or here < sibling.low or here > sibling.high:
                    sibling.low = min(sibling.low, lowest, here)
                    sibling.high = max(sibling.high, here)
                    self._judge(sibling, now)
                sibling.seen = sibling.service
        self._moved.clear()

    def _open(self, notes: Mapping[str, Any], now: float) -> None:
        """Open the backlogs that the scheduler knows of too; whoever has no work any more need not wait for that."""
        left: dict[str, None] = {}
        for user in self._opening:
            way = self._siblings.way(user)
            if way[0].busy and not _is_known(notes, user):
                left[user] = None
                continue
            for sibling in way:
                if sibling.busy and not sibling.is_open:
                    self._read(sibling.clock, notes, now)
                    sibling.is_open = True
                    sibling.seen = sibling.service
                    sibling.low = sibling.high = sibling.service - sibling.clock.virtual
        self._opening = left

    def _read(self, clock: Clock, notes: Mapping[str, Any], now: float) -> None:
        virtual = _virtual(notes, clock.name)
        if virtual < clock.virtual and not clock.name:
            self._broken(VIRTUAL_TIME, now, f"virtual time went back from {clock.virtual:g} to {virtual:g}")
        clock.virtual = virtual

    def _close(self, sibling: Sibling, now: float) -> None:
        sibling.is_open = False
        lowest = sibling.seen - sibling.clock.virtual
        if lowest < sibling.low:
            sibling.low = lowest
            self._judge(sibling, now)

    def _judge(self, sibling: Sibling, now: float) -> None:
        bound = sibling.largest
        if not self._exact:
            bound += self._in_flight_max * (2 * sibling.largest + sibling.clock.largest)
        span = sibling.high - sibling.low
        if span > bound + _ROUNDING * (1 + sibling.service + sibling.clock.virtual):
            said = f"{sibling.name} was {span:g} s per weight off its share, of {bound:g} s that it may be"
            self._broken(LAG, now, said)
            # Once is enough: what comes after is judged from here.
            sibling.low = sibling.high = sibling.service - sibling.clock.virtual


class Lone:
    """What is left to judge of a user that is alone: that virtual time does not go back."""

    def __init__(self, table: Table, broken: Broken) -> None:
        self._table = table
        self._broken = broken
        self._virtual = 0.0
        self.restless = False

    def saw(self, kind: str) -> None:
        """There are tasks of this kind."""

    def has_work(self, user: str) -> None:
        """A user has a task that could start, and had none before."""

    def has_none(self, user: str, at: float) -> None:
        """The last task of a user that could start is gone."""

    def started(self, entry: Entry, at: float) -> None:
        """A task was started, and is charged."""
        self.restless = True

    def stopped(self, entry: Entry, at: float, used: float) -> None:
        """Its turn is over, and the charge corrected."""

    def on_event(self, event: Event) -> None:
        """Something else happened, which may change who can be served."""

    def on_quiet(self, now: float) -> None:
        """Look at the clock."""
        self.restless = False
        virtual = _virtual(self._table.notes(SCHEDULER), "")
        if virtual < self._virtual:
            self._broken(VIRTUAL_TIME, now, f"virtual time went back from {self._virtual:g} to {virtual:g}")
        self._virtual = virtual

    def on_end(self, now: float) -> None:
        """Nothing will ever happen again."""


def _virtual(notes: Mapping[str, Any], name: str) -> float:
    """A name's clock, as the scheduler noted it."""
    node = notes.get("pool/node/" + name)
    return 0.0 if node is None else float(node[2])


def _is_known(notes: Mapping[str, Any], user: str) -> bool:
    """Whether the scheduler knows that a user has work."""
    node = notes.get("pool/node/" + user)
    return node is not None and bool(node[3])


def _grant_is_open(notes: Mapping[str, Any]) -> bool:
    """Whether the answer to a grant is still under way, so that what was started is not charged yet."""
    number, worker, _, is_open = notes.get("grant", (0, "", "", False))
    return bool(is_open and notes.get("used/" + worker, (0, ""))[0] != number)
