"""The waiting room: submits that found no room at the door, in the order in which they are let in.

Within a user first come, first served; between users start-time fair queueing (Goyal, Vin, Cheng 1996) with a cost of 1
each. A user has a start tag; of those whom the door would let in, the one with the smallest tag enters, by name if tags
are equal, and its tag moves by 1/weight. Virtual time is the largest tag that entered so far. Nobody enters below it: who
was away, or held back by a bound of its own, has banked no credit. So for users f and g over any interval in which both wait
and the door would take either, with A the number admitted:

    |A_f/w_f - A_g/w_g| <= 1/w_f + 1/w_g

When the last one has left, the busy period is over and every tag is forgotten.

A submit with the idempotency key of one that waits joins it: both get the same answer, and there is never a second task.
Everything is noted as plain data, so a restart of the queue loses nobody's place.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import attrs
import msgspec

from actors.ladder import Ladder
from actors.messages import Address, Submit
from actors.policies.heaps import KeyHeap
from actors.retry import RetryPolicy
from actors.submission import check_same_kind
from actors.table import Notes
from actors.task import Priority

__all__ = ["Parked", "WaitingRoom", "plain_submit", "read_submit"]


@attrs.frozen
class Parked:
    """A submit that waited, and those that joined it."""

    submit: Submit
    joined: tuple[tuple[str, Address | None], ...]
    """The id and the address of each submit that meant the same task."""


class WaitingRoom:
    """Who waits at the door.

    >>> room = WaitingRoom(Notes("queue"), rungs=3, needs=lambda user: 1, weight=lambda user: 1.0)
    >>> for number, user in enumerate(["bob", "bob", "alice"]):
    ...     room.park(Submit(id=f"t{number}", user=user, kind="crawl"))
    >>> [room.let_in(room.first(1)).submit.id for _ in range(3)]
    ['t2', 't0', 't1']
    """

    def __init__(self, notes: Notes, rungs: int, needs: Callable[[str], int], weight: Callable[[str], float]) -> None:
        self._notes = notes
        self._needs = needs
        self._weight = weight
        self._ladder = Ladder(rungs)
        self._lines: dict[str, OrderedDict[int, None]] = {}
        """Each user's waiting submits, by number, the first at the front."""
        self._numbers: dict[str, int] = {}
        """Where each submit waits, those that joined another one included."""
        self._keyed: dict[tuple[str, str], int] = {}
        self._number: int = notes.get("number", 0)
        self._virtual: float = notes.get("virtual", 0.0)
        self._tags: dict[str, float] = notes.under("tag/")
        self._away = KeyHeap()
        """Users that wait no more, by the tag that virtual time has not passed yet."""
        for number in sorted(map(int, notes.under("submit/"))):
            self._line_up(number, self._read(number))
            self._numbers.update((submitted_id, number) for submitted_id, _ in notes.get(f"joined/{number}", ()))
        for user, tag in self._tags.items():
            if user in self._lines:
                self.move(user)
            else:
                self._away.put(user, tag)

    def __len__(self) -> int:
        """How many users wait."""
        return len(self._lines)

    def __contains__(self, user: str) -> bool:
        return user in self._lines

    def first(self, free: int) -> str | None:
        """Whose turn it is of those who need at most so many free places, or None."""
        return self._ladder.first(free)

    def move(self, user: str) -> None:
        """What the user needs may have changed."""
        if user in self._lines:
            self._ladder.put(user, self._needs(user), self._tags[user])

    def park(self, submit: Submit) -> None:
        """Let a submit wait."""
        self._number += 1
        self._notes["number"] = self._number
        self._notes[f"submit/{self._number}"] = plain_submit(submit)
        self._line_up(self._number, submit)
        user = submit.user
        if len(self._lines[user]) == 1:
            self._away.discard(user)
            self._set_tag(user, max(self._tags.get(user, 0.0), self._virtual))
        self.move(user)

    def join(self, submit: Submit) -> bool:
        """Let a submit share the answer of one with its key that waits; False if none does. It must be of the same kind."""
        if submit.idempotency_key is None:
            return False
        number = self._keyed.get((submit.user, submit.idempotency_key))
        if number is None:
            return False
        check_same_kind(submit.idempotency_key, self._notes[f"submit/{number}"]["kind"], submit.kind)
        note = f"joined/{number}"
        self._notes[note] = [*self._notes.get(note, ()), [submit.id, submit.reply_to]]
        self._numbers[submit.id] = number
        return True

    def withdraw(self, user: str, submitted_id: str) -> bool:
        """Let a submit leave for nothing, and those that joined it stay; False if it does not wait."""
        number = self._numbers.get(submitted_id)
        if number is None or number not in self._lines.get(user, ()):
            return False
        submit = self._read(number)
        joined = list(self._notes.get(f"joined/{number}", ()))
        if submit.id != submitted_id:
            self._set_joined(number, [entry for entry in joined if entry[0] != submitted_id])
        elif joined:
            (next_id, reply_to), *others = joined
            self._notes[f"submit/{number}"] = plain_submit(
                msgspec.structs.replace(submit, id=next_id, reply_to=reply_to)
            )
            self._set_joined(number, others)
        else:
            self._leave(user, number)
        self._numbers.pop(submitted_id, None)
        return True

    def let_in(self, user: str) -> Parked:
        """The user's first submit leaves, and the user is charged for it."""
        self._virtual = max(self._virtual, self._tags[user])
        self._notes["virtual"] = self._virtual
        self._set_tag(user, self._virtual + 1 / self._weight(user))
        return self.turn_away(user)

    def turn_away(self, user: str) -> Parked:
        """The user's first submit leaves for nothing."""
        return self._leave(user, next(iter(self._lines[user])))

    def reweigh(self, user: str, before: float, after: float) -> None:
        """The user has another weight: what it is ahead of virtual time counts by the new one, the last charge included."""
        tag = self._tags.get(user)
        if tag is not None and tag > self._virtual:
            self._set_tag(user, self._virtual + (tag - self._virtual) * before / after)
            if user in self._lines:
                self.move(user)
            else:
                self._away.put(user, self._tags[user])

    # Shared by the above

    def _leave(self, user: str, number: int) -> Parked:
        del self._lines[user][number]
        submit = self._read(number)
        joined = self._notes.get(f"joined/{number}", ())
        del self._notes[f"submit/{number}"]
        self._set_joined(number, [])
        for submitted_id in (submit.id, *(joined_id for joined_id, _ in joined)):
            self._numbers.pop(submitted_id, None)
        if submit.idempotency_key is not None:
            del self._keyed[user, submit.idempotency_key]
        if self._lines[user]:
            self.move(user)
        else:
            del self._lines[user]
            self._ladder.discard(user)
            self._away.put(user, self._tags[user])
        self._forget_passed()
        return Parked(submit, tuple((name, address) for name, address in joined))

    def _set_joined(self, number: int, joined: list[Any]) -> None:
        if joined:
            self._notes[f"joined/{number}"] = joined
        elif f"joined/{number}" in self._notes:
            del self._notes[f"joined/{number}"]

    def _line_up(self, number: int, submit: Submit) -> None:
        self._lines.setdefault(submit.user, OrderedDict())[number] = None
        self._numbers[submit.id] = number
        if submit.idempotency_key is not None:
            self._keyed[submit.user, submit.idempotency_key] = number

    def _forget_passed(self) -> None:
        """Forget who would start at virtual time anyway; with nobody left, everybody."""
        while (first := self._away.first()) is not None and (not self._lines or first[0] <= self._virtual):
            self._away.discard(first[1])
            del self._tags[first[1]]
            del self._notes["tag/" + first[1]]
        if not self._lines and "virtual" in self._notes:
            self._virtual = 0.0
            del self._notes["virtual"]

    def _set_tag(self, user: str, tag: float) -> None:
        self._tags[user] = self._notes["tag/" + user] = tag

    def _read(self, number: int) -> Submit:
        return read_submit(self._notes[f"submit/{number}"])


def plain_submit(submit: Submit) -> dict[str, Any]:
    """A valid submit as JSON would say it."""
    plain: dict[str, Any] = msgspec.to_builtins(submit)
    plain["priority"] = int(Priority.parse(submit.priority))
    return plain


def read_submit(plain: dict[str, Any]) -> Submit:
    """The submit that `plain_submit` said."""
    retry = None if plain["retry"] is None else msgspec.convert(plain["retry"], RetryPolicy)
    return Submit(**{**plain, "retry": retry})
