import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import page as pages
from benchmarks.contestant import Comparison, Contestant, Measure, Result, Subject, rate
from benchmarks.environment import Environment
from benchmarks.goals import GOALS
from benchmarks.peers import go_there_if_needed
from benchmarks.race import ROOT, race
from benchmarks.report import BAR_WIDTH, Figure, bar, figures_of
from benchmarks.subjects import ASKED_FOR, SUBJECTS

ENVIRONMENT = Environment("Python", "System", 2, {"trio": "1"}, peers=True, quick=False)
CONTESTANTS = {
    f"{subject.name}-{name}": one for subject in SUBJECTS.values() for name, one in subject.contestants.items()
}


def run(*arguments: str) -> str:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def compared_without_peers(subject: Subject) -> set[str]:
    """The figures that need nobody from the peers' environment."""

    def at_home(name: str | float) -> bool:
        return isinstance(name, float) or not subject.contestants[name].peer

    return {
        one.name
        for one in subject.comparisons
        if at_home(one.ours) and any(map(at_home, one.other if isinstance(one.other, tuple) else (one.other,)))
    }


# `runtime` includes latency and growth.
@pytest.mark.parametrize("name", ["core", "runtime", "durable", "sim", "footprint"])
def test_a_subject_is_measured_whole_and_told_as_json(name: str) -> None:
    first, *others = run(name, "--quick", "--rounds", "1", "--json").splitlines()
    environment = Environment.from_json(first)
    assert environment.quick and not environment.peers and "trio" in environment.versions
    figures = [Figure.from_json(line) for line in others]
    measured = {part: {figure.name for figure in figures if figure.subject == part} for part in ASKED_FOR[name]}
    assert measured == {part: compared_without_peers(SUBJECTS[part]) for part in ASKED_FOR[name]}
    for figure in figures:
        assert figure.value > 0 and figure.other > 0 and figure.ratio == figure.value / figure.other
        assert figure.worst == figure.value, "there was one round"


def test_every_subject_goes_by_its_name_too() -> None:
    assert set(ASKED_FOR) == set(SUBJECTS)
    assert all(name in parts for name, parts in ASKED_FOR.items())


def test_people_see_a_table_and_bars() -> None:
    shown = run("core", "--quick", "--rounds", "1")
    assert "ratio" in shown and "heapq and a loop" in shown
    assert "│" in shown and all(name in shown for name in compared_without_peers(SUBJECTS["core"]))


def test_rounds_that_are_none_are_refused() -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run("core", "--rounds", "0")
    assert "rounds must be >= 1, got 0" in caught.value.stderr


# Who is there


@pytest.mark.parametrize("one", CONTESTANTS.values(), ids=CONTESTANTS)
def test_a_contestant_names_a_function_that_there_is(one: Contestant) -> None:
    module, _, function = one.run.partition(":")
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_opponent_is_measured() -> None:
    used = {one.run.partition(":")[0].rpartition(".")[2] for one in CONTESTANTS.values() if "opponents" in one.run}
    assert used == {path.stem for path in pages.OPPONENTS.glob("*.py")} - {"__init__"}


def test_the_extras_bring_every_library() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]

    def named(requirements: list[str]) -> set[str]:
        return {requirement.partition(">=")[0] for requirement in requirements}

    at_home = named(project["dependencies"]) | named(extras["bench"])
    assert {one.library for one in CONTESTANTS.values() if one.library and not one.peer} <= at_home
    assert {one.library for one in CONTESTANTS.values() if one.peer} == named(extras["peers"]) - {"evenhand[bench]"}


def test_a_goal_belongs_to_a_figure() -> None:
    assert set(GOALS) <= {one.name for subject in SUBJECTS.values() for one in subject.comparisons}


def test_without_the_peers_one_is_told_how_to_get_them(tmp_path: Path) -> None:
    absent = Contestant("m:f", "nobody", (1,), (1,), library="no-such-library", peer=True)
    subject = Subject("s", "about", "limit", {"absent": absent}, ())
    with pytest.raises(SystemExit, match=r"\(no-such-library missing\): run `make bench-peers` first"):
        go_there_if_needed([subject], environment=tmp_path)


# The race


def noting(name: int, *, warm: bool) -> Contestant:
    return Contestant("tests.laps:note", f"{name}", (40, name), (20, name), warm=warm)


def test_rounds_go_back_and_forth_and_a_warm_up_comes_before_each_lap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAPS", str(tmp_path / "laps"))
    monkeypatch.setenv("EVENHAND_WORKERS", "3")
    done: list[None] = []
    results = race(
        {"one": noting(1, warm=True), "two": noting(2, warm=False)},
        rounds=2,
        quick=False,
        lap_done=lambda: done.append(None),
        left_out=pytest.fail,
    )
    notes = (tmp_path / "laps").read_text(encoding="utf-8").split()
    assert notes == ["1:2:True", "1:40:True", "2:40:True", "2:40:True", "1:2:True", "1:40:True"]
    assert results["one"] == Result("1", 40, ([0.5], [0.5]))
    assert len(done) == 4


def test_who_does_not_come_home_is_left_out_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAPS", str(tmp_path / "laps"))
    told: list[str] = []
    lost = Contestant("tests.no_such_module:run", "lost {size}", (1,), (2,))
    results = race(
        {"lost": lost, "two": noting(2, warm=False)}, 2, quick=True, lap_done=lambda: None, left_out=told.append
    )
    assert list(results) == ["two"]
    assert told == ["lost 2: left out, ModuleNotFoundError: No module named 'tests.no_such_module'"]


