"""A home-made actor beside the queue: a ledger that handlers report to, which survives its own crashes."""

import attrs
import trio

from actors import ActorContext, AskFailed, open_runtime


@attrs.frozen
class Spent:
    user: str
    euros: float


@attrs.frozen
class HowMuch:
    user: str


class Ledger:
    """Adds up what each user spent. It keeps its book outside, so that it is there again after a crash."""

    def __init__(self, book: dict[str, float]) -> None:
        self.book = book

    async def receive(self, message: Spent | HowMuch, context: ActorContext) -> float | None:
        match message:
            case Spent(user, euros):
                if euros < 0:
                    raise ValueError(f"euros must be >= 0, got {euros}")
                self.book[user] = self.book.get(user, 0.0) + euros
                return None
            case HowMuch(user):
                return self.book.get(user, 0.0)


async def main() -> None:
    async with open_runtime(workers=4) as runtime:
        ledger = await runtime.spawn(Ledger, {}, name="ledger", mailbox_max=100, overflow="wait")

        @runtime.handler("print")
        async def print_pages(job: dict[str, object]) -> None:
            await ledger.tell(Spent(str(job["user"]), 0.05 * int(str(job["pages"]))))

        handles = [
            await runtime.submit("print", {"user": user, "pages": pages}, user=user)
            for user, pages in (("ann", 10), ("bob", 4), ("ann", 30))
        ]
        for handle in handles:
            await handle.result()
        print("ann spent", await ledger.ask(HowMuch("ann")))

        try:
            await ledger.ask(Spent("bob", -1.0))
        except AskFailed as error:
            print(error)
        print("bob spent", await ledger.ask(HowMuch("bob")))
        print("undelivered:", [message for _, _, message in runtime.undelivered()])


if __name__ == "__main__":
    trio.run(main)

# prints:
# ann spent 2.0
# actor/ledger could not answer: ValueError: euros must be >= 0, got -1.0
# bob spent 0.2
# undelivered: [Spent(user='bob', euros=-1.0)]
