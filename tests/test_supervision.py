"""The supervision tree: who is restarted with whom, how often, and when it is passed up; against a plain model."""

import gc
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import ActorFailed, Group, InvalidConfig
from actors.messages import Address
from actors.supervision import STRATEGIES, Supervision, _means, _Tally
from tests.test_sharing import finds

EVERYBODY = ("a", "b", "c", "role/x", "role/y", "nowhere")
LEAVES = ("a", "b", "c", "d", "role/x", "role/*", "ro*", "*")


class Boom(Exception):
    """A crash on purpose."""


# A plain model: the leaves of the tree in a row, of which a group is a stretch


@attrs.define(eq=False)
class Stretch:
    """A group, as the leaves from `first` up to `end`."""

    group: Group
    first: int
    end: int
    children: "list[Stretch | int]"


class Model:
    """Counts in plain lists, and looks through everything each time."""

    def __init__(self, root: Group) -> None:
        self.leaves: list[str] = []
        self.root = self.lay_out(root)
        self.crashes: dict[tuple[str, str | None], list[float]] = defaultdict(list)

    def lay_out(self, group: Group) -> Stretch:
        stretch = Stretch(group, len(self.leaves), 0, [])
        for child in group.children:
            if isinstance(child, Group):
                stretch.children.append(self.lay_out(child))
            else:
                stretch.children.append(len(self.leaves))
                self.leaves.append(child)
        stretch.end = len(self.leaves)
        return stretch

    def leaf(self, address: Address) -> int | None:
        for number, leaf in enumerate(self.leaves):
            if leaf == address or (leaf.endswith("*") and address.startswith(leaf[:-1])):
                return number
        return None

    def watching(self, leaf: int | None) -> list[tuple[Stretch, "Stretch | int | None"]]:
        """The groups above a leaf with the child of each that is or holds it, the nearest first."""
        if leaf is None:
            return [(self.root, None)]
        found: list[tuple[Stretch, Stretch | int | None]] = []
        here = self.root
        while True:
            child = next(child for child in here.children if _holds(child, leaf))
            found.insert(0, (here, child))
            if isinstance(child, int):
                return found
            here = child

    def crashed(self, address: Address, now: float, present: set[Address]) -> list[Address] | str:
        """Who is restarted, in order, or what is said when nobody can bear it."""
        said = ""
        for stretch, child in self.watching(self.leaf(address)):
            group = stretch.group
            name = child.group.name if isinstance(child, Stretch) else address
            times = self.crashes[group.name, name if group.each else None]
            times.append(now)
            count = sum(at >= now - group.window_seconds for at in times)
            if count <= group.restarts_max:
                return self.restarted(address, stretch, child, present | {address})
            who = name if group.each else group.name
            said = f"{who} crashed {count} times in {group.window_seconds:g} s"
            said += "" if who == address else f", last {address}"
        return said

    def restarted(
        self, crashed: Address, stretch: Stretch, child: "Stretch | int | None", present: set[Address]
    ) -> list[Address]:
        """The crashed one, and all in the stretch of leaves that goes down with it."""
        first = end = 0
        if isinstance(child, Stretch):
            first, end = child.first, child.end
        elif child is not None:
            first = end = child + 1
        if child is not None and stretch.group.strategy == "one_for_all":
            first, end = stretch.first, stretch.end
        elif child is not None and stretch.group.strategy == "rest_for_one":
            end = stretch.end
        for below in _stretches(stretch):
            if below is not stretch and first <= below.first and below.end <= end:
                for key in [key for key in self.crashes if key[0] == below.group.name]:
                    del self.crashes[key]
        homes = {other: leaf for other in present if (leaf := self.leaf(other)) is not None}
        chosen = {other for other, leaf in homes.items() if first <= leaf < end} | {crashed}
        return sorted(chosen, key=lambda other: (homes.get(other, -1), other))

    def forget(self, address: Address) -> None:
        for key in [key for key in self.crashes if key[1] == address]:
            del self.crashes[key]


def _holds(child: "Stretch | int", leaf: int) -> bool:
    return child == leaf if isinstance(child, int) else child.first <= leaf < child.end


