"""When cron expressions fire, against a model that looks at every minute: in many zones, over every change of the clocks."""

import math
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actors import InvalidConfig, cron
from actors.cron import fire_times
from tests.test_sharing import finds

DAY = 86_400

CHANGES = [
    ("UTC", "2024-02-29"),
    ("Asia/Kathmandu", "2024-01-01"),
    ("Europe/Berlin", "2024-03-31"),
    ("Europe/Berlin", "2024-10-27"),
    ("Europe/Dublin", "2024-10-27"),
    ("America/New_York", "2024-03-10"),
    ("America/New_York", "2024-11-03"),
    # At midnight, which is skipped, or comes twice.
    ("Africa/Cairo", "2024-04-26"),
    ("Africa/Cairo", "2024-10-31"),
    ("America/Santiago", "2024-09-08"),
    ("America/Havana", "2024-03-10"),
    # By half an hour, by two hours, by a day.
    ("Australia/Lord_Howe", "2024-04-07"),
    ("Australia/Lord_Howe", "2024-10-06"),
    ("Antarctica/Troll", "2024-10-27"),
    ("Pacific/Apia", "2011-12-30"),
]

# A model


def numbers(field: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for term in field.split(","):
        part, _, step = term.partition("/")
        first, _, last = part.partition("-")
        every = range(low, high + 1) if part == "*" else range(int(first), int(last or first) + 1)
        found.update(every[:: int(step or 1)])
    return found


class Model:
    """An expression, and the minutes that it means."""

    def __init__(self, expression: str) -> None:
        minute, hour, day, month, weekday = expression.split()
        self.minutes, self.hours = numbers(minute, 0, 59), numbers(hour, 0, 23)
        self.days, self.months = numbers(day, 1, 31), numbers(month, 1, 12)
        self.weekdays = {number % 7 for number in numbers(weekday, 0, 7)}
        self.needs_both = "*" in (day[0], weekday[0])
        self.by_the_wall_clock = "*" in (minute[0], hour[0])

    def means(self, shown: datetime) -> bool:
        if shown.minute not in self.minutes or shown.hour not in self.hours or shown.month not in self.months:
            return False
        fits = (shown.day in self.days, shown.isoweekday() % 7 in self.weekdays)
        return all(fits) if self.needs_both else any(fits)

    def times(self, zone: ZoneInfo, after: float, until: float) -> list[float]:
        times = self._whenever(zone, after, until) if self.by_the_wall_clock else self._once(zone, after, until)
        return sorted({at for at in times if after < at <= until})

    def _whenever(self, zone: ZoneInfo, after: float, until: float) -> Iterator[float]:
        """Every minute that passes and is shown as one that is meant."""
        for at in range(int(after) // 60 * 60, int(until) + 1, 60):
            if self.means(datetime.fromtimestamp(at, zone)):
                yield at

    def _once(self, zone: ZoneInfo, after: float, until: float) -> Iterator[float]:
        """Every minute that is meant, when it is shown first, or when the next is that is shown at all."""
        shown = datetime.fromtimestamp(after - 2 * DAY, zone).replace(tzinfo=None, second=0, microsecond=0)
        while shown.replace(tzinfo=UTC).timestamp() < until + 2 * DAY:
            if self.means(shown):
                real = shown
                while not is_shown(real, zone):
                    real += timedelta(minutes=1)
                yield real.replace(tzinfo=zone).timestamp()
            shown += timedelta(minutes=1)


def is_shown(shown: datetime, zone: ZoneInfo) -> bool:
    return shown.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None) == shown


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.tuples(number, number).filter(lambda ends: ends[0] < ends[1]).map(lambda ends: f"{ends[0]}-{ends[1]}")
    single = st.lists(number, min_size=1, max_size=3, unique=True).map(lambda some: ",".join(map(str, sorted(some))))
    stepped = st.tuples(st.just("*") | span, st.sampled_from([2, 3, 5, 15, 20])).map(
        lambda both: f"{both[0]}/{both[1]}"
    )
    return st.one_of(st.just("*"), single, span, stepped)


expressions = st.tuples(
    field(0, 59),
    field(0, 23) | field(0, 4) | st.sampled_from(["0", "1", "2", "3", "23"]),
    st.just("*") | field(1, 28),
    st.just("*"),
    st.just("*") | field(0, 7),
).map(" ".join)

CRON: dict[str, Any] = {
    "expression": expressions,
    "change": st.sampled_from(CHANGES),
    "offset": st.floats(-1.5, 1.5).map(lambda days: days * DAY)
    | st.integers(-36, 36).map(lambda hours: hours * 3600.0),
}


def around(change: tuple[str, str], offset: float) -> tuple[ZoneInfo, float]:
    zone = ZoneInfo(change[0])
    return zone, datetime.fromisoformat(change[1]).replace(tzinfo=zone).timestamp() + offset


@given(**CRON)
@example(expression="30 2 * * *", change=("Europe/Berlin", "2024-10-27"), offset=3.25 * 3600)
@example(expression="54-56 2 * * *", change=("Europe/Berlin", "2024-10-27"), offset=3.1 * 3600)
@example(expression="*/15 1 * * 5", change=("Africa/Cairo", "2024-04-26"), offset=-DAY)
@example(expression="* 0 * * 5", change=("Africa/Cairo", "2024-04-26"), offset=-DAY)
@example(expression="* 3 * * *", change=("Australia/Lord_Howe", "2024-04-07"), offset=-DAY / 2)
def test_an_expression_fires_at_the_times_it_means_and_at_no_others(
    expression: str, change: tuple[str, str], offset: float
) -> None:
    zone, after = around(change, offset)
    until = after + 1.5 * DAY
    found = list(takewhile(lambda at: at <= until, fire_times(expression, change[0], after)))
    agree = found == Model(expression).times(zone, after, until)
    # Not compared in the assertion: where pytest shows whole differences, that of two long lists takes minutes.
    assert agree


@given(**CRON, places=st.lists(st.integers(0, 30), max_size=3))
def test_whoever_asks_again_from_one_of_the_times_gets_those_that_follow(
    expression: str, change: tuple[str, str], offset: float, places: list[int]
) -> None:
    """So a restart between any two times changes nothing."""
    _, after = around(change, offset)
    times = list(islice(fire_times(expression, change[0], after), 60))
    assert all(later > earlier for earlier, later in zip([after, *times], times, strict=False))
    for place in places:
        if place < len(times) - 1:
            assert (
                list(islice(fire_times(expression, change[0], times[place]), 20))[: len(times) - place - 1]
                == (times[place + 1 : place + 21])
            )


@pytest.mark.parametrize("name", ["the first again", "no changes", "a change too late"])
def test_the_model_finds_a_planted_bug(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "the first again":
        monkeypatch.setitem(globals(), "fire_times", lambda *call: cron.fire_times(call[0], call[1], call[2] - 3600))
    elif name == "no changes":
        monkeypatch.setattr(cron, "_first_change", lambda *call: None)
    else:
        monkeypatch.setattr(cron, "timedelta", lambda seconds: timedelta(0))
    finds(test_an_expression_fires_at_the_times_it_means_and_at_no_others, **CRON)


# Single expressions


def first(expression: str, after: str, zone: str = "UTC", count: int = 1) -> list[str]:
    begin = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone)).timestamp()
    return [
        datetime.fromtimestamp(at, ZoneInfo(zone)).strftime("%a %Y-%m-%d %H:%M:%S%z")
        for at in islice(fire_times(expression, zone, begin), count)
    ]


