"""Ids: unlike each other, in order, and the same for the same thing."""

from uuid import RFC_4122, UUID

from hypothesis import given
from hypothesis import strategies as st

from actors.ids import derived_id, new_id


def test_new_ids_are_in_the_order_in_which_they_were_drawn() -> None:
    ids = [new_id() for _ in range(10_000)]
    assert ids == sorted(set(ids))
    assert {(UUID(drawn).version, UUID(drawn).variant) for drawn in ids} == {(7, RFC_4122)}


@given(st.text(st.characters(exclude_categories=["Cs"])), st.floats(0, 1e11), st.floats(0, 1e11))
def test_derived_ids_are_uuids_in_the_order_of_their_times(what_for: str, before: float, after: float) -> None:
    first, second = derived_id(what_for, before), derived_id(what_for, after)
    assert (UUID(first).version, UUID(first).variant) == (7, RFC_4122)
    assert first == derived_id(what_for, before)
    assert int(UUID(first)) >> 80 == min(int(before * 1000), 2**48 - 1)
    assert (first <= second) == (int(before * 1000) <= int(after * 1000))


@given(st.sets(st.text(st.characters(exclude_categories=["Cs"])), min_size=2))
def test_derived_ids_of_other_things_are_others(things: set[str]) -> None:
    assert len({derived_id(thing, 0.0) for thing in things}) == len(things)
