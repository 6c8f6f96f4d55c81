"""Rounds in which everybody runs a lap, one after the other, each in a process of its own.

So all see the same moods of the machine, and nobody inherits a heap, a thread or a cache. Every other round goes backwards,
so that nobody always runs after the same one.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.contestant import Contestant, Lap, Result

ROOT = Path(__file__).parent.parent
LAP_SECONDS_MAX = 600.0


class LapFailed(Exception):
    """A contestant did not come home; what it said last is the message."""


def race(
    contestants: Mapping[str, Contestant],
    rounds: int,
    *,
    quick: bool,
    lap_done: Callable[[], object],
    left_out: Callable[[str], object],
) -> dict[str, Result]:
    """The results of all who finished every round; who fails once is left out, and that is told."""
    laps: dict[str, list[Lap]] = {name: [] for name in contestants}
    amounts = {name: one.quick if quick else one.amounts for name, one in contestants.items()}
    titles = {name: one.title_with(amounts[name]) for name, one in contestants.items()}
    for number in range(rounds):
        for name in list(laps)[:: -1 if number % 2 else 1]:
            try:
                laps[name].append(run_lap(contestants[name], amounts[name]))
            except LapFailed as failure:
                left_out(f"{titles[name]}: left out, {failure}")
                del laps[name]
            lap_done()
    return {name: Result(titles[name], amounts[name][0], tuple(done)) for name, done in laps.items()}


def run_lap(contestant: Contestant, amounts: tuple[int, ...]) -> Lap:
    """One lap, in a new process that sees none of our options."""
    command = [sys.executable, "-m", "benchmarks.lap", *(["--warm"] if contestant.warm else [])]
    try:
        ended = subprocess.run(
            [*command, contestant.run, *map(str, amounts)],
            cwd=ROOT,
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=LAP_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        raise LapFailed(f"a lap took more than {LAP_SECONDS_MAX:g} s") from None
    if ended.returncode:
        raise LapFailed((ended.stderr.strip() or f"exit status {ended.returncode}").splitlines()[-1])
    lap: Lap = json.loads(ended.stdout.strip().splitlines()[-1])
    return lap


def _environment() -> dict[str, str]:
    """Without options of ours, and with compiled modules kept, as an installed library has them."""
    unwanted = "PYTHONDONTWRITEBYTECODE"
    return {name: value for name, value in os.environ.items() if name != unwanted and not name.startswith("EVENHAND_")}
