"""What if: recorded work done again on other terms, and what that would have changed for each user.

What is compared are two replays, so that whatever a replay cannot know is the same on both sides; how near the first comes to what
was recorded is said beside it (sim/fidelity.py).
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from actors.errors import InvalidConfig
from actors.policies import ORDERING, SHARING
from actors.policies.ordering import OrderingPolicy
from actors.policies.sharing import SharingPolicy
from sim.fidelity import Fidelity
from sim.fleet import Answer, Errand, run_all
from sim.outcome import ALL, Outcome
from sim.recorded import recorded_header
from sim.replay import Workload
from sim.scenario import Runtime, Scenario, User

__all__ = ["Moved", "Terms", "Waits", "WhatIf", "process_of", "terms_in_words", "what_if", "what_if_of"]

WORKERS = 8
"""Where nothing says how many there are."""
SHARING_OF_A_LOG = "fifo"
"""What a log is compared with, which does not say by what policy it came about: the order of arrival."""


@attrs.frozen(kw_only=True)
class Terms:
    """On what terms recorded work is done again; None is as it was recorded."""

    sharing: SharingPolicy | str | None = None
    ordering: OrderingPolicy | str | None = None
    workers: int | None = None
    weights: Mapping[str, float] = attrs.field(factory=dict)
    """Of users and tenants; those that are not named weigh what they did."""


@attrs.frozen(kw_only=True)
class Waits:
    """What tasks waited for their first start, in seconds."""

    tasks: int
    mean: float
    p50: float
    p99: float
    max: float


@attrs.frozen(kw_only=True)
class Moved:
    """What would have changed for a user; None where no task was started."""

    before: Waits | None
    after: Waits | None

    @property
    def p99_change(self) -> float:
        """How many seconds longer one task in a hundred would have waited."""
        return (self.after.p99 if self.after else 0.0) - (self.before.p99 if self.before else 0.0)


@attrs.frozen(kw_only=True)
class WhatIf:
    """What would have changed."""

    recording: str
    before: str
    """On what terms it was done again first, in words."""
    after: str
    """And then."""
    users: dict[str, Moved]
    overall: Moved
    fidelity: Fidelity | None
    """How near the first replay comes to the recording, if it was on the recorded terms and waits were recorded."""

    def by_change(self) -> list[tuple[str, Moved]]:
        """The users, those first whose tasks would have waited less at p99, those last who would have waited longer."""
        return sorted(self.users.items(), key=lambda item: item[1].p99_change)

    def as_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return attrs.asdict(self)


def what_if(
    recording: str | Path,
    *,
    sharing: SharingPolicy | str | None = None,
    ordering: OrderingPolicy | str | None = None,
    workers: int | None = None,
    weights: Mapping[str, float] | None = None,
    before: Terms = Terms(),
    days: float | None = None,
    jobs_max: int | None = None,
    time_scale: float = 1.0,
    jobs: int | None = None,
) -> WhatIf:
    """Do recorded work again, first as it was recorded (or on the terms `before`) and then on these.

    A log in the Standard Workload Format does not say how it came about: unless `before` says otherwise it is compared
    with first come, first served on as many workers. The two replays are made in two processes unless `jobs` is 1.

    >>> import tempfile
    >>> from sim import Burst, Fixed, Kind, Scenario, User, simulate
    >>> kind = Kind(name="work", service=Fixed(seconds=1.0))
    >>> users = (User(name="flood", arrivals=(Burst(kind="work", count=80),)),
    ...     User(name="light", arrivals=(Burst(kind="work", count=2, at_seconds=1.0),)))
    >>> with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
    ...     _ = simulate(Scenario(name="demo", duration_seconds=2.0, kinds=(kind,), users=users), trace=file)
    ...     file.flush()
    ...     what = what_if(file.name, sharing="fifo", jobs=1)
    >>> what.before, what.after
    ('weighted_fair, aging, 8 workers', 'fifo, aging, 8 workers')
    >>> what.users["light"].before.max, what.users["light"].after.max, what.fidelity.error_max_seconds
    (0.0, 9.0, 0.0)
    """
    path = Path(recording)
    workload = Workload(
        process=process_of(path), path=str(path), time_scale=time_scale, jobs_max=jobs_max, days_max=days
    )
    terms = Terms(sharing=sharing, ordering=ordering, workers=workers, weights=weights or {})
    first, second = scenarios_of(workload, before, terms)
    errands = [
        Errand(policy=terms_in_words(one), scenario=one, seed=one.seed, measures_lag=False) for one in (first, second)
    ]
    answers = run_all(errands, jobs=jobs)
    return what_if_of(path.name, answers[0], answers[1].outcome, as_recorded=before == Terms())


def scenarios_of(workload: Workload, before: Terms, after: Terms) -> tuple[Scenario, Scenario]:
    """The two replays."""
    if workload.process == "swf":
        # A log says nothing of its terms: what is not to differ is the same on both sides.
        before = attrs.evolve(
            before,
            sharing=before.sharing or SHARING_OF_A_LOG,
            ordering=before.ordering or after.ordering,
            workers=before.workers or after.workers,
        )
    return scenario_of(workload, before), scenario_of(workload, after)


def scenario_of(workload: Workload, terms: Terms) -> Scenario:
    """A replay: the work as recorded, and the terms too where they do not say otherwise."""
    header = recorded_header(workload.path) if workload.process == "trace" else None
    recorded = {} if header is None else header.options
    weights = {**recorded.get("weights", {}), **terms.weights}
    known = set(workload.users)
    for name in terms.weights:
        if name not in known and not any(user.startswith(name + "/") for user in known):
            raise InvalidConfig(f"weights must be of users of {workload.path}, got {name!r}")
    return Scenario(
        name=f"replay of {Path(workload.path).name}",
        duration_seconds=workload.duration_seconds,
        runtime=Runtime(
            workers=terms.workers or recorded.get("workers", WORKERS),
            sharing=SHARING.make(terms.sharing or _policy(recorded, "sharing", "weighted_fair")),
            ordering=ORDERING.make(terms.ordering or _policy(recorded, "ordering", "aging")),
            critical_burst=recorded.get("critical_burst", 16),
        ),
        workload=workload,
        kinds=(),
        users=tuple(User(name=name, weight=weight) for name, weight in weights.items()),
    )


def _policy(recorded: Mapping[str, Any], sort: str, default: str) -> dict[str, Any]:
    return {"policy": recorded.get(sort, default), **recorded.get(f"{sort}_options", {})}


def terms_in_words(scenario: Scenario) -> str:
    """The terms of a replay, as a person says them."""
    runtime = scenario.runtime
    weights = ", ".join(f"{user.name} weighs {user.weight:g}" for user in scenario.users if user.weight != 1.0)
    said = f"{SHARING.name_of(runtime.sharing)}, {ORDERING.name_of(runtime.ordering)}, {runtime.workers} workers"
    return f"{said}, {weights}" if weights else said


def process_of(file: Path) -> str:
    """What a file is, by its name.

    >>> process_of(Path("nasa.swf.gz")), process_of(Path("run.jsonl"))
    ('swf', 'trace')
    """
    suffixes = [suffix for suffix in file.suffixes if suffix != ".gz"]
    found = {".swf": "swf", ".jsonl": "trace"}.get(suffixes[-1] if suffixes else "")
    if found is None:
        raise InvalidConfig(f"{file}: must be a recorded run, .jsonl, or a log, .swf, gzipped or not")
    return found


def what_if_of(recording: str, before: Answer, after: Outcome, *, as_recorded: bool) -> WhatIf:
    """Two replays side by side."""
    moved = {
        user: Moved(before=_waits(numbers), after=_waits(after.users.get(user, {})))
        for user, numbers in before.outcome.users.items()
        if not user.endswith("/*")
    }
    return WhatIf(
        recording=recording,
        before=before.outcome.policy,
        after=after.policy,
        users={user: change for user, change in moved.items() if user != ALL},
        overall=moved[ALL],
        fidelity=before.fidelity if as_recorded else None,
    )


def _waits(numbers: Mapping[str, float | None]) -> Waits | None:
    tasks = numbers.get("tasks")
    if not tasks:
        return None
    mean, p50, p99, longest = (numbers[f"wait_seconds_{name}"] or 0.0 for name in ("mean", "p50", "p99", "max"))
    return Waits(tasks=math.floor(tasks), mean=mean, p50=p50, p99=p99, max=longest)
