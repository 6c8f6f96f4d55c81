"""`evenhand sim list`: the scenarios that come with Evenhand, and what each shows."""

from sim.library import listing

__all__ = ["list_library"]


def list_library() -> int:
    """List the scenarios that `run` and `check` know by name, each with the property that it shows."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("scenario", no_wrap=True)
    table.add_column("section")
    table.add_column("what it shows", overflow="fold")
    for found in listing():
        table.add_row(escape(found.name), found.section, escape(found.promise))
    Console(highlight=False).print(table)
    return 0
