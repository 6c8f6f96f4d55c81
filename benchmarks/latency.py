"""How long from submit to the first line of the handler, when nothing is in the way."""

from benchmarks.contestant import Comparison, Contestant, Subject, milliseconds

_COUNT = (500,), (10,)
_P50, _P99 = milliseconds(50), milliseconds(99)

SUBJECT = Subject(
    name="latency",
    about="submit to the first line of the handler, 100 tasks a second, eight workers",
    limit=(
        "Waking a task that sleeps, which the channel does too, after the machine has had time to sleep itself; then the "
        "messages of one task. The last percent is the machine's."
    ),
    contestants={
        "evenhand": Contestant("benchmarks.evenhand:latency", "submit", *_COUNT),
        "channel": Contestant(
            "benchmarks.opponents.trio_channel:latency", "trio {version} channel", *_COUNT, library="trio"
        ),
        "taskiq": Contestant(
            "benchmarks.opponents.taskiq:latency", "taskiq {version} InMemoryBroker", *_COUNT, library="taskiq"
        ),
        "dramatiq": Contestant(
            "benchmarks.opponents.dramatiq:latency",
            "dramatiq {version} StubBroker",
            *_COUNT,
            library="dramatiq",
            peer=True,
        ),
        "pykka": Contestant(
            "benchmarks.opponents.pykka:latency", "pykka {version} tell", *_COUNT, library="pykka", peer=True
        ),
    },
    comparisons=tuple(
        Comparison(name.format(percent), "evenhand", other, measure)
        for percent, measure in (("p50", _P50), ("p99", _P99))
        for name, other in (
            ("runtime_latency_{}", "channel"),
            ("runtime_latency_{}_taskiq", "taskiq"),
            ("runtime_latency_{}_dramatiq", "dramatiq"),
            ("runtime_latency_{}_pykka", "pykka"),
        )
    ),
    rounds=3,
)
