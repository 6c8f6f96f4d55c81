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
from typing import NamedTuple

from actors.actor import NEVER
from actors.config import Settings
from actors.kinds import Kinds
from actors.limits import Gauge, Limit
from actors.messages import Head, Ready, WorkerClass
from actors.places import Places
from actors.policies.heaps import KeyHeap
from actors.policies.reach import Watch
from actors.policies.sharing import CapsUsers, Gauged, open_account
from actors.policies.stealing import Lots, View
from actors.restraints import EVERYTHING, Restraints, kind_key, user_key
from actors.standing import Standing
from actors.table import Notes

__all__ = ["Choice", "Demand"]


class Choice(NamedTuple):
    """Whose turn it is, and what of theirs may be started."""

    user: str
    kinds: frozenset[str]
    stolen: bool


class _User:
    __slots__ = ("counts", "gauge", "heads", "name", "placed", "running", "views")

    def __init__(self, name: str, views: list[View], gauge: Gauge) -> None:
        self.name = name
        self.views = views
        self.gauge = gauge
        self.counts: dict[str, int] = {}
        self.heads: dict[str, Head] = {}
        self.running: dict[str, int] = {}
        self.placed: set[str] = set()
        """The kinds in whose slots it is."""


class Demand:
    """What the scheduler knows of users, kinds and limits; the claims that accounts ask about."""

    def __init__(self, settings: Settings, notes: Notes) -> None:
        self._settings = settings
        self._notes = notes
        self._weights: dict[str, float] = dict(settings.weights) | notes.under("weight/")
        policy = settings.sharing
        cap = policy.user_concurrency_max if isinstance(policy, CapsUsers) else None
        self._restraints = Restraints(settings.limits(), cap, notes)
        self._users: dict[str, _User] = {}
        self._kinds = Kinds(settings, self._restraints, notes, self)
        self._places = Places(settings.stealing)
        self._offers: dict[WorkerClass, frozenset[str]] = {}
        """What a worker of each class may be offered of anybody's; made anew when kinds, limits or pauses change."""
        self._looks_closely = True
        self._throttled = KeyHeap()
        """Users out of permits, by when they have one again."""
        self.ready_count = 0
        """Tasks that could start, as far as the scheduler is told; 0 only if there are none."""
        self._frozen = False
        self.watch = Watch(settings.stealing, notes)
        """Who is unreachable."""
        self._pool = open_account(policy, notes.within("pool/"), self)
        self._only_raises: bool = getattr(self._pool, "charges_only_raise", False)
        self._everything = self._restraints.gauge(EVERYTHING)

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
        return self.ready_count + self._everything.running

    # Who is there

    def add_class(self, worker_class: WorkerClass, now: float) -> None:
        """There are workers of this class."""
        if worker_class not in self._places.classes:
            self.set_classes([*self._places.classes, worker_class], now)

    def set_classes(self, classes: Iterable[WorkerClass], now: float) -> None:
        """There are workers of these classes and no others: every index is made anew."""
        self._places.set_classes(classes, self._settings.handled)
        for kind in self._places.handled:
            self._kinds.get(kind)
        self._offers.clear()
        self._looks_closely = self._settings.sharing.sees_heads or not self._places.all_fair
        for user in self._users.values():
            user.views = self._places.views_of(user.name)
        self.reindex(now)

    def equip(self, now: float) -> None:
        """The settings have other kinds, or other limits for them: look again."""
        for key, limit in self._settings.limits().items():
            if key.startswith(kind_key("")) and self._restraints.adopt(key, limit, now):
                self._limit_changed(key, now)
        self.set_classes(list(self._places.classes), now)

    def classes(self) -> Iterable[WorkerClass]:
        """Every class of workers, in a fixed order."""
        return self._places.classes

    @property
    def draws_lots(self) -> bool:
        """Whether a decision may depend on chance."""
        return self._places.draws_lots

    def hear(self, ready: Ready, now: float) -> None:
        """A shard says what it has."""
        if self.tell(ready):
            self.reindex_user(ready.user, now, ready.counts)

    def tell(self, ready: Ready) -> bool:
        """Take down what a shard says it has; True if `reindex_user` must make it count.

        A count that only goes up or down moves nobody, unless somebody looks at heads or at counts.
        """
        user = self._users.get(ready.user) or self._user(ready.user)
        known = self._kinds.known
        stale = self._looks_closely or user.gauge.held
        for kind, count in ready.counts.items():
            before = user.counts.get(kind, 0)
            if not (before and count):
                stale = True
            difference = count - before
            (known.get(kind) or self._kinds.get(kind)).waiting += difference
            self.ready_count += difference
            if count:
                user.counts[kind] = count
            else:
                user.counts.pop(kind, None)
                user.heads.pop(kind, None)
        if ready.heads:
            user.heads.update(ready.heads)
        if ready.running is not None:
            self._set_running(user, ready.running)
        return stale

    def forget(self, name: str, now: float) -> None:
        """The user has nothing ready, until its shard says otherwise."""
        if (user := self._users.get(name)) is not None:
            self.tell(Ready(name, dict.fromkeys(user.counts, 0), {}, 0))
            self.reindex_user(name, now)

    # The decision

    def choose(self, worker_class: WorkerClass, now: float, lots: Lots) -> Choice | None:
        """Who a worker of this class should serve now, or None. Changes nothing."""
        if EVERYTHING in self._restraints.paused or (self._everything.held and self._everything.free_at() > now):
            return None
        runs, known = self._places.runs[worker_class], self._kinds.known
        for view in self._places.classes[worker_class]:
            turns: dict[str, str] = {}
            for kind, slot in view.slots.items():
                if kind not in runs or ((gauge := known[kind].gauge).held and gauge.free_at() > now):
                    continue
                user = slot.pick(lots)
                if user is not None:
                    turns[kind] = user
            if turns:
                return self._offer(view, worker_class, turns)
        return None

    def _offer(self, view: View, worker_class: WorkerClass, turns: dict[str, str]) -> Choice:
        """The best of those whose turn it is, with every kind it may start, a limited one only at its own turn there.

        Kinds it is not known to have are offered too: a better task may have come whose word is still under way.
        """
        if len(turns) == 1:
            (best,) = turns.values()
        else:
            best = min(turns.items(), key=lambda turn: (self._rank(view, *turn), turn[1]))[1]
        offer = self._offers.get(worker_class)
        if offer is None:
            runs = self._places.runs[worker_class]
            offer = frozenset(kind for kind in runs if kind not in self._kinds.limited and self._open_kind(kind))
            self._offers[worker_class] = offer
        if self._kinds.limited:
            offer |= {kind for kind, user in turns.items() if user == best and kind in self._kinds.limited}
        return Choice(best, offer, view.key.stolen)

    def _rank(self, view: View, kind: str, name: str) -> object:
        user = self._users[name]
        if view.key.order != "fair":
            return -user.counts[kind]
        return self._pool.rank(name, user.heads.get(kind))

    def wakes_at(self, now: float) -> float:
        """When a limit that holds something back opens by itself, or NEVER."""
        if self._everything.bucket is None and not self._kinds.limited and not self._throttled.names:
            return NEVER
        times = [self._everything.free_at()] if self.ready_count else []
        times += [kind.gauge.free_at() for kind in self._kinds.limited.values() if kind.waiting]
        if (first := self._throttled.first()) is not None:
            times.append(first[0])
        return min((at for at in times if now < at < math.inf), default=NEVER)

    def refill(self, now: float) -> None:
        """Users that have a permit again by now are back."""
        if not self._throttled.names:
            return
        while (first := self._throttled.first()) is not None and first[0] <= now:
            self._throttled.discard(first[1])
            self.reindex_user(first[1], now)

    # For those who want to know

    def limit(self, key: str) -> Limit:
        """What `all`, `kind/...` or `user/...` is held to."""
        return self._restraints.gauge(key).limit

    def standing(self, user: str, kind: str, now: float, idle: Iterable[WorkerClass] = ()) -> Standing:
        """How a user stands with a kind, with workers of these classes idle."""
        able = [found for found, runs in self._places.runs.items() if kind in runs]
        serving = [found for found in able if any(view.holds(user) for view in self._places.classes[found])]
        idle = set(idle)
        front = self._front(user, kind)
        gap = self._pool.gap(user, front) if front is not None and isinstance(self._pool, Gauged) else None
        return Standing(
            paused=tuple(key for key in _keys(user, kind) if key in self._restraints.paused),
            limited=self._limits_of(user, kind, now),
            handled=bool(able),
            reachable=bool(serving),
            idle=any(found in idle for found in serving),
            front=front,
            gap=gap,
            competing=self._competing(user, serving),
        )

    def _limits_of(self, name: str, kind: str, now: float) -> tuple[tuple[str, float], ...]:
        free_at = {key: self._restraints.gauge(key).free_at() for key in _keys(name, kind)}
        return tuple((key, at) for key, at in free_at.items() if at > now)

    def _front(self, name: str, kind: str) -> str | None:
        """Whose turn it is in the first slot of this kind that the user is in, if it is another's."""
        user = self._users.get(name)
        for view in () if user is None else user.views:
            slot = view.slots.get(kind)
            if slot is not None and (front := slot.pick(lambda n: 0.0)) is not None:
                return None if front == name else front
        return None

    def _competing(self, name: str, serving: list[WorkerClass]) -> frozenset[str]:
        user = self._users.get(name)
        if user is None:
            return frozenset()
        beside = frozenset().union(*(self._places.runs[found] for found in serving))
        return frozenset(
            other
            for other in user.counts
            if other in beside and self._open_kind(other) and not self._kinds.known[other].account
        )

    # What was started and what ended

    def start(self, name: str, kind: str, cost: float, now: float) -> None:
        """A task was claimed: charge every account and take from every limit it uses."""
        user, found = self._users.get(name) or self._user(name), self._kinds.known.get(kind) or self._kinds.get(kind)
        user.running[kind] = user.running.get(kind, 0) + 1
        self._restraints.take((self._everything, found.gauge, user.gauge), now)
        self._pool.charge(name, cost, now)
        if found.account is not None:
            found.account.charge(name, cost, now)
        if not self._only_raises:
            self._places.refresh(name)
        if user.gauge.held:
            self.reindex_user(name, now)

    def settle(self, name: str, kind: str, difference: float, now: float) -> None:
        """A claim ended: free what it held, and correct the charge to what was used.

        After a restart the end of a claim may be heard of before, or instead of, the shard's word on what it has running:
        what was never counted, or is no longer, frees nothing.
        """
        user, found = self._users.get(name) or self._user(name), self._kinds.known.get(kind) or self._kinds.get(kind)
        if counted := user.running.get(kind, 0):
            if counted > 1:
                user.running[kind] = counted - 1
            else:
                del user.running[kind]
            for gauge in (self._everything, found.gauge, user.gauge):
                gauge.running -= 1
        self._pool.correct(name, difference, now)
        if found.account is not None and not self._kinds.was_uncharged(kind, name):
            found.account.correct(name, difference, now)
        if difference < 0 or not self._only_raises:
            self._places.refresh(name)
        if user.gauge.held or not user.counts:
            self.reindex_user(name, now)
        if not found.waiting and kind not in self._places.handled:
            self._kinds.forget(kind)

    def _set_running(self, user: _User, running: Mapping[str, int]) -> None:
        """What a shard says it has running is the truth: adjust every count to it."""
        for kind in {**user.running, **running}:
            difference = running.get(kind, 0) - user.running.get(kind, 0)
            for gauge in (self._everything, self._kinds.get(kind).gauge, user.gauge):
                gauge.running += difference
        user.running = {kind: count for kind, count in running.items() if count}

    # What people change

    def pause(self, key: str, now: float) -> None:
        """Start nothing of `all`, `kind/...` or `user/...`."""
        self._restraints.pause(key)
        self._reindex_key(key, now)

    def resume(self, key: str, now: float) -> None:
        """Start them again; not an error if they were not paused."""
        self._restraints.resume(key)
        self._reindex_key(key, now)

    def set_weight(self, name: str, weight: float) -> None:
        """Weigh a user, or everybody below a name, anew, with what is queued already."""
        before = self.weight(name)
        self._weights[name] = weight
        self._notes["weight/" + name] = weight
        for account in (self._pool, *(kind.account for kind in self._kinds.limited.values())):
            assert account is not None, "a limited kind has an account"
            account.reweigh(name, before, weight)
        self._places.refresh(name)

    def set_limit(self, key: str, limit: Limit, now: float) -> None:
        """Hold `all`, `kind/...` or `user/...` to another limit."""
        self._restraints.set_limit(key, limit, now)
        self._limit_changed(key, now)

    def _limit_changed(self, key: str, now: float) -> None:
        role, _, name = key.partition("/")
        if role == "kind":
            found = self._kinds.get(name)
            was_limited = found.account is not None
            if self._kinds.update_account(name):
                self._places.drop_kind(name)
            if found.account is not None and not was_limited:
                running = {user.name: user.running[name] for user in self._users.values() if name in user.running}
                self._kinds.set_uncharged(name, running)
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
        self.watch.look(self._places.classes, self._users)
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
        if kinds is None or user.gauge.held:
            kinds = user.placed | user.counts.keys()
        for kind in kinds:
            self._place(user, kind, kind in servable)
        if not user.counts and not user.gauge.running:
            self._drop_user(user)

    def _activate(self, user: _User, servable: set[str], now: float) -> None:
        free = False
        for kind in servable:
            account = self._kinds.known[kind].account
            if account is None:
                free = True
            else:
                account.activate(user.name, now)
        (self._pool.activate(user.name, now) if free else self._pool.deactivate(user.name))

    def _place(self, user: _User, kind: str, servable: bool) -> None:
        found = self._kinds.known.get(kind) or self._kinds.get(kind)
        if servable:
            user.placed.add(kind)
        else:
            user.placed.discard(kind)
            if found.account is not None:
                found.account.deactivate(user.name)
        account, limited = found.account or self._pool, found.account is not None
        for view in user.views:
            if servable and kind in view.kinds:
                self._places.put(user.name, view, kind, account, limited, user.heads.get(kind), user.counts[kind])
            elif (slot := view.slots.get(kind)) is not None:
                slot.discard(user.name)
        if not found.waiting and kind not in self._places.handled:
            self._kinds.forget(kind)

    def _eligible(self, user: _User, now: float) -> bool:
        if self._throttled.names:
            self._throttled.discard(user.name)
        if not user.gauge.held and not self._restraints.paused:
            return bool(user.counts)
        if not user.counts or user_key(user.name) in self._restraints.paused:
            return False
        free_at = user.gauge.free_at()
        if now < free_at < math.inf:
            self._throttled.put(user.name, free_at)
        return free_at <= now

    def _open_kind(self, kind: str) -> bool:
        paused = self._restraints.paused
        return not paused or kind_key(kind) not in paused

    def _reindex_key(self, key: str, now: float) -> None:
        role, _, name = key.partition("/")
        if role == "user":
            self.reindex_user(name, now)
        elif role == "kind":
            self._offers.clear()
            for user in sorted(user.name for user in self._users.values() if name in user.counts):
                self.reindex_user(user, now)

    # Who and what is known

    def _user(self, name: str) -> _User:
        user = self._users.get(name)
        if user is None:
            gauge = self._restraints.gauge(user_key(name))
            user = self._users[name] = _User(name, self._places.views_of(name), gauge)
            if not self._frozen:
                self.watch.add(name)
        return user

    def _drop_user(self, user: _User) -> None:
        del self._users[user.name]
        self._throttled.discard(user.name)
        self._restraints.forget(user_key(user.name))
        self.watch.remove(user.name)


def _keys(user: str, kind: str) -> tuple[str, str, str]:
    return (EVERYTHING, kind_key(kind), user_key(user))
