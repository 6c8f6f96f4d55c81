"""Whom a worker serves, from whom it steals, and who is out of everybody's reach: all against brute force."""

from collections import Counter
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actors import Notes
from actors.messages import WorkerClass
from actors.policies.reach import Reach, Watch
from actors.policies.stealing import STEALING, LongestSlot, SampleSlot, Slot, View, ViewKey, view_keys
from tests.test_sharing import finds

USERS = ("a", "b", "ab", "ba", "abc", "t/a", "t/b", "t")
ENTRIES = (*USERS, "*", "a*", "?", "?b", "[ab]", "[!a]*", "t/*", "z")

users = st.sampled_from(USERS)
entries = st.lists(st.sampled_from(ENTRIES), max_size=3).map(tuple)
policies = st.sampled_from(STEALING)
classes = st.builds(WorkerClass, st.just(frozenset({"crawl"})), st.none() | entries, entries)


def matches(user: str, patterns: tuple[str, ...] | None) -> bool:
    """Whether somebody is meant by a list of names and globs; None means everybody."""
    return patterns is None or any(fnmatchcase(user, pattern) for pattern in patterns)


def serves(found: WorkerClass, user: str) -> bool:
    return matches(user, found.users)


def may_steal(found: WorkerClass, user: str, stealing: str) -> bool:
    return stealing != "none" and not serves(found, user) and matches(user, found.steals)


# Who is in a view


@given(patterns=st.none() | entries, without=entries, user=users)
def test_a_view_holds_those_who_match_and_are_not_excluded(patterns: Any, without: Any, user: str) -> None:
    assert bool(View(ViewKey(patterns, without)).holds(user)) == (
        matches(user, patterns) and not matches(user, without)
    )


@pytest.mark.parametrize("name", ["[ops]", "a*", "who?", "[!x]", "a.b", "a+", "(a|b)"])
def test_a_name_means_the_user_of_that_name_whatever_it_is_made_of(name: str) -> None:
    """Any printable character may be in a name; its owner must be able to assign it."""
    assert View(ViewKey((name,))).holds(name)
    assert not View(ViewKey((name,))).holds("somebody")


VIEWS: dict[str, Any] = {"found": classes, "stealing": policies, "user": users}


@given(**VIEWS)
@example(found=WorkerClass(frozenset(), ("a*",), ("ab", "b")), stealing="listed", user="ab")
def test_where_both_lists_match_a_user_is_the_workers_own(found: WorkerClass, stealing: str, user: str) -> None:
    holding = [view.key.stolen for view in map(View, view_keys(found, stealing)) if view.holds(user)]
    assert (False in holding) == serves(found, user)
    assert (True in holding) == may_steal(found, user, stealing)


def test_a_class_that_steals_from_its_own_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(View, "holds", lambda self, user: matches(user, self.key.patterns))
    finds(test_where_both_lists_match_a_user_is_the_workers_own, **VIEWS)


@given(found=classes, stealing=policies)
def test_a_class_looks_at_its_own_users_first_and_at_listed_entries_in_order(found: WorkerClass, stealing: str) -> None:
    keys = view_keys(found, stealing)
    assert (keys[0].patterns, keys[0].stolen, keys[0].order) == (found.users, False, "fair")
    assert all(key.stolen for key in keys[1:])
    if found.users is None or stealing == "none" or not found.steals:
        assert len(keys) == 1
    elif stealing == "listed":
        assert [key.patterns for key in keys[1:]] == [(entry,) for entry in found.steals]
        assert {key.order for key in keys[1:]} == {"fair"}
    else:
        assert [(key.patterns, key.order) for key in keys[1:]] == [(found.steals, stealing)]


# Who is next


def filled(slot: Slot, moves: list[tuple[str, int]]) -> dict[str, int]:
    """Who is in the slot with how much, after these moves; a count of 0 is a departure."""
    counts: dict[str, int] = {}
    for user, count in moves:
        if count:
            counts[user] = count
            slot.put(user, None, count)
        else:
            counts.pop(user, None)
            slot.discard(user)
    return counts


moves = st.lists(st.tuples(users, st.integers(0, 5)), min_size=1, max_size=30)


def never(n: int) -> float:
    raise AssertionError("no lots are drawn")


@given(moves=moves)
def test_longest_takes_from_the_one_with_most(moves: list[tuple[str, int]]) -> None:
    slot = LongestSlot()
    counts = filled(slot, moves)
    assert slot.pick(never) == min(counts, key=lambda user: (-counts[user], user), default=None)


