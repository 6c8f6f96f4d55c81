"""Permits and caps, against the window bound and against a bucket that is refilled in exact fractions."""

import math
from fractions import Fraction
from itertools import accumulate
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actors import Limit, Notes, Table
from actors.limits import ALWAYS, Bucket, Gauge
from actors.restraints import Restraints
from tests.test_sharing import finds

rates = st.one_of(st.floats(0.01, 1_000), st.sampled_from([0.01, 0.1, 1 / 3, 1.0, 3.0, 10.0, 1_000.0]))
gaps = st.one_of(st.just(0.0), st.floats(0, 1e-3), st.floats(0, 5), st.floats(0, 300))


def open_bucket(rate: float, since: float = ALWAYS, used: int = 0) -> Bucket:
    return Bucket(rate, since, used)


def starts_of(bucket: Bucket, asks: list[tuple[float, int]], begin: float) -> list[float]:
    """When each start was allowed; who is refused asks again, which must change nothing."""
    starts = []
    times = accumulate((gap for gap, _ in asks), initial=begin)
    for now, (_, times_asked) in zip(list(times)[1:], asks, strict=True):
        for _ in range(times_asked):
            if bucket.free_at <= now:
                bucket.take(now)
                starts.append(now)
    return starts


WINDOWS: dict[str, Any] = {
    "rate": rates,
    "asks": st.lists(st.tuples(gaps, st.one_of(st.integers(1, 3), st.integers(1, 1_100))), min_size=2, max_size=12),
    "begin": st.sampled_from([0.0, 1e6, 1.7e9]),
}


@given(**WINDOWS)
def test_starts_in_any_window_keep_to_burst_and_rate(rate: float, asks: list[tuple[float, int]], begin: float) -> None:
    keeps_to_burst_and_rate(starts_of(open_bucket(rate), asks, begin), rate)


def keeps_to_burst_and_rate(starts: list[float], rate: float) -> None:
    """Starts in (t1, t2] <= capacity + rate * (t2 - t1), for every pair of starts as the ends of the window.

    A time of day has 2e-7 s between neighbours, and the time of a permit is off by half of that, once and not each time.
    """
    least = math.inf
    for n, at in enumerate(starts):
        refilled = rate * (at - starts[0])
        least = min(least, n - refilled)
        assert n + 1 - refilled - least <= max(1.0, rate) + rate * math.ulp(at) + 1e-9 * (1 + refilled)


GREEDY: dict[str, Any] = {
    "rate": rates,
    "begin": st.one_of(st.sampled_from([0.0, 1.7e9]), st.floats(1.6e9, 1.9e9)),
    "pauses": st.lists(st.tuples(st.integers(1, 1_500), gaps), min_size=1, max_size=4),
}


@given(**GREEDY)
@example(rate=1_000.0, begin=1.7e9, pauses=[(4_000, 0.0)])
@example(rate=0.3, begin=1.7e9, pauses=[(4_000, 0.0)])
def test_whoever_takes_each_permit_when_it_is_there_never_gets_more_than_burst_and_rate(
    rate: float, begin: float, pauses: list[tuple[int, float]]
) -> None:
    """At times of day: a bucket that rounds at each permit lets 0.007 % too many through at 1,000 a second."""
    bucket, now, starts = open_bucket(rate), begin, []
    for count, pause in pauses:
        for _ in range(count):
            now = max(now, bucket.free_at)
            bucket.take(now)
            starts.append(now)
        now += pause
    keeps_to_burst_and_rate(starts, rate)


@given(
    power=st.integers(-6, 9),
    moves=st.lists(st.tuples(st.integers(0, 4_000), st.booleans()), min_size=1, max_size=60),
)
def test_the_next_permit_is_free_exactly_when_refilling_by_the_clock_says_so(
    power: int, moves: list[tuple[int, bool]]
) -> None:
    """With fractions of two nothing is rounded, so that times can be compared for equality."""
    rate = 2.0**power
    bucket, permits, last = Bucket(rate), Fraction(max(1.0, rate)), Fraction(0)
    capacity, now = permits, Fraction(0)
    for ticks, wait in moves:
        now += Fraction(ticks, 4_096)
        if wait:
            # At the very time of the next permit: allowed then, and not one tick earlier.
            now = max(now, Fraction(max(bucket.free_at, 0.0)))
        permits, last = min(capacity, permits + Fraction(rate) * (now - last)), now
        assert bucket.permits(float(now)) == permits
        assert (bucket.free_at <= now) == (permits >= 1)
        if permits < 1:
            assert bucket.free_at == now + (1 - permits) / Fraction(rate)
        else:
            bucket.take(float(now))
            permits -= 1


