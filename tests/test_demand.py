"""Demand against a plain, slow model of who may be served and whose turn it is.

`Desk` plays everybody around a `Demand`: shards that tell, workers that ask, people who pause, limit and weigh. `Model`
works out the same from first principles: it keeps every tag, looks at everybody, and refills its buckets by the clock. All
numbers are fractions of two, so that nothing is rounded and everything is compared for equality.
"""

import gc
import math
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from actors import (
    SHARING,
    Capped,
    Deficit,
    KindSettings,
    Limit,
    NoisyNeighbour,
    Notes,
    RoundRobin,
    Settings,
    WeightedFair,
)
from actors.actor import keyed_draw
from actors.demand import Choice, Demand
from actors.kinds import Kinds
from actors.messages import Head, Ready, WorkerClass
from actors.policies.fair import FairAccount
from actors.policies.stealing import STEALING
from tests.test_sharing import Ledger, finds, start_time_bound, way
from tests.test_stealing import may_steal, serves

ALL = "all"
USERS = ("alice", "bob", "t", "t/a", "t/b")
KINDS = ("crawl", "mail", "scan")
ANYBODY = WorkerClass(frozenset(KINDS))
BOBS = WorkerClass(frozenset(KINDS), ("bob",))
CLASSES = (
    ANYBODY,
    WorkerClass(frozenset({"crawl"})),
    WorkerClass(frozenset({"crawl", "mail"}), ("alice", "t*"), ("bob",)),
    WorkerClass(frozenset({"mail", "scan"}), ("bob",), ("t/*", "alice")),
    WorkerClass(frozenset({"scan"}), ("zoe",)),
)
KEYS = (ALL, *(f"kind/{kind}" for kind in KINDS), *(f"user/{user}" for user in USERS))
DRAW = keyed_draw(7)


def lots(n: int) -> float:
    return DRAW("steal", "worker", n)


@attrs.frozen(eq=False)
class Claim:
    user: str
    kind: str
    cost: float
    clock: Any
    """The clock of its kind when it started, if that was limited."""


class Desk:
    """A Demand and everybody around it, who call it exactly as the scheduler does."""

    def __init__(self, settings: Settings = Settings(), classes: Iterable[WorkerClass] = (ANYBODY,)) -> None:
        self.settings = settings
        self.now = 0.0
        self.sequence = 0
        self.waiting: dict[str, dict[str, list[Head]]] = {}
        self.claims: list[Claim] = []
        self.started: list[tuple[str, str]] = []
        self.classes = list(classes)
        self.notes = Notes("scheduler")
        self.demand = Demand(settings, self.notes)
        self.demand.set_classes(self.classes, 0.0)

    def counts(self, user: str) -> dict[str, int]:
        return {kind: len(heads) for kind, heads in self.waiting.get(user, {}).items() if heads}

    def running(self, user: str) -> dict[str, int]:
        return Counter(claim.kind for claim in self.claims if claim.user == user)

    def ready(self, user: str, kinds: Iterable[str], running: bool = False) -> Ready:
        """What the user's shard would say of these kinds."""
        counts = self.counts(user)
        told = {kind: counts.get(kind, 0) for kind in kinds}
        sees = self.settings.sharing.sees_heads
        heads = {kind: self.waiting[user][kind][0] for kind in told if sees and counts.get(kind)}
        return Ready(user, told, heads, 0, dict(self.running(user)) if running else None)

    # What shards say

    def arrive(self, user: str, kind: str, cost: float = 1.0, tasks: int = 1) -> None:
        for _ in range(tasks):
            self.sequence += 1
            head = Head(1 + self.sequence * 3 % 5, self.now, self.sequence, cost)
            self.waiting.setdefault(user, {}).setdefault(kind, []).append(head)
        self.demand.hear(self.ready(user, [kind]), self.now)
        self.refill()

    def cancel(self, user: str, kind: str) -> None:
        if self.counts(user).get(kind):
            self.waiting[user][kind].pop()
            self.demand.hear(self.ready(user, [kind]), self.now)
            self.refill()

    def serve(self, worker_class: WorkerClass = ANYBODY) -> Claim | None:
        """Give a worker of this class what it should have: the oldest task of the kinds that are offered."""
        choice = self.demand.choose(worker_class, self.now, lots)
        if choice is None:
            return None
        kind = min(
            choice.kinds & self.counts(choice.user).keys(), key=lambda kind: self.head(choice.user, kind).sequence
        )
        return self.start(choice.user, kind)

    def head(self, user: str, kind: str) -> Head:
        return self.waiting[user][kind][0]

    def start(self, user: str, kind: str) -> Claim:
        head = self.waiting[user][kind].pop(0)
        claim = Claim(user, kind, head.cost, self.clock(kind))
        self.claims.append(claim)
        self.started.append((user, kind))
        self.demand.start(user, kind, head.cost, self.now)
        self.demand.hear(self.ready(user, [kind]), self.now)
        self.refill()
        return claim

    def clock(self, kind: str) -> Any:
        """Nothing, unless a model keeps one."""

    def settle(self, claim: Claim, used: float | None = None) -> None:
        self.claims.remove(claim)
        self.demand.settle(claim.user, claim.kind, (claim.cost if used is None else used) - claim.cost, self.now)
        self.refill()

    # What time and people do

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.refill()

    def refill(self) -> None:
        self.demand.refill(self.now)

    def set_classes(self, classes: Iterable[WorkerClass]) -> None:
        self.classes = list(classes)
        self.demand.set_classes(self.classes, self.now)
        self.refill()

    def pause(self, key: str) -> None:
        self.demand.pause(key, self.now)
        self.refill()

    def resume(self, key: str) -> None:
        self.demand.resume(key, self.now)
        self.refill()

    def set_weight(self, name: str, weight: float) -> None:
        self.demand.set_weight(name, weight)

    def set_limit(self, key: str, limit: Limit) -> None:
        self.demand.set_limit(key, limit, self.now)
        self.refill()

    def rebuild(self) -> None:
        """A restart: the notes come back as plain JSON, and everybody says anew what it has."""
        saved = msgspec.json.decode(msgspec.json.encode(self.notes.under("")))
        self.notes = Notes("scheduler", saved)
        self.demand = Demand(self.settings, self.notes)
        self.demand.freeze()
        self.demand.set_classes(reversed(self.classes), self.now)
        for user in sorted({*self.waiting, *(claim.user for claim in self.claims)}, reverse=True):
            self.demand.hear(self.ready(user, self.counts(user), running=True), self.now)
        self.demand.thaw(self.now)
        self.refill()


