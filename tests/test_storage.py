"""Simulated storage: what was flushed stays, of the rest a beginning, and nothing of a torn commit."""

from hypothesis import given
from hypothesis import strategies as st

from actors.stores.conformance import batches
from actors.stores.contract import Batch
from actors.stores.memory import MemoryStore
from sim.storage import Disk, frame_of


def contents(store: MemoryStore) -> tuple[object, ...]:
    return list(store.tasks()), list(store.notes()), store.last_at()


def model(written: list[Batch]) -> tuple[object, ...]:
    store = MemoryStore()
    for batch in written:
        store.write(batch)
    return contents(store)


@given(st.lists(st.tuples(batches, st.booleans()), max_size=8), st.floats(0, 1))
def test_after_a_loss_of_power_a_beginning_holds_and_whatever_was_flushed(
    commits: list[tuple[Batch, bool]], part: float
) -> None:
    disk, flushed = Disk(), 0
    for number, (batch, flushes) in enumerate(commits, start=1):
        disk.append(frame_of(batch))
        if flushes:
            disk.flush()
            flushed = number
    disk.lose(int(part * disk.unflushed))
    held = disk.recover()
    assert flushed <= held <= len(commits)
    assert contents(disk.store) == model([batch for batch, _ in commits[:held]])


@given(st.lists(batches, min_size=1, max_size=4), batches, st.floats(0, 0.999), st.booleans())
def test_of_a_torn_commit_nothing_is_taken_and_nothing_behind_it(
    whole: list[Batch], torn: Batch, part: float, zeros: bool
) -> None:
    disk, frame = Disk(), frame_of(torn)
    for batch in whole:
        disk.append(frame_of(batch))
    kept = frame[: int(part * len(frame))]
    # What was not written may happen to be zeros: then nothing is missing.
    missing = frame[len(kept) :].strip(b"\0") != b""
    disk.append(kept + bytes(len(frame) - len(kept)) if zeros else kept)
    assert disk.recover() == len(whole) + (zeros and not missing)


@given(st.lists(batches, max_size=5), st.integers(0, 5))
def test_what_was_read_once_stays(commits: list[Batch], restart_at: int) -> None:
    disk = Disk()
    for number, batch in enumerate(commits):
        if number == restart_at:
            disk.recover()
        disk.append(frame_of(batch))
    disk.flush()
    disk.lose(0)
    disk.recover()
    assert contents(disk.store) == model(commits)
    assert disk.recover() == 0
    assert contents(disk.store) == model(commits)


def test_a_byte_that_is_wrong_is_found() -> None:
    frame = frame_of(Batch(at=5.0))
    for place in range(len(frame)):
        disk = Disk()
        disk.append(frame[:place] + bytes([frame[place] ^ 1]) + frame[place + 1 :])
        assert disk.recover() == 0, place
