"""`make demo`: the same flood under a plain queue and under a fair one, side by side; first simulated, then for real."""

import trio
from rich.console import Console
from rich.table import Table

from actors import NewTask, open_runtime
from sim.groups import GroupMetrics
from sim.library import located
from sim.observation import SimulationResult
from sim.reading import load_scenario
from sim.runner import simulate
from sim.tables import number

__all__ = ["main"]

SCENARIO = located("noisy_neighbour")
POLICIES = ("fifo", "weighted_fair")


def main() -> None:
    """Run both and say what it means."""
    console = Console(highlight=False)
    scenario = load_scenario(SCENARIO)
    console.print(
        "[bold]One busy customer, one quiet one, eight workers.[/]\n"
        "For ten minutes [bold]flood[/] submits 50 tasks a second and [bold]light[/] one every two.\n"
        "A task takes about a second, so the workers can do 8 a second.\n"
        "How long does each customer wait for a start?\n"
    )
    results = {policy: simulate(scenario, sharing=policy) for policy in POLICIES}
    console.print(_table(results))
    plain, fair = (results[policy].users["light"].wait_seconds_p99 or 0.0 for policy in POLICIES)
    console.print(
        f"\nUnder [bold]fifo[/], 1 in 100 of light's tasks waits {_minutes(plain)} or longer,"
        "\nbehind a flood it did not cause."
        f"\nUnder [bold]weighted_fair[/] it is {_minutes(fair)}, and the flood waits for itself alone."
        f"\nThe workers did the same work: {results['fifo'].jobs:,} tasks both times."
    )
    for policy, result in results.items():
        word = "[green]kept[/]" if result.passed else "[red]broken[/]"
        check = result.checks[-1]
        said = f"p99 {number(check.value)} s, limit {number(check.limit)} s"
        console.print(f"  {policy:<14} '{check.name}' {word} ({said})", markup=True)
    console.print(
        "\n[bold]And for real[/], in this process: 1,000 tasks of 10 ms at once, and one every 50 ms beside them."
    )
    for policy in POLICIES:
        waits = trio.run(_embedded, policy)
        console.print(f"  {policy:<14} light waited {max(waits) * 1000:,.0f} ms at most")
    console.print("\nNext: .venv/bin/evenhand sim run scenarios/fast/noisy_neighbour.toml --sharing round_robin")


async def _embedded(sharing: str) -> list[float]:
    """How long each of the light user's tasks waited for its handler, in a runtime in this process."""
    waits: list[float] = []
    async with open_runtime(workers=8, sharing=sharing, stop_grace_seconds=0) as runtime:

        @runtime.handler("flood")
        async def flood(payload: None) -> None:
            await trio.sleep(0.01)

        @runtime.handler("light")
        async def light(submitted_at: float) -> None:
            waits.append(trio.current_time() - submitted_at)

        await runtime.submit_many(NewTask("flood", user="flood") for _ in range(1_000))
        handles = []
        for _ in range(20):
            handles.append(await runtime.submit("light", trio.current_time(), user="light"))
            await trio.sleep(0.05)
        for handle in handles:
            await handle.result()
    return waits


def _table(results: dict[str, SimulationResult]) -> Table:
    table = Table()
    for name in ("sharing", "customer"):
        table.add_column(name)
    for name in ("tasks", "wait p50", "wait p99", "longest wait"):
        table.add_column(name, justify="right")
    for policy, result in results.items():
        for user, group in result.users.items():
            table.add_row(policy, user, *_cells(group))
        table.add_section()
    return table


def _cells(group: GroupMetrics) -> list[str]:
    waits = (group.wait_seconds_p50, group.wait_seconds_p99, group.wait_seconds_max)
    return [number(group.completed), *(_minutes(wait) for wait in waits)]


def _minutes(seconds: float | None) -> str:
    """Seconds as a person says them.

    >>> _minutes(0.58), _minutes(3107.3)
    ('0.6 s', '51.8 min')
    """
    if seconds is None:
        return "-"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


if __name__ == "__main__":
    main()
