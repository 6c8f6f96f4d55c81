"""The simulator against SimPy, on the same M/M/8 model, interleaved in one run."""

import time
from collections.abc import Generator, Iterator
from random import Random
from typing import Any

import simpy

from benchmarks.report import Figure
from sim import Exponential, Kind, Poisson, Runtime, Scenario, User, simulate

WORKERS = 8
LOAD = 0.9


def measure(jobs: int, rounds: int) -> Iterator[Figure]:
    """Jobs a second of both, the best of several interleaved rounds."""
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(_evenhand(jobs))
        theirs.append(_simpy(jobs))
    best, peer = max(ours), max(theirs)
    yield Figure("sim_mm8_simpy", peer, "jobs/s", f"simpy {simpy.__version__}", 1.0)
    yield Figure("sim_mm8_trace_and_invariants", best, "jobs/s", f"simpy {simpy.__version__}", best / peer)


def _evenhand(jobs: int) -> float:
    kind = Kind(name="work", service=Exponential(mean_seconds=1.0))
    rate = WORKERS * LOAD
    user = User(name="alice", arrivals=(Poisson(kind="work", per_second=rate),))
    scenario = Scenario(
        name="mm8", duration_seconds=jobs / rate, kinds=(kind,), users=(user,), runtime=Runtime(workers=WORKERS)
    )
    began = time.perf_counter()
    result = simulate(scenario)
    assert result.passed
    return result.jobs / (time.perf_counter() - began)


def _simpy(jobs: int) -> float:
    random = Random(7)
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
    return jobs / (time.perf_counter() - began)
