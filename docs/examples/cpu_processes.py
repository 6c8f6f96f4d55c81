"""Work for the processor, in processes of its own: other handlers do not notice, and a crash takes nothing down but a task."""

import os

import trio

from actors import Context, RetryPolicy, TaskFailed, open_runtime


def count_primes(limit: int, context: Context) -> int:
    """At the top of a module, because the process imports it by name."""
    if limit < 0:
        os.abort()
    context.progress({"limit": limit})
    return sum(all(number % divisor for divisor in range(2, int(number**0.5) + 1)) for number in range(2, limit))


async def main() -> None:
    async with open_runtime(workers=2) as runtime:
        primes = runtime.handler(
            "primes", process=True, timeout_seconds=60, retry=RetryPolicy(max_retries=1, base_seconds=0.01)
        )(count_primes)
        handles = [await runtime.submit(primes, limit, user="ann") for limit in (100, 1_000, 10_000)]
        print([await handle.result() for handle in handles])

        crash = await runtime.submit(primes, -1, user="bob")
        try:
            await crash.result()
        except TaskFailed as error:
            print([attempt.outcome for attempt in error.history])


if __name__ == "__main__":
    trio.run(main)

# prints:
# [25, 168, 1229]
# ['crashed', 'crashed']
