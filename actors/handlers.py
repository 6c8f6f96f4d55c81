"""Handlers: what is run for each kind of task, and how.

An `async def` runs in trio, a plain function in a thread, and with `process=True` either runs in a process of its own. A
handler takes the payload, and a `Context` beside it if it has a second parameter.

Payloads and results are JSON, and such as JSON gives back as they are, in at most `payload_bytes_max` bytes. Where a handler is annotated with something more than that (a dataclass, an attrs class, a
msgspec Struct, a datetime), its payload is made into that before it is called, and its result on the way out of
`TaskHandle.result()`; so what mypy says of them is what they are.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from types import SimpleNamespace, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    Protocol,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import attrs
import msgspec

from actors.config import KindSettings
from actors.errors import InvalidConfig, InvalidTask
from actors.values import same_json

if TYPE_CHECKING:
    from actors.context import Context

__all__ = ["Handler", "Handlers", "Registers"]

P = TypeVar("P")
R = TypeVar("R")

Mode = Literal["async", "thread", "process"]

_JSON_TYPES = (None, type(None), bool, int, float, str, list, dict, object, Any)
"""What JSON gives back as it is."""

_KEY_TYPES = (str, object, Any)
"""What the keys of a `dict` may be said to be, if JSON is to give it back as it is."""


@attrs.frozen(eq=False)
class Handler(Generic[P, R]):
    """A function that runs tasks of one kind; calling it calls the function.

    >>> def double(number: int) -> int:
    ...     return 2 * number
    >>> handler = Handler.of("double", double)
    >>> handler.kind, handler.mode, handler(4)
    ('double', 'thread', 8)
    """

    kind: str
    function: Callable[..., Any]
    mode: Mode
    takes_context: bool
    payload_type: Any = None
    """What the payload is made into; None: nothing more than JSON."""
    result_type: Any = None
    """What the result is made into; None: nothing more than JSON."""
    any_result: bool = False
    """Whether the result may be something that JSON has no words for: then no store could keep it."""

    @classmethod
    def of(cls, kind: str, function: Callable[..., R | Awaitable[R]], process: bool = False) -> "Handler[P, R]":
        """A function, or that of another kind's handler, as the handler of a kind; InvalidConfig if it cannot be one."""
        if isinstance(function, Handler):
            function = function.function
        takes = _parameters(kind, function)
        if process:
            _check_importable(kind, function)
        mode: Mode = "process" if process else "async" if _is_async(function) else "thread"
        payload_type, result_type = _types(function)
        for what, annotation in (("payload", payload_type), ("result", result_type)):
            if not _can_be_json(annotation):
                raise InvalidConfig(f"{what} of {kind!r} must be what JSON can be made into, got {_shown(annotation)}")
        return cls(kind, function, mode, takes > 1, payload_type, result_type)

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def typed_payload(self, payload: Any) -> Any:
        """The payload as the function wants it; InvalidTask if it cannot be that."""
        if self.payload_type is None:
            return payload
        return self._converted("payload", payload, self.payload_type)

    def json_result(self, result: Any, bytes_max: int) -> Any:
        """The result as it is kept; InvalidTask if it is not what a result may be."""
        if result is None or self.any_result:
            return result
        return same_json(f"result of {self.kind!r}", result, bytes_max, converted=self.result_type is not None)

    def typed_result(self, result: Any) -> R:
        """The result as the function gave it; InvalidTask if that was not what its annotation says."""
        if self.result_type is None:
            return cast(R, result)
        return cast(R, self._converted("result", result, self.result_type))

    def _converted(self, what: str, value: Any, into: Any) -> Any:
        try:
            return msgspec.convert(value, into, str_keys=True)
        except msgspec.ValidationError as error:
            raise InvalidTask(f"{what} of {self.kind!r} must be {_shown(into)}: {error}") from None


class Handlers(Mapping[str, Handler[Any, Any]]):
    """The handlers there are, by kind, and the settings of each kind.

    >>> handlers = Handlers({})
    >>> handlers.add(Handler.of("mail", lambda payload: None), KindSettings())
    >>> "mail" in handlers, handlers.settings["mail"].lease_seconds
    (True, 60.0)
    """

    def __init__(self, settings: Mapping[str, KindSettings]) -> None:
        self._handlers: dict[str, Handler[Any, Any]] = {}
        self.settings: dict[str, KindSettings] = dict(settings)
        """What the cores know of each kind; grows with the handlers."""

    def __getitem__(self, kind: str) -> Handler[Any, Any]:
        return self._handlers[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._handlers)

    def __len__(self) -> int:
        return len(self._handlers)

    def kind_of(self, handler: Handler[Any, Any]) -> str:
        """The kind of a handler that is one of these; InvalidTask if it is another's."""
        here = self._handlers.get(handler.kind)
        if here is None or (here is not handler and here.function is not handler.function):
            raise InvalidTask(f"handler of {handler.kind!r} must be one of this runtime's, got that of another")
        return handler.kind

    def add(self, handler: Handler[Any, Any], settings: KindSettings) -> None:
        """From now on tasks of this kind can be run."""
        if handler.kind in self._handlers:
            raise InvalidConfig(f"handler of {handler.kind!r} must be registered once, got it again")
        self._handlers[handler.kind] = handler
        self.settings[handler.kind] = settings


