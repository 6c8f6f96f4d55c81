"""Full simulation: a scenario through the whole runtime, its trio tasks, handlers and cancel scopes included.

`simulate` runs the cores and skips the shell. Here the shell runs too: real worker tasks take runs from their channels and call
handlers, which sleep out the service time on a virtual clock. It shows what the cores cannot, at a hundredth of the speed.
Without faults, beats and threads both ways give the same task events: sleepers are woken one at a time, in the order of
(time, worker), as timers fire in the order of (time, address).
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, BinaryIO

from actors.actor import keyed_draw
from actors.context import CURRENT_WORKER, Context
from actors.engine import Engine
from actors.errors import InvalidConfig
from actors.execution import HandlerExecutor
from actors.handlers import Handler, Handlers
from actors.messages import Address, WorkerClass
from sim.determinism import VirtualClock, run_deterministically
from sim.invariants import Observer
from sim.observation import Observation, SimulationResult
from sim.operator import AddWorkersEvent, RetireWorkersEvent
from sim.pool import Pool
from sim.scenario import Kind, Scenario
from sim.world import spawn_world, world_of

__all__ = ["simulate_fully"]

CANCEL_GRACE_SECONDS = 5.0

Work = Callable[[Any, Context], Awaitable[None]]


def simulate_fully(
    scenario: Scenario,
    *,
    observers: Sequence[Observer] = (),
    trace: BinaryIO | None = None,
    scheduling_seed: int = 0,
) -> SimulationResult:
    """Run a scenario through the whole runtime on virtual time; `scheduling_seed` orders trio's tasks where that is open.

    >>> from sim import Burst, Fixed, Kind, Scenario, User, simulate
    >>> kind = Kind(name="work", service=Fixed(seconds=2.0))
    >>> user = User(name="alice", arrivals=(Burst(kind="work", count=9),))
    >>> scenario = Scenario(name="demo", duration_seconds=10.0, kinds=(kind,), users=(user,))
    >>> simulate_fully(scenario).trace_sha256 == simulate(scenario).trace_sha256
    True
    """
    _refuse_what_only_cores_do(scenario)
    began = time.perf_counter()
    full = _FullSimulation(scenario, observers, trace)
    run_deterministically(full.run, clock=full.clock, seed=scheduling_seed)
    return full.observation.result(time.perf_counter() - began)


def _refuse_what_only_cores_do(scenario: Scenario) -> None:
    if scenario.faults:
        raise InvalidConfig("fault must not be in a scenario that is simulated fully: the cores alone have faults")
    if scenario.runtime.store is not None:
        raise InvalidConfig("runtime.store must not be in a scenario that is simulated fully: the cores alone have one")
    if any(isinstance(event, (AddWorkersEvent, RetireWorkersEvent)) for event in scenario.events):
        raise InvalidConfig("a full simulation must have the same workers throughout: no event may add or retire any")
    if scenario.workload is not None:
        raise InvalidConfig("a full simulation must have no workload: only simulated workers do recorded work again")
    if scenario.service_draws != "task":
        raise InvalidConfig(f"service_draws must be 'task' in a full simulation, got {scenario.service_draws!r}")


def _nobody_comes(address: Address, worker_class: WorkerClass) -> None:
    raise AssertionError("such scenarios are refused")


class _FullSimulation:
    def __init__(self, scenario: Scenario, observers: Sequence[Observer], trace: BinaryIO | None) -> None:
        self._scenario = scenario
        self._observers = observers
        self._trace = trace
        self._draw = keyed_draw(scenario.seed)
        self.clock = VirtualClock(on_advance=self._on_advance)
        self.observation: Observation

    async def run(self) -> None:
        import trio

        settings, classes = self._scenario.settings(), self._scenario.worker_classes()
        handlers = Handlers(settings.kinds)
        for kind in self._scenario.kinds:
            work: Handler[Any, None] = Handler.of(kind.name, self._work(kind))
            handlers.add(work, settings.kinds[kind.name])
        engine = Engine(
            settings,
            classes,
            handlers,
            self._draw,
            resources={},
            cancel_grace_seconds=CANCEL_GRACE_SECONDS,
            wall_clock=self.clock.current_time,
            threads=False,
        )
        pool = Pool(classes)
        self.observation = Observation(self._scenario, settings, engine.table, pool, self._observers, self._trace)
        self.observation.follow(engine.host)
        engine.add_sink(self.observation.on_event)
        async with trio.open_nursery() as nursery:
            await nursery.start(engine.run)
            spawn_world(engine.host, world_of(self._scenario, pool, _nobody_comes))
            engine.time.drive()
            await self.clock.wait_until_idle()
            self.observation.on_end(engine.now())
            engine.close()

    def _work(self, kind: Kind) -> Work:
        async def work(payload: Any, context: Context) -> None:
            executor = CURRENT_WORKER.get()
            assert isinstance(executor, HandlerExecutor), "a handler runs in an executor"
            seconds = kind.service.sample(self._draw("service", context.id, context.attempt))
            await self.clock.sleep_until(self.clock.current_time() + seconds, executor.worker)

        return work

    def _on_advance(self, now: float) -> None:
        self.observation.on_quiet(now)
