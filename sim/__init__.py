"""The simulator: runs scenarios on Evenhand's own cores, on virtual time, and says whether they kept their promises."""

from sim.faults import (
    CancelRace,
    ClockJump,
    Crash,
    CrashOnMessage,
    Delay,
    Drop,
    Duplicate,
    Fail,
    Hang,
    LostBeats,
    Poison,
    Reconfigure,
    Slow,
    StealRace,
    Stop,
    WorkerCrash,
    Zombie,
)
from sim.full import simulate_fully
from sim.injection import FaultCount
from sim.invariants import Observer, Violation
from sim.metrics import GroupMetrics, jain_index
from sim.observation import CheckResult, SimulationResult
from sim.operator import PauseEvent, ResumeEvent, SetLimitEvent, SetWeightEvent
from sim.processes import At, Burst, Exponential, Fixed, FixedRate, Poisson
from sim.runner import Simulation, simulate
from sim.scenario import (
    Check,
    Kind,
    Retry,
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
    "CancelRace",
    "Check",
    "CheckResult",
    "ClockJump",
    "Crash",
    "CrashOnMessage",
    "Delay",
    "Drop",
    "Duplicate",
    "Exponential",
    "Fail",
    "FaultCount",
    "Fixed",
    "FixedRate",
    "GroupMetrics",
    "Hang",
    "Kind",
    "LostBeats",
    "Observer",
    "PauseEvent",
    "Poison",
    "Poisson",
    "Reconfigure",
    "ResumeEvent",
    "Retry",
    "Runtime",
    "Scenario",
    "SetLimitEvent",
    "SetWeightEvent",
    "Simulation",
    "SimulationResult",
    "Slow",
    "StealRace",
    "Stop",
    "User",
    "Violation",
    "WorkerCrash",
    "Workers",
    "Zombie",
    "jain_index",
    "load_scenario",
    "parse_scenario",
    "simulate",
    "simulate_fully",
]