# The model


class Clock:
    """Start-time fair queueing over a tree by the book: every tag is kept, and everybody is looked at.

    A name that is idle, owes nothing and has nothing running starts afresh, with everybody below it.
    """

    def __init__(self, weight: Callable[[str], float]) -> None:
        self.weight = weight
        self.tags: dict[str, float] = {}
        self.virtual: dict[str, float] = {}
        self.active: set[str] = set()
        self.owed: Counter[str] = Counter()

    def is_active(self, party: str) -> bool:
        return any(party in way(user) for user in self.active)

    def tag(self, party: str) -> float:
        virtual = self.virtual.get(party.rpartition("/")[0], 0.0)
        tag = self.tags.get(party, virtual)
        return tag if self.is_active(party) else max(tag, virtual)

    def key(self, user: str) -> list[tuple[float, str]]:
        """What users are compared by: at each step down the tag, then the name; own tasks before the rest."""
        return [(self.tag(party), "" if party.endswith("/.") else party) for party in way(user)]

    def set_active(self, user: str, active: bool) -> None:
        if active and user not in self.active:
            self.tags.update({party: self.tag(party) for party in way(user)})
            self.active.add(user)
        elif not active:
            self.active.discard(user)
        self.forget()

    def charge(self, user: str, cost: float) -> None:
        for party in way(user):
            tag, parent = self.tag(party), party.rpartition("/")[0]
            self.virtual[parent] = max(tag, self.virtual.get(parent, 0.0))
            self.tags[party] = tag + cost / self.weight(party)
            self.owed[party] += 1
        self.forget()

    def correct(self, user: str, difference: float) -> None:
        for party in way(user):
            self.tags[party] += difference / self.weight(party)
            self.owed[party] -= 1
        self.forget()

    def reweigh(self, name: str, before: float, after: float) -> None:
        if name in self.tags:
            virtual = self.virtual.get(name.rpartition("/")[0], 0.0)
            self.tags[name] = virtual + (self.tags[name] - virtual) * before / after
        self.forget()

    def forget(self) -> None:
        for name in sorted(name for name in self.tags if not name.endswith("/.")):
            virtual = self.virtual.get(name.rpartition("/")[0], 0.0)
            if not self.is_active(name) and not self.owed[name] and self.tags.get(name, math.inf) <= virtual:
                for known in (self.tags, self.virtual):
                    for below in [below for below in known if f"{below}/".startswith(f"{name}/")]:
                        del known[below]


