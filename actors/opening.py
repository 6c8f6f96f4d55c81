"""Opening a runtime, and what happens when its block is left."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import SystemRandom
from typing import Any, TypeVar

import trio

from actors.actor import keyed_draw
from actors.config import KindSettings
from actors.configuration import load_options
from actors.engine import Engine
from actors.errors import InvalidConfig
from actors.handlers import Handlers
from actors.journal import StoreJournal
from actors.log import log_left
from actors.options import Options
from actors.policies import ORDERING, SHARING
from actors.recording import Recorder, recording_path
from actors.restoring import restore
from actors.runtime import Runtime
from actors.stores.contract import Store
from actors.stores.opening import open_store
from actors.table import Table
from actors.trace import Header
from actors.version import installed_version

__all__ = ["open_runtime", "run_runtime"]

R = TypeVar("R")


@asynccontextmanager
async def open_runtime(
    store: str | None = None,
    *,
    config: str | Path | None = None,
    resources: Mapping[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[Runtime]:
    """A runtime for the length of a block.

    `options` are the fields of `Options`; they win over `EVENHAND_...` variables, and those over the file that `config` names.
    `resources` is handed to every handler in its context.

    When the block is left, what runs may end within `stop_grace_seconds`, and the rest is given back: see `Runtime.left`. An
    exception leaves the block as it is, with what ran given back at once. What makes the runtime itself fail cancels the
    block, and is raised at its end.

    >>> async def main():
    ...     async with open_runtime(workers=2) as runtime:
    ...         @runtime.handler("double")
    ...         async def double(number: int) -> int:
    ...             return 2 * number
    ...         handle = await runtime.submit(double, 21, user="alice")
    ...         print(await handle.result())
    >>> trio.run(main)
    42
    """
    if not (resources is None or isinstance(resources, Mapping)):
        raise InvalidConfig(f"resources must be a table of names, got {resources!r}")
    if store is not None:
        options["store"] = store
    loaded = load_options(config, keywords=options)
    async with run_runtime(loaded, resources={} if resources is None else resources) as runtime:
        yield runtime


@asynccontextmanager
async def run_runtime(
    options: Options,
    *,
    resources: Mapping[str, Any],
    wall_clock: Callable[[], float] = time.time,
    threads: bool = True,
    store: Store | None = None,
) -> AsyncIterator[Runtime]:
    """The same, with the options ready; simulations have a clock and a store of their own, and no threads."""
    if store is None and options.store != "memory":
        store = await _blocking(threads, open_store, options.store, options.store_synchronous)
    try:
        async with _run(options, resources, wall_clock, threads, store) as runtime:
            yield runtime
    finally:
        if store is not None:
            with trio.CancelScope(shield=True):
                await _blocking(threads, store.close)


async def _blocking(threads: bool, call: Callable[..., R], *arguments: Any) -> R:
    """What may take a while on a disk: in a thread, unless time is virtual."""
    return await trio.to_thread.run_sync(call, *arguments) if threads else call(*arguments)


@asynccontextmanager
async def _run(
    options: Options,
    resources: Mapping[str, Any],
    wall_clock: Callable[[], float],
    threads: bool,
    store: Store | None,
) -> AsyncIterator[Runtime]:
    table = Table()
    stored_at = 0.0 if store is None else await _blocking(threads, restore, store, table)
    handlers = Handlers({name: kind.settings(KindSettings()) for name, kind in options.kinds.items()})
    seed = SystemRandom().getrandbits(63) if options.seed is None else options.seed
    recorder = None
    if options.record is not None:
        recorder = Recorder(recording_path(options.record, wall_clock()), _header(options, seed))
    engine = Engine(
        options.settings(handlers),
        options.worker_classes(),
        handlers,
        keyed_draw(seed),
        resources=resources,
        cancel_grace_seconds=options.cancel_grace_seconds,
        wall_clock=wall_clock,
        threads=threads,
        recorder=recorder,
        journal=None if store is None else StoreJournal(store, threads),
        table=table,
        stored_at=stored_at,
    )
    runtime = Runtime(options, engine, handlers)
    raised: Exception | None = None
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(engine.run)
            try:
                yield runtime
                asked_to_stop = engine.stopping
                await engine.stop(options.stop_grace_seconds, options.drain)
                if not asked_to_stop and options.store == "memory":
                    log_left(list(engine.table.every_live()))
            except Exception as error:
                raised = error
            finally:
                await _end(runtime, engine)
    except BaseExceptionGroup as group:
        failure = _alone(group)
    # Raised out here, where neither of them is taken for the context of the other.
    if failure is not None and raised is not None:
        raise BaseExceptionGroup("the block and the runtime failed", [raised, failure])
    if failure is not None:
        raise failure
    if raised is not None:
        raise raised


def _header(options: Options, seed: int) -> Header:
    said = {
        "workers": len(options.worker_classes()),
        "sharing": SHARING.name_of(options.sharing),
        "ordering": ORDERING.name_of(options.ordering),
        "critical_burst": options.critical_burst,
        "weights": {name: user.weight for name, user in options.users.items()},
    }
    return Header(scenario="runtime", seed=seed, version=installed_version(), options=said)


async def _end(runtime: Runtime, engine: Engine) -> None:
    """Give back at once whatever still runs, and end every task."""
    with trio.CancelScope(shield=True):
        await engine.stop(0.0, drain=False)
        engine.close()
        await engine.closed.wait()
    runtime.left = tuple(engine.table.every_live())


def _alone(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one exception in nested groups of one, or the group."""
    error: BaseException = group
    while type(error) in (BaseExceptionGroup, ExceptionGroup) and len(error.exceptions) == 1:  # type: ignore[attr-defined]
        error = error.exceptions[0]  # type: ignore[attr-defined]
    return error
