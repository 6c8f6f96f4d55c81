"""The simulator against other simulators, on the same M/M/8 model."""

from benchmarks.contestant import Comparison, Contestant, Subject, rate

# Everybody runs about as long.
_OURS = (20_000,), (200,)
_FASTER = (60_000,), (200,)
_FASTEST = (500_000,), (200,)
_RATE = rate("jobs")

SUBJECT = Subject(
    name="sim",
    about="M/M/8 at nine tenths of its capacity: jobs a second",
    limit=(
        "The interpreter. A job of ours is a task of the runtime: it is admitted, leased, charged and settled by the very actors "
        "that production runs, every step is an event in a trace, and every invariant is checked on the way. The others queue and wait."
    ),
    contestants={
        "evenhand": Contestant("benchmarks.evenhand:simulate_mm8", "with trace and invariants", *_OURS),
        "simpy": Contestant("benchmarks.opponents.simpy:simulate", "SimPy {version}", *_FASTER, library="simpy"),
        "heapq": Contestant("benchmarks.opponents.heapq_mm8:simulate", "written by hand on heapq", *_FASTEST),
        "ciw": Contestant("benchmarks.opponents.ciw:simulate", "Ciw {version}", *_FASTER, library="ciw", peer=True),
    },
    comparisons=(
        Comparison("sim_mm8_trace_and_invariants", "evenhand", "simpy", _RATE),
        Comparison("sim_mm8_heapq", "evenhand", "heapq", _RATE),
        Comparison("sim_mm8_ciw", "evenhand", "ciw", _RATE),
    ),
)
