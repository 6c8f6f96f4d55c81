"""The ladder against a search through everybody."""

from hypothesis import given
from hypothesis import strategies as st

from actors.ladder import Ladder


@given(st.integers(1, 40), st.data())
def test_the_ladder_finds_the_smallest_key_up_to_a_rung(rungs: int, data: st.DataObject) -> None:
    ladder = Ladder(rungs)
    places: dict[str, tuple[float, int]] = {}
    for _ in range(data.draw(st.integers(0, 60))):
        name = data.draw(st.sampled_from(["a", "b", "c", "d", "e"]))
        if data.draw(st.integers(0, 3)):
            places[name] = (data.draw(st.integers(0, 5)) / 2, data.draw(st.integers(0, rungs - 1)))
            ladder.put(name, places[name][1], places[name][0])
        else:
            places.pop(name, None)
            ladder.discard(name)
        assert len(ladder) == len(places)
        for rung_max in range(-1, rungs + 1):
            reached = [(key, name) for name, (key, rung) in places.items() if rung <= rung_max]
            assert ladder.first(rung_max) == (min(reached)[1] if reached else None)
