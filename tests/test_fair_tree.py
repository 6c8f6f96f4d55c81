"""Weighted fair sharing over a tree of names: `tenant/alice` shares inside `tenant` first.

`Play` (see test_sharing.py) asserts the bound between all siblings: names with the same name above them, the tasks of an
inner name being a child of their own.
"""

import math
from heapq import heappop
from itertools import product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actors import Notes, Settings, WeightedFair
from actors.policies.fair import FairAccount
from actors.policies.heaps import TagHeap
from tests.test_sharing import Play, corrected_bound, costs, finds, names, scripts, start_time_bound, way, weights

NAMES = ["/".join(parts) for depth in (1, 2, 3) for parts in product("abc", repeat=depth)]
ODD_NAMES = ["/", "/a", "//a", "a//b", "a/", "a b/ c"]

trees = st.lists(st.sampled_from(NAMES), min_size=2, max_size=7, unique=True).map(tuple)


def weighing(users: tuple[str, ...]) -> Any:
    """Weights for some of the names in a tree; the others weigh 1."""
    return st.dictionaries(st.sampled_from([name for user in users for name in way(user) if name[-1] != "."]), weights)


weighted_trees = trees.flatmap(lambda users: st.tuples(st.just(users), weighing(users)))
TREES: dict[str, Any] = {"tree": weighted_trees, "script": scripts(), "workers": st.integers(1, 32)}


def play(tree: tuple[tuple[str, ...], dict[str, float]], **options: Any) -> Play:
    users, weight = tree
    return Play(WeightedFair(), dict(weight), users=users, **options)


@given(**TREES)
def test_siblings_keep_the_bound_when_costs_are_exact(tree: Any, script: Any, workers: int) -> None:
    """Between those who stay; and who comes and goes gets no more than that from those who stay."""
    play(tree, workers=workers, bound=start_time_bound, coming_and_going=True).run(script)


@given(**TREES)
def test_siblings_keep_the_conjectured_bound_when_costs_are_corrected(tree: Any, script: Any, workers: int) -> None:
    """(m+1) times the exact bound is a conjecture: nobody has proved it, and this looks for a counter-example."""
    play(tree, workers=workers, exact=False, bound=corrected_bound(workers)).run(script)


def flat_charge(self: FairAccount, user: str, cost: float, now: float, original: Any = FairAccount.charge) -> None:
    """Charges the user and not the names above it."""
    before = {name: node.tag for name, node in self._nodes.items() if name != user}
    original(self, user, cost, now)
    for name, tag in before.items():
        if name in self._nodes:
            self._nodes[name].tag = tag


def trusting(self: TagHeap) -> tuple[float, str] | None:
    """Takes the tag that was written down for the tag there is."""
    while self._heap and self._keys.get(self._heap[0][1]) != self._heap[0][0]:
        heappop(self._heap)
    return self._heap[0] if self._heap else None


def banking(self: FairAccount, node: Any, original: Any = FairAccount._wake) -> None:
    """Lets those below a tenant start from 0."""
    idle, step = [], node
    while step is not None:
        idle += [step] if not step.active and "/" in step.name else []
        step = step.parent
    original(self, node)
    for step in idle:
        step.tag = 0.0


TELLING = [("join", 0, 1.0), ("join", 2, 1.0), *[("pick", 1.0, 1.0)] * 40, ("join", 1, 1.0), *[("pick", 1.0, 1.0)] * 40]
"""The second child comes late, and a rival of their tenant is there all the time."""

PLANTED: dict[str, tuple[Any, str, Any]] = {
    "names above are not charged": (FairAccount, "charge", flat_charge),
    "a tag that rose is not found out": (TagHeap, "first", trusting),
    "credit is banked below a tenant": (FairAccount, "_wake", banking),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_the_bound_fails_on_a_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*PLANTED[bug])
    telling = {"tree": st.just((("a/a", "a/b", "b"), {})), "script": st.just(TELLING), "workers": st.just(2)}
    finds(test_siblings_keep_the_bound_when_costs_are_exact, **telling)


