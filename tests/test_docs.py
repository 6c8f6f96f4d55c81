"""What the documents show is what happens: their Python runs, their scenarios pass, the demo prints what is quoted."""

import contextlib
import io
import re
from pathlib import Path

import pytest
import trio

from actors import TRANSITIONS
from sim import parse_scenario, simulate
from sim.demo import SCENARIO, main
from tests.pages import BLOCK, PAGES, printed_by_the_blocks_of
from tests.virtual import run_on_virtual_time

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def printed_by(code: str) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    return output.getvalue()


EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_the_readme_prints_what_the_readme_says(number: int) -> None:
    code, output = EXAMPLES[number]
    assert printed_by(code) == output


def test_every_python_block_of_the_readme_is_an_example_that_is_run() -> None:
    assert len(EXAMPLES) == README.count("```python\n") > 0


def test_the_readmes_scenario_is_the_one_in_the_library() -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    assert parse_scenario(block) == parse_scenario(SCENARIO.read_text(encoding="utf-8"))
    assert simulate(parse_scenario(block)).passed


def test_the_demo_prints_what_the_readme_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    # The part that is for real takes no real time here.
    monkeypatch.setattr(trio, "run", run_on_virtual_time)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        main()
    (quoted,) = re.findall(r"<!-- demo -->\n```\n(.*?)```", README, re.DOTALL)
    assert output.getvalue().startswith(quoted)


def test_the_diagram_of_a_tasks_states_is_drawn_from_the_table_of_transitions() -> None:
    arrows: dict[tuple[str, str], list[str]] = {}
    for status, row in TRANSITIONS.items():
        for change, leads_to in row.items():
            arrows.setdefault((status, leads_to), []).append(change)
    drawn = [f"    {status} --> {to}: {', '.join(changes)}" for (status, to), changes in arrows.items()]
    (quoted,) = re.findall(r"```mermaid\nstateDiagram-v2\n(.*?)```", ARCHITECTURE, re.DOTALL)
    assert quoted.splitlines() == drawn


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_a_page_prints_what_is_shown_below_it(page: Path) -> None:
    # If this fails because something was improved: `python -m tests.pages` writes the pages anew.
    blocks = printed_by_the_blocks_of(page.read_text(encoding="utf-8"))
    assert [said for said, _ in blocks] == [printed for _, printed in blocks]


def test_there_are_pages_with_blocks() -> None:
    assert {page.stem for page in PAGES} >= {"index", "fairness", "bounds", "share", "limit", "retry", "try_a_policy"}
    assert sum(len(BLOCK.findall(page.read_text(encoding="utf-8"))) for page in PAGES) >= 20
