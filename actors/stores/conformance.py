"""What every store must do, as a property: any program of batches, against two plain dictionaries.

For the tests of a store, which need Hypothesis:

    TestMine = store_machine(lambda: Mine.in_a_new_place()).TestCase

`new_place` is called for each example, and gives a function that opens the store in that place: the first time it is empty,
and after that it has what was written before.
"""

from collections.abc import Callable
from itertools import islice
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from actors.retry import RetryPolicy
from actors.stores.contract import Batch, Listing, Store
from actors.task import Attempt, Cause, Priority, Status, Task

__all__ = ["batches", "store_machine", "tasks"]

Reopen = Callable[[], Store]

USERS = ("alice", "bob", "tenant/carol", "it's; \x7f é 🦉")
KINDS = ("crawl", "mail")

_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
_times = st.floats(0, 2e9).map(lambda seconds: round(seconds, 6))
_attempts = st.builds(
    Attempt,
    number=st.integers(1, 9),
    token=st.integers(1, 99),
    worker_id=st.just("worker/1"),
    started_at=_times,
    ended_at=_times,
    outcome=st.sampled_from(["failed", "crashed"]),
    error=st.none() | st.text("ab\n'", max_size=5),
)


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    """Any record of one of a few tasks; user and kind go with the sequence, as they do."""
    sequence = draw(st.integers(1, 12))
    status = draw(st.sampled_from(Status))
    return Task(
        id=f"t{sequence:03}",
        user=USERS[sequence % len(USERS)],
        kind=KINDS[sequence % 3 == 0],
        sequence=sequence,
        created_at=draw(_times),
        updated_at=draw(_times),
        order_at=draw(_times),
        payload=draw(_json),
        priority=draw(st.sampled_from(Priority)),
        status=status,
        token=draw(st.integers(0, 99)),
        retry=draw(st.sampled_from([RetryPolicy(), RetryPolicy(max_retries=9, retry_on=("OSError",))])),
        run_after=draw(st.none() | _times),
        completed_at=draw(_times) if status.terminal else None,
        worker_id=draw(st.none() | st.just("worker/1")),
        result=draw(_json),
        cause=draw(st.sampled_from(Cause)) if status is Status.FAILED else None,
        history=tuple(draw(st.lists(_attempts, max_size=2))),
        idempotency_key=draw(st.none() | st.text("k/", max_size=3)),
    )


_ids = st.integers(1, 12).map(lambda sequence: f"t{sequence:03}")
_keys = st.tuples(st.sampled_from(["scheduler", "shard/alice", "timetable"]), st.sampled_from(["a", "b/c", "b/é"]))

batches = st.builds(
    Batch,
    at=_times,
    tasks=st.lists(tasks(), max_size=6).map(lambda found: {task.id: task for task in found}),
    removed=st.lists(_ids, max_size=3).map(dict.fromkeys),
    notes=st.dictionaries(_keys, _json, max_size=3),
)
"""Anything that a journal could hand over."""

_listings = st.builds(
    Listing,
    status=st.none() | st.sampled_from(Status),
    kind=st.none() | st.sampled_from(KINDS),
    user=st.none() | st.sampled_from(USERS),
    limit=st.integers(0, 5),
    offset=st.integers(0, 3),
)


def store_machine(new_place: Callable[[], Reopen]) -> type[RuleBasedStateMachine]:
    """A state machine that writes to a store, opens it again, and looks whether it has what it was given."""

    class StoreMachine(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.reopen = new_place()
            self.store = self.reopen()
            self.model = _Model()

        @rule(batch=batches)
        def write(self, batch: Batch) -> None:
            self.store.write(batch)
            self.model.write(batch)

        @rule()
        def open_again(self) -> None:
            self.store.close()
            self.store = self.reopen()

        @rule(listing=_listings)
        def list_some(self, listing: Listing) -> None:
            assert self.store.listed(listing) == self.model.listed(listing)

        @rule(task_id=_ids)
        def get_one(self, task_id: str) -> None:
            assert self.store.get(task_id) == self.model.tasks.get(task_id)

        @invariant()
        def has_what_it_was_given(self) -> None:
            assert list(self.store.tasks()) == self.model.in_order()
            assert {(owner, key): value for owner, key, value in self.store.notes()} == self.model.notes
            assert self.store.last_at() == self.model.at
            assert self.store.counts() == self.model.counts()

        def teardown(self) -> None:
            if hasattr(self, "store"):
                self.store.close()

    return StoreMachine


class _Model:
    """Two dictionaries and a time."""

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}
        self.notes: dict[tuple[str, str], Any] = {}
        self.at = 0.0

    def write(self, batch: Batch) -> None:
        self.tasks = {task_id: task for task_id, task in self.tasks.items() if task_id not in batch.removed}
        self.tasks |= batch.tasks
        self.notes = {key: value for key, value in (self.notes | batch.notes).items() if value is not None}
        self.at = max(self.at, batch.at)

    def in_order(self) -> list[Task]:
        live = [task for task in self.tasks.values() if not task.status.terminal]
        found = sorted(live, key=lambda task: task.sequence)
        for status in (status for status in Status if status.terminal):
            ended = [task for task in self.tasks.values() if task.status is status]
            found += sorted(ended, key=lambda task: (task.completed_at or 0.0, task.sequence))
        return found

    def listed(self, listing: Listing) -> list[Task]:
        fitting = (
            task
            for task in self.in_order()
            if (listing.status is None or task.status is listing.status)
            and (listing.kind is None or task.kind == listing.kind)
            and (listing.user is None or task.user == listing.user)
        )
        return list(islice(fitting, listing.offset, listing.offset + listing.limit))

    def counts(self) -> dict[Status, int]:
        return {status: sum(task.status is status for task in self.tasks.values()) for status in Status}
