"""Restraints: every limit and pause there is, and how far each is used.

Keys are `all`, `kind/NAME` and `user/NAME`. A start takes from all three of its keys or from none: they are checked before
the grant goes out and taken when it was used. What must survive a restart is noted; how many run is asked for anew.
"""

from collections.abc import Iterable, Mapping

from actors.limits import ALWAYS, Gauge, Limit
from actors.table import Notes

__all__ = ["EVERYTHING", "Restraints", "kind_key", "user_key"]

EVERYTHING = "all"


def kind_key(kind: str) -> str:
    """The key of a kind's limit and pause."""
    return "kind/" + kind


def user_key(user: str) -> str:
    """The key of a user's limit and pause."""
    return "user/" + user


class Restraints:
    """Gauges and pauses by key.

    >>> restraints = Restraints({"kind/mail": Limit(concurrency_max=1)}, None, Notes("scheduler"))
    >>> restraints.take([restraints.gauge("kind/mail"), restraints.gauge("user/alice")], now=0.0)
    >>> restraints.gauge("kind/mail").free_at(), restraints.gauge("user/alice").running
    (inf, 1)
    """

    def __init__(self, limits: Mapping[str, Limit], user_cap: int | None, notes: Notes) -> None:
        self._limits = dict(limits) | {key: Limit(*saved) for key, saved in notes.under("limit/").items()}
        self._user_cap = user_cap
        self._notes = notes
        self._gauges: dict[str, Gauge] = {}
        self.paused: set[str] = set(notes.under("paused/"))
        """Keys that are paused."""

    def gauge(self, key: str) -> Gauge:
        """The limit of a key and how far it is used."""
        gauge = self._gauges.get(key)
        if gauge is None:
            gauge = self._gauges[key] = Gauge(key, self._limit(key), self._notes.get("bucket/" + key))
        return gauge

    def take(self, gauges: Iterable[Gauge], now: float) -> None:
        """A task starts, and takes from each of these."""
        for gauge in gauges:
            gauge.take(now)
            if gauge.bucket is not None:
                self._notes["bucket/" + gauge.key] = gauge.bucket.noted()

    def forget(self, key: str) -> None:
        """Nothing of this key waits or runs; permits that were used stay used."""
        self._gauges.pop(key, None)

    def pause(self, key: str) -> None:
        """Start nothing of this key."""
        self.paused.add(key)
        self._notes["paused/" + key] = True

    def resume(self, key: str) -> None:
        """End its pause; not an error if there is none."""
        if key in self.paused:
            self.paused.remove(key)
            del self._notes["paused/" + key]

    def set_limit(self, key: str, limit: Limit, now: float) -> None:
        """Hold a key to another limit from now on."""
        self._notes["limit/" + key] = (limit.rate_limit, limit.concurrency_max)
        self._hold(key, limit, now)

    def adopt(self, key: str, limit: Limit, now: float) -> bool:
        """Hold a key to what the settings say from now on, unless an operator said otherwise; whether it did."""
        if "limit/" + key in self._notes or self._limits.get(key) == limit:
            return False
        self._hold(key, limit, now)
        return True

    def _hold(self, key: str, limit: Limit, now: float) -> None:
        gauge = self.gauge(key)
        self._limits[key] = limit
        gauge.set(self._limit(key), now)
        if gauge.bucket is not None and gauge.bucket.since != ALWAYS:
            self._notes["bucket/" + key] = gauge.bucket.noted()
        elif "bucket/" + key in self._notes:
            del self._notes["bucket/" + key]

    def _limit(self, key: str) -> Limit:
        limit = self._limits.get(key, _NONE)
        if self._user_cap is None or not key.startswith("user/"):
            return limit
        caps = [cap for cap in (limit.concurrency_max, self._user_cap) if cap is not None]
        return Limit(limit.rate_limit, min(caps))


_NONE = Limit()
