"""A source of work: the actor that submits what one user's arrival processes call for.

Arrival times and ids depend on the seed and the user alone, so that every policy is tried on the same work. A source
submits at most `CREDIT` tasks before it looks up again: a burst of a million does not need a mailbox of a million.
"""

from collections.abc import Iterator
from heapq import merge
from random import Random
from typing import Any

from actors.actor import NEVER, Draw, Effects
from actors.ids import derived_id
from actors.messages import QUEUE, Accepted, Address, Failed, Refused, Submit, Wake
from sim.processes import Arrivals
from sim.scenario import Scenario, User

__all__ = ["Source", "source_address"]

CREDIT = 1_000


def source_address(user: str) -> Address:
    """Where a user's source is reached."""
    return f"source/{user}"


class Source:
    """The core of one user's source."""

    passive = False

    def __init__(self, scenario: Scenario, user: User) -> None:
        self._seed = scenario.seed
        self._user = user.name
        self._costs = {kind.name: kind.cost for kind in scenario.kinds}
        self._arrivals = _merged(scenario, user)
        self._next = next(self._arrivals, None)
        self._number = 0

    def start(self, now: float) -> Effects:
        effects = Effects()
        self._set_timer(effects)
        return effects

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        effects = Effects()
        match message:
            case Wake():
                self._submit_due(now, effects)
                self._set_timer(effects)
            case Accepted() | Refused() | Failed():
                pass
            case _:
                raise TypeError(f"source cannot handle {message!r}")
        return effects

    def _submit_due(self, now: float, effects: Effects) -> None:
        credit = CREDIT
        while self._next is not None and self._next[0] <= now and credit:
            at, _, arrivals = self._next
            credit -= 1
            self._number += 1
            submit = Submit(
                id=derived_id(f"{self._seed}/{self._user}#{self._number}", at),
                user=self._user,
                kind=arrivals.kind,
                priority=arrivals.priority,
                cost=self._costs[arrivals.kind],
                run_after=None if arrivals.delay_seconds is None else at + arrivals.delay_seconds,
                expires_at=None if arrivals.expires_after_seconds is None else at + arrivals.expires_after_seconds,
            )
            effects.send(QUEUE, submit)
            self._next = next(self._arrivals, None)

    def _set_timer(self, effects: Effects) -> None:
        effects.timer = self._next[0] if self._next is not None else NEVER


def _merged(scenario: Scenario, user: User) -> Iterator[tuple[float, int, Arrivals]]:
    """All of a user's arrivals in order of time, then of their place in the file."""

    def stream(number: int, arrivals: Arrivals) -> Iterator[tuple[float, int, Arrivals]]:
        random = Random(f"{scenario.seed}/arrivals/{user.name}/{number}")
        return ((at, number, arrivals) for at in arrivals.times(random, scenario.duration_seconds))

    streams = [stream(number, arrivals) for number, arrivals in enumerate(user.arrivals)]
    return merge(*streams, key=lambda item: item[:2])
