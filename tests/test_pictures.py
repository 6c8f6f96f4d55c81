"""Pictures: each says its finding, whatever is in the data: nothing, one user, fifty, names of any sort."""

import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import attrs
import pytest
from PIL import Image

from actors import InvalidConfig, Priority
from sim import (
    Burst,
    Comparison,
    Fixed,
    History,
    Kind,
    Picture,
    Runtime,
    Scenario,
    User,
    backlog_picture,
    compare,
    count_messages,
    heatmap_picture,
    history_of,
    load_scenario,
    messages_picture,
    service_picture,
    steals_picture,
    timeline_picture,
    waits_picture,
)
from sim.library import located
from sim.pictures.parties import parties_of
from sim.report import pictures_of_run

KIND = Kind(name="work", service=Fixed(seconds=1.0))
FIFTY = Scenario(
    name="fifty",
    duration_seconds=20.0,
    runtime=Runtime(workers=40),
    kinds=(KIND,),
    users=(
        *(User(name=f"user{n}", arrivals=(Burst(kind="work", count=n),)) for n in range(1, 50)),
        User(name="late", arrivals=(Burst(kind="work", count=1, at_seconds=15.0),)),
    ),
)
ODD = ("$x^2$", "<b>&</b>", "_under", "[red]", "日本 名前", "a" * 128)

OfRun = Callable[[History], Picture]
OF_RUN: list[OfRun] = [backlog_picture, service_picture, waits_picture, timeline_picture, steals_picture]


def flood(light: int = 4) -> Scenario:
    users = [User(name=name, arrivals=(Burst(kind="work", count=n),)) for name, n in (("flood", 200), ("light", light))]
    return Scenario(name="flood", duration_seconds=1.0, kinds=(KIND,), users=tuple(users), runtime=Runtime(workers=4))


@pytest.fixture(scope="module")
def fifty() -> History:
    return history_of(FIFTY, sharing="fifo")


def size_of(picture: Picture) -> tuple[int, int]:
    with Image.open(BytesIO(picture.png)) as image:
        image.load()
        return image.size


@pytest.mark.parametrize("draw", OF_RUN, ids=lambda draw: draw.__name__)
def test_an_empty_run_a_run_of_one_and_names_of_any_sort_can_be_drawn(draw: OfRun) -> None:
    assert size_of(draw(History()))[0] == 990
    one = attrs.evolve(flood(), users=flood().users[:1])
    assert size_of(draw(history_of(one)))[0] == 990
    users = tuple(User(name=name, arrivals=(Burst(kind="work", count=3),)) for name in ODD)
    assert size_of(draw(history_of(attrs.evolve(flood(), users=users))))[0] == 990


@pytest.mark.parametrize("draw", OF_RUN, ids=lambda draw: draw.__name__)
def test_fifty_users_fit_the_size_that_people_see(draw: OfRun, fifty: History) -> None:
    width, height = size_of(draw(fifty))
    assert width == 990
    assert height <= 900


def test_of_many_users_those_who_used_most_and_waited_longest_are_named(fifty: History) -> None:
    parties = parties_of(fifty, users_max=7)
    labels = [party.label for party in parties]
    assert len(parties) == 7
    assert labels[-1] == "others (44)"
    assert "user49" in labels, "nobody used more"
    waits = {user: max(found) for user, found in fifty.waits().items()}
    assert max(waits, key=lambda user: waits[user]) in labels, "and nobody waited longer"
    assert sorted(user for party in parties for user in party.members) == sorted(fifty.users)
    assert len({party.colour for party in parties}) == 7


