"""Where the figures were measured: the first line of their JSON."""

import json
import os
import platform
from collections.abc import Iterable
from typing import Self

import attrs

from benchmarks.contestant import Subject, version_of


@attrs.frozen
class Environment:
    """What one must know to run it again."""

    python: str
    system: str
    processors: int
    versions: dict[str, str]
    peers: bool
    quick: bool
    name: str = "environment"

    def as_json(self) -> str:
        """One JSON object on a line."""
        return json.dumps(attrs.asdict(self))

    def as_text(self) -> str:
        """A line for people."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{self.python} on {self.system}, {self.processors} processors; {versions}"

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Back from that line."""
        return cls(**json.loads(line))

    @classmethod
    def of(cls, subjects: Iterable[Subject], *, peers: bool, quick: bool) -> Self:
        """The one in which this runs."""
        libraries = {"evenhand", "trio"} | {one.library for subject in subjects for one in subject.contestants.values()}
        return cls(
            python=f"{platform.python_implementation()} {platform.python_version()}",
            system=f"{platform.system()} {platform.machine()}",
            processors=os.cpu_count() or 1,
            versions={name: version for name in sorted(libraries) if name and (version := version_of(name))},
            peers=peers,
            quick=quick,
        )
