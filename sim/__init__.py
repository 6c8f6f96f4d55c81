"""The simulator: runs scenarios on Evenhand's own cores, on virtual time, and says whether they kept their promises."""

from sim.invariants import Observer, Violation
from sim.metrics import GroupMetrics, jain_index
from sim.runner import CheckResult, Simulation, SimulationResult, simulate
from sim.scenario import (
    At,
    Burst,
    Check,
    Exponential,
    Fixed,
    FixedRate,
    Kind,
    Poisson,
    Runtime,
    Scenario,
    User,
    load_scenario,
    parse_scenario,
)

__all__ = [
    "At",
    "Burst",
    "Check",
    "CheckResult",
    "Exponential",
    "Fixed",
    "FixedRate",
    "GroupMetrics",
    "Kind",
    "Observer",
    "Poisson",
    "Runtime",
    "Scenario",
    "Simulation",
    "SimulationResult",
    "User",
    "Violation",
    "jain_index",
    "load_scenario",
    "parse_scenario",
    "simulate",
]
