"""Programs that call `trio.run`, on virtual time."""

from typing import Any

import trio

from sim.determinism import run_deterministically

_run = trio.run


def run_on_virtual_time(main: Any, *arguments: Any, **options: Any) -> Any:
    """In place of `trio.run`; with options it is the deterministic run itself that calls."""
    return _run(main, *arguments, **options) if options else run_deterministically(main, *arguments)
