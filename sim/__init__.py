"""The simulator: runs scenarios on Evenhand's own cores, on virtual time, and says whether they kept their promises."""

from sim.causes import Causes, Hold, Stay, causal_graph
from sim.delays import Step, why
from sim.fairness import Lag, assert_fair, worst_lag
from sim.faults import (
    AmbiguousWrite,
    CancelRace,
    ClockJump,
    Crash,
    CrashOnMessage,
    Delay,
    Drop,
    Duplicate,
    Fail,
    Hang,
    Kill,
    LostBeats,
    Poison,
    PowerLoss,
    Reconfigure,
    Slow,
    StealRace,
    Stop,
    StoreStall,
    WorkerCrash,
    WriteError,
    Zombie,
)
from sim.full import simulate_fully
from sim.groups import GroupMetrics
from sim.injection import FaultCount
from sim.interleaving import PriorityOrder, RandomOrder
from sim.invariants import Observer, Violation
from sim.metrics import jain_index
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
    Retry,
    Runtime,
    Scenario,
    User,
)
from sim.storage import Storage

__all__ = [
    "AddWorkersEvent",
    "AmbiguousWrite",
    "At",
    "Burst",
    "CancelRace",
    "Causes",
    "Check",
    "CheckResult",
    "ClockJump",
    "Crash",
    "CrashOnMessage",
    "Delay",
    "Drop",
    "Duplicate",
    "Empirical",
    "Exponential",
    "Fail",
    "FaultCount",
    "Fixed",
    "FixedRate",
    "GroupMetrics",
    "Hang",
    "Hold",
    "Kill",
    "Kind",
    "Lag",
    "Lognormal",
    "LostBeats",
    "Observer",
    "OnOff",
    "Pareto",
    "PauseEvent",
    "Poison",
    "Poisson",
    "PowerLoss",
    "PriorityOrder",
    "RandomOrder",
    "Reconfigure",
    "ResumeEvent",
    "RetireWorkersEvent",
    "Retry",
    "Runtime",
    "Scenario",
    "SetLimitEvent",
    "SetWeightEvent",
    "Simulation",
    "SimulationResult",
    "Slow",
    "Stay",
    "StealRace",
    "Step",
    "Stop",
    "Storage",
    "StoreStall",
    "Uniform",
    "User",
    "Violation",
    "WorkerCrash",
    "Workers",
    "Workload",
    "WriteError",
    "Zombie",
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
