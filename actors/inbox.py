"""The reader of a store's inbox: hands in what other processes submitted, and hears what became of it."""

from collections.abc import Callable
from typing import Any

import msgspec
import trio

from actors.actor import Draw, Effects
from actors.journal import StoreJournal
from actors.messages import Accepted, Address, Failed, Refused, Submit
from actors.stores.contract import Inbox

__all__ = ["INBOX", "POLL_SECONDS", "InboxReader"]

INBOX: Address = "inbox"

POLL_SECONDS = 0.1
"""How often an inbox is looked into."""


class InboxReader:
    """An actor that is answered for submitters who are not here."""

    passive = False

    def __init__(self, journal: StoreJournal) -> None:
        self._journal = journal

    def start(self, now: float) -> Effects:
        return Effects()

    def handle(self, message: Any, now: float, draw: Draw) -> Effects:
        match message:
            case Accepted(submitted_id=submitted_id):
                self._journal.take(submitted_id, None)
            case Refused(submitted_id=submitted_id, error=error):
                self._journal.take(submitted_id, str(error))
            case Failed(message=Submit(id=submitted_id), error=said):
                self._journal.take(submitted_id, said)
            case _:
                pass
        return Effects()

    async def run(self, inbox: Inbox, hand_in: Callable[[Submit], bool]) -> None:
        """Look into the inbox until no more is taken."""
        try:
            while True:
                found = await trio.to_thread.run_sync(inbox.read)
                for number, submit in found:
                    self._journal.expected[submit.id] = number
                    if not hand_in(msgspec.structs.replace(submit, reply_to=INBOX)):
                        return
                await trio.sleep(0 if found else POLL_SECONDS)
        finally:
            inbox.close()
