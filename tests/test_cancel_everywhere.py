"""Cancelling a program at any of its awaits leaves every task where it belongs.

One short program is run again and again, on virtual time and with tasks scheduled in a known order. In each run the scope
around it is cancelled at another step: of the program's own task, or of any task there is, handlers and the runtime's own
included; in the middle of an await, or between two. After each run nothing is in progress, everything that was let in
waits or has ended once, by the trace as by the table, and nobody is left over. Then the same for programs made up at random.
"""

from contextlib import suppress
from typing import Any

import attrs
import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import Context, EvenhandError, NewTask, RetryPolicy, Runtime, worker
from actors.engine import Engine
from actors.execution import HandlerExecutor
from tests.trials import Trial, engines, run_trial

__all__ = ["engines"]

OPTIONS: dict[str, Any] = {
    "workers": 2,
    "admitted_max": 4,
    "admission_share": None,
    "when_full": "wait",
    "cancel_grace_seconds": 1.0,
}


def add_handlers(runtime: Runtime) -> None:
    """Each takes a name, of which the last word is how many seconds it takes."""

    @runtime.handler("sleep", timeout_seconds=None)
    async def sleep(name: str, context: Context) -> str:
        context.heartbeat()
        try:
            await trio.sleep(float(name.split()[-1]))
        finally:
            # A little to clean up.
            with trio.CancelScope(shield=True):
                await trio.sleep(0.1)
        return name

    @runtime.handler("flaky", retry=RetryPolicy(base_seconds=2.0, jitter=0.0))
    async def flaky(name: str, context: Context) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 0.5)
        if context.attempt == 1:
            raise ValueError("boom")

    @runtime.handler("stubborn", timeout_seconds=2.0, max_retries=0)
    async def stubborn(name: str) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(float(name.split()[-1]))

    @runtime.handler("grouped", timeout_seconds=2.0, retry=RetryPolicy(max_retries=1, base_seconds=1.0))
    async def grouped(name: str) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(fail_at_the_end, float(name.split()[-1]))


async def fail_at_the_end(seconds: float) -> None:
    try:
        await trio.sleep(seconds)
    finally:
        raise KeyError("in a group")


# One program


async def program(trial: Trial) -> None:
    async with trial.runtime(**OPTIONS) as runtime:
        add_handlers(runtime)
        first = await trial.submit("a 5")
        flaky = await trial.submit("b 1", "flaky")
        many = await runtime.submit_many(NewTask("sleep", f"many {seconds}", user="c") for seconds in (1, 2, 3))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trial.submit, "d 1")
            nursery.start_soon(trial.submit, "e 1")
            doomed = await trial.submit("f 100")
            with trio.move_on_after(0.1):
                await trial.submit("impatient 1")
            await trio.sleep(0.5)
            await doomed.cancel()
            await flaky.result()
            for handle in (*many, first, doomed):
                await handle.wait()
        await intervene(trial, runtime)
        await trial.submit("g 100")
        await trial.submit("g 1")
        await runtime.stop(3.0)


async def intervene(trial: Trial, runtime: Runtime) -> None:
    """An operator at work."""
    await runtime.pause(user="h")
    waiting = await trial.submit("h 1")
    running = await trial.submit("i 100")
    await runtime.requeue(running.id)
    await runtime.cancel(waiting.id)
    await runtime.resume(user="h")
    await running.cancel()
    await running.wait()
    call = await runtime.run_soon(trio.sleep, 1)
    await call.result()
    await runtime.maintain(everything=True)


def check_everywhere(whose: str, where: str, seeds: int) -> int:
    """Cancel at one step after the other, until the program ends before it is cancelled; how often it was cut short."""
    cut_short = 0
    for seed in range(seeds):
        step, ended = 0, False
        while not ended:
            step += 1
            trial = run_trial(program, whose, where, step, seed)
            trial.check()
            cut_short += not trial.ended
            ended = not trial.scope.cancel_called
        assert trial.ended, "a program that is not cancelled ends by itself"
    return cut_short


@pytest.mark.parametrize("where", ["in", "between"])
def test_cancelling_a_program_at_any_of_its_awaits_leaves_every_task_where_it_belongs(where: str) -> None:
    assert check_everywhere("program", where, seeds=3) >= 75, "it is a program of many steps"


@pytest.mark.parametrize("where", ["in", "between"])
def test_cancelling_it_at_a_step_of_any_other_task_does_too(where: str) -> None:
    assert check_everywhere("anybody", where, seeds=5) >= 400


# The test finds


def stays_at_the_door(self: Engine, submit: Any) -> bool:
    """A submit that was cancelled waits on."""
    return True


async def is_never_told(self: Engine, submit: Any, asked: Any) -> None:
    """A submit that is cancelled is in if it is let in later."""
    await asked.answered()


async def stops_nothing(self: Engine, grace_seconds: float, drain: bool) -> None:
    """The runtime ends with all that runs."""
    self.stopping = True


def gives_nothing_back(self: HandlerExecutor) -> None:
    """What is cut off is nobody's."""


