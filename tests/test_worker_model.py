"""The worker's core against a plain model of what it should say."""

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from actors import moves, worker
from actors.actor import NEVER
from actors.messages import (
    SCHEDULER,
    Address,
    Beat,
    Busy,
    Failed,
    Finished,
    Gone,
    Idle,
    Resync,
    Retire,
    Run,
    Stop,
    shard_address,
)
from actors.trace import StopIgnored
from actors.worker import Worker
from tests.doorway import QUICK
from tests.test_worker import ADDRESS, CLASS, GRACE_SECONDS, Log, World, said

STOPS = ("at once", "later", "never")
"""What an execution does when it is told to stop; one that never does is a thread, which cannot be told."""


@attrs.define
class Job:
    run: Run
    stops: str
    ends_at: float
    beats_at: float
    times_out_at: float
    why: str | None = None
    fences_at: float = NEVER
    fenced: bool = False
    lost: bool = False
    """Whether its task was given to somebody else."""


class Model:
    """What a worker should say, by the rules in its file's header."""

    def __init__(self) -> None:
        self.now = 0.0
        self.heard = 0
        self.epoch = 1
        self.retiring = False
        self.job: Job | None = None
        self.log: Log = []
        self.free()

    def say(self, receiver: Address, message: Any) -> None:
        self.log.append((self.now, receiver, message))

    def free(self) -> None:
        self.say(SCHEDULER, Gone(ADDRESS) if self.retiring else Idle(ADDRESS, CLASS, self.epoch, self.heard))

    def report(self, run: Run, report: Finished) -> None:
        self.say(shard_address(run.user), report)

    def begin(self, run: Run, stops: str, lasts_seconds: float | None) -> None:
        self.heard = run.grant
        if self.retiring:
            self.report(run, said(run, "released"))
            return
        ends_at = NEVER if lasts_seconds is None else self.now + lasts_seconds
        times_out_at = NEVER if run.timeout_seconds is None else self.now + run.timeout_seconds
        self.job = Job(run, stops, ends_at, self.now + run.lease_seconds / 3, times_out_at)

    def verdict(self, job: Job, report: Finished) -> Finished:
        if report.outcome != "cancelled" or job.why == "cancelled":
            return report
        if job.why == "timed out":
            error = f"timed out after {job.run.timeout_seconds:g} s"
            return said(job.run, "failed", error=error, error_types=("TimeoutError", "OSError"))
        return said(job.run, "released")

    def end(self, report: Finished) -> None:
        job, self.job = self.job, None
        assert job is not None
        if not job.fenced:
            self.report(job.run, self.verdict(job, report))
        self.free()

    def stop(self, why: str) -> None:
        job = self.job
        if job is None or job.why is not None:
            return
        job.why = why
        if job.stops == "at once":
            self.end(said(job.run, "cancelled"))
        elif job.stops == "never":
            self.fence(job)
        else:
            job.fences_at = self.now + GRACE_SECONDS

    def fence(self, job: Job) -> None:
        name = f"{job.run.user}#{job.run.grant}"
        self.say("trace", StopIgnored(self.now, name, job.run.token, ADDRESS, job.why or ""))
        self.report(job.run, self.verdict(job, said(job.run, "cancelled")))
        job.fenced = True

    def pass_time(self, until: float) -> None:
        while self.job is not None and not self.job.fenced:
            job = self.job
            at = min(job.ends_at, job.fences_at, job.times_out_at, job.beats_at)
            if at > until:
                break
            self.now = at
            if job.ends_at == at:
                self.end(said(job.run, "completed", result="as foretold"))
            elif job.fences_at == at:
                self.fence(job)
            elif job.times_out_at == at:
                job.times_out_at = NEVER
                self.stop("timed out")
            else:
                self.say(shard_address(job.run.user), Beat(job.run.task_id, job.run.token))
                job.beats_at = at + job.run.lease_seconds / 3
        self.now = until

    def resync(self, epoch: int, void: int) -> None:
        self.epoch = epoch
        self.heard = max(self.heard, void)
        if self.job is None:
            self.free()
        else:
            self.say(SCHEDULER, Busy(ADDRESS, CLASS, self.epoch))

    def retire(self, at_once: bool) -> None:
        self.retiring = True
        if at_once:
            self.stop("released")

    def restart(self) -> None:
        self.epoch = 1
        if self.job is not None and not self.job.fenced and not self.job.lost:
            run = self.job.run
            self.report(run, said(run, "crashed", error="the worker was restarted"))
        self.job = None
        self.free()


