"""The door: how many tasks are inside, whose they are, and who may bring in one more.

Three rules, each None for "no such rule":
- `admitted_max`: so many tasks inside in all;
- `admitted_per_user_max`: so many of one user;
- `admission_share`, where there is an `admitted_max`: the dynamic threshold of Choudhury and Hahne (1998). A user that
  holds nothing needs a free place and no more. Any other may enter only if it then holds at most `admission_share` times
  the room that is still free *after* it: held + 1 <= share * (bound - admitted - 1).

Counting the room after the newcomer is a little stricter than counting it before, and that is on purpose: it is what
keeps the last place for somebody who has none. With share 8 and bound 17, let two floods hold 8 and 7. With the room
counted before, the first may have a ninth (9 <= 8 * 2) and then the second an eighth (8 <= 8 * 1): 9 + 8 = 17, and
a light user finds nothing. Counted after, the first is refused its ninth (9 > 8 * 1), and for any numbers the last place
is refused to everybody who holds something (held + 1 > 8 * 0). What follows:
- a lone user fills floor(share / (1 + share) * bound), eight ninths for a share of 8, and 1 if that is 0;
- floods that each hold something never take the last place, whatever the interleaving, so a light user that has one task
  at a time is never refused; with a bound of at least 1 + 8k, k floods can have eight each beside it. (A flood whose last
  task has ended holds nothing until it submits again, and may then take the last place like anybody else.)

The rule as a number: a user *needs* so many free places, itself included. Whoever needs at most what is free may enter.
The share is read as the decimal it was written as, so that 0.3 means three tenths.
"""

from fractions import Fraction

from actors.config import Settings
from actors.errors import QueueFull
from actors.table import Notes

__all__ = ["Door"]


class Door:
    """Who is inside, and who may enter.

    >>> door = Door(Settings(admitted_max=9), Notes("queue"))
    >>> for _ in range(8):
    ...     door.count("alice", +1)
    >>> str(door.refusal("alice")), door.refusal("bob")
    ("admitted tasks of 'alice' must be at most admission_share (8) times the 0 of 9 places that would be left free, got 9", None)
    """

    def __init__(self, settings: Settings, notes: Notes) -> None:
        self._notes = notes
        self._bound = settings.admitted_max
        self._user_bound = settings.admitted_per_user_max
        self._share = None if settings.admission_share is None else Fraction(str(settings.admission_share))
        self._held: dict[str, int] = notes.under("held/")
        self._weights: dict[str, float] = dict(settings.weights) | notes.under("weight/")
        self.admitted = sum(self._held.values())
        """Tasks inside: admitted and not ended."""
        self.closed = (self._bound or 0) + 1
        """What a user needs that its own bound keeps out: more places than there are."""

    # Who is inside

    def held(self, user: str) -> int:
        """How many of a user's tasks are inside."""
        return self._held.get(user, 0)

    def users(self) -> list[str]:
        """Everybody with a task inside, sorted."""
        return sorted(self._held)

    def count(self, user: str, difference: int) -> None:
        """A task of this user came in (+1) or ended (-1)."""
        held = self._held.get(user, 0) + difference
        assert held >= 0, "more tasks ended than were admitted"
        self.admitted += difference
        if held:
            self._held[user] = self._notes["held/" + user] = held
        else:
            del self._held[user]
            del self._notes["held/" + user]

    # Who may enter

    @property
    def free(self) -> int:
        """Places that are free; 0 if they are not counted, and below 0 if an operator put back more than there are."""
        return 0 if self._bound is None else self._bound - self.admitted

    @property
    def full(self) -> bool:
        """Whether nobody at all may enter."""
        return self._bound is not None and self.admitted >= self._bound

    def needs(self, user: str) -> int:
        """How many places must be free for one more task of this user."""
        held = self._held.get(user, 0)
        if self._user_bound is not None and held >= self._user_bound:
            return self.closed
        if self._bound is None:
            return 0
        if held == 0 or self._share is None:
            return 1
        # One place for itself, and (held + 1) / share, rounded up, that stay free after it.
        left_free = -(-(held + 1) * self._share.denominator // self._share.numerator)
        return min(self.closed, 1 + left_free)

    def may_enter(self, user: str) -> bool:
        """Whether every rule lets one more task of this user in."""
        return self.needs(user) <= self.free

    def may_replace(self, user: str) -> bool:
        """Whether one more task of this user may take a place that was given up for it, whatever its share."""
        return not self.full and not self._at_its_bound(user)

    def replaces_its_own(self, user: str) -> bool:
        """Whether it is what the user itself has inside that keeps it out, so that nobody else's going would help."""
        return not self.full or self._at_its_bound(user)

    def refusal(self, user: str) -> QueueFull | None:
        """Why one more task of this user may not come in, or None if it may."""
        if self.may_enter(user):
            return None
        if self.full:
            return QueueFull(f"admitted tasks must be at most {self._bound}, got one more")
        mine = f"admitted tasks of {user!r} must be at most"
        if self._at_its_bound(user):
            return QueueFull(f"{mine} {self._user_bound}, got one more")
        assert self._share is not None, "nothing else can refuse"
        places = f"the {self.free - 1} of {self._bound} places that would be left free"
        return QueueFull(f"{mine} admission_share ({float(self._share):g}) times {places}, got {self.held(user) + 1}")

    def _at_its_bound(self, user: str) -> bool:
        return self._user_bound is not None and self.held(user) >= self._user_bound

    # Who weighs what

    def weight(self, user: str) -> float:
        """What a user weighs at the door: its own name's weight, because the door knows no names above users."""
        return self._weights.get(user, 1.0)

    def set_weight(self, user: str, weight: float) -> None:
        """From now on the user weighs so much."""
        self._weights[user] = self._notes["weight/" + user] = weight
