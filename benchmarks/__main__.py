"""`python -m benchmarks [core|sim|runtime|durable|stored] [--json] [--quick]`."""

import argparse
from collections.abc import Iterator

from benchmarks import core, durable, runtime, sim, stored
from benchmarks.report import Figure


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "subject", nargs="?", choices=["core", "sim", "runtime", "durable", "stored"], help="default: all"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--quick", action="store_true", help="smaller and rougher")
    arguments = parser.parse_args()
    for figure in _figures(arguments.subject, arguments.quick):
        print(figure.as_json() if arguments.json else figure.as_text(), flush=True)


def _figures(subject: str | None, quick: bool) -> Iterator[Figure]:
    if subject in (None, "core"):
        yield from core.measure(queued=20_000 if quick else 1_000_000, rounds=2 if quick else 5)
    if subject in (None, "runtime"):
        tasks, many, seconds = (2_000, 10_000, 1.0) if quick else (20_000, 1_000_000, 10.0)
        yield from runtime.measure(tasks, many, seconds, rounds=2 if quick else 5)
    if subject in (None, "durable"):
        yield from durable.measure(tasks=2_000 if quick else 20_000, rounds=2 if quick else 5)
    if subject in (None, "stored"):
        yield from stored.measure(many=20_000 if quick else 1_000_000, rounds=3 if quick else 20)
    if subject in (None, "sim"):
        yield from sim.measure(jobs=5_000 if quick else 30_000, rounds=2 if quick else 5)


if __name__ == "__main__":
    main()
