"""Demand: who has work, what holds it back, and whose turn it is. The scheduler's whole judgement, without its protocol.

Two sorts of bottleneck are shared: the pool of workers, and each kind that has a limit of its own. Each has an account. In
the pool's, users are active while they have work of an unlimited kind; in a limited kind's, while they have work of that
kind. A decision asks each kind that may start now who is next (by the kind's own account if it is limited, by the pool's
if not) and lets the pool's account decide between the answers. What is dispatched is charged to every account it uses.

A user that is paused, at its cap or out of permits is in no index and active nowhere until that ends; then it starts from
virtual time, like one that was idle. A kind that is paused, at its cap or out of permits is passed over: nobody waits
behind it, and it costs nobody anything.
"""

import math
from collections.abc import Iterable, Mapping

import attrs

from actors.actor import NEVER
from actors.config import Settings
from actors.limits import ALWAYS, Gauge, Limit
from actors.messages import Head, Ready, WorkerClass
from actors.policies.heaps import KeyHeap
from actors.policies.sharing import Account, CapsUsers
from actors.policies.stealing import Lots, Reach, View, ViewKey, view_keys
from actors.table import Notes

__all__ = ["Choice", "Demand"]


@attrs.frozen
class Choice:
    """Whose turn it is, and what of theirs may be started."""

    user: str
    kinds: frozenset[str]
    stolen: bool


@attrs.define(eq=False)
class _User:
    name: str
    views: list[View]
    gauge: Gauge
    counts: dict[str, int] = attrs.Factory(dict)
    heads: dict[str, Head] = attrs.Factory(dict)
    running: dict[str, int] = attrs.Factory(dict)


@attrs.define(eq=False)
class _Kind:
    gauge: Gauge
    account: Account | None = None
    """Its own, while it is limited."""
    waiting: int = 0


