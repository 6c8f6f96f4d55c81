"""Looking at a runtime from tests: all of its events, and when it has come to rest."""

from typing import TypeVar

from actors import Runtime
from actors.trace import Event

E = TypeVar("E")


class Seen(list[Event]):
    """Events, in order."""

    def of(self, kind: type[E]) -> list[E]:
        """Those of one kind."""
        return [event for event in self if isinstance(event, kind)]

    def names(self) -> list[str]:
        """What happened, by name."""
        return [type(event).__name__ for event in self]


def seeing(runtime: Runtime) -> Seen:
    """Every event of a runtime from now on, those of its end included."""
    seen = Seen()
    runtime._engine.add_sink(seen.append)
    return seen
