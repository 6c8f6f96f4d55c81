"""`evenhand sim run FILE --why TASK`: the chain that delayed a task, for people and as JSON."""

import json
from pathlib import Path

import pytest

from sim.cli import main

SCENARIO = """\
# Two users and one worker.
name = "two users"
duration_seconds = 20.0

[runtime]
workers = 1

[[kind]]
name = "work"
service = { distribution = "fixed", seconds = 2.0 }
cost = 2.0

[[user]]
name = "alice"
arrivals = [{ process = "burst", count = 30, kind = "work" }]

[[user]]
name = "bob"
arrivals = [{ process = "burst", count = 2, at_seconds = 1.0, kind = "work" }]

[[event]]
at_seconds = 5.0
action = "pause"
user = "bob"

[[event]]
at_seconds = 7.0
action = "resume"
user = "bob"
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "two.toml"
    path.write_text(SCENARIO)
    return str(path)


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> list[str]:
    with pytest.raises(SystemExit) as exited:
        main(["sim", "run", *arguments])
    assert exited.value.code == status
    captured = capsys.readouterr()
    return (captured.err if status else captured.out).splitlines()


def test_the_chain_is_printed_below_the_tables(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, file, "--why", "bob#32")
    start = next(number for number, line in enumerate(lines) if line.startswith("bob#32"))
    assert lines[start:] == [
        "bob#32 waited 7.00 s, from 1.00 s to 8.00 s: 2.00 s for its own user's other tasks, 2.00 s for the turns of others, "
        "2.00 s for a pause, 1.00 s for work that was under way",
        "       1.00 s      1.00 s  worker/1 was running alice#1 when it came",
        "       2.00 s      2.00 s  worker/1 ran bob#31: bob's own, came before",
        "       4.00 s      1.00 s  worker/1 ran alice#2: alice's turn (given since it came: alice 0 s, bob 2 s)",
        "       5.00 s      2.00 s  bob was paused",
        "       7.00 s      1.00 s  worker/1 ran alice#3: alice's turn (given since it came: alice 2 s, bob 2 s)",
    ]


def test_a_long_chain_is_shortened_in_the_middle(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, file, "--why", "alice#30")
    start = next(number for number, line in enumerate(lines) if line.startswith("alice#30 waited 62.00 s"))
    assert len(lines[start:]) == 1 + 8 + 1 + 8
    assert lines[start + 9] == "          ...     30.00 s  15 more like these"


def test_a_task_that_did_not_wait_says_so(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, file, "--why", "alice#1")[-1] == "alice#1 did not wait"


def test_the_chain_is_in_the_json_too(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = json.loads("\n".join(said(capsys, file, "--json", "--why", "bob#31")))
    assert result["why"] == [
        {
            "began_at": 1.0,
            "ended_at": 2.0,
            "seconds": 1.0,
            "reason": "busy",
            "said": "worker/1 was running alice#1 when it came",
            "task": "alice#1",
            "worker": "worker/1",
        }
    ]
    assert "why" not in json.loads("\n".join(said(capsys, file, "--json")))


def test_an_unknown_task_is_bad_input(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    known = "tasks are numbered over all users: those of bob are 'bob#31' to 'bob#32'"
    assert said(capsys, file, "--why", "bob#3", status=2) == [
        f"evenhand: --why: no task of this run is called 'bob#3' ({known})"
    ]
    assert said(capsys, file, "--why", "bab#3", status=2) == [
        "evenhand: --why: no task of this run is called 'bab#3' (did you mean 'alice#3'?)"
    ]