class Permits:
    """A limit by the clock: how many permits there were at some time, and what has come since."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self.at = 0.0
        self.permits = self.capacity

    @property
    def capacity(self) -> float:
        return max(1.0, self.limit.rate_limit or 0.0)

    def left(self, now: float) -> float:
        rate = self.limit.rate_limit
        return math.inf if rate is None else min(self.capacity, self.permits + (now - self.at) * rate)

    def free_at(self, running: int, now: float) -> float:
        if self.limit.concurrency_max is not None and running >= self.limit.concurrency_max:
            return math.inf
        if self.limit.rate_limit is None or self.left(now) >= 1:
            return now
        return now + (1 - self.left(now)) / self.limit.rate_limit

    def take(self, now: float) -> None:
        self.permits, self.at = self.left(now) - 1, now

    def set(self, limit: Limit, now: float) -> None:
        left, self.limit = self.left(now), limit
        self.permits, self.at = min(self.capacity, left), now


class Model(Desk):
    """A desk that keeps books of its own beside the Demand's, and says what may and what must be chosen."""

    def __init__(self, settings: Settings, classes: Iterable[WorkerClass]) -> None:
        self.weights = dict(settings.weights)
        self.paused: set[str] = set()
        limits = settings.limits()
        self.permits = {key: Permits(limits.get(key, Limit())) for key in KEYS}
        self.pool = Clock(self.weight)
        self.clocks = {kind: Clock(self.weight) for kind in KINDS if f"kind/{kind}" in limits}
        self.cap = settings.sharing.user_concurrency_max if isinstance(settings.sharing, Capped) else math.inf
        super().__init__(settings, classes)

    def weight(self, name: str) -> float:
        return self.weights.get(name, 1.0)

    def clock(self, kind: str) -> Clock | None:
        return self.clocks.get(kind)

    # What happens

    def start(self, user: str, kind: str) -> Claim:
        for key in (ALL, f"kind/{kind}", f"user/{user}"):
            self.permits[key].take(self.now)
        for clock in (self.pool, self.clocks.get(kind)):
            if clock is not None:
                clock.charge(user, self.head(user, kind).cost)
        return super().start(user, kind)

    def settle(self, claim: Claim, used: float | None = None) -> None:
        clock = self.clocks.get(claim.kind)
        if used is None or clock is not claim.clock:
            # What a clock has not charged it cannot correct: here such claims turn out to cost what was estimated.
            used = claim.cost
        self.pool.correct(claim.user, used - claim.cost)
        if clock is not None and clock is claim.clock:
            clock.correct(claim.user, used - claim.cost)
        super().settle(claim, used)

    def refill(self) -> None:
        """At the end of whatever happens: who can be served from now on is active, and nobody else."""
        super().refill()
        for user in USERS:
            servable = self.servable(user, self.now)
            self.pool.set_active(user, any(kind not in self.clocks for kind in servable))
            for kind, clock in self.clocks.items():
                clock.set_active(user, kind in servable)

    def pause(self, key: str) -> None:
        self.paused.add(key)
        super().pause(key)

    def resume(self, key: str) -> None:
        self.paused.discard(key)
        super().resume(key)

    def set_limit(self, key: str, limit: Limit) -> None:
        self.permits[key].set(limit, self.now)
        role, _, kind = key.partition("/")
        if role == "kind" and limit.holds:
            self.clocks.setdefault(kind, Clock(self.weight))
        elif role == "kind":
            self.clocks.pop(kind, None)
        super().set_limit(key, limit)

    def set_weight(self, name: str, weight: float) -> None:
        before = self.weight(name)
        self.weights[name] = weight
        for clock in (self.pool, *self.clocks.values()):
            clock.reweigh(name, before, weight)
        super().set_weight(name, weight)

    # What may be

    def free_at(self, key: str, now: float) -> float:
        role, _, name = key.partition("/")
        running = sum(key == ALL or getattr(claim, role) == name for claim in self.claims)
        if role == "user" and running >= self.cap:
            return math.inf
        return self.permits[key].free_at(running, now)

    def servable(self, user: str, now: float) -> set[str]:
        """The kinds that the user has, may start, and can be served; what holds back a whole kind does not count."""
        if f"user/{user}" in self.paused or self.free_at(f"user/{user}", now) > now:
            return set()
        steals = self.settings.stealing
        reached = [found.runs() for found in self.classes if serves(found, user) or may_steal(found, user, steals)]
        return {
            kind
            for kind in self.counts(user)
            if f"kind/{kind}" not in self.paused and any(kind in kinds for kinds in reached)
        }

    def views(self, found: WorkerClass) -> list[tuple[str, list[str]]]:
        """The views of a class: in what order, and who is in it. The first one is its own users."""
        stealing = self.settings.stealing
        rest = [user for user in USERS if may_steal(found, user, stealing)]
        stolen = [(stealing, rest)]
        if stealing == "listed":
            entries = [WorkerClass(found.kinds, (entry,)) for entry in found.steals]
            stolen = [("fair", [user for user in rest if serves(entry, user)]) for entry in entries]
        return [("fair", [user for user in USERS if serves(found, user)]), *stolen]

    def candidates(self, found: WorkerClass, now: float) -> tuple[bool, str, dict[str, list[str]]]:
        """Of the first view with anything in it: whether it is stolen from, its order, and who may start each kind."""
        if ALL not in self.paused and self.free_at(ALL, now) <= now:
            kinds = [kind for kind in sorted(found.runs()) if self.free_at(f"kind/{kind}", now) <= now]
            servable = {user: self.servable(user, now) for user in USERS}
            for number, (order, members) in enumerate(self.views(found)):
                may = {kind: [user for user in members if kind in servable[user]] for kind in kinds}
                if any(may.values()):
                    return number > 0, order, {kind: users for kind, users in may.items() if users}
        return False, "", {}

    # What must be

    def check(self, found: WorkerClass) -> None:
        choice = self.demand.choose(found, self.now, lots)
        stolen, order, may = self.candidates(found, self.now)
        if not may:
            assert choice is None, "nothing may start"
            return
        assert choice is not None, "a worker idles beside a task that it may run"
        assert choice.stolen == stolen, "own users come first"
        mine = {kind for kind, users in may.items() if choice.user in users}
        assert mine & choice.kinds, "there is something to start"
        assert choice.kinds <= found.runs()
        assert mine - self.clocks.keys() <= choice.kinds, "every kind without a limit is offered"
        assert choice.kinds & self.clocks.keys() <= mine, "a limited kind is offered to those who may start it"
        assert not any(f"kind/{kind}" in self.paused for kind in choice.kinds)
        if isinstance(self.settings.sharing, WeightedFair) and order != "random_two":
            self.check_turn(choice, order, may)

    def check_turn(self, choice: Choice, order: str, may: dict[str, list[str]]) -> None:
        """The two-clock rule: in a limited kind by its own clock, between kinds by the pool's."""

        def by_length(user: str, kind: str) -> int:
            return -self.counts(user)[kind]

        turns = {}
        for kind, users in may.items():
            if kind in self.clocks:
                turns[kind] = min(users, key=self.clocks[kind].key)
            elif order == "fair":
                turns[kind] = min(users, key=self.pool.key)
            else:
                turns[kind] = min((by_length(user, kind), user) for user in users)[1]
        if order == "fair":
            best = min(turns.values(), key=self.pool.key)
        else:
            best = min((by_length(user, kind), user) for kind, user in turns.items())[1]
        assert choice.user == best
        assert choice.kinds & self.clocks.keys() == {kind for kind in self.clocks if turns.get(kind) == best}

    def check_wake(self) -> None:
        """Never later than something may start, and only for a limit that holds something back."""
        held = [ALL, *(f"kind/{kind}" for kind in self.clocks), *(f"user/{user}" for user in USERS)]
        opens = {self.free_at(key, self.now) for key in held if self.held_back(key)}
        opens = {at for at in opens if self.now < at < math.inf}
        wakes_at = self.demand.wakes_at(self.now)
        assert wakes_at == math.inf or wakes_at in opens, "a limit opens then"
        now = [self.candidates(found, self.now) for found in self.classes]
        for at in sorted(opens):
            if at < wakes_at:
                assert [self.candidates(found, at) for found in self.classes] == now, f"something may start at {at}"

    def held_back(self, key: str) -> bool:
        role, _, name = key.partition("/")
        return any(
            key == ALL or name == {"user": user, "kind": kind}[role] for user in USERS for kind in self.counts(user)
        )


