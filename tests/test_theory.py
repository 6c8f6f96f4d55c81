"""The simulator against queueing theory: what it measures is what is known of the queues that it can be made to be.

One user is one queue in one order, to which the formulas apply; services have a mean of about one second. A statistic is
taken once a seed, over twenty seeds that were fixed beforehand, and z is how many standard errors the mean over seeds is
from the theory. Were the theory right, |z| would exceed 4 once in a thousand checks (Student's t, 19 degrees of
freedom). Arrivals during the first tenth of a run are not measured, because it begins empty; it ends by draining, so no
long wait is cut off. Under priorities the last arrivals are overtaken less than theory says, but those are fewer than
one in a hundred, far below the noise. What must hold exactly on every run is checked exactly, without statistics.
"""

import math
import statistics
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import attrs
import pytest

from actors import Priority
from actors.policies.ordering import Aging, Arrival, OrderingPolicy, Strict
from actors.trace import Admitted, Completed, Event, Started
from sim import Exponential, Fixed, Kind, Poisson, Runtime, Scenario, User, simulate

# The theory


def erlang_c(servers: int, load: float) -> float:
    """The probability that an arrival must wait, at this load of each of so many servers.

    Erlang 1917; by the stable recursion for 1/B, B being the loss probability of Erlang B.

    >>> round(erlang_c(1, 0.7), 6), round(erlang_c(2, 0.75), 6)
    (0.7, 0.642857)
    """
    offered = servers * load
    inverse_b = 1.0
    for busy in range(1, servers + 1):
        inverse_b = 1.0 + busy / offered * inverse_b
    b = 1.0 / inverse_b
    return servers * b / (servers - offered * (1.0 - b))


def wait_of_markovian(servers: int, load: float) -> float:
    """The mean wait of M/M/c, first come first served, services of mean 1: W_0 / (1 - load) with W_0 = C / c.

    Kleinrock 1975, "Queueing Systems", volume 1, section 3.5.

    >>> wait_of_markovian(1, 0.5)
    1.0
    """
    return erlang_c(servers, load) / servers / (1.0 - load)


def tail_of_markovian(servers: int, load: float, seconds: float) -> float:
    """The probability that a wait in M/M/c, first come first served, exceeds this: C e^(-c (1 - load) t).

    Kleinrock 1975, as above.

    >>> tail_of_markovian(1, 0.5, 0.0)
    0.5
    """
    return erlang_c(servers, load) * math.exp(-servers * (1.0 - load) * seconds)


def wait_of_deterministic(load: float) -> float:
    """The mean wait of M/D/1, services of 1: load / (2 (1 - load)), half of M/M/1. Pollaczek 1930, Khinchine 1932.

    >>> wait_of_deterministic(0.5)
    0.5
    """
    return load / (2.0 * (1.0 - load))


def wait_under_priorities(first_wait: float, load: float, load_above: float) -> float:
    """The mean wait of a class under strict priorities without preemption: W_0 / ((1 - with) (1 - above)).

    Cobham 1954, "Priority assignment in waiting line problems". `load` is of the class alone, `load_above` of the ones
    before it, each as a part of all servers.

    >>> wait_under_priorities(0.5, load=0.5, load_above=0.0)
    1.0
    """
    return first_wait / ((1.0 - load_above - load) * (1.0 - load_above))


# The queues


@attrs.frozen(kw_only=True)
class Stream:
    """Arrivals of one class."""

    per_second: float
    service: Fixed | Exponential = Exponential(mean_seconds=1.0)
    priority: Priority = Priority.NORMAL

    @property
    def mean_seconds(self) -> float:
        return self.service.mean_seconds

    @property
    def mean_square(self) -> float:
        """The second moment of the service time."""
        return self.mean_seconds**2 * (1.0 if isinstance(self.service, Fixed) else 2.0)


@attrs.frozen(kw_only=True)
class System:
    """A queue that theory knows."""

    streams: tuple[Stream, ...]
    """The highest class first."""
    workers: int = 1
    ordering: OrderingPolicy = Arrival()

    def load_of(self, stream: Stream) -> float:
        """The part of all workers that this class keeps busy."""
        return stream.per_second * stream.mean_seconds / self.workers

    @property
    def load(self) -> float:
        return sum(self.load_of(stream) for stream in self.streams)

    @property
    def first_wait(self) -> float:
        """W_0, how long until a worker is free, if nobody else waits.

        For one worker half the rate times the second moment, summed over the classes (Pollaczek, Khinchine); for more it
        is C / c, known only if all services are exponential with the same mean, here 1.
        """
        if self.workers == 1:
            return sum(stream.per_second * stream.mean_square for stream in self.streams) / 2.0
        assert all(stream.service == Exponential(mean_seconds=1.0) for stream in self.streams), "W_0 is not known"
        return erlang_c(self.workers, self.load) / self.workers

    def cobham(self) -> dict[Priority, float]:
        """The mean wait of each class under strict priorities."""
        waits, above = {}, 0.0
        for stream in self.streams:
            waits[stream.priority] = wait_under_priorities(self.first_wait, self.load_of(stream), above)
            above += self.load_of(stream)
        return waits

    def conserved(self) -> float:
        """What load times wait sums to over the classes in every order that leaves no worker idle beside work.

        Kleinrock 1965, "A conservation law for a wide class of queueing disciplines".
        """
        return self.load * self.first_wait / (1.0 - self.load)


