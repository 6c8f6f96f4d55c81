"""The runtime in memory against what it is made of, and against its peers."""

from benchmarks.contestant import Comparison, Contestant, Subject, rate

# So much that everybody takes about as long: a short lap would more often find the machine quiet.
_OURS = (20_000,), (100,)
_SLOW = (10_000,), (100,)
_FASTER = (100_000,), (100,)
_FASTEST = (400_000,), (100,)
TASKS = rate("tasks")

SUBJECT = Subject(
    name="runtime",
    about="in memory, submit to completed: tasks that do nothing, of ten users, for eight workers",
    limit=(
        "The interpreter. A task passes queue, shard, scheduler and worker as messages, and each of them decides in Python; "
        "the channel moves one object and decides nothing. The peers keep no shares between users."
    ),
    contestants={
        "channel_nowait": Contestant(
            "benchmarks.opponents.trio_channel:send_nowait",
            "trio {version} channel, send_nowait",
            *_FASTER,
            library="trio",
        ),
        "channel_await": Contestant(
            "benchmarks.opponents.trio_channel:await_send",
            "trio {version} channel, await send",
            *_FASTER,
            library="trio",
        ),
        "asyncio_queue": Contestant(
            "benchmarks.opponents.asyncio_queue:put_nowait", "asyncio.Queue, put_nowait", *_FASTEST
        ),
        "heapq_loop": Contestant("benchmarks.opponents.heapq_loop:push_and_pop", "heapq and a loop", *_FASTEST),
        "submit_many": Contestant("benchmarks.evenhand:submit_many", "submit_many", *_OURS),
        "submit_awaited": Contestant("benchmarks.evenhand:submit_awaited", "each submit awaited", *_OURS),
        "recorded": Contestant("benchmarks.evenhand:recorded", "submit_many, recorded", *_OURS),
        "taskiq": Contestant(
            "benchmarks.opponents.taskiq:kiq", "taskiq {version} InMemoryBroker", *_SLOW, library="taskiq"
        ),
        "huey": Contestant("benchmarks.opponents.huey:memory", "huey {version} MemoryHuey", *_OURS, library="huey"),
        "dramatiq": Contestant(
            "benchmarks.opponents.dramatiq:send", "dramatiq {version} StubBroker", *_SLOW, library="dramatiq", peer=True
        ),
        "pykka": Contestant(
            "benchmarks.opponents.pykka:tell", "pykka {version} tell", *_FASTER, library="pykka", peer=True
        ),
    },
    comparisons=(
        Comparison("runtime_submit_many", "submit_many", "channel_nowait", TASKS),
        Comparison("runtime_submit_many_asyncio", "submit_many", "asyncio_queue", TASKS),
        Comparison("runtime_submit_many_heapq", "submit_many", "heapq_loop", TASKS),
        Comparison("runtime_submit_awaited", "submit_awaited", "channel_await", TASKS),
        Comparison("runtime_recorded", "recorded", "submit_many", TASKS),
        Comparison("runtime_submit_awaited_peer", "submit_awaited", "taskiq", TASKS),
        Comparison("runtime_submit_awaited_huey", "submit_awaited", "huey", TASKS),
        Comparison("runtime_submit_awaited_dramatiq", "submit_awaited", "dramatiq", TASKS),
        Comparison("runtime_submit_awaited_pykka", "submit_awaited", "pykka", TASKS),
        Comparison("runtime_best_peer", "submit_awaited", ("taskiq", "dramatiq"), TASKS),
        Comparison("runtime_submit_many_best_peer", "submit_many", ("taskiq", "dramatiq"), TASKS),
    ),
)
