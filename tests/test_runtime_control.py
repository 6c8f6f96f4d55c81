"""Who gets what: pauses, limits, weights and turns, end to end on virtual time."""

from collections import Counter
from typing import Any

import attrs
import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors import (
    Account,
    Claims,
    Index,
    InvalidConfig,
    KeyIndex,
    Limit,
    NewTask,
    Notes,
    Runtime,
    Status,
    Task,
    UserOptions,
    WeightedFair,
    WorkerOptions,
    open_runtime,
    scheduler,
)
from actors.messages import SetWeight
from actors.trace import Started, Unreachable
from tests.observing import seeing
from tests.test_handle import on_virtual_time


@attrs.frozen
class Start:
    """One start, as the handler saw it."""

    at: float
    user: str
    kind: str
    cost: float


class Starts(list[Start]):
    """Every start in order. Handlers sleep as long as their tasks cost, so costs are exact."""

    def register(self, runtime: Runtime, *kinds: str, **limits: Any) -> None:
        began = trio.current_time()

        async def work(cost: float, context: Any) -> None:
            self.append(Start(trio.current_time() - began, context.user, context.kind, cost))
            await trio.sleep(cost)

        for kind in kinds:
            runtime.handler(kind, timeout_seconds=None, **limits)(work)

    def users(self) -> list[str]:
        return [start.user for start in self]

    def times(self, **wanted: str) -> list[float]:
        """When those of this user or kind started, to the millisecond."""
        return [
            round(start.at, 3) for start in self if all(getattr(start, name) == value for name, value in wanted.items())
        ]


async def submit(runtime: Runtime, *users: str, kind: str = "x", cost: float = 1.0, **options: Any) -> None:
    await runtime.submit_many([NewTask(kind, cost, user=user, cost=cost, **options) for user in users])


# Pausing


async def test_nothing_starts_while_everything_is_paused_and_what_runs_goes_on(autojump_clock: trio.abc.Clock) -> None:
    starts = Starts()
    async with open_runtime(workers=1) as runtime:
        starts.register(runtime, "x")
        await submit(runtime, "alice", "bob", cost=10)
        await trio.sleep(5)
        await runtime.pause()
        await trio.sleep(100)
        assert starts.users() == ["alice"] and runtime.tasks()[0].status is Status.COMPLETED
        waiting = runtime.tasks()[1]
        assert runtime.explain(waiting.id).sentence == "bob#2 waits: everything is paused."
        await runtime.resume()
        await trio.sleep(100)
        assert starts.times() == [0, 105]


@pytest.mark.parametrize("scope", [{"kind": "x"}, {"user": "alice"}])
async def test_a_paused_kind_or_user_holds_up_nobody_else(
    scope: dict[str, str], autojump_clock: trio.abc.Clock
) -> None:
    starts = Starts()
    async with open_runtime(workers=1) as runtime:
        starts.register(runtime, "x", "y")
        await runtime.pause(**scope)
        await submit(runtime, "alice", "alice", kind="x")
        await submit(runtime, "bob", "bob", kind="y")
        await trio.sleep(50)
        assert starts.users() == ["bob", "bob"] and starts.times() == [0, 1]
        await runtime.resume(**scope)
        await trio.sleep(50)
        assert starts.times(user="alice") == [50, 51]


async def test_a_pause_of_everything_and_one_of_a_kind_are_two(autojump_clock: trio.abc.Clock) -> None:
    starts = Starts()
    async with open_runtime(workers=1) as runtime:
        starts.register(runtime, "x")
        await runtime.pause()
        await runtime.pause(kind="x")
        await submit(runtime, "alice")
        await runtime.resume()
        await trio.sleep(10)
        assert starts == []
        await runtime.resume(kind="x")
        await trio.sleep(10)
        assert starts.times() == [10]


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        ({"kind": "x", "user": "alice"}, "it must be a kind or a user, not both, got 'x' and 'alice'"),
        ({"kind": ""}, "kind must be 1 to 128 printable characters, got ''"),
        ({"kind": 7}, "kind must be 1 to 128 printable characters, got 7"),
        ({"user": ""}, "user must be 1 to 128 printable characters, got ''"),
        ({"user": ["alice"]}, "user must be 1 to 128 printable characters, got ['alice']"),
    ],
)
async def test_what_is_neither_a_kind_nor_a_user_can_be_neither_paused_nor_limited(
    scope: dict[str, Any], said: str
) -> None:
    async with open_runtime(workers=1) as runtime:
        for order in (runtime.pause, runtime.resume, runtime.set_limits):
            with pytest.raises(InvalidConfig) as refused:
                await order(**scope)
            assert str(refused.value) == said
        with pytest.raises(InvalidConfig):
            await runtime.set_rate_limit(1, **scope)