def test_a_time_of_day_that_is_skipped_fires_when_clocks_go_on() -> None:
    assert first("30 2 * * *", "2024-03-30 12:00", "Europe/Berlin", 2) == [
        "Sun 2024-03-31 03:00:00+0200",
        "Mon 2024-04-01 02:30:00+0200",
    ]


def test_a_time_of_day_that_comes_twice_fires_the_first_time() -> None:
    assert first("30 2 * * *", "2024-10-26 12:00", "Europe/Berlin", 2) == [
        "Sun 2024-10-27 02:30:00+0200",
        "Mon 2024-10-28 02:30:00+0100",
    ]


def test_every_half_hour_is_every_half_hour_when_one_comes_twice() -> None:
    assert first("*/30 * * * *", "2024-10-27 01:45", "Europe/Berlin", 5) == [
        "Sun 2024-10-27 02:00:00+0200",
        "Sun 2024-10-27 02:30:00+0200",
        "Sun 2024-10-27 02:00:00+0100",
        "Sun 2024-10-27 02:30:00+0100",
        "Sun 2024-10-27 03:00:00+0100",
    ]


def test_other_ways_to_write_an_expression() -> None:
    assert first("0 0 L 2 *", "2024-01-01") == ["Thu 2024-02-29 00:00:00+0000"]
    assert first("0 9 * * MON#1", "2024-01-02") == ["Mon 2024-02-05 09:00:00+0000"]
    assert first("0 9 * JAN 7", "2024-01-02") == ["Sun 2024-01-07 09:00:00+0000"]
    assert first("0 0 29 2 *", "2024-03-01") == ["Tue 2028-02-29 00:00:00+0000"]


