"""pykka: eight actors, a thread each, told in turn. It has no queue, no retries and no shares: an actor's mailbox is all."""

import threading
import time
from typing import Any

import pykka

from benchmarks.work import PER_SECOND, WORKERS, ThreadedCountdown


class _Noop(pykka.ThreadingActor):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def on_receive(self, message: Any) -> None:
        self.function(message)


def tell(count: int) -> float:
    """Told without waiting for an answer."""
    countdown = ThreadedCountdown(count)
    actors = [_Noop.start(countdown) for _ in range(WORKERS)]
    began = time.perf_counter()
    for number in range(count):
        actors[number % WORKERS].tell(None)
    countdown.done.wait()
    took = time.perf_counter() - began
    pykka.ActorRegistry.stop_all()
    return took


def latency(count: int) -> list[float]:
    """Seconds from each `tell` to the first line of the actor."""
    waits: list[float] = []
    done = threading.Event()

    def arrived(sent_at: float) -> None:
        waits.append(time.perf_counter() - sent_at)
        if len(waits) == count:
            done.set()

    actors = [_Noop.start(arrived) for _ in range(WORKERS)]
    for number in range(count):
        time.sleep(1 / PER_SECOND)
        actors[number % WORKERS].tell(time.perf_counter())
    done.wait()
    pykka.ActorRegistry.stop_all()
    return waits
