"""Was it fair? What a run's log of turns says of its sharing policy, as assertions for tests of one's own.

The measure is that of start-time fair queueing (Goyal, Vin, Cheng 1996). Of two users f and g that are backlogged together
from one time to another, with D the cost that each was given in between, w its weight and L its largest single cost:

    |D_f/w_f - D_g/w_g| <= L_f/w_f + L_g/w_g        when tasks take what they were expected to.

Where they do not, (workers + 1) times that, L being the larger of expected and used, is what weighted fair sharing is
observed to keep: a conjecture. The lag reported here is a multiple of the right-hand side, so 1.0 is the bound itself.

`tenant/alice` is compared with `tenant/bob`, and `tenant` as a whole with its own siblings. What `tenant` submits under its
own name is one more sibling below it, called `tenant/`.
"""

import math
from collections.abc import Iterator, Mapping

import attrs

from actors.errors import InvalidConfig
from actors.policies import suggestion
from actors.policies.fair import above
from sim.observation import SimulationResult
from sim.turns import BEGAN, CHARGED, ENDED, REWEIGHTED, Turn, TurnLog

__all__ = ["Lag", "assert_fair", "worst_lag"]

_ROUNDING = 1e-9


@attrs.frozen(kw_only=True)
class Lag:
    """How far one user fell behind another while both had work waiting.

    >>> lag = Lag(ahead="bob", behind="alice", began_at=0.0, ended_at=9.0, given_ahead=9.0, given_behind=1.0,
    ...           seconds=8.0, bound_seconds=2.0)
    >>> lag.ratio
    4.0
    """

    ahead: str
    behind: str
    began_at: float
    ended_at: float
    given_ahead: float
    """The work that each was given from one time to the other, in seconds per weight."""
    given_behind: float
    seconds: float
    """The difference."""
    bound_seconds: float
    """The largest single task of each, per weight, added up."""

    @property
    def ratio(self) -> float:
        """The difference as a multiple of the bound."""
        return self.seconds / self.bound_seconds


def assert_fair(
    result: SimulationResult,
    *,
    lag_max: float | None = None,
    jain_at_least: float | None = None,
    wait_seconds_max: float | Mapping[str, float] | None = None,
    starved_after_seconds: float | None = None,
) -> None:
    """Assert that a run was fair to everybody; say who was not treated fairly, when, and by how much.

    `lag_max` is a multiple of the bound of start-time fair queueing; unless given it is 1 where tasks take what they cost, and
    one more than there are workers where they do not; `math.inf` leaves it out. `wait_seconds_max` is for everybody, or for
    each user that is named. `starved_after_seconds` is how long a user may have work waiting of which nothing is started.

    >>> from sim import Burst, Fixed, Kind, Runtime, Scenario, User, simulate
    >>> kinds = (Kind(name="long", service=Fixed(seconds=9.0), cost=9.0), Kind(name="short", service=Fixed(seconds=1.0)))
    >>> alice = User(name="alice", arrivals=(Burst(kind="long", count=9),))
    >>> bob = User(name="bob", arrivals=(Burst(kind="short", count=9),))
    >>> scenario = Scenario(name="demo", duration_seconds=1.0, kinds=kinds, users=(alice, bob), runtime=Runtime(workers=1))
    >>> assert_fair(simulate(scenario), wait_seconds_max={"bob": 18.0})
    >>> assert_fair(simulate(scenario, sharing="round_robin"))
    Traceback (most recent call last):
    AssertionError: bob fell behind alice by 64 s of work per weight, 6.4 times the bound of 10 s (allowed: 1): ...
    """
    faults = [*_lag_faults(result, lag_max), *_wait_faults(result, wait_seconds_max)]
    if jain_at_least is not None and result.jain is not None and result.jain < jain_at_least:
        faults.append(f"Jain's index is {result.jain:.4g}, which must be at least {jain_at_least:g}")
    if starved_after_seconds is not None:
        faults += _starvation_faults(result, starved_after_seconds)
    if faults:
        raise AssertionError("\n".join(faults))