def _stretches(stretch: Stretch) -> Iterator[Stretch]:
    yield stretch
    for child in stretch.children:
        if isinstance(child, Stretch):
            yield from _stretches(child)


# Trees and crashes


@st.composite
def trees(draw: st.DrawFn) -> Group:
    """Groups in groups, up to three deep, over some of the leaves in some order."""
    leaves = list(draw(st.permutations(LEAVES)))
    numbers = iter(range(100))

    def group(depth: int) -> Group:
        name = f"group {next(numbers)}"
        children: list[Group | str] = []
        for is_group in draw(st.lists(st.booleans(), min_size=depth == 0, max_size=3)):
            if is_group and depth < 2:
                children.append(group(depth + 1))
            elif leaves:
                children.append(leaves.pop())
        return Group(
            name,
            tuple(children),
            draw(st.sampled_from(STRATEGIES)),
            draw(st.integers(0, 3)),
            draw(st.sampled_from([1.0, 2.5])),
            draw(st.booleans()),
        )

    return group(0)


steps = st.lists(
    st.tuples(
        st.sampled_from([("crash",), ("crash", "crash"), ("crash", "forget", "crash")]),
        st.sampled_from(EVERYBODY),
        st.sampled_from([0.0, 0.5, 1.0, 3.0]),
        st.sets(st.sampled_from(EVERYBODY)),
    ),
    max_size=30,
)
Step = tuple[tuple[str, ...], Address, float, set[Address]]


def flat(error: Exception) -> Iterator[Exception]:
    """The crashes in nested groups of them."""
    for inner in error.exceptions if isinstance(error, ActorFailed) else ():
        yield from flat(inner)
    if not isinstance(error, ActorFailed):
        yield error


@given(tree=trees(), program=steps)
def test_who_is_restarted_and_when_it_is_passed_up_is_what_a_plain_model_says(tree: Group, program: list[Step]) -> None:
    model, supervision = Model(tree), Supervision(tree)
    now = 0.0
    for actions, address, seconds, present in program:
        now += seconds
        for action in actions:
            if action == "forget":
                model.forget(address)
                supervision.forget(address)
                continue
            expected, error = model.crashed(address, now, present), Boom()
            restarted, failed = tried(supervision, address, error, now, present)
            assert (restarted if failed is None else str(failed)) == expected
            if failed is not None:
                crashes = list(flat(failed))
                assert failed.__cause__ is crashes[-1] is error
                assert len(set(map(id, crashes))) == len(crashes), "each crash is in it once"
                return


def tried(
    supervision: Supervision, address: Address, error: Exception, now: float, present: set[Address]
) -> tuple[list[Address], ActorFailed | None]:
    try:
        return supervision.crashed(address, error, now, present), None
    except ActorFailed as failed:
        return [], failed


def never_anew(self: Supervision, restarted: Iterable[Group | str]) -> None:
    pass


def alone(self: Supervision, crashed: Address, way: Any, depth: int, present: Iterable[Address]) -> list[Address]:
    return [crashed]


def with_siblings(real: Callable[..., list[Address]]) -> Callable[..., list[Address]]:
    """Whoever is below the same pattern is restarted too."""

    def restarted(
        self: Supervision, crashed: Address, way: Any, depth: int, present: Iterable[Address]
    ) -> list[Address]:
        present = set(present)
        beside = {other for other in present if way.places and self._way(other).places == way.places}
        return sorted({*real(self, crashed, way, depth, present), *beside})

    return restarted


def late_window(self: Any, error: Exception, now: float) -> None:
    self.crashes.append((now, error))
    while self.crashes[0][0] <= now - self.window_seconds and len(self.crashes) > 1:
        self.crashes.popleft()


def last_place(self: Group, address: Address) -> int | None:
    fitting = [n for n, child in enumerate(self.children) if _fits(child, address)]
    return fitting[-1] if fitting else None


def _fits(child: Group | str, address: Address) -> bool:
    return child.stands_for(address) if isinstance(child, Group) else _means(child, address)


