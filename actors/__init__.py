"""Evenhand's runtime: a fair task queue made of actors."""

from actors.config import KindSettings, Settings
from actors.context import Context
from actors.errors import (
    ActorFailed,
    ActorGone,
    AskFailed,
    EvenhandError,
    InvalidConfig,
    InvalidTask,
    InvalidTransition,
    Livelock,
    MailboxFull,
    PoolIsFull,
    QueueFull,
    RuntimeStopped,
    SomeRefused,
    StoreFailed,
    StoreInUse,
    TaskCancelled,
    TaskFailed,
    UnknownSchedule,
    UnknownTask,
)
from actors.explain import Block, Explanation, explain
from actors.handle import TaskHandle
from actors.handlers import Handler
from actors.limits import Limit
from actors.opening import open_runtime
from actors.options import AlertOptions, KindOptions, Options, UserOptions, WorkerOptions
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
from actors.reports import GiveUp, Retry
from actors.retry import RetryPolicy
from actors.runtime import Runtime
from actors.spawned import ActorContext, ActorRef, Terminated
from actors.stats import Alert, Health, Lifetime, Stats
from actors.stream import EventStream
from actors.submission import NewTask
from actors.supervision import Group
from actors.table import Noted, Notes, Table
from actors.task import TRANSITIONS, Attempt, Cause, Change, Priority, Status, Task, next_status
from actors.timetable import Scheduled

__all__ = [
    "ORDERING",
    "SHARING",
    "TRANSITIONS",
    "Account",
    "Accumulating",
    "ActorContext",
    "ActorFailed",
    "ActorGone",
    "ActorRef",
    "Aging",
    "Alert",
    "AlertOptions",
    "Arrival",
    "AskFailed",
    "Attempt",
    "Block",
    "Capped",
    "Cause",
    "Change",
    "Claims",
    "Context",
    "Deadline",
    "Deficit",
    "EvenhandError",
    "EventStream",
    "Explanation",
    "Fifo",
    "GiveUp",
    "Group",
    "Handler",
    "Health",
    "Index",
    "InvalidConfig",
    "InvalidTask",
    "InvalidTransition",
    "KeyIndex",
    "KindOptions",
    "KindSettings",
    "Lifetime",
    "Limit",
    "Livelock",
    "Lottery",
    "MailboxFull",
    "MovingOrder",
    "NaiveScore",
    "NewTask",
    "NoisyNeighbour",
    "Noted",
    "Notes",
    "Options",
    "OrderingPolicy",
    "PoolIsFull",
    "Priority",
    "QueueFull",
    "Retry",
    "RetryPolicy",
    "RoundRobin",
    "Runtime",
    "RuntimeStopped",
    "Scheduled",
    "Settings",
    "SharingPolicy",
    "SomeRefused",
    "Stats",
    "Status",
    "StoreFailed",
    "StoreInUse",
    "Strict",
    "Table",
    "Task",
    "TaskCancelled",
    "TaskFailed",
    "TaskHandle",
    "Terminated",
    "UnknownSchedule",
    "UnknownTask",
    "UserOptions",
    "WeightedFair",
    "WorkerOptions",
    "explain",
    "next_status",
    "open_runtime",
]
