"""Schedules through the runtime, on virtual time."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import pytest
import trio
import trio.testing

from actors import InvalidConfig, InvalidTask, Options, Runtime, RuntimeStopped, Scheduled, UnknownSchedule
from actors.opening import run_runtime
from actors.submission import TaskOptions
from actors.timetable import TIMETABLE
from actors.trace import Event, ScheduleFired, SubmitRefused

BEGIN = 1711800000.0
"""30 March 2024, noon in Greenwich: in the night that follows, clocks in Berlin are changed."""


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[Runtime]:
    """A runtime whose time begins at BEGIN."""
    async with run_runtime(Options(workers=2, **options), resources={}, wall_clock=lambda: BEGIN) as runtime:
        yield runtime


@attrs.define
class Diary:
    """Who ran when."""

    entries: list[tuple[float, Any]] = attrs.Factory(list)

    def keep(self, runtime: Runtime, kind: str = "report") -> None:
        began = trio.current_time()

        @runtime.handler(kind)
        async def write(payload: Any) -> None:
            self.entries.append((BEGIN + trio.current_time() - began, payload))

    @property
    def times(self) -> list[float]:
        return [at for at, _ in self.entries]


def seen_by(runtime: Runtime) -> Callable[[], list[Event]]:
    """Everything that happens from now on."""
    seen: list[Event] = []
    runtime._engine.add_sink(seen.append)
    return lambda: seen


async def test_a_task_runs_whenever_its_schedule_says(autojump_clock: trio.testing.MockClock) -> None:
    async with opened() as runtime:
        diary = Diary()
        diary.keep(runtime)
        await runtime.schedule("*/10 * * * *", "report", {"of": "day"}, user="alice")
        await trio.sleep(3_601)
        tasks = runtime.tasks(user="alice")
    assert diary.entries == [(BEGIN + minutes * 60, {"of": "day"}) for minutes in (10, 20, 30, 40, 50, 60)]
    assert [(task.created_at, task.status) for task in tasks] == [(at, "completed") for at in diary.times]


async def test_a_schedule_goes_by_its_time_zone(autojump_clock: trio.testing.MockClock) -> None:
    async with opened() as runtime:
        diary = Diary()
        diary.keep(runtime)
        await runtime.schedule("30 2 * * *", "report", timezone="Europe/Berlin")
        await trio.sleep(2 * 86_400)
    shown = [datetime.fromtimestamp(at, ZoneInfo("Europe/Berlin")).strftime("%d %H:%M %Z") for at in diary.times]
    assert shown == ["31 03:00 CEST", "01 02:30 CEST"], "on the 31st there is no half past two"


async def test_schedules_can_be_listed_replaced_and_removed(autojump_clock: trio.testing.MockClock) -> None:
    async with opened() as runtime:
        diary = Diary()
        diary.keep(runtime)
        assert await runtime.schedule("0 * * * *", "report", 1, name="hourly") == "hourly"
        assert await runtime.schedule("0 3 * * *", "report", user="bob") == "report of bob at 0 3 * * * UTC"
        await trio.sleep(3_700)
        assert runtime.schedules() == [
            Scheduled("hourly", "0 * * * *", "UTC", "report", "default", BEGIN + 7_200, BEGIN + 3_600),
            Scheduled("report of bob at 0 3 * * * UTC", "0 3 * * *", "UTC", "report", "bob", BEGIN + 15 * 3_600, None),
        ]
        await runtime.schedule("0 * * * *", "report", 2, name="hourly")
        await trio.sleep(3_600)
        await runtime.unschedule("hourly")
        assert [found.name for found in runtime.schedules()] == ["report of bob at 0 3 * * * UTC"]
        with pytest.raises(UnknownSchedule, match=r"^no schedule has the name 'hourly'$"):
            await runtime.unschedule("hourly")
        await trio.sleep(7_200)
    assert diary.entries == [(BEGIN + 3_600, 1), (BEGIN + 7_200, 2)]


@pytest.mark.parametrize(
    ("misfire", "submitted", "missed"), [("run_once", 1, 179), ("run_all", 180, 0), ("skip", 0, 180)]
)
async def test_a_program_that_stood_still_for_hours_does_with_what_it_missed_as_it_was_told(
    mock_clock: trio.testing.MockClock, misfire: str, submitted: int, missed: int
) -> None:
    async with opened() as runtime:
        seen = seen_by(runtime)
        await runtime.schedule("* * * * *", "report", name="m", misfire=misfire, misfire_grace_seconds=10.0)
        mock_clock.jump(3 * 3_600 + 30)
        await trio.testing.wait_all_tasks_blocked()
        now = BEGIN + 3 * 3_600 + 30
        assert [event for event in seen() if isinstance(event, ScheduleFired)] == [
            ScheduleFired(now, "m", now - 30, submitted, missed)
        ]
        assert len(runtime.tasks(limit=None)) == submitted
        mock_clock.jump(30)
        await trio.testing.wait_all_tasks_blocked()
        assert len(runtime.tasks(limit=None)) == submitted + 1, "it goes on in time"


async def test_no_time_fires_twice_when_the_timetable_is_built_anew_at_every_moment(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with opened() as runtime:
        diary = Diary()
        diary.keep(runtime)
        await runtime.schedule("* * * * *", "report")
        for seconds in (0.0, 59.0, 0.5, 0.5, 0.0, 30.0, 30.0, 59.0, 1.0, 0.0):
            await trio.sleep(seconds)
            runtime._engine.host.restart(TIMETABLE)
            await runtime.schedule("* * * * *", "report")
            await trio.testing.wait_all_tasks_blocked()
    assert diary.times == [BEGIN + 60, BEGIN + 120, BEGIN + 180]


async def test_a_time_that_finds_the_door_full_is_refused_and_told(autojump_clock: trio.testing.MockClock) -> None:
    async with opened(admitted_max=1) as runtime:
        seen = seen_by(runtime)
        await runtime.schedule("* * * * *", "nobody", user="alice")
        await trio.sleep(130)
        refused = [event for event in seen() if isinstance(event, SubmitRefused)]
        assert [(event.at, event.user, event.kind) for event in refused] == [(BEGIN + 120, "alice", "nobody")]
        assert len(runtime.tasks()) == 1


async def test_a_schedule_takes_a_handler_and_the_options_of_a_task(autojump_clock: trio.testing.MockClock) -> None:
    @attrs.frozen
    class Order:
        number: int

    async with opened() as runtime:
        got: list[Order] = []

        @runtime.handler("order")
        async def order(payload: Order) -> None:
            got.append(payload)

        options: TaskOptions = {"user": "alice", "priority": "high", "cost": 2.0, "max_retries": 9}
        name = await runtime.schedule("* * * * *", order, Order(7), **options)
        await trio.sleep(61)
        (task,) = runtime.tasks()
    assert got == [Order(7)]
    assert (task.user, task.priority, task.cost, task.max_retries) == ("alice", 4, 2.0, 9)
    assert task.idempotency_key == f"schedule/{name}/{BEGIN + 60:.0f}"


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"cron": "every day"}, InvalidConfig, "cron must be an expression of five fields"),
    ({"timezone": "Berlin"}, InvalidConfig, "timezone must be a name such as 'Europe/Berlin', got 'Berlin'"),
    ({"misfire": "never"}, InvalidConfig, "misfire must be one of run_once, run_all, skip, got 'never'"),
    ({"name": ""}, InvalidConfig, "name of a schedule must be printable text, got ''"),
    ({"user": ""}, InvalidTask, "user must be 1 to 128 printable characters, got ''"),
    ({"priority": 7}, InvalidTask, "priority must be one of very_low, low"),
    ({"payload": {1}}, InvalidTask, "payload must be a JSON value, got set"),
    ({"idempotency_key": "k"}, InvalidTask, "a scheduled task must not have an idempotency_key, got 'k'"),
    ({"delay_seconds": 5}, InvalidTask, "a scheduled task must not have a delay_seconds or run_after, got"),
    (
        {"expires_after_seconds": 5},
        InvalidTask,
        "a scheduled task must not have an expires_after_seconds or expires_at",
    ),
]


@pytest.mark.parametrize(("said", "kind", "fault"), BAD, ids=[fault for _, _, fault in BAD])
async def test_what_is_no_schedule_is_refused_at_once(
    autojump_clock: trio.testing.MockClock, said: dict[str, Any], kind: type[Exception], fault: str
) -> None:
    async with opened() as runtime:
        arguments: dict[str, Any] = {"cron": "* * * * *", "kind": "report", "payload": None} | said
        with pytest.raises(kind) as refused:
            await runtime.schedule(**arguments)
        assert str(refused.value).startswith(fault)
        assert runtime.schedules() == []


async def test_a_runtime_that_stops_takes_no_more_schedules_and_fires_none(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with opened() as runtime:
        await runtime.schedule("* * * * *", "report")
        await runtime.stop()
        with pytest.raises(RuntimeStopped):
            await runtime.schedule("* * * * *", "report")
        with pytest.raises(RuntimeStopped):
            await runtime.unschedule("report of default at * * * * * UTC")
    left = runtime.left
    await trio.sleep(600)
    assert runtime.left == left == ()


async def test_schedules_without_a_name_that_differ_in_what_they_submit_are_different_ones(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with opened() as runtime:
        diary = Diary()
        diary.keep(runtime)
        names = [
            await runtime.schedule("0 * * * *", "report", payload, priority=priority)
            for payload, priority in (("a", "normal"), ("b", "normal"), ("b", "high"), (None, 3))
        ]
        assert len(set(names)) == 4
        assert await runtime.schedule("0 * * * *", "report", "b", priority=4) == names[2], "the same once more"
        assert names[3] == "report of default at 0 * * * * UTC"
        await trio.sleep(3_601)
        assert sorted(str(payload) for _, payload in diary.entries) == ["None", "a", "b", "b"]
