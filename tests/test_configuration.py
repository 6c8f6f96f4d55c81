"""Files, variables and keywords: what they say together, and what is said of them when they are wrong."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from actors import ORDERING, SHARING, Accumulating, Aging, Deficit, InvalidConfig, Options, open_runtime
from actors.configuration import _Said, load_options
from tests.optional import options_of_any_sort
from tests.test_sharing import finds

FILE = "evenhand.toml"


def load(
    text: str | None = None, environment: Mapping[str, str] | None = None, name: str = FILE, **said: Any
) -> Options:
    """The options that a file of this name, with this text, variables and keywords say."""
    if text is None:
        return load_options(None, environment or {}, said)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path(name).write_text(text, encoding="utf-8")
        return load_options(name, environment or {}, said)


def refusal(
    text: str | None = None, environment: Mapping[str, str] | None = None, name: str = FILE, **said: Any
) -> list[str]:
    """What is said against this, a line for each fault."""
    with pytest.raises(InvalidConfig) as refused:
        load(text, environment, name, **said)
    return str(refused.value).split("\n")


# Options as plain data, as TOML and as variables; by rules of their own


def plain(value: Any) -> Any:
    """As a file has it."""
    if attrs.has(type(value)):
        for registry in (SHARING, ORDERING):
            if type(value) in registry.classes.values():
                return {"policy": registry.name_of(value), **fields_of(value)}
        return fields_of(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return "none" if value is None else value


def fields_of(value: Any) -> dict[str, Any]:
    said = {field.name: getattr(value, field.name) for field in attrs.fields(type(value))}
    return {name: plain(item) for name, item in said.items() if repr(item) != "unsaid"}


def toml(value: Any) -> str:
    """A value as TOML has it in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (str, bool)) else repr(value)


def toml_file(data: dict[str, Any]) -> str:
    return "".join(f"{key} = {toml(value)}\n" for key, value in data.items())


def variables(data: dict[str, Any], way: str = "EVENHAND") -> Iterator[tuple[str, str]]:
    """A variable for each value, however deep it lies; names of fields in capitals."""
    for key, value in data.items():
        chosen = way in ("EVENHAND_KINDS", "EVENHAND_USERS")
        name = f"{way}_{key.upper()}" if way == "EVENHAND" else f"{way}__{key if chosen else key.upper()}"
        if isinstance(value, dict) and value:
            yield from variables(value, name)
        else:
            yield name, toml(value)


@pytest.mark.parametrize("way", ["toml", "yaml", "variables", "keywords"])
@given(options=options_of_any_sort)
def test_options_read_back_as_what_they_were(way: str, options: Options) -> None:
    """Any that a file can express, from a file, from variables, and from keywords."""
    data = plain(options)
    if way == "toml":
        read = load(toml_file(data))
    elif way == "yaml":
        read = load(yaml.safe_dump(data, allow_unicode=True), name="evenhand.yaml")
    elif way == "variables":
        read = load(environment=dict(variables(data)))
    else:
        read = load(**data)
    assert read == options


@given(options=options_of_any_sort)
def test_options_that_are_ready_are_taken_as_they_are(options: Options) -> None:
    assert load(**{field.name: getattr(options, field.name) for field in attrs.fields(Options)}) == options


@pytest.mark.parametrize("name", ["empty.toml", "empty.yaml", "empty.yml", "EMPTY.TOML"])
def test_without_anything_said_the_options_are_the_defaults(name: str) -> None:
    assert load() == Options() == load("", name=name)


# Who wins

some = {
    "workers": st.integers(1, 9),
    "rate_limit": st.just("none") | st.integers(1, 9),
    "when_full": st.sampled_from(["reject", "wait"]),
    "alerts.stuck": st.integers(0, 9),
    "alerts.refused": st.integers(0, 9),
    "kinds.crawl.max_retries": st.integers(0, 9),
    "kinds.crawl.retry.factor": st.integers(1, 9),
    "kinds.Crawl.max_retries": st.integers(0, 9),
    "users.alice.weight": st.integers(1, 9),
    "users.bob.weight": st.integers(1, 9),
}
layers = st.fixed_dictionaries({}, optional=some)
LAYERS: dict[str, Any] = {"file": layers, "environment": layers, "keywords": layers}


