"""Group commit as a core: nobody is told before what was decided is safe, everybody once, and in order."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.commits import GroupCommit
from actors.host import Post
from actors.stores.memory import MemoryStore
from actors.table import Noted
from actors.task import Status
from tests.test_journal import task

steps = st.lists(st.sampled_from(["decide", "decide quietly", "ask", "take", "safe"]), max_size=30)


@given(steps)
def test_whoever_is_told_is_told_what_the_store_has(program: list[str]) -> None:
    group, store, told = GroupCommit(), MemoryStore(), list[Any]()
    decided, asked, taking = 0, list[int](), None

    def release(posts: Any) -> None:
        for _, sends in posts:
            for _, (number, safe_at_least) in sends:
                assert store.counts()[Status.PENDING] >= safe_at_least, "told before it was stored"
                told.append(number)

    def held(tells: bool) -> Post:
        if tells:
            asked.append(len(asked))
        return ("a", [("b", (asked[-1], decided))] if tells else [])

    for step in [*program, "safe", "take", "safe", "take", "safe"]:
        match step:
            case "decide" | "decide quietly":
                decided += 1
                group.commit([task(decided)], held(step == "decide"), release)
            case "ask":
                group.commit([], held(True), release)
            case "take" if taking is None:
                taking = group.take(float(decided))
            case "safe" if taking is not None:
                store.write(taking)
                taking = None
                group.release(group.safe())
    assert told == asked, "each once, in order"
    assert group.idle and store.counts()[Status.PENDING] == decided


def test_a_batch_has_the_last_of_each_note_and_none_that_ends_with_the_process() -> None:
    group = GroupCommit()
    for number in range(3):
        values = {"pool/virtual": float(number), "grant": number, "used/worker/1": number}
        group.commit(
            [Noted("scheduler", values), Noted("worker/1", {"run": number})], ("scheduler", []), list[Post]().extend
        )
    assert group.take(1.0).notes == {("scheduler", "pool/virtual"): 2.0}


def test_what_only_the_process_notes_leaves_nothing_to_write() -> None:
    group = GroupCommit()
    for owner, key in (("worker/1", "run"), ("scheduler", "grant"), ("shard/alice", "await/t1")):
        group.commit([Noted(owner, {key: 1})], (owner, []), list[Post]().extend)
    assert group.idle and not group.waits and group.take(1.0).empty
