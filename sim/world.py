"""Whoever is around a simulated runtime: those who submit, and its operator.

They outlive it. One that crashed carries on where it was, and what it did is not done again; where a store keeps what they
were told, so do all of them when the runtime comes back.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from actors.actor import Core
from actors.host import Host
from actors.messages import Address, WorkerClass
from sim.client import Client
from sim.operator import OPERATOR, Operator
from sim.pool import Pool
from sim.scenario import Scenario
from sim.workload import RECORDING, Source, recorded_submits, source_address, user_submits

__all__ = ["spawn_world", "world_of"]

C = TypeVar("C", bound=Core)

World = dict[Address, Core]


def world_of(
    scenario: Scenario,
    pool: Pool,
    hire: Callable[[Address, WorkerClass], None],
    name_of: Callable[[str], str] = lambda task_id: task_id,
) -> World:
    """Everybody, by address; `hire` starts the actor of a worker that comes, `name_of` tells what the trace calls a task."""
    world: World = {}
    for address, source in _sources(scenario):
        world[address] = source if scenario.runtime.store is None else Client(address, source, name_of)
    if scenario.events:
        kinds = [kind.name for kind in scenario.each_kind()]
        world[OPERATOR] = Operator(scenario.events, kinds, pool, hire)
    return world


def spawn_world(host: Host, world: World) -> None:
    """Have them live on this host from now on."""
    for address, core in world.items():
        host.spawn(address, partial(_same, core))


def _sources(scenario: Scenario) -> Iterator[tuple[Address, Source]]:
    for user in scenario.each_user():
        if user.arrivals:
            yield source_address(user.name), Source(user_submits(scenario, user))
    if scenario.workload is not None:
        yield RECORDING, Source(recorded_submits(scenario, scenario.workload))


def _same(core: C) -> C:
    return core
