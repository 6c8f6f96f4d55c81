"""Runs a scenario: the runtime's own cores on virtual time, as a plain synchronous call.

When no message is under way the clock jumps to the next timer. Nothing depends on the machine: the same scenario, seed
and version give the same trace, byte for byte, in any process.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import BinaryIO, TypeVar

import attrs

from actors.actor import NEVER, Core, keyed_draw
from actors.config import Settings
from actors.errors import Livelock
from actors.explain import Explanation, explain_task
from actors.host import Gate, Host, Journal
from actors.messages import SCHEDULER, Address, WorkerClass, worker_address
from actors.policies import ORDERING, SHARING
from actors.policies.ordering import OrderingPolicy
from actors.policies.sharing import SharingPolicy
from actors.scheduler import Scheduler
from actors.table import Table
from actors.wiring import TREE, notes_of, spawn_cores
from actors.worker import Worker
from sim.invariants import Observer
from sim.observation import Observation, SimulationResult
from sim.operator import OPERATOR, Operator
from sim.scenario import Scenario
from sim.worker import SimulatedExecutor
from sim.workload import Source, source_address

__all__ = ["Simulation", "simulate", "spawn_world", "with_options"]

C = TypeVar("C", bound=Core)

MESSAGES_PER_INSTANT_MAX = 1_000_000
"""Far more than any instant needs: sources submit at most a thousand tasks at once."""


class Simulation:
    """A scenario being run, for those who want to reach in: `simulate` is the plain way.

    >>> from sim import Scenario, Kind, User, Burst, Fixed
    >>> kind = Kind(name="work", service=Fixed(seconds=1.0))
    >>> user = User(name="alice", arrivals=(Burst(kind="work", count=3),))
    >>> simulation = Simulation(Scenario(name="demo", duration_seconds=10.0, kinds=(kind,), users=(user,)))
    >>> simulation.run()
    >>> simulation.result().virtual_seconds
    1.0
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        observers: Sequence[Observer] = (),
        trace: BinaryIO | None = None,
        gate: Gate | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.scenario = scenario
        self.table = Table()
        self._settings = settings = scenario.settings()
        workers = {worker_address(number): found for number, found in enumerate(scenario.worker_classes(), start=1)}
        self._observation = Observation(scenario, settings, self.table, workers, observers, trace)
        self.ledger, self.metrics = self._observation.ledger, self._observation.metrics
        draw, observe = keyed_draw(scenario.seed), self._observation.on_event
        self.host = Host(self.table, draw, observe=observe, gate=gate, journal=journal, supervision=TREE)
        self._observation.follow(self.host)
        self._populate(settings, workers)

    def run(self, until: float = NEVER) -> None:
        """Drain, let the observers look, jump to the next timer; until there is none, or none by that time."""
        host = self.host
        while True:
            if not host.drain(MESSAGES_PER_INSTANT_MAX):
                raise Livelock(f"{MESSAGES_PER_INSTANT_MAX} messages at {host.now:g} s and no end")
            at = host.next_timer()
            if at > host.now:
                self._observation.on_quiet(host.now)
            if at == NEVER:
                self._observation.on_end(host.now)
            if at == NEVER or at > until:
                return
            if at > host.now:
                host.now = at
            host.fire()

    def explain(self, task_id: str) -> Explanation:
        """Why a task is where it is now."""
        scheduler = self.host.core(SCHEDULER)
        assert isinstance(scheduler, Scheduler), "the scheduler is always there"
        return explain_task(task_id, self.table, scheduler, self._settings, self.host.now)

    def result(self, wall_seconds: float = 0.0) -> SimulationResult:
        """What the run came to so far."""
        return self._observation.result(wall_seconds)

    def _populate(self, settings: Settings, workers: Mapping[Address, WorkerClass]) -> None:
        table = self.table
        kinds = {kind.name: kind for kind in self.scenario.kinds}

        def worker(address: Address, worker_class: WorkerClass) -> Callable[[], Worker]:
            executor = SimulatedExecutor(address, kinds)
            return lambda: Worker(address, worker_class, executor, table, notes_of(table, address))

        spawn_cores(self.host, settings)
        for address, worker_class in workers.items():
            self.host.spawn(address, worker(address, worker_class))
        spawn_world(self.host, self.scenario)


def spawn_world(host: Host, scenario: Scenario) -> None:
    """Start whoever is around the runtime: those who submit, and its operator.

    One that crashed carries on where it was: what it did is not done again.
    """
    for user in scenario.each_user():
        if user.arrivals:
            host.spawn(source_address(user.name), partial(_same, Source(scenario, user)))
    if scenario.events:
        host.spawn(OPERATOR, partial(_same, Operator(scenario.events)))


def with_options(
    scenario: Scenario,
    *,
    seed: int | None = None,
    sharing: SharingPolicy | str | None = None,
    ordering: OrderingPolicy | str | None = None,
) -> Scenario:
    """The same scenario with another seed or policies, where they are given."""
    runtime = scenario.runtime
    if sharing is not None:
        runtime = attrs.evolve(runtime, sharing=SHARING.make(sharing))
    if ordering is not None:
        runtime = attrs.evolve(runtime, ordering=ORDERING.make(ordering))
    return attrs.evolve(scenario, runtime=runtime, seed=scenario.seed if seed is None else seed)


def simulate(
    scenario: Scenario,
    *,
    seed: int | None = None,
    sharing: SharingPolicy | str | None = None,
    ordering: OrderingPolicy | str | None = None,
    observers: Sequence[Observer] = (),
    trace: BinaryIO | None = None,
) -> SimulationResult:
    """Run a scenario on virtual time, with another seed or policies if given.

    >>> from sim import Scenario, Kind, User, Burst, Fixed
    >>> kind = Kind(name="work", service=Fixed(seconds=2.0))
    >>> user = User(name="alice", arrivals=(Burst(kind="work", count=9),))
    >>> result = simulate(Scenario(name="demo", duration_seconds=10.0, kinds=(kind,), users=(user,)))
    >>> result.verdict, result.jobs, result.virtual_seconds, result.users["alice"].wait_seconds_max
    ('pass', 9, 4.0, 2.0)
    """
    scenario = with_options(scenario, seed=seed, sharing=sharing, ordering=ordering)
    began = time.perf_counter()
    simulation = Simulation(scenario, observers=observers, trace=trace)
    simulation.run()
    return simulation.result(time.perf_counter() - began)


def _same(core: C) -> C:
    return core