class WorkerMachine(RuleBasedStateMachine):
    """Runs that end, beat, time out, are stopped, fenced and repeated; resyncs, restarts and retirement."""

    def __init__(self) -> None:
        super().__init__()
        self.world, self.model = World(), Model()
        self.runs: list[Run] = []

    @precondition(lambda self: self.model.job is None)
    @rule(
        user=st.sampled_from(["alice", "tenant/bob"]),
        lease_seconds=st.sampled_from([3.0, 6.0, 12.0]),
        timeout_seconds=st.sampled_from([None, 0.5, 2.0, 7.0]),
        stops=st.sampled_from(STOPS),
        lasts_seconds=st.sampled_from([None, None, 0.0, 1.0, 5.0]),
    )
    def run(self, stops: str, lasts_seconds: float | None, **task: Any) -> None:
        self.world.grants = self.model.heard
        run = self.world.run(stops=stops, lasts_seconds=lasts_seconds, **task)
        self.runs.append(run)
        self.model.begin(run, stops, lasts_seconds)

    @precondition(lambda self: self.model.job is not None)
    @rule(outcome=st.sampled_from(["completed", "failed", "crashed", "cancelled"]))
    def finish(self, outcome: str) -> None:
        job = self.model.job
        assert job is not None
        if job.ends_at == NEVER or job.why is not None:
            error = "boom" if outcome in ("failed", "crashed") else None
            self.world.finish(outcome, error=error)
            self.model.end(said(job.run, outcome, error=error))

    @precondition(lambda self: self.model.job is not None)
    @rule()
    def stop(self) -> None:
        run = self.model.job.run  # type: ignore[union-attr]
        self.world.tell(Stop(run.task_id, run.token))
        self.model.stop("cancelled")

    @precondition(lambda self: self.model.job is not None)
    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 2.5, 4.0, 30.0]))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)
        self.model.pass_time(self.world.now)

    @precondition(lambda self: self.runs)
    @rule(
        what=st.sampled_from(["run again", "end of another", "stop of another", "failure"]),
        place=st.integers(0, 50),
        shift=st.sampled_from([-1, 0, 1]),
    )
    def hear_what_is_not_for_it(self, what: str, place: int, shift: int) -> None:
        run = self.runs[place % len(self.runs)]
        if what == "run again":
            self.world.tell(run)
        elif what == "failure":
            self.world.tell(Failed("shard/alice", Beat(run.task_id, run.token), "boom"))
        elif shift or self.model.job is None or run is not self.model.job.run:
            other = msgspec.structs.replace(run, token=run.token + shift)
            self.world.tell(said(other, "completed") if what == "end of another" else Stop(run.task_id, other.token))

    @rule(epoch=st.integers(1, 3), void=st.integers(-2, 2))
    def resync(self, epoch: int, void: int) -> None:
        # A grant that was not heard of while another is executed cannot have been given.
        void = max(0, self.model.heard + (void if self.model.job is None else min(void, 0)))
        self.world.tell(Resync(epoch, void))
        self.model.resync(epoch, void)

    @precondition(lambda self: len(self.runs) > 1)
    @rule(what=st.sampled_from(["restart", "lose the lease", "retire", "retire at once"]))
    def get_into_trouble(self, what: str) -> None:
        if what == "restart":
            self.world.build()
            self.model.restart()
        elif what == "lose the lease":
            self.lose_the_lease()
        elif self.model.job is not None:
            at_once = what == "retire at once"
            self.world.tell(Retire(at_once))
            self.model.retire(at_once)

    def lose_the_lease(self) -> None:
        """The beats were lost on the way: the task was recovered, and another worker has it."""
        job = self.model.job
        if job is None or job.fenced or job.lost:
            return
        job.lost = True
        task = moves.recover(self.world.table[job.run.task_id], "silent", self.world.now)
        for record in (task, moves.claim(task, "worker/2", 6.0, self.world.now)):
            self.world.table.apply(record)

    @invariant()
    def it_said_what_the_model_says(self) -> None:
        assert self.world.log == self.model.log
        assert self.world.worker.owes_report == (self.model.job is not None and not self.model.job.fenced)

    @invariant()
    def a_run_is_reported_once_and_nothing_is_heard_of_it_after(self) -> None:
        reported: set[tuple[str, int]] = set()
        for _, _, message in self.world.log:
            if isinstance(message, (Finished, Beat)):
                assert (message.task_id, message.token) not in reported
            if isinstance(message, Finished):
                reported.add((message.task_id, message.token))


