"""The meter against a list of everything that happened: percentiles, windows, and pauses of any length."""

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actors.meter import WINDOW_SECONDS, WINDOWS, Meter, NeverRan, WaitHistogram
from actors.trace import Completed, DeadLettered, Event, Recovered, Retried, Started, SubmitRefused
from tests.test_sharing import finds

# Percentiles

waits = st.one_of(
    st.floats(0, 1e-5),
    st.floats(0, 10),
    st.floats(0, 1e6),
    st.floats(0, 1e11),
    st.sampled_from([0.0, 1e-6, 2e-6, 1.0, 3600.0]),
)
parts = st.one_of(st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]), st.floats(0, 1))


def exactly(seconds: list[float], part: float) -> float:
    """The smallest wait that at least this part of the waits did not exceed."""
    return sorted(seconds)[max(1, math.ceil(part * len(seconds))) - 1]


def histogram(seconds: list[float]) -> WaitHistogram:
    made = WaitHistogram()
    for wait in seconds:
        made.add(wait)
    return made


PERCENTILES: dict[str, Any] = {"seconds": st.lists(waits, min_size=1, max_size=200), "part": parts}


@given(**PERCENTILES)
@example(seconds=[1e-6 * 2 ** (n / 8) for n in range(1, 400)], part=0.5)
def test_a_percentile_is_right_to_within_a_twentieth(seconds: list[float], part: float) -> None:
    found, exact = histogram(seconds).percentile(part), exactly(seconds, part)
    assert found is not None
    # What is shorter than a microsecond counts as nothing.
    assert abs(found - exact) <= max(exact / 20, 1e-6)


@given(st.lists(st.lists(waits, max_size=30), min_size=1, max_size=6), parts)
def test_histograms_together_are_one_of_all_the_waits(several: list[list[float]], part: float) -> None:
    together = WaitHistogram.together(map(histogram, several))
    assert together.percentile(part) == histogram([wait for some in several for wait in some]).percentile(part)


def test_without_waits_there_is_no_percentile() -> None:
    assert WaitHistogram().percentile(0.5) is None
    assert WaitHistogram.together([]).percentile(0.5) is None
    assert Meter(0.0).wait_percentile(1e9, 0.5) is None


@pytest.mark.parametrize("seconds", [1e12, 1e100])
def test_a_wait_beyond_all_buckets_counts_as_the_longest(seconds: float) -> None:
    longest = histogram([seconds]).percentile(1.0)
    assert longest is not None and longest > 1e11


@pytest.mark.parametrize("per_doubling", [4, 6])
def test_wider_buckets_would_not_be_right_to_within_a_twentieth(
    per_doubling: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.meter._BUCKETS_PER_DOUBLING", per_doubling)
    finds(test_a_percentile_is_right_to_within_a_twentieth, **PERCENTILES)


# The last minutes

KINDS = (Started, Completed, SubmitRefused, Recovered, Retried, DeadLettered)


def event(at: float, kind: type, wait: float | None, worker: str | None = None) -> Event:
    if kind is Started:
        return Started(at, "alice#1", 1, 1, "worker/1", waited_seconds=wait)
    if kind is Completed:
        return Completed(at, "alice#1", 1, "worker/1", 1.0)
    if kind is SubmitRefused:
        return SubmitRefused(at, "alice", "crawl", "full")
    if kind is Recovered:
        return Recovered(at, "alice#1", 1, "worker/1", 1.0)
    if kind is Retried:
        return Retried(at, "alice#1", 1, "worker/1", 1.0, "failed", "boom", at + 1)
    return DeadLettered(at, "alice#1", 1, worker, 0.0, "failed", "failed", "boom")


# In quarters of a second, so that no sum is rounded and a window ends exactly where it should.
gaps = st.one_of(
    st.just(0.0),
    st.integers(0, 40).map(lambda quarters: quarters / 4),
    st.integers(0, 1_000).map(lambda quarters: quarters / 4),
    st.sampled_from([59.75, 60.0, 60.25, 119.75, 120.0, 240.0, 299.75, 300.0, 360.0, 86_400.0]),
)
steps = st.tuples(
    gaps,
    st.sampled_from([*KINDS, None]),
    st.none() | st.floats(0, 100),
    st.sampled_from([None, "worker/1"]),
)
Script = list[tuple[float, type | None, float | None, str | None]]
SCRIPTS: dict[str, Any] = {
    "script": st.integers(1, 60).flatmap(lambda length: st.lists(steps, min_size=length, max_size=length)),
    "began_at": st.sampled_from([0.0, 1.7e9]),
}


@given(**SCRIPTS)
@example(script=[(290.0, SubmitRefused, None, None), (10.0, None, None, None)], began_at=0.0)
def test_counts_and_waits_of_the_last_minutes_are_those_that_happened_in_them(script: Script, began_at: float) -> None:
    """Whatever happens, however seldom anybody asks. None in the script: somebody asks."""
    meter, now = Meter(began_at), began_at
    log: list[Event] = []
    for gap, kind, wait, worker in script:
        now += gap
        if kind is not None:
            log.append(event(now, kind, wait, worker))
            meter.on_event(log[-1])
        else:
            check(meter, log, began_at, now)
    check(meter, log, began_at, now)


def check(meter: Meter, log: list[Event], began_at: float, now: float) -> None:
    current = began_at + (now - began_at) // WINDOW_SECONDS * WINDOW_SECONDS
    since = max(began_at, current - (WINDOWS - 1) * WINDOW_SECONDS)
    recent = [one for one in log if one.at >= since]
    counted = Counter(type(one) for one in recent)
    for kind in KINDS:
        assert meter.counts[kind] == sum(type(one) is kind for one in log)
        assert meter.recent(now, kind) == counted[kind]
    assert meter.recent(now, *KINDS) == len(recent)
    assert meter.recent(now, NeverRan) == sum(isinstance(one, DeadLettered) and one.worker is None for one in recent)
    assert meter.completed_per_second(now) == counted[Completed] / max(now - since, 1e-3)
    waited = [one.waited_seconds for one in recent if isinstance(one, Started) and one.waited_seconds is not None]
    assert meter.wait_percentile(now, 0.5) == histogram(waited).percentile(0.5)


class TurnsWhenAskedAlone(Meter):
    """Counts what was put down in the window that was open when it was last asked."""

    def _count_all(self) -> None:
        self._count(self._uncounted)
        self._uncounted.clear()


class BeginsWindowsWhenItTurns(Meter):
    """Lets a window last until something happens, so that five of them may be ten minutes."""

    def _turn(self, now: float) -> None:
        self._turns_at = now
        super()._turn(now)


class TurnsBeforeItCounts(Meter):
    """Counts what was put down in the window of the last of it."""

    def _count_all(self) -> None:
        if self._uncounted and self._uncounted[-1].at >= self._turns_at:
            self._turn(self._uncounted[-1].at)
        self._count(self._uncounted)
        self._uncounted.clear()


@pytest.mark.parametrize("broken", [TurnsWhenAskedAlone, BeginsWindowsWhenItTurns, TurnsBeforeItCounts])
def test_the_windows_fail_on_a_planted_bug(broken: type[Meter], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "Meter", broken)
    finds(test_counts_and_waits_of_the_last_minutes_are_those_that_happened_in_them, **SCRIPTS)


def test_after_a_pause_of_years_a_few_windows_are_kept_and_nothing_is_recent() -> None:
    meter = Meter(0.0)
    meter.on_event(event(1.0, Started, 2.0))
    assert meter.recent(1e8, Started) == 0
    assert meter.wait_percentile(1e8, 0.5) is None
    assert len(meter._windows) == WINDOWS
