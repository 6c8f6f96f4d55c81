"""Pushing out: whose oldest waiting task makes room when the door is full and drops (`when_full = "drop_oldest"`).

It is the user with the most pending tasks per weight, by name if there are several. A user that its own bound or share
keeps out replaces a task of its own instead: nobody else's going would help it, or would be fair. Pushing out is what the dynamic
threshold of the door approximates (Choudhury and Hahne 1998), so a newcomer may take the place that was given up for it
whatever its share: the swap leaves as much room as there was.

The shard has the last word, because a worker may claim the task first: one `Drop` is open at a time, and who had nothing to
drop is not asked again for the same newcomer. The most is found in a heap whose entries may only be too high. An entry is put
in with all that the user has inside, whenever the queue hears of the user, and is corrected by the table when it comes up.
"""

from actors.door import Door
from actors.policies.heaps import KeyHeap
from actors.table import Notes, Table

__all__ = ["Pushout"]


class Pushout:
    """Who gives up a task, for whom, and who could not."""

    def __init__(self, door: Door, table: Table, notes: Notes) -> None:
        self._door = door
        self._table = table
        self._notes = notes
        self._most = KeyHeap()
        for user in door.users():
            self.refresh(user)
        self.newcomer: str | None
        """For whom a drop is open, if one is."""
        self.victim: str | None
        """Who was asked."""
        self._tried: list[str]
        self.newcomer, self.victim, self._tried = notes.get("drop", (None, None, []))

    def refresh(self, user: str) -> None:
        """The user may have more pending tasks than before, or weigh less."""
        held = self._door.held(user)
        if held:
            self._most.put(user, -held / self._door.weight(user))
        else:
            self._most.discard(user)

    def open(self, newcomer: str) -> str | None:
        """Whom to ask to drop a task for this user, or None if there is nobody left to ask."""
        if self._door.replaces_its_own(newcomer):
            victim = newcomer if newcomer not in self._tried and self._pending(newcomer) else None
        else:
            victim = self._pick()
        if victim is not None:
            self._note(newcomer, victim, self._tried)
        return victim

    def dropped(self, user: str) -> str | None:
        """This user dropped a task: the newcomer it was for, or None if it was not asked."""
        if user != self.victim:
            return None
        newcomer = self.newcomer
        self._note(None, None, self._tried)
        return newcomer

    def had_nothing(self, user: str) -> None:
        """This user could not drop a task."""
        if user == self.victim:
            self._note(None, None, [*self._tried, user])

    def forget_tried(self) -> None:
        """The newcomer was let in or turned away: for the next one everybody may be asked."""
        if self._tried:
            self._note(self.newcomer, self.victim, [])

    def _pick(self) -> str | None:
        """The user with the most pending per weight that has not been tried. Corrects what is too high on the way."""
        passed_over = []
        found = None
        while (entry := self._most.first()) is not None:
            key, user = entry
            pending = self._pending(user)
            exact = -pending / self._door.weight(user)
            if not pending:
                self._most.discard(user)
            elif exact != key:
                self._most.put(user, exact)
            elif user in self._tried:
                self._most.discard(user)
                passed_over.append((user, key))
            else:
                found = user
                break
        for user, key in passed_over:
            self._most.put(user, key)
        return found

    def _pending(self, user: str) -> int:
        """What the table says, and what is on its way there: the drop would arrive after it."""
        pending, running = self._table.pending(user), self._table.running(user)
        return pending + max(0, self._door.held(user) - pending - running)

    def _note(self, newcomer: str | None, victim: str | None, tried: list[str]) -> None:
        self.newcomer, self.victim, self._tried = newcomer, victim, tried
        if victim is None and not tried:
            if "drop" in self._notes:
                del self._notes["drop"]
        else:
            self._notes["drop"] = (newcomer, victim, tried)
