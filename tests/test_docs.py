"""What the documents show is what happens: their Python runs, their scenarios pass, the demo prints what is quoted."""

import contextlib
import importlib.util
import io
import re
from pathlib import Path

import attrs
import pytest
import trio

from actors import TRANSITIONS
from sim import load_scenario, parse_scenario, simulate
from sim.cli import main as command
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


def table_of_the_demo() -> dict[tuple[str, str], float]:
    """What the README quotes of the demo as the p99 wait of each customer under each policy, in seconds."""
    rows = re.findall(r"^│ (\w+) +│ (\w+) +│ +[\d,]+ │ +[\d.]+ \w+ │ +([\d.]+) (s|min) │", README, re.MULTILINE)
    return {(policy, user): float(wait) * (60 if unit == "min" else 1) for policy, user, wait, unit in rows}


def test_the_picture_of_the_readme_says_what_the_demo_says() -> None:
    ((said, path),) = re.findall(r"!\[(.*?)\]\((.*?)\)", README)
    found = re.fullmatch(r"p99 wait of light: (\d+) min under fifo.*, ([\d.]+) s under weighted_fair", said)
    assert found
    table = table_of_the_demo()
    assert float(found[1]) == round(table["fifo", "light"] / 60)
    assert round(float(found[2]), 1) == table["weighted_fair", "light"]
    png = (ROOT / path).read_bytes()
    assert png.startswith(b"\x89PNG") and len(png) < 60_000


def test_the_picture_can_be_drawn_anew() -> None:
    spec = importlib.util.spec_from_file_location("picture", ROOT / "docs" / "picture.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "picture.png") == module.PICTURE
    picture = module.drawn(attrs.evolve(load_scenario(SCENARIO), duration_seconds=3.0))
    assert picture.title.startswith("p99 wait of ") and picture.png.startswith(b"\x89PNG")


@pytest.mark.parametrize("part", ["sim", "db"])
def test_every_command_and_action_is_in_the_reference(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "reference" / "command.md").read_text(encoding="utf-8")
    with pytest.raises(SystemExit):
        command([part, "--help"])
    said = capsys.readouterr().out
    if part == "sim":
        names = re.findall(r"^│ (\w+) ", said, re.MULTILINE)
    else:
        names = re.sub(r"[\s│]+", " ", said).partition("choices: ")[2].partition("]")[0].split(", ")
    assert len(names) >= 6
    described = set(re.findall(r"\w+", " ".join(re.findall(r"^\| `(evenhand .*?) \|", page, re.MULTILINE))))
    assert set(names) <= described
