"""The timetable's core against a plain model: no time fires twice and none is lost, whatever is late, lost or restarted."""

from collections import Counter
from itertools import takewhile
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actors import InvalidConfig, InvalidTask, Notes, Priority, RetryPolicy, Scheduled, Table, UnknownSchedule
from actors.actor import NEVER, Effects, keyed_draw
from actors.cron import fire_times
from actors.ids import derived_id
from actors.messages import QUEUE, Accepted, Answered, Failed, Refused, Schedule, Submit, Unschedule, Wake
from actors.timetable import TIMETABLE, Timetable
from actors.trace import ScheduleFired
from tests.test_sharing import finds

DRAW = keyed_draw(7)
ME = "ask/1"
BEGIN = 1711800000.0
"""30 March 2024, noon in Greenwich: in the night that follows, clocks in Berlin are changed."""


class World:
    """A timetable, the table that keeps its notes, and all it had to say. Whoever drives it may be as late as he likes."""

    def __init__(self, now: float = BEGIN) -> None:
        self.now = now
        self.table = Table()
        self.submits: list[Submit] = []
        self.events: list[ScheduleFired] = []
        self.answers: list[Answered] = []
        self.restart()

    def restart(self) -> None:
        """From what any store could have kept."""
        self.timer = NEVER
        saved = msgspec.json.decode(msgspec.json.encode(self.table.notes(TIMETABLE)))
        self.timetable = Timetable(Notes(TIMETABLE, saved), payload_bytes_max=100)
        self.take(self.timetable.start(self.now))

    def tell(self, message: Any) -> None:
        self.take(self.timetable.handle(message, self.now, DRAW))

    def crash_on(self, message: Any) -> None:
        """All that it wanted done is lost, and so is the message."""
        self.timetable.handle(message, self.now, DRAW)
        self.restart()

    def take(self, effects: Effects) -> None:
        for record in effects.records:
            self.table.apply(record)
        for event in effects.events:
            assert isinstance(event, ScheduleFired) and event.at == self.now
            self.events.append(event)
        for receiver, message in effects.sends:
            assert receiver == QUEUE
            self.submits.append(message)
        for receiver, message in effects.held:
            assert receiver == ME
            self.answers.append(message)
        if effects.timer is not None:
            self.timer = effects.timer

    def catch_up(self) -> None:
        """Fire the timer as long as it is due."""
        while self.timer <= self.now:
            self.timer = NEVER
            self.tell(Wake())

    def wait(self, seconds: float) -> None:
        """Time passes, and nobody is late."""
        until = self.now + seconds
        while self.timer <= until:
            self.now = max(self.now, self.timer)
            self.catch_up()
        self.now = until

    def ask(self, message: Any) -> Exception | None:
        self.tell(message)
        return self.answers.pop().error


def schedule(name: str = "nightly", cron: str = "0 3 * * *", **said: Any) -> Schedule:
    submit = Submit(id="", user="alice", kind="report", **said.pop("submit", {}))
    message = Schedule(
        name=name, cron=cron, timezone="UTC", submit=submit, misfire="run_once", misfire_grace_seconds=60.0, reply_to=ME
    )
    return msgspec.structs.replace(message, **said)


# Against a plain model


@attrs.define
class Plan:
    """A schedule as the model knows it."""

    order: Schedule
    after: float
    """All times up to this one were seen to."""

    def see_to(self, now: float) -> tuple[list[float], int]:
        """The times that have a task of their own, and how many have none."""
        times = takewhile(lambda at: at <= now, fire_times(self.order.cron, self.order.timezone, self.after))
        in_time, missed = list[float](), list[float]()
        for at in times:
            self.after = at
            (missed if now - at > self.order.misfire_grace_seconds else in_time).append(at)
        kept = {"run_all": missed, "run_once": missed[-1:], "skip": []}[self.order.misfire]
        return kept + in_time, len(missed) - len(kept)


class Model:
    def __init__(self) -> None:
        self.plans: dict[str, Plan] = {}
        self.submitted: list[tuple[str, float]] = []
        self.missed = 0

    def see_to(self, name: str, now: float) -> None:
        times, missed = self.plans[name].see_to(now)
        self.submitted += [(name, at) for at in times]
        self.missed += missed

    def see_to_all(self, now: float) -> None:
        for name in self.plans:
            self.see_to(name, now)

    def add(self, order: Schedule, now: float) -> None:
        plan = self.plans.get(order.name)
        if plan is not None and (plan.order.cron, plan.order.timezone) == (order.cron, order.timezone):
            plan.order = order
            return
        if plan is not None:
            self.see_to(order.name, now)
        self.plans[order.name] = Plan(order, now)


