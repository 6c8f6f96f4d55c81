"""Exploring: what a seed stands for, many runs in one process or several, and the command."""

import json
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest

from actors.errors import EvenhandError
from sim import Burst, Check, Exponential, Kind, PriorityOrder, RandomOrder, Scenario, User, load_scenario, simulate
from sim.cli import main
from sim.commands import running
from sim.explore import Exploration, explore, hash_elsewhere, variation
from sim.explore import _varied as varied  # The one part that needs faults, which come with their own classes.
from sim.explore_worker import main as worker_main
from sim.judgement import judge
from sim.writing import write_scenario

PLANTED = Path(__file__).parent / "planted"
ROOT = Path(__file__).parent.parent


def unlucky(limit: float = 14.0) -> Scenario:
    """One run in some takes longer than this."""
    kind = Kind(name="work", service=Exponential(mean_seconds=1.0))
    user = User(name="alice", arrivals=(Burst(kind="work", count=8),))
    check = Check(name="short", metric="service_seconds", at_most=limit)
    return Scenario(name="un lucky!", duration_seconds=9.0, kinds=(kind,), users=(user,), checks=(check,))


# What a seed stands for


def test_each_seed_is_another_run_and_the_same_one_again() -> None:
    scenario = unlucky()
    found = [variation(scenario, seed) for seed in range(40)]
    assert found == [variation(scenario, seed) for seed in range(40)]
    assert [one.seed for one in found] == list(range(40))
    assert {type(one.interleaving) for one in found} == {type(None), RandomOrder, PriorityOrder}
    assert {attrs.evolve(one, seed=0, interleaving=None) for one in found} == {scenario}


@attrs.frozen(kw_only=True)
class Leap:
    """As a fault at a time."""

    at_seconds: float | None = 3.0
    fires_min: int = 1


@attrs.frozen(kw_only=True)
class Loss:
    """As a fault by chance, in a window."""

    probability: float = 0.1
    from_seconds: float = 10.0
    until_seconds: float | None = 20.0


def test_faults_vary_in_time_and_probability_within_what_the_file_says() -> None:
    random = Random("any")
    leaps = [varied(Leap(), 50.0, random) for _ in range(100)]
    assert all(0 <= leap.at_seconds < 50 and leap.fires_min == 0 for leap in leaps)
    assert len({leap.at_seconds for leap in leaps}) > 90
    losses = [varied(Loss(), 50.0, random) for _ in range(100)]
    assert all(10 <= loss.from_seconds < loss.until_seconds <= 20 for loss in losses)
    assert all(0.025 <= loss.probability <= 0.4 for loss in losses)
    assert {loss.from_seconds > 10 for loss in losses} == {loss.until_seconds < 20 for loss in losses} == {True, False}
    endless = varied(Loss(until_seconds=None, probability=1.0), 50.0, random)
    assert (endless.from_seconds, endless.until_seconds) == (10.0, None)
    assert endless.probability <= 1


# Many runs


def test_the_lowest_seed_that_fails_is_found_in_one_process_or_three() -> None:
    alone, together = (explore(unlucky(), seeds=range(5, 60), jobs=jobs) for jobs in (1, 3))
    assert alone == together
    assert alone.seed is not None and alone.judgement is not None
    assert alone.runs == alone.seed - 5 + 1
    assert all(judge(variation(unlucky(), seed)).failed is None for seed in range(5, alone.seed))
    assert alone.scenario == variation(unlucky(), alone.seed)
    assert (alone.judgement.failed, judge(alone.scenario)) == ("short", alone.judgement)


def test_without_a_counter_example_every_seed_is_run() -> None:
    calls: list[None] = []
    found = explore(unlucky(1e9), seeds=range(12), on_run=lambda: calls.append(None))
    assert (found, found.failed, len(calls)) == (Exploration(runs=12, fired={}), False, 12)


def test_an_error_in_a_run_is_a_finding_with_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise EvenhandError("no end")

    monkeypatch.setattr("sim.judgement.simulate", broken)
    found = explore(unlucky(), seeds=range(3))
    assert found.judgement is not None
    assert (found.seed, found.judgement.failed, found.judgement.said) == (0, "EvenhandError", "no end")


def test_a_process_that_ends_early_is_an_error_not_a_silent_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.children.sys.executable", "false")
    with pytest.raises(EvenhandError, match=r"^a process that ran simulations ended with status 1$"):
        explore(unlucky(), seeds=range(4), jobs=2)