PLANTED: dict[str, tuple[Any, str, Any]] = {
    "a group that is built anew goes on counting": (Supervision, "_count_anew", never_anew),
    "everybody is restarted alone": (Supervision, "_restarted", alone),
    "a pattern is restarted as a whole": (Supervision, "_restarted", with_siblings(Supervision._restarted)),
    "a crash as old as the window is not counted": (_Tally, "add", late_window),
    "who is gone is counted": (Supervision, "forget", lambda self, address: None),
    "the last that stands for an actor watches it": (Group, "place_of", last_place),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_the_model_finds_a_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*PLANTED[bug])
    finds(test_who_is_restarted_and_when_it_is_passed_up_is_what_a_plain_model_says, tree=trees(), program=steps)


# In a few words each


def crash(supervision: Supervision, address: Address, *times: float, present: Iterable[Address] = EVERYBODY) -> Any:
    """What the last of these crashes leads to."""
    for at in times:
        last = supervision.crashed(address, Boom(f"{address} at {at:g}"), at, present)
    return last


@pytest.mark.parametrize(
    ("strategy", "restarted"),
    [
        ("one_for_one", ["b"]),
        ("one_for_all", ["a", "b", "role/x", "role/y"]),
        ("rest_for_one", ["b", "role/x", "role/y"]),
    ],
)
def test_the_strategy_says_who_is_built_anew_with_whom(strategy: str, restarted: list[Address]) -> None:
    supervision = Supervision(Group("all", ("a", "b", "role/*"), strategy))
    assert crash(supervision, "b", 0.0) == restarted


def test_those_who_are_not_there_are_not_restarted() -> None:
    supervision = Supervision(Group("all", ("a", "b", "c"), "one_for_all"))
    assert crash(supervision, "b", 0.0, present=("a",)) == ["a", "b"]


