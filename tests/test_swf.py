"""The Standard Workload Format: what is read, what is refused, and a real log, whole, under every sharing policy."""

import gzip
import os
from pathlib import Path

import pytest

from actors import SHARING, InvalidConfig
from sim import Runtime, Scenario, Workload, load_scenario, parse_scenario, simulate
from sim.jobs import Execution, Job
from sim.swf import read_swf

LOG = """\
; Computer: a small one
;
    1      0     -1   100  128  -1 -1 -1 -1 -1 -1  1  1 -1 -1 -1 -1 -1

    2     10      5    50    1  -1 -1 -1 -1 -1 -1 12  1  2 -1 -1 -1 -1
    3     10     -1    -1    1  -1 -1 -1 -1 -1 -1  1  1  2 -1 -1 -1 -1
    4  86500     -1   2.5    1  -1 -1 -1 -1 -1 -1  3  1  2 -1 -1 -1 -1
    5  86400     -1     0    1  -1 -1 -1 -1 -1 -1 -1  1  2 -1 -1 -1 -1
"""

ROOT = Path(__file__).parent.parent
NASA = ROOT.parent / "shared" / "workloads" / "NASA-iPSC-1993-3.1-cln.swf.gz"
EXPLORING = os.environ.get("HYPOTHESIS_PROFILE") == "explore"
WHOLE = ("weighted_fair",)
"""The policies that every run tries on the whole log; `make explore` tries all."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.swf"
    path.write_text(LOG, encoding="utf-8")
    return path


def job(at: float, user: str, seconds: float, waited: float | None = None) -> Job:
    return Job(at_seconds=at, user=user, kind="job", waited_seconds=waited, executions=(Execution(seconds),))


JOBS = [
    job(0.0, "user1", 100.0),
    job(10.0, "user12", 50.0, 5.0),
    job(86500.0, "user3", 2.5),
    job(86400.0, "unknown", 0.0),
]


def test_user_submit_time_wait_and_run_time_are_read_and_jobs_without_a_run_time_left_out(log: Path) -> None:
    assert list(read_swf(str(log))) == JOBS


def test_a_packed_log_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "log.swf.gz"
    path.write_bytes(gzip.compress(LOG.encode()))
    assert list(read_swf(str(path))) == JOBS


def test_a_workload_sorts_cuts_and_scales(log: Path) -> None:
    def starts(**options: float) -> list[float]:
        return [found.at_seconds for found in Workload(process="swf", path=str(log), **options).jobs]  # type: ignore[arg-type]

    assert starts() == [0.0, 10.0, 86400.0, 86500.0]
    assert starts(jobs_max=3) == [0.0, 10.0, 86400.0]
    assert starts(days_max=1) == [0.0, 10.0]
    assert starts(days_max=1.0005) == [0.0, 10.0, 86400.0]
    assert starts(days_max=1, time_scale=0.5) == [0.0, 5.0], "days are counted as recorded"
    assert starts(time_scale=2.0) == [0.0, 20.0, 172800.0, 173000.0]
    workload = Workload(process="swf", path=str(log), time_scale=2.0)
    assert workload.users == ("unknown", "user1", "user3", "user12")
    assert [found.executions[0].seconds for found in workload.jobs] == [100.0, 50.0, 0.0, 2.5], (
        "work takes what it took"
    )


BAD: list[tuple[str, str]] = [
    ("1 2 3", "line 9: a job must have 18 columns, got 3"),
    ("6 x -1 5 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "line 9: column 2, submit time, must be a finite number, got 'x'"),
    ("6 1 -1 inf 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "line 9: column 4, run time, must be a finite number, got 'inf'"),
    ("6 1 -1 5 1 1 1 1 1 1 1 1.5 1 1 1 1 1 1", "line 9: column 12, user, must be a whole number, got '1.5'"),
    ("6 1 -1 5 1 1 1 1 1 1 1 \xff 1 1 1 1 1 1", r"line 9: column 12, user, must be a whole number, got '\\xff'"),
]


@pytest.mark.parametrize(("line", "said"), BAD, ids=[said for _, said in BAD])
def test_a_line_that_is_no_job_is_named(log: Path, line: str, said: str) -> None:
    log.write_bytes(LOG.encode() + line.encode("latin-1") + b"\n")
    with pytest.raises(InvalidConfig) as refused:
        list(read_swf(str(log)))
    assert str(refused.value) == f"workload {log}, {said}"


@pytest.mark.parametrize("content", [None, b"\x1f\x8bnot really", gzip.compress(LOG.encode())[:-20]])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "log.swf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidConfig, match=f"workload {path} must be a file that can be read: "):
        list(read_swf(str(path)))


# In a scenario

SCENARIO = """\
# Two days of a small log.
name = "small log"

[workload]
process = "swf"
path = "logs/log.swf"