# Everything against the model

rates = st.sampled_from([0.5, 1.0, 2.0, 4.0])
limits = st.builds(Limit, st.none() | rates, st.none() | st.integers(0, 2))
costs = st.sampled_from([0.5, 1.0, 2.0, 3.0, 8.0])
weights = st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0])
some_users = st.sampled_from(USERS)
some_kinds = st.sampled_from(KINDS)
some_keys = st.sampled_from(KEYS)
some_classes = st.lists(st.sampled_from(CLASSES), min_size=1, max_size=4, unique=True)


class DemandMachine(RuleBasedStateMachine):
    """Whatever happens, what is chosen for each class of workers is what the model says."""

    sharing = st.just("weighted_fair")

    @initialize(data=st.data(), stealing=st.sampled_from(STEALING), classes=some_classes)
    def begin(self, data: st.DataObject, stealing: str, classes: list[WorkerClass]) -> None:
        self.desk = Model(
            Settings(
                sharing=SHARING.make(data.draw(self.sharing)),
                stealing=stealing,
                weights=data.draw(st.dictionaries(some_users, weights)),
                limit=data.draw(st.just(Limit()) | limits),
                kinds=data.draw(st.dictionaries(some_kinds, limits.map(lambda limit: KindSettings(limit=limit)))),
                user_limits=data.draw(st.dictionaries(some_users, limits)),
            ),
            classes,
        )

    @rule(user=some_users, kind=some_kinds, cost=costs, tasks=st.integers(1, 4))
    def arrive(self, user: str, kind: str, cost: float, tasks: int) -> None:
        self.desk.arrive(user, kind, cost, tasks)

    @rule(user=some_users, kind=some_kinds)
    def cancel(self, user: str, kind: str) -> None:
        self.desk.cancel(user, kind)

    @rule(which=st.integers(0, 3), times=st.integers(1, 4))
    def serve(self, which: int, times: int) -> None:
        for _ in range(times):
            self.desk.serve(self.desk.classes[which % len(self.desk.classes)])
            self.agree()

    @rule(which=st.integers(0, 9), used=costs)
    def settle(self, which: int, used: float) -> None:
        if claims := self.desk.claims:
            self.desk.settle(claims[which % len(claims)], used)

    @rule(eighths=st.integers(0, 24))
    def wait(self, eighths: int) -> None:
        self.desk.wait(eighths / 8)

    @rule()
    def wait_for_the_wake(self) -> None:
        if (at := self.desk.demand.wakes_at(self.desk.now)) < math.inf:
            self.desk.wait(at - self.desk.now)

    @rule(key=some_keys, paused=st.booleans())
    def pause(self, key: str, paused: bool) -> None:
        (self.desk.pause if paused else self.desk.resume)(key)

    @rule(key=some_keys, limit=st.just(Limit()) | limits)
    def set_limit(self, key: str, limit: Limit) -> None:
        self.desk.set_limit(key, limit)

    @rule(user=some_users, weight=weights)
    def set_weight(self, user: str, weight: float) -> None:
        self.desk.set_weight(user, weight)

    @rule(classes=some_classes)
    def set_classes(self, classes: list[WorkerClass]) -> None:
        self.desk.set_classes(classes)

    @rule()
    def restart(self) -> None:
        """The model is not told."""
        self.desk.rebuild()

    @invariant()
    def agree(self) -> None:
        for found in self.desk.classes:
            self.desk.check(found)
        self.desk.check_wake()


class AnyPolicyMachine(DemandMachine):
    """Limits, pauses, assignments and work conservation hold under every policy."""

    sharing = st.sampled_from(sorted(SHARING.classes))


TestDemand = DemandMachine.TestCase
TestAnyPolicy = AnyPolicyMachine.TestCase


# Planted bugs


def blind(self: Demand, found: WorkerClass, now: float, lots: Any, original: Any = Demand.choose) -> Choice | None:
    """Gives up when its own users have nothing."""
    choice: Choice | None = original(self, found, now, lots)
    return None if choice is not None and choice.stolen else choice


