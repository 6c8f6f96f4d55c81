"""Payloads and results as their annotations say: dataclasses, attrs classes, structs, times, and what is none of that."""

import enum
import json
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Literal, NamedTuple, NoReturn, Optional, TypedDict, Union
from uuid import UUID

import attrs
import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import Handler, InvalidConfig, InvalidTask, TaskFailed, open_runtime
from actors.values import as_json
from tests.test_handle import on_virtual_time


@dataclass
class Point:
    x: int
    label: str = "p"


@attrs.frozen
class Page:
    url: str
    at: datetime
    points: tuple[Point, ...] = ()


class Job(msgspec.Struct):
    name: str
    tags: set[str]
    nested: dict[str, Point]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Pair(NamedTuple):
    left: int
    right: datetime


class Row(TypedDict):
    when: date
    count: int


Text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
Times = st.datetimes(min_value=datetime(1900, 1, 1), timezones=st.just(UTC))
Whole = st.integers(-(2**53), 2**53)
Points = st.builds(Point, Whole, Text)

TYPED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (Point, Points),
    (Page, st.builds(Page, Text, Times, st.tuples(Points))),
    (Job, st.builds(Job, Text, st.sets(Text, max_size=3), st.dictionaries(Text, Points, max_size=2))),
    (datetime, Times),
    (date, st.dates()),
    (timedelta, st.timedeltas(timedelta(-9), timedelta(9))),
    (UUID, st.uuids()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (bytes, st.binary(max_size=9)),
    (Colour, st.sampled_from(Colour)),
    (Pair, st.builds(Pair, Whole, Times)),
    (Row, st.fixed_dictionaries({"when": st.dates(), "count": Whole})),
    (tuple[int, str], st.tuples(Whole, Text)),
    (set[int], st.sets(Whole, max_size=3)),
    (dict[int, str], st.dictionaries(Whole, Text, max_size=3)),
    (dict[str, tuple[int, ...]], st.dictionaries(Text, st.tuples(Whole), max_size=3)),
    (dict[date, Point], st.dictionaries(st.dates(), Points, max_size=3)),
    (list[Point], st.lists(Points, max_size=3)),
    (Sequence[int], st.lists(Whole, max_size=3)),
    (Mapping[str, Colour], st.dictionaries(Text, st.sampled_from(Colour), max_size=2)),
    (Point | None, st.none() | Points),
    (Optional[Page], st.none() | st.builds(Page, Text, Times)),  # noqa: UP045
    (Union[int, list[date]], Whole | st.lists(st.dates(), max_size=3)),  # noqa: UP007
    (Literal["a", "b"], st.sampled_from(["a", "b"])),
    (int | str | None, st.none() | Whole | Text),
    (dict[str, Any], st.dictionaries(Text, Whole, max_size=3)),
    (typing.Dict, st.dictionaries(Text, Whole, max_size=3)),  # noqa: UP006
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (Iterable[int], st.lists(Whole, max_size=3)),
]


@pytest.mark.parametrize(("annotation", "values"), TYPED, ids=[str(annotation) for annotation, _ in TYPED])
def test_what_is_submitted_is_what_the_handler_gets_and_what_it_returns_is_what_comes_out(
    annotation: Any, values: st.SearchStrategy[Any]
) -> None:
    @given(st.lists(values, min_size=1, max_size=5))
    @settings(max_examples=15)
    def check(payloads: list[Any]) -> None:
        got: list[Any] = []

        async def program() -> list[Any]:
            async with open_runtime(workers=1) as runtime:

                async def function(payload: Any) -> Any:
                    got.append(payload)
                    return payload

                function.__annotations__ = {"payload": annotation, "return": annotation}
                handler: Handler[Any, Any] = runtime.handler("x", max_retries=0)(function)
                return [await (await runtime.submit(handler, payload)).result() for payload in payloads]

        results = on_virtual_time(program)
        assert got == payloads and results == payloads
        assert [type(value) for value in got] == [type(value) for value in payloads]
        assert [type(value) for value in results] == [type(value) for value in payloads]

    check()


