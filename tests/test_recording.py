"""Recordings: what is written is what happened, whatever the disk does. Threads are real here, and so is the clock."""

import errno
import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from actors import InvalidConfig, Runtime, UserOptions, open_runtime
from actors.recording import Recorder, recording_path
from actors.trace import Cancelled, Event, Header, Skipped, encode_events, read_trace
from actors.version import installed_version
from tests.test_sharing import finds

HEADER = Header(scenario="runtime", seed=7, version="0.1.0")


def happened(number: int) -> Event:
    return Cancelled(float(number), f"alice#{number}", number)


class Disk(io.BytesIO):
    """A file in memory, which can be made to stand still or to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.content = b""
        """What is safe."""
        self.fails: OSError | None = None
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.flushes = threading.Semaphore(0)

    def open(self, mode: str) -> "Disk":
        """As if it were a path."""
        if mode == "wb":
            return self
        again = Disk()
        again.close = lambda: setattr(self, "content", self.content + again.getvalue())  # type: ignore[method-assign]
        return again

    def __str__(self) -> str:
        return "run.jsonl"

    def flush(self) -> None:
        if not self.goes_on.wait(30):
            raise TimeoutError("the test forgot about the disk")
        if self.fails is not None:
            raise self.fails
        self.content = self.getvalue()
        self.flushes.release()

    def close(self) -> None:
        """Keeps what it has; a file that was closed is written no more."""
        self.closed_by_somebody = True

    def events(self) -> list[Event]:
        header, *events = self.items()
        assert header == HEADER
        return cast("list[Event]", events)

    def items(self) -> Iterator[Header | Event]:
        return read_trace(self.content.splitlines())


def recorder_on(disk: Disk) -> Recorder:
    return Recorder(cast(Path, disk), HEADER)


async def written(disk: Disk) -> None:
    """Wait until the disk was flushed once more."""
    with trio.fail_after(30):
        # In a thread that nobody else can take; abandoned if the flush never comes.
        limiter = trio.CapacityLimiter(1)
        await trio.to_thread.run_sync(disk.flushes.acquire, True, 30, limiter=limiter, abandon_on_cancel=True)


# What is written is what happened


@given(bursts=st.lists(st.integers(0, 1_300), min_size=1, max_size=4))
def test_all_that_happened_is_written_in_its_order(bursts: list[int]) -> None:
    async def main() -> None:
        disk, log = Disk(), list[Event]()
        recorder = recorder_on(disk)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(recorder.run)
            for burst in bursts:
                for _ in range(burst):
                    log.append(happened(len(log)))
                    recorder.on_event(log[-1])
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert disk.events() == log
        assert disk.closed_by_somebody and recorder.error is None

    trio.run(main)


async def test_a_recording_holds_what_a_stream_of_events_saw(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    async with open_runtime(workers=2, record=str(path), seed=7, stop_grace_seconds=0.0) as runtime:
        stream = runtime.events()
        await make_things_happen(runtime)
    seen = [event async for event in stream]
    with path.open("rb") as lines:
        header, *events = read_trace(lines)
    assert events == seen
    assert {type(event).__name__ for event in seen} >= {
        *("Admitted", "Started", "Completed", "DeadLettered", "Cancelled", "Paused", "Resumed", "Progressed"),
        *("SubmitRefused", "Released", "ActorRestarted", "Undelivered", "Reweighted", "Relimited", "Swept"),
    }
    assert isinstance(header, Header)


async def make_things_happen(runtime: Runtime) -> None:
    @runtime.handler("echo")
    async def echo(payload: Any, context: Any) -> Any:
        context.progress({"part": 0.5})
        return payload

    @runtime.handler("fail", max_retries=0)
    async def fail(payload: Any) -> None:
        raise ValueError("half a pair: \ud800")

    @runtime.handler("wait")
    async def wait(payload: Any) -> None:
        await trio.sleep_forever()

    async def stubborn(message: Any, context: Any) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
            raise ValueError("at the very end")

    await (await runtime.submit("echo", [1, {"zwei": "dr\u00fcben"}], user="alice")).result()
    await runtime.wait((await runtime.submit("fail", user="bob")).id)
    await runtime.cancel((await runtime.submit("nobody", user="bob")).id)
    with pytest.raises(ValueError, match="user must be"):
        await runtime.submit("echo", user="")
    await runtime.pause(kind="mail")
    await runtime.resume(kind="mail")
    await runtime.set_weight("alice", 2.0)
    await runtime.set_rate_limit(5.0, kind="mail")
    await runtime.maintain(everything=True)
    await (await runtime.spawn(stubborn, name="stubborn")).tell("hello")
    await runtime.submit("wait", user="alice")
    await trio.testing.wait_all_tasks_blocked()


async def test_the_header_says_what_was_run(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    seed = 2**64 - 1
    users = {"alice": UserOptions(weight=2.0)}
    async with open_runtime(workers=3, record=str(path), seed=seed, users=users, sharing="fifo", ordering="strict"):
        pass
    with path.open("rb") as lines:
        (header,) = read_trace(lines)
    assert header == Header(
        scenario="runtime",
        seed=seed,
        version=installed_version(),
        options={
            "workers": 3,
            "sharing": "fifo",
            "ordering": "strict",
            "critical_burst": 16,
            "weights": {"alice": 2.0},
        },
    )


# Where to


@pytest.mark.parametrize(
    ("record", "name"),
    [
        ("run.jsonl", "run.jsonl"),
        ("runs/{time}.jsonl", "runs/20231114T221320Z.jsonl"),
        ("{time}-{time}", "20231114T221320Z-20231114T221320Z"),
        ("{user}.jsonl", "{user}.jsonl"),
    ],
)
def test_the_time_is_put_where_it_is_asked_for_and_nothing_else_is(record: str, name: str) -> None:
    assert recording_path(record, 1.7e9) == Path(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing/run.jsonl", "No such file or directory"),
        ("", "Is a directory"),
        ("nul\0.jsonl", "embedded null byte"),
    ],
)
async def test_a_file_that_cannot_be_opened_is_refused_at_once(tmp_path: Path, name: str, why: str) -> None:
    path = str(tmp_path / name)
    with pytest.raises(InvalidConfig) as refused:
        async with open_runtime(workers=1, record=path):
            raise AssertionError("the block is never entered")
    assert str(refused.value).startswith(f"record must be a file that can be written, got {path!r}: ")
    assert why in str(refused.value)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no file that is always full")
async def test_a_disk_that_is_full_from_the_start_is_refused_at_once() -> None:
    with pytest.raises(InvalidConfig) as refused:
        async with open_runtime(workers=1, record="/dev/full"):
            raise AssertionError("the block is never entered")
    assert str(refused.value) == (
        "record must be a file that can be written, got '/dev/full': [Errno 28] No space left on device"
    )


async def test_a_recording_replaces_one_of_the_same_name(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("something longer than a header\n" * 100)
    async with open_runtime(workers=1, record=str(path)):
        pass
    assert len(path.read_bytes().splitlines()) == 1


# When


async def test_what_happened_is_on_the_disk_a_second_later(mock_clock: trio.testing.MockClock) -> None:
    disk = Disk()
    recorder = recorder_on(disk)
    await written(disk)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.run)
        await trio.testing.wait_all_tasks_blocked()
        recorder.on_event(happened(0))
        mock_clock.jump(0.75)
        await trio.testing.wait_all_tasks_blocked()
        assert disk.events() == []
        mock_clock.jump(0.25)
        await written(disk)
        assert disk.events() == [happened(0)]
        nursery.cancel_scope.cancel()


async def test_many_events_are_written_before_the_second_is_over(mock_clock: trio.testing.MockClock) -> None:
    disk = Disk()
    recorder = recorder_on(disk)
    await written(disk)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.run)
        await trio.testing.wait_all_tasks_blocked()
        for number in range(512):
            recorder.on_event(happened(number))
        await written(disk)
        assert len(disk.events()) == 512
        nursery.cancel_scope.cancel()


async def test_a_program_that_uses_all_threads_is_recorded_all_the_same() -> None:
    disk, limiter = Disk(), trio.to_thread.current_default_thread_limiter()
    recorder = recorder_on(disk)
    await written(disk)
    borrowers = [object() for _ in range(int(limiter.total_tokens))]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.run)
        for borrower in borrowers:
            limiter.acquire_on_behalf_of_nowait(borrower)
        for number in range(512):
            recorder.on_event(happened(number))
        try:
            await written(disk)
        finally:
            for borrower in borrowers:
                limiter.release_on_behalf_of(borrower)
        nursery.cancel_scope.cancel()
    assert len(disk.events()) == 512


async def test_what_happens_after_the_last_write_is_appended() -> None:
    disk = Disk()
    recorder = recorder_on(disk)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.run)
        recorder.on_event(happened(0))
        nursery.cancel_scope.cancel()
    recorder.on_event(happened(1))
    recorder.on_event(happened(2))
    assert disk.events() == [happened(0), happened(1), happened(2)]


# A disk that cannot keep up

LINE = len(encode_events([happened(100)]))
SLOW: dict[str, Any] = {
    "script": st.lists(st.one_of(st.integers(1, 40), st.just("disk goes on")), min_size=1, max_size=12)
}


@given(**SLOW)
def test_what_a_slow_disk_cannot_take_is_counted_where_it_is_missing(script: list[Any]) -> None:
    """In batches of 10, with room for about 20 that wait. Numbers in the script are events while the disk stands still."""

    async def main() -> None:
        disk, log, most = Disk(), list[Event](), 0
        recorder = recorder_on(disk)
        disk.flushes.acquire()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(recorder.run)
            await trio.testing.wait_all_tasks_blocked()
            disk.goes_on.clear()
            for step in script:
                if isinstance(step, int):
                    for _ in range(step):
                        log.append(happened(len(log)))
                        recorder.on_event(log[-1])
                    await trio.testing.wait_all_tasks_blocked()
                    most = max(most, sum(map(len, recorder._encoded)))
                else:
                    disk.goes_on.set()
                    while recorder._encoded:
                        await written(disk)
                        await trio.testing.wait_all_tasks_blocked()
                    disk.goes_on.clear()
            disk.goes_on.set()
            nursery.cancel_scope.cancel()
        assert most <= (20 + 10 + 1) * LINE, "what waits is bounded"
        check_gaps(disk.events(), log)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("actors.recording._BATCH", 10)
        patch.setattr("actors.recording._BACKLOG_BYTES_MAX", 20 * LINE)
        trio.run(main)


def check_gaps(recorded: list[Event], log: list[Event]) -> None:
    whole: list[Event] = []
    for event in recorded:
        if isinstance(event, Skipped):
            whole += log[len(whole) : len(whole) + event.count]
            assert event.at == whole[-1].at
        else:
            whole.append(event)
    assert whole == log


class SaysNothingAtTheEnd(Recorder):
    def _finish(self) -> None:
        self._skipped = 0
        super()._finish()


def test_a_recorder_that_forgets_a_gap_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "Recorder", SaysNothingAtTheEnd)
    finds(test_what_a_slow_disk_cannot_take_is_counted_where_it_is_missing, **SLOW)


# A disk that fails

NO_SPACE = OSError(errno.ENOSPC, "No space left on device")


async def test_a_disk_that_fails_in_mid_run_ends_the_recording_and_says_why() -> None:
    disk = Disk()
    recorder = recorder_on(disk)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.run)
        await trio.testing.wait_all_tasks_blocked()
        disk.fails = NO_SPACE
        for number in range(5_000):
            recorder.on_event(happened(number))
        with trio.fail_after(30):
            while recorder.error is None:
                await trio.testing.wait_all_tasks_blocked(0.001)
        assert recorder.error == "run.jsonl can be written no more: [Errno 28] No space left on device"
        for number in range(5_000):
            recorder.on_event(happened(number))
        assert len(recorder._batch) < 512 and not recorder._encoded, "nothing is kept for a disk that is gone"
        nursery.cancel_scope.cancel()
    recorder.on_event(happened(0))
    assert disk.events() == []


@pytest.mark.parametrize("when", ["the rest is written", "somebody is late"])
async def test_a_disk_that_fails_at_the_end_is_no_error_of_the_program(when: str) -> None:
    disk = Disk()
    recorder = recorder_on(disk)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorder.run)
        await trio.testing.wait_all_tasks_blocked()
        if when == "the rest is written":
            disk.fails = NO_SPACE
        recorder.on_event(happened(0))
        nursery.cancel_scope.cancel()
    if when == "somebody is late":
        disk.open = failing_open  # type: ignore[method-assign]
        recorder.on_event(happened(1))
    assert recorder.error == "run.jsonl can be written no more: [Errno 28] No space left on device"


def failing_open(mode: str) -> Disk:
    raise NO_SPACE


async def test_a_runtime_goes_on_without_its_recording_and_health_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.recording._BATCH", 1)
    path = tmp_path / "run.jsonl"
    async with open_runtime(workers=1, record=str(path)) as runtime:

        @runtime.handler("echo")
        async def echo(payload: int) -> int:
            return payload

        assert runtime.health().recording is None
        monkeypatch.setattr(Recorder, "_write_now", no_space)
        assert await (await runtime.submit("echo", 1)).result() == 1
        with trio.fail_after(30):
            while (said := runtime.health().recording) is None:
                await trio.testing.wait_all_tasks_blocked(0.001)
        assert said == f"{path} can be written no more: [Errno 28] No space left on device"
        assert runtime.health().status == "degraded"
        assert runtime.health().alerts == ()
        assert await (await runtime.submit("echo", 2)).result() == 2


def no_space(recorder: Recorder, lines: bytes) -> None:
    raise NO_SPACE
