import subprocess
import sys

SELDOM = {"cattrs", "cronsim", "difflib", "importlib.metadata", "networkx", "sqlite3", "tomllib", "yaml", "zoneinfo"}


def test_what_few_programs_need_is_not_imported_with_the_runtime() -> None:
    program = "import actors, sys; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = set(ended.stdout.split())
    assert {"actors.opening", "trio"} <= imported
    assert imported & SELDOM == set()


def test_what_is_looked_for_is_what_is_used() -> None:
    program = """
import sys, trio, actors, actors.stores.sqlite
from actors.configuration import load_options
from actors.cron import fire_times
from actors.version import installed_version

load_options(environment={"EVENHAND_WORKERS": "8"})
next(fire_times("0 0 * * *", "UTC", 0.0))
installed_version()
print(*sys.modules)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"cattrs", "cronsim", "importlib.metadata", "sqlite3", "tomllib", "zoneinfo"} <= set(ended.stdout.split())
