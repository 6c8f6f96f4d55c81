"""Faults that happen at a time: crashes between messages, leaps of the clock, workers that retire, orders at random, and the end
of the whole process.

The run asks when the next is due, as it asks the host for its next timer. All that chaos has to say goes through the
host's mailbox, like everything else.
"""

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from heapq import heappop, heappush
from typing import Any

from actors.actor import NEVER
from actors.host import HOST, Host
from actors.messages import QUEUE, SCHEDULER, Address, Pause, Resume, Retire, SetLimit, SetWeight
from actors.table import Noted
from actors.worker import Worker
from sim.faults import ClockJump, Crash, Kill, PowerLoss, Reconfigure, Stop, TimedFault
from sim.gate import FaultGate
from sim.injection import CrashNow, Injection
from sim.journal import SimulatedJournal
from sim.scenario import Scenario

__all__ = ["Chaos"]

Action = Callable[[], None]


class Chaos:
    """Does what is due."""

    def __init__(
        self,
        scenario: Scenario,
        host: Host,
        injection: Injection,
        gate: FaultGate,
        journal: SimulatedJournal | None = None,
    ) -> None:
        self._scenario = scenario
        self._host = host
        self._injection = injection
        self._gate = gate
        self._journal = journal
        self._due: list[tuple[float, int, Action]] = []
        self._count = 0
        self._restoring: dict[str, Any] = {}
        """What puts back what was changed, by what that is."""
        self._in_force: dict[str, Any] = {}
        """The last order about everything that there ever was one about."""
        for number, fault in enumerate(scenario.faults):
            if isinstance(fault, TimedFault):
                for at in self._moments(number, fault):
                    self._plan(at, partial(self._strike, number, fault))
            elif isinstance(fault, Reconfigure):
                self._plan_orders(number, fault)

    def begin_life(self, host: Host) -> None:
        """The process began again, on this host: the last orders may be lost, and are given again."""
        self._host = host
        for what, order in self._in_force.items():
            self._order(what, order)

    @property
    def next_at(self) -> float:
        """When the next fault is due, or NEVER."""
        return self._due[0][0] if self._due else NEVER

    def act(self) -> None:
        """Let the next fault happen."""
        _, _, action = heappop(self._due)
        action()

    def _plan(self, at: float, action: Action) -> None:
        self._count += 1
        heappush(self._due, (at, self._count, action))

    def _moments(self, number: int, fault: TimedFault) -> Iterator[float]:
        if fault.at_seconds is not None:
            yield fault.at_seconds
        if fault.until_seconds is not None:
            window_seconds = fault.until_seconds - fault.from_seconds
            for count in range(fault.times):
                yield fault.from_seconds + window_seconds * self._injection.draw(number, "at", "", count)

    def _strike(self, number: int, fault: TimedFault) -> None:
        host = self._host
        match fault:
            case Crash():
                for address in self._targets(fault.target):
                    if self._injection.may_crash(address):
                        self._injection.fire(number, address)
                        host.post(HOST, address, CrashNow())
            case ClockJump():
                self._injection.fire(number, f"{fault.seconds:g} s ahead", fault.seconds)
                host.now += fault.seconds
                self._gate.leap(host.now)
            case Kill(when="at_once") | PowerLoss():
                self._store().kill(number, fault)
            case Kill():
                self._store().planned.append((number, fault))
            case Stop():
                for address in self._targets(fault.target):
                    if isinstance(host.core(address), Worker):
                        self._retire(number, fault, address)

    def _store(self) -> SimulatedJournal:
        assert self._journal is not None, "a scenario whose process is killed has a store"
        return self._journal

    def _targets(self, pattern: str) -> list[Address]:
        return [address for address in self._host.addresses() if fnmatchcase(address, pattern)]

    # Workers that retire

    def _retire(self, number: int, fault: Stop, worker: Address) -> None:
        self._injection.fire(number, worker)
        self._host.post(HOST, worker, Retire(fault.at_once))
        if fault.back_after_seconds is not None:
            self._plan(self._host.now + fault.back_after_seconds, partial(self._bring_back, worker, fault))

    def _bring_back(self, worker: Address, fault: Stop) -> None:
        """A worker that has retired begins anew; one that is still at its last task does so later."""
        core = self._host.core(worker)
        assert isinstance(core, Worker) and fault.back_after_seconds is not None, "it retired, to come back"
        if not self._host.table.notes(worker).get("retiring"):
            # It came back with the whole process.
            return
        if core.owes_report:
            self._plan(self._host.now + fault.back_after_seconds, partial(self._bring_back, worker, fault))
            return
        self._host.table.apply(Noted(worker, {"retiring": None}))
        self._host.restart(worker)

    # Orders at random

    def _plan_orders(self, number: int, fault: Reconfigure) -> None:
        count, at = 0, fault.from_seconds
        while at < fault.until_seconds:
            self._plan(at, partial(self._give_order, number, count))
            count += 1
            at = fault.from_seconds + count * fault.every_seconds
        self._plan(fault.until_seconds, self._restore)

    def _give_order(self, number: int, count: int) -> None:
        """Change something; or, if something is paused, let it go on: both at once would meet on their way."""
        if paused := [key for key in self._restoring if key.startswith("pause")]:
            self._order(paused[0], self._restoring.pop(paused[0]))
            return

        def draw(what: str, choices: Any) -> Any:
            return choices[int(self._injection.draw(number, what, "", count) * len(choices))]

        user, kind = draw("user", self._scenario.each_user()), draw("kind", self._scenario.kinds)
        cap = draw("cap", range(1, len(self._scenario.worker_classes()) + 1))
        user_limit = SetLimit(user=user.name, rate_limit=user.rate_limit, concurrency_max=user.concurrency_max)
        kind_limit = SetLimit(kind=kind.name, rate_limit=kind.rate_limit, concurrency_max=kind.concurrency_max)
        orders: dict[str, tuple[Any, Any]] = {
            f"weight of {user.name}": (
                SetWeight(user.name, draw("weight", (0.25, 0.5, 2.0, 4.0))),
                SetWeight(user.name, user.weight),
            ),
            f"limit of user {user.name}": (SetLimit(user=user.name, concurrency_max=cap), user_limit),
            f"limit of kind {kind.name}": (SetLimit(kind=kind.name, concurrency_max=cap), kind_limit),
            f"rate of kind {kind.name}": (SetLimit(kind=kind.name, rate_limit=float(cap)), kind_limit),
            f"pause of user {user.name}": (Pause(user=user.name), Resume(user=user.name)),
            f"pause of kind {kind.name}": (Pause(kind.name), Resume(kind.name)),
        }
        what = draw("what", list(orders))
        order, restoring = orders[what]
        self._injection.fire(number, what)
        self._order(what, order)
        self._restoring[what] = restoring

    def _restore(self) -> None:
        """One order after the other, each when all that followed from the last is done: a grant that one of them brought about
        could meet the next on its way."""
        for what, order in self._restoring.items():
            self._plan(self._host.now, partial(self._order, what, order))
        self._restoring.clear()

    def _order(self, what: str, order: Any) -> None:
        self._in_force[what] = order
        self._host.post(HOST, SCHEDULER, order)
        if isinstance(order, SetWeight):
            self._host.post(HOST, QUEUE, order)
