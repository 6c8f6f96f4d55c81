"""Where options come from: a file, then `EVENHAND_...` variables, then what `open_runtime` is given; the later wins.

A file is TOML or YAML, with a key for each field of `Options`. A variable is the path to a key with `__` between its steps,
`EVENHAND_WORKERS=8` or `EVENHAND_KINDS__crawl__RATE_LIMIT=10`; names of fields may be in capitals, names of kinds and users
are taken as they are written. Its value is read as TOML would read it, or else as text. TOML knows no null: `"none"` is that.

Tables are added to one another, key by key; but a policy that is named anew leaves the options of the one before behind.

Nothing is guessed: an unknown key or a bad value is refused with its path, the constraint and the value, all faults at once.
"""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import attrs

from actors.config import make_converter, structure
from actors.errors import InvalidConfig
from actors.options import Options

__all__ = ["load_options"]

PREFIX = "EVENHAND_"
CONFIG_VARIABLE = "EVENHAND_CONFIG"
"""Names the file, where none is given."""

_converter = cache(make_converter)
_FIELDS = [field.name for field in attrs.fields(Options)]
_NAMED = ("kinds", "users")
"""Tables whose keys are names that somebody chose."""
_POLICIES = ("sharing", "ordering")
"""What is the name of a policy, or a table with the name as `policy` and its options."""

Way = tuple[str, ...]
"""The steps to a key."""


def load_options(
    config: str | Path | None = None,
    environment: Mapping[str, str] = os.environ,
    keywords: Mapping[str, Any] | None = None,
) -> Options:
    """The options that a file, the environment and keywords say together.

    >>> load_options(environment={"EVENHAND_WORKERS": "8"}, keywords={"sharing": "fifo"}).workers
    8
    >>> load_options(environment={"EVENHAND_WORKRES": "8"})
    Traceback (most recent call last):
    actors.errors.InvalidConfig: EVENHAND_WORKRES is not a variable of Evenhand's (did you mean 'EVENHAND_WORKERS'?)
    >>> load_options(environment={}, keywords={"workers": 0})
    Traceback (most recent call last):
    actors.errors.InvalidConfig: workers must be a whole number >= 1, got 0
    """
    if not (config is None or isinstance(config, (str, Path))):
        raise InvalidConfig(f"config must be the name of a file, got {config!r}")
    path = config if config is not None else environment.get(CONFIG_VARIABLE) or None
    said, faults = _Said(), []
    if path is not None:
        try:
            said.add(_read(Path(path)), str(path))
        except InvalidConfig as error:
            faults.append(str(error))
    for name in _variables(environment):
        try:
            said.add(_nested(_way(name), _value(environment[name])), name)
        except InvalidConfig as error:
            faults.append(str(error))
    said.add(keywords or {}, None)
    try:
        options = structure(_converter(), said.data, Options)
    except InvalidConfig as error:
        faults += map(said.with_source, str(error).split("\n"))
    if faults:
        raise InvalidConfig("\n".join(faults))
    return options


class _Said:
    """What was said so far, table by table, and where each value came from."""

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self._sources: dict[Way, str | None] = {}

    def add(self, data: Mapping[str, Any], source: str | None) -> None:
        """Say something more; what was said before of the same keys is forgotten."""
        self._merge(self.data, data, source, ())

    def _merge(self, into: dict[str, Any], data: Mapping[str, Any], source: str | None, above: Way) -> None:
        for key, value in data.items():
            way, before = (*above, str(key)), into.get(key)
            if way[0] in _POLICIES and not above and isinstance(value, Mapping):
                before = None if "policy" in value else _as_table(before)
            if isinstance(value, Mapping) and isinstance(before, dict):
                into[key] = before
                self._merge(before, value, source, way)
                continue
            into[key] = _copied(value)
            for known in [known for known in self._sources if known[: len(way)] == way]:
                del self._sources[known]
            self._sources[way] = source

    def with_source(self, fault: str) -> str:
        """A fault, with the name of the file or variable in front of it if that is where the value came from."""
        best: Way = ()
        for way in self._sources:
            shown = _shown(way)
            ends = fault[len(shown) : len(shown) + 1] in ("", " ", ".", "[", ":")
            if fault.startswith(shown) and ends and len(way) > len(best):
                best = way
        source = self._sources.get(best)
        return fault if source is None else f"{source}: {fault}"


