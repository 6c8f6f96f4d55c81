"""The least that any ordered queue in Python does: a heap and a loop, without an event loop, users or workers."""

import time
from heapq import heappop, heappush


def push_and_pop(count: int) -> float:
    """Everything is pushed, then popped and called."""

    def handler(number: int) -> None:
        pass

    heap: list[tuple[float, int]] = []
    began = time.perf_counter()
    for number in range(count):
        heappush(heap, (time.perf_counter(), number))
    while heap:
        handler(heappop(heap)[1])
    return time.perf_counter() - began
