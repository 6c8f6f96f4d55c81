"""Every key of a scenario file, from the attrs classes: what docs/scenarios.md says below its marker.

Each class has a heading, its own docstring, and a row for each key: name, type, default, and the sentence that stands below the
field. `python -m tests.scenario_keys` writes it anew, after a key was added or changed.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import attrs

from actors.policies import ORDERING, SHARING
from actors.policies.ordering import OrderingPolicy
from actors.policies.sharing import SharingPolicy
from actors.task import Priority
from sim.reading import TAGGED
from sim.scenario import METRICS, Scenario

DOCUMENT = Path(__file__).parent.parent / "docs" / "scenarios.md"
MARKER = "<!-- From here on written by `python -m tests.scenario_keys`. -->\n"
NAMES = {str: "text", bool: "true or false", int: "whole number", float: "number", Priority: "level"}
REQUIRED = "required"
HEAD = "| key | type | default | meaning |\n|---|---|---|---|"


@attrs.frozen
class Row:
    """A key of a table."""

    key: str
    type: str
    default: str
    meaning: str

    def __str__(self) -> str:
        return f"| `{self.key}` | {self.type} | {self.default} | {self.meaning} |"


@attrs.frozen
class Section:
    """A class of the docs."""

    heading: str
    about: str
    rows: list[Row]

    def __str__(self) -> str:
        table = "\n".join([HEAD, *map(str, self.rows)]) + "\n" if self.rows else "No options.\n"
        return f"### {self.heading}\n\n{self.about}\n\n{table}"


def reference() -> str:
    """Everything below the marker."""
    metrics = ", ".join(f"`{name}`" for name in METRICS)
    return "\n".join([*map(str, sections()), f"### metrics\n\nWhat `metric` can be: {metrics}.\n"])


def sections() -> list[Section]:
    """Every class there is: those of a scenario, then the policies."""
    found = [Section("the file", _about(Scenario), _rows(Scenario))]
    found += _below(Scenario, "")
    for sort, registry in (("sharing", SHARING), ("ordering", ORDERING)):
        for name, cls in registry.classes.items():
            found.append(Section(f"runtime.{sort} `{name}`", _about(cls), _rows(cls)))
    return found


def _below(cls: type[Any], path: str) -> Iterator[Section]:
    """The tables below one, however deep."""
    for field in _fields(cls):
        key = field.metadata.get("key", field.name)
        many = get_origin(field.type) is tuple
        inner = _without_none(get_args(field.type)[0] if many else field.type)
        here = f"{path}{key}"
        if inner in TAGGED:
            tag, classes = TAGGED[inner]
            for name, tagged in classes.items():
                rows = [Row(tag, "text", REQUIRED, f'`"{name}"`'), *_rows(tagged)]
                yield Section(f"{here} `{name}`", _about(tagged), rows)
                yield from _below(tagged, f"{here}.")
            continue
        for member in _members(inner):
            if attrs.has(member):
                yield Section(f"[[{here}]]" if many else f"[{here}]", _about(member), _rows(member))
                yield from _below(member, f"{here}.")


def _about(cls: type[Any]) -> str:
    """The first paragraph of its docstring."""
    return inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0].replace("\n", " ")


def _rows(cls: type[Any]) -> list[Row]:
    meanings = _meanings(cls)
    return [
        Row(
            field.metadata.get("key", field.name),
            _type(field.type),
            _default(field),
            meanings.get(field.name, "").replace("\n", " "),
        )
        for field in _fields(cls)
    ]


def _fields(cls: type[Any]) -> "tuple[attrs.Attribute[Any], ...]":
    return attrs.fields(attrs.resolve_types(cls)) if attrs.has(cls) else ()


def _members(of: Any) -> list[Any]:
    return [one for one in get_args(of) if one is not NoneType] if get_origin(of) in (Union, UnionType) else [of]


def _without_none(of: Any) -> Any:
    members = _members(of)
    return reduce(or_, members) if len(members) > 1 else of


def _type(of: Any) -> str:
    of = _without_none(of)
    if of in TAGGED or attrs.has(of):
        return "table"
    if of in (SharingPolicy, OrderingPolicy):
        return "policy"
    if get_origin(of) is tuple:
        inner = _type(get_args(of)[0])
        return "tables" if inner == "table" else f"list of {inner}s"
    if get_origin(of) is Mapping:
        return "table"
    (member, *others) = _members(of)
    assert not others, f"{of} has no name in the docs"
    return NAMES[member] if member in NAMES else _type(member)


def _default(field: "attrs.Attribute[Any]") -> str:
    default: Any = field.default
    if default is attrs.NOTHING:
        return REQUIRED
    if hasattr(default, "factory"):
        default = default.factory()
    if default is None or default in ((), {}):
        return "none"
    for registry in (SHARING, ORDERING):
        if type(default) in registry.classes.values():
            return f'`"{registry.name_of(default)}"`'
    if attrs.has(type(default)):
        return "its defaults"
    if isinstance(default, Priority):
        return f'`"{default.name.lower()}"`'
    if isinstance(default, str):
        return f'`"{default}"`'
    if isinstance(default, tuple):
        return ", ".join(f'`"{one}"`' for one in default)
    return f"`{str(default).lower() if isinstance(default, bool) else format(default, 'g')}`"


def _meanings(cls: type[Any]) -> dict[str, str]:
    """The sentence below each field, in the class or where it inherits the field from."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError):
            continue
        assert isinstance(tree, ast.ClassDef)
        for field, below in zip(tree.body, tree.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
                found[field.target.id] = inspect.cleandoc(str(getattr(below.value, "value", "")))
    return found


if __name__ == "__main__":
    prose, _, _ = DOCUMENT.read_text(encoding="utf-8").partition(MARKER)
    DOCUMENT.write_text(f"{prose}{MARKER}\n{reference()}", encoding="utf-8")
