"""Settings, as frozen attrs classes, and the one strict way to read them from a file.

`structure` reads plain data (from TOML) with cattrs. Nothing is guessed or converted: an unknown key, a number given as
text or a value out of bounds is refused with the path of the key, the constraint and the value.
"""

import math
from collections.abc import Mapping
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import attrs
import cattrs
from cattrs.gen import make_dict_structure_fn, override

from actors.errors import EvenhandError, InvalidConfig
from actors.limits import Limit
from actors.policies import ORDERING, SHARING, suggestion
from actors.policies.fair import WeightedFair
from actors.policies.ordering import Aging, OrderingPolicy
from actors.policies.sharing import SharingPolicy
from actors.policies.stealing import STEALING
from actors.restraints import EVERYTHING, kind_key, user_key
from actors.retry import RetryPolicy
from actors.task import Priority
from actors.validators import finite, greater_than, one_of, or_none, whole

__all__ = ["KindSettings", "Settings", "make_converter", "structure"]

T = TypeVar("T")

WHEN_FULL = ("reject", "wait", "drop_oldest")
"""What a full door can do."""


@attrs.frozen(kw_only=True)
class KindSettings:
    """How tasks of one kind are run.

    >>> KindSettings().lease_seconds
    60.0
    """

    lease_seconds: float = attrs.field(default=60.0, validator=greater_than(0))
    """How long a silent worker keeps a task."""
    retry: RetryPolicy = RetryPolicy()
    """When a failed execution is tried again, unless the task says otherwise."""
    limit: Limit = Limit()
    """How many may start a second, and run at once."""


@attrs.frozen(kw_only=True)
class Settings:
    """What the cores need to know.

    >>> Settings(weights={"alice": 2.0}).weight("bob")
    1.0
    """

    sharing: SharingPolicy = WeightedFair()
    """Whose turn it is."""
    ordering: OrderingPolicy = Aging()
    """Which of a user's tasks is next."""
    kinds: Mapping[str, KindSettings] = attrs.Factory(dict)
    """Per kind; a kind that is not here has the defaults."""
    weights: Mapping[str, float] = attrs.field(factory=dict)
    """Per user, or per name above users; who is not here weighs 1."""
    limit: Limit = Limit()
    """What everything together is held to."""
    user_limits: Mapping[str, Limit] = attrs.Factory(dict)
    """What single users are held to."""
    stealing: str = attrs.field(default="longest", validator=one_of(STEALING))
    """From whom a worker takes work when its own users have none."""
    critical_burst: int | None = attrs.field(default=16, validator=or_none(whole(1)))
    """Critical tasks started in a row while other work waits; None: no limit."""
    poison_after: int = attrs.field(default=3, validator=whole(1))
    """Workers a task may take down before it is dead-lettered."""
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

    @weights.validator
    def _check_weights(self, _: Any, weights: Mapping[str, float]) -> None:
        for user, weight in weights.items():
            if not (isinstance(weight, (int, float)) and math.isfinite(weight) and weight > 0):
                raise InvalidConfig(f"weight of {user!r} must be a finite number > 0, got {weight!r}")

    def kind(self, name: str) -> KindSettings:
        """The settings of a kind."""
        return self.kinds.get(name, _DEFAULT_KIND)

    def limits(self) -> dict[str, Limit]:
        """Every limit that holds something, by the key that restraints.py gives it."""
        limits = {EVERYTHING: self.limit}
        limits |= {kind_key(kind): settings.limit for kind, settings in self.kinds.items()}
        limits |= {user_key(user): limit for user, limit in self.user_limits.items()}
        return {key: limit for key, limit in limits.items() if limit.holds}

    def weight(self, user: str) -> float:
        """The weight of a user."""
        return self.weights.get(user, 1.0)


_DEFAULT_KIND = KindSettings()


# Reading plain data


def structure(converter: cattrs.Converter, data: object, into: type[T]) -> T:
    """Plain data as an instance of `into`, or InvalidConfig with a line for each fault, its path first.

    >>> structure(make_converter(), {"critical_burst": 0, "poison_afer": 2}, Settings)
    Traceback (most recent call last):
    actors.errors.InvalidConfig: poison_afer is not a key of this table (did you mean 'poison_after'?)
    >>> structure(make_converter(), {"critical_burst": 0}, Settings)
    Traceback (most recent call last):
    actors.errors.InvalidConfig: critical_burst must be a whole number >= 1, got 0
    """
    try:
        return converter.structure(data, into)
    except Exception as error:
        raise InvalidConfig("\n".join(_faults(error, ""))) from None


