"""What if: recorded work on other terms. Replayed as recorded, every task waits what it waited."""

import json
import random
import re
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from actors import InvalidConfig, NewTask, open_runtime
from sim import (
    Exponential,
    Fidelity,
    History,
    Kind,
    Poisson,
    Runtime,
    Scenario,
    Terms,
    User,
    WhatIf,
    Workload,
    changes_picture,
    load_scenario,
    simulate,
    simulate_fully,
    what_if,
    write_change_report,
)
from sim.cli import main
from sim.fidelity import fidelity_of
from sim.library import located
from tests.virtual import run_on_virtual_time

SCENARIO = Scenario(
    name="recorded",
    seed=4,
    duration_seconds=40.0,
    runtime=Runtime(workers=3),
    kinds=(Kind(name="work", service=Exponential(mean_seconds=1.0)),),
    users=(
        User(name="flood", arrivals=(Poisson(kind="work", per_second=6.0),)),
        User(name="light", weight=2.0, arrivals=(Poisson(kind="work", per_second=0.5),)),
    ),
)
NASA = Path(__file__).parent.parent.parent / "shared" / "workloads" / "NASA-iPSC-1993-3.1-cln.swf.gz"


def recorded_fully(path: Path, scenario: Scenario = SCENARIO) -> str:
    """A recording of the whole runtime, its trio tasks and handlers included, on virtual time."""
    with path.open("wb") as output:
        assert simulate_fully(scenario, trace=output).passed
    return str(path)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> str:
    return recorded_fully(tmp_path_factory.mktemp("recorded") / "run.jsonl")


@pytest.fixture
def log(tmp_path: Path) -> str:
    """A small log in which one user floods and another comes now and then."""
    chance, lines = random.Random(7), ["; a log"]
    for number in range(300):
        user = 2 if number % 30 == 0 else 1
        lines.append(f"{number} {number * 2} -1 {chance.randint(1, 9)} 1 -1 -1 1 -1 -1 1 {user} 1 1 1 1 -1 -1")
    path = tmp_path / "log.swf"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


# Fidelity


@pytest.mark.parametrize("name", ["equal_shares", "weighted_shares", "mixed_workers"])
def test_a_full_run_of_the_library_replays_with_the_waits_that_were_recorded(name: str, tmp_path: Path) -> None:
    scenario = load_scenario(located(name))
    scenario = attrs.evolve(scenario, workers=(), runtime=attrs.evolve(scenario.runtime, workers=4), checks=())
    path = recorded_fully(tmp_path / "run.jsonl", scenario)
    what = what_if(path, sharing="fifo", jobs=1)
    assert what.fidelity is not None
    assert what.fidelity.tasks == sum(moved.before.tasks for moved in what.users.values() if moved.before)
    assert what.fidelity.error_max_seconds == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(("sharing", "ordering"), [("weighted_fair", "aging"), ("deficit", "strict"), ("fifo", "fifo")])