# Splitting


@given(
    parts=st.integers(2, 12),
    depth=st.integers(1, 2),
    weight=st.tuples(weights, weights),
    cost=st.lists(st.tuples(costs, costs), min_size=20, max_size=100),
)
def test_splitting_a_backlog_over_many_names_gains_nothing(
    parts: int, depth: int, weight: tuple[float, float], cost: list[tuple[float, float]]
) -> None:
    """The n-th task of each side costs the same in both plays, so that only the names differ."""
    given_to_tenant = []
    split = tuple("/".join(["tenant", *["group"] * (depth - 1), f"{part}"]) for part in range(parts))
    for users in (("tenant",), split):
        match = Play(WeightedFair(), {"tenant": weight[0], "rival": weight[1]}, users=(*users, "rival"))
        match.ledger.bound = start_time_bound
        for name in match.users:
            match.join(name, 1.0)
        served = {"tenant": 0, "rival": 0}
        for _ in cost:
            user = match.index.pick()
            assert user is not None
            side = user.partition("/")[0]
            match.settle(0, None)
            match.charge(user, cost[served[side]][side == "rival"], 0.0)
            match.index.refresh(user)
            served[side] += 1
            match.ledger.look(match.heads)
        given_to_tenant.append(match.ledger.given.get("tenant", 0.0) / weight[0])
    largest = [max(pair[side] for pair in cost) / weight[side] for side in (0, 1)]
    assert given_to_tenant[1] <= given_to_tenant[0] + sum(largest) + 1e-6


def test_splitting_gains_where_names_are_not_nested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.policies.fair.above", lambda name: "")
    finds(
        test_splitting_a_backlog_over_many_names_gains_nothing,
        parts=st.just(12),
        depth=st.just(1),
        weight=st.just((1.0, 1.0)),
        cost=st.lists(st.just((1.0, 1.0)), min_size=60, max_size=60),
    )


# The index


def descend(account: FairAccount, users: set[str]) -> str | None:
    """From the root, to the smallest tag of those with somebody below, over and over; own tasks go first at equal tags."""
    at = ""
    while True:
        below = {step for user in users for step in steps(user) if above(step) == at}
        best = min(below, key=lambda name: (account.tag(name), name), default="")
        if at in users and (not best or account.own_tag(at) <= account.tag(best)):
            return at
        if not best:
            return None
        at = best


def above(name: str) -> str:
    return name.rpartition("/")[0]


def steps(name: str) -> list[str]:
    return [*steps(above(name)), name] if name else []


@given(
    users=st.lists(st.sampled_from(NAMES + ODD_NAMES), min_size=2, max_size=7, unique=True).map(tuple),
    weight=st.dictionaries(st.sampled_from(NAMES), weights, max_size=6),
    script=scripts(extra=st.tuples(st.just("take"), names, costs)),
    half=st.sets(names),
)
@example(users=("/a", "b"), weight={}, script=[("join", 0, 1.0), ("join", 1, 1.0), ("pick", 1.0, 1.0)], half=set())
def test_a_pick_is_the_descent_along_the_smallest_tags_and_ranks_first(
    users: tuple[str, ...], weight: dict[str, float], script: Any, half: set[int]
) -> None:
    """Also in an index of only some of the users, as a class of workers with an assignment has."""
    whole = Play(WeightedFair(), weight, users=users, exact=False)
    part = whole.account.index()
    members = {whole.name(which) for which in half}

    def check(whole: Play) -> None:
        waiting = set(whole.heads)
        for user in users:
            (part.put(user, None) if user in waiting & members else part.discard(user))
            part.refresh(user)
        for index, found in ((whole.index, waiting), (part, waiting & members)):
            assert index.pick() == descend(whole.account, found)
            assert index.pick() == min(found, key=lambda user: whole.account.rank(user, None), default=None)

    whole.run(script, check)


