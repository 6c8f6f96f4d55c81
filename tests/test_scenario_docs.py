"""docs/scenarios.md: its examples run, and it has every key there is, with its default, and no other."""

import gzip
import re
import sys
from pathlib import Path

import pytest

from sim import load_scenario, simulate
from tests.scenario_keys import DOCUMENT, MARKER, reference, sections

TEXT = DOCUMENT.read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
LOG = "".join(f"{n} {n * 600} -1 1000 1 -1 -1 -1 -1 -1 -1 {n % 9} 1 -1 -1 -1 -1 -1\n" for n in range(2000))


def test_the_docs_have_every_key_of_the_classes_with_its_default_and_no_other() -> None:
    _, found, keys = TEXT.partition(MARKER)
    assert found
    # If this fails, a key was added or changed: `python -m tests.scenario_keys` writes the tables anew.
    assert keys.strip().split("\n") == reference().strip().split("\n")


def test_every_class_and_key_says_what_it_means() -> None:
    silent = [section.heading for section in sections() if not section.about]
    silent += [f"{section.heading} {row.key}" for section in sections() for row in section.rows if not row.meaning]
    assert silent == []


def test_the_tables_are_those_of_the_classes() -> None:
    """One of each sort by hand, so that whatever makes the tables cannot be wrong about all of them."""
    rows = {section.heading: [str(row) for row in section.rows] for section in sections()}
    assert "| `seed` | whole number | `0` | What every random number comes from. |" in rows["the file"]
    assert "| `kind` | tables | required |" in "".join(rows["the file"])
    assert '| `ordering` | policy | `"aging"` |' in "".join(rows["[runtime]"])
    assert '| `distribution` | text | required | `"pareto"` |' in rows["kind.service `pareto`"]
    assert "| `alpha` | number | required |" in "".join(rows["kind.service `pareto`"])
    assert '| `priority` | level | `"normal"` | At which level. |' in rows["user.arrivals `on_off`"]
    assert "| `steals` | list of texts | none |" in "".join(rows["event `add_workers`"])
    assert "| `at_once` | true or false | `false` |" in "".join(rows["event `retire_workers`"])
    assert "| `quantum_seconds` | number | `10` |" in "".join(rows["runtime.sharing `deficit`"])
    assert rows["runtime.ordering `strict`"] == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the examples name: a log, and the checks that the docs show."""
    (tmp_path / "log.swf.gz").write_bytes(gzip.compress(LOG.encode()))
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "my_checks.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_checks", raising=False)
    return tmp_path


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_the_docs_runs_and_keeps_its_promises(number: int, folder: Path) -> None:
    path = folder / "scenario.toml"
    path.write_text(EXAMPLES[number], encoding="utf-8")
    result = simulate(load_scenario(path))
    assert result.passed, [check for check in result.checks if not check.passed]
    assert result.jobs > 0


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 5