class Registers(Protocol):
    """What `runtime.handler(...)` gives: a decorator that makes a function a handler."""

    @overload
    def __call__(self, function: Callable[[P], Awaitable[R]], /) -> Handler[P, R]: ...
    @overload
    def __call__(self, function: "Callable[[P, Context], Awaitable[R]]", /) -> Handler[P, R]: ...
    @overload
    def __call__(self, function: Callable[[P], R], /) -> Handler[P, R]: ...
    @overload
    def __call__(self, function: "Callable[[P, Context], R]", /) -> Handler[P, R]: ...


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _parameters(kind: str, function: Any) -> int:
    """How many of payload and context the function takes."""
    if not callable(function):
        raise InvalidConfig(f"handler of {kind!r} must be a function, got {function!r}")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidConfig(f"handler of {kind!r} must be a function that returns, got a generator")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        # Some functions written in C do not say.
        return 1
    positional = [found for found in parameters if found.kind in (found.POSITIONAL_ONLY, found.POSITIONAL_OR_KEYWORD)]
    more = [found for found in parameters if found.kind is found.VAR_POSITIONAL]
    others = [found for found in parameters if found not in (*positional[:2], *more)]
    needed = [found for found in others if found.default is found.empty and found.kind is not found.VAR_KEYWORD]
    if needed or not (positional or more):
        raise InvalidConfig(f"handler of {kind!r} must take a payload, and a context if it likes, got {function!r}")
    second = positional[1] if len(positional) > 1 else None
    return 2 if second is not None and (second.default is second.empty or second.name == "context") else 1


def _check_importable(kind: str, function: Any) -> None:
    name = getattr(function, "__qualname__", "<none>")
    if "<" in name or inspect.ismethod(function) or not getattr(function, "__module__", None):
        raise InvalidConfig(
            f"handler of {kind!r} must be at the top of a module to run in a process, got {name!r}: "
            "the process imports it by name"
        )


# What payloads and results are


def _types(function: Any) -> tuple[Any, Any]:
    """What the annotations say of payload and result, where that is more than JSON."""
    try:
        first = next(iter(inspect.signature(function).parameters), "")
    except (TypeError, ValueError):
        return None, None
    while isinstance(function, partial):
        function = function.func
    annotated = function if inspect.isroutine(function) else type(function).__call__
    return _beyond_json(_annotation(annotated, first)), _beyond_json(_annotation(annotated, "return"))


def _annotation(function: Any, name: str) -> Any:
    """What one annotation means, whatever the others are about."""
    written = getattr(function, "__annotations__", {})
    if name not in written:
        return None
    try:
        alone = SimpleNamespace(__annotations__={name: written[name]})
        return get_type_hints(alone, globalns=getattr(inspect.unwrap(function), "__globals__", {}))[name]
    except Exception:
        # It may name what exists only for the type checker.
        return None


def _beyond_json(annotation: Any) -> Any:
    """The annotation, if JSON alone does not give back such a value."""
    if isinstance(annotation, TypeVar) or annotation in _JSON_TYPES:
        return None
    origin, arguments = get_origin(annotation), get_args(annotation)
    plain = origin in (list, Union, UnionType) or (origin is dict and (not arguments or arguments[0] in _KEY_TYPES))
    if plain and all(_beyond_json(argument) is None for argument in arguments):
        return None
    try:
        msgspec.json.Decoder(annotation)
    except TypeError:
        # Not something that JSON could be made into: it is the handler's own business.
        return None
    return annotation


def _can_be_json(annotation: Any) -> bool:
    """Whether anything that JSON gives is, or can be made into, such a value."""
    info = None if annotation is None else msgspec.inspect.type_info(annotation)
    if not isinstance(info, msgspec.inspect.CustomType):
        return True
    try:
        return any(
            issubclass(found, info.cls) for found in _JSON_TYPES if isinstance(found, type) and found is not object
        )
    except TypeError:
        # Some protocols cannot be asked.
        return True


def _shown(annotation: Any) -> str:
    return getattr(annotation, "__name__", None) or str(annotation)
