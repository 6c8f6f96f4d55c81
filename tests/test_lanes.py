"""A lane, against a list that is sorted before every look."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors import moves
from actors.lanes import Lane
from actors.task import Task

DEAD_MAX = 64
"""As many dead entries as live ones may lie in a lane, and this many more."""

Rank = tuple[float, float, int]

# Few distinct keys and times, so that ties are common; many tasks at once, so that sweeping is worth it.
counts = st.integers(1, 150)
pushes = st.builds(
    lambda count, stride: ("push", [(place * stride % 7, place % 3) for place in range(count)]), counts, counts
)
kills = st.tuples(st.just("kill"), st.tuples(counts, st.booleans()))
pops = st.tuples(st.just("pop"), counts)
scripts = st.lists(st.one_of(pushes, kills, pops), max_size=12)


def task_at(order_at: float, sequence: int) -> Task:
    return Task(
        id=f"t{sequence}",
        user="alice",
        kind="crawl",
        sequence=sequence,
        created_at=0.0,
        updated_at=0.0,
        order_at=order_at,
    )


class Pair:
    """A lane and the list that it must agree with."""

    def __init__(self) -> None:
        self.live: dict[str, Rank] = {}
        self.looks = 0
        self.operations = 0
        self.sequence = 0
        self.lane = Lane(self.is_live)

    def is_live(self, task: Task) -> bool:
        self.looks += 1
        return task.id in self.live

    def in_order(self) -> list[str]:
        return sorted(self.live, key=lambda task_id: self.live[task_id])

    def push(self, ranks: list[tuple[int, int]]) -> None:
        for key, order_at in ranks:
            self.sequence += 1
            task = task_at(float(order_at), self.sequence)
            self.live[task.id] = (float(key), task.order_at, task.sequence)
            self.lane.push(float(key), task)
            self.check()

    def kill(self, which: tuple[int, bool]) -> None:
        """End the first or the last of them while they wait."""
        count, from_the_back = which
        order = self.in_order()
        for task_id in order[-count:] if from_the_back else order[:count]:
            del self.live[task_id]
            self.lane.forget()
            self.check()

    def pop(self, count: int) -> None:
        for task_id in self.in_order()[:count]:
            head = self.lane.head()
            assert head is not None and head.id == task_id
            self.lane.pop()
            del self.live[task_id]
            self.check()

    def check(self) -> None:
        self.operations += 1
        lane = self.lane
        assert len(lane) == len(self.live)
        assert lane.entries >= len(lane)
        assert lane.health == (len(lane) / lane.entries if lane.entries else 1.0)
        assert lane.entries <= 2 * len(lane) + DEAD_MAX, "the dead are swept once they are most of a lane"

    def run(self, script: list[tuple[str, Any]]) -> None:
        for step, argument in script:
            getattr(self, step)(argument)
            first = self.in_order()[:1]
            head = self.lane.head()
            assert [head.id] == first if head is not None else not first
            entry = self.lane.first()
            assert entry is None if head is None else entry is not None and entry[:3] == self.live[head.id]


@given(scripts)
def test_a_lane_is_a_sorted_list_of_its_live_tasks(script: list[tuple[str, Any]]) -> None:
    Pair().run(script)


@given(scripts)
def test_what_is_left_comes_out_in_order(script: list[tuple[str, Any]]) -> None:
    pair = Pair()
    pair.run(script)
    pair.pop(len(pair.live))
    assert (pair.lane.head(), len(pair.lane), pair.lane.entries, pair.lane.health) == (None, 0, 0, 1.0)


@given(scripts)
def test_the_dead_cost_a_constant_number_of_looks_each(script: list[tuple[str, Any]]) -> None:
    pair = Pair()
    pair.run(script)
    # Each operation looks at one head; each entry dies once, and a sweep looks at no more live entries than dead ones.
    assert pair.looks <= 2 * len(script) + 4 * pair.operations


def test_the_dead_behind_a_few_live_tasks_are_swept_although_those_leave_by_the_front() -> None:
    pair = Pair()
    pair.push([(key, 0) for key in range(200)])
    pair.kill((100, True))
    pair.pop(99)
    assert len(pair.lane) == 1
    assert pair.lane.entries <= 2 + DEAD_MAX


def test_equal_keys_go_by_order_at_and_then_by_admission() -> None:
    pair = Pair()
    pair.push([(1, 2), (1, 1), (0, 3), (1, 1)])
    taken = []
    while (head := pair.lane.head()) is not None:
        taken.append(head.id)
        pair.lane.pop()
    assert taken == ["t3", "t2", "t4", "t1"]


def test_a_task_counts_only_in_the_form_it_was_put_in() -> None:
    """As in a shard, where an entry is live while the table holds the very record it was made for."""
    first = task_at(1.0, 1)
    again = moves.release(moves.claim(first, "worker/1", 60.0, 2.0), 3.0)
    current = {"t1": first}
    lane = Lane(lambda task: current[task.id] is task)
    lane.push(1.0, first)
    current["t1"] = again
    lane.forget()
    # Key, time and admission are those of the dead entry that is still in there.
    lane.push(1.0, again)
    assert lane.head() is again
    assert len(lane) == 1
