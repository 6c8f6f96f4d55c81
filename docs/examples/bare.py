"""A bare trio script: three users, one of them in a hurry to have everything done, and two workers."""

import trio

from actors import open_runtime


async def main() -> None:
    async with open_runtime(workers=2) as runtime:

        @runtime.handler("resize", timeout_seconds=10, max_retries=2)
        async def resize(name: str) -> str:
            await trio.sleep(0.01)
            return f"{name} at half its size"

        # Whoever submits most does not go first: the workers serve alice, bob and carol in turn.
        flood = [await runtime.submit(resize, f"alice-{number}.png", user="alice") for number in range(20)]
        bob = await runtime.submit(resize, "bob.png", user="bob")
        carol = await runtime.submit(resize, "carol.png", user="carol")

        print(await bob.result())
        print(await carol.result())
        print(sum(not handle.task().status.terminal for handle in flood), "of alice's still to come")
        print(await flood[-1].result())


if __name__ == "__main__":
    trio.run(main)

# prints:
# bob.png at half its size
# carol.png at half its size
# 16 of alice's still to come
# alice-19.png at half its size
