"""Settings, as frozen attrs classes, and the one strict way to read them from a file.

`structure` reads plain data (from TOML) with cattrs. Nothing is guessed or converted: an unknown key, a number given as
text or a value out of bounds is refused with the path of the key, the constraint and the value. Whoever writes a file
is told all of its faults at once: each table and list gathers those of its parts before it raises.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from operator import or_
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin

import attrs

from actors.errors import EvenhandError, InvalidConfig
from actors.limits import Limit
from actors.policies import ORDERING, SHARING, Registry, suggestion
from actors.policies.fair import WeightedFair
from actors.policies.ordering import Aging, OrderingPolicy
from actors.policies.sharing import SharingPolicy
from actors.policies.stealing import STEALING
from actors.restraints import EVERYTHING, kind_key, user_key
from actors.retry import RetryPolicy
from actors.task import Priority
from actors.validators import finite, greater_than, number_fault, one_of, or_none, whole

__all__ = ["Faults", "KindSettings", "Settings", "make_converter", "structure"]

if TYPE_CHECKING:
    import cattrs

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
    timeout_seconds: float | None = attrs.field(default=300.0, validator=or_none(greater_than(0)))
    """When an execution is told to stop; None: never."""
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
    handled: Collection[str] = ()
    """The kinds that have a handler, for workers that run whatever has one. May grow: see `Equip`."""
    weights: Mapping[str, float] = attrs.field(factory=dict)
    """Per user, or per name above users; who is not here weighs 1."""
    limit: Limit = Limit()
    """What everything together is held to."""
    user_limits: Mapping[str, Limit] = attrs.Factory(dict)
    """What single users are held to."""
    stealing: str = attrs.field(default="longest", validator=one_of(STEALING))
    """From whom a worker takes work when its own users have none."""
    follows_counts: bool = True
    """Whether the scheduler must know how many tasks wait, and not only whether any do."""
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
            if fault := number_fault(f"weight of {user!r}", weight):
                raise InvalidConfig(fault)

    @property
    def bounded(self) -> bool:
        """Whether anything bounds who may come in."""
        return self.admitted_max is not None or self.admitted_per_user_max is not None

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


def structure(converter: "cattrs.Converter", data: object, into: type[T]) -> T:
    """Plain data as an instance of `into`, or InvalidConfig with a line for each fault, its path first.

    >>> structure(make_converter(), {"critical_burst": 0, "poison_afer": 2}, Settings)
    Traceback (most recent call last):
    actors.errors.InvalidConfig: poison_afer is not a key of this table (did you mean 'poison_after'?)
    critical_burst must be a whole number >= 1, got 0
    """
    try:
        return converter.structure(data, into)
    except Exception as error:
        raise InvalidConfig("\n".join(map(_from_the_top, _lines(error)))) from None


def make_converter() -> "cattrs.Converter":
    """A converter that converts nothing: every value must already be what its field says."""
    import cattrs

    converter = cattrs.Converter()
    for primitive, name in ((str, "text"), (bool, "true or false"), (int, "a whole number"), (float, "a number")):
        converter.register_structure_hook(primitive, _exactly(primitive, name))
    converter.register_structure_hook(Priority, lambda value, _: Priority.parse(value))
    converter.register_structure_hook(SharingPolicy, lambda value, _: _policy(SHARING, value))
    converter.register_structure_hook(OrderingPolicy, lambda value, _: _policy(ORDERING, value))
    converter.register_structure_hook_func(_is_list, lambda value, into: _list(converter, value, into))
    converter.register_structure_hook_func(_is_mapping, lambda value, into: _mapping(converter, value, into))
    converter.register_structure_hook_func(_is_optional, lambda value, into: _optional(converter, value, into))
    converter.register_structure_hook_factory(attrs.has, lambda cls: _table_hook(converter, cls))
    return converter


# What is wrong with a value


class Faults(Exception):
    """What is wrong with a value, a line for each fault, to be put straight behind the value's path.

    So ` must be text, got 3` is about the value itself, `.weight is missing` and `[1] must be text, got 3` are about
    something in it, and `: check 'c' must have either at_most or at_least` is a sentence of its own.
    """

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


@attrs.define
class _Gathering:
    """Goes on after a fault, to find the others."""

    lines: list[str] = attrs.Factory(list)

    @contextmanager
    def at(self, step: str, names: Collection[str] = ()) -> Iterator[None]:
        """What is raised in here is a fault of what lies one step down, where it goes by these names."""
        try:
            yield
        except Exception as error:
            self.lines += [f"{step}{line}" for line in _lines(error, names)]

    def finish(self) -> None:
        """Raise what was gathered, if anything was."""
        if self.lines:
            raise Faults(*self.lines)


def _lines(error: Exception, names: Collection[str] = (), keys: Collection[str] = ()) -> list[str]:
    """An error as the lines of `Faults`, for a value that goes by these names and has these keys below it."""
    if isinstance(error, Faults):
        return list(error.lines)
    if isinstance(error, EvenhandError):
        return [_line(said, names, keys) for said in str(error).split("\n")]
    return [f" is not valid: {error}"]


def _line(said: str, names: Collection[str], keys: Collection[str]) -> str:
    """Our own errors start with the name of what is wrong; it must not be named twice, by the path and by the error."""
    subject, _, rest = said.partition(" ")
    if subject in names:
        return f" {rest}"
    return f".{said}" if re.split(r"[.\[]", subject)[0] in keys else f": {said}"


def _from_the_top(line: str) -> str:
    return f"the file{line}" if line.startswith(" ") else line.removeprefix(".").removeprefix(": ")


# A hook for each sort of value


def _exactly(primitive: type, name: str) -> Any:
    accepted = (int, float) if primitive is float else (primitive,)

    def hook(value: object, _: object) -> Any:
        if not isinstance(value, accepted) or (isinstance(value, bool) and primitive is not bool):
            raise Faults(f" must be {name}, got {value!r}")
        # As TOML has it; a longer one may fit no float, and Python prints none of more than 4,300 digits.
        if isinstance(value, int) and value.bit_length() > 64:
            raise Faults(f" must be {name} of at most 64 bits, got one of {value.bit_length()} bits")
        return primitive(value)

    return hook


def _policy(registry: Registry[Any], value: object) -> Any:
    try:
        return registry.make(value)
    except InvalidConfig as error:
        options = value if isinstance(value, Mapping) else ()
        raise Faults(*_lines(error, (registry.sort,), options)) from error


def _is_list(into: Any) -> bool:
    return get_origin(into) is tuple


def _list(converter: "cattrs.Converter", value: object, into: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        raise Faults(f" must be a list, got {value!r}")
    items, gathering = [], _Gathering()
    for number, item in enumerate(value):
        with gathering.at(f"[{number}]"):
            items.append(converter.structure(item, get_args(into)[0]))
    gathering.finish()
    return tuple(items)


def _is_mapping(into: Any) -> bool:
    return get_origin(into) is Mapping


def _mapping(converter: "cattrs.Converter", value: object, into: Any) -> Any:
    if not isinstance(value, Mapping):
        raise Faults(f" must be a table, got {value!r}")
    items, gathering = {}, _Gathering()
    for key, item in value.items():
        with gathering.at(f"[{key!r}]"):
            items[key] = converter.structure(item, get_args(into)[1])
    gathering.finish()
    return items


def _is_optional(into: Any) -> bool:
    return get_origin(into) in (Union, UnionType) and type(None) in get_args(into)


def _optional(converter: "cattrs.Converter", value: object, into: Any) -> Any:
    inner = reduce(or_, (kind for kind in get_args(into) if kind is not type(None)))
    # TOML has no null.
    return None if value is None or value == "none" else converter.structure(value, inner)


def _table_hook(converter: "cattrs.Converter", cls: type[Any]) -> Any:
    """A table has a key for each field, which some fields have under another name."""
    fields = {field.metadata.get("key", field.name): field for field in attrs.fields(attrs.resolve_types(cls))}

    def hook(value: object, _: object) -> Any:
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise Faults(f" must be a table, got {value!r}")
        found: dict[str, Any] = {}
        gathering = _Gathering(
            [
                f".{key} is not a key of this table{suggestion(str(key), list(fields))}"
                for key in value
                if key not in fields
            ]
        )
        for key, field in fields.items():
            with gathering.at(f".{key}", (key, field.name)):
                if key in value:
                    found[field.alias] = _field(converter, field, value[key])
                elif field.default is attrs.NOTHING:
                    raise Faults(" is missing")
        gathering.finish()
        try:
            return cls(**found)
        except EvenhandError as error:
            raise Faults(*_lines(error, keys=fields)) from error

    return hook


def _field(converter: "cattrs.Converter", field: "attrs.Attribute[Any]", value: object) -> Any:
    """Validated here already, because a class that is being made stops at the first value it refuses."""
    made = converter.structure(value, field.type or object)
    if field.validator is not None:
        field.validator(None, field, made)
    return made
