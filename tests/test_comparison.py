"""Policies side by side: the same work for all, the same numbers as single runs, and the command with its page."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from actors import SHARING, Capped, InvalidConfig, Task, WeightedFair
from sim import (
    Burst,
    Comparison,
    Exponential,
    Fixed,
    Kind,
    Outcome,
    Poisson,
    Runtime,
    Scenario,
    User,
    compare,
    history_of,
    load_scenario,
    simulate,
    write_report,
)
from sim.children import Child
from sim.cli import main
from sim.comparison import SHARING_COMPARED, contenders
from sim.library import located
from sim.writing import write_scenario

SCENARIO = Scenario(
    name="flood & light",
    duration_seconds=30.0,
    runtime=Runtime(workers=2),
    kinds=(Kind(name="work", service=Exponential(mean_seconds=1.0)),),
    users=(
        User(name="flood", arrivals=(Poisson(kind="work", per_second=8.0),)),
        User(name="light", arrivals=(Poisson(kind="work", per_second=0.4),)),
    ),
)


@attrs.frozen
class LatestFirst:
    """A policy that no other process could find if it were made in a notebook."""

    def key(self, task: Task) -> float:
        return -task.order_at


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare(SCENARIO, sharing=["fifo", "weighted_fair"], seeds=3, jobs=1, pictures=True)


def test_each_number_is_that_of_the_single_run(comparison: Comparison) -> None:
    for policy in ("fifo", "weighted_fair"):
        for seed in range(3):
            result = simulate(SCENARIO, sharing=policy, seed=seed)
            assert comparison.values("wait_seconds_p99", policy, "light")[seed] == pytest.approx(
                result.users["light"].wait_seconds_p99
            )
            assert comparison.values("jain", policy)[seed] == pytest.approx(result.jain)
            lag = history_of(SCENARIO, sharing=policy, seed=seed).worst_lag()
            assert lag is not None
            assert comparison.values("fluid_lag_seconds", policy)[seed] == pytest.approx(lag.seconds)


def test_all_policies_have_the_same_work(comparison: Comparison) -> None:
    for seed in range(3):
        of_seed = [outcome for outcome in comparison.outcomes if outcome.seed == seed]
        assert len({outcome.jobs for outcome in of_seed}) == 1
        shares = [outcome.users["light"]["share"] for outcome in of_seed]
        assert shares[0] == pytest.approx(shares[1])


def test_runs_are_the_same_whether_they_are_judged_or_not(comparison: Comparison) -> None:
    assert [outcome.judged for outcome in comparison.outcomes] == [True, True, False, False, False, False]
    judged = compare(SCENARIO, sharing=["fifo", "weighted_fair"], seeds=3, jobs=1, judge_all=True)
    assert all(outcome.judged for outcome in judged.outcomes)
    assert [attrs.evolve(outcome, judged=False) for outcome in judged.outcomes] == [
        attrs.evolve(outcome, judged=False) for outcome in comparison.outcomes
    ]


def test_processes_give_what_one_gives(comparison: Comparison) -> None:
    runs: list[None] = []
    spread = compare(
        SCENARIO, sharing=["fifo", "weighted_fair"], seeds=3, jobs=2, pictures=True, on_run=lambda: runs.append(None)
    )
    assert spread == comparison
    assert len(runs) == 6


def test_differences_are_taken_seed_by_seed(comparison: Comparison) -> None:
    plain, fair = (comparison.values("wait_seconds_p99", name, "light") for name in ("fifo", "weighted_fair"))
    difference = comparison.difference("wait_seconds_p99", "weighted_fair", "fifo", "light")
    assert difference is not None
    assert difference.mean == pytest.approx(sum(fair[seed] - plain[seed] for seed in range(3)) / 3)
    assert difference.excludes_zero and difference.mean < 0


def test_an_outcome_is_the_same_after_json(comparison: Comparison) -> None:
    for outcome in comparison.outcomes:
        assert Outcome.from_json(json.loads(json.dumps(attrs.asdict(outcome)))) == outcome


def test_a_policy_of_a_notebook_runs_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LatestFirst, "__module__", "__main__")
    monkeypatch.setattr("sim.fleet.Child", None)
    found = compare(SCENARIO, ordering=["fifo", LatestFirst()], seeds=2, jobs=2)
    assert found.policies == ("fifo", "LatestFirst")


def test_a_policy_of_a_module_is_found_by_other_processes() -> None:
    found = compare(SCENARIO, ordering=[LatestFirst()], seeds=2, jobs=2)
    assert found.values("wait_seconds_max", "LatestFirst", "light") == {
        seed: pytest.approx(simulate(SCENARIO, ordering=LatestFirst(), seed=seed).users["light"].wait_seconds_max)
        for seed in range(2)
    }


def test_policies_are_called_by_name_and_by_the_options_that_differ() -> None:
    found = contenders(SCENARIO, ["fifo", Capped(user_concurrency_max=5), WeightedFair()], ["strict", "aging"])
    assert list(found) == [
        "fifo, strict",
        "fifo, aging",
        "capped (user_concurrency_max 5), strict",
        "capped (user_concurrency_max 5), aging",
        "weighted_fair, strict",
        "weighted_fair, aging",
    ]
    assert list(contenders(SCENARIO, [], [])) == ["weighted_fair"]
    assert list(contenders(SCENARIO, [], ["strict"])) == ["strict"]


def test_the_scenarios_own_policy_keeps_its_options() -> None:
    capped = attrs.evolve(SCENARIO, runtime=Runtime(workers=2, sharing=Capped(user_concurrency_max=1)))
    found = contenders(capped, ["capped", "fifo"], [])
    assert found["capped (user_concurrency_max 1)"].runtime.sharing == Capped(user_concurrency_max=1)


def test_those_compared_by_default_are_six_of_the_built_in() -> None:
    assert len(SHARING_COMPARED) == 6
    assert set(SHARING_COMPARED) <= set(SHARING.classes)


def test_a_tenant_is_one_and_of_many_users_the_rest_are_others() -> None:
    users = (
        User(name="mallory/{n}", count=5, arrivals=(Burst(kind="work", count=4),)),
        User(name="u{n}", count=8, arrivals=(Burst(kind="work", count=1),)),
    )
    many = attrs.evolve(SCENARIO, users=users, kinds=(Kind(name="work", service=Fixed(seconds=1.0)),))
    found = compare(many, sharing=["fifo"], seeds=1, jobs=1)
    assert found.users() == ["mallory/*", *(f"u{n}" for n in range(1, 9))]
    shown = found.shown(4, "wait_seconds_p99")
    assert len(shown) == 4
    assert sorted(user for users in shown.values() for user in users) == sorted(found.users())
    assert list(shown)[-1] == "worst of 6 others"


BAD: list[tuple[dict[str, Any], str]] = [
    ({"seeds": 0}, "seeds must be one at least and none twice, got []"),
    ({"seeds": [3, 3]}, "seeds must be one at least and none twice, got [3, 3]"),
    ({"jobs": 0}, "jobs must be a whole number >= 1, got 0"),
    ({"sharing": ["fifo", "fifo"]}, "policies must be compared once each, got fifo again"),
    ({"scenarios": []}, "compare needs a scenario at least"),
    ({"scenarios": [SCENARIO, SCENARIO]}, "scenarios must have names of their own, got 'flood & light' again"),
]


@pytest.mark.parametrize(("options", "said"), BAD, ids=[said for _, said in BAD])
def test_bad_input_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConfig, match=f"^{re.escape(said)}$"):
        compare(**{"scenarios": SCENARIO, "seeds": 1, **options})


def test_what_is_not_measured_is_refused_by_name(comparison: Comparison) -> None:
    with pytest.raises(InvalidConfig, match=r"^metric of a user must be one of tasks, "):
        comparison.interval("jain", "fifo", "light")
    with pytest.raises(InvalidConfig, match=r"^metric of the run must be one of jain, fluid_lag_seconds, "):
        comparison.interval("share", "fifo")
    with pytest.raises(InvalidConfig, match=r"^scenario must be one of flood & light, got 'x'$"):
        comparison.interval("jain", "fifo", scenario="x")


def test_a_child_is_ended_when_its_block_is_left() -> None:
    with Child("sim.fleet_worker") as child:
        pass
    assert child._process.poll() is not None


# The page


def test_a_page_needs_no_other_file_and_no_script(comparison: Comparison, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    write_report(comparison, path)
    text = path.read_text(encoding="utf-8")
    sources = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert sources and all(source.startswith("data:image/png;base64,") for source in sources)
    rest = re.sub(r'src="[^"]*"', "", text)
    assert [word for word in ("<script", "http", "@import", "url(", "<link") if word in rest] == []
    assert "<h1>2 policies on flood &amp; light</h1>" in text
    assert len(comparison.pictures) == 8
    for _, _, picture in comparison.pictures:
        assert picture.data_uri() in text
    for word in ("Student", "The runs under seed 0 were held against every invariant: none was broken"):
        assert word in text


def test_a_page_that_cannot_be_written_is_named(comparison: Comparison, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="must be a file that can be written"):
        write_report(comparison, tmp_path)


# The command


@pytest.fixture(autouse=True)
def _own_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "scenario.toml"
    path.write_text(write_scenario(SCENARIO), encoding="utf-8")
    return str(path)


def said_by(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as exited:
        main(["sim", "compare", *arguments])
    printed = capsys.readouterr()
    assert exited.value.code == status, printed.err
    return printed.out, printed.err


def test_the_command_prints_tables_and_how_sure_they_are(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = said_by(capsys, file, "--sharing", "fifo, weighted_fair", "--seeds", "3", "--jobs", "1")
    assert err == ""
    assert out.startswith("flood & light  seeds 0 to 2, 6 runs, evenhand ")
    rows = [[cell.strip() for cell in re.split("[│┃]", line)[1:-1]] for line in out.splitlines() if "│" in line]
    assert [row[:2] for row in rows[:4]] == [
        ["flood", "fifo"],
        ["", "weighted_fair"],
        ["light", "fifo"],
        ["", "weighted_fair"],
    ]
    assert all(re.fullmatch(r"[\d.,]+ ± [\d.,]+ (ms|s|min)", row[3]) for row in rows[:4])
    assert rows[-1][:2] == ["light", "weighted_fair"] and rows[-1][3] == "yes"
    assert "6 runs; under each seed all policies had the same work and the same random numbers." in out
    assert "The runs under seed 0 were held against every invariant: none was broken; the others" in " ".join(
        out.split()
    )
    assert "95 % confidence interval by Student's t" in " ".join(out.split())


def test_the_command_answers_a_program(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = said_by(capsys, file, "--sharing", "fifo", "--seeds", "2", "--from-seed", "5", "--jobs", "1", "--json")
    data = json.loads(out)
    assert err == ""
    assert (data["policies"], data["seeds"]) == (["fifo"], [5, 6])
    assert data["outcomes"][1]["users"]["light"]["tasks"] == simulate(SCENARIO, seed=6).users["light"].completed


def test_the_command_writes_a_page_and_a_picture(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, png = tmp_path / "out.html", tmp_path / "out.png"
    said_by(capsys, file, "--ordering", "aging,fifo", "--seeds", "1", "--report", str(page), "--png", str(png))
    assert page.read_text(encoding="utf-8").count("<details>") == 2
    assert png.read_bytes().startswith(b"\x89PNG")


def test_of_several_scenarios_each_has_its_picture(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    png = tmp_path / "out.png"
    out, _ = said_by(capsys, file, "shouting_user", "--sharing", "fifo", "--seeds", "1", "--png", str(png))
    assert out.startswith("flood & light, shouting user  seeds 0 to 0, 2 runs")
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["out-1.png", "out-2.png"]


def test_a_run_that_breaks_an_invariant_ends_with_1_unless_its_file_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = load_scenario(located("no_fencing"))
    unnamed = tmp_path / "unnamed.toml"
    unnamed.write_text(write_scenario(attrs.evolve(broken, breaks=(), checks=())), encoding="utf-8")
    options = ["--sharing", "weighted_fair", "--seeds", "1", "--from-seed", str(broken.seed), "--jobs", "1"]
    out, _ = said_by(capsys, "no_fencing", *options)
    assert "broken in some: I1 conservation" in " ".join(out.split())
    said_by(capsys, str(unnamed), *options, status=1)


BAD_OPTIONS: list[tuple[list[str], str]] = [
    ([], "compare needs a FILE at least"),
    (["sybil", "--seeds", "0"], "--seeds must be a whole number >= 1, got 0"),
    (["sybil", "--from-seed", "-1"], "--from-seed must be a whole number >= 0, got -1"),
    (["sybil", "--jobs", "1.5"], "--jobs must be a whole number >= 1, got 1.5"),
    (["sybil", "--sharing", "fiffo"], "did you mean 'fifo'?"),
    (["sybill"], "did you mean 'sybil'?"),
]


@pytest.mark.parametrize(("options", "said"), BAD_OPTIONS, ids=[said for _, said in BAD_OPTIONS])
def test_bad_options_exit_with_2(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, err = said_by(capsys, *options, status=2)
    assert said in err


def test_a_page_never_overwrites_a_scenario(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, err = said_by(capsys, file, "--report", file, status=2)
    assert err == f"evenhand: --report must be another file than the ones that are read, got {file}\n"


def test_without_the_extra_the_command_says_which_before_it_runs(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    out, err = said_by(capsys, file, "--seeds", "1", "--png", str(tmp_path / "out.png"), status=2)
    assert (out, err) == ("", "evenhand: pictures need the lab extra: pip install 'evenhand[lab]'\n")
    said_by(capsys, file, "--sharing", "fifo", "--seeds", "1", "--jobs", "1")
