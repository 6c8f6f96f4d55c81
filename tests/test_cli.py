"""The command `evenhand sim run`: exit statuses, what it prints, and what it says of bad input."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import attrs
import pytest

from actors.trace import Header, read_trace
from sim.cli import main
from sim.invariants import Violation
from sim.reading import load_scenario
from sim.runner import simulate

SCENARIO = """\
# Two users and one worker.
name = "two users"
seed = 3
duration_seconds = 20.0

[runtime]
workers = 1

[[kind]]
name = "work"
service = { distribution = "exponential", mean_seconds = 1.0 }

[[user]]
name = "alice"
[[user.arrivals]]
process = "burst"
count = 20
kind = "work"

[[user]]
name = "bob"
[[user.arrivals]]
process = "poisson"
per_second = 0.5
kind = "work"
priority = "high"

[[check]]
name = "all done"
metric = "completed"
user = "alice"
at_least = 20
"""
FAILING = SCENARIO.replace("at_least = 20", "at_least = 21")

GROUP_KEYS = {
    "completed",
    "wait_seconds_mean",
    "wait_seconds_p50",
    "wait_seconds_p99",
    "wait_seconds_max",
    "service_seconds",
}
RESULT_KEYS = {
    "scenario",
    "seed",
    "version",
    "verdict",
    "trace_sha256",
    "jobs",
    "virtual_seconds",
    "wall_seconds",
    "checks",
    "users",
    "levels",
    "jain",
    "stolen",
    "recovered",
    "zombies",
}


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    return write(tmp_path, SCENARIO)


@pytest.fixture(autouse=True)
def _own_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command may add to where modules are looked for; that must not outlive the test."""
    monkeypatch.setattr(sys, "path", list(sys.path))


def write(directory: Path, text: str, name: str = "scenario.toml") -> str:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def status_of(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exited:
        main(["sim", "run", *arguments])
    assert isinstance(exited.value.code, int)
    return exited.value.code


def refuse_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} is not JSON")


def strictly_parsed(text: str) -> Any:
    """JSON as the standard has it: Python's own reader would let NaN and Infinity through."""
    return json.loads(text, parse_constant=refuse_constant)