def tree(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Tables from paths."""
    made: dict[str, Any] = {}
    for way, value in flat.items():
        *above, last = way.split(".")
        table = made
        for step in above:
            table = table.setdefault(step, {})
        table[last] = value
    return made


@given(**LAYERS)
@example(file={"users.alice.weight": 2}, environment={"users.bob.weight": 3}, keywords={"workers": 4})
def test_keywords_win_over_variables_and_those_over_the_file_value_by_value(
    file: dict[str, Any], environment: dict[str, Any], keywords: dict[str, Any]
) -> None:
    together = load(toml_file(tree(file)), dict(variables(tree(environment))), **tree(keywords))
    assert together == load(**tree({**file, **environment, **keywords}))


def test_a_way_of_merging_that_forgets_whole_tables_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Said, "add", lambda self, data, source: self.data.update(data))
    finds(test_keywords_win_over_variables_and_those_over_the_file_value_by_value, **LAYERS)


def test_the_data_that_is_given_is_not_changed() -> None:
    said = {"crawl": {"rate_limit": 1}}
    load("[kinds.crawl]\nmax_retries = 2\n", {"EVENHAND_KINDS__crawl__RATE_LIMIT": "3"}, kinds=said)
    assert said == {"crawl": {"rate_limit": 1}}


def test_a_policy_that_is_named_anew_leaves_the_options_of_the_other_behind() -> None:
    file = "ordering = { policy = 'aging', aging_seconds = 30 }"
    assert load(file).ordering == Aging(30)
    assert load(file, {"EVENHAND_ORDERING": "accumulating"}).ordering == Accumulating()
    assert load(file, {"EVENHAND_ORDERING__POLICY": "accumulating"}).ordering == Accumulating()
    assert load(file, ordering={"policy": "accumulating"}).ordering == Accumulating()
    assert load(file, ordering=Accumulating()).ordering == Accumulating()


def test_an_option_of_a_policy_can_be_said_apart_from_its_name() -> None:
    variable = {"EVENHAND_SHARING__QUANTUM_SECONDS": "2.5"}
    assert load("sharing = 'deficit'", variable).sharing == Deficit(2.5)
    assert load("sharing = { policy = 'deficit', quantum_seconds = 9 }", variable).sharing == Deficit(2.5)
    assert load(None, variable | {"EVENHAND_SHARING__POLICY": "deficit"}).sharing == Deficit(2.5)
    assert load(None, variable | {"EVENHAND_SHARING": "deficit"}).sharing == Deficit(2.5)


def test_the_file_may_be_named_by_a_variable(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_text("workers = 3")
    assert load(environment={"EVENHAND_CONFIG": str(path)}).workers == 3
    other = tmp_path / "other.toml"
    other.write_text("workers = 4")
    assert load_options(other, {"EVENHAND_CONFIG": str(path)}).workers == 4
    assert load(environment={"EVENHAND_CONFIG": ""}) == Options(), "an empty variable is as good as none"


async def test_a_runtime_is_opened_by_file_variables_and_keywords(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / FILE
    path.write_text("workers = 3\n[users.alice]\nweight = 2\n")
    monkeypatch.setenv("EVENHAND_WORKERS", "5")
    async with open_runtime(config=path) as runtime:
        assert runtime.stats().workers == 5
    async with open_runtime("memory", config=path, workers=7) as runtime:
        assert runtime.stats().workers == 7
    monkeypatch.setenv("EVENHAND_WORKERS", "none")
    with pytest.raises(InvalidConfig, match=r"^EVENHAND_WORKERS: workers must be a whole number, got 'none'$"):
        async with open_runtime(config=path):
            raise AssertionError("the block is never entered")


# What is refused, and what is said of it

SHARINGS = "capped, deficit, fifo, lottery, noisy_neighbour, round_robin, strict, weighted_fair"
FAULTS: dict[str, tuple[Any, list[str]]] = {
    "workers": (0, ["workers must be a whole number >= 1, got 0"]),
    "rate_limit": ("fast", ["rate_limit must be a number, got 'fast'"]),
    "store": ("tape", ["store must be 'memory' or 'sqlite:FILE', got 'tape'"]),
    "drain": (1, ["drain must be true or false, got 1"]),
    "seed": (2**70, ["seed must be a whole number of at most 64 bits, got one of 71 bits"]),
    "record": (5, ["record must be text, got 5"]),
    "stealing": ("all", ["stealing must be one of none, listed, longest, random_two, got 'all'"]),
    "sharing": ("fare", [f"sharing policy must be one of {SHARINGS} or 'module:Class', got 'fare'"]),
    "ordering": (
        {"policy": "aging", "aging_seconds": -1.0, "aging_secs": 3},
        ["ordering.aging_secs must be an option of aging (aging_seconds) (did you mean 'aging_seconds'?)"],
    ),
    "worker": (
        [{"count": 0}, 3, {"users": "alice", "knids": []}],
        [
            "worker[0].count must be a whole number >= 1, got 0",
            "worker[1] must be a table, got 3",
            "worker[2].knids is not a key of this table (did you mean 'kinds'?)",
            "worker[2].users must be a list, got 'alice'",
        ],
    ),
    "kinds.crawl.rate_limit": (-1.0, ["kinds['crawl'].rate_limit must be a finite number > 0, got -1.0"]),
    "kinds.crawl.timeout": (
        3,
        ["kinds['crawl'].timeout is not a key of this table (did you mean 'timeout_seconds'?)"],
    ),
    "kinds.crawl.lease_seconds": ("none", ["kinds['crawl'].lease_seconds must be a number, got 'none'"]),
    "kinds.crawl.retry.jitter": (2.5, ["kinds['crawl'].retry.jitter must be between 0 and 1, got 2.5"]),
    "users.Alice.weight": (0.0, ["users['Alice'].weight must be a finite number > 0, got 0.0"]),
    "users.bob": (3, ["users['bob'] must be a table, got 3"]),
    "alerts.stuck": (-1, ["alerts.stuck must be a whole number >= 0, got -1"]),
}
GOOD = {"workers": 8, "kinds.crawl.max_retries": 2, "users.Alice.concurrency_max": 3, "alerts.refused": 4}
PLACED: dict[str, Any] = {
    "placed": st.dictionaries(
        st.sampled_from(sorted(FAULTS)), st.sampled_from(["file", "variables", "keywords"]), min_size=1
    ),
    "good": st.sampled_from(["file", "variables", "keywords"]),
}


@given(**PLACED)
@example(placed={"kinds.crawl.rate_limit": "keywords"}, good="file")
@example(placed=dict.fromkeys(FAULTS, "file"), good="variables")
def test_every_fault_is_said_at_once_each_with_where_it_came_from(placed: dict[str, str], good: str) -> None:
    said: dict[str, dict[str, Any]] = {"file": {}, "variables": {}, "keywords": {}}
    said[good] |= {way: value for way, value in GOOD.items() if way not in placed}
    for way, where in placed.items():
        said[where][way] = FAULTS[way][0]
    names = {way: next(iter(dict(variables(tree({way: "x"}))))) for way in placed}
    names["ordering"] = "EVENHAND_ORDERING__AGING_SECS"

    def source(way: str, where: str) -> str:
        return {"file": f"{FILE}: ", "variables": f"{names[way]}: ", "keywords": ""}[where]

    expected = [source(way, where) + line for way, where in placed.items() for line in FAULTS[way][1]]
    found = refusal(toml_file(tree(said["file"])), dict(variables(tree(said["variables"]))), **tree(said["keywords"]))
    assert sorted(found) == sorted(expected)


def test_a_fault_that_is_put_down_to_the_wrong_file_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: _Said, data: Mapping[str, Any], source: str | None) -> None:
        known = dict(self._sources)
        self._merge(self.data, data, source, ())
        if source is None:
            self._sources = known

    monkeypatch.setattr(_Said, "add", forgetful)
    finds(test_every_fault_is_said_at_once_each_with_where_it_came_from, **PLACED)


def test_unknown_variables_are_said_together_with_all_else() -> None:
    environment = {"EVENHAND_WORKRES": "8", "EVENHAND_": "", "EVENHAND_SEED": "x", "OTHER_WORKERS": "0", "evenhand": ""}
    assert refusal("poison_afer = 3", environment, workers=0) == [
        "EVENHAND_ is not a variable of Evenhand's",
        "EVENHAND_WORKRES is not a variable of Evenhand's (did you mean 'EVENHAND_WORKERS'?)",
        f"{FILE}: poison_afer is not a key of this table (did you mean 'poison_after'?)",
        "workers must be a whole number >= 1, got 0",
        "EVENHAND_SEED: seed must be a whole number, got 'x'",
    ]


@pytest.mark.parametrize("name", ["evenhand.toml", "evenhand.yaml"])
def test_a_table_of_a_policy_must_name_it(name: str) -> None:
    text = "[sharing]\nquantum_seconds = 3" if name == FILE else "sharing: {quantum_seconds: 3}"
    assert refusal(text, name=name) == [
        f"{name}: sharing: policy must name the sharing policy, got {{'quantum_seconds': 3}}"
    ]


def test_names_must_be_names_of_kinds_and_users() -> None:
    text = "users: {1: {}, '': {}, good: {weight: 2}}\nkinds: {\"a\\nb\": {}}"
    assert refusal(text, name="evenhand.yml") == [
        "evenhand.yml: kinds must have names of printable text, got 'a\\nb'",
        "evenhand.yml: users must have names of 1 to 128 printable characters, got 1",
        "evenhand.yml: users must have names of 1 to 128 printable characters, got ''",
    ]


# Files that are none

BROKEN = [
    ("run.txt", "workers = 3", "run.txt: must be a .toml, .yaml or .yml file"),
    ("evenhand", "workers = 3", "evenhand: must be a .toml, .yaml or .yml file"),
    (FILE, "workers =", f"{FILE}: must be TOML: Invalid value"),
    (FILE, "workers = 3\nworkers = 4", f"{FILE}: must be TOML: Cannot overwrite a value"),
    (FILE, "worker = " + "[" * 5_000, f"{FILE}: must be TOML: "),
    ("a.yaml", "workers: [", "a.yaml: must be YAML: while parsing a flow node"),
    ("a.yaml", "workers: 3\nworkers: 4", "a.yaml: must be YAML: 'workers' is there twice"),
    ("a.yaml", "users: {alice: {weight: 1, weight: 2}}", "a.yaml: must be YAML: 'weight' is there twice"),
    ("a.yaml", "[]", "a.yaml: must be a table of options, got list"),
    ("a.yaml", "false", "a.yaml: must be a table of options, got bool"),
    ("a.yaml", "3", "a.yaml: must be a table of options, got int"),
    ("a.yaml", "record: 2024-13-45", "a.yaml: must be YAML: month must be in 1..12"),
    ("a.yaml", "drain: !!bool 3", "a.yaml: must be YAML: "),
    ("a.yaml", "store: !!python/object:os.system {}", "a.yaml: must be YAML: could not determine a constructor"),
    ("a.yaml", "kinds: &kinds {crawl: *kinds}", "a.yaml: must be YAML: maximum recursion depth exceeded"),
    ("a.yaml", "[" * 5_000, "a.yaml: must be YAML: "),
]


@pytest.mark.parametrize(("name", "text", "fault"), BROKEN, ids=[f"{name} {text:.30}" for name, text, _ in BROKEN])
def test_a_file_that_is_none_is_refused_by_its_name(name: str, text: str, fault: str) -> None:
    said = refusal(text, {"EVENHAND_WORKERS": "0"}, name=name)
    assert said[0].startswith(fault)
    assert said[-1] == "EVENHAND_WORKERS: workers must be a whole number >= 1, got 0", "the rest is looked at too"


def test_a_file_that_cannot_be_read_is_refused_by_its_name(tmp_path: Path) -> None:
    missing, binary = tmp_path / FILE, tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    for path, why in [
        (missing, f"[Errno 2] No such file or directory: '{missing}'"),
        (tmp_path, f"[Errno 21] Is a directory: '{tmp_path}'"),
        (binary, "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (Path("a\0.toml"), "embedded null byte"),
    ]:
        with pytest.raises(InvalidConfig) as refused:
            load_options(path, {})
        assert str(refused.value) == f"{path}: must be a readable configuration file: {why}"


def test_a_merge_key_of_yaml_may_be_overridden() -> None:
    text = "kinds: {a: &a {rate_limit: 1, max_retries: 2}, b: {<<: *a, rate_limit: 3}}"
    kinds = load(text, name="a.yaml").kinds
    assert (kinds["b"].rate_limit, kinds["b"].max_retries) == (3, 2)


def test_without_its_extra_yaml_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert refusal("workers: 3", name="a.yaml") == ["a.yaml: YAML needs the yaml extra: pip install 'evenhand[yaml]'"]


# Variables

VALUES = [
    ("EVENHAND_WORKERS", " 8 ", "workers", 8),
    ("EVENHAND_workers", "8", "workers", 8),
    ("EVENHAND_RATE_LIMIT", "none", "rate_limit", None),
    ("EVENHAND_RATE_LIMIT", "1e3", "rate_limit", 1000.0),
    ("EVENHAND_DRAIN", "true", "drain", True),
    ("EVENHAND_RECORD", "runs/{time}.jsonl", "record", "runs/{time}.jsonl"),
    ("EVENHAND_RECORD", "'8'", "record", "8"),
    ("EVENHAND_RECORD", "8\nworkers = 3", "record", "8\nworkers = 3"),
    ("EVENHAND_STORE", "memory", "store", "memory"),
]


@pytest.mark.parametrize(("name", "text", "field", "value"), VALUES)
def test_a_variable_is_read_as_toml_would_read_it_or_as_text(name: str, text: str, field: str, value: Any) -> None:
    assert getattr(load(environment={name: text}), field) == value


def test_names_of_kinds_and_users_are_taken_as_they_are_written() -> None:
    options = load(
        environment={
            "EVENHAND_KINDS__Crawl__RETRY__MAX_RETRIES": "7",
            "EVENHAND_KINDS__Mail": "{ rate_limit = 2 }",
            "EVENHAND_USERS__tenant/Alice__weight": "3",
        }
    )
    assert list(options.kinds) == ["Crawl", "Mail"]
    assert options.kinds["Crawl"].retry.max_retries == 7
    assert options.kinds["Mail"].rate_limit == 2
    assert options.users["tenant/Alice"].weight == 3


def test_of_two_variables_the_one_that_says_more_exactly_wins() -> None:
    environment = {"EVENHAND_KINDS": "{a = {rate_limit = 1}}", "EVENHAND_KINDS__a__RATE_LIMIT": "2"}
    assert load(environment=environment).kinds["a"].rate_limit == 2
