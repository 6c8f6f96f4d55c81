"""The timetable: submits tasks when a schedule says so.

A schedule is a cron expression in a time zone, and a task. Its last time is noted together with what was submitted, and a
task's id and idempotency key follow from the schedule and the time: so no time fires twice, whatever crashes in between.

Times may be missed, when the program was not running or stood still. What becomes of those that are more than
`misfire_grace_seconds` late is the schedule's misfire policy: `run_once` submits one task for all of them, `run_all` one for
each, `skip` none. What is not as late as that has its task, also if others have theirs at the same moment.
"""

from collections.abc import Callable
from hashlib import sha256
from itertools import chain, pairwise
from typing import Any

import attrs
import msgspec

from actors.actor import NEVER, Draw, Effects
from actors.cron import fire_times
from actors.errors import EvenhandError, InvalidConfig, InvalidTask, UnknownSchedule
from actors.ids import derived_id
from actors.messages import QUEUE, Address, Answered, Failed, Retire, Schedule, Submit, Unschedule, Wake
from actors.policies import suggestion
from actors.retry import RetryPolicy
from actors.submission import NewTask, checked_payload, cost_of
from actors.table import Notes
from actors.task import Priority
from actors.trace import ScheduleFired
from actors.validators import is_finite

__all__ = ["MISFIRES", "TIMETABLE", "Scheduled", "Timetable", "schedule_name"]

TIMETABLE: Address = "timetable"

MISFIRES = ("run_once", "run_all", "skip")
"""What becomes of times that were missed."""

_PLAIN = NewTask("")
_encode = msgspec.json.Encoder(order="deterministic").encode

_DUE_AT_ONCE_MAX = 1_000
"""Times of one schedule that are seen to before others have their turn."""


@attrs.frozen
class Scheduled:
    """A schedule as it stands.

    >>> Scheduled("nightly", "0 3 * * *", "Europe/Berlin", "report", "alice", 3600.0, None).cron
    '0 3 * * *'
    """

    name: str
    cron: str
    timezone: str
    kind: str
    user: str
    next_at: float
    """When it fires next."""
    last_at: float | None
    """The time it last fired for, if it did."""


class Timetable:
    """The core of the timetable."""

    passive = False

    def __init__(self, notes: Notes, payload_bytes_max: int, retired: bool = False) -> None:
        self._notes = notes
        self._payload_bytes_max = payload_bytes_max
        self._retired = retired
        """Whether nothing fires any more. Not noted: what is kept is for whoever opens it next."""
        self._entries: dict[str, dict[str, Any]] = notes.under("entry/")
        self._next: dict[str, float] = {}
        for name, entry in self._entries.items():
            self._next[name] = _next_after(entry, entry["last_at"])
        self._wakes_at = NEVER

    def __repr__(self) -> str:
        return f"<Timetable: {len(self._entries)} schedules>"

    def scheduled(self) -> list[Scheduled]:
        """Every schedule, by name."""
        return [
            Scheduled(
                name,
                entry["cron"],
                entry["timezone"],
                entry["submit"]["kind"],
                entry["submit"]["user"],
                self._next[name],
                entry["fired_at"],
            )
            for name, entry in sorted(self._entries.items())
        ]

    def start(self, now: float) -> Effects:
        effects = Effects()
        self._set_timer(effects)
        return effects

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        effects = Effects()
        match message:
            case Schedule():
                self._answer(message, lambda: self._add(message, now, effects), effects)
            case Unschedule():
                self._answer(message, lambda: self._remove(message.name), effects)
            case Wake():
                self._wakes_at = NEVER
                if not self._retired:
                    self._fire_due(now, effects)
            case Retire():
                self._retired = True
            case Failed(message=Submit() as submit, receiver=receiver):
                effects.send(receiver, submit)
            case Failed():
                effects.tell_again(message)
            case _:
                # Nobody waits for what becomes of a submit: whether it was refused is among the events.
                pass
        self._set_timer(effects)
        return effects.keep(self._notes)

    def _answer(self, message: Schedule | Unschedule, act: Callable[[], None], effects: Effects) -> None:
        error: EvenhandError | None = None
        try:
            act()
        except EvenhandError as refused:
            error = refused
        if message.reply_to is not None:
            effects.hold(message.reply_to, Answered("", error))

    def _add(self, message: Schedule, now: float, effects: Effects) -> None:
        _check(message)
        _check_task(message.submit, self._payload_bytes_max)
        name, entry = message.name, _entry(message, now)
        next_at = _next_after(entry, now)
        if (before := self._entries.get(name)) is not None:
            if (before["cron"], before["timezone"]) == (entry["cron"], entry["timezone"]):
                # Declared again, as a program does each time it starts, it goes on where it was.
                next_at, entry["last_at"] = self._next[name], before["last_at"]
            else:
                # At other times from now on: what was due before is seen to as it was meant.
                while self._next[name] <= now:
                    self._fire(name, now, effects)
            entry["fired_at"] = self._entries[name]["fired_at"]
        self._next[name] = next_at
        self._keep(name, entry)

    def _remove(self, name: str) -> None:
        if not isinstance(name, str) or name not in self._entries:
            raise UnknownSchedule(f"no schedule has the name {name!r}{suggestion(str(name), list(self._entries))}")
        del self._entries[name], self._next[name], self._notes["entry/" + name]

    def _keep(self, name: str, entry: dict[str, Any]) -> None:
        self._entries[name] = self._notes["entry/" + name] = entry

    # What is due

    def _fire_due(self, now: float, effects: Effects) -> None:
        for name in sorted(self._next):
            if self._next[name] <= now:
                self._fire(name, now, effects)

    def _fire(self, name: str, now: float, effects: Effects) -> None:
        """Submit what is due, and of what was missed as much as the schedule wants."""
        entry = self._entries[name]
        due, self._next[name] = _due(entry, self._next[name], now)
        wanted = [at for at, later in pairwise((*due, self._next[name])) if _is_wanted(entry, at, later, now)]
        for at in wanted:
            effects.send(QUEUE, _submit_for(name, entry["submit"], at))
        effects.events.append(ScheduleFired(now, name, due[-1], len(wanted), len(due) - len(wanted)))
        self._keep(name, {**entry, "last_at": due[-1], "fired_at": wanted[-1] if wanted else entry["fired_at"]})

    def _set_timer(self, effects: Effects) -> None:
        wakes_at = NEVER if self._retired else min(self._next.values(), default=NEVER)
        if wakes_at != self._wakes_at:
            self._wakes_at = effects.timer = wakes_at