def markovian(workers: int, load: float) -> System:
    return System(workers=workers, streams=(Stream(per_second=workers * load),))


MM1, MM8 = markovian(1, 0.7), markovian(8, 0.8)
MD1 = System(streams=(Stream(per_second=0.7, service=Fixed(seconds=1.0)),))

# Classes that differ in their services: a kind each, so the shard has to compare the heads of several lanes.
MIXED = (
    Stream(per_second=0.4, service=Fixed(seconds=0.5), priority=Priority.CRITICAL),
    Stream(per_second=0.25, service=Exponential(mean_seconds=1.0), priority=Priority.HIGH),
    Stream(per_second=0.15, service=Exponential(mean_seconds=1.5), priority=Priority.LOW),
)
ALIKE = (
    Stream(per_second=0.4, priority=Priority.VERY_HIGH),
    Stream(per_second=0.5, priority=Priority.NORMAL),
    Stream(per_second=0.5, priority=Priority.VERY_LOW),
)
STRICT1, STRICT2 = System(streams=MIXED, ordering=Strict()), System(streams=ALIKE, workers=2, ordering=Strict())
# A head start about as long as the waits are: an order that is neither arrival nor strict.
AGING1 = attrs.evolve(STRICT1, ordering=Aging(aging_seconds=1.0))
AGING2 = attrs.evolve(STRICT2, ordering=Aging(aging_seconds=1.0))
ORDERED = {"strict, one": STRICT1, "strict, two": STRICT2, "aging, one": AGING1, "aging, two": AGING2}

# The measurements

SEEDS = range(20)
JOBS = 2_500
"""Arrivals of a run, on average."""
WARMUP_PART = 0.1
Z_MAX = 4.0


@attrs.frozen(kw_only=True)
class Waits:
    """What the tasks of one run waited, in seconds."""

    mean: float
    by_level: Mapping[Priority, float]
    each: "array[float]"
    work: float
    """The sum of service times wait over all tasks, those of the warm-up too."""

    def part_above(self, seconds: float) -> float:
        return sum(wait > seconds for wait in self.each) / len(self.each)


def scenario_of(system: System, seed: int) -> Scenario:
    duration_seconds = JOBS / sum(stream.per_second for stream in system.streams)
    kinds = tuple(Kind(name=f"kind {n}", service=stream.service) for n, stream in enumerate(system.streams))
    arrivals = tuple(
        Poisson(kind=kind.name, per_second=stream.per_second, priority=stream.priority)
        for kind, stream in zip(kinds, system.streams, strict=True)
    )
    return Scenario(
        name="theory",
        seed=seed,
        duration_seconds=duration_seconds,
        warmup_seconds=duration_seconds * WARMUP_PART,
        # A bounded burst would let others go before critical tasks, which Cobham's formula does not.
        runtime=Runtime(workers=system.workers, ordering=system.ordering, critical_burst=None),
        kinds=kinds,
        users=(User(name="alice", arrivals=arrivals),),
    )


@cache
def measured(system: System) -> tuple[Waits, ...]:
    """What each seed gave; kept, because several tests look at the same runs."""
    return tuple(waits_of(scenario_of(system, seed)) for seed in SEEDS)


def waits_of(scenario: Scenario) -> Waits:
    """The waits of a run, every invariant of which held."""
    result = simulate(scenario)
    assert result.passed, result.violations
    end, table = result.virtual_seconds, result.table
    levels = (arrivals.priority for user in scenario.users for arrivals in user.arrivals)
    return Waits(
        mean=known(result.overall.wait_seconds_mean),
        by_level={level: known(result.levels[level.name.lower()].wait_seconds_mean) for level in levels},
        each=array("d", (task.time_in_queue(end) for task in table if task.order_at >= scenario.warmup_seconds)),
        work=math.fsum(task.time_in_progress(end) * task.time_in_queue(end) for task in table),
    )


def known(value: float | None) -> float:
    assert value is not None
    return value


