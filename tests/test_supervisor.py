"""The supervisor's core: which leases it gives up, when it wakes, and how much it looks at."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import Status, Table, Task, moves
from actors.actor import NEVER, Effects, keyed_draw
from actors.messages import ExpireLease, Failed, Leased, Wake, shard_address
from actors.supervisor import Supervisor

DRAW = keyed_draw(7)
LEASE_SECONDS = 10.0
LEASES_MAX = 100
"""Leases kept of a kind, however few of their tasks still run."""


class CountingTable(Table):
    """Counts how many tasks were looked at."""

    looks = 0

    def _holds(self, leased: Task) -> bool:
        self.looks += 1
        return super()._holds(leased)


class Watch:
    """A supervisor, its table, and a stand-in for the shards: moves tasks, says so, and fires the timer on time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.table = CountingTable()
        self.sequence = 0
        self.lease_seconds: dict[str, float] = {}
        """A task's kind says how long its leases are, so a beat never brings a deadline forward."""
        self.every_order: list[tuple[float, str, int]] = []
        """Every order to expire a lease: when, which task, under which token."""
        self.restart()

    def restart(self) -> None:
        self.timer = NEVER
        self.supervisor = Supervisor(self.table)
        self.take(self.supervisor.start(self.now))

    def tell(self, message: Any) -> None:
        self.take(self.supervisor.handle(message, self.now, DRAW))

    def take(self, effects: Effects) -> None:
        assert not effects.records and not effects.held and not effects.events, "it only watches"
        if effects.timer is not None:
            self.timer = effects.timer
        for receiver, order in effects.sends:
            assert receiver == shard_address(self.table[order.task_id].user)
            self.every_order.append((self.now, order.task_id, order.token))

    def fire(self) -> None:
        self.timer = NEVER
        self.tell(Wake())

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while self.timer <= until:
            self.now = max(self.now, self.timer)
            self.fire()
            assert self.timer > self.now, "a wake-up leaves nothing undone"
        self.now = until

    # What shards do

    def lease(self, lease_seconds: float = LEASE_SECONDS) -> str:
        self.sequence += 1
        task_id, user = f"t{self.sequence:05}", f"user{self.sequence % 3}"
        task = Task(
            id=task_id,
            user=user,
            kind=f"for {lease_seconds} s",
            sequence=self.sequence,
            created_at=self.now,
            updated_at=self.now,
            order_at=self.now,
        )
        self.lease_seconds[task_id] = lease_seconds
        self.table.apply(task)
        self.claim(task_id)
        return task_id

    def claim(self, task_id: str) -> None:
        lease_seconds = self.lease_seconds[task_id]
        claimed = moves.claim(self.table[task_id], "worker/1", lease_seconds, self.now)
        first = not self.table.is_leased(claimed.kind)
        self.table.apply(claimed)
        if first:
            self.tell(Leased(task_id, claimed.token, self.now + lease_seconds))

    def beat(self, task_id: str) -> None:
        """A beat changes the record, and nobody tells the supervisor."""
        self.table.apply(moves.extend(self.table[task_id], self.lease_seconds[task_id], self.now))

    def complete(self, task_id: str) -> None:
        self.table.apply(moves.complete(self.table[task_id], None, self.now))

    def recover(self, task_id: str) -> None:
        self.table.apply(moves.recover(self.table[task_id], "silent", self.now))

    # What can be seen

    @property
    def ordered(self) -> list[tuple[float, str, int]]:
        """The first of the orders about each lease: one that was not obeyed yet may be given again."""
        first: dict[tuple[str, int], float] = {}
        for at, task_id, token in self.every_order:
            first.setdefault((task_id, token), at)
        return [(at, task_id, token) for (task_id, token), at in first.items()]

    @property
    def leases(self) -> int:
        """How many leases the table keeps, whether or not they hold."""
        return sum(map(len, self.table._leases.values()))

    def running(self) -> list[str]:
        return [task.id for task in self.table if task.status is Status.IN_PROGRESS]


places = st.integers(0, 20)
steps = st.one_of(
    st.tuples(st.just("lease"), st.sampled_from([1.0, 5.0, 10.0]), places),
    st.tuples(st.just("beat"), st.none(), places),
    st.tuples(st.just("complete"), st.none(), places),
    st.tuples(st.just("claim again"), st.none(), places),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 1.0, 4.0, 12.0]), places),
    st.tuples(st.just("restart"), st.none(), places),
)
# The length is drawn first, because lists of any length are mostly short.
scripts = st.integers(0, 80).flatmap(lambda length: st.lists(steps, min_size=length, max_size=length))

