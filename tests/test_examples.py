"""The examples and the tutorial do what they say: each is run, and what it prints is what is written there."""

import contextlib
import importlib.util
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from sim.determinism import VirtualClock, run_deterministically
from tests.virtual import run_on_virtual_time

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))
REAL = {"cpu_processes", "sigterm", "web_app"}
"""Those with processes, signals and sockets, which know no virtual time."""
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", TUTORIAL, re.DOTALL)
TESTS = [block for block in re.findall(r"```python\n(.*?)```", TUTORIAL, re.DOTALL) if "async def test_" in block]


def said_to_print(path: Path) -> str:
    _, _, printed = path.read_text(encoding="utf-8").partition("# prints:\n")
    return re.sub(r"^# ?", "", printed, flags=re.MULTILINE)


def loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.stem not in REAL], ids=lambda path: path.stem)
def test_an_example_prints_what_it_says_it_prints(path: Path) -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        run_deterministically(loaded(path).main)
    assert output.getvalue() == said_to_print(path)


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.stem in REAL], ids=lambda path: path.stem)
def test_an_example_with_the_real_world_in_it_prints_what_it_says_it_prints(path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(path)], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
    )
    assert (ran.stdout, ran.returncode) == (said_to_print(path), 0), ran.stderr


def test_every_example_is_run_and_says_what_it_prints() -> None:
    assert {path.stem for path in EXAMPLES} >= REAL
    assert len(EXAMPLES) >= 7
    assert all(said_to_print(path) for path in EXAMPLES)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_of_the_tutorial_prints_what_the_tutorial_says(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    code, output = PROGRAMS[number]
    if "thread" not in code:
        monkeypatch.setattr(trio, "run", run_on_virtual_time)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "tutorial.md", "exec"), {"__name__": "tutorial"})
    assert printed.getvalue() == output


@pytest.mark.parametrize("code", TESTS)
def test_a_test_of_the_tutorial_passes(code: str) -> None:
    namespace: dict[str, Any] = {}
    exec(compile(code, "tutorial.md", "exec"), namespace)
    (test,) = (value for name, value in namespace.items() if name.startswith("test_"))
    clock = VirtualClock()

    async def main() -> None:
        from sim.testing import virtual_runtime

        async with virtual_runtime(workers=4) as runtime:
            await test(clock, runtime)

    run_deterministically(main, clock=clock)


def test_every_block_of_the_tutorial_is_run() -> None:
    assert len(PROGRAMS) + len(TESTS) == TUTORIAL.count("```python\n")
    assert len(TESTS) == 1