def test_a_rank_that_ignores_the_names_above_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FairAccount, "rank", lambda self, user, head: (self.tag(user), user))
    finds(
        test_a_pick_is_the_descent_along_the_smallest_tags_and_ranks_first,
        users=st.just(("a", "a/a", "a/b", "b")),
        weight=st.just({}),
        script=scripts(),
        half=st.just(set()),
    )


@given(**TREES)
def test_the_rank_of_somebody_inactive_is_where_it_would_come_back(tree: Any, script: Any, workers: int) -> None:
    def check(before: Play) -> None:
        for user in before.users:
            if user not in before.heads:
                rank = before.account.rank(user, None)
                again = FairAccount(Notes("scheduler", before.kept()), before)
                again.activate(user, 0.0)
                joined = again.rank(user, None)
                assert joined[: len(rank)] == rank

    play(tree, workers=workers, exact=False).run(script[:30], check)


# Clocks


@given(**TREES)
def test_activating_lowers_no_tag_and_virtual_time_never_goes_back(tree: Any, script: Any, workers: int) -> None:
    running = play(tree, workers=workers, exact=False)
    for step in script:
        # A name that was forgotten starts anew, with a clock of its own: that is another node.
        before = {name: (node, node.virtual, node.tag, node.own_tag) for name, node in running.account._nodes.items()}
        running.run([step])
        for name, (node, virtual, tag, own_tag) in before.items():
            if running.account._nodes.get(name) is node:
                assert node.virtual >= virtual
                if step[0] in ("join", "leave"):
                    assert node.tag >= tag
                    assert node.own_tag >= own_tag


@given(**TREES)
def test_who_comes_back_starts_no_earlier_than_virtual_time_or_those_who_are_there(
    tree: Any, script: Any, workers: int
) -> None:
    """Behind virtual time only where corrections took somebody's tag there: then beside the first of those."""
    running = play(tree, workers=workers, exact=False)
    for step, first, second in script:
        account, user = running.account, running.name(first) if step == "join" else ""
        idle = [name for name in way(user) if not any(name in way(other) for other in running.heads)]
        present = {name for other in running.heads for name in way(other)}
        floors = {
            name: min(
                [account.virtual(above(name))]
                + [account.tag(other) for other in present if above(other) == above(name)]
                + [account.own_tag(above(name))] * (above(name) in running.heads)
            )
            for name in idle
        }
        running.run([(step, first, second)])
        if step == "join" and user in idle:
            assert account.own_tag(user) >= account.virtual(user)
            for name in idle[:-1]:
                assert account.tag(name) >= floors[name]


@given(**TREES)
def test_with_exact_costs_nobody_starts_before_virtual_time(tree: Any, script: Any, workers: int) -> None:
    running = play(tree, workers=workers, exact=True)
    for step, first, second in script:
        account, user = running.account, running.name(first) if step == "join" else ""
        idle = [name for name in way(user) if not any(name in way(other) for other in running.heads)]
        running.run([(step, first, second)])
        if step == "join" and user in idle:
            assert all(account.tag(name) >= account.virtual(above(name)) for name in idle)


# Memory


@given(**TREES)
@example(tree=(("tenant/alice", "bob"), {}), script=[("join", 0, 1.0), ("pick", 1.0, 1.0)], workers=1)
def test_idle_names_are_forgotten_once_virtual_time_has_passed(tree: Any, script: Any, workers: int) -> None:
    """Or every user that ever was would stay in memory, and in the notes of a durable runtime."""
    running = play(tree, workers=workers, exact=False).run(script)
    for user in running.users:
        running.leave(user, None)
    while running.claimed:
        running.settle(0, None)
    # Somebody takes much, so that the clock passes all, and then turns out to have used nothing.
    account = running.account
    account.activate("passer-by", 0.0)
    for cost in (1e9, 1.0):
        account.charge("passer-by", cost, 0.0)
    for cost in (1e9, 1.0):
        account.correct("passer-by", -cost, 0.0)
    account.deactivate("passer-by")
    assert list(account._nodes) == [""]
    assert set(running.notes.under("")) == {"node/"}
    assert not account._nodes[""].resting


