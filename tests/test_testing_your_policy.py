"""docs/testing_your_policy.md does what it says: its blocks are run in order, and what each prints is what is shown."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

from actors import InvalidConfig
from sim import Fixed, Kind, Scenario, User, simulate

PAGE = (Path(__file__).parent.parent / "docs" / "testing_your_policy.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", PAGE, re.DOTALL)


@pytest.fixture
def reproducible() -> Any:
    """Hypothesis makes the same choices each time, and remembers nothing."""
    before = settings.get_current_profile_name()
    phases = [Phase.generate, Phase.shrink]
    settings.register_profile("page", derandomize=True, database=None, deadline=None, phases=phases)
    settings.load_profile("page")
    yield
    settings.load_profile(before)


def outputs() -> list[str]:
    """What each block prints."""
    names: dict[str, Any] = {"__name__": "page"}
    printed = []
    for code, _ in BLOCKS:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(code, "testing_your_policy.md", "exec"), names)
        printed.append(output.getvalue())
    return printed


@pytest.mark.usefixtures("reproducible")
def test_every_block_prints_what_is_shown_below_it() -> None:
    assert outputs() == [shown for _, shown in BLOCKS]


def test_the_page_shows_what_it_claims_to() -> None:
    shown = "\n".join(shown for _, shown in BLOCKS)
    assert "fell behind" in shown and "worker" in shown
    assert [line for line in shown.splitlines() if line][-1] == "fair, whatever comes"


class HalfAnAccount:
    sees_heads = False

    def start(self, notes: Any, claims: Any) -> Any:
        return self

    def charge(self, user: str, cost: float, now: float) -> None:
        """All that somebody thought of."""


def test_an_account_that_lacks_something_is_refused_before_anything_runs() -> None:
    kind = Kind(name="work", service=Fixed(seconds=1.0))
    scenario = Scenario(name="x", duration_seconds=1.0, kinds=(kind,), users=(User(name="alice"),))
    wanted = (
        "account of sharing policy HalfAnAccount must have activate, correct, deactivate, index, rank, reweigh, got"
    )
    with pytest.raises(InvalidConfig, match=wanted):
        simulate(scenario, sharing=HalfAnAccount())
