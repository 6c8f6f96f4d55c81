"""What exceptions mean for a task: in words, by name, and as failure, crash, retry or giving up."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import GiveUp, InvalidConfig, InvalidTask, Retry, RetryPolicy
from actors.messages import Finished, Run
from actors.reports import ERROR_LENGTH_MAX, ProcessDied, RaisedElsewhere, completed, failed, stopped, within

RUN = Run("t1", "alice", "crawl", 3, 1, None, 60.0, 7)


def report(error: BaseException) -> Finished:
    return failed("worker/1", RUN, error)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("I cannot say")


def test_a_report_is_about_its_run_and_from_its_worker() -> None:
    assert completed("worker/1", RUN, {"found": 3}) == Finished(
        task_id="t1", token=3, worker_id="worker/1", outcome="completed", result={"found": 3}
    )
    assert stopped("worker/1", RUN) == Finished(task_id="t1", token=3, worker_id="worker/1", outcome="cancelled")
    assert report(ValueError("boom")) == Finished(
        task_id="t1",
        token=3,
        worker_id="worker/1",
        outcome="failed",
        error="ValueError: boom",
        error_types=("ValueError", "Exception", "BaseException"),
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("url"), "KeyError: 'url'"),
        (ValueError(), "ValueError: "),
        (asyncio.CancelledError(), "CancelledError: "),
        (Retry(after=30), "retry after 30 s"),
        (Retry(after=0.5, reason="busy"), "busy"),
        (GiveUp("the page is gone"), "the page is gone"),
        (RaisedElsewhere("ValueError: boom", ("ValueError",)), "ValueError: boom"),
        (ProcessDied("the process ended with status -9"), "ProcessDied: the process ended with status -9"),
        (Mute(), "Mute"),
        (OSError("caf\udce9.txt"), r"OSError: caf\udce9.txt"),
        (ExceptionGroup("one", [ExceptionGroup("alone", [ValueError("boom")])]), "ValueError: boom"),
        (
            ExceptionGroup("two", [ValueError("boom"), ExceptionGroup("inner", [KeyError("k"), Mute()])]),
            "ExceptionGroup: two (2 sub-exceptions); ValueError: boom; "
            "ExceptionGroup: inner (2 sub-exceptions); KeyError: 'k'; Mute",
        ),
    ],
    ids=repr,
)
def test_what_an_exception_says_is_kept_in_words(error: BaseException, said: str) -> None:
    assert report(error).error == said


@pytest.mark.parametrize(
    ("error", "crashed"),
    [
        (SystemExit(3), True),
        (ProcessDied("the process ended with status 1"), True),
        (RaisedElsewhere("SystemExit: 3", ("SystemExit", "BaseException"), crashed=True), True),
        (BaseExceptionGroup("exits", [SystemExit(3)]), True),
        (BaseExceptionGroup("exits", [ValueError("boom"), BaseExceptionGroup("inner", [SystemExit(3)])]), True),
        (RaisedElsewhere("ValueError: boom", ("ValueError",)), False),
        (asyncio.CancelledError(), False),
        (MemoryError(), False),
    ],
    ids=repr,
)
def test_only_what_ended_a_process_or_wanted_to_is_a_crash(error: BaseException, crashed: bool) -> None:
    assert report(error).outcome == ("crashed" if crashed else "failed")


@pytest.mark.parametrize(
    "error",
    [
        GiveUp("gone"),
        InvalidTask("result must be a JSON value, got object"),
        InvalidConfig("handler 'f' must be in a module"),
        ExceptionGroup("alone", [GiveUp("gone")]),
    ],
    ids=repr,
)
def test_what_would_be_wrong_every_time_is_not_tried_again(error: Exception) -> None:
    assert report(error).give_up
    assert not report(ValueError("boom")).give_up


def test_a_handler_that_asks_for_another_try_says_when() -> None:
    assert report(Retry(after=30)).retry_after_seconds == 30
    assert report(ExceptionGroup("alone", [Retry(after=0)])).retry_after_seconds == 0
    assert report(ValueError("boom")).retry_after_seconds is None


@pytest.mark.parametrize("after", [-1, float("nan"), float("inf"), "soon", None, True])
def test_a_delay_must_be_a_number_of_seconds(after: Any) -> None:
    with pytest.raises(InvalidTask) as caught:
        Retry(after=after)
    assert str(caught.value) == f"after must be a finite number of seconds >= 0, got {after!r}"


def test_retry_policies_see_the_names_of_all_bases_and_of_all_in_a_group() -> None:
    group = ExceptionGroup("two", [ValueError("boom"), ExceptionGroup("inner", [TimeoutError(), ConnectionError()])])
    names = report(group).error_types
    assert names[:3] == ("ExceptionGroup", "BaseExceptionGroup", "Exception")
    assert {"ValueError", "TimeoutError", "ConnectionError", "OSError"} < set(names)
    assert len(set(names)) == len(names)
    assert not RetryPolicy(give_up_on=(OSError,)).retries(names)
    assert RetryPolicy(retry_on=(ValueError,)).retries(names)
    alone = report(ExceptionGroup("alone", [PermissionError()])).error_types
    assert alone[0] == "PermissionError", "one alone speaks for its group"


def test_an_exception_from_another_process_goes_by_the_names_it_had_there() -> None:
    names = ("TheirError", "OSError", "Exception", "BaseException")
    assert report(RaisedElsewhere("TheirError: boom", names)).error_types == names


def test_of_a_long_story_the_beginning_is_kept() -> None:
    error = report(ValueError("x" * 20_000)).error
    assert error == "ValueError: " + "x" * (ERROR_LENGTH_MAX - len("ValueError: ")) + "..."
    exactly = "x" * (ERROR_LENGTH_MAX - len("ValueError: "))
    assert report(ValueError(exactly)).error == f"ValueError: {exactly}"


def nested(depth: int) -> ExceptionGroup[Exception]:
    group: ExceptionGroup[Exception] = ExceptionGroup("deepest", [ValueError("boom"), KeyError("k")])
    for number in range(depth):
        group = ExceptionGroup(f"at {number}", [group, OSError(number)])
    return group


def test_groups_may_be_nested_deeper_than_python_recurses() -> None:
    error = report(nested(20_000))
    assert error.error is not None and len(error.error) == ERROR_LENGTH_MAX + len("...")
    assert {"ValueError", "KeyError", "OSError"} < set(error.error_types)


leaves = st.builds(lambda kind, said: kind(said), st.sampled_from([ValueError, SystemExit, GiveUp]), st.text())
groups: st.SearchStrategy[BaseException] = st.recursive(
    leaves,
    lambda inner: st.builds(BaseExceptionGroup, st.text(), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=20,
)


@given(groups)
def test_whatever_is_raised_can_be_reported_as_text_that_any_store_keeps(error: BaseException) -> None:
    said = report(error)
    assert said.error is not None and said.error_types
    said.error.encode()
    found = {type(one) for one in within(error)}
    assert (said.outcome == "crashed") == (SystemExit in found)
    assert {kind.__name__ for kind in found if kind is not type(error)} <= {
        *said.error_types,
        "ExceptionGroup",
        "BaseExceptionGroup",
    }
