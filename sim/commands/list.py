"""`evenhand sim list`: the scenarios that come with Evenhand, and what each shows."""

from sim.library import listing

__all__ = ["list_library"]


def list_library() -> int:
    """List the scenarios that `run` and `check` know by name, each with the property that it shows."""
    found = listing()
    width = max((len(f"{listed.section}/{listed.name}") for listed in found), default=0)
    for listed in found:
        print(f"{listed.section + '/' + listed.name:<{width}}  {listed.promise}")
    return 0
