"""What mypy knows of handlers, payloads and results, as `tests/typing/handlers.py` says it."""

import re
from pathlib import Path

from mypy import api

FILE = Path(__file__).parent / "typing" / "handlers.py"
CODE = FILE.read_text(encoding="utf-8")
IGNORED = re.compile(r"  # type: ignore\[[\w-]+\]$")


def lines_refused(path: Path) -> list[int]:
    said, complaints, _ = api.run(["--strict", "--no-error-summary", str(path)])
    assert not complaints, complaints
    return sorted({int(line) for line in re.findall(r"handlers\.py:(\d+): error", said)})


def test_mypy_refuses_the_lines_that_must_be_refused_and_no_other(tmp_path: Path) -> None:
    """With its ignores the file is clean; without them mypy finds just those lines."""
    lines = CODE.splitlines()
    bare = tmp_path / "handlers.py"
    bare.write_text("\n".join(IGNORED.sub("", line) for line in lines), encoding="utf-8")
    ignored = [number for number, line in enumerate(lines, start=1) if IGNORED.search(line)]
    assert lines_refused(FILE) == [] and lines_refused(bare) == ignored and len(ignored) > 10