# Limits


async def test_a_rate_limit_is_a_burst_and_then_so_many_a_second(autojump_clock: trio.abc.Clock) -> None:
    starts = Starts()
    async with open_runtime(workers=8) as runtime:
        starts.register(runtime, "x", rate_limit=2)
        starts.register(runtime, "y")
        await submit(runtime, *["alice"] * 6, cost=0.1)
        await submit(runtime, *["alice"] * 3, kind="y", cost=0.1)
        await trio.sleep(10)
    assert starts.times(kind="x") == [0, 0, 0.5, 1, 1.5, 2]
    assert starts.times(kind="y") == [0, 0, 0], "a throttled kind never holds up another"


@given(
    rate=st.sampled_from([0.3, 1.0, 2.5, 7.0]),
    gaps=st.lists(st.sampled_from([0.0, 0.0, 0.1, 0.7, 3.0]), min_size=2, max_size=25),
    scope=st.sampled_from(["kind", "user", "everything"]),
)
@example(rate=7.0, gaps=[0.1, *[0.0] * 7], scope="kind")
@settings(max_examples=40)
def test_starts_in_any_window_keep_to_capacity_plus_rate_times_its_length(
    rate: float, gaps: list[float], scope: str
) -> None:
    async def program() -> list[float]:
        starts = Starts()
        async with open_runtime(workers=4, drain=True, stop_grace_seconds=1_000) as runtime:
            starts.register(runtime, "x")
            scopes = {"kind": {"kind": "x"}, "user": {"user": "alice"}, "everything": {}}
            await runtime.set_rate_limit(rate, **scopes[scope])
            for gap in gaps:
                await trio.sleep(gap)
                await submit(runtime, "alice", cost=0.01)
        return [start.at for start in starts]

    times = on_virtual_time(program)
    assert len(times) == len(gaps)
    capacity = max(1.0, rate)
    for first, since in enumerate(times):
        for last, until in enumerate(times[first:], start=first):
            # The runtime counts from the wall clock, which a float knows to a quarter of a microsecond.
            assert last - first + 1 <= capacity + rate * (until - since + 1e-6) + 1e-9


@pytest.mark.parametrize("scope", [{"kind": "x"}, {"user": "alice"}, {}], ids=str)
async def test_a_concurrency_limit_is_how_many_run_at_once(
    scope: dict[str, Any], autojump_clock: trio.abc.Clock
) -> None:
    starts = Starts()
    async with open_runtime(workers=10) as runtime:
        starts.register(runtime, "x", "y")
        await runtime.set_limits(concurrency_max=2, **scope)
        for kind in ("x", "y"):
            await submit(runtime, *["alice", "bob"] * 4, kind=kind)
        await trio.sleep(100)
    assert set(Counter(starts.times(**scope)).values()) == {2}, "as many as may, and no more"
    assert len(starts) == 16


async def test_limits_change_while_it_runs_and_one_leaves_the_other(autojump_clock: trio.abc.Clock) -> None:
    starts = Starts()
    async with open_runtime(workers=10) as runtime:
        starts.register(runtime, "x", concurrency_max=1)
        await submit(runtime, *["alice"] * 8)
        await trio.sleep(2.5)
        await runtime.set_limits(kind="x", concurrency_max=5)
        await trio.sleep(10)
        assert starts.times() == [0, 1, 2, 2.5, 2.5, 2.5, 2.5, 3]
        await runtime.set_rate_limit(3, kind="x")
        assert runtime.limit(kind="x") == Limit(3, 5)
        await runtime.set_rate_limit(None, kind="x")
        assert runtime.limit(kind="x") == Limit(None, 5)
        await runtime.set_limits(kind="x")
        assert runtime.limit(kind="x") == Limit() == runtime.limit(user="alice") == runtime.limit()
        with pytest.raises(InvalidConfig, match="rate_limit must be a finite number > 0, got -1"):
            await runtime.set_rate_limit(-1, kind="x")


