"""The queue's core: what it lets in, what it refuses and how it says so, and what it remembers."""

import math
import re
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import Phase, Verbosity, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from actors import EvenhandError, InvalidTask, KindSettings, Notes, QueueFull, RetryPolicy, Settings, Table, Task, moves
from actors.actor import Effects, keyed_draw
from actors.messages import (
    QUEUE,
    Accepted,
    Enqueue,
    Failed,
    Readmitted,
    Refused,
    Settled,
    Submit,
    Wake,
    nobody_at,
    shard_address,
)
from actors.queue import Queue
from actors.trace import SubmitRefused

CLIENT = "client/1"
DRAW = keyed_draw(7)


class Desk:
    """A queue, and the table that keeps its notes as the host would."""

    def __init__(self, **options: Any) -> None:
        # How much of a bound one user may take is another matter than the bound.
        self.settings = Settings(**{"admission_share": None} | options)
        self.table = Table()
        self.submitted = 0
        self.restart()

    def restart(self) -> None:
        """The notes pass through JSON, as they would through a store."""
        saved = msgspec.json.decode(msgspec.json.encode(dict(self.table.notes(QUEUE))))
        self.queue = Queue(self.settings, Notes(QUEUE, saved), self.table)
        assert not self.queue.start(0.0).sends

    def tell(self, message: Any, now: float = 0.0) -> Effects:
        effects = self.queue.handle(message, now, DRAW)
        for record in effects.records:
            self.table.apply(record)
        return effects

    def submit(self, now: float = 0.0, **changes: Any) -> Effects:
        self.submitted += 1
        fields = {"id": f"t{self.submitted}", "user": "alice", "kind": "crawl", "reply_to": CLIENT}
        return self.tell(Submit(**fields | changes), now)

    def admit(self, now: float = 0.0, **changes: Any) -> Task:
        return admitted(self.submit(now, **changes))

    def refuse(self, **changes: Any) -> Exception:
        return refused(self.submit(**changes))


def only(found: list[Any]) -> Any:
    assert len(found) == 1
    return found[0]


def admitted(effects: Effects) -> Task:
    """The task on its way to its shard, when that is all that happened."""
    receiver, enqueue = only(effects.sends)
    assert isinstance(enqueue, Enqueue)
    assert (receiver, enqueue.reply_to) == (shard_address(enqueue.task.user), CLIENT)
    assert not effects.held and not effects.events, "the shard answers, once the task is in"
    return enqueue.task


def refused(effects: Effects) -> Exception:
    """The error that the submitter was told, when that is all that happened."""
    receiver, answer = only(effects.sends)
    assert receiver == CLIENT
    assert isinstance(answer, Refused)
    event = only(effects.events)
    assert isinstance(event, SubmitRefused)
    assert event.error == str(answer.error)
    assert not effects.held and not effects.records
    return answer.error


def known(effects: Effects) -> str:
    """The id of the task that the key already meant, when the submitter was told that and nothing else happened."""
    receiver, answer = only(effects.held)
    assert receiver == CLIENT
    assert isinstance(answer, Accepted)
    assert not effects.sends and not effects.events and not effects.records
    return answer.task_id


def ended(task: Task, outcome: str = "completed", used_seconds: float = 1.0) -> Settled:
    return Settled(task.user, task.kind, task.id, "worker/1", task.cost, used_seconds, outcome, True)


# Admission and keys, against a plain model


users = st.sampled_from(["alice", "bob", "a", "a/b"])
keys = st.sampled_from([None, "k", "b/c", "c"])
places = st.integers(0, 20)
faults: Any = st.sampled_from(
    [{"cost": -1.0}, {"user": ""}, {"kind": ""}, {"payload": object()}, {"run_after": math.nan}]
)


