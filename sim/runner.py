"""Runs a scenario: the runtime's own cores on virtual time, as a plain synchronous call.

When no message is under way the clock jumps to the next timer. Nothing depends on the machine: the same scenario, seed
and version give the same trace, byte for byte, in any process.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import BinaryIO, TypeVar

import attrs

from actors.actor import NEVER, Core, keyed_draw
from actors.config import Settings
from actors.errors import InvalidConfig, Livelock
from actors.explain import Explanation, explain_task
from actors.host import Gate, Host, Journal
from actors.messages import SCHEDULER, Address, WorkerClass
from actors.policies import ORDERING, SHARING
from actors.policies.ordering import OrderingPolicy
from actors.policies.sharing import SharingPolicy
from actors.scheduler import Scheduler
from actors.table import Table
from actors.wiring import TREE, notes_of, spawn_cores
from actors.worker import Executor, Worker
from sim.chaos import Chaos
from sim.gate import FaultGate
from sim.injection import Injection
from sim.interleaving import Interleaving
from sim.invariants import Observer
from sim.observation import Observation, SimulationResult
from sim.operator import OPERATOR, Operator
from sim.planted import spawn_planted_cores
from sim.pool import Pool
from sim.scenario import Scenario
from sim.service import ServiceTimes
from sim.worker import FaultyExecutor, SimulatedExecutor
from sim.workload import RECORDING, Source, recorded_submits, source_address, user_submits

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
        self._pool = Pool(scenario.worker_classes())
        self._times = ServiceTimes({kind.name: kind for kind in scenario.each_kind()}, scenario.service_draws)
        self._observation = Observation(scenario, settings, self.table, self._pool, observers, trace)
        self.ledger, self.metrics = self._observation.ledger, self._observation.metrics
        draw, observe = keyed_draw(scenario.seed), self._observation.on_event
        self._injection = Injection(scenario.faults, self.table, draw, observe, lambda: self.host.now)
        self._gate = FaultGate(self._injection, self.table)
        if scenario.faults and gate is not None:
            raise InvalidConfig("gate must be none where the scenario has faults, which have their own")
        gate = self._gate if scenario.faults else gate
        order = scenario.interleaving.start() if scenario.interleaving is not None else None
        self.host = Host(self.table, draw, observe=observe, gate=gate, journal=journal, order=order, supervision=TREE)
        self._observation.follow(self.host)
        self._populate(settings)
        self._chaos = Chaos(scenario, self.host, self._injection, self._gate)
        if scenario.faults:
            self.ledger.crew.occupied = self._is_at_work

    def run(self, until: float = NEVER) -> None:
        """Drain, let the observers look, jump to the next timer or fault; until there is none, or none by that time."""
        host, chaos, has_faults = self.host, self._chaos, bool(self.scenario.faults)
        drain, next_timer, on_quiet = host.drain, host.next_timer, self._observation.on_quiet
        fault_at, now = NEVER, host.now
        while True:
            if not drain(MESSAGES_PER_INSTANT_MAX):
                raise Livelock(f"{MESSAGES_PER_INSTANT_MAX} messages at {now:g} s and no end")
            at = timer_at = next_timer()
            if has_faults:
                fault_at, now = chaos.next_at, host.now
                at = min(timer_at, fault_at)
            if at > now:
                if not (has_faults and self._gate.under_way(now)):
                    on_quiet(now)
                if at == NEVER:
                    self._observation.on_end(now)
            if at == NEVER or at > until:
                return
            if at > now:
                host.now = now = at
            # Both in the order in which they were due, which may be long ago if the clock leapt.
            if fault_at <= timer_at:
                chaos.act()
            else:
                host.fire()

    def explain(self, task_id: str) -> Explanation:
        """Why a task is where it is now."""
        scheduler = self.host.core(SCHEDULER)
        assert isinstance(scheduler, Scheduler), "the scheduler is always there"
        return explain_task(task_id, self.table, scheduler, self._settings, self.host.now)

    def result(self, wall_seconds: float = 0.0) -> SimulationResult:
        """What the run came to so far."""
        return self._observation.result(wall_seconds, self._injection.counts())

    def _is_at_work(self, worker: Address) -> bool:
        core = self.host.core(worker)
        return isinstance(core, Worker) and core.owes_report

    def _populate(self, settings: Settings) -> None:
        if self.scenario.runtime.planted:
            spawn_planted_cores(self.host, settings, self.scenario.runtime.planted)
        else:
            spawn_cores(self.host, settings)
        for address, worker_class in self._pool.classes.items():
            self._hire(address, worker_class)
        spawn_world(self.host, self.scenario, self._pool, self._hire)

    def _hire(self, address: Address, worker_class: WorkerClass) -> None:
        """Start the actor of a worker."""
        table = self.table
        executor: Executor = SimulatedExecutor(address, self._times)
        if self.scenario.faults:
            executor = FaultyExecutor(address, executor, self._injection)
        self.host.spawn(address, lambda: Worker(address, worker_class, executor, table, notes_of(table, address)))


def spawn_world(host: Host, scenario: Scenario, pool: Pool, hire: Callable[[Address, WorkerClass], None]) -> None:
    """Start whoever is around the runtime: those who submit, and its operator.

    One that crashed carries on where it was: what it did is not done again.
    """
    for user in scenario.each_user():
        if user.arrivals:
            host.spawn(source_address(user.name), partial(_same, Source(user_submits(scenario, user))))
    if scenario.workload is not None:
        host.spawn(RECORDING, partial(_same, Source(recorded_submits(scenario, scenario.workload))))
    if scenario.events:
        kinds = [kind.name for kind in scenario.each_kind()]
        host.spawn(OPERATOR, partial(_same, Operator(scenario.events, kinds, pool, hire)))


def with_options(
    scenario: Scenario,
    *,
    seed: int | None = None,
    sharing: SharingPolicy | str | None = None,
    ordering: OrderingPolicy | str | None = None,
    interleaving: Interleaving | None = None,
) -> Scenario:
    """The same scenario with another seed, policies or interleaving, where they are given."""
    runtime = scenario.runtime
    if sharing is not None:
        runtime = attrs.evolve(runtime, sharing=SHARING.make(sharing))
    if ordering is not None:
        runtime = attrs.evolve(runtime, ordering=ORDERING.make(ordering))
    return attrs.evolve(
        scenario,
        runtime=runtime,
        seed=scenario.seed if seed is None else seed,
        interleaving=scenario.interleaving if interleaving is None else interleaving,
    )


def simulate(
    scenario: Scenario,
    *,
    seed: int | None = None,
    sharing: SharingPolicy | str | None = None,
    ordering: OrderingPolicy | str | None = None,
    interleaving: Interleaving | None = None,
    observers: Sequence[Observer] = (),
    trace: BinaryIO | None = None,
) -> SimulationResult:
    """Run a scenario on virtual time, with another seed, policies or interleaving if given.

    >>> from sim import Scenario, Kind, User, Burst, Fixed
    >>> kind = Kind(name="work", service=Fixed(seconds=2.0))
    >>> user = User(name="alice", arrivals=(Burst(kind="work", count=9),))
    >>> result = simulate(Scenario(name="demo", duration_seconds=10.0, kinds=(kind,), users=(user,)))
    >>> result.verdict, result.jobs, result.virtual_seconds, result.users["alice"].wait_seconds_max
    ('pass', 9, 4.0, 2.0)
    """
    scenario = with_options(scenario, seed=seed, sharing=sharing, ordering=ordering, interleaving=interleaving)
    began = time.perf_counter()
    simulation = Simulation(scenario, observers=observers, trace=trace)
    simulation.run()
    return simulation.result(time.perf_counter() - began)


def _same(core: C) -> C:
    return core
