"""The pure cores, without trio and without a host."""

from benchmarks.contestant import MICROSECONDS, Comparison, Contestant, Subject

_RUN = "benchmarks.cores:with_users"

SUBJECT = Subject(
    name="core",
    about="microseconds to push, claim and settle a task, in the pure cores alone",
    limit="The interpreter: calls, and the records and messages that are made for each task.",
    contestants={
        "few": Contestant(_RUN, "{size:,} users", (20_000, 10), (50, 10)),
        "most": Contestant(_RUN, "{size:,} users", (20_000, 100_000), (50, 20), warm=False),
        "heapq_loop": Contestant("benchmarks.opponents.heapq_loop:push_and_pop", "heapq and a loop", (100_000,), (50,)),
    },
    comparisons=(
        Comparison("core_push_claim_settle_10_users", "few", 25.0, MICROSECONDS),
        Comparison("core_push_claim_settle_100000_users", "most", "few", MICROSECONDS),
        Comparison("core_heapq", "few", "heapq_loop", MICROSECONDS),
    ),
)