async def test_a_limit_of_none_at_once_starts_nothing_and_is_explained(autojump_clock: trio.abc.Clock) -> None:
    starts = Starts()
    async with open_runtime(workers=1) as runtime:
        starts.register(runtime, "x", concurrency_max=0)
        handle = await runtime.submit("x", 1, user="alice")
        await trio.sleep(10)
        assert starts == []
        assert runtime.explain(handle.id).sentence == "alice#1 waits: kind 'x' runs as many as it may."


async def test_users_share_a_limited_kind_by_weight(autojump_clock: trio.abc.Clock) -> None:
    starts = Starts()
    async with open_runtime(workers=8, users={"alice": UserOptions(weight=3)}) as runtime:
        starts.register(runtime, "x", rate_limit=1)
        await submit(runtime, *["alice"] * 60, *["bob"] * 60, cost=0.1)
        await trio.sleep(40)
    counts = Counter(starts.users())
    assert abs(counts["alice"] - 3 * counts["bob"]) <= 4 and sum(counts.values()) >= 40


@pytest.mark.parametrize("held", ["paused", "throttled", "capped", "without a handler"])
async def test_a_kind_that_may_not_start_hides_no_other_of_the_same_user(
    held: str, autojump_clock: trio.abc.Clock
) -> None:
    starts = Starts()
    async with open_runtime(workers=1) as runtime:
        starts.register(runtime, "y")
        if held != "without a handler":
            starts.register(
                runtime,
                "x",
                rate_limit=0.001 if held == "throttled" else None,
                concurrency_max=0 if held == "capped" else None,
            )
        await runtime.pause()
        await submit(runtime, *["alice"] * 5, kind="x", priority="critical")
        await submit(runtime, "alice", "alice", kind="y", priority="very_low")
        if held == "paused":
            await runtime.pause(kind="x")
        await runtime.resume()
        await trio.sleep(20)
    assert len(starts.times(kind="y")) == 2 and len(starts.times(kind="x")) == (held == "throttled")


@pytest.mark.parametrize("scope", [{"user": "alice"}, {}], ids=["its user", "everything"])
async def test_a_start_that_one_limit_forbids_takes_no_permit_of_another(
    scope: dict[str, Any], autojump_clock: trio.abc.Clock
) -> None:
    """Limits are checked together before any is taken: the kind's one permit is there for who may start first."""
    starts = Starts()
    async with open_runtime(workers=4) as runtime:
        starts.register(runtime, "x", rate_limit=0.1)
        await runtime.set_limits(concurrency_max=0, **scope)
        await submit(runtime, *["alice"] * 5)
        await trio.sleep(1)
        assert starts == []
        await runtime.pause(user="alice")
        await runtime.set_limits(**scope)
        await submit(runtime, "bob", "bob")
        await trio.sleep(15)
    assert starts.times(user="bob") == [1, 11]


# Turns


async def test_two_users_take_turns_whoever_came_first(autojump_clock: trio.abc.Clock) -> None:
    starts = Starts()
    async with open_runtime(workers=1) as runtime:
        starts.register(runtime, "x")
        await submit(runtime, *["alice"] * 6)
        await submit(runtime, *["bob"] * 3)
        await trio.sleep(20)
    assert turns(starts) == "abababaaa"


