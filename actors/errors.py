"""Every error Evenhand raises on purpose.

One base class, so that `except EvenhandError` catches them all. Messages are lower case and name the thing, the
constraint and the value: `weight must be > 0, got -1`.
"""


class EvenhandError(Exception):
    """The base of every error that Evenhand raises on purpose.

    >>> issubclass(QueueFull, EvenhandError)
    True
    """


class InvalidTask(EvenhandError, ValueError):
    """A submitted task breaks a rule; nothing was admitted.

    >>> from actors import Priority
    >>> Priority.parse("urgent")
    Traceback (most recent call last):
    actors.errors.InvalidTask: priority must be one of very_low, low, normal, high, very_high, critical or 1 to 6, got 'urgent'
    """


class InvalidTransition(EvenhandError):
    """A task was asked to make a move that TRANSITIONS does not have.

    >>> from actors import Change, Status, next_status
    >>> next_status(Status.COMPLETED, Change.CLAIM)
    Traceback (most recent call last):
    actors.errors.InvalidTransition: a completed task cannot be claimed
    """


class UnknownTask(EvenhandError, LookupError):
    """No task with that id is in the table.

    >>> str(UnknownTask("alice has no task 'x'"))
    "alice has no task 'x'"
    """


class QueueFull(EvenhandError):
    """A bound at the door was reached; the task was not admitted.

    >>> str(QueueFull("admitted_max must not be exceeded, got 10 of 10"))
    'admitted_max must not be exceeded, got 10 of 10'
    """


class InvalidConfig(EvenhandError, ValueError):
    """A configuration or scenario has an unknown key or a bad value; the message starts with the key's path.

    >>> from actors.policies import SHARING
    >>> SHARING.make("weighted_fare")
    Traceback (most recent call last):
    actors.errors.InvalidConfig: sharing policy must be one of fifo, round_robin, weighted_fair or 'module:Class', got 'weighted_fare' (did you mean 'weighted_fair'?)
    """


class MailboxFull(EvenhandError):
    """A message found no room in a mailbox. Admission and credits should make this impossible.

    >>> str(MailboxFull("the mailbox holds 2 messages, no room for Wake to queue"))
    'the mailbox holds 2 messages, no room for Wake to queue'
    """


class Livelock(EvenhandError):
    """Actors kept sending each other messages and time could not move on.

    >>> str(Livelock("1000000 messages at 3 s and no end"))
    '1000000 messages at 3 s and no end'
    """


class ActorFailed(EvenhandError):
    """An actor crashed more often than its restart intensity allows, or on being rebuilt; the crash is the cause.

    >>> str(ActorFailed("shard/alice crashed 4 times in 5.0 s"))
    'shard/alice crashed 4 times in 5.0 s'
    """