def schedule_name(task: NewTask, cron: str, timezone: str) -> str:
    """What a schedule without a name is called: the same for the same task, and another for any other.

    >>> schedule_name(NewTask("report"), "0 3 * * *", "UTC")
    'report of default at 0 3 * * * UTC'
    >>> schedule_name(NewTask("report", {"of": "day"}), "0 3 * * *", "UTC")
    'report of default at 0 3 * * * UTC, c2c4a456'
    """
    name = f"{task.kind} of {task.user} at {cron} {timezone}"
    others = {field: getattr(task, field) for field in task.__struct_fields__ if field not in ("kind", "user")}
    others["priority"] = int(Priority.parse(task.priority))
    if others == {field: getattr(_PLAIN, field) for field in others}:
        return name
    try:
        said = _encode(others)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError, RecursionError) as error:
        raise InvalidTask(f"payload must be a JSON value, got {type(task.payload).__name__}: {error}") from None
    return f"{name}, {sha256(said).hexdigest()[:8]}"


def _check(message: Schedule) -> None:
    """InvalidConfig unless this is a schedule; what its expression is worth is seen when it is asked for a time."""
    if message.misfire not in MISFIRES:
        names = ", ".join(MISFIRES)
        hint = suggestion(str(message.misfire), list(MISFIRES))
        raise InvalidConfig(f"misfire must be one of {names}, got {message.misfire!r}{hint}")
    if not is_finite(message.misfire_grace_seconds) or message.misfire_grace_seconds < 0:
        raise InvalidConfig(
            f"misfire_grace_seconds must be a finite number >= 0, got {message.misfire_grace_seconds!r}"
        )
    if not (isinstance(message.name, str) and message.name and message.name.isprintable()):
        raise InvalidConfig(f"name of a schedule must be printable text, got {message.name!r}")


def _check_task(submit: Submit, payload_bytes_max: int) -> None:
    """InvalidTask unless this could be submitted at any time."""
    for value, names in (
        (submit.idempotency_key, "an idempotency_key"),
        (submit.run_after, "a delay_seconds or run_after"),
        (submit.expires_at, "an expires_after_seconds or expires_at"),
    ):
        if value is not None:
            raise InvalidTask(f"a scheduled task must not have {names}, got {value!r}: it would be one for all times")
    checked_payload(submit, payload_bytes_max)
    Priority.parse(submit.priority)
    if submit.cost is not None:
        cost_of(submit.cost)


def _entry(message: Schedule, now: float) -> dict[str, Any]:
    """What is noted of a schedule that begins now."""
    return {
        "cron": message.cron,
        "timezone": message.timezone,
        "misfire": message.misfire,
        "grace": message.misfire_grace_seconds,
        "submit": msgspec.to_builtins(message.submit),
        "last_at": now,
        "fired_at": None,
    }


def _next_after(entry: dict[str, Any], after: float) -> float:
    return next(fire_times(entry["cron"], entry["timezone"], after), NEVER)


def _due(entry: dict[str, Any], first: float, now: float) -> tuple[list[float], float]:
    """The times from `first` to `now`, or as many of them as may be seen to at once, and the one that follows."""
    due: list[float] = []
    for at in chain([first], fire_times(entry["cron"], entry["timezone"], first)):
        if at > now or len(due) == _DUE_AT_ONCE_MAX:
            return due, at
        due.append(at)
    return due, NEVER


def _is_wanted(entry: dict[str, Any], at: float, later: float, now: float) -> bool:
    """Whether a time that is due has a task of its own. For all that were missed it is the last that may have one."""
    is_missed, is_last = now - at > entry["grace"], now - later <= entry["grace"]
    return not is_missed or entry["misfire"] == "run_all" or (entry["misfire"] == "run_once" and is_last)


def _submit_for(name: str, plain: dict[str, Any], at: float) -> Submit:
    retry = None if plain["retry"] is None else msgspec.convert(plain["retry"], RetryPolicy)
    what_for = f"schedule/{name}/{at:.0f}"
    return Submit(**{**plain, "retry": retry, "id": derived_id(what_for, at), "idempotency_key": what_for})
