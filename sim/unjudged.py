"""A run that nobody judges: the same cores on the same virtual time, without the ledger, the metrics and the trace.

What happens is the same, event for event; only nobody looks whether it may. Comparisons of many seeds are made of such runs,
once the first seed was judged.
"""

from actors.actor import NEVER, keyed_draw
from actors.errors import Livelock
from actors.host import Host
from actors.messages import Address, WorkerClass
from actors.table import Table
from actors.wiring import TREE, notes_of, spawn_cores
from actors.worker import Worker
from sim.invariants import Observer
from sim.pool import Pool
from sim.runner import MESSAGES_PER_INSTANT_MAX, spawn_world
from sim.scenario import Scenario
from sim.service import ServiceTimes
from sim.worker import SimulatedExecutor

__all__ = ["needs_judging", "run_unjudged"]


def needs_judging(scenario: Scenario) -> bool:
    """Whether a scenario is about what goes wrong, so that a run without its faults and judges would not be the same."""
    return bool(scenario.faults or scenario.runtime.planted)


def run_unjudged(scenario: Scenario, observer: Observer) -> None:
    """Run a scenario with nobody watching but this one.

    >>> from sim import Burst, Fixed, History, Kind, Scenario, User
    >>> kind = Kind(name="work", service=Fixed(seconds=1.0))
    >>> user = User(name="alice", arrivals=(Burst(kind="work", count=9),))
    >>> scenario = Scenario(name="demo", duration_seconds=10.0, kinds=(kind,), users=(user,))
    >>> history = History.of(scenario)
    >>> run_unjudged(scenario, history)
    >>> history.last_at, max(history.waits()["alice"])
    (2.0, 1.0)
    """
    assert not needs_judging(scenario), "whoever calls looks"
    table, pool, settings = Table(), Pool(scenario.worker_classes()), scenario.settings()
    times = ServiceTimes({kind.name: kind for kind in scenario.each_kind()}, scenario.service_draws)
    order = scenario.interleaving.start() if scenario.interleaving is not None else None
    host = Host(table, keyed_draw(scenario.seed), observe=observer.on_event, order=order, supervision=TREE)

    def hire(address: Address, worker_class: WorkerClass) -> None:
        executor = SimulatedExecutor(address, times)
        host.spawn(address, lambda: Worker(address, worker_class, executor, table, notes_of(table, address)))

    spawn_cores(host, settings)
    for address, worker_class in pool.classes.items():
        hire(address, worker_class)
    spawn_world(host, scenario, pool, hire)
    while True:
        if not host.drain(MESSAGES_PER_INSTANT_MAX):
            raise Livelock(f"{MESSAGES_PER_INSTANT_MAX} messages at {host.now:g} s and no end")
        at = host.next_timer()
        if at == NEVER:
            return
        host.now = max(host.now, at)
        host.fire()
