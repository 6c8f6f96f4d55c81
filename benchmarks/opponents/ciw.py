"""Ciw: M/M/8 as a network of one node. It keeps a record of each job."""

import time

import ciw

from benchmarks.work import LOAD, SEED, WORKERS


def simulate(jobs: int) -> float:
    """Until so many are served."""
    began = time.perf_counter()
    ciw.seed(SEED)
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate=WORKERS * LOAD)],
        service_distributions=[ciw.dists.Exponential(rate=1.0)],
        number_of_servers=[WORKERS],
    )
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_customers(jobs, method="Finish")
    waits = [record.waiting_time for record in simulation.get_all_records()]
    assert len(waits) >= jobs
    return time.perf_counter() - began
