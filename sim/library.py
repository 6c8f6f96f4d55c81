"""The library of scenarios that comes with Evenhand: one property each, in the first comment of its file."""

from pathlib import Path

import attrs

from actors.errors import InvalidConfig
from actors.policies import suggestion

__all__ = ["Listed", "folder", "listing", "located"]


@attrs.frozen
class Listed:
    """A scenario of the library."""

    name: str
    """What it is called: the name of its file."""
    section: str
    """The folder that it is in: `fast`, `slow` or `negative`."""
    promise: str
    """What it shows."""
    path: Path


def folder() -> Path:
    """Where the library is: in a wheel inside this package, in a checkout beside it."""
    inside = Path(__file__).parent / "scenarios"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "scenarios"


def listing() -> list[Listed]:
    """Every scenario of the library, by section and name.

    >>> "noisy_neighbour" in [found.name for found in listing()]
    True
    """
    paths = sorted(folder().rglob("*.toml"))
    return [Listed(path.stem, path.parent.name, _promise(path), path) for path in paths]


def located(file: str) -> Path:
    """The file that is meant by a path, or by the name of a scenario of the library, with or without its section.

    >>> located("noisy_neighbour") == located("fast/noisy_neighbour")
    True
    """
    path = Path(file)
    if path.exists() or path.suffix:
        return path
    known = listing()
    for found in known:
        if file in (found.name, f"{found.section}/{found.name}"):
            return found.path
    hint = suggestion(file, [found.name for found in known])
    raise InvalidConfig(f"{file}: must be a scenario file, or a name that `evenhand sim list` shows{hint}")


def _promise(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return next(lines, "").removeprefix("#").strip()
