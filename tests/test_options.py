"""Options: what they are unless said otherwise, what they refuse, and what the actors get to know of them."""

from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from actors import (
    AlertOptions,
    Fifo,
    InvalidConfig,
    KindOptions,
    KindSettings,
    Limit,
    Options,
    RetryPolicy,
    Settings,
    Strict,
    TaskFailed,
    UserOptions,
    WorkerOptions,
    open_runtime,
)
from actors.handlers import Handlers
from actors.messages import WorkerClass
from actors.version import installed_version
from tests.optional import kind_options, options_of_any_sort, retries


def settings_of(options: Options) -> Settings:
    return options.settings(Handlers({}))


# Defaults


def test_the_defaults_are_those_of_the_contract() -> None:
    options = Options()
    assert (options.store, options.workers, options.worker) == ("memory", 16, ())
    assert (options.critical_burst, options.poison_after, options.stealing) == (16, 3, "longest")
    assert (options.admitted_max, options.admitted_per_user_max, options.admission_share) == (None, None, 8.0)
    assert options.when_full == "reject"
    keeps = (options.keep_completed_seconds, options.keep_failed_seconds, options.keep_cancelled_seconds)
    assert keeps == (3600.0, 7200.0, 1800.0)
    assert options.payload_bytes_max == 256 * 1024
    assert settings_of(options).kind("any") == KindSettings()
    assert (KindSettings().timeout_seconds, KindSettings().lease_seconds) == (300.0, 60.0)


def test_options_that_say_nothing_are_the_settings_that_say_nothing() -> None:
    handlers = Handlers({})
    said = Options().settings(handlers)
    assert said == attrs.evolve(Settings(), kinds={}, handled=handlers, follows_counts=said.follows_counts)


# What is refused

BAD: list[tuple[type, dict[str, Any], str]] = [
    (Options, {"store": "tape"}, "store must be 'memory' or 'sqlite:FILE', got 'tape'"),
    (Options, {"workers": 0}, "workers must be a whole number >= 1, got 0"),
    (Options, {"workers": True}, "workers must be a whole number >= 1, got True"),
    (Options, {"workers": 2.0}, "workers must be a whole number >= 1, got 2.0"),
    (Options, {"worker": WorkerOptions()}, f"worker must be a list of WorkerOptions, got {WorkerOptions()!r}"),
    (Options, {"worker": [3]}, "worker must be a list of WorkerOptions, got (3,)"),
    (Options, {"sharing": 3}, "sharing policy must have sees_heads, start, got 3"),
    (Options, {"stealing": "some"}, "stealing must be one of none, listed, longest, random_two, got 'some'"),
    (Options, {"critical_burst": 0}, "critical_burst must be a whole number >= 1, got 0"),
    (Options, {"poison_after": 0}, "poison_after must be a whole number >= 1, got 0"),
    (Options, {"rate_limit": 0}, "rate_limit must be a finite number > 0, got 0"),
    (Options, {"rate_limit": float("nan")}, "rate_limit must be a finite number > 0, got nan"),
    (Options, {"concurrency_max": -1}, "concurrency_max must be a whole number >= 0, got -1"),
    (Options, {"kinds": 3}, "kinds must be a table, got 3"),
    (Options, {"kinds": {"a": 3}}, "kinds['a'] must be KindOptions, got 3"),
    (Options, {"kinds": {"": KindOptions()}}, "kinds must have names of printable text, got ''"),
    (Options, {"kinds": {"a\n": KindOptions()}}, "kinds must have names of printable text, got 'a\\n'"),
    (Options, {"users": {7: UserOptions()}}, "users must have names of 1 to 128 printable characters, got 7"),
    (Options, {"users": {"": UserOptions()}}, "users must have names of 1 to 128 printable characters, got ''"),
    (Options, {"users": {"a": KindOptions}}, f"users['a'] must be UserOptions, got {KindOptions!r}"),
    (Options, {"admitted_max": -1}, "admitted_max must be a whole number >= 0, got -1"),
    (Options, {"admission_share": 0}, "admission_share must be a finite number > 0, got 0"),
    (Options, {"when_full": "panic"}, "when_full must be one of reject, wait, drop_oldest, got 'panic'"),
    (Options, {"keep_failed_seconds": -1}, "keep_failed_seconds must be a finite number >= 0, got -1"),
    (Options, {"payload_bytes_max": -1}, "payload_bytes_max must be a whole number >= 0, got -1"),
    (Options, {"stop_grace_seconds": None}, "stop_grace_seconds must be a finite number >= 0, got None"),
    (Options, {"drain": "no"}, "drain must be true or false, got 'no'"),
    (Options, {"alerts": {"stuck": 1}}, "alerts must be AlertOptions, got {'stuck': 1}"),
    (Options, {"record": 3}, "record must be the name of a file, got 3"),
    (Options, {"seed": -1}, "seed must be a whole number >= 0, got -1"),
    (KindOptions, {"timeout_seconds": 0}, "timeout_seconds must be a finite number > 0, got 0"),
    (KindOptions, {"lease_seconds": None}, "lease_seconds must be a finite number > 0, got None"),
    (KindOptions, {"max_retries": None}, "max_retries must be a whole number >= 0, got None"),
    (KindOptions, {"retry": 3}, "retry must be a RetryPolicy, got 3"),
    (UserOptions, {"weight": 0}, "weight must be a finite number > 0, got 0"),
    (WorkerOptions, {"count": 0}, "count must be a whole number >= 1, got 0"),
    (WorkerOptions, {"users": "alice"}, "users must be a list of names, got 'alice'"),
    (WorkerOptions, {"steals": None}, "steals must be a list of names, got None"),
    (WorkerOptions, {"kinds": [3]}, "kinds must be a list of names, got (3,)"),
    (AlertOptions, {"failure_rate": 1.5}, "failure_rate must be between 0 and 1, got 1.5"),
    (AlertOptions, {"stuck": 0.5}, "stuck must be a whole number >= 0, got 0.5"),
]


