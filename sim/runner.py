"""Runs a scenario: the runtime's own cores on virtual time, as a plain synchronous call.

When no message is under way the clock jumps to the next timer, fault or commit. Nothing depends on the machine: the same
scenario, seed and version give the same trace, byte for byte, in any process.

Where the scenario has a store, the runtime may end and begin again: a new host and a new table, with what the store has, by the
code that restores a runtime on real time. Those who submit, the operator and the faults go on as they were.
"""

import time
from collections.abc import Sequence
from typing import BinaryIO

import attrs

from actors.actor import NEVER, keyed_draw
from actors.errors import InvalidConfig, Livelock
from actors.explain import Explanation, explain_task
from actors.host import HOST, Gate, Host, Journal
from actors.messages import SCHEDULER, Address, WorkerClass
from actors.policies import ORDERING, SHARING
from actors.policies.ordering import OrderingPolicy
from actors.policies.sharing import SharingPolicy
from actors.restoring import restore, resume
from actors.scheduler import Scheduler
from actors.table import Table
from actors.wiring import TREE, notes_of, spawn_cores
from actors.worker import Executor, Worker
from sim.chaos import Chaos
from sim.gate import FaultGate
from sim.injection import Injection
from sim.interleaving import Interleaving
from sim.invariants import Ledger, Observer
from sim.journal import SimulatedJournal
from sim.metrics import Metrics
from sim.observation import Observation, SimulationResult
from sim.operator import OPERATOR, Operator
from sim.planted import EARLY, spawn_planted_cores
from sim.pool import Pool
from sim.scenario import Scenario
from sim.service import ServiceTimes
from sim.worker import FaultyExecutor, SimulatedExecutor
from sim.world import spawn_world, world_of

