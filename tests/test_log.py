"""What a failure leaves behind: a traceback in the record, a note on the exception, and a line in the log."""

import logging
from typing import Any

import pytest
import trio

from actors import Context, GiveUp, RetryPolicy, TaskFailed, open_runtime
from actors.reports import TRACEBACK_LENGTH_MAX
from tests.process_handlers import raises

Clock = trio.abc.Clock
ONCE_MORE = RetryPolicy(max_retries=1, base_seconds=4.0, jitter=0.0)
Log = pytest.LogCaptureFixture


def logged(caplog: Log) -> list[tuple[str, str, str | None]]:
    return [(record.action, record.task, record.error) for record in caplog.records]  # type: ignore[attr-defined]


async def test_each_failed_execution_keeps_its_traceback_and_is_logged_once(autojump_clock: Clock, caplog: Log) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("work", retry=ONCE_MORE)
        async def work(payload: None, context: Context) -> None:
            raise ValueError(f"boom {context.attempt}")

        with pytest.raises(TaskFailed) as caught:
            await (await runtime.submit(work, None, user="alice")).result()
    first, second = caught.value.history
    for attempt in (first, second):
        lines = (attempt.traceback or "").splitlines()
        assert lines[0] == "Traceback (most recent call last):"
        assert "in work" in lines[1], "the handler's own frame comes first"
        assert lines[-1] == f"ValueError: boom {attempt.number}"
    assert caught.value.__notes__ == [f"what the handler raised:\n{second.traceback}"]
    assert logged(caplog) == [
        ("task_retried", "alice#1", "ValueError: boom 1"),
        ("task_failed", "alice#1", "ValueError: boom 2"),
    ]
    assert {(record.name, record.levelname) for record in caplog.records} == {("evenhand", "WARNING")}
    said = [record.getMessage() for record in caplog.records]
    assert said[0].startswith("alice#1 failed: ValueError: boom 1; it is tried again in 4 s\nTraceback ")
    assert said[1] == f"alice#1 failed: ValueError: boom 2\n{second.traceback}"


async def test_an_execution_that_timed_out_is_logged_with_no_traceback_of_another(
    autojump_clock: Clock, caplog: Log
) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("slow", timeout_seconds=1, max_retries=0)
        async def slow(payload: str) -> None:
            if payload == "raise":
                raise ValueError("boom")
            await trio.sleep(60)

        raised = await runtime.submit(slow, "raise")
        with pytest.raises(TaskFailed):
            await raised.result()
        with pytest.raises(TaskFailed, match="timed out after 1 s"):
            await (await runtime.submit(slow, "sleep")).result()
    assert caplog.records[-1].getMessage() == "default#2 failed: timed out after 1 s"


@pytest.mark.parametrize("process", [False, True])
async def test_a_traceback_comes_from_threads_and_processes_too(process: bool) -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("raises", process=process, max_retries=0)(raises)
        task = await (await runtime.submit("raises", "plain")).wait()
        lines = (task.history[0].traceback or "").splitlines()
        assert "process_handlers.py" in lines[1] and "in raises" in lines[1]


async def test_a_traceback_is_cut_where_it_is_too_long(autojump_clock: Clock) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("long")
        async def long(payload: None) -> None:
            raise GiveUp("x" * 2 * TRACEBACK_LENGTH_MAX)

        task = await (await runtime.submit("long")).wait()
        assert task.history[0].traceback == "..." + "x" * TRACEBACK_LENGTH_MAX


async def test_a_log_handler_that_raises_ends_nothing(autojump_clock: Clock, monkeypatch: Any) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("no space left")

    logger = logging.getLogger("evenhand")
    monkeypatch.setattr(logger, "handlers", [Broken()])
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("work", max_retries=0)
        async def work(payload: None) -> None:
            raise ValueError("boom")

        with pytest.raises(TaskFailed):
            await (await runtime.submit("work")).result()


def test_nothing_is_printed_unless_a_program_sets_up_logging() -> None:
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("evenhand").handlers)


@pytest.mark.parametrize(("stops", "said"), [(False, ["tasks_left"]), (True, [])])
async def test_what_is_left_is_logged_unless_somebody_asked_to_stop(
    autojump_clock: Clock, caplog: Log, stops: bool, said: list[str]
) -> None:
    async with open_runtime(workers=1) as runtime:
        await runtime.submit("nobody runs this")
        if stops:
            await runtime.stop()
    assert [record.action for record in caplog.records] == said  # type: ignore[attr-defined]
    for record in caplog.records:
        assert record.getMessage().startswith("the block of a runtime has ended before 1 of its tasks")