@pytest.mark.parametrize(
    ("sharing", "order"),
    [
        ("weighted_fair", "ababaa"),
        ("round_robin", "ababaa"),
        ({"policy": "deficit", "quantum_seconds": 1.0}, "ababaa"),
        ("deficit", "aaaabb"),
        ("fifo", "aaaabb"),
        ("noisy_neighbour", "abaaab"),
        ("capped", "aaaabb"),
        ("strict", "bbaaaa"),
        ("tests.test_runtime_control:LastByName", "bbaaaa"),
    ],
)
async def test_whose_turn_it_is_is_as_the_sharing_policy_says(
    sharing: Any, order: str, autojump_clock: trio.abc.Clock
) -> None:
    """alice came first, with more; what bob has is more urgent. Each is noisy once it has run something."""
    starts = Starts()
    async with open_runtime(workers=1, sharing=sharing) as runtime:
        starts.register(runtime, "x")
        await runtime.pause()
        await submit(runtime, *["alice"] * 4)
        await submit(runtime, "bob", "bob", priority="high")
        await runtime.resume()
        await trio.sleep(20)
    assert turns(starts) == order


@attrs.frozen
class LastByName:
    """A policy of a user's own, which is named by its module."""

    sees_heads = False

    def start(self, notes: Notes, claims: Claims) -> Account:
        return LastByNameAccount(WeightedFair().start(notes, claims))


class LastByNameAccount:
    """Charges nothing that counts; the last by name goes first."""

    def __init__(self, fair: Account) -> None:
        self.activate, self.deactivate = fair.activate, fair.deactivate
        self.charge, self.correct, self.reweigh = fair.charge, fair.correct, fair.reweigh

    def rank(self, user: str, head: object) -> list[int]:
        return [-ord(letter) for letter in user]

    def index(self) -> Index:
        return KeyIndex(self)


def turns(starts: Starts) -> str:
    """Who started, by first letters."""
    return "".join(start.user[0] for start in starts)


def lag(dispatched: list[tuple[str, float]], weights: dict[str, float]) -> float:
    """How far D_f/w_f - D_g/w_g moves while both have work waiting, given users and costs in the order of dispatch."""
    (f, g), left, leads = sorted(weights), Counter(user for user, _ in dispatched), [0.0]
    for user, cost in dispatched:
        if not (left[f] and left[g]):
            break
        left[user] -= 1
        leads.append(leads[-1] + (cost if user == f else -cost) / weights[user])
    return max(leads) - min(leads)


@given(
    weights=st.tuples(st.sampled_from([0.5, 1.0, 2.0, 8.0]), st.sampled_from([1.0, 3.0])),
    costs=st.lists(
        st.tuples(st.sampled_from(["alice", "bob"]), st.sampled_from([0.5, 1.0, 4.0])), min_size=8, max_size=50
    ),
    workers=st.integers(1, 5),
)
@settings(max_examples=60)
def test_service_keeps_to_weights_within_the_bound(
    weights: tuple[float, float], costs: list[tuple[str, float]], workers: int
) -> None:
    """|D_f/w_f - D_g/w_g| <= L_f/w_f + L_g/w_g at any number of workers, costs being exact."""
    weight = dict(zip(("alice", "bob"), weights, strict=True))
    users = {user: UserOptions(weight=value) for user, value in weight.items()}

    async def program() -> list[tuple[str, float]]:
        async with open_runtime(workers=workers, users=users, drain=True, stop_grace_seconds=1_000) as runtime:
            Starts().register(runtime, "x")
            await runtime.pause()
            for user, cost in costs:
                await submit(runtime, user, cost=cost)
            events = runtime.events()
            await runtime.resume()
        # Handlers that begin at the same time begin in any order: what counts is when they were dispatched.
        cost_of = {task.identity: task.cost for task in runtime.tasks()}
        started = [event.task async for event in events if isinstance(event, Started)]
        return [(task.partition("#")[0], cost_of[task]) for task in started]

    dispatched = on_virtual_time(program)
    assert Counter(dispatched) == Counter(costs)
    bound = sum(max([cost for who, cost in costs if who == user], default=0.0) / weight[user] for user in weight)
    assert lag(dispatched, weight) <= bound + 1e-6


async def test_who_was_idle_has_banked_nothing(autojump_clock: trio.abc.Clock) -> None:
    """bob had a task long ago; when he is back, he and alice take turns from then on."""
    starts = Starts()
    async with open_runtime(workers=1) as runtime:
        starts.register(runtime, "x")
        await submit(runtime, "bob", *["alice"] * 100)
        await trio.sleep(50.5)
        starts.clear()
        await submit(runtime, *["bob"] * 10)
        await trio.sleep(10)
        assert turns(starts)[:8] in ("abababab", "babababa")


