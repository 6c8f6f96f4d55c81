"""Reads a scenario from a TOML file. Every unknown key and every bad value is refused with the path of the key, the constraint
and the value; all faults of a file at once."""

import tomllib
from pathlib import Path
from typing import Any

from actors.config import Faults, make_converter, structure
from actors.errors import InvalidConfig
from actors.policies import suggestion
from sim.faults import FAULTS, Fault
from sim.interleaving import ORDERS, Interleaving
from sim.operator import ACTIONS, TimedEvent
from sim.processes import PROCESSES, SERVICES, Arrivals, Service
from sim.replay import Workload
from sim.scenario import Scenario

__all__ = ["TAGGED", "load_scenario", "parse_scenario"]

TAGGED: dict[Any, tuple[str, dict[str, type[Any]]]] = {
    Service: ("distribution", SERVICES),
    Arrivals: ("process", PROCESSES),
    TimedEvent: ("action", ACTIONS),
    Fault: ("fault", FAULTS),
    Interleaving: ("order", ORDERS),
}
"""The tables that say in one key which class they are: that key, and the classes by what it says."""


def _tagged(converter: Any, tag: str, classes: dict[str, type[Any]]) -> Any:
    """A hook for tables that say in one key which class they are."""

    def hook(value: Any, _: object) -> Any:
        if isinstance(value, tuple(classes.values())):
            return value
        if not isinstance(value, dict):
            raise Faults(f" must be a table with {tag!r}, got {value!r}")
        if tag not in value:
            raise Faults(f".{tag} is missing")
        name = value[tag]
        if not isinstance(name, str) or name not in classes:
            hint = suggestion(str(name), list(classes))
            raise Faults(f".{tag} must be one of {', '.join(classes)}, got {name!r}{hint}")
        return converter.structure({key: item for key, item in value.items() if key != tag}, classes[name])

    return hook


def _make_converter() -> Any:
    converter = make_converter()
    for union, (tag, classes) in TAGGED.items():
        converter.register_structure_hook(union, _tagged(converter, tag, classes))
    return converter


_converter = _make_converter()


def parse_scenario(text: str, folder: str | Path = ".") -> Scenario:
    """The scenario that this TOML text describes; the paths in it are seen from the folder.

    >>> parse_scenario('name = "x"')
    Traceback (most recent call last):
    actors.errors.InvalidConfig: duration_seconds is missing
    kind is missing
    user is missing
    """
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # A number of thousands of digits and lists in lists without end are beyond the parser, which says so in its way.
        raise InvalidConfig(f"the file must be TOML: {error}") from None
    return structure(_converter, _with_recorded(data, Path(folder)), Scenario)


def _with_recorded(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The data of a file with whatever a workload makes it unnecessary to say."""
    table = data.get("workload")
    if not isinstance(table, dict):
        return data
    if isinstance(path := table.get("path"), str):
        table = {**table, "path": str(folder / path)}
    data = {"kind": [], "user": [], **data, "workload": table}
    try:
        workload: Workload = _converter.structure(table, Workload)
        duration_seconds, kinds = workload.duration_seconds, data["kind"]
    except Exception:
        # Said in its place, when all is structured; only what follows from it need not be said as well.
        return {"duration_seconds": 1.0, **data}
    if isinstance(kinds, list):
        kinds = [_with_service(kind, workload) for kind in kinds]
    return {"duration_seconds": duration_seconds, **data, "workload": workload, "kind": kinds}


def _with_service(kind: Any, workload: Workload) -> Any:
    """A table of a recorded kind need not say how long that takes, nor how long its lease is."""
    if isinstance(kind, dict) and kind.get("name") in list(workload.services):
        return {"service": workload.services[kind["name"]], "lease_seconds": workload.lease_seconds, **kind}
    return kind


def load_scenario(path: str | Path) -> Scenario:
    """The scenario in this file; InvalidConfig names the file and every fault in it."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{path}: must be a readable scenario file: {error}") from None
    try:
        return parse_scenario(text, Path(path).parent)
    except InvalidConfig as error:
        lines = "\n".join(f"{path}: {line}" for line in str(error).split("\n"))
        raise InvalidConfig(lines) from None