def test_a_runtime_in_a_program_replays_with_the_waits_that_were_recorded(
    sharing: str, ordering: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"

    async def program() -> None:
        async with open_runtime(workers=2, record=str(path), sharing=sharing, ordering=ordering) as runtime:

            @runtime.handler("work")
            async def work(seconds: float) -> None:
                await trio.sleep(seconds)

            for burst in range(5):
                tasks = [NewTask("work", 1.0 + number % 3, user=f"u{number % 4}") for number in range(12)]
                handles = [await runtime.submit(task.kind, task.payload, user=task.user) for task in tasks]
                await trio.sleep(burst)
            for handle in handles:
                await handle.result()

    run_on_virtual_time(program)
    what = what_if(path, workers=4, jobs=1)
    assert what.before == f"{sharing}, {ordering}, 2 workers"
    assert what.fidelity is not None and what.fidelity.tasks == 60
    assert what.fidelity.recorded_mean_seconds > 5.0
    assert what.fidelity.error_max_seconds == pytest.approx(0.0, abs=0.01)
    assert what.overall.p99_change < 0


def test_the_error_is_the_difference_task_by_task(recording: str) -> None:
    workload = Workload(process="trace", path=recording)
    replay = Scenario(
        name="x", duration_seconds=40.0, kinds=(), users=(), workload=workload, runtime=Runtime(workers=1)
    )
    history = History.of(replay)
    result = simulate(replay, observers=[history])
    found = fidelity_of(workload, history)
    assert found is not None
    jobs = {user: [job for job in workload.jobs if job.user == user] for user in workload.users}
    tasks = {user: sorted((task for task in result.table if task.user == user), key=by_sequence) for user in jobs}
    errors = [
        abs((task.started_at or 0.0) - task.order_at - (job.waited_seconds or 0.0))
        for user in jobs
        for job, task in zip(jobs[user], tasks[user], strict=True)
    ]
    assert found.tasks == len(errors)
    assert found.error_mean_seconds == pytest.approx(sum(errors) / len(errors))
    assert found.error_max_seconds == pytest.approx(max(errors))
    assert found.error_max_seconds > 10.0, "on one worker it is another run"


def by_sequence(task: Any) -> int:
    return int(task.sequence)


def test_nothing_is_said_of_fidelity_where_it_means_nothing(recording: str, log: str) -> None:
    assert what_if(recording, sharing="fifo", before=Terms(workers=9), jobs=1).fidelity is None
    assert what_if(recording, sharing="fifo", time_scale=0.5, jobs=1).fidelity is None
    assert what_if(log, sharing="weighted_fair", jobs=1).fidelity is None


# What would have changed


def test_terms_are_as_recorded_but_for_what_is_said(recording: str) -> None:
    what = what_if(recording, ordering="strict", weights={"flood": 3.0}, jobs=1)
    assert what.before == "weighted_fair, aging, 3 workers, light weighs 2"
    assert what.after == "weighted_fair, strict, 3 workers, light weighs 2, flood weighs 3"


def test_both_sides_are_what_single_replays_come_to(recording: str) -> None:
    what = what_if(recording, sharing="fifo", workers=2, jobs=2)
    workload = Workload(process="trace", path=recording)
    for moved, workers, sharing in (("before", 3, "weighted_fair"), ("after", 2, "fifo")):
        users = tuple(attrs.evolve(user, arrivals=()) for user in SCENARIO.users)
        replay = Scenario(
            name="x", duration_seconds=40.0, kinds=(), users=users, workload=workload, runtime=Runtime(workers=workers)
        )
        result = simulate(replay, sharing=sharing)
        for user, group in result.users.items():
            waits = getattr(what.users[user], moved)
            assert (waits.p50, waits.p99, waits.max) == pytest.approx(
                (group.wait_seconds_p50, group.wait_seconds_p99, group.wait_seconds_max)
            )
    assert what.users["light"].p99_change > 0
    assert [user for user, _ in what.by_change()][-1] == max(what.users, key=lambda user: what.users[user].p99_change)


def test_a_log_is_compared_with_first_come_on_as_many_workers(log: str) -> None:
    what = what_if(log, sharing="weighted_fair", workers=2, jobs=1)
    assert (what.before, what.after) == ("fifo, aging, 2 workers", "weighted_fair, aging, 2 workers")
    assert what.users["user2"].p99_change < 0
    other = what_if(log, workers=3, before=Terms(sharing="weighted_fair", workers=1), jobs=1)
    assert (other.before, other.after) == ("weighted_fair, aging, 1 workers", "weighted_fair, aging, 3 workers")


def test_who_is_not_in_the_recording_weighs_nothing(recording: str) -> None:
    with pytest.raises(InvalidConfig, match=r"^weights must be of users of .*run.jsonl, got 'nobody'$"):
        what_if(recording, weights={"nobody": 2.0}, jobs=1)


@pytest.mark.skipif(not NASA.exists(), reason=f"needs the log {NASA.name}, which is not part of the project")
def test_a_real_log_says_who_gains_and_who_loses() -> None:
    what = what_if(NASA, sharing="weighted_fair", workers=2, days=7.0)
    changes = [moved.p99_change for moved in what.users.values()]
    assert min(changes) < 0 < max(changes)
    assert what.overall.before is not None and what.overall.after is not None
    assert (
        what.overall.before.tasks
        == what.overall.after.tasks
        == sum(moved.after.tasks for moved in what.users.values() if moved.after)
    )


# Pictures and pages


@pytest.fixture(scope="module")
def what(recording: str) -> WhatIf:
    return what_if(recording, sharing="fifo", jobs=1)


def test_the_picture_says_who_gains_and_who_loses_most(what: WhatIf) -> None:
    title = changes_picture(what).title
    assert re.match(r"2 of 2 users wait longer, most of all light: p99 .* s → .* s$", title)
    flood, light = what.users["flood"], what.users["light"]
    mixed = attrs.evolve(
        what, users={"flood": attrs.evolve(flood, before=flood.after, after=light.before), "light": light}
    )
    assert re.match(
        r"1 of 2 users wait less, most of all flood: p99 .* → .*; 1 of 2 users wait longer, most of all light: p99 .* → ",
        changes_picture(mixed).title,
    )
    same = attrs.evolve(
        what, users={user: attrs.evolve(moved, after=moved.before) for user, moved in what.users.items()}
    )
    assert changes_picture(same).title == "nobody's p99 wait would have changed"
    assert changes_picture(attrs.evolve(what, users={})).title == "nobody's p99 wait would have changed"


def test_the_page_has_everybody_and_says_how_near_the_replay_is(what: WhatIf, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    many = attrs.evolve(what, users={f"<user{number}>": what.overall for number in range(60)})
    write_change_report(many, path)
    text = path.read_text(encoding="utf-8")
    assert all(f"&lt;user{number}&gt;" in text for number in range(60))
    assert what.fidelity is not None and "Replayed as recorded, " in text
    assert "<script" not in text and "<user" not in text


def test_all_of_it_is_plain_data(what: WhatIf) -> None:
    data = json.loads(json.dumps(what.as_json()))
    assert what.fidelity == Fidelity(**data["fidelity"])
    assert data["users"]["light"]["after"]["p99"] == what.users["light"].after.p99  # type: ignore[union-attr]


# The command


@pytest.fixture(autouse=True)
def _own_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "160")


def said_by(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as exited:
        main(["sim", "replay", *arguments])
    printed = capsys.readouterr()
    assert exited.value.code == status, printed.err
    return printed.out, printed.err


def test_replayed_as_it_was_the_command_says_how_near_it_comes(
    recording: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = said_by(capsys, recording)
    assert err == ""
    assert re.search(
        r"replayed as recorded, \d+ waits against the recorded ones: off by 0 s on average, 0 s at p99", out
    )
    fidelity = json.loads(said_by(capsys, recording, "--json")[0])["fidelity"]
    assert fidelity["error_max_seconds"] == pytest.approx(0.0, abs=1e-6)


def test_on_other_terms_the_command_says_what_changes_for_whom(
    recording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, png = tmp_path / "out.html", tmp_path / "out.png"
    out, err = said_by(
        capsys,
        recording,
        "--sharing",
        "fifo",
        "--workers",
        "4",
        "--weight",
        "light=5",
        "--report",
        str(page),
        "--png",
        str(png),
    )
    assert err == ""
    assert "before: weighted_fair, aging, 3 workers, light weighs 2" in out
    assert "after: fifo, aging, 4 workers, light weighs 5" in out
    assert "replayed as recorded, " in out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert png.read_bytes().startswith(b"\x89PNG")


def test_the_command_answers_a_program(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = said_by(capsys, log, "--workers", "2", "--sharing", "deficit", "--before-sharing", "strict", "--json")
    data = json.loads(out)
    assert err == ""
    assert (data["sharing"], data["what_if"]["before"]) == ("deficit", "strict, aging, 2 workers")
    assert data["what_if"]["overall"]["after"]["max"] == pytest.approx(data["overall"]["wait_seconds_max"])
    assert "what_if" not in json.loads(said_by(capsys, log, "--workers", "2", "--json")[0])


BAD: list[tuple[list[str], str]] = [
    (["--weight", "light"], "--weight must be a user and a finite number > 0, such as alice=3, got 'light'"),
    (["--weight", "light=0"], "--weight must be a user and a finite number > 0, such as alice=3, got 'light=0'"),
    (["--weight", "nobody=2"], "weights must be of users of "),
    (["--before-workers", "0"], "--before-workers must be a whole number >= 1, got 0"),
    (["--before-sharing", "fiffo"], "did you mean 'fifo'?"),
    (
        ["--png", "out.png"],
        "--report and --png need something that changes: --sharing, --ordering, --workers, --weight",
    ),
]


@pytest.mark.parametrize(("options", "said"), BAD, ids=[said for _, said in BAD])
def test_bad_options_exit_with_2(
    recording: str, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = said_by(capsys, recording, *options, status=2)
    assert out == ""
    assert said in err


def test_a_page_never_overwrites_the_recording(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, err = said_by(capsys, recording, "--sharing", "fifo", "--report", recording, status=2)
    assert err == f"evenhand: --report must be another file than the one that is read, got {recording}\n"


def test_without_the_extra_the_command_says_which_before_it_runs(
    recording: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    out, err = said_by(capsys, recording, "--sharing", "fifo", "--png", "out.png", status=2)
    assert (out, err) == ("", "evenhand: pictures need the lab extra: pip install 'evenhand[lab]'\n")
