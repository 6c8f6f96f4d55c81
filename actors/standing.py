"""How a user stands with one of its kinds, as far as the scheduler knows: what `explain` is told."""

import attrs

__all__ = ["Standing"]


@attrs.frozen
class Standing:
    """How a user stands with one of its kinds: all that may hold such a task back, besides the task itself.

    >>> Standing().handled
    True
    """

    paused: tuple[str, ...] = ()
    """What is paused: `all`, `kind/...`, `user/...`."""
    limited: tuple[tuple[str, float], ...] = ()
    """What is at its limit, and when it is free again; infinity: when something ends."""
    handled: bool = True
    """Whether any worker runs this kind."""
    reachable: bool = True
    """Whether any worker that runs this kind may serve this user."""
    idle: bool = True
    """Whether such a worker is idle."""
    front: str | None = None
    """Whose turn it is, if it is another's."""
    gap: float | None = None
    """By how much, in seconds of work per weight, where the policy counts that."""
    competing: frozenset[str] = frozenset()
    """The user's kinds that go by rank with this one: neither held back nor limited, and run by the same workers."""