async def test_by_name_a_payload_is_given_as_json_says_it(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("x")
        async def where(point: Point) -> int:
            return point.x

        handle = await runtime.submit("x", {"x": 3})
        assert await handle.result() == 3 and handle.task().payload == {"x": 3}
        with pytest.raises(InvalidTask, match="payload must be a JSON value, got Point"):
            await runtime.submit("x", Point(3))
        assert (await runtime.submit(where, Point(4))).task().payload == {"x": 4, "label": "p"}


async def test_a_payload_that_is_not_what_the_handler_wants_fails_once_and_for_good(
    autojump_clock: trio.abc.Clock,
) -> None:
    called = False
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("x")
        async def where(point: Point) -> None:
            nonlocal called
            called = True

        with pytest.raises(TaskFailed) as failed:
            await (await runtime.submit("x", {"x": "three"}, user="alice")).result()
        said = "InvalidTask: payload of 'x' must be Point: Expected `int`, got `str` - at `$.x`"
        assert failed.value.error == said and len(failed.value.history) == 1 and not called


async def test_a_payload_that_json_has_no_words_for_is_refused_at_the_submit(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("x")
        async def where(point: Point) -> None: ...

        said = "payload must be a JSON value, got object: Encoding objects of type object is unsupported"
        with pytest.raises(InvalidTask, match=said):
            await runtime.submit(where, object())  # type: ignore[misc]
        with pytest.raises(InvalidTask, match="payload must be a JSON value, got Point: JSON has no nan"):
            await runtime.submit(where, Point(float("nan")))  # type: ignore[arg-type]
        assert runtime.tasks() == []


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (object(), "got object: Encoding objects of type object is unsupported"),
        (float("nan"), "got float: it would read back as another value"),
        ([1, {"a": (float("-inf"),)}], "got list: it would read back as another value"),
        (Point(1), "got Point: it would read back as another value"),
        ((1, 2), "got tuple: it would read back as another value"),
        ({1: 2}, "got dict: it would read back as another value"),
        ("\ud800", "got str: "),
        ({"\ud800": 1}, "got dict: "),
    ],
)
async def test_a_result_that_is_no_json_fails_its_task_once_and_for_good(
    result: Any, said: str, autojump_clock: trio.abc.Clock
) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("x")
        async def returns(payload: None) -> Any:
            return result

        with pytest.raises(TaskFailed) as failed:
            await (await runtime.submit("x")).result()
        assert failed.value.error is not None and len(failed.value.history) == 1
        assert failed.value.error.startswith(f"InvalidTask: result of 'x' must be a JSON value, {said}")
        assert runtime.dead_letters() == [failed.value.task]


@pytest.mark.parametrize("result", [None, True, "text", [None, 1.5], {"a": None, "b": [float(2**60)]}])
async def test_a_result_that_is_json_comes_back_as_it_is(result: Any, autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("x")
        async def returns(payload: None) -> Any:
            return result

        assert await (await runtime.submit("x")).result() == result


async def test_a_result_that_is_not_what_its_annotation_says_is_said_to_whoever_waits(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("x")
        async def lies(payload: None) -> Point:
            return 7  # type: ignore[return-value]

        handle = await runtime.submit(lies, None)
        with pytest.raises(InvalidTask) as refused:
            await handle.result()
        assert str(refused.value) == "result of 'x' must be Point: Expected `object`, got `int`"


async def test_changing_a_result_afterwards_changes_nothing(autojump_clock: trio.abc.Clock) -> None:
    returned: list[int] = [1]
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("x")
        async def returns(payload: None) -> list[int]:
            return returned

        handle = await runtime.submit(returns, None)
        await handle.result()
        returned.append(2)
        assert await handle.result() == [1]


class Custom:
    """Nothing that JSON could be made into."""


class Url(str):
    """Nor this, although it is text."""


@pytest.mark.parametrize(("what", "annotation"), [("payload", Custom), ("return", Custom), ("payload", Url)])
async def test_annotations_that_json_can_never_keep_are_refused(what: str, annotation: Any) -> None:
    def function(payload: Any) -> Any:
        return payload

    function.__annotations__ = {what: annotation}
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(InvalidConfig) as refused:
            runtime.handler("x")(function)
        name = "result" if what == "return" else what
        assert str(refused.value) == f"{name} of 'x' must be what JSON can be made into, got {annotation.__name__}"


def test_annotations_that_mean_nothing_here_are_left_alone() -> None:
    async def never(payload: "NotDefinedAnywhere") -> NoReturn:  # type: ignore[name-defined]  # noqa: F821
        raise ValueError

    handler: Handler[Any, Any] = Handler.of("x", never)
    assert (handler.payload_type, handler.result_type) == (None, None)


def test_an_annotation_that_means_nothing_here_does_not_hide_the_others() -> None:
    async def crawl(page: "Page", context: "OnlyForTheTypeChecker") -> "Point":  # type: ignore[name-defined]  # noqa: F821
        return Point(1)

    handler: Handler[Any, Any] = Handler.of("x", crawl)
    assert (handler.payload_type, handler.result_type, handler.takes_context) == (Page, Point, True)


def test_a_function_with_some_arguments_given_goes_by_the_annotations_of_the_rest() -> None:
    def label(factor: int, point: Point) -> Page:
        raise AssertionError("not called")

    handler: Handler[Any, Any] = Handler.of("x", partial(label, 2))
    assert (handler.payload_type, handler.result_type) == (Point, Page)


@given(st.recursive(st.none() | st.booleans() | Whole | Text, lambda x: st.lists(x) | st.dictionaries(Text, x)))
def test_a_json_value_is_given_back_as_json_would(value: Any) -> None:
    assert as_json("result", value) == value == json.loads(json.dumps(value))


async def test_a_thread_gets_a_typed_payload_too() -> None:
    def where(point: Point) -> Point:
        return Point(2 * point.x)

    with trio.fail_after(30):
        async with open_runtime(workers=1) as runtime:
            handler = runtime.handler("x")(where)
            assert await (await runtime.submit(handler, Point(2))).result() == Point(4)