@given(rate=rates, begin=st.sampled_from([0.0, 1e6]), empty=st.booleans(), count=st.integers(1, 1_500))
def test_whoever_takes_each_permit_when_it_is_there_gets_the_whole_rate(
    rate: float, begin: float, empty: bool, count: int
) -> None:
    """Work conserving: at least rate * t - 1 starts by t, from an empty bucket too."""
    bucket = open_bucket(rate, begin, int(max(1.0, rate))) if empty else open_bucket(rate)
    now = begin
    for n in range(count):
        now = max(now, bucket.free_at)
        assert n + 1 >= rate * (now - begin) * (1 - 1e-6) - 1
        bucket.take(now)


class OnePermitMore(Bucket):
    @property
    def free_at(self) -> float:
        return super().free_at - 1 / self.rate


class TwiceTheBurst(Bucket):
    @property
    def free_at(self) -> float:
        return super().free_at - self.capacity / self.rate


class RoundsDown(Bucket):
    """Loses what was refilled since the last permit, as one does who counts the refill from the last question."""

    def take(self, now: float) -> None:
        super().take(now)
        self.since += 0.5 / self.rate


class RoundsAtEachPermit(Bucket):
    """Keeps the time at which it is full, and moves that by 1/rate."""

    def take(self, now: float) -> None:
        self.since, self.used = max(self.since, now) + 1 / self.rate, 0


@pytest.mark.parametrize("broken", [OnePermitMore, TwiceTheBurst])
def test_the_window_bound_fails_on_a_planted_bug(broken: type[Bucket], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "open_bucket", broken)
    finds(test_starts_in_any_window_keep_to_burst_and_rate, **WINDOWS)


def test_the_window_bound_fails_on_a_bucket_that_rounds_at_each_permit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "open_bucket", RoundsAtEachPermit)
    finds(test_whoever_takes_each_permit_when_it_is_there_never_gets_more_than_burst_and_rate, **GREEDY)


def test_a_bucket_that_loses_parts_of_permits_does_not_give_the_whole_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "open_bucket", RoundsDown)
    finds(
        test_whoever_takes_each_permit_when_it_is_there_gets_the_whole_rate,
        rate=rates,
        begin=st.just(0.0),
        empty=st.booleans(),
        count=st.just(1_500),
    )


@given(before=rates, after=rates, taken=st.integers(0, 1_000), wait=gaps)
@example(before=10.0, after=2.0, taken=3, wait=0.0)
def test_another_rate_keeps_the_permits_as_far_as_there_is_room(
    before: float, after: float, taken: int, wait: float
) -> None:
    bucket = Bucket(before)
    for _ in range(taken):
        if bucket.free_at <= 0.0:
            bucket.take(0.0)
    other = bucket.at_rate(after, wait)
    had = bucket.permits(wait)
    assert other.rate == after
    assert math.isclose(other.permits(wait), min(other.capacity, had), rel_tol=1e-6, abs_tol=1e-6)


@given(rate=rates, taken=st.integers(0, 5), times=st.lists(st.floats(0, 1e4), max_size=8))
def test_asking_changes_nothing(rate: float, taken: int, times: list[float]) -> None:
    bucket = Bucket(rate)
    for _ in range(taken):
        bucket.take(0.0)
    before = (bucket.since, bucket.used)
    for now in times:
        bucket.permits(now)
        assert (bucket.since, bucket.used) == before


@given(rate=rates, takes=st.lists(gaps, max_size=30), begin=st.sampled_from([0.0, 1.7e9]), wait=gaps)
def test_a_bucket_is_its_time_and_its_count(rate: float, takes: list[float], begin: float, wait: float) -> None:
    """Noted as JSON and made anew between any two permits, it goes on as if nothing had been."""
    bucket, again = Bucket(rate), Bucket(rate)
    now = begin
    for gap in takes:
        now += gap
        for one in (bucket, again):
            one.take(now)
        again = Bucket.restored(rate, *msgspec.json.decode(msgspec.json.encode(again.noted())))
        assert (again.free_at, again.permits(now + wait)) == (bucket.free_at, bucket.permits(now + wait))


@given(before=rates, after=rates, takes=st.integers(1, 3_000), begin=st.sampled_from([0.0, 1.7e9]))
def test_a_bucket_that_is_restored_at_another_rate_is_full_when_it_would_have_been(
    before: float, after: float, takes: int, begin: float
) -> None:
    """However many permits were used since it was last full: they are not all to be waited for again."""
    bucket, now = Bucket(before), begin
    for _ in range(takes):
        now = max(now, bucket.free_at)
        bucket.take(now)
    full_at = bucket.since + bucket.used / before
    restored = Bucket.restored(after, *bucket.noted())
    slack = 1e-9 + 2 * math.ulp(full_at)
    assert restored.permits(full_at + slack) == restored.capacity
    assert restored.permits(now) <= max(0.0, restored.capacity - after * (full_at - now)) + after * slack + 1e-6
    assert restored.free_at <= full_at + slack


