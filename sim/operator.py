"""The operator of a simulated runtime: changes it on the way, at the times that a scenario says."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import attrs

from actors.actor import NEVER, Draw, Effects
from actors.errors import InvalidConfig
from actors.messages import (
    QUEUE,
    SCHEDULER,
    Address,
    Failed,
    Pause,
    Resume,
    Retire,
    SetLimit,
    SetWeight,
    Wake,
    WorkerClass,
)
from actors.validators import finite, greater_than, or_none, whole
from sim.pool import Pool, Workers

__all__ = [
    "ACTIONS",
    "OPERATOR",
    "AddWorkersEvent",
    "Operator",
    "PauseEvent",
    "ResumeEvent",
    "RetireWorkersEvent",
    "SetLimitEvent",
    "SetWeightEvent",
    "TimedEvent",
    "retirement_faults",
]

OPERATOR: Address = "operator"


@attrs.frozen(kw_only=True)
class _Event:
    at_seconds: float = attrs.field(validator=finite(0))
    """When."""
    user: str | None = None
    """Which user; without a user and a kind it is about everything."""
    kind: str | None = None
    """Which kind."""

    def __attrs_post_init__(self) -> None:
        if self.user is not None and self.kind is not None:
            raise InvalidConfig("event must name a user or a kind, not both")


@attrs.frozen(kw_only=True)
class PauseEvent(_Event):
    """A user, a kind or everything is paused."""

    def message(self) -> Pause:
        """What the scheduler is told."""
        return Pause(self.kind, self.user)


@attrs.frozen(kw_only=True)
class ResumeEvent(_Event):
    """A user, a kind or everything goes on."""

    def message(self) -> Resume:
        """What the scheduler is told."""
        return Resume(self.kind, self.user)


@attrs.frozen(kw_only=True)
class SetWeightEvent(_Event):
    """A user, or everybody below a name, weighs so much from now on."""

    weight: float = attrs.field(validator=greater_than(0))
    """So much."""

    def __attrs_post_init__(self) -> None:
        if self.user is None or self.kind is not None:
            raise InvalidConfig("event set_weight must name a user")

    def message(self) -> SetWeight:
        """What the scheduler is told."""
        assert self.user is not None, "checked when it was made"
        return SetWeight(self.user, self.weight)


@attrs.frozen(kw_only=True)
class SetLimitEvent(_Event):
    """A user, a kind or everything is held to these limits from now on."""

    rate_limit: float | None = attrs.field(default=None, validator=or_none(greater_than(0)))
    """Starts a second; without it, any number."""
    concurrency_max: int | None = attrs.field(default=None, validator=or_none(whole(0)))
    """Tasks at once; without it, any number."""

    def message(self) -> SetLimit:
        """What the scheduler is told."""
        return SetLimit(
            kind=self.kind, user=self.user, rate_limit=self.rate_limit, concurrency_max=self.concurrency_max
        )


@attrs.frozen(kw_only=True)
class AddWorkersEvent(Workers):
    """More workers come, numbered on from those that there are."""

    at_seconds: float = attrs.field(validator=finite(0))
    """When."""


@attrs.frozen(kw_only=True)
class RetireWorkersEvent:
    """Workers go; those who came last go first."""

    at_seconds: float = attrs.field(validator=finite(0))
    """When."""
    count: int = attrs.field(default=1, validator=whole(1))
    """How many."""
    at_once: bool = False
    """Whether they give back what they are running; else they end it first."""


TimedEvent = PauseEvent | ResumeEvent | SetWeightEvent | SetLimitEvent | AddWorkersEvent | RetireWorkersEvent
ACTIONS: dict[str, type[Any]] = {
    "pause": PauseEvent,
    "resume": ResumeEvent,
    "set_weight": SetWeightEvent,
    "set_limit": SetLimitEvent,
    "add_workers": AddWorkersEvent,
    "retire_workers": RetireWorkersEvent,
}


def retirement_faults(events: Sequence[TimedEvent], workers: int) -> Iterator[str]:
    """A fault for each event that retires more workers than there are by then, of so many at the beginning."""
    for number, event in sorted(enumerate(events), key=lambda numbered: numbered[1].at_seconds):
        if isinstance(event, AddWorkersEvent):
            workers += event.count
        elif isinstance(event, RetireWorkersEvent):
            if event.count > workers:
                yield f"event[{number}].count must be at most the workers that there are by then, {workers}, got {event.count}"
            workers = max(0, workers - event.count)


class Operator:
    """The core of the operator: does what is due, in the order of the file where times are equal.

    `hire` starts the actor of a worker that comes: no message could, because nobody is there to receive it.
    """

    passive = False

    def __init__(
        self,
        events: Sequence[TimedEvent],
        kinds: Collection[str],
        pool: Pool,
        hire: Callable[[Address, WorkerClass], None],
    ) -> None:
        self._events = sorted(events, key=lambda event: event.at_seconds)
        self._kinds = kinds
        self._pool = pool
        self._hire = hire
        self.given: list[tuple[Address, Any]] = []
        """Every order so far, with whom it was given to: a runtime that comes back may have lost the last, and takes all again."""

    def start(self, now: float) -> Effects:
        effects = Effects()
        self._set_timer(effects)
        return effects

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        effects = Effects()
        match message:
            case Wake():
                while self._events and self._events[0].at_seconds <= now:
                    self._do(self._events.pop(0), effects)
                self._set_timer(effects)
            case Failed(message=Pause() | Resume() | SetWeight() | SetLimit() | Retire() as order):
                effects.send(message.receiver, order)
            case _:
                raise TypeError(f"operator cannot handle {message!r}")
        return effects

    def _do(self, event: TimedEvent, effects: Effects) -> None:
        match event:
            case AddWorkersEvent():
                worker_class = event.worker_class(self._kinds)
                for _ in range(event.count):
                    self._hire(self._pool.add(worker_class), worker_class)
            case RetireWorkersEvent():
                for address in self._pool.retire(event.count):
                    effects.send(address, Retire(event.at_once))
            case SetWeightEvent():
                # The door shares by weight too.
                self._give(event.message(), effects, SCHEDULER, QUEUE)
            case _:
                self._give(event.message(), effects, SCHEDULER)

    def _give(self, order: Any, effects: Effects, *receivers: Address) -> None:
        for receiver in receivers:
            effects.send(receiver, order)
            self.given.append((receiver, order))

    def _set_timer(self, effects: Effects) -> None:
        effects.timer = self._events[0].at_seconds if self._events else NEVER
