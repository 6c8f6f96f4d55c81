"""What a task costs when there are many users, or when many tasks wait."""

from benchmarks.contestant import MICROSECONDS, Comparison, Contestant, Subject

_USERS = "benchmarks.evenhand:with_users"
_QUEUED = "benchmarks.evenhand:with_queued"
_CORES = "benchmarks.cores:with_queued"

SUBJECT = Subject(
    name="growth",
    about="microseconds a task: from ten users to a hundred thousand, from a thousand waiting tasks to a million",
    limit=(
        "Every choice is a heap's, so it grows with the logarithm; what is seen beside that is memory, which no cache holds "
        "any more, and its garbage collector."
    ),
    contestants={
        "users_few": Contestant(_USERS, "{size:,} users", (20_000, 10), (100, 10), warm=False),
        "users_more": Contestant(_USERS, "{size:,} users", (20_000, 10_000), (100, 20), warm=False),
        "users_most": Contestant(_USERS, "{size:,} users", (20_000, 100_000), (100, 30), warm=False),
        "queued_few": Contestant(_QUEUED, "{size:,} queued", (2_000, 1_000), (20, 10), warm=False),
        "queued_most": Contestant(_QUEUED, "{size:,} queued", (2_000, 1_000_000), (20, 20), warm=False),
        "cores_few": Contestant(_CORES, "the cores, {size:,} queued", (5_000, 1_000), (20, 10), warm=False),
        "cores_most": Contestant(_CORES, "the cores, {size:,} queued", (5_000, 1_000_000), (20, 20), warm=False),
    },
    comparisons=(
        Comparison("runtime_growth_10_to_10000_users", "users_more", "users_few", MICROSECONDS),
        Comparison("runtime_growth_10_to_100000_users", "users_most", "users_few", MICROSECONDS),
        Comparison("runtime_growth_1000_to_1000000_queued", "queued_most", "queued_few", MICROSECONDS),
        Comparison("core_growth_1000_to_1000000_queued", "cores_most", "cores_few", MICROSECONDS),
    ),
    rounds=2,
)
