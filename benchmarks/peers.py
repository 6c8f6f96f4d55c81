"""The environment in which the peers live, apart from ours: `make bench-peers` makes it."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.contestant import Subject, version_of
from benchmarks.race import ROOT

ENVIRONMENT = ROOT / ".venv-peers"


def missing(subjects: Iterable[Subject]) -> list[str]:
    """The libraries that somebody in these subjects needs and that are not here."""
    libraries = {one.library for subject in subjects for one in subject.contestants.values() if one.library}
    return sorted(library for library in libraries if version_of(library) is None)


def go_there_if_needed(subjects: Iterable[Subject], environment: Path = ENVIRONMENT) -> None:
    """Replace this process by the same command in the peers' environment, unless they are all here."""
    absent = missing(subjects)
    if not absent:
        return
    python = environment / "bin" / "python"
    if Path(sys.prefix) == environment or not python.exists():
        sys.exit(f"the peers are not here ({', '.join(absent)} missing): run `make bench-peers` first")
    os.execv(python, [str(python), "-m", "benchmarks", *sys.argv[1:]])