def make_converter() -> cattrs.Converter:
    """A converter that converts nothing: every value must already be what its field says."""
    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=True)
    for primitive, name in ((str, "text"), (bool, "true or false"), (int, "a whole number"), (float, "a number")):
        converter.register_structure_hook(primitive, _exactly(primitive, name))
    converter.register_structure_hook(Priority, lambda value, _: Priority.parse(value))
    converter.register_structure_hook(SharingPolicy, lambda value, _: SHARING.make(value))
    converter.register_structure_hook(OrderingPolicy, lambda value, _: ORDERING.make(value))
    converter.register_structure_hook_func(_is_optional, lambda value, into: _optional(converter, value, into))
    converter.register_structure_hook_factory(attrs.has, lambda cls: _table_hook(converter, cls))
    return converter


class _Fault(Exception):
    """A fault of the value itself; the path to it is known further up."""


def _exactly(primitive: type, name: str) -> Any:
    accepted = (int, float) if primitive is float else (primitive,)

    def hook(value: object, _: object) -> Any:
        if not isinstance(value, accepted) or (isinstance(value, bool) and primitive is not bool):
            raise _Fault(f"must be {name}, got {value!r}")
        return primitive(value)

    return hook


def _is_optional(into: Any) -> bool:
    return get_origin(into) in (Union, UnionType) and type(None) in get_args(into)


def _optional(converter: cattrs.Converter, value: object, into: Any) -> Any:
    (inner,) = (kind for kind in get_args(into) if kind is not type(None))
    return None if value is None else converter.structure(value, inner)


def _table_hook(converter: cattrs.Converter, cls: type[Any]) -> Any:
    """Refuses what is not a table, unknown keys and missing ones before cattrs looks at any value."""
    resolved = attrs.resolve_types(cls)
    fields = {field.metadata.get("key", field.name): field for field in attrs.fields(resolved)}
    renames: dict[str, Any] = {field.name: override(rename=key) for key, field in fields.items() if key != field.name}
    inner = make_dict_structure_fn(cls, converter, _cattrs_detailed_validation=True, **renames)

    def hook(value: object, into: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _Fault(f"must be a table, got {value!r}")
        for key in value:
            if key not in fields:
                raise _KeyFault(str(key), f"is not a key of this table{suggestion(str(key), list(fields))}")
        for key, field in fields.items():
            if key not in value and field.default is attrs.NOTHING:
                raise _KeyFault(key, "is missing")
        return inner(value, into)

    return hook


class _KeyFault(_Fault):
    """A fault of a key below the current path."""

    def __init__(self, key: str, said: str) -> None:
        super().__init__(said)
        self.key = key


def _faults(error: BaseException, path: str) -> list[str]:
    """A line for each fault, found by walking cattrs' exception groups and the notes that say where they arose."""
    if isinstance(error, (cattrs.ClassValidationError, cattrs.IterableValidationError)):
        return [line for inner in error.exceptions for line in _faults(inner, path + _step(inner))]
    path = path.removeprefix(".")
    if isinstance(error, _KeyFault):
        return [f"{path}.{error.key} {error}".removeprefix(".")]
    if isinstance(error, _Fault):
        return [f"{path or 'the file'} {error}"]
    if isinstance(error, EvenhandError):
        return [_with_path(path, str(error))]
    return [f"{path or 'the file'} is not valid: {error}"]


def _step(error: BaseException) -> str:
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, cattrs.AttributeValidationNote):
            return f".{note.name}"
        if isinstance(note, cattrs.IterableValidationNote):
            return f"[{note.index!r}]" if isinstance(note.index, str) else f"[{note.index}]"
    return ""


def _with_path(path: str, said: str) -> str:
    """Put the path before an error that starts with the field's own name, without naming the field twice."""
    field = said.partition(" ")[0]
    if not path or path == field:
        return said
    if path.rpartition(".")[2] == field:
        return f"{path}{said.removeprefix(field)}"
    return f"{path}: {said}" if " " in said else f"{path} {said}"