def result_of(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    assert status_of(*arguments, "--json") == status
    printed = capsys.readouterr()
    assert printed.err == ""
    parsed = strictly_parsed(printed.out)
    assert isinstance(parsed, dict)
    return parsed


def without_wall(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key != "wall_seconds"}


# What it prints


def test_a_run_that_keeps_its_promises_exits_with_0(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(scenario) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    for expected in ("two users", "seed 3", "alice", "bob", "all done", "pass", simulated_hash(scenario)):
        assert expected in printed.out
    assert "fail" not in printed.out.lower()


def test_a_run_that_breaks_a_check_exits_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, FAILING)
    assert status_of(path) == 1
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "FAIL" in printed.out
    result = result_of(capsys, path, status=1)
    assert result["verdict"] == "fail"
    check = result["checks"][-1]
    assert (check["name"], check["passed"], check["value"], check["limit"]) == ("all done", False, 20, 21.0)


def simulated_hash(path: str) -> str:
    return simulate(load_scenario(path)).trace_sha256


def test_json_has_every_documented_key(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = result_of(capsys, scenario)
    assert set(result) >= RESULT_KEYS
    assert (result["scenario"], result["seed"], result["verdict"]) == ("two users", 3, "pass")
    assert list(result["users"]) == ["alice", "bob"]
    assert list(result["levels"]) == ["very_low", "low", "normal", "high", "very_high", "critical"]
    for group in (*result["users"].values(), *result["levels"].values()):
        assert set(group) >= GROUP_KEYS
    assert result["checks"]
    for check in result["checks"]:
        assert set(check) >= {"name", "passed", "value", "limit"}
        assert check["passed"] is True
    assert result["jobs"] == sum(user["completed"] for user in result["users"].values())
    # Nothing to measure is null, never a number that looks like a wait.
    nobody = result["levels"]["critical"]
    assert (nobody["completed"], nobody["service_seconds"]) == (0, 0.0)
    assert {nobody[key] for key in GROUP_KEYS if key.startswith("wait_")} == {None}
    assert (result["stolen"], result["recovered"], result["zombies"]) == (0, 0, 0)


def test_json_is_what_simulate_gives(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = json.loads(json.dumps(simulate(load_scenario(scenario)).as_json()))
    assert without_wall(result_of(capsys, scenario)) == without_wall(expected)


EMPTY = 'name = "empty"\nduration_seconds = 1\nkind = []\nuser = []\n'
ENDLESS = SCENARIO.replace("at_least = 20", "at_most = 1e308")


@pytest.mark.parametrize("text", [SCENARIO, EMPTY, ENDLESS], ids=["usual", "empty", "huge limit"])
def test_json_is_valid_whatever_the_scenario(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert result_of(capsys, write(tmp_path, text))["verdict"] == "pass"


@pytest.mark.parametrize("limit", ["inf", "-inf", "nan"])
def test_a_limit_that_json_cannot_hold_is_refused(
    limit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, SCENARIO.replace("at_least = 20", f"at_most = {limit}"))
    assert status_of(path, "--json") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert one_line(printed.err).endswith(f"got {limit}")


def test_names_that_look_like_markup_are_printed_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SCENARIO.replace("alice", "[red]al[/]").replace("two users", "[b]two[/b]").replace("all done", "[all] done")
    assert status_of(write(tmp_path, text)) == 0
    printed = capsys.readouterr().out
    for name in ("[red]al[/]", "[b]two[/b]", "[all] done"):
        assert name in printed


def test_how_often_each_fault_happened_is_printed_if_there_are_any(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(write(tmp_path, SCENARIO)) == 0
    assert "fired" not in capsys.readouterr().out
    path = write(tmp_path, SCENARIO + '[[fault]]\nfault = "crash"\ntarget = "scheduler"\nat_seconds = 1.0\n')
    assert status_of(path) == 0
    printed = capsys.readouterr().out
    assert re.search(r"crash\s+│ scheduler\s+│\s+1 │", printed)
    assert result_of(capsys, path)["faults"] == [{"fault": "crash", "target": "scheduler", "fired": 1}]


def test_what_broke_is_printed_as_it_is(
    scenario: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Sound cores break nothing, so a broken run is made up; a user's name may look like markup here too.
    broken = attrs.evolve(
        simulate(load_scenario(scenario)), verdict="fail", violations=(Violation("I4 one outcome", 2.0, "[/]#1 ran"),)
    )
    monkeypatch.setattr("sim.commands.running.simulate", lambda *arguments, **options: broken)
    assert status_of(scenario) == 1
    assert "I4 one outcome at 2 s: [/]#1 ran" in capsys.readouterr().out


# What the options do


def test_the_same_file_gives_the_same_run_every_time(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = result_of(capsys, scenario), result_of(capsys, scenario)
    assert without_wall(first) == without_wall(second)


def test_seed_takes_effect(scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = result_of(capsys, scenario, "--seed", "4")
    assert other["seed"] == 4
    assert other["trace_sha256"] != result_of(capsys, scenario)["trace_sha256"]
    in_file = write(tmp_path, SCENARIO.replace("seed = 3", "seed = 4"), "other.toml")
    assert without_wall(result_of(capsys, in_file)) == without_wall(other)
    assert result_of(capsys, scenario, "--seed=0")["seed"] == 0, "0 is a seed like any other"


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("sharing", "fifo"),
        ("sharing", "round_robin"),
        ("ordering", "fifo"),
        ("ordering", "strict"),
        ("ordering", "actors.policies.ordering:Strict"),
    ],
)
def test_policies_take_effect(
    option: str, name: str, scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = result_of(capsys, scenario, f"--{option}", name)
    assert changed[option] == name.replace("actors.policies.ordering:Strict", "strict")
    in_file = write(tmp_path, SCENARIO.replace("workers = 1", f'workers = 1\n{option} = "{name}"'), "other.toml")
    assert without_wall(result_of(capsys, in_file)) == without_wall(changed)


def test_another_sharing_policy_gives_another_run_of_the_same_work(
    scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fair, plain = result_of(capsys, scenario), result_of(capsys, scenario, "--sharing", "fifo")
    assert fair["trace_sha256"] != plain["trace_sha256"]
    assert fair["jobs"] == plain["jobs"]
    assert fair["users"]["bob"]["wait_seconds_mean"] < plain["users"]["bob"]["wait_seconds_mean"]


def test_trace_writes_what_the_hash_is_of(scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.jsonl"
    result = result_of(capsys, scenario, "--trace", str(path), "--sharing", "fifo", "--ordering", "strict")
    header, *body = path.read_bytes().splitlines(keepends=True)
    assert hashlib.sha256(b"".join(body)).hexdigest() == result["trace_sha256"]
    with path.open("rb") as lines:
        first, *events = read_trace(lines)
    assert isinstance(first, Header)
    assert json.loads(header)["event"] == "header"
    assert (first.scenario, first.seed, first.version) == ("two users", 3, result["version"])
    assert (first.options["sharing"], first.options["ordering"]) == ("fifo", "strict")
    assert sum(type(event).__name__ == "Completed" for event in events) == result["jobs"]


def test_writing_a_trace_changes_nothing(scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b"what was here before")
    traced = result_of(capsys, scenario, "--trace", str(path))
    assert without_wall(traced) == without_wall(result_of(capsys, scenario))
    assert b"before" not in path.read_bytes()


# Bad input


def one_line(said: str) -> str:
    assert said.startswith("evenhand: ")
    assert said.endswith("\n")
    assert said.count("\n") == 1, said
    assert "Traceback" not in said
    return said.removeprefix("evenhand: ").removesuffix("\n")


BAD_ARGUMENTS: list[tuple[list[str], str]] = [
    (["--sed", "4"], "--seed"),
    (["--sharin", "fifo"], "--sharing"),
    (["--seed"], "--seed"),
    (["--seed", "four"], "four"),
    (["--seed", "1.5"], "1.5"),
    (["--seed", "-1"], "--seed must be a whole number >= 0, got -1"),
    (["--seed=-1"], "--seed must be a whole number >= 0, got -1"),
    (["--seed", "1", "--seed", "2"], "--seed"),
    (["--json=perhaps"], "perhaps"),
    (["another.toml"], "another.toml"),
    (["--sharing", "fiffo"], "got 'fiffo' (did you mean 'fifo'?)"),
    (["--sharing", ""], "got ''"),
    (["--sharing", "aging"], "sharing policy must be one of"),
    (["--ordering", "agin"], "got 'agin' (did you mean 'aging'?)"),
    (["--ordering", "no_such_module:Policy"], "No module named 'no_such_module'"),
    (["--ordering", "actors:Nothing"], "has no attribute 'Nothing'"),
    (["--ordering", "actors:WeightedFair"], "ordering policy must have key"),
    (["--ordering", ".actors:Aging"], "ordering policy must be importable, got '.actors:Aging'"),
    (["--ordering", "actors:"], "got 'actors:'"),
]


@pytest.mark.parametrize(("arguments", "said"), BAD_ARGUMENTS, ids=[" ".join(bad) for bad, _ in BAD_ARGUMENTS])
def test_bad_options_exit_with_2_and_one_line(
    arguments: list[str], said: str, scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(scenario, *arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in one_line(printed.err)


def test_a_missing_argument_exits_with_2_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of() == 2
    assert "FILE" in one_line(capsys.readouterr().err)


@pytest.mark.parametrize("arguments", [["bogus"], ["sim", "bogus"], ["sim", "runn", "x.toml"]], ids=" ".join)
def test_an_unknown_command_exits_with_2_and_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(arguments)
    assert exited.value.code == 2
    assert "Unknown command" in one_line(capsys.readouterr().err)


def test_a_missing_file_exits_with_2_and_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.toml"
    assert status_of(str(path)) == 2
    assert one_line(capsys.readouterr().err).startswith(f"{path}: must be a readable scenario file: ")


def test_a_directory_exits_with_2_and_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(str(tmp_path)) == 2
    assert one_line(capsys.readouterr().err).startswith(f"{tmp_path}: must be a readable scenario file: ")


def test_every_fault_of_a_file_has_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, SCENARIO.replace("seed = 3", "seed = true").replace("per_second = 0.5", "per_second = 0"))
    assert status_of(path, "--json") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert sorted(printed.err.splitlines()) == [
        f"evenhand: {path}: seed must be a whole number, got True",
        f"evenhand: {path}: user[1].arrivals[0].per_second must be a finite number > 0, got 0.0",
    ]


def test_a_trace_that_cannot_be_opened_exits_with_2_and_one_line(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path, tmp_path / "no" / "such" / "directory" / "trace.jsonl"):
        assert status_of(scenario, "--trace", str(path)) == 2
        said = one_line(capsys.readouterr().err)
        assert said.startswith("--trace must be a file that can be written: ")
        assert str(path) in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no disk that is always full")
def test_a_trace_that_cannot_be_written_exits_with_2_and_one_line(
    scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(scenario, "--trace", "/dev/full") == 2
    assert one_line(capsys.readouterr().err).startswith("--trace must be a file that can be written: ")


def test_without_the_cli_extra_the_command_says_which_one_it_needs(
    scenario: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # None in sys.modules is how Python itself says that a module cannot be imported.
    monkeypatch.setitem(sys.modules, "cyclopts", None)
    assert status_of(scenario) == 2
    assert one_line(capsys.readouterr().err) == "this command needs the cli extra: pip install 'evenhand[cli]'"


def test_version_is_the_packages(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    version = result_of(capsys, scenario)["version"]
    with pytest.raises(SystemExit) as exited:
        main(["--version"])
    assert exited.value.code in (0, None)
    assert capsys.readouterr().out.strip() == version


# In a process of its own


def in_a_process(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = shutil.which("evenhand", path=str(Path(sys.executable).parent))
    assert command is not None, "the package must be installed with its command"
    environment = {**os.environ, "PYTHONHASHSEED": "1", "NO_COLOR": "1"}
    return subprocess.run(
        [command, "sim", "run", *arguments], cwd=directory, env=environment, capture_output=True, text=True
    )


def test_the_command_does_in_a_process_what_it_does_in_this_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = write(tmp_path, SCENARIO, "good.toml"), write(tmp_path, FAILING, "bad.toml")
    # A policy of one's own is found beside the scenario.
    policy = "class Last:\n    def key(self, task):\n        return -task.order_at\n"
    write(tmp_path, policy, "my_policies.py")

    run = in_a_process(tmp_path, "good.toml", "--json", "--trace", "trace.jsonl")
    assert (run.returncode, run.stderr) == (0, "")
    assert without_wall(strictly_parsed(run.stdout)) == without_wall(result_of(capsys, good))
    assert (tmp_path / "trace.jsonl").stat().st_size > 0

    run = in_a_process(tmp_path, bad, "--ordering", "my_policies:Last")
    assert (run.returncode, run.stderr) == (1, "")
    assert "ordering my_policies:Last" in run.stdout

    run = in_a_process(tmp_path, "none.toml")
    assert (run.returncode, run.stdout) == (2, "")
    assert one_line(run.stderr).startswith("none.toml: must be a readable scenario file: ")
