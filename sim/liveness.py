"""I2, for runs whose faults have an end: after them, every task that was admitted ends too.

A safety run cannot be judged by this: while faults go on, a task may be kept from ending for as long as they do.
"""

from actors.table import Table
from sim.invariants import Violation

__all__ = ["EVERYTHING_ENDS", "unended"]

EVERYTHING_ENDS = "I2 everything ends"


def unended(table: Table, now: float) -> list[Violation]:
    """A violation for each task that nothing will end any more.

    >>> unended(Table(), 10.0)
    []
    """
    return [
        Violation(EVERYTHING_ENDS, now, f"{task.identity} is {task.status} after {task.attempts} attempts")
        for task in table.every_live()
    ]