PLANTED: dict[str, tuple[Any, str, Any]] = {
    "nobody steals": (Demand, "choose", blind),
    "a paused kind is open": (Demand, "_open_kind", lambda self, kind: True),
    "nothing comes back after a restart": (Notes, "under", lambda self, prefix: {}),
    "nobody is charged": (FairAccount, "charge", lambda self, user, cost, now: None),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_the_machine_finds_a_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*PLANTED[bug])
    quick = settings(
        max_examples=300,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(DemandMachine, settings=quick)


def test_a_limit_that_is_lifted_wakes_nobody_later() -> None:
    desk = Desk(Settings())
    desk.set_limit("user/alice", Limit(rate_limit=0.5))
    desk.arrive("alice", "crawl", 1.0, 2)
    assert desk.serve() is not None
    assert desk.demand.wakes_at(desk.now) == 2.0
    desk.set_limit("user/alice", Limit())
    assert desk.demand.wakes_at(desk.now) == math.inf
    assert desk.serve() is not None


# Who is held back holds nobody up

HELD_BACK: dict[str, tuple[dict[str, Limit], str | None, str]] = {
    "a paused user": ({}, "user/held", "crawl"),
    "a user at its cap": ({"user/held": Limit(concurrency_max=1)}, None, "crawl"),
    "a user out of permits": ({"user/held": Limit(rate_limit=0.5)}, None, "crawl"),
    "a paused kind": ({}, "kind/scan", "scan"),
    "a kind at its cap": ({"kind/scan": Limit(concurrency_max=1)}, None, "scan"),
    "a kind out of permits": ({"kind/scan": Limit(rate_limit=0.5)}, None, "scan"),
}


def work_off(desk: Desk, workers: int, seconds: float, turns: int) -> None:
    """Serve so many times with so many workers, each task taking so long; wait where nothing may start."""
    for _ in range(turns):
        if len(desk.claims) == workers or desk.serve() is None:
            desk.wait(seconds)
            if desk.claims:
                desk.settle(desk.claims[0])


ORDERS: dict[str, Any] = {
    "how": st.sampled_from(sorted(HELD_BACK)),
    "weight": st.tuples(weights, weights, weights, weights),
    "cost": st.lists(costs, min_size=4, max_size=4),
    "workers": st.integers(1, 8),
    "seconds": st.sampled_from([0.25, 1.0]),
}


@given(**ORDERS)
def test_who_is_held_back_changes_nothing_in_the_order_of_the_others(
    how: str, weight: tuple[float, ...], cost: list[float], workers: int, seconds: float
) -> None:
    """Whatever it gets through, it moves only its own tag."""
    limits, paused, kind = HELD_BACK[how]
    others = ("alice", "bob", "t/a")
    orders = []
    for held in (True, False):
        desk = Desk(Settings(weights=dict(zip((*others, "held"), weight, strict=True))))
        for key, limit in limits.items():
            desk.set_limit(key, limit)
        if paused is not None:
            desk.pause(paused)
        for user, each in zip(others, cost, strict=False):
            desk.arrive(user, "crawl", each, 200)
        if held:
            desk.arrive("held", kind, cost[3], 200)
        work_off(desk, workers, seconds, 120)
        orders.append([user for user, _ in desk.started if user != "held"])
    with_it, without = orders
    assert with_it == without[: len(with_it)]
    assert with_it


# A limit that is shared


SHARED: dict[str, Any] = {
    "weight": st.tuples(weights, weights, weights),
    "limit": st.sampled_from([Limit(rate_limit=0.5), Limit(rate_limit=2.0), Limit(concurrency_max=1)]),
    "workers": st.integers(1, 8),
    "cost": st.tuples(costs, costs, costs),
}


@given(**SHARED)
@example(weight=(3.0, 1.0, 1.0), limit=Limit(rate_limit=0.5), workers=2, cost=(1.0, 1.0, 1.0))
def test_a_limited_kind_is_shared_by_weight_and_who_is_not_on_it_loses_nothing(
    weight: tuple[float, ...], limit: Limit, workers: int, cost: tuple[float, ...]
) -> None:
    """While the limit lasts, on the clock of the kind; for the third user, and once the limit is lifted, on the pool's."""
    users = ("alice", "bob", "carol")
    by_name = dict(zip(users, weight, strict=True))
    desk = Desk(Settings(weights=by_name, kinds={"scan": KindSettings(limit=limit)}))
    for user, kind, each in zip(users, ("scan", "scan", "crawl"), cost, strict=True):
        desk.arrive(user, kind, each, 250)
    on_kind = Ledger(users[:2], by_name.__getitem__, start_time_bound)
    in_pool = Ledger(users, by_name.__getitem__, start_time_bound, coming_and_going=True)

    def serve(limited: bool) -> None:
        for _ in range(100):
            claim = desk.serve() if len(desk.claims) < workers else None
            if claim is None:
                desk.wait(0.25)
                if desk.claims:
                    desk.settle(desk.claims[0])
            else:
                on_kind.charge(claim.user, claim.cost)
                in_pool.charge(claim.user, claim.cost)
            # Those on the limited kind may have to wait for it, so that only the third is there all the time.
            on_kind.look(users[:2] if limited else ())
            in_pool.look(users[2:] if limited else users)

    serve(limited=True)
    desk.set_limit("kind/scan", Limit())
    serve(limited=False)
    assert all(desk.counts(user) for user in users), "everybody was backlogged all the time"


def uncharged_account(self: Kinds, name: str, original: Any = Kinds.update_account) -> bool:
    """A limited kind has an account that nothing is charged to."""
    changed: bool = original(self, name)
    if (account := self.known[name].account) is not None:
        account.charge = account.correct = lambda user, cost, now: None  # type: ignore[method-assign,assignment]
    return changed


def test_a_limited_kind_without_a_clock_of_its_own_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kinds, "update_account", uncharged_account)
    finds(test_a_limited_kind_is_shared_by_weight_and_who_is_not_on_it_loses_nothing, **SHARED)


