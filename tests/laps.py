"""A contestant that leaves a note of each of its laps; run in processes of its own."""

import os
from pathlib import Path


def note(amount: int, name: int) -> float:
    """One line for each call, in the file that the environment names."""
    unseen = "EVENHAND_WORKERS" not in os.environ
    with Path(os.environ["LAPS"]).open("a", encoding="utf-8") as file:
        file.write(f"{name}:{amount}:{unseen} ")
    return 0.5