@pytest.mark.parametrize("how", ["paused", "capped"])
async def test_who_was_held_back_has_banked_nothing(how: str, autojump_clock: trio.abc.Clock) -> None:
    starts = Starts()
    async with open_runtime(workers=1) as runtime:
        starts.register(runtime, "x")
        if how == "paused":
            await runtime.pause(user="bob")
        else:
            await runtime.set_limits(user="bob", concurrency_max=0)
        await submit(runtime, *["bob"] * 20, *["alice"] * 100)
        await trio.sleep(50.5)
        starts.clear()
        await (runtime.resume(user="bob") if how == "paused" else runtime.set_limits(user="bob"))
        await trio.sleep(10)
        assert turns(starts)[:8] in ("abababab", "babababa")


async def shares_after_a_new_weight(weight: float) -> Counter[str]:
    starts = Starts()
    async with open_runtime(workers=2) as runtime:
        starts.register(runtime, "x")
        await submit(runtime, *["alice"] * 200, *["bob"] * 200)
        await trio.sleep(20)
        starts.clear()
        await runtime.set_weight("alice", weight)
        await trio.sleep(40)
        return Counter(starts.users())


async def test_a_new_weight_binds_what_is_queued_already(autojump_clock: trio.abc.Clock) -> None:
    for weight, share in ((3.0, 60), (1 / 3, 20), (1.0, 40)):
        counts = await shares_after_a_new_weight(weight)
        assert counts["alice"] == pytest.approx(share, abs=3) and sum(counts.values()) == pytest.approx(80, abs=2)


async def test_the_tests_of_shares_notice_a_weight_that_is_ignored(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.abc.Clock
) -> None:
    def ignore(self: scheduler.Scheduler, message: SetWeight, now: float, effects: Any) -> None:
        self._obey(message, lambda key: None, effects)

    monkeypatch.setitem(scheduler._HANDLERS, SetWeight, ignore)
    assert (await shares_after_a_new_weight(3.0))["alice"] == pytest.approx(40, abs=3)


@pytest.mark.parametrize(
    ("user", "weight", "said"),
    [
        ("alice", 0, "weight must be a finite number > 0, got 0"),
        ("alice", float("inf"), "weight must be a finite number > 0, got inf"),
        ("", 1, "user must be 1 to 128 printable characters, got ''"),
    ],
)
async def test_a_weight_that_makes_no_sense_is_refused(user: str, weight: float, said: str) -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(InvalidConfig) as refused:
            await runtime.set_weight(user, weight)
        assert str(refused.value) == said


async def test_splitting_a_backlog_below_one_tenant_gains_nothing(autojump_clock: trio.abc.Clock) -> None:
    starts = Starts()
    async with open_runtime(workers=1) as runtime:
        starts.register(runtime, "x")
        await runtime.pause()
        for number in range(10):
            await submit(runtime, *[f"tenant/{number}"] * 10)
        await submit(runtime, *["alice"] * 50)
        await runtime.resume()
        await trio.sleep(39.5)
    counts = Counter(user.partition("/")[0] for user in starts.users())
    assert abs(counts["tenant"] - counts["alice"]) <= 1 and sum(counts.values()) == 40
    inner = Counter(user for user in starts.users() if user != "alice")
    assert max(inner.values()) - min(inner.values()) <= 1 and len(inner) == 10


async def test_the_tasks_of_a_tenant_itself_are_one_child_among_those_below_it(autojump_clock: trio.abc.Clock) -> None:
    starts = Starts()
    async with open_runtime(workers=1) as runtime:
        starts.register(runtime, "x")
        await runtime.pause()
        await submit(runtime, *["tenant", "tenant/alice", "bob"] * 50)
        await runtime.resume()
        await trio.sleep(39.5)
    assert Counter(starts.users()) == {"bob": 20, "tenant": 10, "tenant/alice": 10}


