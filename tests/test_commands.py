"""The commands beside `run`: check, list, replay; the header that comes first; and the bar of a long run."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress

from actors.version import installed_version
from sim import load_scenario, simulate
from sim.cli import main
from sim.commands import progress
from sim.commands.progress import RunProgress, watched
from sim.library import listing, located

SCENARIO = """\
# Two users and one worker.
name = "two users"
seed = 3
duration_seconds = 20

[runtime]
workers = 1

[[kind]]
name = "work"
service = { distribution = "exponential", mean_seconds = 1.0 }

[[user]]
name = "alice"
arrivals = [{ process = "burst", count = 20, kind = "work" }]

[[user]]
name = "bob"
weight = 4
arrivals = [{ process = "poisson", per_second = 0.5, kind = "work", priority = "high" }]
"""
LOG = """\
; a log
1 0 7 10 1 -1 -1 -1 -1 -1 -1 1 1 -1 -1 -1 -1 -1
2 0 3 10 1 -1 -1 -1 -1 -1 -1 2 1 -1 -1 -1 -1 -1
3 90000 -1 10 1 -1 -1 -1 -1 -1 -1 2 1 -1 -1 -1 -1 -1
"""


@pytest.fixture(autouse=True)
def _own_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command may add to where modules are looked for; that must not outlive the test."""
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO, encoding="utf-8")
    return str(path)


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log.swf"
    path.write_text(LOG, encoding="utf-8")
    return str(path)


