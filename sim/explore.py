"""Exploring: the same scenario under many seeds, interleavings and faults, until one run breaks a check.

Each seed is another run: other arrivals and service times, another order of delivery, and other faults. Faults vary in two
phases, as FoundationDB's do: each fault of the file is part of a run or is not, and if it is, its times and its probability
are drawn. So a run may have any few of them, and a mistake that one fault would hide from another is found too. What a
seed stands for is a plain scenario, which can be run, shrunk and saved.

Runs are spread over processes that are told a scenario and some seeds and answer with a line of JSON for each. They are
heard in the order of the seeds, so the counter-example is the one with the lowest seed, however many there are.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from random import Random
from typing import Any

import attrs

from sim.children import Child
from sim.interleaving import Interleaving, PriorityOrder, RandomOrder
from sim.judgement import Judgement, judge
from sim.scenario import Scenario
from sim.writing import write_scenario

__all__ = ["Exploration", "explore", "hash_elsewhere", "variation"]

_ENABLED = 0.7
"""How likely each fault of the file is to be part of a run."""
_STEPS = (20, 100, 500)
_WORKER = "sim.explore_worker"


@attrs.frozen(kw_only=True)
class Exploration:
    """What many runs came to."""

    runs: int
    """How many there were, the one that failed included."""
    fired: dict[str, int]
    """How often each sort of fault happened, over all of them."""
    seed: int | None = None
    """The lowest seed that breaks a check, if one does."""
    scenario: Scenario | None = None
    """What that seed stands for."""
    judgement: Judgement | None = None
    """What came of it."""

    @property
    def failed(self) -> bool:
        """Whether there is a counter-example."""
        return self.seed is not None


def explore(
    scenario: Scenario,
    *,
    seeds: Sequence[int],
    jobs: int = 1,
    on_run: Callable[[], None] = lambda: None,
) -> Exploration:
    """Run the scenario once for each seed, until one run breaks a check; `on_run` is called after each.

    >>> from sim import Burst, Check, Exponential, Kind, User
    >>> kind = Kind(name="work", service=Exponential(mean_seconds=1.0))
    >>> user = User(name="alice", arrivals=(Burst(kind="work", count=8),))
    >>> check = Check(name="short", metric="service_seconds", at_most=14.0)
    >>> scenario = Scenario(name="demo", duration_seconds=9.0, kinds=(kind,), users=(user,), checks=(check,))
    >>> found = explore(scenario, seeds=range(100))
    >>> found.seed, found.judgement.failed
    (9, 'short')
    """
    fired: dict[str, int] = {}
    runs = 0
    for seed, judgement in _judgements(scenario, seeds, jobs):
        runs += 1
        for fault, count in judgement.fired.items():
            fired[fault] = fired.get(fault, 0) + count
        on_run()
        if judgement.failed is not None:
            found = variation(scenario, seed)
            return Exploration(runs=runs, fired=fired, seed=seed, scenario=found, judgement=judgement)
    return Exploration(runs=runs, fired=fired)


# What a seed stands for


def variation(scenario: Scenario, seed: int) -> Scenario:
    """The scenario that a seed stands for: as the file has it, but for the seed, the order of delivery and the faults."""
    random = Random(f"{seed}/explore")
    changes: dict[str, Any] = {"seed": seed, "interleaving": _interleaving(seed, random)}
    if faults := scenario.faults:
        varied = [_varied(fault, scenario.duration_seconds, random) for fault in faults]
        changes["faults"] = tuple(fault for fault in varied if random.random() < _ENABLED)
    return attrs.evolve(scenario, **changes)


def _interleaving(seed: int, random: Random) -> Interleaving | None:
    chosen = random.random()
    if chosen < 0.2:
        return None
    if chosen < 0.6:
        return RandomOrder(seed=seed)
    return PriorityOrder(seed=seed, changes=random.randrange(4), steps=random.choice(_STEPS))


def _varied(fault: Any, duration_seconds: float, random: Random) -> Any:
    """The fault at other times and with another probability: never later than the file has it, where it says when."""
    changes: dict[str, Any] = {}
    names = attrs.fields_dict(type(fault))
    if "fires_min" in names:
        # That it happens at all is what the file wants of its own run; over many runs it is counted.
        changes["fires_min"] = 0
    if getattr(fault, "at_seconds", None) is not None:
        changes["at_seconds"] = _drawn(random, 0.0, duration_seconds)
    elif getattr(fault, "until_seconds", None) is not None:
        middle = _drawn(random, fault.from_seconds, fault.until_seconds)
        changes["until_seconds" if middle > fault.from_seconds and random.random() < 0.5 else "from_seconds"] = middle
    if "probability" in names:
        changes["probability"] = round(min(1.0, fault.probability * 4 ** random.uniform(-1, 1)), 4)
    return attrs.evolve(fault, **changes)


def _drawn(random: Random, low: float, high: float) -> float:
    """A time from `low` to below `high`, short enough to be read."""
    drawn = round(random.uniform(low, high), 2)
    return drawn if low <= drawn < high else low


# Where the runs are made


def _judgements(scenario: Scenario, seeds: Sequence[int], jobs: int) -> Iterator[tuple[int, Judgement]]:
    if jobs == 1:
        for seed in seeds:
            yield seed, judge(variation(scenario, seed))
        return
    text = write_scenario(scenario)
    with ExitStack() as stack:
        children = [stack.enter_context(Child(_WORKER)) for _ in range(jobs)]
        for job, child in enumerate(children):
            child.say({"scenario": text, "seeds": list(seeds[job::jobs])})
        for number, seed in enumerate(seeds):
            yield seed, Judgement(**children[number % jobs].hear())


def hash_elsewhere(scenario: Scenario) -> str:
    """The hash of the trace that this scenario leaves in a new process, which hashes text by another seed."""
    here = os.environ.get("PYTHONHASHSEED", "")
    with Child(_WORKER, PYTHONHASHSEED="1" if here != "1" else "2") as child:
        child.say({"scenario": write_scenario(scenario)})
        return Judgement(**child.hear()).trace_sha256