def z_score(values: Sequence[float], theory: float) -> float:
    """How many standard errors the mean of these values is from the theory.

    >>> z_score([1.0, 2.0, 3.0, 4.0, 5.0], 3.0)
    0.0
    """
    return (statistics.fmean(values) - theory) / (statistics.stdev(values) / math.sqrt(len(values)))


def z_of(system: System, statistic: Callable[[Waits], float], theory: float) -> float:
    return z_score([statistic(waits) for waits in measured(system)], theory)


def mean_wait(waits: Waits) -> float:
    return waits.mean


def wait_of(level: Priority) -> Callable[[Waits], float]:
    return lambda waits: waits.by_level[level]


def weighted_by_load(system: System) -> Callable[[Waits], float]:
    """The sum of load times wait over the classes: the left side of the conservation law."""
    return lambda waits: sum(system.load_of(stream) * waits.by_level[stream.priority] for stream in system.streams)


# First come, first served


@pytest.mark.parametrize(("workers", "load"), [(1, 0.7), (2, 0.75), (8, 0.8)])
def test_waits_of_markovian_queues_agree_with_erlang_c(workers: int, load: float) -> None:
    assert abs(z_of(markovian(workers, load), mean_wait, wait_of_markovian(workers, load))) <= Z_MAX


@pytest.mark.parametrize(("workers", "load"), [(1, 0.7), (2, 0.75), (8, 0.8)])
@pytest.mark.parametrize("times_mean", [0.0, 1.0, 3.0])
def test_the_part_of_tasks_that_waits_longer_agrees_with_erlang_c(workers: int, load: float, times_mean: float) -> None:
    seconds = times_mean * wait_of_markovian(workers, load)
    theory = tail_of_markovian(workers, load, seconds)
    assert abs(z_of(markovian(workers, load), lambda waits: waits.part_above(seconds), theory)) <= Z_MAX


def test_waits_with_fixed_services_are_half_of_waits_with_exponential_ones() -> None:
    assert wait_of_deterministic(0.7) == pytest.approx(wait_of_markovian(1, 0.7) / 2)
    assert abs(z_of(MD1, mean_wait, wait_of_deterministic(0.7))) <= Z_MAX
    doubled = [
        2 * fixed.mean - exponential.mean for fixed, exponential in zip(measured(MD1), measured(MM1), strict=True)
    ]
    assert abs(z_score(doubled, 0.0)) <= Z_MAX


# Priorities


@pytest.mark.parametrize("system", [STRICT1, STRICT2], ids=["one worker", "two workers"])
def test_waits_of_strict_levels_agree_with_cobham(system: System) -> None:
    z = {level: z_of(system, wait_of(level), theory) for level, theory in system.cobham().items()}
    assert all(abs(value) <= Z_MAX for value in z.values()), z


@pytest.mark.parametrize("system", ORDERED.values(), ids=ORDERED)
def test_load_times_wait_is_conserved_in_every_order(system: System) -> None:
    assert abs(z_of(system, weighted_by_load(system), system.conserved())) <= Z_MAX


def test_cobhams_waits_obey_the_conservation_law() -> None:
    for system in (STRICT1, STRICT2):
        waits = system.cobham()
        total = sum(system.load_of(stream) * waits[stream.priority] for stream in system.streams)
        assert total == pytest.approx(system.conserved())


def test_critical_tasks_wait_as_the_highest_class_whatever_the_order_of_the_others() -> None:
    assert abs(z_of(AGING1, wait_of(Priority.CRITICAL), AGING1.cobham()[Priority.CRITICAL])) <= Z_MAX


def test_one_worker_leaves_the_same_work_waiting_in_every_order_exactly() -> None:
    # The conservation law of a single run: the work in the system does not depend on the order, and its integral over
    # time is the sum of service times wait, plus half the squared services.
    for strict, aging in zip(measured(STRICT1), measured(AGING1), strict=True):
        assert strict.work == pytest.approx(aging.work, rel=1e-9)


# Little's law


class Population:
    """Integrates over time how many tasks of each user are between two events."""

    def __init__(self, enter: type, leave: type) -> None:
        self.enter, self.leave = enter, leave
        self.present: dict[str, int] = {}
        self.task_seconds: dict[str, float] = {}
        self.changed_at: dict[str, float] = {}

    def on_event(self, event: Event) -> None:
        if type(event) is self.enter:
            self._change(event, 1)
        elif type(event) is self.leave:
            self._change(event, -1)

    def on_quiet(self, now: float) -> None:
        """Events are enough."""

    def mean(self, user: str, seconds: float) -> float:
        """How many there were on average, over a run of this length that has drained."""
        assert self.present[user] == 0
        return self.task_seconds[user] / seconds

    def _change(self, event: Event, by: int) -> None:
        assert isinstance(event, Admitted | Started | Completed)
        user = event.task.partition("#")[0]
        present = self.present.get(user, 0)
        elapsed = event.at - self.changed_at.get(user, 0.0)
        self.task_seconds[user] = self.task_seconds.get(user, 0.0) + present * elapsed
        self.present[user], self.changed_at[user] = present + by, event.at


