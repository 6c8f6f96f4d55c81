"""The operator of a simulated runtime: pauses, resumes, reweights and limits at the times that a scenario says."""

from collections.abc import Sequence
from typing import Any

import attrs

from actors.actor import NEVER, Draw, Effects
from actors.errors import InvalidConfig
from actors.messages import SCHEDULER, Address, Failed, Pause, Resume, SetLimit, SetWeight, Wake
from actors.validators import finite, greater_than, or_none, whole

__all__ = [
    "ACTIONS",
    "OPERATOR",
    "Operator",
    "PauseEvent",
    "ResumeEvent",
    "SetLimitEvent",
    "SetWeightEvent",
    "TimedEvent",
]

OPERATOR: Address = "operator"


@attrs.frozen(kw_only=True)
class _Event:
    at_seconds: float = attrs.field(validator=finite(0))
    user: str | None = None
    kind: str | None = None

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
    concurrency_max: int | None = attrs.field(default=None, validator=or_none(whole(0)))

    def message(self) -> SetLimit:
        """What the scheduler is told."""
        return SetLimit(
            kind=self.kind, user=self.user, rate_limit=self.rate_limit, concurrency_max=self.concurrency_max
        )


TimedEvent = PauseEvent | ResumeEvent | SetWeightEvent | SetLimitEvent
ACTIONS: dict[str, type[Any]] = {
    "pause": PauseEvent,
    "resume": ResumeEvent,
    "set_weight": SetWeightEvent,
    "set_limit": SetLimitEvent,
}


class Operator:
    """The core of the operator: does what is due, in the order of the file where times are equal."""

    passive = False

    def __init__(self, events: Sequence[TimedEvent]) -> None:
        self._events = sorted(events, key=lambda event: event.at_seconds)

    def start(self, now: float) -> Effects:
        effects = Effects()
        self._set_timer(effects)
        return effects

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        effects = Effects()
        match message:
            case Wake():
                while self._events and self._events[0].at_seconds <= now:
                    effects.send(SCHEDULER, self._events.pop(0).message())
                self._set_timer(effects)
            case Failed(message=Pause() | Resume() | SetWeight() | SetLimit() as order):
                effects.send(SCHEDULER, order)
            case _:
                raise TypeError(f"operator cannot handle {message!r}")
        return effects

    def _set_timer(self, effects: Effects) -> None:
        effects.timer = self._events[0].at_seconds if self._events else NEVER
