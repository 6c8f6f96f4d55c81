"""The durable runtime against raw SQLite and against its peers, each on a file of its own."""

from benchmarks.contestant import Comparison, Contestant, Subject
from benchmarks.runtime import TASKS

_OURS = (20_000,), (100,)
_SLOW = (3_000,), (20,)
_ROWS = "benchmarks.opponents.sqlite_rows:insert"

SUBJECT = Subject(
    name="durable",
    about="in a SQLite file, submit to completed and safe: tasks that do nothing, for 64 workers",
    limit=(
        "A worker runs one task a commit, because a task is only run when its claim is safe: tasks a second are at most "
        "workers divided by the seconds of a commit. With many workers it is the interpreter, as in memory."
    ),
    contestants={
        "full": Contestant("benchmarks.evenhand:durable_full", "SQLite, synchronous full", *_OURS),
        "normal": Contestant("benchmarks.evenhand:durable_normal", "SQLite, synchronous normal", *_OURS),
        "memory": Contestant("benchmarks.evenhand:durable_workers_memory", "in memory, 64 workers", *_OURS),
        "rows_1": Contestant(_ROWS, "raw SQLite, a transaction a task", (15_000, 1), (20, 1)),
        "rows_100": Contestant(_ROWS, "raw SQLite, a transaction for 100 tasks", (300_000, 100), (100, 100)),
        "huey": Contestant("benchmarks.opponents.huey:sqlite", "huey {version} SqliteHuey", *_SLOW, library="huey"),
        "persist_queue": Contestant(
            "benchmarks.opponents.persist_queue:put_get_ack",
            "persist-queue {version} SQLiteAckQueue",
            *_SLOW,
            library="persist-queue",
            peer=True,
        ),
        "litequeue": Contestant(
            "benchmarks.opponents.litequeue:put_pop_done",
            "litequeue {version}, synchronous normal",
            *_SLOW,
            library="litequeue",
            peer=True,
        ),
    },
    comparisons=(
        Comparison("durable_full", "full", "rows_1", TASKS),
        Comparison("durable_full_rows_100", "full", "rows_100", TASKS),
        Comparison("durable_full_of_memory", "full", "memory", TASKS),
        Comparison("durable_normal", "normal", "full", TASKS),
        Comparison("durable_full_peer", "full", "huey", TASKS),
        Comparison("durable_full_persist_queue", "full", "persist_queue", TASKS),
        Comparison("durable_normal_litequeue", "normal", "litequeue", TASKS),
    ),
)
