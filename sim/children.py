"""Processes that run simulations: orders in, answers out, a line of JSON each. Nothing is inherited but where modules are found."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import Any, Self

from actors.errors import EvenhandError

__all__ = ["Child"]


class Child:
    """A process that runs `python -m MODULE` and answers what it is told; ended when its block is left."""

    def __init__(self, module: str, **environment: str) -> None:
        # As here, whatever the folder: a policy or check of one's own is found there too.
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": path, **environment},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None, "asked for"
        self._process.kill()
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def say(self, order: Any) -> None:
        """Tell it what to do; one that could not even start is heard of when it does not answer."""
        assert self._process.stdin is not None, "asked for"
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()

    def hear(self) -> Any:
        """Its next answer."""
        assert self._process.stdout is not None, "asked for"
        line = self._process.stdout.readline()
        if not line:
            raise EvenhandError(f"a process that ran simulations ended with status {self._process.wait()}")
        return json.loads(line)
