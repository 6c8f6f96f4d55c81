"""Payloads and results are values: nobody changes another's, and what is kept is what JSON gives back."""

import enum
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from actors import Context, RetryPolicy, TaskFailed, open_runtime
from actors.values import own_copy, same_json

Clock = trio.abc.Clock
AT_ONCE = RetryPolicy(base_seconds=0.0, jitter=0.0)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=8,
)


class Colour(enum.StrEnum):
    RED = "red"


def parts(value: Any) -> list[Any]:
    """A value and all that is in it and can be changed."""
    if isinstance(value, list):
        return [value, *(part for item in value for part in parts(item))]
    if isinstance(value, dict):
        return [value, *(part for item in value.values() for part in parts(item))]
    return []


@given(JSON)
def test_a_copy_is_equal_and_shares_nothing_that_can_be_changed(value: Any) -> None:
    for copy in (own_copy(value), same_json("payload", value, 10_000)):
        assert copy == value
        assert not {id(part) for part in parts(copy)} & {id(part) for part in parts(value)}


@pytest.mark.parametrize("value", [None, "text", 7, 1.5, True])
def test_what_cannot_be_changed_is_kept_as_it_is(value: Any) -> None:
    assert same_json("payload", value, 100) is value
    assert own_copy(value) is value


async def test_a_retry_finds_the_payload_as_it_was_submitted(autojump_clock: Clock) -> None:
    found: list[Any] = []
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("work", retry=AT_ONCE)
        async def work(payload: dict[str, Any], context: Context) -> None:
            found.append(msgspec.json.encode(payload))
            payload["list"].append(4)
            payload["more"] = True
            if context.attempt == 1:
                raise ValueError("boom")

        mine = {"list": [1, 2, 3]}
        handle = await runtime.submit(work, mine)
        await handle.result()
        assert found == [b'{"list":[1,2,3]}'] * 2
        assert mine == handle.task().payload == {"list": [1, 2, 3]}


async def test_what_a_submitter_does_to_its_payload_later_changes_no_task(autojump_clock: Clock) -> None:
    async with open_runtime(workers=1, admitted_max=2, admission_share=None, when_full="wait") as runtime:
        payload = {"at": [1]}
        handles = [runtime.submit_nowait("echo", payload) for _ in range(3)]
        payload["at"].append(2)

        @runtime.handler("echo")
        async def echo(payload: Any) -> Any:
            return payload

        assert [await handle.result() for handle in handles] == [{"at": [1]}] * 3


async def test_a_handler_is_given_what_json_gives_back_and_no_enum(autojump_clock: Clock) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("type")
        async def name_of_type(payload: Any) -> str:
            return type(payload).__name__

        assert await (await runtime.submit("type", Colour.RED)).result() == "str"


async def test_a_result_is_bounded_as_a_payload_is(autojump_clock: Clock) -> None:
    async with open_runtime(workers=1, payload_bytes_max=10) as runtime:

        @runtime.handler("long")
        async def long(length: int) -> str:
            return "x" * length

        assert await (await runtime.submit(long, 8)).result() == "x" * 8
        with pytest.raises(TaskFailed, match="result of 'long' must be at most 10 bytes as JSON, got 11"):
            await (await runtime.submit(long, 9)).result()
