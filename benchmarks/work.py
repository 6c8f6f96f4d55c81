"""The work that everybody is given: tasks that do nothing, of ten users, for eight workers."""

import threading
from typing import Any

import trio

USERS = 10
WORKERS = 8
DURABLE_WORKERS = 64
"""As many claims are safe after one commit, so a store wants more workers than memory does."""
PER_SECOND = 100
"""The load at which latency is measured: the workers are idle, and so is the machine."""
LOAD = 0.9
"""Of the eight simulated workers."""
SEED = 7


class Countdown:
    """A handler that does nothing but count, and says when all were there."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.done = trio.Event()

    async def __call__(self, payload: Any) -> None:
        self.left -= 1
        if not self.left:
            self.done.set()


class ThreadedCountdown:
    """The same for workers that are threads."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.lock = threading.Lock()
        self.done = threading.Event()

    def __call__(self, payload: Any) -> None:
        with self.lock:
            self.left -= 1
            if not self.left:
                self.done.set()
