"""Which store is meant by a name."""

from actors.stores.contract import Store

__all__ = ["SYNCHRONOUS", "open_store", "store_fault"]

SYNCHRONOUS = ("full", "normal")
"""What a commit survives: the loss of power, or only that of the process."""

_SQLITE = "sqlite:"


def store_fault(name: object) -> str | None:
    """What is wrong with the name of a store, or None.

    >>> store_fault("sqlite:tasks.db"), store_fault("paper")
    (None, "store must be 'memory' or 'sqlite:FILE', got 'paper'")
    """
    if name == "memory" or (isinstance(name, str) and name.startswith(_SQLITE) and name != _SQLITE):
        return None
    return f"store must be 'memory' or 'sqlite:FILE', got {name!r}"


def open_store(name: str, synchronous: str) -> Store:
    """The store of that name, owned from now on; not for `memory`, where nothing is stored."""
    from actors.stores.sqlite import SqliteStore

    assert name.startswith(_SQLITE), "there is no other"
    return SqliteStore(name.removeprefix(_SQLITE), synchronous)
