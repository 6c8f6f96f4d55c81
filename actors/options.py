"""Options: everything that `open_runtime` can be told, as one frozen class.

A file (TOML or YAML) and `EVENHAND_...` variables say the same things under the same names; see `configuration.py`.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import attrs

from actors.config import WHEN_FULL, KindSettings, Settings
from actors.errors import InvalidConfig
from actors.handlers import Handlers
from actors.limits import Limit
from actors.messages import WorkerClass
from actors.policies import ORDERING, SHARING
from actors.policies.fair import WeightedFair
from actors.policies.ordering import Aging, OrderingPolicy
from actors.policies.sharing import SharingPolicy, follows_counts
from actors.policies.stealing import STEALING
from actors.retry import RetryPolicy
from actors.stores.opening import SYNCHRONOUS, store_fault
from actors.validators import (
    Validator,
    between,
    finite,
    greater_than,
    one_of,
    or_none,
    user_name_fault,
    whole,
)

__all__ = ["AlertOptions", "KindOptions", "Options", "UserOptions", "WorkerOptions"]


class _Unsaid(Enum):
    UNSAID = "unsaid"

    def __repr__(self) -> str:
        return self.value


_UNSAID: Any = _Unsaid.UNSAID
"""As an option of a kind: as the handler says. None is something else, as it is for the handler: no limit, no timeout."""


# Validators that only options need


def _if_said(validator: Validator) -> Validator:
    def check(instance: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
        if value is not _UNSAID:
            validator(instance, attribute, value)

    return check


def _is(types: type | tuple[type, ...], words: str) -> Validator:
    def check(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
        if not isinstance(value, types):
            raise InvalidConfig(f"{attribute.name} must be {words}, got {value!r}")

    return check


def _listed(item: type, words: str) -> Validator:
    def check(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
        if not (isinstance(value, tuple) and all(isinstance(one, item) for one in value)):
            raise InvalidConfig(f"{attribute.name} must be a list of {words}, got {value!r}")

    return check


def _named(item: type, words: str, is_name: Callable[[object], bool]) -> Validator:
    """A table of such items by such names."""

    def check(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
        if not isinstance(value, Mapping):
            raise InvalidConfig(f"{attribute.name} must be a table, got {value!r}")
        bad = [f"{attribute.name} must have names of {words}, got {name!r}" for name in value if not is_name(name)]
        if bad:
            raise InvalidConfig("\n".join(bad))
        for name, one in value.items():
            if not isinstance(one, item):
                raise InvalidConfig(f"{attribute.name}[{name!r}] must be {item.__name__}, got {one!r}")

    return check


def _is_kind(name: object) -> bool:
    return isinstance(name, str) and name != "" and name.isprintable()


def _is_user(name: object) -> bool:
    return user_name_fault(name) is None


def _store(_: Any, attribute: "attrs.Attribute[Any]", value: Any) -> None:
    if fault := store_fault(value):
        raise InvalidConfig(fault)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _sharing(spec: object) -> SharingPolicy:
    return SHARING.make(spec)


def _ordering(spec: object) -> OrderingPolicy:
    return ORDERING.make(spec)


_NAMES = _listed(str, "names")


@attrs.frozen(kw_only=True)
class KindOptions:
    """How tasks of one kind are run; what is not said here is as the handler says, or the default.

    >>> KindOptions(timeout_seconds=30).settings(KindSettings()).timeout_seconds
    30
    >>> KindOptions(timeout_seconds=None).settings(KindSettings()).timeout_seconds is None
    True
    """

    concurrency_max: int | None = attrs.field(default=_UNSAID, validator=_if_said(or_none(whole(0))))
    """Tasks at once; None: any number, whatever the handler says."""
    rate_limit: float | None = attrs.field(default=_UNSAID, validator=_if_said(or_none(greater_than(0))))
    """Starts a second; None: any number."""
    timeout_seconds: float | None = attrs.field(default=_UNSAID, validator=_if_said(or_none(greater_than(0))))
    """When an execution is told to stop; None: never."""
    lease_seconds: float = attrs.field(default=_UNSAID, validator=_if_said(greater_than(0)))
    """How long a silent worker keeps a task."""
    max_retries: int = attrs.field(default=_UNSAID, validator=_if_said(whole(0)))
    """Executions after the first; wins over that of `retry`."""
    retry: RetryPolicy = attrs.field(default=_UNSAID, validator=_if_said(_is(RetryPolicy, "a RetryPolicy")))
    """When a failed execution is tried again."""

    def settings(self, others: KindSettings) -> KindSettings:
        """These, and where these say nothing those."""

        def said(value: Any, other: Any) -> Any:
            return other if value is _UNSAID else value

        retry = said(self.retry, others.retry)
        return KindSettings(
            lease_seconds=said(self.lease_seconds, others.lease_seconds),
            timeout_seconds=said(self.timeout_seconds, others.timeout_seconds),
            retry=attrs.evolve(retry, max_retries=said(self.max_retries, retry.max_retries)),
            limit=Limit(
                said(self.rate_limit, others.limit.rate_limit),
                said(self.concurrency_max, others.limit.concurrency_max),
            ),
        )


@attrs.frozen(kw_only=True)
class UserOptions:
    """What is particular about one user.

    >>> UserOptions(weight=2.0).weight
    2.0
    """

    weight: float = attrs.field(default=1.0, validator=greater_than(0))
    """The part of the workers that is its due, relative to the others."""
    rate_limit: float | None = attrs.field(default=None, validator=or_none(greater_than(0)))
    """Starts a second."""
    concurrency_max: int | None = attrs.field(default=None, validator=or_none(whole(0)))
    """Tasks at once."""


@attrs.frozen(kw_only=True)
class WorkerOptions:
    """Workers that are alike.

    >>> WorkerOptions(count=2, users=("alice",), steals=("*",)).worker_class()
    WorkerClass(kinds=None, users=('alice',), steals=('*',))
    """

    count: int = attrs.field(default=1, validator=whole(1))
    kinds: tuple[str, ...] | None = attrs.field(default=None, converter=_tuple, validator=or_none(_NAMES))
    """What they run; every kind that has a handler unless given."""
    users: tuple[str, ...] | None = attrs.field(default=None, converter=_tuple, validator=or_none(_NAMES))
    """Their own users, names or globs; everybody unless given."""
    steals: tuple[str, ...] = attrs.field(default=(), converter=_tuple, validator=_NAMES)
    """Whom they may steal from when their own have nothing."""

    def worker_class(self) -> WorkerClass:
        """As the scheduler knows them."""
        return WorkerClass(None if self.kinds is None else frozenset(self.kinds), self.users, self.steals)


@attrs.frozen(kw_only=True)
class AlertOptions:
    """From where on `health()` raises an alert; None: never.

    >>> AlertOptions(oldest_wait_seconds=60).failure_rate
    0.5
    """

    oldest_wait_seconds: float | None = attrs.field(default=300.0, validator=or_none(finite(0)))
    """The task that has waited longest, its delays not counted, has waited longer than this."""
    failure_rate: float | None = attrs.field(default=0.5, validator=or_none(between(0, 1)))
    """More than this part of the executions of the last minutes failed."""
    stuck: int | None = attrs.field(default=0, validator=or_none(whole(0)))
    """More executions than this fell silent, or went on though they were told to stop, in the last minutes."""
    unreachable: int | None = attrs.field(default=0, validator=or_none(whole(0)))
    """More users than this have work that no worker may take."""
    refused: int | None = attrs.field(default=0, validator=or_none(whole(0)))
    """More submits than this were refused at the door in the last minutes."""


@attrs.frozen(kw_only=True)
class Options:
    """Everything that a runtime can be told.

    >>> Options(workers=4).settings(Handlers({})).stealing
    'longest'
    """

    store: str = attrs.field(default="memory", validator=_store)
    """Where tasks are kept: `memory`, or `sqlite:FILE`."""
    store_synchronous: str = attrs.field(default="full", validator=one_of(SYNCHRONOUS))
    """What an acknowledgement survives: `full` a loss of power, `normal` the end of the process, however it ends."""
    workers: int = attrs.field(default=16, validator=whole(1))
    """Workers that take anything from anybody, unless `worker` says otherwise."""
    worker: tuple[WorkerOptions, ...] = attrs.field(
        default=(), converter=_tuple, validator=_listed(WorkerOptions, "WorkerOptions")
    )
    """Workers with assignments."""
    sharing: SharingPolicy = attrs.field(default=WeightedFair(), converter=_sharing)
    """Whose turn it is."""
    ordering: OrderingPolicy = attrs.field(default=Aging(), converter=_ordering)
    """Which of a user's tasks is next."""
    stealing: str = attrs.field(default="longest", validator=one_of(STEALING))
    """From whom a worker takes work when its own users have none."""
    critical_burst: int | None = attrs.field(default=16, validator=or_none(whole(1)))
    """Critical tasks started in a row while other work waits; None: no limit."""
    poison_after: int = attrs.field(default=3, validator=whole(1))
    """Workers a task may take down before it is dead-lettered."""
    rate_limit: float | None = attrs.field(default=None, validator=or_none(greater_than(0)))
    """Starts a second, over everything."""
    concurrency_max: int | None = attrs.field(default=None, validator=or_none(whole(0)))
    """Tasks at once, over everything."""
    kinds: Mapping[str, KindOptions] = attrs.field(
        factory=dict, validator=_named(KindOptions, "printable text", _is_kind)
    )
    """Per kind; wins over what the handler says."""
    users: Mapping[str, UserOptions] = attrs.field(
        factory=dict, validator=_named(UserOptions, "1 to 128 printable characters", _is_user)
    )
    """Per user."""
    admitted_max: int | None = attrs.field(default=None, validator=or_none(whole(0)))
    """Tasks admitted and not yet ended; None: no bound."""
    admitted_per_user_max: int | None = attrs.field(default=None, validator=or_none(whole(0)))
    """Of those, tasks of one user; None: no bound."""
    admission_share: float | None = attrs.field(default=8.0, validator=or_none(greater_than(0)))
    """Where `admitted_max` is set: what a user may hold, as a multiple of the room still free; None: all of it."""
    when_full: str = attrs.field(default="reject", validator=one_of(WHEN_FULL))
    """What becomes of a submit that finds no room: it is refused, or waits, or somebody's oldest task makes room."""
    keep_completed_seconds: float | None = attrs.field(default=3600.0, validator=or_none(finite(0)))
    """How long a completed task can be looked up; None: for ever."""
    keep_failed_seconds: float | None = attrs.field(default=7200.0, validator=or_none(finite(0)))
    """How long a failed one can."""
    keep_cancelled_seconds: float | None = attrs.field(default=1800.0, validator=or_none(finite(0)))
    """How long a cancelled one can."""
    payload_bytes_max: int = attrs.field(default=256 * 1024, validator=whole(0))
    """The size of a payload, encoded as JSON."""
    stop_grace_seconds: float = attrs.field(default=30.0, validator=finite(0))
    """When the block is left: how long what runs may go on before it is given back."""
    drain: bool = attrs.field(default=False, validator=_is(bool, "true or false"))
    """When the block is left: whether what waits is run too, within the grace time."""
    cancel_grace_seconds: float = attrs.field(default=5.0, validator=finite(0))
    """How long a handler that was told to stop may take before it is fenced and reported."""
    alerts: AlertOptions = attrs.field(default=AlertOptions(), validator=_is(AlertOptions, "AlertOptions"))
    """From where on `health()` raises alerts."""
    record: str | None = attrs.field(default=None, validator=or_none(_is(str, "the name of a file")))
    """A file to which every event is written, as JSON Lines; one that is there is replaced. `{time}` in its name becomes the
    time of the start."""
    seed: int | None = attrs.field(default=None, validator=or_none(whole(0)))
    """What retry jitter and lots are drawn from; None: another one each time."""

    def worker_classes(self) -> list[WorkerClass]:
        """What each worker can take, in the order of their numbers."""
        if not self.worker:
            return [WorkerClass()] * self.workers
        return [group.worker_class() for group in self.worker for _ in range(group.count)]

    def kind(self, name: str, others: KindSettings) -> KindSettings:
        """The settings of a kind whose handler has these."""
        options = self.kinds.get(name)
        return others if options is None else options.settings(others)

    def settings(self, handlers: Handlers) -> Settings:
        """What the cores need to know; kinds come with their handlers."""
        return Settings(
            sharing=self.sharing,
            ordering=self.ordering,
            kinds=handlers.settings,
            handled=handlers,
            weights={name: user.weight for name, user in self.users.items()},
            limit=Limit(self.rate_limit, self.concurrency_max),
            user_limits={
                name: limit
                for name, user in self.users.items()
                if (limit := Limit(user.rate_limit, user.concurrency_max)).holds
            },
            stealing=self.stealing,
            follows_counts=follows_counts(self.sharing, self.worker_classes(), self.stealing),
            critical_burst=self.critical_burst,
            poison_after=self.poison_after,
            admitted_max=self.admitted_max,
            admitted_per_user_max=self.admitted_per_user_max,
            admission_share=self.admission_share,
            when_full=self.when_full,
            keep_completed_seconds=self.keep_completed_seconds,
            keep_failed_seconds=self.keep_failed_seconds,
            keep_cancelled_seconds=self.keep_cancelled_seconds,
            payload_bytes_max=self.payload_bytes_max,
        )
