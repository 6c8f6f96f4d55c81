"""Which version of Evenhand this is."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["installed_version"]


def installed_version() -> str:
    """The version of Evenhand that is installed."""
    try:
        return version("evenhand")
    except PackageNotFoundError:
        return "uninstalled"
