"""Fixtures for people's own tests, with pytest-trio; see `sim.testing`. Loaded by pytest wherever Evenhand is installed."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

# Whatever pytest loads, it loads in every test run on the machine: so imports come with the first use.
if TYPE_CHECKING:
    from actors.runtime import Runtime
    from sim.determinism import VirtualClock

try:
    from pytest_trio import trio_fixture
except ImportError:
    trio_fixture = pytest.fixture

__all__ = ["evenhand_runtime", "virtual_clock"]


@pytest.fixture
def virtual_clock() -> "VirtualClock":
    """A clock for the test that stands still while anything is runnable, and else jumps to the next thing that is due."""
    from sim.determinism import VirtualClock

    return VirtualClock()


@trio_fixture  # type: ignore[untyped-decorator]
async def evenhand_runtime() -> "AsyncIterator[Runtime]":
    """A runtime on virtual time with four workers. The test must ask for `virtual_clock` too."""
    from sim.testing import virtual_runtime

    async with virtual_runtime(workers=4) as runtime:
        yield runtime
