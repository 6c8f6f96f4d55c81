"""The process behind `compare`: `python -m sim.fleet_worker`, a run to be made on each line, what came of it on another.

An order is a line of JSON: what the policies are called, the text of a scenario, the seed, and whether pictures are wanted.
"""

import json
import sys
from functools import lru_cache
from typing import TextIO

from sim.fleet import Errand, run_one
from sim.outcome import Ideals
from sim.reading import parse_scenario

__all__ = ["main"]

_SCENARIOS_KEPT = 64
"""A scenario may name a log, which is read once for each."""


def main(orders: TextIO, answers: TextIO) -> None:
    """Make the runs that are ordered until there are no more, and answer."""
    read = lru_cache(_SCENARIOS_KEPT)(parse_scenario)
    ideals = Ideals()
    for line in orders:
        order = json.loads(line)
        errand = Errand(
            policy=order["policy"],
            scenario=read(order["scenario"]),
            seed=order["seed"],
            draws=order["draws"],
            measures_lag=order["measures_lag"],
            judged=order["judged"],
        )
        answers.write(json.dumps(run_one(errand, ideals).as_json()) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.stdin, sys.stdout)
