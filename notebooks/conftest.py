"""Notebooks beside trio's tests: pytest-trio asks every test for its function, and a notebook has none."""

from typing import Any

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Say so, before it asks."""
    for item in items:
        if not hasattr(item, "obj"):
            item.obj = None
