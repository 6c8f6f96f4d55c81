"""SimPy: M/M/8 as a resource with eight places. It keeps the waits; nothing else is recorded or checked."""

import time
from collections.abc import Generator
from random import Random
from typing import Any

import simpy

from benchmarks.work import LOAD, SEED, WORKERS


def simulate(jobs: int) -> float:
    """A process for each job."""
    random = Random(SEED)
    waits: list[float] = []

    def job(env: Any, servers: Any) -> Generator[Any, Any, None]:
        arrived = env.now
        with servers.request() as request:
            yield request
            waits.append(env.now - arrived)
            yield env.timeout(random.expovariate(1.0))

    def source(env: Any, servers: Any) -> Generator[Any, Any, None]:
        for _ in range(jobs):
            yield env.timeout(random.expovariate(WORKERS * LOAD))
            env.process(job(env, servers))

    began = time.perf_counter()
    env = simpy.Environment()
    env.process(source(env, simpy.Resource(env, WORKERS)))
    env.run()
    assert len(waits) == jobs
    return time.perf_counter() - began
