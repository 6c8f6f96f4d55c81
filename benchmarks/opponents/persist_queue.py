"""persist-queue: its SQLite queue with acknowledgements, flushed at every commit, of which a task takes three."""

import tempfile
import time

import persistqueue
from persistqueue.serializers import json


def put_get_ack(count: int) -> float:
    """Everything is put, then got and acknowledged."""
    with tempfile.TemporaryDirectory() as folder:
        queue = persistqueue.SQLiteAckQueue(folder, serializer=json)
        began = time.perf_counter()
        for _ in range(count):
            queue.put(None)
        for _ in range(count):
            queue.ack(id=queue.get(raw=True)["pqid"])
        took = time.perf_counter() - began
        queue.close()
    return took