__all__ = ["Simulation", "simulate", "with_options"]

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
        self._draw, self._observe = keyed_draw(scenario.seed), self._observation.on_event
        self._injection = Injection(scenario.faults, self.table, self._draw, self._observe, lambda: self.host.now)
        self._gate = FaultGate(self._injection, self.table)
        if scenario.faults and gate is not None:
            raise InvalidConfig("gate must be none where the scenario has faults, which have their own")
        if scenario.runtime.store is not None and journal is not None:
            raise InvalidConfig("journal must be none where the scenario has a store, which has its own")
        self._host_gate = self._gate if scenario.faults else gate
        self._store = self._journal_of(scenario)
        self._journal = journal if self._store is None else self._store
        self._world = world_of(scenario, self._pool, self._hire, self._injection.task_name)
        self._back_at = NEVER
        """When a process that has ended begins again."""
        self.host = self._new_host()
        self._spawn_cores()
        self._populate()
        self._chaos = Chaos(scenario, self.host, self._injection, self._gate, self._store)

    @property
    def ledger(self) -> Ledger:
        """What checks the invariants."""
        return self._observation.ledger

    @property
    def metrics(self) -> Metrics:
        """What measures."""
        return self._observation.metrics

    def run(self, until: float = NEVER) -> None:
        """Drain, let the observers look, jump to what is next in time; until there is nothing, or nothing by that time."""
        while self._run_life(until):
            if self._back_at > until:
                return
            self._begin_again()

    def _run_life(self, until: float) -> bool:
        """Whether the process ended, and is to begin again."""
        host, store, chaos, has_faults = self.host, self._store, self._chaos, bool(self.scenario.faults)
        drain, next_timer, on_quiet = host.drain, host.next_timer, self._observation.on_quiet
        fault_at, commit_at, now, is_quiet = NEVER, NEVER, host.now, True
        while self._back_at == NEVER:
            if not drain(MESSAGES_PER_INSTANT_MAX):
                raise Livelock(f"{MESSAGES_PER_INSTANT_MAX} messages at {now:g} s and no end")
            if has_faults:
                fault_at, now = chaos.next_at, host.now
                is_quiet = not self._gate.under_way(now)
            if store is not None:
                if is_quiet and store.begin(now):
                    continue
                commit_at = store.done_at
            at = next_timer()
            if has_faults or store is not None:
                at = min(at, fault_at, commit_at)
            if at > now:
                if is_quiet:
                    on_quiet(now)
                if at == NEVER:
                    self._observation.on_end(now)
            if at == NEVER or at > until:
                return False
            if at > now:
                host.now = now = at
            # In the order in which they were due, which may be long ago if the clock leapt.
            if fault_at == at:
                chaos.act()
            elif commit_at == at and store is not None:
                store.act(now)
            else:
                host.fire()
        return True

    def explain(self, task_id: str) -> Explanation:
        """Why a task is where it is now."""
        scheduler = self.host.core(SCHEDULER)
        assert isinstance(scheduler, Scheduler), "the scheduler is always there"
        return explain_task(task_id, self.table, scheduler, self._settings, self.host.now)

    def result(self, wall_seconds: float = 0.0) -> SimulationResult:
        """What the run came to so far."""
        commits = 0 if self._store is None else self._store.commits
        return self._observation.result(wall_seconds, self._injection.counts(), commits)

    # Lives

    def _journal_of(self, scenario: Scenario) -> SimulatedJournal | None:
        if scenario.runtime.store is None:
            return None
        is_early = EARLY in scenario.runtime.planted
        return SimulatedJournal(scenario.runtime.store, self._injection, self._observation.mark, self._end, is_early)

    def _end(self, back_after_seconds: float) -> None:
        self._back_at = self.host.now + back_after_seconds

    def _begin_again(self) -> None:
        """A new process, with nothing but what the store has: restored as on real time."""
        assert self._store is not None, "only what is stored outlives its process"
        now, self._back_at = self._back_at, NEVER
        mark = self._store.begin_life()
        self.table = Table()
        stored_at = restore(self._store.recovered, self.table)
        self._observation.restore(self.table, mark, stored_at, now)
        self._injection.begin_life(self.table)
        self._gate.begin_life(self.table)
        self.host = self._new_host()
        self.host.now = now
        resume(self.host, stored_at, self._spawn_cores)
        self._observation.check_shards(self.host)
        self._give_orders_again()
        self._populate()

    def _new_host(self) -> Host:
        order = self.scenario.interleaving.start() if self.scenario.interleaving is not None else None
        host = Host(
            self.table,
            self._draw,
            observe=self._observe,
            gate=self._host_gate,
            journal=self._journal,
            order=order,
            supervision=TREE,
        )
        self._observation.follow(host)
        if self.scenario.faults:
            self.ledger.crew.occupied = self._is_at_work
        return host

    def _spawn_cores(self) -> None:
        if self.scenario.runtime.planted:
            spawn_planted_cores(self.host, self._settings, self.scenario.runtime.planted)
        else:
            spawn_cores(self.host, self._settings)

    def _populate(self) -> None:
        """Start the workers that there are, and have everybody else meet the runtime."""
        for address, worker_class in self._pool.classes.items():
            if address not in self._pool.retired:
                self._hire(address, worker_class)
        spawn_world(self.host, self._world)

    def _give_orders_again(self) -> None:
        """Before there is any worker: a pause that met a grant would come too late for it."""
        if isinstance(operator := self._world.get(OPERATOR), Operator):
            for receiver, order in operator.given:
                self.host.post(HOST, receiver, order)
        self._chaos.begin_life(self.host)
        self.host.drain()

    def _is_at_work(self, worker: Address) -> bool:
        core = self.host.core(worker)
        return isinstance(core, Worker) and core.owes_report

    def _hire(self, address: Address, worker_class: WorkerClass) -> None:
        """Start the actor of a worker."""
        table = self.table
        executor: Executor = SimulatedExecutor(address, self._times)
        if self.scenario.faults:
            executor = FaultyExecutor(address, executor, self._injection)
        self.host.spawn(address, lambda: Worker(address, worker_class, executor, table, notes_of(table, address)))


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