Script = list[tuple[str, Any, int]]


def play(watch: Watch, step: str, argument: Any, place: int) -> None:
    running = watch.running()
    waiting = [task.id for task in watch.table if task.status is Status.PENDING]
    if step == "lease":
        watch.lease(argument)
    elif step == "beat" and running:
        watch.beat(running[place % len(running)])
    elif step == "complete" and running:
        watch.complete(running[place % len(running)])
    elif step == "claim again" and waiting:
        watch.claim(waiting[place % len(waiting)])
    elif step == "restart":
        watch.restart()


def next_deadline(watch: Watch) -> float:
    """When the first of the running tasks falls due, by looking at every one of them."""
    return min((watch.table[task_id].lease_until or 0.0 for task_id in watch.running()), default=NEVER)


def check_orders(script: Script) -> None:
    """As many orders as leases that ran out, each on time, and none for a task that beats or has ended."""
    watch = Watch()
    expected: list[tuple[float, str, int]] = []
    for step, argument, place in script:
        play(watch, step, argument, place)
        until = watch.now + (argument if step == "wait" else 0.0)
        while (at := next_deadline(watch)) <= until:
            watch.wait(max(0.0, at - watch.now))
            due = [watch.table[task_id] for task_id in watch.running()]
            due = [task for task in due if (task.lease_until or 0.0) <= watch.now]
            expected += sorted((watch.now, task.id, task.token) for task in due)
            assert sorted(watch.ordered) == sorted(expected)
            for task in due:
                watch.recover(task.id)
        watch.wait(until - watch.now)
        assert sorted(watch.ordered) == sorted(expected)


@given(scripts)
def test_a_lease_is_given_up_when_it_has_run_out_and_never_otherwise(script: Script) -> None:
    check_orders(script)


@given(scripts)
def test_a_supervisor_built_anew_from_the_table_gives_the_same_orders(script: Script) -> None:
    steady, restarted = Watch(), Watch()
    for step, argument, place in script:
        for watch in (steady, restarted):
            if step == "wait":
                watch.wait(argument)
                for _, task_id, token in watch.ordered:
                    if watch.table[task_id].token == token and watch.table[task_id].status is Status.IN_PROGRESS:
                        watch.recover(task_id)
            elif step != "restart":
                play(watch, step, argument, place)
        restarted.restart()
    # Leases that run out at the same time may be dealt with in any order.
    assert sorted(restarted.ordered) == sorted(steady.ordered)


def test_a_beat_before_the_deadline_prevents_the_expiry() -> None:
    watch = Watch()
    task_id = watch.lease()
    for _ in range(5):
        watch.wait(9.0)
        watch.beat(task_id)
    assert watch.ordered == []
    watch.wait(9.5)
    assert watch.ordered == []
    watch.wait(60.0)
    assert watch.ordered == [(55.0, task_id, 1)]


def test_a_stalled_loop_gives_up_only_those_whose_beat_did_not_arrive() -> None:
    watch = Watch()
    alive, stuck = watch.lease(), watch.lease()
    watch.now = 100.0
    watch.beat(alive)
    watch.fire()
    assert watch.ordered == [(100.0, stuck, 1)]
    assert watch.timer == 110.0


def test_after_a_stall_it_looks_as_of_the_time_it_was_to_look() -> None:
    watch = Watch()
    stuck = watch.lease()
    watch.wait(5.0)
    later = watch.lease()
    # Everybody's timers are late; the later one's beat is due before its lease has run out, and has not been sent yet.
    watch.now = 1000.0
    watch.fire()
    assert watch.ordered == [(1000.0, stuck, 1)]
    assert watch.timer == 15.0, "it looks again in its turn"
    watch.recover(stuck)
    watch.beat(later)
    watch.fire()
    assert len(watch.ordered) == 1


def test_one_that_is_built_anew_in_a_stall_waits_for_its_turn() -> None:
    watch = Watch()
    watch.lease()
    watch.now = 1000.0
    watch.restart()
    assert watch.ordered == []
    assert watch.timer == 10.0


def test_finding_the_stuck_looks_at_the_stuck_and_at_one_more() -> None:
    watch = Watch()
    watch.wait(1.0)
    for _ in range(2_000):
        watch.lease(lease_seconds=50.0)
    stuck = [watch.lease(lease_seconds=5.0) for _ in range(3)]
    before = watch.table.looks
    watch.wait(5.0)
    assert [task_id for _, task_id, _ in watch.ordered] == stuck
    assert watch.table.looks - before == len(stuck) + 1


