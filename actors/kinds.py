"""Kinds of work as the scheduler knows them: how far each is limited, and the account of those that are.

A kind with a limit of its own is a bottleneck that users share by an account of its own. What runs when a kind gets its
account was not charged there, and is not corrected there when it ends: how many such runs each user has is noted.
"""

from actors.config import Settings
from actors.limits import Gauge
from actors.policies.sharing import Account, Claims
from actors.restraints import Restraints, kind_key
from actors.table import Notes

__all__ = ["Kind", "Kinds"]


class Kind:
    """One kind of work."""

    __slots__ = ("account", "gauge", "waiting")

    def __init__(self, gauge: Gauge) -> None:
        self.gauge = gauge
        self.account: Account | None = None
        """Its own, while it is limited."""
        self.waiting = 0
        """How many tasks of it could start."""


class Kinds:
    """Every kind that somebody has work of, or can run."""

    def __init__(self, settings: Settings, restraints: Restraints, notes: Notes, claims: Claims) -> None:
        self._settings = settings
        self._restraints = restraints
        self._notes = notes
        self._claims = claims
        self.known: dict[str, Kind] = {}
        """By name."""
        self.limited: dict[str, Kind] = {}
        """Those of them that have an account of their own."""

    def get(self, name: str) -> Kind:
        """The kind of this name, known from now on."""
        found = self.known.get(name)
        if found is None:
            found = self.known[name] = Kind(self._restraints.gauge(kind_key(name)))
            self.update_account(name)
        return found

    def update_account(self, name: str) -> bool:
        """Give a kind that is limited an account, and take it from one that is not; whether anything changed."""
        found = self.known[name]
        if found.gauge.limit.holds == (found.account is not None):
            return False
        # The length keeps the rooms of `a` and `a/b` apart.
        room = self._notes.within(f"kind/{len(name)}/{name}/")
        if found.gauge.limit.holds:
            found.account = self._settings.sharing.start(room, self._claims)
            self.limited[name] = found
        else:
            found.account = None
            del self.limited[name]
            for notes in (self._uncharged(name), room):
                for key in notes.under(""):
                    del notes[key]
        return True

    def set_uncharged(self, name: str, running: dict[str, int]) -> None:
        """So many tasks of each user run, and were not charged to the account that the kind has from now on."""
        notes = self._uncharged(name)
        for user, count in running.items():
            notes[user] = count

    def was_uncharged(self, name: str, user: str) -> bool:
        """Whether a task of this user that has ended was one of those."""
        notes = self._uncharged(name)
        left: int = notes.get(user, 0)
        if left > 1:
            notes[user] = left - 1
        elif left:
            del notes[user]
        return left > 0

    def forget(self, name: str) -> None:
        """Nobody can run it: if nobody has any and nothing limits it, whoever makes up names must not fill the memory."""
        found = self.known[name]
        if not (found.waiting or found.gauge.running or found.account is not None):
            del self.known[name]
            self._restraints.forget(kind_key(name))

    def _uncharged(self, name: str) -> Notes:
        return self._notes.within(f"uncharged/{len(name)}/{name}/")