def test_six_fields_begin_with_seconds() -> None:
    assert first("*/20 30 2 * * *", "2024-03-31 00:00", "Europe/Berlin", 2) == [
        "Mon 2024-04-01 02:30:00+0200",
        "Mon 2024-04-01 02:30:20+0200",
    ]


@given(st.floats(0, 4e9), st.sampled_from(["* * * * *", "0 3 * * *", "* * * * * *"]))
@example(1.9999999, "* * * * * *")
def test_the_next_time_is_later_than_any_time_it_is_asked_for(after: float, expression: str) -> None:
    at = next(fire_times(expression, "America/Havana", after))
    assert at > after and at == int(at)
    assert math.ceil(at - after) <= {"* * * * * *": 1, "* * * * *": 60}.get(expression, 2 * DAY)


BAD_CRON = [
    ("", "Wrong number of fields"),
    ("* * * *", "Wrong number of fields"),
    ("* * * * * * *", "Wrong number of fields"),
    ("60 * * * *", "Bad minute"),
    ("* 24 * * *", "Bad hour"),
    ("* * 0 * *", "Bad day-of-month"),
    ("* * * 13 *", "Bad month"),
    ("* * * * 8", "Bad day-of-week"),
    ("*/0 * * * *", "Bad minute"),
    ("5-1 * * * *", "Bad minute"),
    ("0 0 30 2 *", "Bad day-of-month"),
    (None, "'NoneType' object has no attribute 'upper'"),
    (5, "'int' object has no attribute 'upper'"),
]


@pytest.mark.parametrize(("expression", "why"), BAD_CRON, ids=[str(expression) for expression, _ in BAD_CRON])
def test_what_is_no_expression_is_refused(expression: Any, why: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        fire_times(expression, "UTC", 0.0)
    assert str(refused.value) == (
        f"cron must be an expression of five fields, or six with seconds first, got {expression!r}: {why}"
    )


@pytest.mark.parametrize(
    "zone", ["Europe/Bärlin", "", "Europe", "../etc/passwd", "a\0b", "x" * 5_000, None, 5, ("UTC",)]
)
def test_what_is_no_time_zone_is_refused(zone: Any) -> None:
    with pytest.raises(InvalidConfig) as refused:
        fire_times("* * * * *", zone, 0.0)
    assert str(refused.value) == f"timezone must be a name such as 'Europe/Berlin', got {zone!r}"


def test_without_its_extra_a_schedule_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(InvalidConfig, match=r"^schedules need the schedule extra: pip install 'evenhand\[schedule\]'$"):
        fire_times("* * * * *", "UTC", 0.0)
