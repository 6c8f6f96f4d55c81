"""Checks of one's own: a function of the result, or an observer of the run."""

from typing import Any

import attrs
import pytest

from actors import EvenhandError, InvalidConfig
from actors.trace import Event, Started
from sim import Burst, Check, CheckResult, Fixed, Kind, Scenario, SimulationResult, User, parse_scenario, simulate

HERE = __name__
SCENARIO = Scenario(
    name="own",
    duration_seconds=10.0,
    kinds=(Kind(name="work", service=Fixed(seconds=1.0)),),
    users=(User(name="alice", arrivals=(Burst(kind="work", count=9),)),),
)


def all_done(result: SimulationResult) -> bool:
    return result.users["alice"].completed == 9


def nobody_waits(result: SimulationResult) -> bool:
    return result.overall.wait_seconds_max == 0.0


def jobs(result: SimulationResult) -> int:
    return result.jobs


def asserts(result: SimulationResult) -> bool:
    # Raised by hand, because pytest rewrites asserts and says more.
    raise AssertionError(f"there were {result.jobs} jobs")


def nothing(result: SimulationResult) -> None:
    return None


def in_full(result: SimulationResult) -> CheckResult:
    return CheckResult(name="ignored", passed=True, value=0.5, limit=1.0)


def invariants_seen(result: SimulationResult) -> int:
    return len(result.checks)


def raises(result: SimulationResult) -> bool:
    raise ValueError("boom")


def says_words(result: SimulationResult) -> str:
    return "fine"


def not_a_number(result: SimulationResult) -> float:
    return float("nan")


class StartsAtOnce:
    """Counts the starts of the first instant."""

    def __init__(self) -> None:
        self.starts = 0
        self.quiet = 0

    def on_event(self, event: Event) -> None:
        self.starts += isinstance(event, Started) and event.at == 0.0

    def on_quiet(self, now: float) -> None:
        self.quiet += 1

    def __call__(self, result: SimulationResult) -> int:
        assert self.quiet > 0
        return self.starts


class CannotBeCalled:
    def on_event(self, event: Event) -> None: ...

    def on_quiet(self, now: float) -> None: ...


def run_with(**options: Any) -> CheckResult:
    check = Check(name="mine", **options)
    result = simulate(attrs.evolve(SCENARIO, checks=(check,)))
    own = result.checks[-1]
    assert result.passed == own.as_expected
    return own


def own(passed: bool, value: float | None, limit: float, **options: Any) -> CheckResult:
    return CheckResult(name="mine", passed=passed, value=value, limit=limit, **options)


VERDICTS: list[tuple[dict[str, Any], CheckResult]] = [
    ({"function": f"{HERE}:all_done"}, own(True, 0, 0)),
    ({"function": f"{HERE}:nobody_waits"}, own(False, 1, 0)),
    ({"function": f"{HERE}:nobody_waits", "expect": "fail"}, own(False, 1, 0, expect="fail")),
    ({"function": f"{HERE}:jobs", "at_most": 9}, own(True, 9, 9)),
    ({"function": f"{HERE}:jobs", "at_least": 10}, own(False, 9, 10)),
    ({"function": f"{HERE}:asserts"}, own(False, 1, 0, said="there were 9 jobs")),
    ({"function": f"{HERE}:nothing", "at_most": 3}, own(False, None, 3)),
    ({"function": f"{HERE}:in_full"}, own(True, 0.5, 1.0)),
    ({"observer": f"{HERE}:StartsAtOnce", "at_least": 8}, own(True, 8, 8)),
]


@pytest.mark.parametrize(("options", "expected"), VERDICTS, ids=[str(options) for options, _ in VERDICTS])
def test_what_it_returns_is_the_verdict(options: dict[str, Any], expected: CheckResult) -> None:
    assert run_with(**options) == expected


def test_a_function_sees_what_the_other_checks_came_to() -> None:
    assert run_with(function=f"{HERE}:invariants_seen", at_least=10).passed


def test_each_run_has_an_observer_of_its_own() -> None:
    check = Check(name="mine", observer=f"{HERE}:StartsAtOnce", at_most=8)
    scenario = attrs.evolve(SCENARIO, checks=(check,))
    assert [simulate(scenario).checks[-1].value for _ in range(2)] == [8, 8]


def test_two_checks_of_one_name_each_have_their_own_observer() -> None:
    limits: list[dict[str, Any]] = [{"at_most": 8}, {"at_least": 9}]
    checks = tuple(Check(name="mine", observer=f"{HERE}:StartsAtOnce", **limit) for limit in limits)
    result = simulate(attrs.evolve(SCENARIO, checks=checks))
    assert [(check.passed, check.value) for check in result.checks[-2:]] == [(True, 8), (False, 8)]


ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"function": f"{HERE}:raises"}, f"check 'mine': {HERE}:raises raised ValueError"),
    ({"function": f"{HERE}:says_words"}, f"check 'mine': {HERE}:says_words must return true, .*, got 'fine'"),
    ({"function": f"{HERE}:not_a_number", "at_most": 1}, "must return true, false, a finite number, .*, got nan"),
    ({"function": f"{HERE}:jobs"}, f"check 'mine' must have at_most or at_least, because {HERE}:jobs returns a number"),
    (
        {"function": f"{HERE}:all_done", "at_most": 1},
        f"check 'mine' has a limit, so {HERE}:all_done must return a number, got True",
    ),
]


@pytest.mark.parametrize(("options", "said"), ERRORS, ids=[said for _, said in ERRORS])
def test_what_is_no_verdict_is_an_error_that_names_the_check_and_the_code(options: dict[str, Any], said: str) -> None:
    with pytest.raises(EvenhandError, match=said):
        run_with(**options)


REFUSED: list[tuple[str, str]] = [
    ('function = "nowhere"', "check[0].function must be 'module:name', got 'nowhere'"),
    ('function = "no_such_module:f"', "check[0].function must be importable, got 'no_such_module:f': No module named"),
    (
        'function = "sim:no_such_name"',
        "check[0].function must be importable, got 'sim:no_such_name': module 'sim' has no",
    ),
    ('function = "sim:Scenario"', "check[0].function must be a function, got 'sim:Scenario': <class"),
    (f'observer = "{HERE}:all_done"', f"check[0].observer must be a class, got '{HERE}:all_done': <function"),
    (f'observer = "{HERE}:CannotBeCalled"', f"check[0].observer must have __call__, got '{HERE}:CannotBeCalled'"),
    (
        f'function = "{HERE}:jobs"\nmetric = "jain"',
        "check[0]: check 'mine' must have one of metric, function and observer",
    ),
    (f'function = "{HERE}:jobs"\nuser = "alice"', "check[0]: check 'mine' must be over all users"),
    (
        f'function = "{HERE}:jobs"\nat_most = 1\nat_least = 1',
        "check[0]: check 'mine' must have either at_most or at_least",
    ),
    ("at_most = 1", "check[0].metric is missing"),
]


@pytest.mark.parametrize(("lines", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_cannot_be_called_is_refused_when_the_file_is_read(lines: str, said: str) -> None:
    text = 'name = "x"\nduration_seconds = 1\nkind = []\nuser = [{ name = "alice" }]\n[[check]]\nname = "mine"\n'
    with pytest.raises(InvalidConfig) as refused:
        parse_scenario(text + lines)
    assert str(refused.value).startswith(said)
