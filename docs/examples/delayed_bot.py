"""A bot that sends messages later: delays, a change of mind, and a message that nobody may get twice."""

import trio

from actors import TaskCancelled, open_runtime


async def main() -> None:
    began_at = trio.current_time()
    async with open_runtime(workers=4) as runtime:

        @runtime.handler("send")
        async def send(message: dict[str, str]) -> None:
            print(f"after {trio.current_time() - began_at:.1f} s to {message['to']}: {message['text']}")

        await runtime.submit("send", {"to": "ann", "text": "tea?"}, user="ann", delay_seconds=0.3)
        lunch = await runtime.submit("send", {"to": "ann", "text": "lunch?"}, user="ann", delay_seconds=0.2)
        # The same key means the same message, however often the button is pressed.
        for _ in range(3):
            bye = await runtime.submit(
                "send", {"to": "bob", "text": "bye"}, user="bob", delay_seconds=0.1, idempotency_key="bye-bob"
            )
        print(runtime.explain(bye.id).blocks[0].reason)

        await lunch.cancel()
        try:
            await lunch.result()
        except TaskCancelled as error:
            print(error)
        await runtime.stop(grace_seconds=10, drain=True)


if __name__ == "__main__":
    trio.run(main)

# prints:
# delayed
# ann#2 was cancelled
# after 0.1 s to bob: bye
# after 0.3 s to ann: tea?
