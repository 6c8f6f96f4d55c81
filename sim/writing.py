"""A scenario as the text of a scenario file: what differs from the defaults, and nothing else.

What is written reads back as an equal scenario, so a counter-example that was found, shrunk and saved is the one that is
run. Tables follow the fields of the frozen classes, as they do when a file is read.
"""

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs

from actors.errors import InvalidConfig
from actors.policies import ORDERING, SHARING
from sim.reading import TAGGED, parse_scenario
from sim.scenario import Scenario

__all__ = ["in_a_line", "name_in_file", "write_scenario"]

_TAG_KEYS = {tag for tag, _ in TAGGED.values()}
_TAGS = {found: (tag, name) for tag, classes in TAGGED.values() for name, found in classes.items()}


def write_scenario(scenario: Scenario, comment: str = "") -> str:
    """The text of a file that holds this scenario, below this comment if there is one.

    >>> from sim import Burst, Fixed, Kind, User
    >>> kind = Kind(name="work", service=Fixed(seconds=1.5))
    >>> user = User(name="alice", arrivals=(Burst(kind="work", count=3),))
    >>> print(write_scenario(Scenario(name="demo", duration_seconds=10.0, kinds=(kind,), users=(user,))))
    name = "demo"
    duration_seconds = 10.0
    <BLANKLINE>
    [[kind]]
    name = "work"
    service = { distribution = "fixed", seconds = 1.5 }
    <BLANKLINE>
    [[user]]
    name = "alice"
    arrivals = [{ process = "burst", kind = "work", count = 3 }]
    <BLANKLINE>
    """
    data = _table(scenario)
    text = "".join(f"# {line}\n" for line in comment.splitlines()) + _text(data)
    if parse_scenario(text) != scenario:
        raise InvalidConfig(f"scenario {scenario.name!r} must be of things that a file can hold, got {scenario!r}")
    return text


def in_a_line(part: Any) -> str:
    """A part of a scenario as a file has it.

    >>> from sim import Burst
    >>> in_a_line(Burst(kind="work", count=3))
    '{ process = "burst", kind = "work", count = 3 }'
    """
    return _inline(_table(part))


def name_in_file(part: Any) -> str:
    """What a file calls a part that says in one key what it is.

    >>> from sim import Fixed
    >>> name_in_file(Fixed(seconds=1.0))
    'fixed'
    """
    return _TAGS[type(part)][1]


def _text(data: Mapping[str, Any]) -> str:
    """Values first, because whatever follows a table belongs to it."""
    plain = {key: value for key, value in data.items() if not _is_tables(value)}
    parts = [_lines(plain)]
    for key, value in data.items():
        if key not in plain:
            tables = [(f"[{key}]", value)] if isinstance(value, dict) else [(f"[[{key}]]", table) for table in value]
            parts += [f"{head}\n{_lines(table)}" for head, table in tables]
    return "\n".join(parts)


def _is_tables(value: Any) -> bool:
    """Whether this is worth a table of its own, or several: one that says what it is fits a line."""
    if isinstance(value, dict):
        return _TAG_KEYS.isdisjoint(value)
    return isinstance(value, list) and any(isinstance(item, dict) for item in value)


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_inline(value)}\n" for key, value in table.items())


def _inline(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            # TOML's basic strings are JSON's, but for one more character that must be escaped.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case int() | float():
            return repr(value)
        case list():
            return f"[{', '.join(map(_inline, value))}]"
        case _:
            return f"{{ {', '.join(f'{_key(key)} = {_inline(item)}' for key, item in value.items())} }}"


def _key(key: str) -> str:
    return key if key.replace("_", "").isalnum() and key.isascii() else _inline(key)


def _table(value: Any) -> dict[str, Any]:
    """An attrs instance as the table that reads back as it: its tag first, then the fields that are not at their default."""
    found: dict[str, Any] = {}
    if type(value) in _TAGS:
        tag, name = _TAGS[type(value)]
        found[tag] = name
    for field in attrs.fields(type(value)):
        item = getattr(value, field.name)
        if item != _default(field) or field.default is attrs.NOTHING:
            found[field.metadata.get("key", field.name)] = _plain(field.name, item)
    return found


def _default(field: "attrs.Attribute[Any]") -> Any:
    default: Any = field.default
    return default.factory() if hasattr(default, "factory") else default


def _plain(name: str, value: Any) -> Any:
    if name in ("sharing", "ordering"):
        return _policy(SHARING if name == "sharing" else ORDERING, value)
    if value is None:
        # TOML has no null.
        return "none"
    if isinstance(value, Enum):
        return value.name.lower()
    if attrs.has(type(value)):
        return _table(value)
    if isinstance(value, (tuple, list, frozenset)):
        return [_plain("", item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain("", item) for key, item in value.items()}
    return value


def _policy(registry: Any, policy: Any) -> Any:
    name = registry.name_of(policy)
    options = _table(policy) if attrs.has(type(policy)) else {}
    return {"policy": name, **options} if options else name