# A gauge: permits and a cap

limits = st.builds(Limit, st.none() | rates, st.none() | st.integers(0, 4))


@given(
    limit=limits,
    moves=st.lists(st.one_of(st.just("end"), st.just("start"), limits, gaps), min_size=5, max_size=60),
)
def test_a_gauge_lets_start_what_cap_and_permits_allow_and_nothing_else(limit: Limit, moves: list[Any]) -> None:
    gauge, now, running = Gauge("all", limit), 0.0, 0
    for move in moves:
        if isinstance(move, float):
            now += move
        elif isinstance(move, Limit):
            gauge.set(move, now)
            limit = move
        elif move == "end" and running:
            gauge.running -= 1
            running -= 1
        free_at, cap = gauge.free_at(), limit.concurrency_max
        at_cap = cap is not None and running >= cap
        assert (free_at == math.inf) == at_cap
        assert (gauge.bucket is None) == (limit.rate_limit is None)
        if gauge.bucket is not None and not at_cap:
            assert gauge.bucket.rate == limit.rate_limit
            assert (free_at <= now) == (gauge.bucket.free_at <= now)
        if move == "start" and free_at <= now:
            gauge.take(now)
            running += 1
        assert gauge.running == running


def test_a_cap_of_zero_means_zero() -> None:
    gauge = Gauge("all", Limit(concurrency_max=0))
    assert gauge.free_at() == math.inf
    gauge.set(Limit(concurrency_max=1), 0.0)
    assert gauge.free_at() == ALWAYS
    gauge.take(0.0)
    gauge.set(Limit(concurrency_max=0), 0.0)
    gauge.running -= 1
    assert gauge.free_at() == math.inf


def test_no_limit_is_always_open() -> None:
    assert Gauge("all", Limit()).free_at() == ALWAYS
    assert not Limit().holds


@pytest.mark.parametrize("limit", [Limit(rate_limit=1.0), Limit(concurrency_max=0), Limit(2.0, 3)])
def test_a_rate_or_a_cap_holds(limit: Limit) -> None:
    assert limit.holds


@given(rate=rates, takes=st.lists(gaps, min_size=1, max_size=30), wait=gaps)
def test_setting_the_rate_that_is_set_moves_no_permit(rate: float, takes: list[float], wait: float) -> None:
    """Not even by a rounding: the time of the next permit is compared with the clock for equality."""
    gauge, now = Gauge("all", Limit(rate_limit=rate)), 0.0
    for gap in takes:
        now += gap
        gauge.take(now)
    before = gauge.free_at()
    gauge.set(Limit(rate_limit=rate, concurrency_max=50), now + wait)
    assert gauge.free_at() == before or max(before, gauge.free_at()) <= now + wait


# Restraints: what must survive a restart


class Kept:
    """Restraints of one kind, and the table that keeps what they note."""

    def __init__(self, limit: Limit) -> None:
        self.limits = {"kind/mail": limit}
        self.table = Table()
        self.restart()

    def restart(self) -> None:
        """From what any store could have kept."""
        self.notes = Notes("scheduler", msgspec.json.decode(msgspec.json.encode(self.table.notes("scheduler"))))
        self.restraints = Restraints(self.limits, None, self.notes)

    def move(self, move: Any, now: float) -> None:
        if isinstance(move, Limit):
            self.restraints.set_limit("kind/mail", move, now)
        elif move == "start":
            self.restraints.take([self.restraints.gauge("kind/mail")], now)
        if self.notes.written:
            self.table.apply(self.notes.hand_over())

    def next_permit(self) -> float | None:
        bucket = self.restraints.gauge("kind/mail").bucket
        return None if bucket is None else bucket.free_at


moves = st.one_of(st.just("start"), st.just("restart"), limits, gaps)


@given(limit=limits, script=st.lists(moves, min_size=1, max_size=40), begin=st.sampled_from([0.0, 1.7e9]))
def test_permits_that_were_used_stay_used_over_restarts_and_new_limits(
    limit: Limit, script: list[Any], begin: float
) -> None:
    steady, restarted, now = Kept(limit), Kept(limit), begin
    for move in script:
        if isinstance(move, float):
            now += move
        elif move == "restart":
            restarted.restart()
        steady.move(move, now)
        restarted.move(move, now)
        assert restarted.next_permit() == steady.next_permit()