class DoorMachine(RuleBasedStateMachine):
    """Everybody who talks to the queue, and what it must have made of it."""

    bound: ClassVar[int | None] = 3

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(admitted_max=self.bound)
        self.inside: dict[str, Task] = {}
        self.failed: dict[str, Task] = {}
        self.keys: dict[tuple[str, str], str] = {}
        self.sequences = [0]

    @rule(user=users, key=keys)
    def submit(self, user: str, key: str | None) -> None:
        effects = self.desk.submit(user=user, idempotency_key=key)
        if key is not None and (user, key) in self.keys:
            assert known(effects) == self.keys[user, key], "the same key means the same task"
        elif self.bound is not None and len(self.inside) >= self.bound:
            assert isinstance(refused(effects), QueueFull)
        else:
            self.let_in(admitted(effects))

    def let_in(self, task: Task) -> None:
        assert task.id == f"t{self.desk.submitted}"
        assert task.sequence > self.sequences[-1], "later is later, whatever happened in between"
        self.sequences.append(task.sequence)
        self.inside[task.id] = task
        if task.idempotency_key is not None:
            self.keys[task.user, task.idempotency_key] = task.id

    @rule(user=users, key=keys, fault=faults)
    def submit_what_is_no_task(self, user: str, key: str | None, fault: dict[str, Any]) -> None:
        assert isinstance(self.desk.refuse(**{"user": user, "idempotency_key": key} | fault), InvalidTask)

    def taken(self, tasks: dict[str, Task], place: int) -> Task:
        return tasks.pop(list(tasks)[place % len(tasks)])

    @precondition(lambda self: self.inside)
    @rule(place=places, failed=st.booleans())
    def end(self, place: int, failed: bool) -> None:
        """Its place is free; its key stays, because the task can still be looked up."""
        task = self.taken(self.inside, place)
        if failed:
            self.failed[task.id] = task
        assert not self.desk.tell(ended(task, "failed" if failed else "completed")).sends

    @precondition(lambda self: self.inside)
    @rule(place=places)
    def end_an_execution_only(self, place: int) -> None:
        task = list(self.inside.values())[place % len(self.inside)]
        self.desk.tell(Settled(task.user, task.kind, task.id, "worker/1", 1.0, 1.0, "recovered", False))

    @precondition(lambda self: self.failed)
    @rule(place=places)
    def requeue(self, place: int) -> None:
        """An operator may go over the bound, a submitter may not."""
        task = self.taken(self.failed, place)
        self.inside[task.id] = task
        assert not self.desk.tell(Readmitted(task.id, task.user)).sends

    @precondition(lambda self: self.inside)
    @rule(place=places)
    def put_out(self, place: int) -> None:
        """The shard crashed on the task: it never was, and neither was its key."""
        task = self.taken(self.inside, place)
        if task.idempotency_key is not None:
            del self.keys[task.user, task.idempotency_key]
        answer = self.desk.tell(Failed(shard_address(task.user), Enqueue(task, CLIENT), "boom"))
        _, told = only(answer.sends)
        assert isinstance(told, Refused)
        assert (told.submitted_id, str(told.error)) == (task.id, "boom")

    @rule()
    def restart(self) -> None:
        self.desk.restart()

    @invariant()
    def what_it_says_of_itself_is_true(self) -> None:
        said = "any number may come in" if self.bound is None else f"{len(self.inside)} admitted of {self.bound}"
        assert repr(self.desk.queue) == f"<Queue: {said}>"


class ClosedDoor(DoorMachine):
    bound = 0


class OpenDoor(DoorMachine):
    bound = None


@pytest.mark.parametrize("machine", [DoorMachine, ClosedDoor, OpenDoor])
def test_the_door_admits_what_the_model_admits(machine: type[DoorMachine]) -> None:
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=40))


QUICK = settings(
    max_examples=300,
    stateful_step_count=40,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    verbosity=Verbosity.quiet,
)


def forgetting_refusals(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("actors.door.Door.refusal", lambda self, user: None)


def forgetting_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Queue, "_known", lambda self, task: None)


def mixing_up_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("actors.queue.key_note", lambda task: f"key/{task.user}/{task.idempotency_key}")


def counting_in_memory_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Effects, "keep", lambda self, notes: self)