def test_a_worker_says_what_the_model_says() -> None:
    run_state_machine_as_test(WorkerMachine, settings=settings(stateful_step_count=50))


def changed(name: str, before: str, after: str) -> Callable[..., Any]:
    """A method of the worker with one thing about it changed."""
    source = textwrap.dedent(inspect.getsource(getattr(Worker, name)))
    assert before in source
    scope: dict[str, Any] = dict(vars(worker))
    exec(source.replace(before, after), scope)
    patched: Callable[..., Any] = scope[name]
    return patched


PLANTED: dict[str, tuple[str, str, str]] = {
    "a repeated run is run again": ("_begin", "run.grant <= self._heard", "False"),
    "a void grant is forgotten": ("_resync", "message.void > self._heard", "False"),
    "a fenced run is reported twice": ("_fence", "execution.reported = True", "execution.fences_at = NEVER"),
    "it is told to stop twice": ("_stop", "execution.stopped is not None", "False"),
    "it never fences": ("_stop", "now + self._cancel_grace_seconds", "NEVER"),
    "it never beats": ("_begin", "now + run.lease_seconds / BEATS_PER_LEASE", "NEVER"),
    "it beats once": (
        "_look",
        "execution.beats_at = now + run.lease_seconds / BEATS_PER_LEASE",
        "execution.beats_at = NEVER",
    ),
    "it never times out": ("_begin", "now + run.timeout_seconds", "NEVER"),
    "any stop is for it": (
        "_stop_if_current",
        "(execution.run.task_id, execution.run.token) == (stop.task_id, stop.token)",
        "True",
    ),
    "any end is its own": ("_over", "execution.run.token != said.token", "False"),
    "it works on in retirement": ("_begin", "if self._retiring", "if False"),
    "it is lost after a run": ("_over", "self._say_free(effects)", "pass"),
    "it forgets its run in a restart": ("start", "task.status is Status.IN_PROGRESS", "False"),
    "it takes a task's new run for its own": ("start", "and task.token == token", ""),
    "it forgets to retire in a restart": (
        "_retire",
        'self._retiring = self._notes["retiring"] = True',
        "self._retiring = True",
    ),
    "it stops what may go on": ("_retire", "elif message.at_once", "else"),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_the_model_finds(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, before, after = PLANTED[bug]
    original, patched = getattr(Worker, name), changed(name, before, after)
    monkeypatch.setattr(Worker, name, patched)
    for message, handler in worker._HANDLERS.items():
        if handler is original:
            monkeypatch.setitem(worker._HANDLERS, message, patched)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(WorkerMachine, settings=QUICK)
