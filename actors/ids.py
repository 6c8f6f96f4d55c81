"""Ids of tasks: UUIDs of version 7, which sort by time. New ones are drawn; derived ones follow from what they are for."""

from hashlib import blake2b

from uuid_utils import uuid7

__all__ = ["derived_id", "new_id"]


def new_id() -> str:
    """An id that nobody else has.

    >>> new_id() < new_id()
    True
    """
    return str(uuid7())


def derived_id(what_for: str, at: float) -> str:
    """The id of what is made for this at that time: always the same one.

    >>> derived_id("7/alice#1", 0.0)
    '00000000-0000-77b7-a57e-242120e5b23b'
    """
    digits = blake2b(what_for.encode(), digest_size=10).hexdigest()
    time = f"{int(min(max(at, 0.0) * 1000, 0xFFFFFFFFFFFF)):012x}"
    return f"{time[:8]}-{time[8:]}-7{digits[:3]}-a{digits[3:6]}-{digits[6:18]}"