def worst_lag(result: SimulationResult) -> Lag | None:
    """The largest lag of a run as a multiple of its bound; None if no two users ever waited together.

    >>> from sim import Burst, Fixed, Kind, Scenario, User, simulate
    >>> kind = Kind(name="work", service=Fixed(seconds=1.0))
    >>> user = User(name="alice", arrivals=(Burst(kind="work", count=9),))
    >>> worst_lag(simulate(Scenario(name="demo", duration_seconds=1.0, kinds=(kind,), users=(user,))))
    """
    comparison = _Comparison(result.turns)
    for turn in result.turns:
        comparison.take(turn)
    return comparison.worst


def _lag_faults(result: SimulationResult, lag_max: float | None) -> Iterator[str]:
    if lag_max is None:
        lag_max = 1.0 if result.turns.exact else result.turns.workers + 1.0
    if lag_max == math.inf or (lag := worst_lag(result)) is None or lag.ratio <= lag_max:
        return
    yield (
        f"{lag.behind} fell behind {lag.ahead} by {lag.seconds:g} s of work per weight, {lag.ratio:.3g} times the bound of "
        f"{lag.bound_seconds:g} s (allowed: {lag_max:g}): from {lag.began_at:g} s to {lag.ended_at:g} s both had work "
        f"waiting, and {lag.ahead} was given {lag.given_ahead:g} s per weight, {lag.behind} {lag.given_behind:g} s"
    )


def _wait_faults(result: SimulationResult, limits: float | Mapping[str, float] | None) -> Iterator[str]:
    if limits is None:
        return
    if not isinstance(limits, Mapping):
        limits = dict.fromkeys(result.users, limits)
    for user, limit in limits.items():
        if user not in result.users:
            known = list(result.users)
            raise InvalidConfig(f"wait_seconds_max must name a user of the run, got {user!r}{suggestion(user, known)}")
        longest = result.users[user].wait_seconds_max
        if longest is not None and longest > limit:
            yield f"{user} waited up to {longest:g} s, which must be at most {limit:g} s"


def _starvation_faults(result: SimulationResult, starved_after_seconds: float) -> Iterator[str]:
    worst: dict[str, tuple[float, float]] = {}
    since: dict[str, float] = {}

    def look(user: str, at: float) -> None:
        worst[user] = max(worst.get(user, (0.0, 0.0)), (at - since[user], since[user]))

    for turn in result.turns:
        if turn.user in since and turn.what in (CHARGED, ENDED):
            look(turn.user, turn.at)
        if turn.what == BEGAN or (turn.what == CHARGED and turn.user in since):
            since[turn.user] = turn.at
        elif turn.what == ENDED:
            del since[turn.user]
    for user in since:
        look(user, result.virtual_seconds)
    for user, (seconds, begin) in worst.items():
        if seconds > starved_after_seconds:
            yield (
                f"{user} starved: nothing of it was started from {begin:g} s to {begin + seconds:g} s while it had work "
                f"waiting, {seconds:g} s, which must be at most {starved_after_seconds:g} s"
            )


# The comparison of everybody with everybody


@attrs.define(eq=False)
class _Name:
    """A user, or everybody below a name."""

    name: str
    weight: float
    given: float = 0.0
    """Per weight."""
    largest: float = 0.0
    """The largest single cost."""
    backlogged: int = 0
    """Users here and below that are backlogged."""
    rivals: "dict[_Name, _Pair]" = attrs.Factory(dict)
    """Siblings that are backlogged at the same time."""


_Mark = tuple[float, float, float, float]
"""Where two names stood: the first's lead, when, and what each had been given."""


