"""What holds of a trace: a process that ended and began again with what its store had has undone the rest.

Nobody was told of what was undone, so whoever draws conclusions from a trace leaves it out.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar, runtime_checkable

from actors.trace import Event, Restored

__all__ = ["Refolded", "standing"]

T = TypeVar("T")


@runtime_checkable
class Refolded(Protocol):
    """An observer that can begin anew, to be shown what holds."""

    def start_over(self) -> None:
        """Nothing has been seen yet."""

    def on_event(self, event: Event) -> None:
        """Something happened."""

    def on_quiet(self, now: float) -> None:
        """Nothing is under way."""


def standing(events: Iterable[T]) -> list[T]:
    """The events that hold, those included that say that something was undone.

    >>> standing(["a", "b", "c", Restored(1.0, 1, 2.0), "d"])
    ['a', Restored(at=1.0, kept=1, resumed_at=2.0), 'd']
    """
    holding: list[T] = []
    for event in events:
        if isinstance(event, Restored):
            del holding[event.kept :]
        holding.append(event)
    return holding
