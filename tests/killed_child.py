"""A process that is killed: it submits, executes and waits, and writes down what it was told.

`python -m tests.killed_child STORE LOG` reads a line for each life: `live` forks a process that goes on until it is killed,
`finish` one that ends when everything has. It says the number of the process, and when that is gone its exit status.
"""

import os
import sys
from random import Random

import trio

from actors import Context, RetryPolicy, Runtime, Status, open_runtime

SUBMITTERS = 3


class Log:
    """Lines in a file: what was written before a kill stays."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def say(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


async def live(store: str, log: Log, finish: bool) -> None:
    async with open_runtime(store, workers=4, poison_after=10_000, keep_completed_seconds=None) as runtime:

        @runtime.handler("work", retry=RetryPolicy(max_retries=10_000, base_seconds=0.0))
        async def work(payload: float, context: Context) -> str:
            log.say("ran", context.id)
            await trio.sleep(payload)
            return f"{context.id} by {os.getpid()}"

        while finish and (runtime.tasks(status=Status.PENDING) or runtime.tasks(status=Status.IN_PROGRESS)):
            await trio.sleep(0.01)
        if finish:
            return
        async with trio.open_nursery() as nursery:
            for number in range(SUBMITTERS):
                nursery.start_soon(submit_for_ever, runtime, log, f"user{number}")


async def submit_for_ever(runtime: Runtime, log: Log, user: str) -> None:
    random = Random(f"{os.getpid()}/{user}")
    while True:
        handle = await runtime.submit("work", random.choice([0.0, 0.001, 0.02]), user=user)
        log.say("accepted", handle.id)
        log.say("ended", handle.id, await handle.result())


def serve(store: str, log_path: str) -> None:
    for order in sys.stdin:
        pid = os.fork()
        if pid == 0:
            trio.run(live, store, Log(log_path), order.strip() == "finish")
            os._exit(0)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(status, flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
