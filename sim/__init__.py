"""The simulator: runs scenarios on Evenhand's own cores, on virtual time, and says whether they kept their promises."""

from sim.causes import Causes, Hold, Stay, causal_graph
from sim.comparison import SHARING_COMPARED, Comparison, compare
from sim.curve import Curve
from sim.delays import Step, why
from sim.fairness import Lag, assert_fair, worst_lag
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
from sim.fidelity import Fidelity
from sim.fluid import fluid_service, max_min
from sim.full import simulate_fully
from sim.groups import GroupMetrics
from sim.history import Behind, History, Stint, Waited, history_of, read_history
from sim.injection import FaultCount
from sim.interleaving import PriorityOrder, RandomOrder
from sim.intervals import Interval, interval_of
from sim.invariants import Observer, Violation
from sim.mail import count_messages, message_graph, steal_graph
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
from sim.outcome import Outcome
from sim.picture import Picture
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
from sim.report import (
    backlog_picture,
    changes_picture,
    heatmap_picture,
    messages_picture,
    service_picture,
    steals_picture,
    timeline_picture,
    waits_picture,
    write_change_report,
    write_report,
)
from sim.runner import Simulation, simulate
from sim.scenario import (
    Check,
    Kind,
    Retry,
    Runtime,
    Scenario,
    User,
)
from sim.what_if import Moved, Terms, Waits, WhatIf, what_if

__all__ = [
    "SHARING_COMPARED",
    "AddWorkersEvent",
    "At",
    "Behind",
    "Burst",
    "CancelRace",
    "Causes",
    "Check",
    "CheckResult",
    "ClockJump",
    "Comparison",
    "Crash",
    "CrashOnMessage",
    "Curve",
    "Delay",
    "Drop",
    "Duplicate",
    "Empirical",
    "Exponential",
    "Fail",
    "FaultCount",
    "Fidelity",
    "Fixed",
    "FixedRate",
    "GroupMetrics",
    "Hang",
    "History",
    "Hold",
    "Interval",
    "Kind",
    "Lag",
    "Lognormal",
    "LostBeats",
    "Moved",
    "Observer",
    "OnOff",
    "Outcome",
    "Pareto",
    "PauseEvent",
    "Picture",
    "Poison",
    "Poisson",
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
    "Stint",
    "Stop",
    "Terms",
    "Uniform",
    "User",
    "Violation",
    "Waited",
    "Waits",
    "WhatIf",
    "WorkerCrash",
    "Workers",
    "Workload",
    "Zombie",
    "assert_fair",
    "backlog_picture",
    "causal_graph",
    "changes_picture",
    "compare",
    "count_messages",
    "fluid_service",
    "heatmap_picture",
    "history_of",
    "interval_of",
    "jain_index",
    "load_scenario",
    "max_min",
    "message_graph",
    "messages_picture",
    "parse_scenario",
    "read_history",
    "service_picture",
    "simulate",
    "simulate_fully",
    "steal_graph",
    "steals_picture",
    "timeline_picture",
    "waits_picture",
    "what_if",
    "why",
    "worst_lag",
    "write_change_report",
    "write_report",
]