CRONS = ["* * * * *", "*/7 * * * *", "30 2 * * *", "15,45 1-3 * * *", "0 */6 * * *", "0 9 * * 1"]
names = st.sampled_from(["a", "b", "a/1"])
orders = st.builds(
    schedule,
    name=names,
    cron=st.sampled_from(CRONS),
    timezone=st.sampled_from(["UTC", "Europe/Berlin"]),
    misfire=st.sampled_from(["run_once", "run_all", "skip"]),
    misfire_grace_seconds=st.sampled_from([0.0, 60.0, 300.0, 1e6]),
)
seconds = st.one_of(st.floats(0, 90), st.integers(0, 180).map(float), st.floats(0, 20_000), st.just(86_400.0))
steps = st.one_of(
    st.tuples(st.just("schedule"), orders),
    st.tuples(st.just("schedule and crash"), orders),
    st.tuples(st.just("unschedule"), names),
    st.tuples(st.just("wait"), seconds),
    st.tuples(st.just("stand still"), seconds),
    st.tuples(st.just("wake"), st.none()),
    st.tuples(st.just("wake and crash"), st.none()),
    st.tuples(st.just("restart"), st.none()),
)
SCRIPTS: dict[str, Any] = {
    "script": st.integers(1, 25).flatmap(lambda length: st.lists(steps, min_size=length, max_size=length))
}


def act(world: World, model: Model, what: str, value: Any) -> None:
    """One step of a script, in the world and in the model."""
    match what:
        case "schedule":
            model.add(value, world.now)
            assert world.ask(value) is None
        case "schedule and crash":
            world.crash_on(value)
        case "unschedule":
            known = model.plans.pop(value, None)
            assert (world.ask(Unschedule(value, ME)) is None) == (known is not None)
        case "wait":
            until = world.now + value
            while (at := min((plan_next(plan) for plan in model.plans.values()), default=NEVER)) <= until:
                model.see_to_all(max(at, world.now))
            world.wait(value)
        case "stand still":
            world.now += value
            return
        case "wake":
            world.tell(Wake())
        case "wake and crash":
            world.crash_on(Wake())
        case "restart":
            world.restart()
    model.see_to_all(world.now)
    world.catch_up()


def plan_next(plan: Plan) -> float:
    return next(fire_times(plan.order.cron, plan.order.timezone, plan.after), NEVER)