def test_debts_are_not_forgotten_early() -> None:
    running = Play(WeightedFair(), users=("tenant/alice", "bob"))
    running.run([("join", "tenant/alice", 8.0), ("pick", 1.0, 8.0), ("leave", "tenant/alice", None)])
    running.run([("settle", 0, None), ("join", "bob", 1.0), ("join", "tenant/alice", 1.0)])
    running.run([("pick", 1.0, 1.0)] * 8)
    assert running.picked[1:] == ["bob"] * 8


# Restart


@given(**TREES, cuts=st.sets(st.integers(0, 90), max_size=4))
def test_an_account_rebuilt_from_its_notes_goes_on_as_before(
    tree: Any, script: Any, workers: int, cuts: set[int]
) -> None:
    plain, restarted = (play(tree, workers=workers, exact=False) for _ in range(2))
    for at, step in enumerate(script):
        if at in cuts:
            restarted.rebuild()
        plain.run([step])
        restarted.run([step])
        assert restarted.picked == plain.picked
        assert restarted.kept() == plain.kept()
        for user in plain.users:
            assert restarted.account.rank(user, None) == plain.account.rank(user, None)


def test_a_tag_that_is_not_noted_is_missed_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    def unnoted(self: FairAccount, node: Any, original: Any = FairAccount._note) -> None:
        if "/" not in node.name:
            original(self, node)

    monkeypatch.setattr(FairAccount, "_note", unnoted)
    finds(test_an_account_rebuilt_from_its_notes_goes_on_as_before, **TREES, cuts=st.just({40}))


# Weights that change


@given(**TREES, at=st.integers(0, 80), which=names, weight=weights)
def test_a_new_weight_binds_what_is_queued_already(
    tree: Any, script: Any, workers: int, at: int, which: int, weight: float
) -> None:
    """Afterwards shares follow the new weight within the bound, the last charge before it included."""
    running = play(tree, workers=workers, bound=start_time_bound).run(script[:at])
    account, known = running.account, [name for name in running.account._nodes if name]
    if known:
        name = known[which % len(known)]
        tag, virtual, before = account.tag(name), account.virtual(above(name)), running.weight(name)
        others = {other: account.tag(other) for other in known if other != name}
        running.reweigh(name, weight)
        if name in account._nodes:
            assert math.isclose(account.tag(name), virtual + (tag - virtual) * before / weight, abs_tol=1e-9)
        assert all(account.tag(other) == kept for other, kept in others.items() if other in account._nodes)
    running.run(script[at:])


def test_a_weight_that_binds_only_what_comes_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FairAccount, "reweigh", lambda self, name, before, after: None)
    finds(
        test_a_new_weight_binds_what_is_queued_already,
        **{**TREES, "tree": st.just((("alice", "bob"), {"alice": 0.1}))},
        at=st.just(20),
        which=names,
        weight=st.just(10.0),
    )


def test_shares_follow_a_new_weight_at_once() -> None:
    running = Play(WeightedFair(), users=("alice", "bob"))
    running.run([("join", "alice", 1.0), ("join", "bob", 1.0), *[("pick", 1.0, 1.0)] * 20])
    running.reweigh("alice", 4.0)
    running.run([("pick", 1.0, 1.0)] * 50)
    assert running.picked[20:].count("alice") == 40


def test_who_becomes_active_starts_beside_those_whose_charge_was_corrected() -> None:
    """Virtual time does not go back, but nobody is there any more behind whom a newcomer would have to stand."""
    everybody_alike: Any = Settings()
    account = FairAccount(Notes("scheduler"), everybody_alike)
    account.activate("alice", 0.0)
    for _ in range(2):
        account.charge("alice", 30.0, 0.0)
    for _ in range(2):
        account.correct("alice", -29.75, 0.0)
    account.activate("bob", 0.0)
    assert (account.virtual(), account.tag("alice"), account.tag("bob")) == (30.0, 0.5, 0.5)
