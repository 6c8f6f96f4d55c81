"""Who lives on a host: the cores that every runtime has, on real time or simulated, and the tree that watches over them."""

from actors.config import Settings
from actors.host import Host
from actors.messages import QUEUE, SCHEDULER, SHARD, SUPERVISOR, WORKER, Address
from actors.queue import Queue
from actors.scheduler import Scheduler
from actors.shard import Shard
from actors.supervision import Group
from actors.supervisor import Supervisor
from actors.table import Notes, Table
from actors.timetable import TIMETABLE

__all__ = ["TREE", "notes_of", "spawn_cores"]

TREE = Group(
    "runtime",
    (
        Group("control", (QUEUE, SCHEDULER, SUPERVISOR, TIMETABLE, f"{SHARD}/*"), each=True),
        f"{WORKER}/*",
    ),
    each=True,
)
"""Who crashes is restarted alone: other users notice nothing. If one of those who decide goes on crashing, all of them are
built anew from the table, in case what is wrong lies between them, and nobody notices that either; if it does not help,
the runtime ends and says why. Workers are never restarted for each other, because that would end what all of them run."""


def notes_of(table: Table, address: Address) -> Notes:
    """An actor's notes, with what it noted before."""
    return Notes(address, table.notes(address))


def spawn_cores(host: Host, settings: Settings) -> None:
    """Start the queue, the scheduler and the supervisor, and have shards started by their first message."""
    table = host.table
    host.on_demand(SHARD, lambda user: Shard(user, settings, table, notes_of(table, f"{SHARD}/{user}")))
    host.spawn(QUEUE, lambda: Queue(settings, notes_of(table, QUEUE), table))
    host.spawn(SCHEDULER, lambda: Scheduler(settings, table, notes_of(table, SCHEDULER)))
    host.spawn(SUPERVISOR, lambda: Supervisor(table))