@given(**SCRIPTS)
@example(script=[("schedule", schedule("a", "* * * * *")), ("stand still", 7_200.0), ("wake", None)])
@example(script=[("schedule", schedule("a", "*/7 * * * *")), ("stand still", 7_200.0), ("schedule", schedule("a"))])
def test_no_time_fires_twice_and_none_is_lost(script: list[tuple[str, Any]]) -> None:
    """`stand still` lets the next step come before the timer that is due."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("actors.timetable._DUE_AT_ONCE_MAX", 50)
        world, model = World(), Model()
        for what, value in script:
            act(world, model, what, value)
            if what == "stand still":
                continue
            assert fired(world) == Counter(model.submitted)
            assert sum(event.submitted for event in world.events) == len(model.submitted)
            assert sum(event.missed for event in world.events) == model.missed
            upcoming = {name: plan_next(plan) for name, plan in model.plans.items()}
            assert {found.name: found.next_at for found in world.timetable.scheduled()} == upcoming
            assert world.timer == min(upcoming.values(), default=NEVER)


def fired(world: World) -> Counter[tuple[str, float]]:
    """For which schedule and time each task was submitted, by its idempotency key, which must be its own."""
    found: Counter[tuple[str, float]] = Counter()
    for submit in world.submits:
        assert submit.idempotency_key is not None
        name, _, at = submit.idempotency_key.removeprefix("schedule/").rpartition("/")
        assert submit.id == derived_id(submit.idempotency_key, float(at))
        found[name, float(at)] += 1
    assert len({submit.id for submit in world.submits}) == len(found)
    return found


def forgets_its_last_time(self: Timetable, name: str, entry: dict[str, Any]) -> None:
    self._entries[name] = entry
    self._notes["entry/" + name] = self._notes.get("entry/" + name, entry)


def begins_anew(entry: dict[str, Any], at: float, later: float, now: float) -> bool:
    return bool(now - at <= entry["grace"])


@pytest.mark.parametrize("bug", ["forgets its last time", "coalesces what is in time", "loses what was missed"])
def test_the_model_finds_a_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if bug == "forgets its last time":
        monkeypatch.setattr(Timetable, "_keep", forgets_its_last_time)
    elif bug == "coalesces what is in time":
        monkeypatch.setattr(
            "actors.timetable._is_wanted", lambda entry, at, later, now: later > now or entry["misfire"] == "run_all"
        )
    else:
        monkeypatch.setattr("actors.timetable._is_wanted", begins_anew)
    finds(test_no_time_fires_twice_and_none_is_lost, **SCRIPTS)


# Misfires, one by one


@pytest.mark.parametrize(
    ("misfire", "submitted", "missed"),
    [
        ("run_once", [120.0, 180.0, 240.0], 1),
        ("run_all", [60.0, 120.0, 180.0, 240.0], 0),
        ("skip", [180.0, 240.0], 2),
    ],
)
def test_what_is_later_than_the_grace_is_missed_and_the_rest_is_not(
    misfire: str, submitted: list[float], missed: int
) -> None:
    world = World(0.0)
    assert world.ask(schedule("m", "* * * * *", misfire=misfire, misfire_grace_seconds=70.0)) is None
    world.now = 250.0
    world.catch_up()
    assert [at for _, at in fired(world)] == submitted
    assert world.events == [ScheduleFired(250.0, "m", 240.0, len(submitted), missed)]


def test_exactly_as_late_as_the_grace_is_in_time() -> None:
    world = World(0.0)
    world.ask(schedule("m", "* * * * *", misfire="skip", misfire_grace_seconds=30.0))
    world.now = 90.0
    world.catch_up()
    assert [at for _, at in fired(world)] == [60.0]


def test_of_a_month_of_missed_minutes_one_is_run_and_the_others_are_counted() -> None:
    world = World(0.0)
    world.ask(schedule("m", "* * * * *"))
    world.now = 30 * 86_400.0 + 30.0
    world.catch_up()
    times = 30 * 1_440
    # The last missed one, and the one that is in time.
    assert [at for _, at in fired(world)] == [world.now - 90, world.now - 30]
    assert sum(event.missed for event in world.events) == times - 2


# What stands


def test_a_schedule_says_when_it_fires_next_and_when_it_last_did() -> None:
    world = World(0.0)
    world.ask(schedule("b", "*/5 * * * *"))
    world.ask(schedule("a", "0 3 * * *", timezone="Europe/Berlin"))
    world.wait(400.0)
    assert world.timetable.scheduled() == [
        Scheduled("a", "0 3 * * *", "Europe/Berlin", "report", "alice", 7200.0, None),
        Scheduled("b", "*/5 * * * *", "UTC", "report", "alice", 600.0, 300.0),
    ]
    assert repr(world.timetable) == "<Timetable: 2 schedules>"
    world.ask(Unschedule("a", ME))
    world.ask(Unschedule("b", ME))
    assert world.timetable.scheduled() == []
    assert world.timer == NEVER


def test_a_schedule_that_is_declared_again_goes_on_with_its_new_task() -> None:
    world = World(0.0)
    world.ask(schedule("m", "*/5 * * * *", submit={"payload": 1}))
    world.wait(310.0)
    world.ask(schedule("m", "*/5 * * * *", submit={"payload": 2}))
    assert world.timetable.scheduled()[0].last_at == 300.0
    world.wait(300.0)
    assert [submit.payload for submit in world.submits] == [1, 2]


def test_at_other_times_it_begins_now_and_what_was_due_before_is_not_lost() -> None:
    world = World(0.0)
    world.ask(schedule("m", "0 3 * * *", misfire="run_all"))
    world.now = 15.5 * 3600
    assert world.ask(schedule("m", "0 * * * *", misfire="run_all")) is None
    assert [at for _, at in fired(world)] == [3 * 3600.0], "as it was meant, and no hours of the morning"
    assert world.timetable.scheduled()[0].next_at == 16 * 3600.0


@given(
    retry=st.none() | st.just(RetryPolicy(max_retries=2, retry_on=("OSError",), give_up_on=(ValueError,))),
    priority=st.sampled_from([Priority.HIGH, "high", 4]),
    cost=st.none() | st.just(2.5),
    payload=st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3), st.lists, max_leaves=4),
    persist=st.booleans(),
)
def test_the_task_is_the_one_that_was_scheduled(**said: Any) -> None:
    world = World(0.0)
    assert world.ask(schedule("m", "* * * * *", submit=said)) is None
    world.restart()
    world.wait(60.0)
    (submit,) = world.submits
    assert submit.id == derived_id("schedule/m/60", 60.0)
    assert Priority.parse(submit.priority) is Priority.HIGH
    assert (submit.retry, submit.cost, submit.payload) == (said["retry"], said["cost"], said["payload"])
    assert (submit.user, submit.kind, submit.persist, submit.reply_to) == ("alice", "report", said["persist"], None)


def test_a_submit_that_the_queue_crashed_on_is_sent_again_as_it_was() -> None:
    world = World(0.0)
    world.ask(schedule("m", "* * * * *"))
    world.wait(60.0)
    world.tell(Failed(QUEUE, world.submits[0], "ValueError: boom"))
    assert world.submits == [world.submits[0]] * 2


def test_answers_of_the_queue_need_nothing() -> None:
    world = World(0.0)
    world.ask(schedule("m", "* * * * *"))
    world.wait(60.0)
    for answer in (Accepted("x", "x"), Refused("x", InvalidTask("no"))):
        world.tell(answer)
    assert len(world.submits) == 1 and world.timer == 120.0


def test_nobody_need_wait_for_an_answer() -> None:
    world = World(0.0)
    world.tell(schedule("m", "* * * * *", reply_to=None))
    world.tell(schedule("m", "nonsense", reply_to=None))
    world.tell(Unschedule("n"))
    assert world.answers == [] and len(world.timetable.scheduled()) == 1


# What is refused

ONE_FOR_ALL = "it would be one for all times"
BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    (
        {"misfire": "run_twice"},
        InvalidConfig,
        "misfire must be one of run_once, run_all, skip, got 'run_twice' (did you mean 'run_once'?)",
    ),
    ({"misfire": None}, InvalidConfig, "misfire must be one of run_once, run_all, skip, got None"),
    (
        {"misfire_grace_seconds": -1},
        InvalidConfig,
        "misfire_grace_seconds must be a finite number >= 0, got -1",
    ),
    (
        {"misfire_grace_seconds": float("inf")},
        InvalidConfig,
        "misfire_grace_seconds must be a finite number >= 0, got inf",
    ),
    ({"name": ""}, InvalidConfig, "name of a schedule must be printable text, got ''"),
    ({"name": "a\n"}, InvalidConfig, "name of a schedule must be printable text, got 'a\\n'"),
    ({"name": 5}, InvalidConfig, "name of a schedule must be printable text, got 5"),
    ({"name": []}, InvalidConfig, "name of a schedule must be printable text, got []"),
    (
        {"cron": "0 3 * *"},
        InvalidConfig,
        "cron must be an expression of five fields, or six with seconds first, got '0 3 * *': Wrong number of fields",
    ),
    ({"timezone": "Mars"}, InvalidConfig, "timezone must be a name such as 'Europe/Berlin', got 'Mars'"),
    ({"submit": {"user": ""}}, InvalidTask, "user must be 1 to 128 printable characters, got ''"),
    ({"submit": {"kind": ""}}, InvalidTask, "kind must be 1 to 128 printable characters, got ''"),
    ({"submit": {"payload": "x" * 99}}, InvalidTask, "payload must be at most 100 bytes as JSON, got 101"),
    ({"submit": {"cost": 0}}, InvalidTask, "cost must be a finite number > 0, got 0"),
    (
        {"submit": {"priority": "urgent"}},
        InvalidTask,
        "priority must be one of very_low, low, normal, high, very_high, critical or 1 to 6, got 'urgent'",
    ),
    (
        {"submit": {"idempotency_key": "k"}},
        InvalidTask,
        f"a scheduled task must not have an idempotency_key, got 'k': {ONE_FOR_ALL}",
    ),
    (
        {"submit": {"run_after": 5.0}},
        InvalidTask,
        f"a scheduled task must not have a delay_seconds or run_after, got 5.0: {ONE_FOR_ALL}",
    ),
    (
        {"submit": {"expires_at": 5.0}},
        InvalidTask,
        f"a scheduled task must not have an expires_after_seconds or expires_at, got 5.0: {ONE_FOR_ALL}",
    ),
]


@pytest.mark.parametrize(("said", "kind", "fault"), BAD, ids=[fault for _, _, fault in BAD])
def test_what_is_no_schedule_is_refused_and_changes_nothing(
    said: dict[str, Any], kind: type[Exception], fault: str
) -> None:
    world = World(0.0)
    world.ask(schedule())
    before = world.timetable.scheduled(), world.timer, dict(world.table.notes(TIMETABLE))
    submit = msgspec.structs.replace(schedule().submit, **said.get("submit", {}))
    error = world.ask(msgspec.structs.replace(schedule(), **said | {"submit": submit}))
    assert type(error) is kind and str(error) == fault
    assert (world.timetable.scheduled(), world.timer, world.table.notes(TIMETABLE)) == before


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("nigthly", "no schedule has the name 'nigthly' (did you mean 'nightly'?)"),
        ("other", "no schedule has the name 'other'"),
        (["nightly"], "no schedule has the name ['nightly']"),
    ],
)
def test_a_schedule_that_is_not_there_cannot_be_removed(name: Any, fault: str) -> None:
    world = World(0.0)
    world.ask(schedule())
    error = world.ask(Unschedule(name, ME))
    assert isinstance(error, UnknownSchedule) and str(error).startswith(fault)
    assert len(world.timetable.scheduled()) == 1
