"""Tasks and notes as bytes, and back.

A record is JSON, so that any tool can read the file, with what is as usual left out. Read back, tasks share their users,
kinds, retry policies and times as they did before: a million of them take half the memory.
"""

from collections.abc import Callable
from sys import intern
from typing import Any

import msgspec

from actors.errors import StoreFailed
from actors.retry import RetryPolicy
from actors.task import Task

__all__ = ["decode_note", "encode_json", "encode_note", "encode_task", "task_decoder"]

encode_task: Callable[[Task], bytes] = msgspec.json.Encoder().encode
encode_note: Callable[[Any], bytes] = msgspec.json.Encoder().encode
_decode_task = msgspec.json.Decoder(Task).decode
_encode = msgspec.json.Encoder().encode
_USUAL: RetryPolicy = next(field.default for field in msgspec.structs.fields(Task) if field.name == "retry")
_decode_note = msgspec.json.Decoder().decode


def encode_json(value: Any) -> str:
    """Anything that is stored, tasks included, as text.

    >>> encode_json(["alice", 2.5])
    '["alice",2.5]'
    """
    return _encode(value).decode()


def decode_note(encoded: bytes | str) -> Any:
    """A note's value.

    >>> decode_note(encode_note((1, 2.5)))
    [1, 2.5]
    """
    try:
        return _decode_note(encoded)
    except msgspec.DecodeError as error:
        raise StoreFailed(f"a stored note must be JSON, got {encoded[:80]!r}: {error}") from None


def task_decoder() -> Callable[[bytes | str], Task]:
    """A function that reads records, and shares what many of them have in common.

    >>> decode = task_decoder()
    >>> task = Task(id="t1", user="alice", kind="crawl", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0)
    >>> decode(encode_task(task)) == task
    True
    """
    policies: dict[RetryPolicy, RetryPolicy] = {}
    put = msgspec.structs.force_setattr

    def decode(encoded: bytes | str) -> Task:
        try:
            task = _decode_task(encoded)
        except msgspec.DecodeError as error:
            raise StoreFailed(f"a stored task must be a record of one, got {encoded[:80]!r}: {error}") from None
        # Nobody else has it yet: a copy would take longer than all the rest.
        put(task, "user", intern(task.user))
        put(task, "kind", intern(task.kind))
        created_at = task.created_at
        if task.updated_at == created_at:
            put(task, "updated_at", created_at)
        if task.order_at == created_at:
            put(task, "order_at", created_at)
        if task.retry is not _USUAL:
            put(task, "retry", policies.setdefault(task.retry, task.retry))
        return task

    return decode
