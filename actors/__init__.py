"""Evenhand's runtime: a fair task queue made of actors."""

from actors.config import KindSettings, Settings
from actors.errors import (
    ActorFailed,
    EvenhandError,
    InvalidConfig,
    InvalidTask,
    InvalidTransition,
    Livelock,
    MailboxFull,
    QueueFull,
    UnknownTask,
)
from actors.policies import ORDERING, SHARING
from actors.policies.ordering import Aging, Arrival, OrderingPolicy, Strict
from actors.policies.sharing import Account, Fifo, Index, KeyIndex, RoundRobin, SharingPolicy, WeightedFair
from actors.retry import RetryPolicy
from actors.table import Noted, Notes, Table
from actors.task import TRANSITIONS, Attempt, Cause, Change, Priority, Status, Task, next_status

__all__ = [
    "ORDERING",
    "SHARING",
    "TRANSITIONS",
    "Account",
    "ActorFailed",
    "Aging",
    "Arrival",
    "Attempt",
    "Cause",
    "Change",
    "EvenhandError",
    "Fifo",
    "Index",
    "InvalidConfig",
    "InvalidTask",
    "InvalidTransition",
    "KeyIndex",
    "KindSettings",
    "Livelock",
    "MailboxFull",
    "Noted",
    "Notes",
    "OrderingPolicy",
    "Priority",
    "QueueFull",
    "RetryPolicy",
    "RoundRobin",
    "Settings",
    "SharingPolicy",
    "Status",
    "Strict",
    "Table",
    "Task",
    "UnknownTask",
    "WeightedFair",
    "next_status",
]
