"""Pages whose Python is run: in order, in one namespace, on virtual time, beside the files that the page shows.

`python -m tests.pages` runs them and writes what they print below each block anew.
"""

import contextlib
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import trio

from sim.cli import main as command
from tests.virtual import run_on_virtual_time

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(
    page
    for page in [*DOCS.glob("*.md"), *DOCS.glob("how_to/*.md"), DOCS / "reference" / "command.md"]
    # These have tests of their own: what they show needs something else around it.
    if page.stem not in {"tutorial", "testing_your_policy", "durability", "scenarios", "performance"}
)

BLOCK = re.compile(r"^```(python|console)\n(.*?)^```\n(?:\n```\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
"""A block that does something, and what is said to come of it."""

FILE = re.compile(r"^```toml\n# (\S+\.toml)\b(.*?)^```\n", re.DOTALL | re.MULTILINE)
"""A block that begins with the name of a file is that file."""

BAD_INPUT = 2


@contextlib.contextmanager
def beside_the_files_of(text: str) -> Iterator[None]:
    """In a folder that has them, in an environment that may be changed, on virtual time."""
    before = Path.cwd()
    with TemporaryDirectory() as folder, patch.dict(os.environ), patch.object(trio, "run", run_on_virtual_time):
        for name, content in FILE.findall(text):
            Path(folder, name).write_text(f"#{content}", encoding="utf-8")
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def printed_by_the_blocks_of(text: str) -> list[tuple[str, str]]:
    """Of each block of a page: what the page says that it prints, and what it prints."""
    names: dict[str, Any] = {"__name__": "page"}
    with beside_the_files_of(text):
        return [
            (said, printed_by(code, names) if language == "python" else run_commands(code))
            for language, code, said in BLOCK.findall(text)
        ]


def printed_by(code: str, names: dict[str, Any]) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "page.md", "exec"), names)
    return output.getvalue()


def run_commands(block: str) -> str:
    """Run those that are ours; what they print has times in it, and no page shows it."""
    for line in re.findall(r"^\$ evenhand (.*?)(?:\s+# .*)?$", block, re.MULTILINE):
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            status = status_of(line.split())
        assert status != BAD_INPUT, output.getvalue()
    return ""


def status_of(arguments: list[str]) -> object:
    try:
        command(arguments)
    except SystemExit as ended:
        return ended.code
    return 0


def written_anew(text: str) -> str:
    """The page with what its blocks print below each."""
    printed = iter(printed_by_the_blocks_of(text))

    def with_output(block: "re.Match[str]") -> str:
        language, code, _ = block.groups()
        _, output = next(printed)
        return f"```{language}\n{code}```\n" + (f"\n```\n{output}```\n" if output else "")

    return BLOCK.sub(with_output, text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(written_anew(page.read_text(encoding="utf-8")), encoding="utf-8")
