"""Many runs, spread over processes: each is told a run and answers with the few numbers that it came to."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import groupby
from queue import SimpleQueue
from typing import Any

import attrs

from actors.errors import InvalidConfig
from sim.children import Child
from sim.fidelity import Fidelity, fidelity_of
from sim.history import History
from sim.outcome import Ideals, Outcome, outcome_of
from sim.picture import Picture
from sim.runner import simulate
from sim.scenario import Scenario
from sim.unjudged import needs_judging, run_unjudged
from sim.writing import write_scenario

__all__ = ["Answer", "Errand", "cores", "meanwhile", "run_all", "run_one"]

_WORKER = "sim.fleet_worker"


@attrs.frozen(kw_only=True)
class Errand:
    """A run to be made."""

    policy: str
    """What the policies of the scenario are called together."""
    scenario: Scenario
    seed: int
    draws: bool = False
    """Whether pictures of it are wanted."""
    measures_lag: bool = True
    """Whether the lag behind the ideal fluid share is wanted."""
    judged: bool = True
    """Whether it is to be held against every invariant."""


@attrs.frozen(kw_only=True)
class Answer:
    """What came of it."""

    outcome: Outcome
    pictures: tuple[Picture, ...] = ()
    fidelity: Fidelity | None = None
    """How near the waits came to those of the recording that was replayed, if it was one."""

    def as_json(self) -> dict[str, Any]:
        """As plain data, for a line of JSON."""
        return {
            "outcome": attrs.asdict(self.outcome),
            "pictures": [picture.as_json() for picture in self.pictures],
            "fidelity": None if self.fidelity is None else attrs.asdict(self.fidelity),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Answer":
        """What `as_json` made of one."""
        pictures = tuple(Picture.from_json(picture) for picture in data["pictures"])
        found = data["fidelity"]
        fidelity = None if found is None else Fidelity(**found)
        return cls(outcome=Outcome.from_json(data["outcome"]), pictures=pictures, fidelity=fidelity)


def run_one(errand: Errand, ideals: Ideals) -> Answer:
    """Make a run here."""
    scenario = attrs.evolve(errand.scenario, seed=errand.seed)
    history = History.of(scenario)
    result = None
    if errand.judged or needs_judging(scenario):
        result = simulate(scenario, observers=[history])
    else:
        run_unjudged(scenario, history)
    return Answer(
        outcome=outcome_of(scenario, errand.policy, history, result, ideals if errand.measures_lag else None),
        pictures=tuple(_drawn(history, ideals)) if errand.draws else (),
        fidelity=None if scenario.workload is None else fidelity_of(scenario.workload, history),
    )


def _drawn(history: History, ideals: Ideals) -> list[Picture]:
    # Only who wants pictures needs what draws them.
    from sim.report import pictures_of_run

    return pictures_of_run(history, ideals.of(history))


@contextmanager
def meanwhile(errand: Errand) -> Iterator[Callable[[], Answer]]:
    """Make a run in another process while something else is done in this one; what it is given waits for the answer."""
    orders = _orders([errand])
    if orders is None:
        yield lambda: run_one(errand, Ideals())
        return
    with Child(_WORKER) as child:
        child.say(orders[0])
        yield lambda: Answer.from_json(child.hear())


def run_all(
    errands: Sequence[Errand], *, jobs: int | None = None, on_run: Callable[[], None] = lambda: None
) -> list[Answer]:
    """Make all runs, in so many processes, as many as there are cores unless given; answers in the order of the errands."""
    if jobs is not None and jobs < 1:
        raise InvalidConfig(f"jobs must be a whole number >= 1, got {jobs}")
    count = min(jobs or cores(), len(errands))
    orders = _orders(errands) if count > 1 else None
    if orders is None:
        ideals, answers = Ideals(), []
        for errand in errands:
            answers.append(run_one(errand, ideals))
            on_run()
        return answers
    return _run_elsewhere(orders, count, on_run)


def cores() -> int:
    """How many cores this process may use, as far as the system says."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run_elsewhere(orders: Sequence[dict[str, Any]], count: int, on_run: Callable[[], None]) -> list[Answer]:
    with ThreadPoolExecutor(count) as threads, ExitStack() as stack:
        children: SimpleQueue[Child] = SimpleQueue()
        for _ in range(count):
            children.put(stack.enter_context(Child(_WORKER)))

        def run(stretch: Sequence[dict[str, Any]]) -> list[Answer]:
            child, answers = children.get(), []
            for order in stretch:
                child.say(order)
                answers.append(Answer.from_json(child.hear()))
                on_run()
            children.put(child)
            return answers

        waiting = [threads.submit(run, stretch) for stretch in _stretches(orders, count)]
        try:
            return [answer for done in waiting for answer in done.result()]
        finally:
            # Of what is not begun nobody wants to hear any more.
            threads.shutdown(wait=False, cancel_futures=True)


def _stretches(orders: Sequence[dict[str, Any]], count: int) -> list[Sequence[dict[str, Any]]]:
    """What one process does in a row: all policies under one seed, whose ideal is worked out once, if there are seeds enough."""
    by_seed: list[Sequence[dict[str, Any]]] = [
        list(found) for _, found in groupby(orders, key=lambda order: order["seed"])
    ]
    return by_seed if len(by_seed) >= count else [[order] for order in orders]


def _orders(errands: Sequence[Errand]) -> list[dict[str, Any]] | None:
    """The errands as another process is told them; None if one is of what only this process knows."""
    texts: dict[int, str] = {}
    for errand in errands:
        if id(errand.scenario) not in texts:
            runtime = errand.scenario.runtime
            if any(_only_here(type(policy)) for policy in (runtime.sharing, runtime.ordering)):
                return None
            try:
                texts[id(errand.scenario)] = write_scenario(errand.scenario)
            except InvalidConfig:
                return None
    return [
        {
            "policy": one.policy,
            "scenario": texts[id(one.scenario)],
            "seed": one.seed,
            "draws": one.draws,
            "measures_lag": one.measures_lag,
            "judged": one.judged,
        }
        for one in errands
    ]


def _only_here(found: type) -> bool:
    """Whether another process would look for this class in vain."""
    return found.__module__ == "__main__" or "<locals>" in found.__qualname__
