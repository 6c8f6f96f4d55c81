"""`python -m benchmarks.lab [--quick]`: the lab at the size that it promises, each beside what it may take.

Six policies under ten seeds on the noisy neighbour, and a log of 200,000 jobs replayed under one policy.

The log is made up as logs are: users by Zipf's law, run times lognormal, as many arrivals as keep nine tenths of the
workers busy. Each measurement is a process of its own, so that its memory is its own too.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from sim.fleet import cores

WORKERS = 64
USERS = 200
LOAD = 0.9
SECONDS_MEDIAN, SECONDS_SPREAD = 220.0, 1.4
COMPARED_SECONDS = 60.0
REPLAYED_SECONDS = 180.0
REPLAYED_BYTES = 2.0**30

_MEASURED = """\
import json, resource, sys
from sim.cli import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"status": ended.code, "bytes": used}))
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab", description="How long the lab takes.")
    parser.add_argument("--quick", action="store_true", help="a tenth of it")
    quick = parser.parse_args().quick
    seeds, jobs = (1, 20_000) if quick else (10, 200_000)
    seconds, _ = _run("compare", "noisy_neighbour", "--seeds", str(seeds))
    _say(f"compare, 6 policies, {seeds} seeds, {cores()} cores", "s", seconds, COMPARED_SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.swf"
        write_log(path, jobs)
        seconds, used = _run("replay", str(path), "--workers", str(WORKERS))
    _say(f"replay of a log, {jobs:,} jobs", "s", seconds, REPLAYED_SECONDS)
    _say(f"replay of a log, {jobs:,} jobs, memory", "MB", used / 2**20, REPLAYED_BYTES / 2**20)


def _say(what: str, unit: str, measured: float, limit: float) -> None:
    print(f"{what:<48} {measured:>10,.1f} {unit:<3} {measured / limit:>7.2f} of {limit:,.0f} {unit}", flush=True)


def write_log(path: Path, jobs: int) -> None:
    """A log in the Standard Workload Format; the same for the same number of jobs."""
    random = Random(jobs)
    heavy = [1 / (number + 1) for number in range(USERS)]
    users = random.choices(range(1, USERS + 1), heavy, k=jobs)
    runs = [max(1, int(random.lognormvariate(0.0, SECONDS_SPREAD) * SECONDS_MEDIAN)) for _ in range(jobs)]
    gap = sum(runs) / jobs / (WORKERS * LOAD)
    at = 0.0
    with path.open("w", encoding="utf-8") as log:
        for number, (user, seconds) in enumerate(zip(users, runs, strict=True), start=1):
            at += random.expovariate(1 / gap)
            log.write(f"{number} {at:.0f} -1 {seconds} 1 -1 -1 1 -1 -1 1 {user} 1 1 1 1 -1 -1\n")


def _run(*arguments: str) -> tuple[float, float]:
    """How long a command took, and the most memory that it had."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, "sim", *arguments], capture_output=True, text=True, check=True
    )
    seconds = time.perf_counter() - began
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["status"] == 0, done.stdout
    return seconds, said["bytes"]


if __name__ == "__main__":
    main()