@attrs.define(eq=False)
class _Pair:
    first: _Name
    second: _Name
    low: _Mark
    high: _Mark

    def mark(self, at: float) -> _Mark:
        return (self.first.given - self.second.given, at, self.first.given, self.second.given)

    def lag(self, at: float) -> Lag | None:
        """The larger of the leads that one of the two gained since the other's best, if it gained any."""
        now = self.mark(at)
        gained, lost = now[0] - self.low[0], self.high[0] - now[0]
        self.low, self.high = min(self.low, now), max(self.high, now)
        seconds = max(gained, lost) - _ROUNDING * max(1.0, now[2], now[3])
        if seconds <= 0:
            return None
        bound = self.first.largest / self.first.weight + self.second.largest / self.second.weight
        since = self.low if gained > lost else self.high
        given, given_other = now[2] - since[2], now[3] - since[3]
        ahead, behind = self.first.name, self.second.name
        if lost >= gained:
            ahead, behind, given, given_other = behind, ahead, given_other, given
        return Lag(
            ahead=ahead,
            behind=behind,
            began_at=since[1],
            ended_at=at,
            given_ahead=given,
            given_behind=given_other,
            seconds=seconds,
            bound_seconds=bound,
        )


class _Comparison:
    """Goes through a log of turns and remembers the worst lag."""

    def __init__(self, log: TurnLog) -> None:
        self.worst: Lag | None = None
        self._weights = log.weights
        self._parents = {name for user in log.weights for name in _names_above(user)}
        self._names: dict[str, _Name] = {}
        self._ways: dict[str, list[_Name]] = {}
        self._backlogged: dict[str, dict[_Name, None]] = {}
        """By the name above them, those that are backlogged."""

    def take(self, turn: Turn) -> None:
        """One more line of the log."""
        if turn.what == REWEIGHTED:
            self._reweigh(turn)
            return
        for name in self._way(turn.user):
            if turn.what == BEGAN:
                self._begin(name, turn.at)
            elif turn.what == ENDED:
                self._end(name)
            else:
                self._charge(name, turn)

    def _begin(self, name: _Name, at: float) -> None:
        name.backlogged += 1
        if name.backlogged == 1:
            siblings = self._backlogged.setdefault(above(name.name), {})
            for other in siblings:
                pair = _Pair(name, other, (0.0,) * 4, (0.0,) * 4)
                pair.low = pair.high = pair.mark(at)
                name.rivals[other] = other.rivals[name] = pair
            siblings[name] = None

    def _end(self, name: _Name) -> None:
        name.backlogged -= 1
        if not name.backlogged:
            del self._backlogged[above(name.name)][name]
            for other in name.rivals:
                del other.rivals[name]
            name.rivals.clear()

    def _charge(self, name: _Name, turn: Turn) -> None:
        name.given += turn.value / name.weight
        name.largest = max(name.largest, turn.single)
        for pair in name.rivals.values():
            lag = pair.lag(turn.at)
            if lag is not None and (self.worst is None or lag.ratio > self.worst.ratio):
                self.worst = lag

    def _reweigh(self, turn: Turn) -> None:
        """With another weight the comparisons begin anew: what was given before is counted by the old one."""
        name = self._name(turn.user)
        name.weight = turn.value
        for pair in name.rivals.values():
            pair.low = pair.high = pair.mark(turn.at)

    def _way(self, user: str) -> list[_Name]:
        way = self._ways.get(user)
        if way is None:
            names = [*_names_above(user), user, *([user + "/"] if user in self._parents else [])]
            way = self._ways[user] = [self._name(name) for name in names]
        return way

    def _name(self, name: str) -> _Name:
        found = self._names.get(name)
        if found is None:
            found = self._names[name] = _Name(name, self._weights.get(name, 1.0))
        return found


def _names_above(user: str) -> list[str]:
    """Every name above a user, the highest first.

    >>> _names_above("a/b/c")
    ['a', 'a/b']
    """
    names: list[str] = []
    while user := above(user):
        names.insert(0, user)
    return names