# Figures


RATE = rate("tasks")
TIME = Measure("s", "lower", lambda lap, amount: lap[0])


def result(title: str, *seconds: float) -> Result:
    return Result(title, 10, tuple([second] for second in seconds))


def compared(comparison: Comparison, **results: Result) -> list[Figure]:
    return list(figures_of(Subject("s", "about", "limit", {}, (comparison,)), results))


def test_the_ratio_is_that_of_the_best_laps() -> None:
    (figure,) = compared(Comparison("n", "a", "b", RATE), a=result("A", 2.0, 1.0), b=result("B", 4.0, 5.0))
    assert (figure.what, figure.value, figure.worst) == ("A", 10.0, 5.0)
    assert (figure.against, figure.other, figure.other_worst, figure.ratio) == ("B", 2.5, 2.0, 4.0)
    # 5 against 2.5 in the first round, 10 against 2 in the second.
    assert (figure.ratio_least, figure.ratio_most) == (2.0, 5.0)


def test_the_best_of_several_is_the_fastest_who_is_there() -> None:
    comparison = Comparison("n", "a", ("b", "c", "absent"), TIME)
    (figure,) = compared(comparison, a=result("A", 3.0), b=result("B", 4.0), c=result("C", 2.0))
    assert (figure.against, figure.ratio) == ("C", 1.5)


def test_what_has_no_other_side_is_no_figure() -> None:
    assert compared(Comparison("n", "a", ("b",), TIME), a=result("A", 3.0)) == []
    assert compared(Comparison("n", "a", "b", TIME), b=result("B", 3.0)) == []


def test_a_number_can_be_the_other_side() -> None:
    (figure,) = compared(Comparison("n", "a", 6.0, TIME), a=result("A", 3.0))
    assert (figure.against, figure.other_text, figure.ratio) == ("6 s", "", 0.5)


@pytest.mark.parametrize(
    ("name", "value", "ratio", "better", "said"),
    [
        ("runtime_submit_many", 1.0, 0.24, "higher", "0.25 / 0.33: missed"),
        ("runtime_submit_many", 1.0, 0.25, "higher", "0.25 / 0.33: kept"),
        ("runtime_submit_many", 1.0, 0.33, "higher", "0.25 / 0.33: reached"),
        ("footprint_import_actors", 0.26, 0.1, "lower", "0.25 / 0.18 s: missed"),
        ("footprint_import_actors", 0.25, 9.0, "lower", "0.25 / 0.18 s: kept"),
        ("something_else", 1.0, 1.0, "lower", ""),
    ],
)
def test_a_goal_is_missed_kept_or_reached(
    name: str, value: float, ratio: float, better: Literal["higher", "lower"], said: str
) -> None:
    (figure,) = compared(Comparison("n", "a", 6.0, TIME), a=result("A", 3.0))
    assert attrs.evolve(figure, name=name, value=value, ratio=ratio, better=better).goal == said


@given(st.floats(1e-9, 1e9), st.floats(1.0, 40.0))
def test_a_bar_is_as_wide_as_any_other_and_on_its_side(ratio: float, reach: float) -> None:
    left, line, right = bar(ratio, reach).partition("│")
    assert line and (len(left), len(right)) == (BAR_WIDTH, BAR_WIDTH)
    assert not (right if ratio < 1 else left).strip()


# The page


FIGURE = Figure("sim_mm8_ciw", "sim", "ours", 2.0, 1.0, "jobs/s", "theirs", 4.0, 3.0, 0.5, 0.4, 0.6, "higher")


def test_the_page_is_what_the_script_makes_of_the_saved_figures() -> None:
    lines = pages.FIGURES.read_text(encoding="utf-8").splitlines()
    assert pages.PAGE.read_text(encoding="utf-8") == pages.page(*pages.read(lines))


def test_the_saved_figures_are_of_a_run_beside_the_peers() -> None:
    environment, figures = pages.read(pages.FIGURES.read_text(encoding="utf-8").splitlines())
    assert environment.peers
    assert {figure.subject for figure in figures} == set(SUBJECTS)


def test_nobody_writes_numbers_into_the_page() -> None:
    assert not any(character.isdigit() for character in pages.INTRODUCTION + pages.OTHERS)


def test_a_page_has_every_figure_and_says_what_was_not_measured() -> None:
    text = pages.page(ENVIRONMENT, [FIGURE])
    assert "| **0.50x** | 0.40x to 0.60x | ours | 2 (1) jobs/s | theirs | 4 (3) jobs/s |  |" in text
    assert "Not in this run: `sim_mm8_heapq`, `sim_mm8_trace_and_invariants`." in text
    assert all(f"\n## {name}\n" in text for name in SUBJECTS)


def test_only_a_whole_run_becomes_a_page() -> None:
    with pytest.raises(ValueError, match="a whole run, got one with --quick"):
        pages.read([attrs.evolve(ENVIRONMENT, quick=True).as_json(), FIGURE.as_json()])
    with pytest.raises(ValueError, match="figures must be >= 1, got 0"):
        pages.read([ENVIRONMENT.as_json()])


def test_a_figure_comes_back_from_its_json() -> None:
    assert Figure.from_json(FIGURE.as_json()) == FIGURE
    assert Environment.from_json(ENVIRONMENT.as_json()) == ENVIRONMENT
    assert json.loads(FIGURE.as_json())["ratio"] == 0.5
