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
from actors.explain import Block, Explanation, explain
from actors.limits import Limit
from actors.policies import ORDERING, SHARING
from actors.policies.deficit import Deficit
from actors.policies.fair import WeightedFair
from actors.policies.noisy import NoisyNeighbour
from actors.policies.ordering import (
    Accumulating,
    Aging,
    Arrival,
    Deadline,
    MovingOrder,
    NaiveScore,
    OrderingPolicy,
    Strict,
)
from actors.policies.sharing import Account, Capped, Claims, Fifo, Index, KeyIndex, SharingPolicy
from actors.policies.turns import Lottery, RoundRobin
from actors.retry import RetryPolicy
from actors.table import Noted, Notes, Table
from actors.task import TRANSITIONS, Attempt, Cause, Change, Priority, Status, Task, next_status

__all__ = [
    "ORDERING",
    "SHARING",
    "TRANSITIONS",
    "Account",
    "Accumulating",
    "ActorFailed",
    "Aging",
    "Arrival",
    "Attempt",
    "Block",
    "Capped",
    "Cause",
    "Change",
    "Claims",
    "Deadline",
    "Deficit",
    "EvenhandError",
    "Explanation",
    "Fifo",
    "Index",
    "InvalidConfig",
    "InvalidTask",
    "InvalidTransition",
    "KeyIndex",
    "KindSettings",
    "Limit",
    "Livelock",
    "Lottery",
    "MailboxFull",
    "MovingOrder",
    "NaiveScore",
    "NoisyNeighbour",
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
    "explain",
    "next_status",
]