def test_a_third_user_does_not_starve_when_a_throttle_lifts() -> None:
    """The case that decision 3 of the design was measured on: 3:1 on a throttled kind, and a third user beside them."""
    desk = Desk(Settings(weights={"alice": 3.0}, kinds={"scan": KindSettings(limit=Limit(rate_limit=1.0))}))
    desk.arrive("alice", "scan", 1.0, 2_000)
    desk.arrive("bob", "scan", 1.0, 2_000)
    desk.arrive("carol", "crawl", 1.0, 2_000)
    for _ in range(1_000):
        while len(desk.claims) < 2:
            desk.serve()
        desk.wait(1.0)
        for claim in list(desk.claims):
            desk.settle(claim)
    shares = Counter(user for user, _ in desk.started)
    assert abs(shares["alice"] - 3 * shares["bob"]) <= 4
    assert shares["alice"] + shares["bob"] == 1_000
    assert shares["carol"] == 1_000
    desk.set_limit("kind/scan", Limit())
    before = len(desk.started)
    work_off(desk, 1, 1.0, 40)
    assert [user for user, _ in desk.started[before:]].index("carol") <= 5


# Who comes back

QUANTUM = 8.0


def deficit_bound(ledger: Ledger, f: str, g: str) -> float:
    return QUANTUM + QUANTUM / ledger.weight(f) + QUANTUM / ledger.weight(g)


def turn_bound(ledger: Ledger, f: str, g: str) -> float:
    return 1.0


BOUNDED: dict[str, tuple[Any, Any]] = {
    "weighted_fair": (WeightedFair(), start_time_bound),
    "deficit": (Deficit(QUANTUM), deficit_bound),
    "round_robin": (RoundRobin(), turn_bound),
}

HOLDS: dict[str, Callable[[Desk, bool], None]] = {
    "paused": lambda desk, held: (desk.pause if held else desk.resume)("user/alice"),
    "capped": lambda desk, held: desk.set_limit("user/alice", Limit(concurrency_max=0 if held else None)),
    "capped at one": lambda desk, held: desk.set_limit("user/alice", Limit(concurrency_max=1 if held else None)),
    "throttled": lambda desk, held: desk.set_limit("user/alice", Limit(rate_limit=0.5 if held else None)),
    "of a paused kind": lambda desk, held: (desk.pause if held else desk.resume)("kind/scan"),
    "of a capped kind": lambda desk, held: desk.set_limit("kind/scan", Limit(concurrency_max=1 if held else None)),
    "of a throttled kind": lambda desk, held: desk.set_limit("kind/scan", Limit(rate_limit=0.5 if held else None)),
    "unreachable": lambda desk, held: desk.set_classes([BOBS if held else ANYBODY]),
}


HELD: dict[str, Any] = {
    "how": st.sampled_from(sorted(HOLDS)),
    "weight": st.tuples(weights, weights),
    "cost": st.lists(costs, min_size=2, max_size=2),
    "workers": st.integers(1, 4),
    "moves": st.lists(st.integers(1, 12), min_size=4, max_size=16),
}


def returning_deficit_bound(ledger: Ledger, f: str, g: str) -> float:
    """One turn more than while both are there all the time: one that was cut short is taken up again before the next."""
    return QUANTUM + deficit_bound(ledger, f, g)


@pytest.mark.parametrize("name", BOUNDED)
@given(**HELD)
@example(how="capped at one", weight=(1.0, 1.0), cost=[8.0, 8.0], workers=1, moves=[60])
def test_who_was_held_back_gets_no_credit_for_it(
    name: str, how: str, weight: tuple[float, float], cost: list[float], workers: int, moves: list[int]
) -> None:
    """Over any interval it is ahead of somebody who was there all the time by no more than the bound."""
    policy, bound = BOUNDED[name]
    if name == "deficit":
        bound = returning_deficit_bound
    if name == "round_robin":
        weight, cost = (1.0, 1.0), [1.0, 1.0]
    by_name = dict(zip(("alice", "bob"), weight, strict=True))
    desk = Desk(Settings(sharing=policy, weights=by_name))
    desk.arrive("alice", "scan", cost[0], 400)
    desk.arrive("bob", "crawl", cost[1], 400)
    ledger = Ledger(("alice", "bob"), by_name.__getitem__, bound, coming_and_going=True)
    for number, times in enumerate(moves):
        HOLDS[how](desk, number % 2 == 0)
        for _ in range(times):
            while len(desk.claims) < workers:
                claim = desk.serve(desk.classes[0])
                assert claim is not None, "bob has work"
                ledger.charge(claim.user, claim.cost)
                ledger.look(["bob"])
            desk.wait(0.25)
            desk.settle(desk.claims[0])