async def test_a_charge_is_corrected_to_what_was_used(autojump_clock: trio.abc.Clock) -> None:
    """alice says that her tasks cost a tenth of what they do: it gains her nothing."""
    used: Counter[str] = Counter()
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("x")
        async def work(payload: None, context: Any) -> None:
            await trio.sleep(1)
            used[context.user] += 1

        await runtime.pause()
        await runtime.submit_many([NewTask("x", user="alice", cost=0.1) for _ in range(60)])
        await runtime.submit_many([NewTask("x", user="bob", cost=1.0) for _ in range(60)])
        await runtime.resume()
        await trio.sleep(60.5)
    assert sum(used.values()) >= 60 and abs(used["alice"] - used["bob"]) <= 4


@given(workers=st.integers(1, 6), backlog=st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9), min_size=1))
@settings(max_examples=40)
def test_no_worker_idles_beside_work(workers: int, backlog: dict[str, int]) -> None:
    async def program() -> float:
        async with open_runtime(workers=workers, drain=True, stop_grace_seconds=1_000) as runtime:
            Starts().register(runtime, "x")
            began = trio.current_time()
            for user, count in backlog.items():
                await submit(runtime, *[user] * count)
        return trio.current_time() - began

    rounds = -(-sum(backlog.values()) // workers)
    assert on_virtual_time(program) == pytest.approx(rounds)


# Order within a user


async def order_of(priorities: dict[str, Any], **options: Any) -> list[str]:
    """The order in which tasks of one user start, by name."""
    ran: list[str] = []

    async def note(name: str) -> None:
        ran.append(name)

    async with open_runtime(workers=1, **options) as runtime:
        runtime.handler("x")(note)
        await runtime.pause()
        await runtime.submit_many([NewTask("x", name, priority=priority) for name, priority in priorities.items()])
        await runtime.resume()
        await trio.sleep(1)
    return ran


async def test_urgent_tasks_go_first_and_equals_in_order(autojump_clock: trio.abc.Clock) -> None:
    levels = {"a": 1, "b": 3, "c": 6, "d": 5, "e": 3, "f": 6}
    assert await order_of(levels) == ["c", "f", "d", "b", "e", "a"]


async def test_critical_tasks_are_not_more_than_their_burst_in_a_row(autojump_clock: trio.abc.Clock) -> None:
    levels = {f"critical {number}": 6 for number in range(40)} | {"a": 3, "b": 3}
    ran = await order_of(levels, critical_burst=16)
    assert (ran.index("a"), ran.index("b")) == (16, 33)
    ran = await order_of(levels, critical_burst=None)
    assert (ran.index("a"), ran.index("b")) == (40, 41)


async def test_a_task_is_overtaken_only_by_those_that_come_soon_after_it(autojump_clock: trio.abc.Clock) -> None:
    """60 s a level: what is one level higher overtakes a task that came less than 60 s before it."""
    ran: list[str] = []

    async def note(payload: str) -> None:
        ran.append(payload)

    async with open_runtime(workers=1) as runtime:
        runtime.handler("x")(note)
        await runtime.pause()
        await runtime.submit("x", "old", priority="normal")
        await trio.sleep(59)
        await runtime.submit("x", "in time", priority="high")
        await trio.sleep(2)
        await runtime.submit("x", "too late", priority="high")
        await runtime.resume()
        await trio.sleep(1)
    assert ran == ["in time", "old", "too late"]


@pytest.mark.parametrize(
    ("ordering", "ran"),
    [
        ("aging", ["later, high", "early, low", "later, expires"]),
        ({"policy": "aging", "aging_seconds": 10}, ["early, low", "later, high", "later, expires"]),
        ("strict", ["later, high", "later, expires", "early, low"]),
        ("fifo", ["early, low", "later, high", "later, expires"]),
        ("deadline", ["later, expires", "early, low", "later, high"]),
        ("accumulating", ["early, low", "later, high", "later, expires"]),
        ("naive_score", ["later, high", "later, expires", "early, low"]),
        ("tests.test_runtime_control:ByName", ["early, low", "later, expires", "later, high"]),
    ],
)
async def test_the_order_within_a_user_is_that_of_its_policy(
    ordering: Any, ran: list[str], autojump_clock: trio.abc.Clock
) -> None:
    """One that is low and came 100 s before one that is high, and one that is normal and expires."""
    started: list[str] = []

    async def note(name: str) -> None:
        started.append(name)

    async with open_runtime(workers=1, ordering=ordering) as runtime:
        runtime.handler("x")(note)
        await runtime.pause()
        await runtime.submit("x", "early, low", priority="low")
        await trio.sleep(100)
        await runtime.submit("x", "later, high", priority="high")
        await runtime.submit("x", "later, expires", priority="normal", expires_after_seconds=500)
        await trio.sleep(10)
        await runtime.resume()
        await trio.sleep(1)
    assert started == ran


class ByName:
    """An order of a user's own."""

    def key(self, task: Task) -> str:
        return str(task.payload)


# Who may run whom


async def test_workers_serve_their_own_and_steal_where_they_may(autojump_clock: trio.abc.Clock) -> None:
    ran: dict[str, set[str]] = {}
    async with open_runtime(
        worker=(WorkerOptions(users=("alice",)), WorkerOptions(users=("bob",), steals=("alice",)))
    ) as runtime:

        @runtime.handler("x")
        async def work(payload: None, context: Any) -> None:
            ran.setdefault(context.user, set()).add(runtime.get(context.id).worker_id or "")
            await trio.sleep(1)

        await runtime.submit_many([NewTask("x", user=user) for user in ["alice"] * 4 + ["bob"] * 2])
        carol = await runtime.submit("x", user="carol")
        await trio.sleep(20)
        assert ran == {"alice": {"worker/1", "worker/2"}, "bob": {"worker/2"}}
        assert runtime.explain(carol.id).sentence == "carol#7 waits: no worker for 'x' may serve carol."
        assert runtime.health().unreachable == ("carol",)


async def test_a_stolen_task_is_charged_to_the_user_it_belongs_to(autojump_clock: trio.abc.Clock) -> None:
    """One worker does nothing but steal from bob: so the other, who serves everybody, is carol's."""
    starts = Starts()
    async with open_runtime(
        worker=(WorkerOptions(users=("nobody",), steals=("bob",)), WorkerOptions(users=("bob", "carol")))
    ) as runtime:
        starts.register(runtime, "x")
        await runtime.pause()
        await submit(runtime, *["bob", "carol"] * 60)
        await runtime.resume()
        await trio.sleep(39.5)
    counts = Counter(starts.users())
    assert sum(counts.values()) == 80 and abs(counts["bob"] - counts["carol"]) <= 2


STEALS = {
    "none": "bbb",
    "listed": "bbbaaac",
    "longest": "bbbccc",
}
"""Whom a worker of bob's serves who may steal from alice and carol, in this order; carol has most."""


@pytest.mark.parametrize("stealing", STEALS)
async def test_a_worker_steals_as_its_policy_says_and_only_when_its_own_have_nothing(
    stealing: str, autojump_clock: trio.abc.Clock
) -> None:
    starts = Starts()
    worker = (WorkerOptions(users=("bob",), steals=("alice", "carol")),)
    async with open_runtime(worker=worker, stealing=stealing, stop_grace_seconds=0) as runtime:
        starts.register(runtime, "x")
        await runtime.pause()
        await submit(runtime, *["alice"] * 3, *["carol"] * 6, *["bob"] * 3)
        await runtime.resume()
        await trio.sleep(len(STEALS[stealing]) - 0.5)
    assert turns(starts) == STEALS[stealing]


async def test_a_user_that_no_worker_can_reach_is_an_event_an_alert_and_explained(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(worker=(WorkerOptions(users=("alice",)),)) as runtime:
        Starts().register(runtime, "x")
        seen = seeing(runtime)
        handle = await runtime.submit("x", 1, user="carol")
        await submit(runtime, "alice", "carol")
        assert [event.user for event in seen.of(Unreachable)] == ["carol"], "once, and at once"
        assert runtime.health().unreachable == ("carol",) and runtime.health().status == "degraded"
        assert "unreachable" in [block.reason for block in runtime.explain(handle.id).blocks]