def is_counted(because: Any, said: Any, run: Any) -> Any:
    """An execution that was called in counts as a failed one."""
    return msgspec.structs.replace(said, outcome="failed") if said.outcome == "cancelled" else said


async def starts_under_a_shield(
    self: Engine, task_status: Any = trio.TASK_STATUS_IGNORED, run: Any = Engine.run
) -> None:
    with trio.CancelScope(shield=True):
        await run(self, task_status)


PLANTED: dict[str, dict[tuple[Any, str], Any]] = {
    "a submit that waits on": {(Engine, "_withdraw"): stays_at_the_door},
    "a submit that is cancelled and comes in": {(Engine, "_wait_at_the_door"): is_never_told},
    "an end that gives nothing back": {
        (Engine, "stop"): stops_nothing,
        (HandlerExecutor, "give_back"): gives_nothing_back,
    },
    "an end that costs an attempt": {(worker, "_because"): is_counted},
    "a start that cannot be cancelled": {(Engine, "run"): starts_under_a_shield},
}


@pytest.mark.parametrize("bug", PLANTED)
def test_the_check_finds(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for (owner, name), replacement in PLANTED[bug].items():
        monkeypatch.setattr(owner, name, replacement)
    with pytest.raises(AssertionError):
        check_everywhere("program", "in", seeds=1)


# Programs made up at random

Step = tuple[str, Any, Any]

KINDS = st.sampled_from(["sleep", "sleep", "flaky", "stubborn", "grouped"])
SECONDS = st.sampled_from([0, 1, 3, 30])
PLACES = st.integers(0, 5)
steps = st.one_of(
    st.tuples(st.just("submit"), KINDS, SECONDS),
    st.tuples(st.just("submit beside"), KINDS, SECONDS),
    st.tuples(st.just("submit many"), KINDS, st.integers(1, 4)),
    st.tuples(st.just("wait"), PLACES, SECONDS),
    st.tuples(st.just("cancel"), PLACES, st.none()),
    st.tuples(st.just("requeue"), PLACES, st.booleans()),
    st.tuples(st.just("sleep"), st.sampled_from([0.0, 0.25, 1.0, 5.0]), st.none()),
    st.tuples(st.just("pause or resume"), st.booleans(), st.none()),
    st.tuples(st.just("stop"), SECONDS, st.booleans()),
)


PATIENCE_SECONDS = 1_000.0


@attrs.frozen
class Script:
    """A program: some steps in turn, at most one crash of a worker, then the end of the block."""

    steps: list[Step]
    crash_at: int
    drain: bool

    async def __call__(self, trial: Trial) -> None:
        options = OPTIONS | {"drain": self.drain, "stop_grace_seconds": 10.0}
        async with trio.open_nursery() as nursery, trial.runtime(**options) as runtime:
            add_handlers(runtime)
            for number, step in enumerate(self.steps):
                # At the full door of a runtime that is paused one could wait for ever.
                with suppress(EvenhandError), trio.move_on_after(PATIENCE_SECONDS):
                    if number == self.crash_at:
                        runtime.tell("worker/1", "what no worker understands")
                    await play(trial, runtime, nursery, number, *step)


async def play(
    trial: Trial, runtime: Runtime, nursery: trio.Nursery, number: int, step: str, one: Any, other: Any
) -> None:
    handles = trial.handles
    if step == "submit":
        await trial.submit(f"u{number % 3} {other}", one)
    elif step == "submit beside":
        nursery.start_soon(submit_unless_stopped, trial, f"v{number} {other}", one)
    elif step == "submit many":
        handles += await runtime.submit_many(NewTask(one, f"many {number} {n} 1", user="w") for n in range(other))
    elif step == "sleep":
        await trio.sleep(one)
    elif step == "pause or resume":
        await (runtime.pause() if one else runtime.resume())
    elif step == "stop":
        await runtime.stop(one, drain=other)
    elif handles:
        handle = handles[one % len(handles)]
        if step == "wait":
            with trio.move_on_after(other):
                await handle.wait()
        elif step == "cancel":
            await handle.cancel()
        else:
            await runtime.requeue(handle.id, reset_retries=other)


async def submit_unless_stopped(trial: Trial, name: str, kind: str) -> None:
    with suppress(EvenhandError):
        await trial.submit(name, kind)


scripts = st.builds(
    Script,
    st.integers(0, 15).flatmap(lambda length: st.lists(steps, min_size=length, max_size=length)),
    st.integers(-5, 15),
    st.booleans(),
)


def check_script(script: Script, whose: str, where: str, step: int, seed: int) -> None:
    run_trial(script, whose, where, step, seed).check()


whoever, wherever = st.sampled_from(["program", "anybody"]), st.sampled_from(["in", "between"])


@settings(max_examples=300)
@given(scripts, whoever, wherever, st.integers(1, 150), st.integers(0, 1_000))
def test_cancelling_any_program_anywhere_leaves_every_task_where_it_belongs(
    script: Script, whose: str, where: str, step: int, seed: int
) -> None:
    check_script(script, whose, where, step, seed)