def test_credit_for_a_pause_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def raised_by_nothing(self: FairAccount, user: str, original: Any = FairAccount.deactivate) -> None:
        """Whoever was active once stays so: its tag is never raised to virtual time."""

    monkeypatch.setattr(FairAccount, "deactivate", raised_by_nothing)
    finds(
        test_who_was_held_back_gets_no_credit_for_it,
        **{**HELD, "name": st.just("weighted_fair"), "how": st.just("paused"), "moves": st.just([20, 5, 20, 5])},
    )


@pytest.mark.parametrize("name", BOUNDED)
@given(
    weight=st.tuples(weights, weights),
    cost=st.lists(costs, min_size=2, max_size=2),
    workers=st.integers(1, 4),
    cap=st.integers(4, 9),
)
def test_a_limit_that_holds_nobody_back_changes_nobodys_share(
    name: str, weight: tuple[float, float], cost: list[float], workers: int, cap: int
) -> None:
    """One user's kind has a cap, but a cap above the number of workers: both may have every worker."""
    policy, bound = BOUNDED[name]
    if name == "round_robin":
        weight, cost = (1.0, 1.0), [1.0, 1.0]
    by_name = dict(zip(("alice", "bob"), weight, strict=True))
    desk = Desk(Settings(sharing=policy, weights=by_name, kinds={"scan": KindSettings(limit=Limit(None, cap))}))
    desk.arrive("alice", "scan", cost[0], 400)
    desk.arrive("bob", "crawl", cost[1], 400)
    ledger = Ledger(("alice", "bob"), by_name.__getitem__, bound)
    for _ in range(200):
        claim = desk.serve()
        assert claim is not None
        ledger.charge(claim.user, claim.cost)
        ledger.look(("alice", "bob"))
        if len(desk.claims) == workers:
            desk.settle(desk.claims[0])


# Limits


WAKES: dict[str, Any] = {
    "limit": st.sampled_from(["all", "kind/scan", "user/alice"]),
    "rate": st.sampled_from([0.3, 0.5, 1.0, 3.0, 7.0]),
    "tasks": st.integers(1, 30),
    "restart": st.booleans(),
}


@given(**WAKES)
def test_the_wake_is_the_exact_time_of_the_next_start(limit: str, rate: float, tasks: int, restart: bool) -> None:
    """Not one number earlier may anything start, and at that time something does; over a restart too."""
    desk = Desk()
    desk.set_limit(limit, Limit(rate_limit=rate))
    desk.arrive("alice", "scan", 1.0, tasks)
    started = 0
    while started < tasks:
        while desk.serve() is not None:
            started += 1
        wakes_at = desk.demand.wakes_at(desk.now)
        if started < tasks:
            if restart:
                desk.rebuild()
                assert desk.demand.wakes_at(desk.now) == wakes_at
            desk.now = math.nextafter(wakes_at, 0.0)
            desk.refill()
            assert desk.demand.choose(ANYBODY, desk.now, lots) is None
            desk.now = wakes_at
            desk.refill()
            assert desk.demand.choose(ANYBODY, desk.now, lots) is not None
    assert started == tasks


def test_users_out_of_permits_who_never_come_back_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Demand, "refill", lambda self, now: None)
    finds(test_the_wake_is_the_exact_time_of_the_next_start, **{**WAKES, "tasks": st.just(30)})


def test_nothing_wakes_a_desk_that_time_alone_does_not_help() -> None:
    desk = Desk()
    desk.set_limit("user/alice", Limit(rate_limit=0.5))
    desk.arrive("alice", "scan", 1.0, 5)
    desk.serve()
    assert desk.demand.wakes_at(desk.now) == 2.0
    desk.pause("user/alice")
    assert desk.demand.wakes_at(desk.now) == math.inf
    desk.resume("user/alice")
    assert desk.demand.wakes_at(desk.now) == 2.0
    desk.set_limit("user/alice", Limit(concurrency_max=1))
    assert desk.demand.wakes_at(desk.now) == math.inf


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("used", [0.5, 1.0, 9.0])
def test_a_limit_that_is_set_while_tasks_run_is_charged_for_none_of_them(used: float, restart: bool) -> None:
    """They took no place in its clock, and their ends leave nobody behind in it."""
    desk = Desk()
    for user in ("alice", "bob"):
        desk.arrive(user, "scan", 1.0, 2)
        for _ in range(2):
            desk.start(user, "scan")
    desk.set_limit("kind/scan", Limit(concurrency_max=10))
    if restart:
        desk.rebuild()
    for claim in list(desk.claims):
        desk.settle(claim, used)
    # Somebody makes the clock of the kind pass all that was ever charged there.
    desk.arrive("carol", "scan", 100.0, 2)
    for _ in range(2):
        desk.start("carol", "scan")
    left = [key for key in desk.notes.under("kind/") if "alice" in key or "bob" in key]
    assert left == []


def test_a_charge_is_corrected_on_the_clock_of_its_kind_although_a_restart_came_between() -> None:
    """Both users start one task of eight seconds; the one that used nothing gets its eight seconds back."""
    desk = Desk(Settings(kinds={"scan": KindSettings(limit=Limit(concurrency_max=10))}))
    for user in ("alice", "bob"):
        desk.arrive(user, "scan", 8.0, 1)
        desk.start(user, "scan")
    desk.rebuild()
    desk.settle(desk.claims[1], 0.0)
    for user in ("alice", "bob"):
        desk.arrive(user, "scan", 2.0, 10)
    for _ in range(4):
        desk.serve()
    assert [user for user, _ in desk.started[2:]] == ["bob"] * 4


