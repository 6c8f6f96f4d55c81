"""`python -m benchmarks [core|runtime|durable|sim|latency|growth|footprint] [--peers] [--json] [--quick] [--rounds N]`."""

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console

from benchmarks import peers, screen
from benchmarks.contestant import Subject
from benchmarks.environment import Environment
from benchmarks.race import race
from benchmarks.report import Figure, figures_of
from benchmarks.subjects import ASKED_FOR, SUBJECTS


def main() -> int:
    """Measure and print; 1 if somebody had to be left out."""
    arguments = _arguments()
    subjects = [SUBJECTS[name] for name in ASKED_FOR.get(arguments.subject, SUBJECTS)]
    if arguments.peers:
        peers.go_there_if_needed(subjects)
    environment = Environment.of(subjects, peers=arguments.peers, quick=arguments.quick)
    console = Console()
    if arguments.json:
        print(environment.as_json(), flush=True)
    else:
        console.print(environment.as_text(), highlight=False)
    problems: list[str] = []
    for subject in subjects:
        figures = _measure(subject, arguments, problems)
        if arguments.json:
            print(*(figure.as_json() for figure in figures), sep="\n", flush=True)
        else:
            screen.show(console, subject, figures, quick=arguments.quick)
    print(*problems, sep="\n", end="\n" if problems else "", file=sys.stderr)
    return 1 if problems else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, side by side.")
    parser.add_argument("subject", nargs="?", choices=list(SUBJECTS), help="default: all")
    parser.add_argument(
        "--peers", action="store_true", help="beside all peers, in the environment of `make bench-peers`"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line, the first for the environment")
    parser.add_argument("--quick", action="store_true", help="tiny and rough: to see that it runs")
    parser.add_argument("--rounds", type=int, help="how often each is measured (default: as the subject has it)")
    arguments = parser.parse_args()
    if arguments.rounds is not None and arguments.rounds < 1:
        parser.error(f"rounds must be >= 1, got {arguments.rounds}")
    return arguments


def _measure(subject: Subject, arguments: argparse.Namespace, problems: list[str]) -> Sequence[Figure]:
    there = {}
    for name, contestant in subject.contestants.items():
        if contestant.peer and not arguments.peers:
            continue
        if contestant.installed:
            there[name] = contestant
        else:
            problems.append(f"{subject.name}: {contestant.library} is not installed and left out")
    rounds = arguments.rounds or (min(2, subject.rounds) if arguments.quick else subject.rounds)
    with screen.progress() as progress:
        bar = progress.add_task(subject.name, total=rounds * len(there))
        results = race(
            there,
            rounds,
            quick=arguments.quick,
            lap_done=lambda: progress.advance(bar),
            left_out=problems.append,
        )
    return list(figures_of(subject, results))


if __name__ == "__main__":
    sys.exit(main())