def test_actors_of_one_pattern_do_not_depend_on_each_other() -> None:
    supervision = Supervision(Group("all", ("a", "role/*", "b"), "rest_for_one"))
    assert crash(supervision, "role/x", 0.0) == ["role/x", "b"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_actor_that_nobody_stands_for_is_restarted_alone_and_never_for_others(strategy: str) -> None:
    supervision = Supervision(Group("all", ("a", "b"), strategy))
    assert crash(supervision, "nowhere", 0.0) == ["nowhere"]
    assert "nowhere" not in crash(supervision, "a", 0.0)


def test_who_belongs_to_a_group_before_is_not_restarted_with_a_pattern_that_fits_it_too() -> None:
    tree = Group("all", (Group("first", ("a",)), Group("others", ("*",), "one_for_all")))
    assert crash(Supervision(tree), "b", 0.0, present=("a", "b", "c")) == ["b", "c"]


def test_the_crash_after_restarts_max_within_the_window_is_passed_up_and_one_as_old_as_the_window_still_counts() -> (
    None
):
    group = Group("pair", ("a", "b"), restarts_max=2, window_seconds=5.0)
    assert crash(Supervision(group), "a", 0.0, 0.0, 5.1) == ["a"]
    with pytest.raises(ActorFailed, match=r"^pair crashed 3 times in 5 s, last a$"):
        crash(Supervision(group), "a", 0.0, 0.0, 5.0)


def test_crashes_are_counted_for_all_children_together_or_for_each_apart() -> None:
    together = Supervision(Group("pair", ("a", "b"), restarts_max=1))
    crash(together, "a", 0.0)
    with pytest.raises(ActorFailed, match=r"^pair crashed 2 times in 5 s, last b$"):
        crash(together, "b", 0.0)
    apart = Supervision(Group("pair", ("a", "b"), restarts_max=1, each=True))
    crash(apart, "a", 0.0)
    crash(apart, "b", 0.0)
    with pytest.raises(ActorFailed, match=r"^b crashed 2 times in 5 s$"):
        crash(apart, "b", 0.0)


NESTED = Group("top", (Group("inner", ("a", "b"), restarts_max=1), "c"), "one_for_one", restarts_max=1)


def test_each_overrun_is_passed_up_exactly_once_and_the_count_begins_anew() -> None:
    supervision = Supervision(NESTED)
    assert [crash(supervision, "a", 0.0) for _ in range(3)] == [["a"], ["a", "b"], ["a"]]
    with pytest.raises(ActorFailed, match=r"^top crashed 2 times in 5 s, last a$"):
        crash(supervision, "a", 0.0)


def test_a_failure_has_every_crash_that_led_to_it_and_says_who_and_how_often_at_each_level() -> None:
    supervision = Supervision(NESTED)
    with pytest.raises(ActorFailed) as raised:
        crash(supervision, "a", 0.0, 1.0, 2.0, 3.0)
    assert [str(error) for error in raised.value.exceptions] == ["inner crashed 2 times in 5 s, last a"] * 2
    assert [str(error) for error in flat(raised.value)] == ["a at 0", "a at 1", "a at 2", "a at 3"]
    assert str(raised.value.__cause__) == "a at 3"


def test_an_actor_that_is_gone_for_good_is_counted_no_more() -> None:
    supervision = Supervision(Group("all", restarts_max=1, each=True))
    crash(supervision, "a", 0.0)
    supervision.forget("a")
    assert crash(supervision, "a", 0.0) == ["a"]


def test_a_group_that_is_added_watches_from_then_on_and_what_was_counted_stays() -> None:
    supervision = Supervision(Group("all", (), restarts_max=1, each=True))
    crash(supervision, "a", 0.0)
    supervision.add(Group("pair", ("b", "c"), "one_for_all"))
    assert crash(supervision, "b", 0.0) == ["b", "c"]
    with pytest.raises(ActorFailed, match=r"^a crashed 2 times in 5 s$"):
        crash(supervision, "a", 0.0)


@pytest.mark.parametrize("bad", [Group("all", ("b",)), Group("more", ("a",)), Group("more", (Group("pair", ("b",)),))])
def test_a_group_that_cannot_be_added_changes_nothing(bad: Group) -> None:
    supervision = Supervision(Group("all", ()))
    supervision.add(Group("pair", ("a", "c"), "one_for_all"))
    with pytest.raises(InvalidConfig, match="must not repeat"):
        supervision.add(bad)
    assert crash(supervision, "a", 0.0) == ["a", "c"]
    supervision.add(Group("more", ("b", "role/*"), "one_for_all"))
    assert crash(supervision, "b", 0.0) == ["b", "role/x", "role/y"]


def test_crashes_that_are_no_longer_counted_are_not_kept() -> None:
    # An exception holds on to the frames it came through, and so to the whole actor that crashed.
    supervision = Supervision(Group("all", each=True))
    kept: list[weakref.ref[Boom]] = []
    for number in range(100):
        error = Boom()
        kept.append(weakref.ref(error))
        supervision.crashed(f"role/{number}", error, now=float(number))
        del error
    gc.collect()
    assert sum(error() is not None for error in kept) <= 6
    assert len(supervision._tallies) <= 6


# What is no tree


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": ""}, "name must be printable text, got ''"),
        ({"children": "reader"}, "children must be a tuple of groups and addresses, got 'reader'"),
        ({"children": ["reader"]}, "children must be a tuple of groups and addresses, got ['reader']"),
        ({"children": ("reader", 3)}, "children must be a tuple of groups and addresses, got ('reader', 3)"),
        ({"children": ("reader", "")}, "children must be a tuple of groups and addresses, got ('reader', '')"),
        ({"children": ("a", "b", "a")}, "child of a group must not repeat, got 'a' again"),
        ({"children": (Group("x", ("a",)), "a")}, "child of a group must not repeat, got 'a' again"),
        ({"children": (Group("pipe", ("a",)),)}, "name of a group must not repeat, got 'pipe' again"),
        ({"children": (Group("x", ("a",)), Group("x", ("b",)))}, "name of a group must not repeat, got 'x' again"),
        (
            {"strategy": "all_for_one"},
            "strategy must be one of one_for_one, one_for_all, rest_for_one, got 'all_for_one'",
        ),
        ({"restarts_max": -1}, "restarts_max must be a whole number >= 0, got -1"),
        ({"window_seconds": 0}, "window_seconds must be a finite number > 0, got 0"),
    ],
)
def test_what_is_no_group_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        Group(**{"name": "pipe"} | arguments)
    assert str(raised.value) == said
