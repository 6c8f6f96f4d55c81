"""A run in a few words: which check it broke, if any, and what is needed to compare it with another run."""

import attrs

from actors.trace import Event
from sim.observation import SimulationResult
from sim.runner import simulate
from sim.scenario import Scenario

__all__ = ["Judgement", "judge"]


@attrs.frozen(kw_only=True)
class Judgement:
    """What came of a run."""

    failed: str | None
    """The check that broke first, by its name, or the error that ended the run; None if all was as expected."""
    said: str = ""
    """What happened, in a sentence."""
    measured: bool = True
    """Whether there was anything to measure: a check fails too where there was nothing."""
    trace_sha256: str = ""
    fired: dict[str, int] = attrs.Factory(dict)
    """How often each sort of fault happened."""


class _Fired:
    """Counts the faults that happen."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def on_event(self, event: Event) -> None:
        if (fault := getattr(event, "fault", None)) is not None:
            self.counts[fault] = self.counts.get(fault, 0) + 1

    def on_quiet(self, now: float) -> None:
        """Nothing to see."""


def judge(scenario: Scenario) -> Judgement:
    """Run a scenario and say what came of it.

    >>> from sim import Burst, Check, Fixed, Kind, Runtime, User
    >>> kind = Kind(name="work", service=Fixed(seconds=1.0))
    >>> user = User(name="alice", arrivals=(Burst(kind="work", count=3),))
    >>> check = Check(name="all at once", metric="wait_seconds_max", at_most=1.0)
    >>> scenario = Scenario(
    ...     name="demo", duration_seconds=9.0, kinds=(kind,), users=(user,), runtime=Runtime(workers=1), checks=(check,)
    ... )
    >>> judgement = judge(scenario)
    >>> judgement.failed, judgement.said
    ('all at once', 'measured 2, limit 1')
    """
    fired = _Fired()
    try:
        result = simulate(scenario, observers=[fired])
    except Exception as error:
        # A livelock, an actor that crashes without end, a mistake of the simulator's: nothing is left to be checked.
        return Judgement(failed=type(error).__name__, said=str(error), fired=fired.counts)
    failed, said, measured = _first_failure(result)
    return Judgement(failed=failed, said=said, measured=measured, trace_sha256=result.trace_sha256, fired=fired.counts)


def _first_failure(result: SimulationResult) -> tuple[str | None, str, bool]:
    failed = {check.name: check for check in result.checks if not check.as_expected}
    for violation in result.violations:
        if violation.invariant in failed:
            return violation.invariant, f"at {violation.at:g} s: {violation.said}", True
    for name, check in failed.items():
        value = "nothing" if check.value is None else f"{check.value:g}"
        return name, f"measured {value}, limit {check.limit:g}", check.value is not None
    return None, "", True
