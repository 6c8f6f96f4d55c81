"""dramatiq, with its broker in memory and eight worker threads; without its middleware, which makes it slower."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import dramatiq
from dramatiq.brokers.stub import StubBroker

from benchmarks.work import PER_SECOND, WORKERS, ThreadedCountdown


def send(count: int) -> float:
    """Sent one after the other."""
    countdown = ThreadedCountdown(count)
    actor, worker = _started(countdown)
    began = time.perf_counter()
    for _ in range(count):
        actor.send(None)
    countdown.done.wait()
    took = time.perf_counter() - began
    worker.stop()
    return took


def latency(count: int) -> list[float]:
    """Seconds from each send to the first line of the actor."""
    waits: list[float] = []
    done = threading.Event()

    def arrived(sent_at: float) -> None:
        waits.append(time.perf_counter() - sent_at)
        if len(waits) == count:
            done.set()

    actor, worker = _started(arrived)
    for _ in range(count):
        time.sleep(1 / PER_SECOND)
        actor.send(time.perf_counter())
    done.wait()
    worker.stop()
    return waits


def _started(function: Callable[[Any], None]) -> tuple[Any, Any]:
    logging.disable(logging.INFO)
    broker = StubBroker(middleware=[])
    # dramatiq asks a function for its name.
    actor = dramatiq.actor(lambda payload: function(payload), broker=broker, actor_name="noop")
    worker = dramatiq.Worker(broker, worker_threads=WORKERS)
    worker.start()
    return actor, worker
