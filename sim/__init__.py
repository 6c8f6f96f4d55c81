"""The simulator: runs scenarios on Evenhand's own cores, on virtual time, and says whether they kept their promises."""

from sim.fairness import Lag, assert_fair, worst_lag
from sim.full import simulate_fully
from sim.invariants import Observer, Violation
from sim.metrics import GroupMetrics, jain_index
from sim.observation import CheckResult, SimulationResult
from sim.operator import PauseEvent, ResumeEvent, SetLimitEvent, SetWeightEvent
from sim.processes import At, Burst, Exponential, Fixed, FixedRate, Poisson
from sim.runner import Simulation, simulate
from sim.scenario import (
    Check,
    Kind,
    Runtime,
    Scenario,
    User,
    Workers,
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
    "Lag",
    "Observer",
    "PauseEvent",
    "Poisson",
    "ResumeEvent",
    "Runtime",
    "Scenario",
    "SetLimitEvent",
    "SetWeightEvent",
    "Simulation",
    "SimulationResult",
    "User",
    "Violation",
    "Workers",
    "assert_fair",
    "jain_index",
    "load_scenario",
    "parse_scenario",
    "simulate",
    "simulate_fully",
    "worst_lag",
]