@pytest.mark.parametrize("bug", [forgetting_refusals, forgetting_keys, mixing_up_keys, counting_in_memory_only])
def test_the_machine_finds(bug: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(DoorMachine, settings=QUICK)


def test_a_bound_of_zero_means_zero_and_says_so() -> None:
    error = Desk(admitted_max=0).refuse()
    assert isinstance(error, QueueFull)
    assert str(error) == "admitted tasks must be at most 0, got one more"


def test_keys_that_look_alike_when_joined_are_different() -> None:
    desk = Desk()
    first = desk.admit(user="a", idempotency_key="b/c")
    second = desk.admit(user="a/b", idempotency_key="c")
    assert first.id != second.id
    assert known(desk.submit(user="a", idempotency_key="b/c")) == first.id
    assert known(desk.submit(user="a/b", idempotency_key="c")) == second.id


def test_a_known_key_is_answered_at_a_full_door() -> None:
    desk = Desk(admitted_max=1)
    first = desk.admit(idempotency_key="k")
    assert known(desk.submit(idempotency_key="k")) == first.id
    assert isinstance(desk.refuse(idempotency_key="other"), QueueFull)


def test_a_refused_submit_takes_no_key_and_no_number() -> None:
    desk = Desk(admitted_max=1)
    first = desk.admit()
    desk.refuse(idempotency_key="k")
    desk.refuse(idempotency_key="k", cost=-1)
    desk.tell(ended(first))
    second = desk.admit(idempotency_key="k")
    assert second.sequence == first.sequence + 1


def test_who_asks_for_no_answer_gets_none() -> None:
    desk = Desk(admitted_max=1)
    _, enqueue = only(desk.submit(reply_to=None, idempotency_key="k").sends)
    assert enqueue.reply_to is None
    again, full = desk.submit(reply_to=None, idempotency_key="k"), desk.submit(reply_to=None)
    assert not again.sends and not again.held and not full.sends and not full.held
    assert [type(event) for event in full.events] == [SubmitRefused]


# What a task must be


BIG = "x" * 129
PRIORITIES = "very_low, low, normal, high, very_high, critical or 1 to 6"
INVALID: list[tuple[dict[str, Any], str]] = [
    ({"user": ""}, "user must be 1 to 128 printable characters, got ''"),
    ({"user": BIG}, f"user must be 1 to 128 printable characters, got '{BIG}'"),
    ({"user": "x" * 999}, "user must be 1 to 128 printable characters, got 999 characters"),
    ({"user": "a\nb"}, r"user must be 1 to 128 printable characters, got 'a\nb'"),
    ({"user": "a\x00"}, r"user must be 1 to 128 printable characters, got 'a\x00'"),
    ({"user": 7}, "user must be 1 to 128 printable characters, got 7"),
    ({"kind": ""}, "kind must be 1 to 128 printable characters, got ''"),
    ({"kind": "a\tb"}, r"kind must be 1 to 128 printable characters, got 'a\tb'"),
    ({"kind": None}, "kind must be 1 to 128 printable characters, got None"),
    ({"idempotency_key": ""}, "idempotency_key must be text that is not empty, got ''"),
    ({"idempotency_key": 7}, "idempotency_key must be text that is not empty, got 7"),
    ({"cost": math.nan}, "cost must be a finite number > 0, got nan"),
    ({"cost": math.inf}, "cost must be a finite number > 0, got inf"),
    ({"cost": 0}, "cost must be a finite number > 0, got 0"),
    ({"cost": -1.5}, "cost must be a finite number > 0, got -1.5"),
    ({"cost": "1"}, "cost must be a finite number > 0, got '1'"),
    ({"cost": True}, "cost must be a finite number > 0, got True"),
    ({"run_after": math.nan}, "run_after must be a finite number of seconds, got nan"),
    ({"run_after": math.inf}, "run_after must be a finite number of seconds, got inf"),
    ({"run_after": True}, "run_after must be a finite number of seconds, got True"),
    ({"expires_at": -math.inf}, "expires_at must be a finite number of seconds, got -inf"),
    ({"expires_at": "noon"}, "expires_at must be a finite number of seconds, got 'noon'"),
    ({"priority": "urgent"}, f"priority must be one of {PRIORITIES}, got 'urgent'"),
    ({"priority": 7}, f"priority must be one of {PRIORITIES}, got 7"),
    ({"priority": True}, f"priority must be one of {PRIORITIES}, got True"),
    ({"payload": "x" * 199}, "payload must be at most 200 bytes as JSON, got 201"),
    (
        {"payload": [object()]},
        "payload must be a JSON value, got list: Encoding objects of type object is unsupported",
    ),
]


def check_refusal(changes: dict[str, Any], said: str) -> None:
    desk = Desk(payload_bytes_max=200)
    desk.admit(idempotency_key="k")
    before = (dict(desk.table.notes(QUEUE)), repr(desk.queue))
    error = desk.refuse(**changes)
    assert isinstance(error, InvalidTask)
    assert re.fullmatch(said, str(error))
    assert (dict(desk.table.notes(QUEUE)), repr(desk.queue)) == before
    assert desk.admit().sequence == 2


@pytest.mark.parametrize(
    ("changes", "said"), INVALID, ids=[f"{number} {'-'.join(changes)}" for number, (changes, _) in enumerate(INVALID)]
)
def test_a_bad_task_is_refused_with_field_constraint_and_value_and_changes_nothing(
    changes: dict[str, Any], said: str
) -> None:
    check_refusal(changes, re.escape(said))


@pytest.mark.parametrize("field", ["cost", "run_after", "expires_at"])
def test_a_number_that_no_float_holds_is_refused_and_crashes_nobody(field: str) -> None:
    check_refusal({field: 10**400}, rf"{field} must be a finite number .*, got 1\d*(\.\.\.)?.*")


@pytest.mark.parametrize(
    "payload",
    [{1}, b"x", math.nan, [math.inf], {1: 2}, {"at": object}, RetryPolicy(), "\ud800"],
    ids=["set", "bytes", "nan", "infinity", "number as a key", "class", "attrs", "half a character"],
)
def test_a_payload_that_json_cannot_say_is_refused(payload: Any) -> None:
    check_refusal({"payload": payload}, r"payload must be a JSON value, got .*")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_any_json_value_is_a_payload_up_to_its_size_and_not_a_byte_more(payload: Any) -> None:
    size = len(msgspec.json.encode(payload))
    assert Desk(payload_bytes_max=size).admit(payload=payload).payload == payload
    if payload is not None:
        error = Desk(payload_bytes_max=size - 1).refuse(payload=payload)
        assert str(error) == f"payload must be at most {size - 1} bytes as JSON, got {size}"


@pytest.mark.parametrize("user", ["a", "x" * 128, "tenant/alice", "Zoë", "a b"])
def test_a_user_has_1_to_128_printable_characters(user: str) -> None:
    assert Desk().admit(user=user).user == user


@pytest.mark.parametrize(
    ("run_after", "order_at"), [(None, 5.0), (0.0, 5.0), (-3.0, 5.0), (5.0, 5.0), (9, 9.0)], ids=str
)
def test_waiting_is_counted_from_admission_or_from_run_after_if_that_is_later(run_after: Any, order_at: float) -> None:
    task = Desk().admit(now=5.0, run_after=run_after)
    assert (task.created_at, task.run_after, task.order_at) == (5.0, run_after, order_at)


def test_run_after_zero_is_a_time_and_not_unset() -> None:
    task = Desk().admit(now=-5.0, run_after=0.0)
    assert (task.run_after, task.order_at) == (0.0, 0.0)


def test_what_is_not_said_comes_from_the_kind() -> None:
    often = RetryPolicy(max_retries=9)
    desk = Desk(kinds={"crawl": KindSettings(retry=often)})
    assert desk.admit().retry == often
    assert desk.admit(retry=RetryPolicy(max_retries=0)).max_retries == 0
    assert desk.admit(kind="mail").retry == RetryPolicy()


# The expected cost of a kind


@given(st.lists(st.tuples(st.sampled_from(["crawl", "mail"]), st.floats(1e-3, 1e6), st.booleans()), max_size=30))
def test_a_task_costs_the_mean_of_its_kind_unless_it_says_otherwise(runs: list[tuple[str, float, bool]]) -> None:
    desk = Desk()
    used: dict[str, list[float]] = {"crawl": [], "mail": []}
    for kind, seconds, completed in runs:
        task = desk.admit(kind=kind)
        desk.table.apply(task)
        claimed = moves.claim(task, "worker/1", 60.0, 0.0)
        desk.table.apply(claimed)
        end = moves.complete(claimed, None, seconds) if completed else moves.cancel(claimed, seconds)
        desk.table.apply(end)
        if completed:
            used[kind].append(seconds)
        desk.restart()
    for kind, seconds_each in used.items():
        mean = sum(seconds_each) / len(seconds_each) if seconds_each else 1.0
        assert desk.admit(kind=kind).cost == pytest.approx(mean)
        assert desk.admit(kind=kind, cost=7).cost == 7.0


def test_an_execution_that_took_no_time_leaves_the_expected_cost_above_zero() -> None:
    desk = Desk()
    desk.tell(ended(desk.admit(), used_seconds=0.0))
    assert desk.admit().cost > 0


# What does not reach its receiver


def test_a_task_that_its_shard_could_not_take_is_put_out_and_its_submitter_told() -> None:
    desk = Desk(admitted_max=1)
    task = desk.admit(idempotency_key="k")
    effects = desk.tell(Failed("shard/alice", Enqueue(task, CLIENT), "boom"), now=3.0)
    receiver, answer = only(effects.sends)
    assert (receiver, answer.submitted_id) == (CLIENT, task.id)
    assert type(answer.error) is EvenhandError and str(answer.error) == "boom"
    assert effects.events == [SubmitRefused(3.0, "alice", "crawl", "boom")]
    again = desk.admit(idempotency_key="k")
    assert again.id != task.id
    assert again.sequence > task.sequence


def test_an_answer_that_its_receiver_crashed_on_is_told_again() -> None:
    accepted = Accepted("t1", "t1")
    assert Desk().tell(Failed(CLIENT, accepted, "ValueError: boom")).sends == [(CLIENT, accepted)]


@pytest.mark.parametrize("message", [Failed(CLIENT, Accepted("t1", "t1"), nobody_at(CLIENT)), Wake()])
def test_what_concerns_nobody_changes_nothing(message: Any) -> None:
    effects = Desk().tell(message)
    assert not (effects.sends or effects.held or effects.records or effects.events)


def test_an_unknown_message_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"^queue cannot handle 'hello'$"):
        Desk().tell("hello")
