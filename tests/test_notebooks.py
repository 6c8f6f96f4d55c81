"""The notebooks: pytest runs each (nbmake); here is what holds of all of them as they are kept."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def cells_of(path: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return cells


def text_of(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) == 6


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs_so_that_every_number_is_made_on_the_spot(path: Path) -> None:
    code = [cell for cell in cells_of(path) if cell["cell_type"] == "code"]
    assert code
    assert [(cell["outputs"], cell["execution_count"]) for cell in code] == [([], None)] * len(code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_asks_a_question_answers_it_and_asserts_the_answer(path: Path) -> None:
    cells = cells_of(path)
    said = [text_of(cell) for cell in cells if cell["cell_type"] == "markdown"]
    assert re.match(r"# \w", said[0]) and "?" in said[0]
    assert "## The answer" in said[-1]
    assert cells[-1]["cell_type"] == "code" and text_of(cells[-1]).count("assert ") >= 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_docs_list_a_notebook(path: Path) -> None:
    assert f"`{path.stem}`" in (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
