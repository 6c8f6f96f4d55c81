"""The simulator: runs scenarios on Evenhand's own cores, on virtual time, and says whether they kept their promises."""

from sim.full import simulate_fully
from sim.invariants import Observer, Violation
from sim.metrics import GroupMetrics, jain_index
from sim.observation import CheckResult, SimulationResult
from sim.operator import (
    AddWorkersEvent,
    PauseEvent,
    ResumeEvent,
    RetireWorkersEvent,
    SetLimitEvent,
    SetWeightEvent,
)
from sim.pool import Workers
from sim.processes import (
    At,
    Burst,
    Empirical,
    Exponential,
    Fixed,
    FixedRate,
    Lognormal,
    OnOff,
    Pareto,
    Poisson,
    Uniform,
)
from sim.reading import load_scenario, parse_scenario
from sim.replay import Workload
from sim.runner import Simulation, simulate
from sim.scenario import (
    Check,
    Kind,
    Runtime,
    Scenario,
    User,
)

__all__ = [
    "AddWorkersEvent",
    "At",
    "Burst",
    "Check",
    "CheckResult",
    "Empirical",
    "Exponential",
    "Fixed",
    "FixedRate",
    "GroupMetrics",
    "Kind",
    "Lognormal",
    "Observer",
    "OnOff",
    "Pareto",
    "PauseEvent",
    "Poisson",
    "ResumeEvent",
    "RetireWorkersEvent",
    "Runtime",
    "Scenario",
    "SetLimitEvent",
    "SetWeightEvent",
    "Simulation",
    "SimulationResult",
    "Uniform",
    "User",
    "Violation",
    "Workers",
    "Workload",
    "jain_index",
    "load_scenario",
    "parse_scenario",
    "simulate",
    "simulate_fully",
]