class Demand:
    """What the scheduler knows of users, kinds and limits; the claims that accounts ask about."""

    def __init__(self, settings: Settings, notes: Notes) -> None:
        self._settings = settings
        self._notes = notes
        self._weights: dict[str, float] = dict(settings.weights) | notes.under("weight/")
        self._limits: dict[str, Limit] = {key: Limit(*saved) for key, saved in notes.under("limit/").items()}
        self._paused: set[str] = set(notes.under("paused/"))
        policy = settings.sharing
        self._cap = policy.user_concurrency_max if isinstance(policy, CapsUsers) else None
        self._sees_heads = policy.sees_heads
        self._users: dict[str, _User] = {}
        self._kinds: dict[str, _Kind] = {}
        self._views: dict[ViewKey, View] = {}
        self._classes: dict[WorkerClass, list[View]] = {}
        self._throttled = KeyHeap()
        """Users out of permits, by when they have one again."""
        self._in_flight = 0
        self._frozen = False
        self._reach: Reach | None = None
        self.reach_changes: list[tuple[str, bool]] = []
        """Users that became unreachable (True) or reachable (False); whoever reads it clears it."""
        self._unreachable: set[str] = set(notes.under("unreachable/"))
        self._pool = policy.start(notes.within("pool/"), self)
        self._everything = self._gauge("all", settings.limit)

    # What accounts may ask

    def weight(self, name: str) -> float:
        return self._weights.get(name, 1.0)

    def waiting(self, user: str) -> int:
        found = self._users.get(user)
        return sum(found.counts.values()) if found is not None else 0

    def running(self, user: str) -> int:
        found = self._users.get(user)
        return found.gauge.running if found is not None else 0

    def in_flight(self) -> int:
        return self._in_flight

    # Who is there

    def add_class(self, worker_class: WorkerClass, now: float) -> None:
        """There are workers of this class."""
        if worker_class not in self._classes:
            self.set_classes([*self._classes, worker_class], now)

    def set_classes(self, classes: Iterable[WorkerClass], now: float) -> None:
        """There are workers of these classes and no others: every index is made anew."""
        stealing = self._settings.stealing
        self._views = {}
        self._classes = {}
        for found in sorted(classes, key=lambda found: (sorted(found.kinds), found.users or (), found.steals)):
            views = [self._views.setdefault(key, View(key)) for key in view_keys(found, stealing)]
            for view in views:
                view.kinds |= found.kinds
            self._classes[found] = views
        for user in self._users.values():
            user.views = [view for view in self._views.values() if view.holds(user.name)]
        self.reindex(now)

    def classes(self) -> list[WorkerClass]:
        """Every class of workers, in a fixed order."""
        return list(self._classes)

    def tell(self, ready: Ready) -> None:
        """Take down what a shard says it has; `reindex_user` makes it count."""
        user = self._user(ready.user)
        for kind, count in ready.counts.items():
            difference = count - user.counts.get(kind, 0)
            self._kind(kind).waiting += difference
            self._in_flight += difference
            if count:
                user.counts[kind] = count
            else:
                user.counts.pop(kind, None)
                user.heads.pop(kind, None)
        if ready.heads:
            user.heads.update(ready.heads)
        if ready.running is not None:
            self._set_running(user, ready.running)

    def forget(self, name: str, now: float) -> None:
        """The user has nothing ready, until its shard says otherwise."""
        if (user := self._users.get(name)) is not None:
            self.tell(Ready(name, dict.fromkeys(user.counts, 0), {}, 0))
            self.reindex_user(name, now)

    # The decision

    def choose(self, worker_class: WorkerClass, now: float, lots: Lots) -> Choice | None:
        """Who a worker of this class should serve now, or None. Changes nothing."""
        if "all" in self._paused or self._everything.free_at() > now:
            return None
        for view in self._classes[worker_class]:
            turns: dict[str, str] = {}
            for kind, slot in view.slots.items():
                if kind in worker_class.kinds and self._kinds[kind].gauge.free_at() <= now:
                    user = slot.pick(lots)
                    if user is not None:
                        turns[kind] = user
            if turns:
                return self._offer(view, worker_class, turns)
        return None

    def _offer(self, view: View, worker_class: WorkerClass, turns: dict[str, str]) -> Choice:
        """The best of those whose turn it is, with every kind that it may start: its own turn at a limited one."""
        if len(turns) == 1:
            ((_, best),) = turns.items()
        else:
            best = min(turns.items(), key=lambda turn: (self._rank(view, *turn), turn[1]))[1]
        kinds = [
            kind
            for kind in self._users[best].counts
            if kind in worker_class.kinds
            and (turns.get(kind) == best if self._kinds[kind].account is not None else self._open_kind(kind))
        ]
        return Choice(best, frozenset(kinds), view.key.stolen)

    def _rank(self, view: View, kind: str, name: str) -> object:
        user = self._users[name]
        if view.key.order != "fair":
            return -user.counts[kind]
        return self._pool.rank(name, user.heads.get(kind))

    def wakes_at(self, now: float) -> float:
        """When a limit that holds something back opens by itself, or NEVER."""
        times = [self._everything.free_at()] if self._in_flight else []
        times += [kind.gauge.free_at() for kind in self._kinds.values() if kind.account is not None and kind.waiting]
        if (first := self._throttled.first()) is not None:
            times.append(first[0])
        return min((at for at in times if now < at < math.inf), default=NEVER)

    def refill(self, now: float) -> None:
        """Users that have a permit again by now are back."""
        while (first := self._throttled.first()) is not None and first[0] <= now:
            self._throttled.discard(first[1])
            self.reindex_user(first[1], now)

    # What was started and what ended

    def start(self, name: str, kind: str, cost: float, now: float) -> None:
        """A task was claimed: charge every account and take from every limit it uses."""
        user, found = self._user(name), self._kind(kind)
        user.running[kind] = user.running.get(kind, 0) + 1
        self._in_flight += 1
        for key, gauge in (("all", self._everything), ("kind/" + kind, found.gauge), ("user/" + name, user.gauge)):
            gauge.take(now)
            if gauge.bucket is not None:
                self._notes["bucket/" + key] = gauge.bucket.full_at
        self._pool.charge(name, cost, now)
        if found.account is not None:
            found.account.charge(name, cost, now)
        self._refresh(name)

    def settle(self, name: str, kind: str, difference: float, now: float) -> None:
        """A claim ended: free what it held, and correct the charge to what was used."""
        user, found = self._user(name), self._kind(kind)
        user.running[kind] = user.running.get(kind, 0) - 1
        if not user.running[kind]:
            del user.running[kind]
        self._in_flight -= 1
        for gauge in (self._everything, found.gauge, user.gauge):
            gauge.running -= 1
        self._pool.correct(name, difference, now)
        if found.account is not None:
            found.account.correct(name, difference, now)
        self._refresh(name)

    def _refresh(self, name: str) -> None:
        for view in self._views.values():
            for slot in view.slots.values():
                slot.refresh(name)

    def _set_running(self, user: _User, running: Mapping[str, int]) -> None:
        """What a shard says it has running is the truth: adjust every count to it."""
        for kind in {**user.running, **running}:
            difference = running.get(kind, 0) - user.running.get(kind, 0)
            self._in_flight += difference
            for gauge in (self._everything, self._kind(kind).gauge, user.gauge):
                gauge.running += difference
        user.running = {kind: count for kind, count in running.items() if count}

    # What people change

    def pause(self, key: str, now: float) -> None:
        """Start nothing of `all`, `kind/...` or `user/...`."""
        self._paused.add(key)
        self._notes["paused/" + key] = True
        self._reindex_key(key, now)

    def resume(self, key: str, now: float) -> None:
        """Start them again; not an error if they were not paused."""
        if key in self._paused:
            self._paused.remove(key)
            del self._notes["paused/" + key]
            self._reindex_key(key, now)

    def set_weight(self, name: str, weight: float) -> None:
        """Weigh a user, or everybody below a name, anew, with what is queued already."""
        before = self.weight(name)
        self._weights[name] = weight
        self._notes["weight/" + name] = weight
        for account in (self._pool, *(kind.account for kind in self._kinds.values() if kind.account is not None)):
            account.reweigh(name, before, weight)
        self._refresh(name)

    def set_limit(self, key: str, limit: Limit, now: float) -> None:
        """Hold `all`, `kind/...` or `user/...` to another limit."""
        self._limits[key] = limit
        self._notes["limit/" + key] = (limit.rate_limit, limit.concurrency_max)
        role, _, name = key.partition("/")
        if role == "all":
            self._everything.set(limit, now)
        elif role == "kind":
            found = self._kind(name)
            found.gauge.set(limit, now)
            self._set_account(name, found)
        elif (user := self._users.get(name)) is not None:
            user.gauge.set(self._with_cap(limit), now)
        self._reindex_key(key, now)

    # Indexes

    def freeze(self) -> None:
        """Until `thaw` only take things down: who is eligible is not known, and who was must not lose its place."""
        self._frozen = True

    def thaw(self, now: float) -> None:
        """All there is to know is known again."""
        self._frozen = False
        self.reindex(now)

    def reindex(self, now: float) -> None:
        """Put everybody in place. By name, because the order of the table of users is another one after a restart."""
        if self._frozen:
            return
        self._set_reach()
        for name in sorted(self._users):
            self.reindex_user(name, now)

    def reindex_user(self, name: str, now: float, kinds: Iterable[str] | None = None) -> None:
        """Put a user where it belongs for these kinds, or all there are: active or not, in each slot or not."""
        user = self._users.get(name)
        if user is None or self._frozen:
            return
        eligible = self._eligible(user, now)
        servable = {
            kind
            for kind in user.counts
            if eligible and self._open_kind(kind) and any(kind in view.kinds for view in user.views)
        }
        self._activate(user, servable, now)
        for kind in self._kinds if kinds is None else kinds:
            self._place(user, kind, kind in servable)
        if not user.counts and not user.gauge.running:
            self._drop_user(user)

    def _activate(self, user: _User, servable: set[str], now: float) -> None:
        free = False
        for kind in servable:
            account = self._kinds[kind].account
            if account is None:
                free = True
            else:
                account.activate(user.name, now)
        (self._pool.activate(user.name, now) if free else self._pool.deactivate(user.name))

    def _place(self, user: _User, kind: str, servable: bool) -> None:
        found = self._kind(kind)
        if not servable and found.account is not None:
            found.account.deactivate(user.name)
        for view in user.views:
            slot = view.slots.get(kind)
            if servable and kind in view.kinds:
                if slot is None:
                    limited = found.account is not None
                    slot = view.slots[kind] = view.new_slot(found.account or self._pool, limited)
                slot.put(user.name, user.heads.get(kind), user.counts[kind])
            elif slot is not None:
                slot.discard(user.name)

    def _eligible(self, user: _User, now: float) -> bool:
        if not user.counts or ("user/" + user.name) in self._paused:
            return False
        free_at = user.gauge.free_at()
        if now < free_at < math.inf:
            self._throttled.put(user.name, free_at)
        return free_at <= now

    def _open_kind(self, kind: str) -> bool:
        return ("kind/" + kind) not in self._paused

    def _reindex_key(self, key: str, now: float) -> None:
        role, _, name = key.partition("/")
        if role == "user":
            self.reindex_user(name, now)
        elif role == "kind":
            for user in sorted(user.name for user in self._users.values() if name in user.counts):
                self.reindex_user(user, now)

    # Who and what is known

    def _user(self, name: str) -> _User:
        user = self._users.get(name)
        if user is None:
            gauge = self._gauge("user/" + name, self._settings.user_limits.get(name))
            gauge.set(self._with_cap(gauge.limit), 0.0)
            user = _User(name, [view for view in self._views.values() if view.holds(name)], gauge)
            self._users[name] = user
            if self._reach is not None and not self._reach.add(name) and not self._frozen:
                self._set_unreachable(name, True)
        return user

    def _drop_user(self, user: _User) -> None:
        del self._users[user.name]
        self._throttled.discard(user.name)
        if self._reach is not None:
            self._reach.remove(user.name)
        if user.name in self._unreachable:
            self._unreachable.remove(user.name)
            del self._notes["unreachable/" + user.name]
        bucket = "bucket/user/" + user.name
        if bucket in self._notes and user.gauge.bucket is None:
            del self._notes[bucket]

    def _kind(self, name: str) -> _Kind:
        found = self._kinds.get(name)
        if found is None:
            found = self._kinds[name] = _Kind(self._gauge("kind/" + name, self._settings.kind(name).limit))
            self._set_account(name, found)
        return found

    def _set_account(self, name: str, found: _Kind) -> None:
        """Give a limited kind an account and take it from one that is not; its slots are made anew."""
        room = self._notes.within(f"kind/{name}/")
        if found.gauge.limit.holds == (found.account is not None):
            return
        if found.gauge.limit.holds:
            found.account = self._settings.sharing.start(room, self)
        else:
            found.account = None
            for key in room.under(""):
                del room[key]
        for view in self._views.values():
            view.slots.pop(name, None)

    def _gauge(self, key: str, limit: Limit | None) -> Gauge:
        limit = self._limits.get(key, limit or Limit())
        return Gauge(limit, self._notes.get("bucket/" + key, ALWAYS))

    def _with_cap(self, limit: Limit) -> Limit:
        caps = [cap for cap in (limit.concurrency_max, self._cap) if cap is not None]
        return Limit(limit.rate_limit, min(caps, default=None))

    # Who can be reached

    def _set_reach(self) -> None:
        """Without assignments every worker reaches everybody, and nobody needs a graph to know."""
        if self._reach is None:
            if all(found.users is None for found in self._classes):
                return
            self._reach = Reach()
        for name in self._users:
            self._reach.add(name)
        self._reach.set_classes(self._classes, self._settings.stealing)
        now_unreachable = set(self._reach.unreachable())
        for name in sorted(self._unreachable ^ now_unreachable):
            self._set_unreachable(name, name in now_unreachable)

    def _set_unreachable(self, name: str, unreachable: bool) -> None:
        if unreachable == (name in self._unreachable):
            return
        if unreachable:
            self._unreachable.add(name)
            self._notes["unreachable/" + name] = True
        else:
            self._unreachable.remove(name)
            del self._notes["unreachable/" + name]
        self.reach_changes.append((name, unreachable))

    @property
    def unreachable(self) -> frozenset[str]:
        """The users with work that no worker serves or may steal from."""
        return frozenset(self._unreachable)
