"""A policy of one's own: who pays goes first, and everybody else shares what is left."""

import attrs
import trio

from actors import Account, Claims, Index, KeyIndex, Notes, WeightedFair, open_runtime


@attrs.frozen
class PayingFirst:
    """Users whose name ends in `@paid` go before all others; within each group, weighted fair sharing."""

    sees_heads = False

    def start(self, notes: Notes, claims: Claims) -> Account:
        return PayingFirstAccount(WeightedFair().start(notes, claims))


class PayingFirstAccount:
    """What the fair account says, with the paying in front."""

    def __init__(self, fair: Account) -> None:
        self._fair = fair
        self.activate, self.deactivate = fair.activate, fair.deactivate
        self.charge, self.correct, self.reweigh = fair.charge, fair.correct, fair.reweigh

    def rank(self, user: str, head: object) -> tuple[bool, object]:
        return (not user.endswith("@paid"), self._fair.rank(user, None))

    def index(self) -> Index:
        return KeyIndex(self)


async def main() -> None:
    done: list[str] = []
    async with open_runtime(workers=1, sharing=PayingFirst()) as runtime:

        @runtime.handler("render")
        async def render(name: str) -> None:
            await trio.sleep(0.01)
            done.append(name)

        users = ["alice", "bob", "carol@paid"]
        handles = [await runtime.submit(render, f"{user} {number}", user=user) for number in range(2) for user in users]
        for handle in handles:
            await handle.result()
    # The worker was free when alice's first came; from then on carol goes first.
    print(done)


if __name__ == "__main__":
    trio.run(main)

# prints:
# ['alice 0', 'carol@paid 0', 'carol@paid 1', 'bob 0', 'alice 1', 'bob 1']
