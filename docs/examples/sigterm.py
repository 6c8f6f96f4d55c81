"""Shutdown on SIGTERM: no new work, what runs may end, and what is left is said."""

import os
import signal

import trio

from actors import Runtime, open_runtime


async def stop_on_sigterm(runtime: Runtime, task_status: trio.TaskStatus[None]) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for number in signals:
            print(f"{signal.Signals(number).name}: stopping")
            await runtime.stop(grace_seconds=30)
            return


async def main() -> None:
    busy, finish = trio.Event(), trio.Event()
    async with open_runtime(workers=1) as runtime, trio.open_nursery() as nursery:
        await nursery.start(stop_on_sigterm, runtime)

        @runtime.handler("export")
        async def export(name: str) -> str:
            busy.set()
            await finish.wait()
            print(f"{name} is done")
            return name

        for name in ("first", "second", "third"):
            await runtime.submit("export", name, user="ann")
        await busy.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        nursery.start_soon(let_it_end, finish)
    print("left:", [task.payload for task in runtime.left])


async def let_it_end(finish: trio.Event) -> None:
    """In place of the time that an export takes: it ends while the runtime stops."""
    await trio.sleep(0.05)
    finish.set()


if __name__ == "__main__":
    trio.run(main)

# prints:
# SIGTERM: stopping
# first is done
# left: ['second', 'third']