def said_by(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as exited:
        main(["sim", *arguments])
    assert exited.value.code == status
    printed = capsys.readouterr()
    return printed.out, printed.err


# check


def test_check_says_what_a_scenario_has_and_does_not_run_it(
    scenario: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sim.commands.running.simulate", None)
    out, err = said_by(capsys, "check", scenario, "sybil")
    assert out.splitlines() == [
        f"{scenario}: a scenario: 2 users, 1 kinds, 0 checks",
        f"{located('sybil')}: a scenario: 51 users, 1 kinds, 1 checks",
    ]
    assert err == ""


def test_check_names_every_fault_of_every_file(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text(SCENARIO.replace("seed = 3", "sed = 3").replace("count = 20", "count = 0"), encoding="utf-8")
    out, err = said_by(capsys, "check", str(bad), scenario, "nowhere", status=2)
    assert out.startswith(f"{scenario}: a scenario")
    assert err.splitlines() == [
        f"evenhand: {bad}: sed is not a key of this table (did you mean 'seed'?)",
        f"evenhand: {bad}: user[0].arrivals[0].count must be a whole number >= 1, got 0",
        "evenhand: nowhere: must be a scenario file, or a name that `evenhand sim list` shows",
    ]


def test_check_without_a_file_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert said_by(capsys, "check", status=2) == ("", "evenhand: check needs a FILE at least\n")


def test_check_reads_what_a_scenario_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "replay.toml"
    path.write_text('name = "x"\nworkload = { process = "swf", path = "none.swf" }\n', encoding="utf-8")
    _, err = said_by(capsys, "check", str(path), status=2)
    assert err.startswith(f"evenhand: {path}: workload {tmp_path / 'none.swf'} must be a file that can be read: ")


# list and run by name


def test_list_has_a_line_for_each_scenario_with_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = said_by(capsys, "list")
    assert err == ""
    lines = [line.split("  ", 1) for line in out.splitlines()]
    assert [(name, promise.strip()) for name, promise in lines] == [
        (f"{listed.section}/{listed.name}", listed.promise) for listed in listing()
    ]


def test_a_scenario_of_the_library_runs_by_its_name_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    out, _ = said_by(capsys, "run", "stealing_none", "--json")
    assert json.loads(out)["trace_sha256"] == simulate(load_scenario(located("stealing_none"))).trace_sha256


# The header


def test_the_header_comes_first_with_the_seed_the_version_and_every_option(
    scenario: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sim.commands.running.simulate", interrupted)
    out, _ = said_by(capsys, "run", scenario, "--seed", "7", "--ordering", "strict", status=130)
    assert out.splitlines() == [
        f"two users  seed 7, evenhand {installed_version()}",
        "workers 1, sharing weighted_fair, ordering strict, critical_burst 16, poison_after 3, stealing longest, "
        "when_full reject, admission_share 8, duration_seconds 20, warmup_seconds 0, service_draws task, "
        "interleaving as sent, weights (bob 4)",
    ]


# replay


def test_a_recorded_run_is_replayed_as_it_was_unless_told_otherwise(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = str(tmp_path / "run.jsonl")
    out, _ = said_by(capsys, "run", scenario, "--json", "--trace", trace)
    before = json.loads(out)
    again = json.loads(said_by(capsys, "replay", trace, "--json")[0])
    assert again["trace_sha256"] == before["trace_sha256"], "policies, workers and weights are in the recording"
    plain = json.loads(said_by(capsys, "replay", trace, "--sharing", "fifo", "--json")[0])
    assert (plain["sharing"], plain["jobs"]) == ("fifo", before["jobs"])
    assert plain["users"]["bob"]["wait_seconds_mean"] > before["users"]["bob"]["wait_seconds_mean"]
    quick = json.loads(said_by(capsys, "replay", trace, "--workers", "30", "--json")[0])
    assert quick["overall"]["wait_seconds_max"] == 0.0
    slow = json.loads(said_by(capsys, "replay", trace, "--ordering", "strict", "--time-scale", "10", "--json")[0])
    assert slow["ordering"] == "strict"
    assert slow["virtual_seconds"] > before["virtual_seconds"]


def test_a_log_is_replayed_beside_what_it_says_of_waits(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = said_by(capsys, "replay", log, "--workers", "1")
    assert err == ""
    assert out.startswith("replay of log.swf  seed 0, ")
    assert "as recorded: mean 5.00, p50 3.00, p99 7.00, max 7.00 (2 tasks)" in out
    assert "pass: 3 jobs in 90,010.0 virtual seconds" in out


def test_a_log_can_be_cut(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    for options in (["--days", "1"], ["--jobs", "2"]):
        assert json.loads(said_by(capsys, "replay", log, "--json", *options)[0])["jobs"] == 2


BAD: list[tuple[list[str], str]] = [
    (["--workers", "1.5"], "--workers must be a whole number >= 1, got 1.5"),
    (["--jobs", "0"], "--jobs must be a whole number >= 1, got 0"),
    (["--days", "0"], "days_max must be a finite number > 0, got 0.0"),
    (["--time-scale", "-1"], "time_scale must be a finite number > 0, got -1.0"),
    (["--sharing", "fiffo"], "did you mean 'fifo'?"),
]


@pytest.mark.parametrize(("options", "said"), BAD, ids=[said for _, said in BAD])
def test_bad_options_of_replay_exit_with_2(
    log: str, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = said_by(capsys, "replay", log, *options, status=2)
    assert out == ""
    assert said in err


def test_a_file_that_is_no_recording_exits_with_2(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, err = said_by(capsys, "replay", scenario, status=2)
    assert err == f"evenhand: {scenario}: must be a recorded run, .jsonl, or a log, .swf, gzipped or not\n"


def test_a_replay_never_overwrites_its_recording(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, err = said_by(capsys, "replay", log, "--trace", log, status=2)
    assert err == f"evenhand: --trace must be another file than the one that is read, got {log}\n"
    assert Path(log).read_text(encoding="utf-8") == LOG


# How far a run is


def bar_of(monkeypatch: pytest.MonkeyPatch, patience_seconds: float) -> tuple[Progress, RunProgress]:
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", patience_seconds)
    bar = Progress(console=Console(file=io.StringIO(), force_terminal=True))
    return bar, RunProgress(bar, duration_seconds=100.0)


def test_a_long_run_shows_how_far_its_arrivals_are_and_then_that_it_drains(monkeypatch: pytest.MonkeyPatch) -> None:
    bar, shown = bar_of(monkeypatch, patience_seconds=0.0)
    for _ in range(256):
        shown.on_quiet(40.0)
    (task,) = bar.tasks
    assert (task.description, task.completed, task.total) == ("arrivals", 40.0, 100.0)
    for _ in range(256):
        shown.on_quiet(120.0)
    (task,) = bar.tasks
    assert (task.description, task.total) == ("draining", None)
    bar.stop()


def test_a_short_run_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bar, shown = bar_of(monkeypatch, patience_seconds=1e9)
    for _ in range(1024):
        shown.on_quiet(40.0)
    assert bar.tasks == []


@pytest.mark.parametrize("terminal", [True, False])
def test_only_a_terminal_is_shown_anything(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with watched(load_scenario(located("sybil"))) as observers:
        assert len(observers) == terminal
