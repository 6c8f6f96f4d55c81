"""The least that a simulation of M/M/8 does: a heap of departures, a queue, and nothing that could be looked at later."""

import time
from collections import deque
from heapq import heappop, heappush
from random import Random

from benchmarks.work import LOAD, SEED, WORKERS


def simulate(jobs: int) -> float:
    """All waits are kept."""
    random = Random(SEED)
    rate = WORKERS * LOAD
    began = time.perf_counter()
    departures: list[float] = []
    queue: deque[float] = deque()
    waits: list[float] = []
    arrived, arrival = 0, random.expovariate(rate)
    while len(waits) < jobs:
        if arrived < jobs and not (departures and departures[0] <= arrival):
            now = arrival
            queue.append(now)
            arrived += 1
            arrival += random.expovariate(rate)
        else:
            now = heappop(departures)
        if queue and len(departures) < WORKERS:
            waits.append(now - queue.popleft())
            heappush(departures, now + random.expovariate(1.0))
    return time.perf_counter() - began