def test_one_timer_for_the_earliest_deadline_is_set_once() -> None:
    supervisor = Supervisor(Table())
    timers = [supervisor.handle(Leased(f"t{at}", 1, at), 0.0, DRAW).timer for at in (9.0, 12.0, 7.0, 8.0)]
    assert timers == [9.0, None, 7.0, None]


def test_leases_that_end_early_leave_a_bounded_line() -> None:
    watch = Watch()
    longest = 0
    alive = [watch.lease() for _ in range(10)]
    for _ in range(30 * LEASES_MAX):
        watch.complete(watch.lease())
        longest = max(longest, watch.leases)
    assert longest <= LEASES_MAX
    watch.wait(LEASE_SECONDS)
    assert [task_id for _, task_id, _ in watch.ordered] == alive


def test_many_running_tasks_are_not_swept_away_nor_swept_through_at_every_lease() -> None:
    watch = Watch()
    leased = [watch.lease() for _ in range(30 * LEASES_MAX)]
    assert watch.table.looks <= 4 * len(leased)
    watch.wait(LEASE_SECONDS)
    assert [task_id for _, task_id, _ in watch.ordered] == leased


def test_once_woken_it_does_not_wake_again_for_tasks_that_have_ended() -> None:
    watch = Watch()
    for lease_seconds in (5.0, 50.0, 500.0):
        watch.complete(watch.lease(lease_seconds))
    watch.wait(5.0)
    assert (watch.timer, watch.ordered) == (NEVER, [])


def test_a_request_to_cancel_leaves_the_lease_as_it_is() -> None:
    watch = Watch()
    task_id = watch.lease()
    watch.wait(3.0)
    watch.table.apply(moves.request_cancel(watch.table[task_id], watch.now))
    watch.wait(60.0)
    assert watch.ordered == [(10.0, task_id, 1)]


def test_an_order_that_the_shard_crashed_on_is_given_again() -> None:
    watch = Watch()
    task_id = watch.lease()
    watch.wait(10.0)
    watch.tell(Failed(shard_address("user1"), ExpireLease(task_id, 1), "boom"))
    watch.wait(0.0)
    assert watch.every_order == [(10.0, task_id, 1)] * 2


def test_an_order_that_the_shard_crashed_on_is_dropped_if_the_task_has_ended_since() -> None:
    watch = Watch()
    task_id = watch.lease()
    watch.wait(10.0)
    watch.complete(task_id)
    watch.tell(Failed(shard_address("user1"), ExpireLease(task_id, 1), "boom"))
    watch.wait(0.0)
    assert watch.ordered == [(10.0, task_id, 1)]


def test_a_shard_that_knows_better_is_asked_again_at_the_new_deadline() -> None:
    watch = Watch()
    task_id = watch.lease()
    watch.wait(10.0)
    # The beat was under way when the order was given: the shard ignores the order and announces the lease anew.
    watch.beat(task_id)
    watch.tell(Leased(task_id, 1, 20.0))
    watch.wait(20.0)
    assert watch.every_order == [(10.0, task_id, 1), (20.0, task_id, 1)]


def test_the_lease_of_an_owner_that_was_replaced_is_nobodys() -> None:
    watch = Watch()
    task_id = watch.lease()
    watch.wait(3.0)
    watch.recover(task_id)
    watch.claim(task_id)
    watch.wait(9.0)
    assert watch.ordered == []
    watch.wait(1.0)
    assert watch.ordered == [(13.0, task_id, 3)]


def test_a_supervisor_without_leases_sleeps() -> None:
    watch = Watch()
    assert watch.timer == NEVER
    assert repr(watch.supervisor) == "<Supervisor: looks again at inf s>"
    watch.tell(Failed("worker/1", "hello", "boom"))
    assert watch.timer == NEVER


def test_an_unknown_message_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"^supervisor cannot handle 'hello'$"):
        Watch().tell("hello")


def giving_up_whoever_runs(self: Supervisor, now: float, effects: Effects) -> None:
    for kind in self._table.leased_kinds():
        for task in self._table.leases(kind):
            effects.send(shard_address(task.user), ExpireLease(task.id, task.token))


def giving_up_nobody(self: Supervisor, now: float, effects: Effects) -> None:
    """Sleeps on."""


@pytest.mark.parametrize("bug", [giving_up_whoever_runs, giving_up_nobody])
def test_the_property_finds(bug: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Supervisor, "_look", bug)
    script: Script = [("lease", 5.0, 0), ("wait", 4.0, 0), ("beat", None, 0), ("wait", 4.0, 0), ("wait", 12.0, 0)]
    with pytest.raises(AssertionError):
        check_orders(script)
