"""Health: an alert above each threshold and none at it, what has no handler, whom nobody reaches, and how alerts end."""

from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from actors import Alert, AlertOptions, Health, Runtime, WorkerOptions
from actors.trace import Completed, DeadLettered, Event, Recovered, Retried, StopIgnored, SubmitRefused
from tests.test_sharing import finds
from tests.test_stats import BEGIN, run


def refused(at: float) -> Event:
    return SubmitRefused(at, "alice", "crawl", "full")


def recovered(at: float) -> Event:
    return Recovered(at, "alice#1", 1, "worker/1", 1.0)


def ignored(at: float) -> Event:
    return StopIgnored(at, "alice#1", 1, "worker/1", "timed out")


def completed(at: float) -> Event:
    return Completed(at, "alice#1", 1, "worker/1", 1.0)


def retried(at: float) -> Event:
    return Retried(at, "alice#1", 1, "worker/1", 1.0, "failed", "boom", at + 1)


def failed(at: float) -> Event:
    return DeadLettered(at, "alice#1", 1, "worker/1", 1.0, "failed", "failed", "boom")


def expired(at: float) -> Event:
    return DeadLettered(at, "alice#1", 1, None, 0.0, "expired", "expired", "not started")


def tell(runtime: Runtime, *events: Event) -> None:
    for event in events:
        runtime._engine._observe(event)


def only(**thresholds: Any) -> AlertOptions:
    """Alerts of these names and no others."""
    nobody: dict[str, Any] = dict.fromkeys(
        ["oldest_wait_seconds", "failure_rate", "stuck", "unreachable", "refused"], None
    )
    return AlertOptions(**nobody | thresholds)


def test_a_runtime_that_has_nothing_to_do_is_well() -> None:
    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        assert runtime.health() == Health(status="ok")

    run(scenario)


# Thresholds


@given(count=st.integers(0, 6), threshold=st.none() | st.integers(0, 6), name=st.sampled_from(["refused", "stuck"]))
def test_there_is_an_alert_above_the_threshold_and_none_at_it(count: int, threshold: int | None, name: str) -> None:
    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        for number in range(count):
            tell(runtime, refused(BEGIN) if name == "refused" else (recovered, ignored)[number % 2](BEGIN))
        alerts = {alert.name: alert for alert in runtime.health().alerts}
        assert (name in alerts) == (threshold is not None and count > threshold)
        if threshold is not None and count > threshold:
            assert (alerts[name].value, alerts[name].threshold) == (count, threshold)
        assert runtime.health().status == ("degraded" if alerts else "ok")

    run(scenario, alerts=only(**{name: threshold}))


def test_an_alert_says_what_is_wrong_in_words() -> None:
    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        await runtime.submit("nobody", user="bob")
        await trio.sleep(301)
        now = BEGIN + 301
        tell(runtime, refused(now), refused(now), recovered(now), failed(now))
        assert runtime.health() == Health(
            status="degraded",
            alerts=(
                Alert(
                    "oldest_wait_seconds",
                    301.0,
                    300.0,
                    "a task has waited for 301.0 s: no worker has a handler for 'nobody'",
                ),
                Alert("failure_rate", 1.0, 0.5, "100% of the executions of the last minutes failed"),
                Alert("stuck", 1, 0, "1 of the executions of the last minutes fell silent or would not stop"),
                Alert("unreachable", 1, 0, "no worker may take the work of 1 of the users"),
                Alert("refused", 2, 0, "2 of the submits of the last minutes were refused"),
            ),
            unreachable=("bob",),
            unhandled=("nobody",),
        )

    run(scenario, worker=(WorkerOptions(users=("alice",)),))


FAILURES: dict[str, Any] = {
    "counts": st.fixed_dictionaries(
        {kind: st.integers(0, 4) for kind in ("completed", "retried", "failed", "expired")}
    ),
    "threshold": st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]),
}


@given(**FAILURES)
def test_the_failure_rate_is_the_part_of_executions_that_failed(counts: dict[str, int], threshold: float) -> None:
    """What expired or made room never ran: it is no execution, and did not fail as one."""

    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        for kind, count in counts.items():
            tell(runtime, *([globals()[kind](BEGIN)] * count))
        bad = counts["retried"] + counts["failed"]
        ended = bad + counts["completed"]
        rate = bad / ended if ended else 0.0
        expected = [("failure_rate", rate, threshold)] if rate > threshold else []
        assert [(alert.name, alert.value, alert.threshold) for alert in runtime.health().alerts] == expected

    run(scenario, alerts=only(failure_rate=threshold))


def test_a_failure_rate_that_counts_what_never_ran_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.stats.NeverRan", StopIgnored)
    finds(test_the_failure_rate_is_the_part_of_executions_that_failed, **FAILURES)


def test_a_wait_is_an_alert_when_it_is_longer_than_the_threshold() -> None:
    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        await runtime.submit("nobody", delay_seconds=100)
        await trio.sleep(160)
        assert runtime.health().alerts == ()
        await trio.sleep(1)
        assert [(alert.name, alert.value) for alert in runtime.health().alerts] == [("oldest_wait_seconds", 61.0)]

    run(scenario, alerts=only(oldest_wait_seconds=60))


