"""Checks of people's own, by `module:name`: a function that looks at the result, or a class that watches the whole run.

A function is called with the `SimulationResult`. An observer is made anew for each run, sees every event and every quiet
instant (see `Observer`), and is then called with the result too. What either returns is the verdict:

- true or false: it held, or not. A failed `assert` is a false that says why.
- a number: what was measured, to be held against the check's `at_most` or `at_least`.
- None: there was nothing to measure, which is no pass.
- a `CheckResult`, to say all of it.
"""

import importlib
from collections.abc import Callable
from typing import Any

import attrs

from actors.errors import EvenhandError, InvalidConfig
from actors.validators import is_finite

__all__ = ["Judgement", "ask", "judge", "load_function", "load_observer"]


def load_function(name: str) -> Callable[[Any], Any]:
    """The function of that name, or InvalidConfig."""
    found = _load("function", name)
    if not callable(found) or isinstance(found, type):
        raise InvalidConfig(f"function must be a function, got {name!r}: {found!r}")
    return found  # type: ignore[no-any-return]


def load_observer(name: str) -> Callable[[], Any]:
    """The observer class of that name, or InvalidConfig."""
    found = _load("observer", name)
    if not isinstance(found, type):
        raise InvalidConfig(f"observer must be a class, got {name!r}: {found!r}")
    # By the classes' own names: every class can be called, its instances only if it says how.
    own = {method for base in found.__mro__ for method in vars(base)}
    missing = [method for method in ("on_event", "on_quiet", "__call__") if method not in own]
    if missing:
        raise InvalidConfig(f"observer must have {', '.join(missing)}, got {name!r}")
    return found


def _load(sort: str, name: str) -> Any:
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise InvalidConfig(f"{sort} must be 'module:name', got {name!r}")
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:
        # Whatever a user's module raises when it is run.
        raise InvalidConfig(f"{sort} must be importable, got {name!r}: {error}") from error


@attrs.frozen(kw_only=True)
class Judgement:
    """What a check of one's own came to."""

    passed: bool
    value: float | None
    limit: float
    said: str = ""


def ask(name: str, whose: str, function: Callable[[Any], Any], result: Any) -> Any:
    """What the function of this check returns; a failed assertion is a judgement, any other error is raised with its name."""
    try:
        return function(result)
    except AssertionError as error:
        return Judgement(passed=False, value=1, limit=0, said=str(error))
    except Exception as error:
        raise EvenhandError(f"check {name!r}: {whose} raised {type(error).__name__}") from error


def judge(name: str, whose: str, returned: Any, at_most: float | None, at_least: float | None) -> Judgement:
    """What was returned, held against the limit if the check has one."""
    limit = at_least if at_most is None else at_most
    if isinstance(returned, Judgement):
        return returned
    if isinstance(returned, bool):
        if limit is not None:
            raise EvenhandError(f"check {name!r} has a limit, so {whose} must return a number, got {returned!r}")
        return Judgement(passed=returned, value=int(not returned), limit=0)
    if returned is None:
        return Judgement(passed=False, value=None, limit=limit or 0)
    if not is_finite(returned):
        said = "true, false, a finite number, None or a CheckResult"
        raise EvenhandError(f"check {name!r}: {whose} must return {said}, got {returned!r}")
    if limit is None:
        raise EvenhandError(f"check {name!r} must have at_most or at_least, because {whose} returns a number")
    passed = returned <= limit if at_most is not None else returned >= limit
    return Judgement(passed=passed, value=returned, limit=limit)