def test_a_worker_answers_with_a_line_for_each_seed() -> None:
    answers = StringIO()
    worker_main(StringIO(json.dumps({"scenario": write_scenario(unlucky()), "seeds": [3, 4]})), answers)
    lines = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert lines == [attrs.asdict(judge(variation(unlucky(), seed))) for seed in (3, 4)]


# The commands


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["sim", *arguments])
    code = ended.value.code
    assert isinstance(code, int)
    return code


def saved(tmp_path: Path, scenario: Scenario, name: str = "scenario.toml") -> Path:
    path = tmp_path / name
    path.write_text(write_scenario(scenario), encoding="utf-8")
    return path


def test_a_counter_example_is_named_shrunk_saved_and_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("explore", str(saved(tmp_path, unlucky())), "--seeds", "60", "--shrink-runs", "60") == 1
    said = capsys.readouterr().out
    seed = explore(unlucky(), seeds=range(60)).seed
    assert re.search(rf"^{(seed or 0) + 1} runs; faults that fired: none$", said, re.MULTILINE)
    assert re.search(rf"^fail: seed {seed} breaks short: measured [\d.]+, limit 14$", said, re.MULTILINE)
    assert f"replay: evenhand sim run un_lucky-{seed}.toml" in said

    small = tmp_path / f"un_lucky-{seed}.toml"
    assert small.read_text().startswith("# Breaks short: measured ")
    result = simulate(load_scenario(small))
    assert f"trace sha256 {result.trace_sha256}" in said
    assert run("run", str(small)) == 1
    assert result.trace_sha256 in capsys.readouterr().out


def test_without_a_counter_example_the_command_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explore", str(saved(tmp_path, unlucky(1e9))), "--seeds", "4") == 0
    assert "4 runs; faults that fired: none\npass: every run kept every check\n" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [tmp_path / "scenario.toml"]


def test_what_is_saved_unshrunk_is_what_the_seed_stands_for(tmp_path: Path) -> None:
    path = tmp_path / "found.toml"
    file = str(saved(tmp_path, unlucky()))
    assert run("explore", file, "--seeds", "60", "--jobs", "1", "--shrink-runs", "0", "--save", str(path)) == 1
    assert load_scenario(path) == explore(unlucky(), seeds=range(60)).scenario


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--seeds", "0"], "--seeds must be a whole number >= 1, got 0"),
        (["--jobs", "0"], "--jobs must be a whole number >= 1, got 0"),
        (["--from-seed=-1"], "--from-seed must be a whole number >= 0, got -1"),
        (["--save", "scenario.toml"], "--save must be another file than the scenario, got scenario.toml"),
    ],
)
def test_bad_options_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    complaint: str,
) -> None:
    saved(tmp_path, unlucky())
    monkeypatch.chdir(tmp_path)
    assert run("explore", "scenario.toml", *options) == 2
    assert capsys.readouterr().err == f"evenhand: {complaint}\n"


def test_a_file_that_is_not_there_and_one_that_cannot_be_written_are_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("explore", str(tmp_path / "nothing.toml")) == 2
    file, save = str(saved(tmp_path, unlucky())), str(tmp_path / "no" / "where.toml")
    assert run("explore", file, "--seeds", "60", "--jobs", "1", "--shrink-runs", "0", "--save", save) == 2
    assert "--save must be a file that can be written" in capsys.readouterr().err


def test_another_process_leaves_the_same_trace() -> None:
    scenario = attrs.evolve(unlucky(), interleaving=RandomOrder(seed=3))
    assert hash_elsewhere(scenario) == simulate(scenario).trace_sha256


def test_run_twice_passes_if_both_runs_leave_the_same_trace_and_fails_if_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(saved(tmp_path, unlucky(1e9)))
    assert run("run", file, "--twice") == 0
    monkeypatch.setattr(running, "hash_elsewhere", lambda scenario: "another")
    assert run("run", file, "--twice") == 1
    assert re.search(r"^evenhand: I24 determinism: .* another process another$", capsys.readouterr().err)


def test_the_command_explores_in_a_process_of_its_own_folder(tmp_path: Path) -> None:
    """As people call it: nothing is left running, and what is printed to a pipe has no bar in it."""
    saved(tmp_path, unlucky())
    done = subprocess.run(
        [sys.executable, "-c", "from sim.cli import main; main()", "sim", "explore", "scenario.toml", "--seeds", "60"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("un lucky!  seeds 0 to 59, jobs 2, evenhand ")