@pytest.mark.parametrize(("cls", "said", "fault"), BAD, ids=[fault for _, _, fault in BAD])
def test_a_bad_value_is_refused_with_field_constraint_and_value(cls: Any, said: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        cls(**said)
    assert str(refused.value) == fault


def test_options_never_change() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Options().workers = 3  # type: ignore[misc]


def test_a_policy_may_be_given_by_name_too() -> None:
    options = Options(sharing="fifo", ordering={"policy": "strict"})
    assert (options.sharing, options.ordering) == (Fifo(), Strict())


# Of a kind: said, or as the handler says

handlers_say = st.builds(
    KindSettings,
    lease_seconds=st.floats(0.1, 1e4),
    timeout_seconds=st.none() | st.floats(0.1, 1e4),
    retry=retries,
    limit=st.builds(Limit, st.none() | st.floats(0.1, 1e3), st.none() | st.integers(0, 9)),
)


@given(said=st.fixed_dictionaries({}, optional=kind_options), handler=handlers_say)
def test_what_is_said_of_a_kind_wins_and_what_is_not_is_as_the_handler_says(
    said: dict[str, Any], handler: KindSettings
) -> None:
    made = KindOptions(**said).settings(handler)
    assert made.lease_seconds == said.get("lease_seconds", handler.lease_seconds)
    assert made.timeout_seconds == said.get("timeout_seconds", handler.timeout_seconds)
    assert made.limit.rate_limit == said.get("rate_limit", handler.limit.rate_limit)
    assert made.limit.concurrency_max == said.get("concurrency_max", handler.limit.concurrency_max)
    retry: RetryPolicy = said.get("retry", handler.retry)
    assert made.retry == attrs.evolve(retry, max_retries=said.get("max_retries", retry.max_retries))


def test_a_kind_of_which_nothing_is_said_is_as_its_handler_says() -> None:
    handler = KindSettings(lease_seconds=5.0)
    assert Options().kind("crawl", handler) is handler
    assert repr(KindOptions()).count("unsaid") == len(attrs.fields(KindOptions))


async def test_options_win_over_the_handler(autojump_clock: trio.testing.MockClock) -> None:
    async with open_runtime(workers=1, kinds={"hang": {"timeout_seconds": 2, "max_retries": 0}}) as runtime:

        @runtime.handler("hang", timeout_seconds=300, max_retries=5)
        async def hang(payload: Any) -> None:
            await trio.sleep_forever()

        with pytest.raises(TaskFailed, match=r"timed out after 2 s"):
            await (await runtime.submit("hang")).result()


# What the actors get to know


@given(options_of_any_sort)
def test_every_option_that_actors_have_a_setting_for_is_that_setting(options: Options) -> None:
    handlers = Handlers({})
    settings = options.settings(handlers)
    same = {field.name for field in attrs.fields(Options)} & {field.name for field in attrs.fields(Settings)}
    for name in same - {"kinds"}:
        assert getattr(settings, name) == getattr(options, name)
    assert settings.kinds is handlers.settings and settings.handled is handlers
    assert settings.limit == Limit(options.rate_limit, options.concurrency_max)
    for name, user in options.users.items():
        assert settings.weight(name) == user.weight
        assert settings.user_limits.get(name, Limit()) == Limit(user.rate_limit, user.concurrency_max)


@given(options_of_any_sort)
def test_there_are_as_many_workers_of_each_sort_as_was_said(options: Options) -> None:
    classes = options.worker_classes()
    if not options.worker:
        assert classes == [WorkerClass()] * options.workers
    else:
        assert len(classes) == sum(group.count for group in options.worker)
        for group in options.worker:
            kinds = None if group.kinds is None else frozenset(group.kinds)
            alike = [other for other in options.worker if other.worker_class() == group.worker_class()]
            assert group.worker_class() == WorkerClass(kinds, group.users, group.steals)
            assert classes.count(group.worker_class()) == sum(other.count for other in alike)


def test_a_list_of_names_is_as_good_as_a_tuple() -> None:
    group = WorkerOptions(kinds=["a"], users=["b"], steals=["c"])
    assert group == WorkerOptions(kinds=("a",), users=("b",), steals=("c",))
    assert hash(group.worker_class()) == hash(WorkerClass(frozenset({"a"}), ("b",), ("c",)))


# The version


def test_the_version_is_that_of_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import PackageNotFoundError, version

    assert installed_version() == version("evenhand")

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    installed_version.cache_clear()
    assert installed_version() == "uninstalled"
    installed_version.cache_clear()