@given(moves=moves)
def test_random_two_takes_from_the_longer_of_every_two_equally_often(moves: list[tuple[str, int]]) -> None:
    """Every pair of lots in the middle of its square: each two users come up once in either order."""
    slot = SampleSlot()
    counts = filled(slot, moves)
    size = len(counts)
    picks = Counter(
        slot.pick((first, second).__getitem__)
        for first in [(place + 0.5) / max(1, size) for place in range(size or 1)]
        for second in [(place + 0.5) / max(1, size - 1) for place in range(max(1, size - 1))]
    )
    expected = Counter(
        min(one, other, key=lambda user: (-counts[user], user)) for one in counts for other in counts if one != other
    )
    assert picks == (expected if size > 1 else Counter([next(iter(counts), None)]))


@given(moves=moves, first=st.floats(0, 1, exclude_max=True), second=st.floats(0, 1, exclude_max=True))
def test_random_two_depends_on_who_is_there_and_not_on_how_they_came(
    moves: list[tuple[str, int]], first: float, second: float
) -> None:
    """A restart fills the slot anew, by name: the same lots must mean the same user."""
    slot, anew = SampleSlot(), SampleSlot()
    counts = filled(slot, moves)
    filled(anew, sorted(counts.items()))
    assert slot.pick((first, second).__getitem__) == anew.pick((first, second).__getitem__)


# Who can be reached


def unreachable(users: set[str], present: list[WorkerClass], stealing: str) -> set[str]:
    return {
        user for user in users if not any(serves(found, user) or may_steal(found, user, stealing) for found in present)
    }


@given(
    stealing=policies,
    moves=st.lists(
        st.one_of(users, users.map(lambda user: (user,)), st.lists(classes, max_size=4)), min_size=5, max_size=30
    ),
)
def test_the_graph_reaches_whom_some_class_serves_or_may_steal_from(stealing: str, moves: list[Any]) -> None:
    reach, known, present = Reach(), set[str](), list[WorkerClass]()
    for move in moves:
        if isinstance(move, str):
            known.add(move)
            assert reach.add(move) == (not unreachable({move}, present, stealing))
        elif isinstance(move, tuple):
            known.discard(move[0])
            reach.remove(move[0])
        else:
            present = move
            reach.set_classes(present, stealing)
        assert reach.unreachable() == sorted(unreachable(known, present, stealing))


WATCHED: dict[str, Any] = {
    "stealing": policies,
    "moves": st.lists(
        st.one_of(users, users.map(lambda user: (user,)), st.lists(classes, min_size=1, max_size=4)),
        min_size=5,
        max_size=30,
    ),
}


@given(**WATCHED)
def test_who_becomes_unreachable_is_reported_once_and_so_is_who_is_reached_again(
    stealing: str, moves: list[Any]
) -> None:
    watch, known, present = Watch(stealing, Notes("scheduler")), set[str](), [WorkerClass(frozenset())]
    watch.look(present, known)
    for move in moves:
        before = unreachable(known, present, stealing)
        if isinstance(move, str):
            known.add(move)
            watch.add(move)
        elif isinstance(move, tuple):
            known.discard(move[0])
            before.discard(move[0])
            watch.remove(move[0])
        else:
            present = move
            watch.look(present, known)
        after = unreachable(known, present, stealing)
        assert watch.unreachable == after
        assert sorted(watch.changes) == sorted((user, user in after) for user in before ^ after)
        watch.changes.clear()


def test_somebody_who_waits_in_silence_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watch, "add", lambda self, user: None)
    finds(test_who_becomes_unreachable_is_reported_once_and_so_is_who_is_reached_again, **WATCHED)


def test_a_worker_that_appears_reaches_who_was_unreachable() -> None:
    watch = Watch("longest", Notes("scheduler"))
    theirs, mine = WorkerClass(frozenset(), ("a*",)), WorkerClass(frozenset(), ("z",), ("b*",))
    watch.look([theirs], ["alice", "bob"])
    watch.look([theirs, mine], ["alice", "bob"])
    assert watch.changes == [("bob", True), ("bob", False)]


def test_after_a_restart_with_workers_for_everybody_nobody_is_unreachable() -> None:
    notes = Notes("scheduler")
    Watch("longest", notes).look([WorkerClass(frozenset(), ("a*",))], ["bob"])
    again = Watch("longest", Notes("scheduler", notes.under("")))
    assert again.unreachable == {"bob"}
    again.look([WorkerClass(frozenset())], ["bob"])
    assert (again.unreachable, again.changes) == (set(), [("bob", False)])