def test_capped_is_first_come_first_served_with_a_cap_on_everybody() -> None:
    desk = Desk(Settings(sharing=Capped(user_concurrency_max=2)))
    desk.arrive("alice", "scan", 1.0, 4)
    desk.arrive("bob", "crawl", 1.0, 3)
    while desk.serve() is not None:
        pass
    assert [user for user, _ in desk.started] == ["alice", "alice", "bob", "bob"]
    desk.settle(desk.claims[2])
    desk.settle(desk.claims[0])
    while desk.serve() is not None:
        pass
    assert [user for user, _ in desk.started[4:]] == ["alice", "bob"]


# Weights


REWEIGHED: dict[str, Any] = {
    "weight": st.tuples(weights, weights),
    "new": weights,
    "cost": st.tuples(costs, costs),
    "before": st.integers(0, 40),
    "key": st.sampled_from([None, "kind/scan"]),
}


@given(**REWEIGHED)
def test_a_new_weight_binds_the_backlog_at_once_on_every_clock(
    weight: tuple[float, float], new: float, cost: tuple[float, float], before: int, key: str | None
) -> None:
    by_name = dict(zip(("alice", "bob"), weight, strict=True))
    desk = Desk(Settings(weights=by_name))
    if key is not None:
        desk.set_limit(key, Limit(concurrency_max=100))
    desk.arrive("alice", "scan", cost[0], 200)
    desk.arrive("bob", "scan", cost[1], 200)
    for _ in range(before):
        desk.serve()
    desk.set_weight("alice", new)
    by_name["alice"] = new
    ledger = Ledger(("alice", "bob"), by_name.__getitem__, start_time_bound)
    # The last charges before count as much as those after.
    ledger.largest.update(alice=cost[0], bob=cost[1])
    ledger.look(("alice", "bob"))
    for _ in range(80):
        if (claim := desk.serve()) is not None:
            ledger.charge(claim.user, claim.cost)
            ledger.look(("alice", "bob"))
            desk.settle(desk.claims[0])


def test_a_weight_that_counts_only_from_now_on_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FairAccount, "reweigh", lambda self, name, before, after: None)
    heavy = {"weight": st.just((0.25, 4.0)), "new": st.just(4.0), "cost": st.just((8.0, 1.0))}
    finds(test_a_new_weight_binds_the_backlog_at_once_on_every_clock, **{**REWEIGHED, **heavy})


def test_the_weight_of_a_tenant_weighs_everybody_below_it() -> None:
    desk = Desk()
    for user in ("t/a", "t/b", "bob"):
        desk.arrive(user, "crawl", 1.0, 100)
    desk.set_weight("t", 2.0)
    for _ in range(60):
        desk.serve()
    assert Counter(user for user, _ in desk.started) == {"t/a": 20, "t/b": 20, "bob": 20}


# Memory


@pytest.mark.parametrize("name", sorted(SHARING.classes))
def test_classes_that_come_and_go_leave_nothing_behind(name: str) -> None:
    """Every change of the workers makes the indexes anew: the old ones must be gone."""
    desk = Desk(Settings(sharing=SHARING.make(name)))
    desk.arrive("alice", "scan", 1.0, 3)
    indexes = []
    for _ in range(3):
        desk.set_classes([ANYBODY])
        (view,) = desk.demand._places._views.values()
        indexes.append(weakref.ref(view.slots["scan"]._index))  # type: ignore[attr-defined]
        del view
    gc.collect()
    assert [index() is None for index in indexes] == [True, True, False]


# Noisy neighbours, as the scheduler sees them


def served(desk: Desk) -> str | None:
    claim = desk.serve()
    return None if claim is None else claim.user


def noisy_desk() -> Desk:
    """Long after the beginning of time, with others who have a hundred tasks that nobody here can run."""
    desk = Desk(Settings(sharing=NoisyNeighbour()))
    desk.wait(10_000.0)
    desk.arrive("others", "elsewhere", 1.0, 100)
    desk.start("others", "elsewhere")
    return desk


@pytest.mark.parametrize(("tasks", "first"), [(29, "loud"), (30, "quiet")])
def test_a_task_that_starts_is_not_counted_twice(tasks: int, first: str) -> None:
    """Thirty are too many, and twenty-nine, one of which was just started, are not."""
    desk = noisy_desk()
    desk.arrive("loud", "crawl", 1e-9, tasks)
    assert served(desk) == "loud"
    desk.arrive("quiet", "crawl", 1.0, 1)
    assert served(desk) == first


def test_who_became_noisy_is_behind_with_every_kind() -> None:
    desk = noisy_desk()
    desk.arrive("loud", "mail", 1.0, 20)
    desk.arrive("quiet", "mail", 1.0, 1)
    desk.arrive("loud", "crawl", 1.0, 20)
    assert served(desk) == "quiet"


def test_somebody_noisy_on_a_limited_kind_is_behind_too() -> None:
    """Its kind has a cap that holds nothing back, so that its tasks are a flood like any other."""
    desk = noisy_desk()
    desk.set_limit("kind/scan", Limit(concurrency_max=50))
    desk.arrive("loud", "scan", 1.0, 200)
    desk.settle(desk.start("loud", "scan"))
    desk.arrive("quiet", "crawl", 1.0, 1)
    assert served(desk) == "quiet"
