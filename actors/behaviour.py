"""What an actor of people's own can be, and how it is built."""

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.errors import InvalidConfig

if TYPE_CHECKING:
    from actors.spawned import ActorContext

__all__ = ["Receive", "builder"]


Receive = Callable[[Any, "ActorContext"], Awaitable[Any]]
"""What handles a message; what it returns answers whoever asked."""


def builder(build: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[], Receive]:
    """What builds an actor, each time from the beginning. An async function is one as it is, and anything else makes one.

    >>> builder("counter", ())
    Traceback (most recent call last):
    actors.errors.InvalidConfig: an actor must be built by a function or a class, got 'counter'
    """
    if not callable(build):
        raise InvalidConfig(f"an actor must be built by a function or a class, got {build!r}")
    if not inspect.iscoroutinefunction(build):
        return lambda: _receive_of(build(*arguments))
    if arguments:
        raise InvalidConfig(f"an async function must be spawned without arguments, got {arguments!r}")
    return partial(_receive_of, build)


def _receive_of(behaviour: Any) -> Receive:
    receive = behaviour if inspect.iscoroutinefunction(behaviour) else getattr(behaviour, "receive", None)
    if not callable(receive) or (inspect.isroutine(receive) and not inspect.iscoroutinefunction(receive)):
        raise InvalidConfig(f"an actor must be an async function or have an async receive, got {behaviour!r}")
    return receive  # type: ignore[no-any-return]
