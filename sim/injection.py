"""Whether a fault happens, and how often it did: what everything that breaks something shares.

Draws are keyed by the fault, the task and its attempt where there is a task, and else by whom it is about and how often that
was asked. So a fault hits the same execution whatever the policies are, and one fault more in a file leaves the others alone.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import attrs
import msgspec

from actors.actor import Draw
from actors.messages import Address
from actors.table import Table
from actors.trace import Event, FaultInjected
from sim.faults import ChanceFault, Fault, name_of

__all__ = ["CrashNow", "FaultCount", "InjectedCrash", "Injection"]

CRASHES_MAX, CRASHES_WINDOW_SECONDS = 3, 5.0
"""No actor is crashed more often within such a time: so much is borne, and more ends the runtime, as it should."""


class InjectedCrash(Exception):
    """An actor crashes because the scenario says so."""


class CrashNow(msgspec.Struct, frozen=True):
    """Nobody understands this: whoever is given it crashes."""


@attrs.frozen(kw_only=True)
class FaultCount:
    """How often a fault happened.

    >>> FaultCount(fault="crash", target="scheduler", fired=2).fired
    2
    """

    fault: str
    target: str
    """Whom it was meant for; empty if it could be anybody."""
    fired: int


class Injection:
    """Decides, counts, and says so in the trace."""

    def __init__(
        self,
        faults: Sequence[Fault],
        table: Table,
        draw: Draw,
        observe: Callable[[Event], None],
        now: Callable[[], float],
    ) -> None:
        self.faults = faults
        self._now = now
        self._table = table
        self._draw = draw
        self._observe = observe
        self._fired: Counter[int] = Counter()
        self._crashes: defaultdict[Address, list[float]] = defaultdict(list)
        """When each actor crashed of late."""

    def begin_life(self, table: Table) -> None:
        """The process began again, with this table. What had happened has happened."""
        self._table = table

    def of(self, *kinds: type) -> list[int]:
        """The numbers of the faults that are of these classes."""
        return [number for number, fault in enumerate(self.faults) if isinstance(fault, kinds)]

    def draw(self, number: int, what: str, about: str, count: int) -> float:
        """A number in [0, 1) that belongs to one fault."""
        return self._draw(f"fault/{number}/{what}", about, count)

    def strikes(self, number: int, about: str, count: int) -> bool:
        """Whether a fault that takes its chances takes this one."""
        fault = self.faults[number]
        assert isinstance(fault, ChanceFault), "timed faults take no chances"
        return (
            fault.is_open(self._now())
            and not self._is_spent(number)
            and (fault.probability >= 1 or self.draw(number, "strikes", about, count) < fault.probability)
        )

    def fire(self, number: int, target: str, seconds: float = 0.0) -> bool:
        """It happens; unless it has happened often enough since it was decided."""
        if self._is_spent(number):
            return False
        self._fired[number] += 1
        self._observe(FaultInjected(self._now(), name_of(self.faults[number]), number, target, seconds))
        return True

    def may_crash(self, address: Address) -> bool:
        """Whether an actor can bear to crash now; if so, it is taken that it does."""
        since = self._now() - CRASHES_WINDOW_SECONDS
        recent = [at for at in self._crashes[address] if at >= since]
        if len(recent) >= CRASHES_MAX:
            return False
        self._crashes[address] = [*recent, self._now()]
        return True

    def task_name(self, task_id: str) -> str:
        """A task as the trace knows it."""
        task = self._table.get(task_id)
        return task_id if task is None else task.identity

    def counts(self) -> tuple[FaultCount, ...]:
        """How often each happened, in the order of the file."""
        return tuple(
            FaultCount(fault=name_of(fault), target=_target(fault), fired=self._fired[number])
            for number, fault in enumerate(self.faults)
        )

    def _is_spent(self, number: int) -> bool:
        most: int | None = getattr(self.faults[number], "fires_max", None)
        return most is not None and self._fired[number] >= most


def _target(fault: Fault) -> str:
    """The narrowest thing that it is about."""
    for name in ("user", "kind", "target"):
        if (found := getattr(fault, name, None)) is not None:
            return str(found)
    return ""
