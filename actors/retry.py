"""When a failed execution is tried again.

After the n-th failed execution the delay is `min(base * factor ** (n - 1), max)`, spread evenly over plus or minus
`jitter` of itself, so that tasks that failed together do not come back together. The wait is the queue's (`run_after`),
never a sleep in a worker.
"""

from collections.abc import Iterable

import attrs

from actors.validators import between, finite, whole

__all__ = ["RetryPolicy"]


def _names(classes: "str | type[BaseException] | Iterable[str | type[BaseException]]") -> tuple[str, ...]:
    """Exception classes by their names, which is what survives a store and a process.

    >>> _names((OSError, "HTTPError")), _names(ValueError)
    (('OSError', 'HTTPError'), ('ValueError',))
    """
    if isinstance(classes, (str, type)):
        classes = (classes,)
    return tuple(found.__name__ if isinstance(found, type) else str(found) for found in classes)


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """How often and how soon a failed task runs again.

    >>> policy = RetryPolicy(base_seconds=10, factor=2, max_seconds=25, jitter=0.2)
    >>> [policy.delay_seconds(failures, 0.5) for failures in (1, 2, 3)]
    [10.0, 20.0, 25.0]
    >>> policy.delay_seconds(1, 0.0), policy.delay_seconds(2, 0.75)
    (8.0, 22.0)
    """

    max_retries: int = attrs.field(default=3, validator=whole(0))
    """Executions after the first; 0 runs once."""
    base_seconds: float = attrs.field(default=10.0, validator=finite(0))
    """The delay after the first failure."""
    factor: float = attrs.field(default=2.0, validator=finite(1))
    """What each further failure multiplies the delay by."""
    max_seconds: float = attrs.field(default=21600.0, validator=finite(0))
    """No delay is longer, before jitter."""
    jitter: float = attrs.field(default=0.2, validator=between(0, 1))
    """The part of the delay by which it may be shorter or longer."""
    retry_on: tuple[str, ...] = attrs.field(default=(), converter=_names)
    """The exception classes worth another try, or their names; empty means all. A crash and a `Retry` are none of these."""
    give_up_on: tuple[str, ...] = attrs.field(default=(), converter=_names)
    """The exception classes that end the task at once, or their names; these win over `retry_on`."""

    def delay_seconds(self, failures: int, uniform: float) -> float:
        """The delay after `failures` failed executions; `uniform` in [0, 1) places it in the jitter band."""
        try:
            delay = min(self.base_seconds * self.factor ** (failures - 1), self.max_seconds)
        except OverflowError:
            delay = self.max_seconds if self.base_seconds else 0.0
        return delay * (1 + self.jitter * (2 * uniform - 1))

    def retries(self, error_types: Iterable[str]) -> bool:
        """Whether an error whose class and base classes have these names is worth another try.

        >>> policy = RetryPolicy(retry_on=("OSError",), give_up_on=("PermissionError",))
        >>> policy.retries(["TimeoutError", "OSError"]), policy.retries(["PermissionError", "OSError"])
        (True, False)
        """
        names = set(error_types)
        return not self.gives_up(names) and (not self.retry_on or not names.isdisjoint(self.retry_on))

    def gives_up(self, error_types: Iterable[str]) -> bool:
        """Whether an error whose class and base classes have these names ends the task at once.

        >>> RetryPolicy(give_up_on=("OSError",)).gives_up(["PermissionError", "OSError"])
        True
        """
        return not set(self.give_up_on).isdisjoint(error_types)
