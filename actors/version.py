"""Which version of Evenhand this is."""

from functools import cache

__all__ = ["installed_version"]


@cache
def installed_version() -> str:
    """The version of Evenhand that is installed; looked up once, because that takes longer than a small simulation."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("evenhand")
    except PackageNotFoundError:
        return "uninstalled"
