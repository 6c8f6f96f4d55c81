"""The simulator: runs scenarios on Evenhand's own cores, on virtual time, and says whether they kept their promises."""

from sim.causes import Causes, Hold, Stay, causal_graph
from sim.delays import Step, why
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
    "Causes",
    "Check",
    "CheckResult",
    "Exponential",
    "Fixed",
    "FixedRate",
    "GroupMetrics",
    "Hold",
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
    "Stay",
    "Step",
    "User",
    "Violation",
    "Workers",
    "assert_fair",
    "causal_graph",
    "jain_index",
    "load_scenario",
    "parse_scenario",
    "simulate",
    "simulate_fully",
    "why",
    "worst_lag",
]
