"""The front: answers reach whoever waits for them, whoever has gone is forgotten, and nothing piles up."""

from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from actors import EvenhandError, QueueFull, RuntimeStopped, Task
from actors.actor import keyed_draw
from actors.front import Asked, Front
from actors.messages import Accepted, Answered, Await, Ended, Failed, Maintained, Refused, Submit

DRAW = keyed_draw(7)
FULL = QueueFull("admitted tasks must be at most 0, got one more")


def tell(front: Front | Asked, *messages: Any) -> None:
    for message in messages:
        effects = front.handle(message, 0.0, DRAW)
        said = (effects.sends, effects.held, effects.records, effects.events, effects.timer)
        assert said == ([], [], [], [], None), "it only listens"


def new_task(task_id: str) -> Task:
    return Task(id=task_id, user="u", kind="k", sequence=1, created_at=0.0, updated_at=0.0, order_at=0.0)


# One question


async def test_an_answer_reaches_all_who_wait_and_all_who_come_later(autojump_clock: trio.abc.Clock) -> None:
    asked, heard = Asked(), []

    async def wait() -> None:
        heard.append(await asked.wait())

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(wait)
            await trio.sleep(1)
            tell(asked, Maintained(7), Maintained(8))
        await wait()
    assert heard == [Maintained(7)] * 4, "the first answer counts"


async def test_whoever_gives_up_waiting_takes_nobody_along(autojump_clock: trio.abc.Clock) -> None:
    asked, heard = Asked(), []

    async def wait(seconds: float) -> None:
        with trio.move_on_after(seconds):
            heard.append(await asked.wait())

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, 1)
            nursery.start_soon(wait, 5)
            await trio.sleep(2)
            tell(asked, Maintained(7))
    assert heard == [Maintained(7)]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Refused("t1", FULL), str(FULL)),
        (Answered("t1", FULL), str(FULL)),
        (Failed("shard/u", Await("t1", "front"), "ValueError: boom"), "shard/u could not do it: ValueError: boom"),
    ],
)
async def test_an_answer_that_says_what_went_wrong_is_raised(answer: Any, said: str) -> None:
    asked = Asked()
    tell(asked, answer)
    for _ in range(2):
        with pytest.raises(EvenhandError) as wrong:
            await asked.wait()
        assert str(wrong.value) == said


async def test_an_answer_that_nothing_went_wrong_is_given() -> None:
    asked = Asked()
    tell(asked, Answered("t1", None))
    assert await asked.wait() == Answered("t1", None)


# Submits


def test_each_submit_hears_its_own_answer() -> None:
    front = Front()
    submits = {task_id: Asked() for task_id in ("a", "b", "c", "d")}
    front.submits.update(submits)
    failed = Failed("queue", Submit(id="c", user="u", kind="k"), "boom")
    tell(front, Refused("b", FULL), Accepted("a", "x"), failed, Accepted("nobody", "nobody"))
    assert [asked.answer for asked in submits.values()] == [Accepted("a", "x"), Refused("b", FULL), failed, None]


def test_what_a_submit_that_nobody_waited_for_means_is_known_later() -> None:
    front = Front()
    for task_id in ("in", "joined", "refused", "unanswered"):
        front.leave_open(task_id, Asked())
    tell(front, Accepted("in", "in"), Accepted("joined", "other"), Refused("refused", FULL))
    assert [front.meant(task_id) for task_id in ("in", "joined", "unanswered", "never heard of")] == [
        "in",
        "other",
        "unanswered",
        "never heard of",
    ]
    with pytest.raises(QueueFull):
        front.meant("refused")
    assert "in" not in front.left_open, "its task says all there is to say"


STEPS = st.tuples(st.sampled_from(["open", "open", "refuse", "join", "accept"]), st.integers(0, 99))


@given(st.lists(STEPS, min_size=20, max_size=60))
def test_answers_that_nobody_asks_for_are_kept_up_to_a_bound_and_open_submits_always(
    steps: list[tuple[str, int]],
) -> None:
    bound = 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("actors.front.LEFT_OPEN_MAX", bound)
        front, unanswered, answered = Front(), list[str](), list[str]()
        for number, (action, place) in enumerate(steps):
            if action == "open":
                front.leave_open(str(number), Asked())
                unanswered.append(str(number))
            elif unanswered:
                task_id = unanswered.pop(place % len(unanswered))
                answers: dict[str, Any] = {
                    "refuse": Refused(task_id, FULL),
                    "join": Accepted(task_id, "other"),
                    "accept": Accepted(task_id, task_id),
                }
                # Said twice, because a queue that was restarted may say it again.
                tell(front, answers[action], answers[action])
                if action != "accept":
                    answered.append(task_id)
            assert set(front.left_open) == {*unanswered, *answered[-bound:]}


# Ends


async def test_an_end_reaches_whoever_waits_for_it_and_nobody_else(autojump_clock: trio.abc.Clock) -> None:
    front, heard, asked = Front(), [], list[str]()

    async def wait(name: str, task_id: str, seconds: float) -> None:
        with trio.move_on_after(seconds):
            ended = await front.ended(task_id, lambda: asked.append(task_id))
            heard.append((name, ended.id))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, "patient", "a", 9)
        nursery.start_soon(wait, "patient too", "a", 9)
        nursery.start_soon(wait, "impatient", "a", 1)
        nursery.start_soon(wait, "elsewhere", "b", 9)
        await trio.sleep(2)
        assert sorted(asked) == ["a", "b"], "one question is enough"
        tell(front, Ended(new_task("a")), Ended(new_task("nobody waits for this")))
    assert sorted(heard) == [("patient", "a"), ("patient too", "a")]
    for task_id in ("a", "b"):
        await wait("again", task_id, 1)
    assert asked[2:] == ["a", "b"], "whoever heard it or gave up is forgotten"


async def test_an_end_that_comes_on_being_asked_for_is_not_missed(autojump_clock: trio.abc.Clock) -> None:
    front = Front()
    with trio.fail_after(10):
        assert (await front.ended("a", lambda: tell(front, Ended(new_task("a"))))).id == "a"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answered("a", QueueFull("why not")), "why not"),
        (Failed("shard/u", Await("a", "front"), "boom"), "shard/u could not do it: boom"),
    ],
)
async def test_an_end_that_cannot_be_waited_for_is_said(answer: Any, said: str) -> None:
    front = Front()

    async def wait() -> None:
        with pytest.raises(EvenhandError) as wrong:
            await front.ended("a", lambda: None)
        assert str(wrong.value) == said

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        tell(front, answer)


async def test_when_it_closes_everybody_is_told(autojump_clock: trio.abc.Clock) -> None:
    front, told = Front(), []
    front.submits["a"] = Asked()
    front.leave_open("b", Asked())

    async def wait(asking: Any) -> None:
        with pytest.raises(RuntimeStopped, match="the runtime has stopped"):
            await asking()
        told.append(asking)

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for asking in (front.submits["a"].wait, front.left_open["b"].wait, lambda: front.ended("c", lambda: None)):
                nursery.start_soon(wait, asking)
            await trio.sleep(1)
            front.close(RuntimeStopped("the runtime has stopped"))
    assert len(told) == 3