def test_a_delayed_task_that_was_admitted_first_hides_no_other() -> None:
    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        await runtime.submit("nobody", delay_seconds=3_600)
        await runtime.submit("nobody")
        await trio.sleep(3_601)
        assert [(alert.name, alert.value) for alert in runtime.health().alerts] == [("oldest_wait_seconds", 3_601.0)]

    run(scenario, alerts=only(oldest_wait_seconds=300))


def test_executions_and_the_pauses_between_them_are_no_waits() -> None:
    """It fails after a second, and waits for 20 more to be tried again."""

    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        await runtime.submit("fails")
        await trio.sleep(15)
        await runtime.pause()
        assert runtime.stats().oldest_wait_seconds == 0.0
        await trio.sleep(10)
        assert runtime.stats().oldest_wait_seconds == 4.0

    run(scenario)


@pytest.mark.parametrize("seconds", [1, 59, 60, 239])
def test_what_happened_in_the_last_four_minutes_is_an_alert_though_nothing_else_happened(seconds: int) -> None:
    """Nothing starts, and nobody asks in between."""

    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        await trio.sleep(1_000)
        with pytest.raises(ValueError, match="user must be"):
            await runtime.submit("quick", user="")
        await trio.sleep(seconds)
        assert [alert.name for alert in runtime.health().alerts] == ["refused"]

    run(scenario)


def test_an_alert_of_the_last_minutes_ends_when_they_are_over() -> None:
    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        tell(runtime, refused(BEGIN), recovered(BEGIN), ignored(BEGIN), failed(BEGIN))
        assert runtime.health().status == "degraded"
        await trio.sleep(300)
        assert runtime.health() == Health(status="ok")

    run(scenario)


# Who waits in silence


def test_a_user_that_no_worker_may_serve_is_named_until_its_work_is_gone() -> None:
    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        await runtime.submit("slow", user="alice")
        handles = [await runtime.submit("quick", user=user) for user in ("zoe", "bob", "bob")]
        health = runtime.health()
        assert (health.status, health.unreachable) == ("degraded", ("bob", "zoe"))
        assert [(alert.name, alert.value, alert.threshold) for alert in health.alerts] == [("unreachable", 2.0, 1.0)]
        await handles[0].cancel()
        assert runtime.health().unreachable == ("bob",)
        assert runtime.health().alerts == (), "at the threshold"
        await handles[1].cancel()
        assert runtime.health().unreachable == ("bob",)
        await handles[2].cancel()
        assert runtime.health() == Health(status="ok")

    run(scenario, worker=(WorkerOptions(users=("a*",)),), alerts=only(unreachable=1))


def test_a_user_that_may_be_stolen_from_is_reached() -> None:
    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        await runtime.submit("slow", user="alice")
        await runtime.submit("slow", user="bob")
        assert runtime.health().unreachable == ()

    run(scenario, worker=(WorkerOptions(users=("a*",), steals=("*",)),))


def test_kinds_that_wait_without_a_handler_are_named_until_they_have_one() -> None:
    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        for kind in ("nobody", "mail", "nobody", "quick"):
            await runtime.submit(kind)
        await runtime.cancel((await runtime.submit("gone")).id)
        assert runtime.health().unhandled == ("mail", "nobody")
        assert runtime.health().status == "ok", "it may be that somebody else runs them"

        @runtime.handler("mail")
        async def mail(payload: Any) -> None:
            pass

        assert runtime.health().unhandled == ("nobody",)

    run(scenario)


def test_a_kind_that_no_worker_is_meant_for_is_named_though_it_has_a_handler() -> None:
    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        await runtime.submit("slow")
        handle = await runtime.submit("quick")
        assert runtime.health().unhandled == ("quick",)
        assert runtime.explain(handle.id).sentence == "default#2 waits: no worker has a handler for 'quick'."

    run(scenario, worker=(WorkerOptions(kinds=("slow",)),))


def test_an_alert_can_be_turned_off() -> None:
    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        await runtime.submit("nobody", user="bob")
        await trio.sleep(1e6)
        now = BEGIN + 1e6
        tell(runtime, refused(now), recovered(now), ignored(now), failed(now))
        health = runtime.health()
        assert (health.status, health.alerts, health.unreachable) == ("ok", (), ("bob",))

    run(scenario, worker=(WorkerOptions(users=("alice",)),), alerts=only())


def test_the_alert_for_the_longest_wait_says_what_holds_the_task_back_if_anything_does() -> None:
    async def scenario(runtime: Runtime, seen: list[Event]) -> None:
        @runtime.handler("nap", timeout_seconds=None)
        async def nap(seconds: float) -> None:
            await trio.sleep(seconds)

        await runtime.submit(nap, 1_000.0)
        await runtime.submit(nap, 1.0)
        await trio.sleep(400)
        assert said(runtime) == "a task has waited for 400.0 s though it could run"
        await runtime.pause(kind="nap")
        assert said(runtime) == "a task has waited for 400.0 s: kind 'nap' is paused"
        await runtime.stop(0)
        assert runtime.health().status == "stopped"
        assert repr(runtime) == "<Runtime: stopped, 2 pending, 0 in progress>"

    def said(runtime: Runtime) -> str:
        (alert,) = runtime.health().alerts
        return alert.said

    run(scenario, workers=1, alerts=only(oldest_wait_seconds=300.0))
