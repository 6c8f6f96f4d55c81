"""The process behind `explore --jobs` and `run --twice`: `python -m sim.explore_worker`, one order in, judgements out.

The order is a line of JSON: the text of a scenario, and the seeds of the variations to run; without seeds the scenario is
run as it is. Each run is answered with a line of JSON, in the order of the seeds.
"""

import json
import sys
from typing import TextIO

import attrs

from sim.explore import variation
from sim.judgement import judge
from sim.reading import parse_scenario

__all__ = ["main"]


def main(orders: TextIO, answers: TextIO) -> None:
    """Do what the order says, and answer."""
    order = json.loads(orders.readline())
    scenario = parse_scenario(order["scenario"])
    seeds = order.get("seeds")
    for found in [scenario] if seeds is None else (variation(scenario, seed) for seed in seeds):
        answers.write(json.dumps(attrs.asdict(judge(found))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.stdin, sys.stdout)