def test_titles_say_what_was_found() -> None:
    plain, fair = history_of(flood(), sharing="fifo"), history_of(flood())
    assert backlog_picture(plain).title == "flood has most tasks waiting, up to 196; nobody else more than 4"
    assert service_picture(plain).title == (
        "light falls furthest behind the ideal fluid share: by 4 worker-seconds, at 2.0 s"
    )
    assert service_picture(fair).title.startswith("nobody falls far behind the ideal fluid share: ")
    assert waits_picture(plain).title == "1 task in 100 of light waits 50 s or longer; of flood, 49 s"
    assert waits_picture(fair).title.endswith("; of light, 2.0 s")
    assert steals_picture(plain).title == "nothing was stolen"
    assert timeline_picture(plain, from_seconds=0.0, until_seconds=10.0).title == (
        "0 s to 10 s: 4 workers, busy 100 % of the time; 0 steals, 0 recoveries"
    )


def test_a_timeline_shows_steals_and_workers_that_fell_silent() -> None:
    crashes = timeline_picture(history_of(load_scenario(located("hang_and_timeout")))).title
    zombies = history_of(load_scenario(located("zombie_report")))
    recovered = sum(stint.outcome == "recovered" for stint in zombies.stints())
    assert recovered > 0
    assert not timeline_picture(zombies).title.endswith(" 0 recoveries")
    assert "steals" in crashes
    stolen = timeline_picture(history_of(load_scenario(located("stealing_longest")))).title
    assert " 0 steals" not in stolen


def test_waits_have_a_panel_of_levels_where_there_are_several() -> None:
    urgent = User(name="urgent", arrivals=(Burst(kind="work", count=5, priority=Priority.HIGH),))
    one = history_of(flood())
    two = history_of(attrs.evolve(flood(), users=(*flood().users[:1], urgent)))
    assert size_of(waits_picture(two))[1] > size_of(waits_picture(one))[1]


def test_pictures_of_a_run_have_steals_only_if_there_were_any() -> None:
    names = [picture.name for picture in pictures_of_run(history_of(flood()))]
    assert names == ["backlog", "service", "waits", "timeline"]
    with_steals = pictures_of_run(history_of(load_scenario(located("stealing_longest"))))
    assert [picture.name for picture in with_steals] == [*names, "steals"]


def test_the_graph_of_messages_leaves_out_who_is_woken() -> None:
    counts = count_messages(flood())
    between = sum(number for (sender, _, _), number in counts.items() if sender != "host")
    assert messages_picture(counts).title.startswith(f"{between:,} messages, ")
    assert messages_picture({}).title == "no messages"


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare([flood(), FIFTY], sharing=["fifo", "round_robin", "weighted_fair"], seeds=1, jobs=1)


def test_a_heat_map_says_for_whom_the_choice_matters_most(comparison: Comparison) -> None:
    assert heatmap_picture(comparison).title == (
        "p99 wait of light: 50 s under fifo, 2.0 s under round_robin and weighted_fair"
    )
    assert heatmap_picture(comparison, metric="wait_seconds_p50").title.startswith("median wait of light: 50 s")
    assert size_of(heatmap_picture(comparison, scenario="fifty"))[0] == 990
    with pytest.raises(InvalidConfig, match=r"^metric must be one of wait_seconds_p50, .*, got 'share'$"):
        heatmap_picture(comparison, metric="share")


def test_a_picture_goes_to_a_file_and_shows_itself_in_a_notebook(tmp_path: Path) -> None:
    picture = backlog_picture(history_of(flood()))
    picture.save(tmp_path / "backlog.png")
    assert (tmp_path / "backlog.png").read_bytes() == picture.png == picture._repr_png_()
    assert Picture.from_json(picture.as_json()) == picture
    assert len(picture.png) < 60_000, "notebooks hold many"
    with pytest.raises(InvalidConfig, match=r"^a picture must go to a file that can be written: "):
        picture.save(tmp_path)


def test_the_same_run_is_drawn_the_same() -> None:
    assert service_picture(history_of(flood())) == service_picture(history_of(flood()))


def test_without_the_extra_they_say_which(monkeypatch: pytest.MonkeyPatch) -> None:
    history = history_of(flood())
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InvalidConfig, match=r"^pictures need the lab extra: pip install 'evenhand\[lab\]'$"):
        backlog_picture(history)
