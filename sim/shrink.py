"""Shrinking: a small scenario that breaks the same check as a large one.

Greedy delta debugging (Zeller, Hildebrandt 2002) over the scenario as a value: leave something out or make it simpler, keep
that if the same check, by its name, is still the first to break, and go on until nothing helps or the runs are used up.
What is tried first takes away most: the order of delivery, whole tables, most of the time; then single tasks, options and
digits. A mistake that needs luck is lost with any change, because what is drawn after it is drawn anew: so when nothing
helps any more, everything is tried again, each change under a few other seeds too.

A smaller scenario may break the same check for another reason: where nothing arrives, "at least ten are done" fails
too. So where the large one breaks it only because of its faults, its order of delivery or a planted mistake, so must the
small one: left undisturbed it must keep the check. And a check that measured something must still do so. What a check
asks for is never changed.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import attrs

from actors.errors import InvalidConfig
from sim.interleaving import PriorityOrder
from sim.judgement import Judgement, judge
from sim.processes import At, Burst, Fixed
from sim.scenario import Scenario

__all__ = ["Shrunk", "shrink"]

TASKS_LISTED_MAX = 200
"""Arrivals are listed one by one only if there are no more than so many."""
Path = tuple[str | int, ...]
"""Where a part of a scenario is: field names, and places in lists."""
_DIGITS = (0, 1, 2)
_LUCK = 8
"""Other seeds that a change is tried under before it is given up."""


@attrs.frozen(kw_only=True)
class Shrunk:
    """The small scenario, what came of it, and what it took."""

    scenario: Scenario
    judgement: Judgement
    runs: int


class _Search:
    """Tries candidates within a number of runs, and remembers the best."""

    def __init__(self, scenario: Scenario, runs_max: int, on_run: Callable[[], None]) -> None:
        self.best = scenario
        self.judgement = judge(scenario)
        if self.judgement.failed is None:
            raise ValueError(f"scenario must break a check to be shrunk, got {scenario.name!r}")
        self.runs = 1
        self.luck = 0
        """How many other seeds a change is tried under."""
        self._runs_max = runs_max
        self._on_run = on_run
        self._needs_disturbance = _calm(scenario) != scenario and judge(_calm(scenario)).failed is None

    @property
    def exhausted(self) -> bool:
        return self.runs >= self._runs_max

    def change(self, path: Path, **fields: Any) -> bool:
        """Keep the best with these fields at this path set to something else, if that breaks the same check."""
        try:
            new = attrs.evolve(_get(self.best, path), **fields)
        except InvalidConfig:
            return False
        return self.replace(path, new)

    def replace(self, path: Path, new: Any) -> bool:
        """Keep the best with something else at this path, if that breaks the same check."""
        try:
            candidate = _put(self.best, path, new)
        except InvalidConfig:
            return False
        if candidate == self.best:
            return False
        return any(self._breaks(found) for found in (candidate, *(_reseeded(candidate, n) for n in range(self.luck))))

    def _breaks(self, candidate: Scenario) -> bool:
        if self.exhausted:
            return False
        judgement = self._judge(candidate)
        if judgement.failed != self.judgement.failed or (self.judgement.measured and not judgement.measured):
            return False
        if self._needs_disturbance and self._judge(_calm(candidate)).failed is not None:
            return False
        self.best, self.judgement = candidate, judgement
        return True

    def _judge(self, scenario: Scenario) -> Judgement:
        self.runs += 1
        self._on_run()
        return judge(scenario)


def shrink(scenario: Scenario, runs_max: int = 2_000, on_run: Callable[[], None] = lambda: None) -> Shrunk:
    """The smallest scenario that greedy steps lead to, from one that breaks a check; `on_run` is called for each run."""
    search = _Search(scenario, runs_max, on_run)
    for search.luck in (0, _LUCK):
        before = None
        while before != search.best and not search.exhausted:
            before = search.best
            for step in (_deliver_as_sent, _leave_out_tables, _shorten, _list_arrivals, _leave_out_tasks, _simplify):
                step(search)
    return Shrunk(scenario=search.best, judgement=search.judgement, runs=search.runs)


def _calm(scenario: Scenario) -> Scenario:
    """Without faults and planted mistakes, and with messages delivered as they were sent."""
    changes: dict[str, Any] = {"interleaving": None, "runtime": attrs.evolve(scenario.runtime, planted=())}
    if scenario.faults:
        changes["faults"] = ()
    return attrs.evolve(scenario, **changes)


# Steps: each tries changes of the best so far


def _deliver_as_sent(search: _Search) -> None:
    if search.best.interleaving is None or search.change((), interleaving=None):
        return
    while isinstance(order := search.best.interleaving, PriorityOrder) and order.changes:
        if not search.change(("interleaving",), changes=order.changes - 1):
            return


def _leave_out_tables(search: _Search) -> None:
    names = [field.name for field in attrs.fields(Scenario) if isinstance(getattr(search.best, field.name), tuple)]
    # What is left out early makes the rest quicker, and what others refer to can only go after them.
    for name in sorted(names, key=lambda name: (name != "checks", name != "faults", name != "events")):
        _leave_out(search, (), name)
    for number in range(len(search.best.users)):
        _leave_out(search, ("users", number), "arrivals")


def _shorten(search: _Search) -> None:
    """Halve whatever counts or lasts, for as long as that goes well."""
    _halve(search, (), "duration_seconds")
    for path, part in _parts(search.best):
        for name in ("count", "workers"):
            if isinstance(getattr(part, name, None), int):
                _halve(search, path, name)


def _list_arrivals(search: _Search) -> None:
    """Arrivals at random or at a rate become a list of times."""
    for path, part in _parts(search.best):
        if path[2:3] == ("arrivals",) and not isinstance(part, (At, Burst)):
            listed = _listed(search.best, path, part)
            if listed is not None:
                search.replace(path, listed)


def _leave_out_tasks(search: _Search) -> None:
    for path, part in _parts(search.best):
        if isinstance(part, At):
            _leave_out(search, path, "seconds")
        elif isinstance(part, Burst):
            while search.change(path, count=_get(search.best, path).count - 1):
                pass


def _simplify(search: _Search) -> None:
    """Every service time fixed; every field back to its default, or to a rounder number."""
    for path, part in _parts(search.best):
        if hasattr(part, "sample"):
            search.replace(path, Fixed(seconds=1.0))
    for path, _ in _parts(search.best):
        if path[:1] == ("checks",) or not _is_there(search.best, path):
            continue
        part = _get(search.best, path)
        for field in attrs.fields(type(part)):
            any(search.change(path, **{field.name: simpler}) for simpler in _simpler(field, getattr(part, field.name)))


def _simpler(field: "attrs.Attribute[Any]", value: Any) -> Iterator[Any]:
    default = field.default
    if value == default:
        return
    if default is not attrs.NOTHING and not hasattr(default, "factory"):
        yield default
    if isinstance(value, float):
        yield from (round(value, digits) for digits in _DIGITS)
    elif isinstance(value, tuple) and all(isinstance(item, float) for item in value):
        yield from (tuple(round(item, digits) for item in value) for digits in _DIGITS)


# Shared by the steps


def _leave_out(search: _Search, path: Path, name: str) -> None:
    """Leave out as many items of a list as possible: halves first, then quarters, down to one at a time."""
    items = getattr(_get(search.best, path), name)
    size = len(items)
    while size >= 1:
        start = 0
        while start < len(items):
            if not search.change(path, **{name: items[:start] + items[start + size :]}):
                start += size
            items = getattr(_get(search.best, path), name)
        size //= 2


def _halve(search: _Search, path: Path, name: str) -> None:
    while True:
        value = getattr(_get(search.best, path), name)
        half = value // 2 if isinstance(value, int) else float(round(value / 2))
        if not search.change(path, **{name: half}):
            return


def _listed(scenario: Scenario, path: Path, arrivals: Any) -> At | None:
    """The arrivals of this process as the run had them, if there are not too many."""
    user, number = _get(scenario, path[:2]), path[3]
    random = Random(f"{scenario.seed}/arrivals/{user.name}/{number}")
    times = tuple(round(at, 3) for at in arrivals.times(random, scenario.duration_seconds))
    if len(times) > TASKS_LISTED_MAX or user.count > 1:
        return None
    common = {field.name: getattr(arrivals, field.name) for field in attrs.fields(At) if hasattr(arrivals, field.name)}
    return At(**{**common, "seconds": times})


def _reseeded(scenario: Scenario, seed: int) -> Scenario:
    order = scenario.interleaving
    return attrs.evolve(scenario, seed=seed, interleaving=None if order is None else attrs.evolve(order, seed=seed))


# A scenario as a tree of attrs instances


def _parts(value: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    """The instance and all below it, each with its path."""
    found: list[tuple[Path, Any]] = [(path, value)]
    for field in attrs.fields(type(value)):
        item = getattr(value, field.name)
        if attrs.has(type(item)):
            found += _parts(item, (*path, field.name))
        elif isinstance(item, tuple):
            for number, inner in enumerate(item):
                if attrs.has(type(inner)):
                    found += _parts(inner, (*path, field.name, number))
    return found


def _get(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step] if isinstance(step, int) else getattr(value, step)
    return value


def _is_there(scenario: Scenario, path: Path) -> bool:
    """Whether there is still something: what lay above it may have been left out."""
    return any(path == found for found, _ in _parts(scenario))


def _put(value: Any, path: Path, new: Any) -> Any:
    """The value with something else at this path."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        return tuple(_put(item, rest, new) if number == step else item for number, item in enumerate(value))
    return attrs.evolve(value, **{step: _put(getattr(value, step), rest, new)})