def crowd(seed: int) -> Scenario:
    """Three users of different weights, at three levels each, on three workers that are busy 9 parts in 10."""
    levels = (Priority.CRITICAL, Priority.HIGH, Priority.LOW)
    arrivals = tuple(Poisson(kind="work", per_second=0.3, priority=level) for level in levels)
    return Scenario(
        name="crowd",
        seed=seed,
        duration_seconds=500.0,
        runtime=Runtime(workers=3),
        kinds=(Kind(name="work", service=Exponential(mean_seconds=1.0)),),
        users=tuple(
            User(name=name, weight=n, arrivals=arrivals) for n, name in enumerate(("ann", "ben", "cy"), start=1)
        ),
    )


@pytest.mark.parametrize("sharing", ["weighted_fair", "round_robin", "fifo"])
@pytest.mark.parametrize("ordering", ["aging", "strict", "fifo"])
def test_the_number_waiting_is_the_arrival_rate_times_the_mean_wait_exactly(sharing: str, ordering: str) -> None:
    waiting, running = Population(Admitted, Started), Population(Started, Completed)
    result = simulate(crowd(seed=1), sharing=sharing, ordering=ordering, observers=[waiting, running])
    seconds = result.virtual_seconds
    for user, metrics in result.users.items():
        rate, wait = metrics.completed / seconds, known(metrics.wait_seconds_mean)
        assert wait > 0
        assert waiting.mean(user, seconds) == pytest.approx(rate * wait, rel=1e-6)
        assert running.mean(user, seconds) == pytest.approx(metrics.service_seconds / seconds, rel=1e-6)


# The checks can fail


def test_littles_law_does_not_hold_for_tasks_that_have_started() -> None:
    in_system = Population(Admitted, Completed)
    result = simulate(crowd(seed=1), observers=[in_system])
    seconds = result.virtual_seconds
    for user, metrics in result.users.items():
        waiting = metrics.completed / seconds * known(metrics.wait_seconds_mean)
        assert in_system.mean(user, seconds) != pytest.approx(waiting, rel=1e-6)


@pytest.mark.parametrize(("workers", "load"), [(1, 0.7), (2, 0.75), (8, 0.8)])
@pytest.mark.parametrize("wrong", [0.9, 1.1])
def test_a_load_that_is_off_by_a_tenth_is_noticed(workers: int, load: float, wrong: float) -> None:
    assert abs(z_of(markovian(workers, load), mean_wait, wait_of_markovian(workers, load * wrong))) > Z_MAX


def test_one_kind_of_service_taken_for_the_other_is_noticed() -> None:
    assert abs(z_of(MM1, mean_wait, wait_of_deterministic(0.7))) > Z_MAX
    assert abs(z_of(MD1, mean_wait, wait_of_markovian(1, 0.7))) > Z_MAX


def test_eight_workers_taken_for_one_that_is_eight_times_as_fast_are_noticed() -> None:
    assert abs(z_of(MM8, mean_wait, wait_of_markovian(1, 0.8) / 8)) > Z_MAX


@pytest.mark.parametrize("system", [AGING1, AGING2], ids=["one worker", "two workers"])
def test_aging_taken_for_strict_is_noticed_at_every_level_but_critical(system: System) -> None:
    waits = system.cobham()
    waits.pop(Priority.CRITICAL, None)
    assert all(abs(z_of(system, wait_of(level), theory)) > Z_MAX for level, theory in waits.items())


def test_orders_differ_where_nothing_says_that_they_must_not() -> None:
    for strict, aging in zip(measured(STRICT1), measured(AGING1), strict=True):
        assert strict.mean != pytest.approx(aging.mean, rel=1e-9), "waits that are not weighted by the work"
    for strict, aging in zip(measured(STRICT2), measured(AGING2), strict=True):
        assert strict.work != pytest.approx(aging.work, rel=1e-9), "more than one worker"


@pytest.mark.parametrize("system", [STRICT1, STRICT2], ids=["one worker", "two workers"])
def test_strict_taken_for_first_come_is_noticed_at_every_level(system: System) -> None:
    first_come = system.first_wait / (1.0 - system.load)
    assert all(abs(z_of(system, wait_of(stream.priority), first_come)) > Z_MAX for stream in system.streams)


@pytest.mark.parametrize("system", ORDERED.values(), ids=ORDERED)
def test_a_conserved_sum_that_is_off_by_a_third_is_noticed(system: System) -> None:
    assert abs(z_of(system, weighted_by_load(system), system.conserved() * 4 / 3)) > Z_MAX
