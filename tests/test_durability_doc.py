"""What the page on durability shows is what happens."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "durability.md"


def test_the_example_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, PAGE.name, "exec"), {"__name__": "page"})
    assert "result='month 5'" in capsys.readouterr().out
