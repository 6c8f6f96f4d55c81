"""I21: a group that has borne as many crashes as it may passes the next one up, once.

Counted here from what the trace says of each crash, by the tree that the host was given. If a group can bear no more, the
whole group is built anew and the trace says because of whom; if there is none above, the run ends there.
"""

import re
from collections import Counter, deque

from actors.messages import QUEUE, SCHEDULER, SUPERVISOR, Address
from actors.supervision import Group
from actors.trace import ActorRestarted
from sim.violations import Broken

__all__ = ["ESCALATION", "Restarts"]

ESCALATION = "I21 escalation"

_SPAWNED = (QUEUE, SCHEDULER, SUPERVISOR)

_BECAUSE = re.compile(r"(\S+) crashed: ")
"""How the reason for a restart begins if another crashed: with who did."""


class Restarts:
    """Counts crashes by group and child."""

    def __init__(self, root: Group, broken: Broken) -> None:
        self._root = root
        self._broken = broken
        self._crashes: dict[tuple[str, str], deque[float]] = {}
        self._passed_up: dict[Address, list[Group]] = {}
        """For each actor whose crash in this instant could not be borne, the groups that are built anew for it."""
        self._along: Counter[tuple[Address, Address]] = Counter()
        """Who was built anew in this instant, for whose crash."""
        self._failed: str | None = None
        """What the root could not bear."""

    def on_event(self, event: ActorRestarted) -> None:
        """An actor was built anew."""
        if (because := _BECAUSE.match(event.error)) is None:
            self._crashed(event.actor, event.at)
            return
        crashed = because[1]
        self._along[crashed, event.actor] += 1
        allowed = sum(group.stands_for(event.actor) for group in self._passed_up.get(crashed, ()))
        if self._along[crashed, event.actor] > allowed and not self._goes_along(event.actor):
            self._broken(ESCALATION, event.at, f"{event.actor} was restarted for {crashed}, whose crash could be borne")

    def on_quiet(self, now: float) -> None:
        """All that an instant led to is done."""
        if self._failed is not None:
            self._broken(ESCALATION, now, f"{self._failed}, and everything went on")
            self._failed = None
        if self._passed_up:
            for crashed, groups in self._passed_up.items():
                along = {actor for culprit, actor in self._along if culprit == crashed}
                for group in groups:
                    if missing := [child for child in _always_there(group) if child not in along | {crashed}]:
                        self._broken(ESCALATION, now, f"{missing[0]} was not restarted with all of {group.name}")
            self._passed_up.clear()
        self._along.clear()

    def _goes_along(self, actor: Address) -> bool:
        """Whether a group has it restarted with others, however few the crashes are."""
        return any(group.strategy != "one_for_one" and group.stands_for(actor) for group in self._root.groups())

    def _crashed(self, actor: Address, at: float) -> None:
        way = _way(self._root, actor)
        for depth in reversed(range(len(way))):
            group, below = way[depth], way[depth + 1 :]
            if self._count(group, below[0].name if below else actor, at) <= group.restarts_max:
                if below:
                    self._passed_up.setdefault(actor, []).append(below[0])
                    self._count_anew(below[0])
                return
        self._failed = f"{actor} crashed more often than {self._root.name} can bear"

    def _count(self, group: Group, child: str, at: float) -> int:
        times = self._crashes.setdefault((group.name, child if group.each else ""), deque())
        times.append(at)
        while times[0] < at - group.window_seconds:
            times.popleft()
        return len(times)

    def _count_anew(self, restarted: Group) -> None:
        names = {group.name for group in restarted.groups()}
        self._crashes = {key: times for key, times in self._crashes.items() if key[0] not in names}


def _way(root: Group, actor: Address) -> list[Group]:
    """The groups from the root down to the one that watches an actor."""
    way = [root]
    while (place := way[-1].place_of(actor)) is not None:
        child = way[-1].children[place]
        if not isinstance(child, Group):
            break
        way.append(child)
    return way


def _always_there(group: Group) -> list[Address]:
    """The actors that are spawned with a runtime, and not by somebody's first message."""
    names = [child for each in group.groups() for child in each.children if isinstance(child, str)]
    return [name for name in names if name in _SPAWNED]
