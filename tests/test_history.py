"""A run as data: it says of waits, service and backlogs what the metrics say, live or read from a recording."""

import gzip
from pathlib import Path
from typing import Any

import pytest
import trio

from actors import InvalidConfig, NewTask, open_runtime
from sim import (
    History,
    Scenario,
    SimulationResult,
    count_messages,
    history_of,
    load_scenario,
    message_graph,
    read_history,
    simulate,
    steal_graph,
)
from sim.groups import percentile
from sim.library import located
from sim.outcome import Ideals, outcome_of, tenants_of
from sim.unjudged import needs_judging, run_unjudged
from tests.virtual import run_on_virtual_time

NAMES = (
    "cancel_race",
    "delayed_and_expiring",
    "equal_shares",
    "hang_and_timeout",
    "mixed_workers",
    "reconfiguration",
    "retry_herd",
    "shift_change",
    "stealing_longest",
    "stop_in_mid_work",
    "tenants_by_weight",
    "weighted_shares",
    "worker_crash",
    "zombie_report",
)


@pytest.fixture(scope="module", params=NAMES)
def watched(request: pytest.FixtureRequest) -> "Watched":
    scenario = load_scenario(located(request.param))
    history = History.of(scenario)
    return scenario, history, simulate(scenario, observers=[history])


Watched = tuple[Scenario, History, SimulationResult]


def test_it_says_what_the_metrics_say(watched: Watched) -> None:
    _, history, result = watched
    waits, slowdowns, service = history.waits(), history.slowdowns(), history.service()
    for user in history.users:
        metrics = result.users[user]
        for part, wanted in ((0.5, metrics.wait_seconds_p50), (0.99, metrics.wait_seconds_p99)):
            assert percentile(waits[user], part) == pytest.approx(wanted)
        assert service[user] == pytest.approx(metrics.service_seconds)
        mean = sum(slowdowns[user]) / len(slowdowns[user]) if slowdowns[user] else None
        assert mean == pytest.approx(metrics.slowdown_mean)
    stints = list(history.stints())
    assert sum(stint.stolen for stint in stints) == result.stolen
    assert sum(stint.outcome == "recovered" for stint in stints) == result.recovered
    assert sum(stint.outcome == "completed" for stint in stints) == result.overall.completed


def test_a_run_that_nobody_judges_is_the_same_run(watched: Watched) -> None:
    scenario, history, _ = watched
    if needs_judging(scenario):
        with pytest.raises(AssertionError):
            run_unjudged(scenario, History())
        return
    unjudged = History.of(scenario)
    run_unjudged(scenario, unjudged)
    assert list(unjudged.stints()) == list(history.stints())
    assert list(unjudged.tasks()) == list(history.tasks())


def test_a_backlog_is_never_below_none_and_ends_with_what_still_waits(watched: Watched) -> None:
    _, history, result = watched
    still = [task for task in result.table if task.status == "pending"]
    for user in history.users:
        backlog = history.backlog(user)
        assert all(waiting >= 0 for _, waiting in backlog)
        assert (backlog[-1][1] if backlog else 0) == sum(task.user == user for task in still)


def test_what_was_received_comes_to_the_service_and_no_faster_than_workers_work(watched: Watched) -> None:
    _, history, _ = watched
    received, ideal, service = history.received(), history.ideal(), history.service()
    for user, curve in received.items():
        assert curve.last == pytest.approx(service[user])
        assert ideal[user].last == pytest.approx(service[user])
    for behind in history.lags():
        assert 0.0 <= behind.seconds <= service[behind.user] + 1e-6


def test_an_outcome_has_the_same_numbers_and_tenants_as_one(watched: Watched) -> None:
    scenario, history, result = watched
    outcome = outcome_of(scenario, "any", history, result, Ideals())
    assert (outcome.jobs, outcome.virtual_seconds) == (result.jobs, result.virtual_seconds)
    assert outcome.run["jain"] == (None if result.jain is None else pytest.approx(result.jain))
    for user in history.users:
        found, metrics = outcome.users[user], result.users[user]
        assert found["wait_seconds_max"] == pytest.approx(metrics.wait_seconds_max)
        assert found["share"] == pytest.approx(metrics.share)
    assert outcome.users["all"]["wait_seconds_p99"] == pytest.approx(result.overall.wait_seconds_p99)
    for tenant, members in tenants_of(history.users).items():
        shares = [outcome.users[user]["share"] or 0.0 for user in members]
        assert outcome.users[tenant]["share"] == pytest.approx(sum(shares))


@pytest.mark.parametrize("name", ["worker_crash", "stealing_longest"])
def test_a_trace_reads_back_as_the_same_history(name: str, tmp_path: Path) -> None:
    scenario = load_scenario(located(name))
    history, path = History.of(scenario), tmp_path / "run.jsonl.gz"
    with gzip.open(path, "wb") as output:
        simulate(scenario, observers=[history], trace=output)  # type: ignore[arg-type]
    read = read_history(path)
    assert sorted(read.users) == sorted(history.users)
    assert (read.workers, read.worker_count) == (history.workers, history.worker_count)
    assert list(read.stints()) == list(history.stints())
    assert read.worst_lag() == history.worst_lag()


def test_what_a_runtime_recorded_begins_at_its_start(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    async def main() -> None:
        async with open_runtime(workers=1, record=str(path), users={"bob": {"weight": 2.0}}) as runtime:

            @runtime.handler("work")
            async def work(payload: Any) -> None:
                await trio.sleep(payload)

            for handle in await runtime.submit_many([NewTask("work", 2, user="alice"), NewTask("work", 3, user="bob")]):
                await handle.result()

    run_on_virtual_time(main)
    history = read_history(path)
    assert [(stint.user, stint.ended_at - stint.began_at) for stint in history.stints()] == [
        ("alice", 2.0),
        ("bob", 3.0),
    ]
    assert history.last_at < 10.0, "times of the day become times since the start"
    assert (history.worker_count, history.weights["bob"]) == (1, 2.0)


def test_a_fair_policy_stays_nearer_the_ideal_than_first_come() -> None:
    scenario = load_scenario(located("shouting_user"))
    plain, fair = (history_of(scenario, sharing=name).worst_lag() for name in ("fifo", "weighted_fair"))
    assert plain is not None and fair is not None
    assert plain.user == "modest"
    assert plain.seconds > 10 * fair.seconds


# Graphs


def test_every_message_between_actors_is_counted_once() -> None:
    scenario = load_scenario(located("stealing_longest"))
    jobs = simulate(scenario).jobs
    graph = message_graph(count_messages(scenario))
    assert graph.edges["source", "queue"]["messages"] == {"Submit": jobs}
    assert graph.edges["shard", "worker"]["messages"]["Run"] == jobs
    for _, _, edge in graph.edges(data=True):
        assert edge["count"] == sum(edge["messages"].values())


def test_messages_are_not_counted_where_faults_have_a_gate_of_their_own() -> None:
    with pytest.raises(InvalidConfig, match=r"^messages must be counted without faults, which 'worker crash' has$"):
        count_messages(load_scenario(located("worker_crash")))


def test_the_graph_of_steals_has_everybody_and_each_steal_once() -> None:
    history = history_of(load_scenario(located("stealing_longest")))
    graph = steal_graph(history)
    assert {name for name, node in graph.nodes(data=True) if node["role"] == "user"} == {"alice", "bob", "carol"}
    assert sum(edge["count"] for _, _, edge in graph.edges(data=True)) == sum(
        stint.stolen for stint in history.stints()
    )
    assert not graph.has_edge("bob", "worker/2"), "worker/2 is bob's own"