[[user]]
name = "user12"
weight = 3
"""


def scenario_file(tmp_path: Path, text: str = SCENARIO, log: str = LOG) -> Path:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "log.swf").write_text(log, encoding="utf-8")
    path = tmp_path / "scenario.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_log_brings_its_users_its_kind_and_its_duration(tmp_path: Path) -> None:
    scenario = load_scenario(scenario_file(tmp_path))
    assert scenario.duration_seconds == 86501.0
    assert {user.name: user.weight for user in scenario.each_user()} == {
        "user12": 3.0,
        "unknown": 1.0,
        "user1": 1.0,
        "user3": 1.0,
    }
    result = simulate(scenario)
    assert result.passed and result.jobs == 4
    assert {user: group.service_seconds for user, group in result.users.items()} == pytest.approx(
        {"user12": 50.0, "unknown": 0.0, "user1": 100.0, "user3": 2.5}
    )


def test_a_table_says_how_a_recorded_kind_is_run_and_need_not_say_how_long_it_takes(tmp_path: Path) -> None:
    text = SCENARIO + '\n[[kind]]\nname = "job"\nconcurrency_max = 1\n'
    result = simulate(load_scenario(scenario_file(tmp_path, text)))
    assert result.passed
    assert result.users["user12"].wait_seconds_max == 90.0, "one at a time, the first of which takes 100 s"


def test_users_of_a_log_may_have_more_work_and_be_checked(tmp_path: Path) -> None:
    text = SCENARIO + (
        'arrivals = [{ process = "burst", count = 5, kind = "job" }]\n'
        '[[check]]\nname = "all done"\nmetric = "completed"\nuser = "user3"\nat_least = 1\n'
    )
    result = simulate(load_scenario(scenario_file(tmp_path, text)))
    assert result.passed
    assert result.users["user12"].completed == 6


def test_arrivals_stop_when_the_scenario_says(tmp_path: Path) -> None:
    scenario = load_scenario(scenario_file(tmp_path, "duration_seconds = 100\n" + SCENARIO))
    assert simulate(scenario).jobs == 2


FAULTS: list[tuple[str, str, str]] = [
    (SCENARIO.replace("swf", "swff"), LOG, "workload.process must be one of trace, swf, got 'swff'"),
    (
        SCENARIO.replace("logs/log.swf", "nowhere.swf"),
        LOG,
        "workload {folder}/nowhere.swf must be a file that can be read: ",
    ),
    (SCENARIO, LOG + "7\n", "workload {folder}/logs/log.swf, line 9: a job must have 18 columns, got 1"),
    (SCENARIO + "wieght = 1\n", LOG, "user[0].wieght is not a key of this table (did you mean 'weight'?)"),
    (SCENARIO.replace('path = "logs/log.swf"', "path = 3"), LOG, "workload.path must be text, got 3"),
    ("service_draws = 'start'\n" + SCENARIO, LOG, "service_draws must be 'task' where a workload says how long"),
    (
        SCENARIO + '[[check]]\nname = "x"\nmetric = "completed"\nuser = "user99"\nat_least = 1\n',
        LOG,
        "check[0].user must name a user of this scenario (user12, unknown, user1, user3), got 'user99'",
    ),
]


@pytest.mark.parametrize(("text", "log", "said"), FAULTS, ids=[said for _, _, said in FAULTS])
def test_a_scenario_says_what_is_wrong_with_its_workload(tmp_path: Path, text: str, log: str, said: str) -> None:
    path = scenario_file(tmp_path, text, log)
    with pytest.raises(InvalidConfig) as refused:
        load_scenario(path)
    (line,) = str(refused.value).split("\n")
    assert line.startswith(f"{path}: " + said.format(folder=tmp_path))


def test_an_empty_log_is_a_scenario_without_work(tmp_path: Path) -> None:
    result = simulate(load_scenario(scenario_file(tmp_path, log="; nothing\n")))
    assert result.passed and result.jobs == 0


def test_without_a_workload_everything_must_be_said() -> None:
    with pytest.raises(InvalidConfig, match="duration_seconds is missing\nkind is missing\nuser is missing"):
        parse_scenario('name = "x"')


# The real log


@pytest.mark.skipif(not NASA.exists(), reason=f"the log {NASA.name} is not in ../shared/workloads")
@pytest.mark.parametrize("sharing", SHARING.classes)
def test_a_real_log_replays_under_every_sharing_policy(sharing: str) -> None:
    whole = EXPLORING or sharing in WHOLE
    workload = Workload(process="swf", path=str(NASA), days_max=None if whole else 5.0)
    scenario = Scenario(
        name="NASA iPSC",
        duration_seconds=workload.duration_seconds,
        runtime=Runtime(workers=4),
        workload=workload,
        kinds=(),
        users=(),
    )
    result = simulate(scenario, sharing=sharing)
    assert result.passed, result.violations
    assert result.jobs == len(workload.jobs) == sum(group.completed for group in result.users.values())
    recorded = sum(found.executions[0].seconds for found in workload.jobs)
    assert result.overall.service_seconds == pytest.approx(recorded)
    if whole:
        assert (result.jobs, len(result.users)) == (18_239, 69)