def _as_table(policy: Any) -> Any:
    """The name of a policy as a table, to which options can be added."""
    return {"policy": policy} if isinstance(policy, str) else policy


def _copied(value: Any) -> Any:
    return {key: _copied(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _shown(way: Way) -> str:
    """A path as the errors show it: `kinds['crawl'].rate_limit`."""
    shown = way[0]
    for number, step in enumerate(way[1:], start=1):
        shown += f"[{step!r}]" if number == 1 and way[0] in _NAMED else f".{step}"
    return shown


# A file


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InvalidConfig(f"{path}: must be a readable configuration file: {error}") from None
    match path.suffix.lower():
        case ".toml":
            data = _read_toml(path, text)
        case ".yaml" | ".yml":
            data = _read_yaml(path, text)
        case _:
            raise InvalidConfig(f"{path}: must be a .toml, .yaml or .yml file")
    if not isinstance(data, dict):
        raise InvalidConfig(f"{path}: must be a table of options, got {type(data).__name__}")
    return data


def _read_toml(path: Path, text: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidConfig(f"{path}: must be TOML: {error}") from None


def _read_yaml(path: Path, text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise InvalidConfig(f"{path}: YAML needs the yaml extra: pip install 'evenhand[yaml]'") from None

    class Loader(yaml.SafeLoader):
        """Refuses what TOML refuses too: a key that is there twice."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            for key in keys:
                if keys.count(key) > 1:
                    raise yaml.constructor.ConstructorError(None, None, f"{key!r} is there twice", node.start_mark)
            return super().construct_mapping(node, deep)

    try:
        data = yaml.load(text, Loader)
        return {} if data is None else _copied(data)
    except Exception as error:
        # Its constructors raise whatever they come upon: a KeyError for `!!bool 3`, a RecursionError for what holds itself.
        raise InvalidConfig(f"{path}: must be YAML: {error}") from None


# Variables


def _variables(environment: Mapping[str, str]) -> list[str]:
    """Those that are ours, in the order in which they count: a policy is named before its options are."""
    found = [name for name in environment if name.startswith(PREFIX) and name != CONFIG_VARIABLE]
    return sorted(found, key=lambda name: (not name.lower().endswith("__policy"), name))


def _way(name: str) -> Way:
    """The path that a variable stands for.

    >>> _way("EVENHAND_KINDS__Crawl__RETRY__FACTOR")
    ('kinds', 'Crawl', 'retry', 'factor')
    """
    field, *steps = name.removeprefix(PREFIX).split("__")
    field = field.lower()
    if field not in _FIELDS:
        from difflib import get_close_matches

        close = get_close_matches(field, _FIELDS, n=1)
        hint = f" (did you mean '{PREFIX}{close[0].upper()}'?)" if close else ""
        raise InvalidConfig(f"{name} is not a variable of Evenhand's{hint}")
    chosen = steps[:1] if field in _NAMED else []
    return (field, *chosen, *(step.lower() for step in steps[len(chosen) :]))


def _value(text: str) -> Any:
    """A variable's text as TOML would read it, or as it is.

    >>> _value("8"), _value("none"), _value("[1, 2]"), _value("run.jsonl"), _value("true")
    (8, 'none', [1, 2], 'run.jsonl', True)
    """
    import tomllib

    try:
        read = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return read["value"] if len(read) == 1 else text


def _nested(way: Way, value: Any) -> dict[str, Any]:
    for step in reversed(way):
        value = {step: value}
    return value  # type: ignore[no-any-return]
