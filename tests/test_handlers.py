"""Handlers: which functions can be one, and where they run."""

import threading
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import pytest
import trio

from actors import Context, Handler, InvalidConfig, Limit, RetryPolicy, open_runtime


async def echo(payload: Any) -> Any:
    return payload


# Which functions can be one


class Asks:
    async def __call__(self, payload: int) -> int:
        return 2 * payload


class Doubles:
    def method(self, payload: int) -> int:
        return 2 * payload

    async def ask(self, payload: int, context: Context) -> int:
        return 2 * payload


def double(payload: int) -> int:
    return 2 * payload


async def double_async(payload: int) -> int:
    return 2 * payload


async def multiply(factor: int, payload: int) -> int:
    return factor * payload


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def wrapper(*arguments: Any) -> Any:
        return await function(*arguments)

    return wrapper


def keeps_rest(payload: int, *rest: Any, **options: Any) -> int:
    assert rest == () and options == {}
    return 2 * payload


def keeps_all(*everything: int) -> int:
    (payload,) = everything
    return 2 * payload


def has_options(payload: int, factor: int = 2, *, plus: int = 0) -> int:
    return factor * payload + plus


def may_have_context(payload: int, context: Context | None = None) -> int:
    assert isinstance(context, Context)
    return 2 * payload


OTHER: Handler[Any, Any] = Handler.of("other", double_async)


@pytest.mark.parametrize(
    ("function", "mode", "takes_context"),
    [
        (double, "thread", False),
        (double_async, "async", False),
        (lambda payload: 2 * payload, "thread", False),
        (Asks(), "async", False),
        (Doubles().method, "thread", False),
        (Doubles().ask, "async", True),
        (partial(multiply, 2), "async", False),
        (decorated(double_async), "async", False),
        (OTHER, "async", False),
        (keeps_rest, "thread", False),
        (keeps_all, "thread", False),
        (has_options, "thread", False),
        (may_have_context, "thread", True),
    ],
)
async def test_whatever_can_be_called_with_a_payload_can_be_a_handler(
    function: Any, mode: str, takes_context: bool
) -> None:
    with trio.fail_after(30):
        async with open_runtime(workers=1) as runtime:
            handler = runtime.handler("x", max_retries=0)(function)
            assert (handler.kind, handler.mode, handler.takes_context) == ("x", mode, takes_context)
            assert await (await runtime.submit("x", 21)).result() == 42


def takes_nothing() -> None:
    pass


def takes_three(payload: Any, context: Context, more: Any) -> None:
    pass


def takes_three_and_more(payload: Any, context: Context, more: Any, *rest: Any) -> None:
    pass


def needs_a_keyword(payload: Any, *, key: str) -> None:
    pass


def needs_a_keyword_after_all(*payload: Any, key: str) -> None:
    pass


def takes_keywords_only(**options: Any) -> None:
    pass


def generates(payload: Any) -> Any:
    yield payload


async def generates_async(payload: Any) -> Any:
    yield payload


@pytest.mark.parametrize(
    "function",
    [takes_nothing, takes_three, takes_three_and_more, needs_a_keyword, needs_a_keyword_after_all, takes_keywords_only],
)
async def test_what_cannot_be_called_with_a_payload_cannot_be_a_handler(function: Any) -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(InvalidConfig) as refused:
            runtime.handler("x")(function)
        assert str(refused.value) == f"handler of 'x' must take a payload, and a context if it likes, got {function!r}"
        assert "x" not in runtime.handlers


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (5, "handler of 'x' must be a function, got 5"),
        (generates, "handler of 'x' must be a function that returns, got a generator"),
        (generates_async, "handler of 'x' must be a function that returns, got a generator"),
    ],
)
async def test_what_is_no_function_that_returns_cannot_be_a_handler(function: Any, said: str) -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(InvalidConfig) as refused:
            runtime.handler("x")(function)
        assert str(refused.value) == said


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda payload: None, "test_handlers.<lambda>"),
        (Doubles().method, "Doubles.method"),
        (partial(multiply, 2), "<none>"),
        (Asks(), "<none>"),
    ],
)
async def test_a_process_can_only_run_what_it_can_import(function: Any, name: str) -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(InvalidConfig) as refused:
            runtime.handler("x", process=True)(function)
        assert str(refused.value).startswith("handler of 'x' must be at the top of a module to run in a process, got ")
        assert str(refused.value).endswith(f"{name.split('.')[-1]}': the process imports it by name")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kind": ""}, "kind must be 1 to 128 printable characters, got ''"),
        ({"kind": "run_soon"}, "kind must be another than 'run_soon', which is what `run_soon` has"),
        ({"concurrency_max": -1}, "concurrency_max must be a whole number >= 0, got -1"),
        ({"rate_limit": 0}, "rate_limit must be a finite number > 0, got 0"),
        ({"timeout_seconds": 0}, "timeout_seconds must be a finite number > 0, got 0"),
        ({"lease_seconds": float("inf")}, "lease_seconds must be a finite number > 0, got inf"),
        ({"max_retries": -1}, "max_retries must be a whole number >= 0, got -1"),
        ({"retry": 3}, "retry must be a RetryPolicy, got 3"),
        ({"retry": 3, "max_retries": 1}, "retry must be a RetryPolicy, got 3"),
    ],
)
async def test_settings_of_a_handler_that_make_no_sense_are_refused(settings: dict[str, Any], said: str) -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(InvalidConfig) as refused:
            runtime.handler(**{"kind": "x"} | settings)
        assert str(refused.value) == said


async def test_a_decorator_that_was_not_called_is_noticed() -> None:
    async with open_runtime(workers=1) as runtime:
        with pytest.raises(InvalidConfig, match="kind must be 1 to 128 printable characters, got <function echo at"):
            runtime.handler(echo)  # type: ignore[arg-type]


async def test_of_a_handler_of_which_nothing_is_said_everything_is_as_the_contract_says() -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("crawl")(echo)
        made = runtime.handlers.settings["crawl"]
        assert (made.timeout_seconds, made.lease_seconds, made.limit) == (300.0, 60.0, Limit(None, None))
        assert made.retry == RetryPolicy(max_retries=3)


async def test_a_kind_has_one_handler() -> None:
    async with open_runtime(workers=1) as runtime:
        runtime.handler("x")(echo)
        with pytest.raises(InvalidConfig, match="handler of 'x' must be registered once, got it again"):
            runtime.handler("x")(double_async)
        assert runtime.handlers["x"].function is echo


async def test_a_function_can_handle_several_kinds(autojump_clock: trio.abc.Clock) -> None:
    async with open_runtime(workers=1) as runtime:

        @runtime.handler("x")
        @runtime.handler("y")
        async def both(payload: int, context: Context) -> str:
            return f"{context.kind} {payload}"

        assert await (await runtime.submit(both, 1)).result() == "x 1"
        assert await (await runtime.submit("y", 2)).result() == "y 2"


def test_a_handler_can_be_called_as_the_function_it_is() -> None:
    assert Handler.of("x", double)(4) == 8


# Where it runs


async def test_a_plain_function_runs_in_a_thread_and_an_async_one_in_trio() -> None:
    def where(payload: None) -> str:
        return threading.current_thread().name

    async def here(payload: None) -> str:
        await trio.lowlevel.checkpoint()
        return threading.current_thread().name

    with trio.fail_after(30):
        async with open_runtime(workers=1) as runtime:
            runtime.handler("thread")(where)
            runtime.handler("async")(here)
            assert await (await runtime.submit("thread")).result() == "evenhand thread"
            assert await (await runtime.submit("async")).result() == threading.current_thread().name
