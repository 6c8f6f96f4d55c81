"""Scenario files: what they mean, what is refused and in which words, and when work arrives."""

import math
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import ORDERING, SHARING, Aging, InvalidConfig, Priority, Strict, WeightedFair
from actors.trace import Admitted, Event
from sim import (
    At,
    Burst,
    Check,
    Exponential,
    Fixed,
    FixedRate,
    Kind,
    PauseEvent,
    Poisson,
    ResumeEvent,
    Runtime,
    Scenario,
    SetLimitEvent,
    SetWeightEvent,
    User,
    Workers,
    load_scenario,
    parse_scenario,
    simulate,
)

WHOLE = """\
# A user who floods the queue must not make a light one wait.
name = "noisy neighbour"
seed = 7
duration_seconds = 600.0          # arrivals stop here; then the queue drains
warmup_seconds = 60

[runtime]
workers = 4
sharing = "round_robin"
ordering = { policy = "aging", aging_seconds = 30 }
critical_burst = 2
admitted_max = 1000

[[kind]]
name = "work"
service = { distribution = "exponential", mean_seconds = 1.0 }

[[kind]]
name = "report"
service = { distribution = "fixed", seconds = 2.5 }
lease_seconds = 30
timeout_seconds = 20
max_retries = 0
cost = 2

[[user]]
name = "flood"
weight = 0.5
[[user.arrivals]]
process = "poisson"
per_second = 50.0
kind = "work"
[[user.arrivals]]
process = "burst"
count = 3
at_seconds = 5
kind = "report"
priority = "critical"

[[user]]
name = "tenant/light"
[[user.arrivals]]
process = "fixed"
per_second = 2
kind = "work"
priority = 5
[[user.arrivals]]
process = "at"
seconds = [1, 2.5]
kind = "report"
priority = "LOW"

[[user]]
name = "silent"

[[check]]
name = "light users stay quick"
metric = "wait_seconds_p99"
user = "tenant/light"
at_most = 5

[[check]]
name = "urgent work is done"
metric = "completed"
level = "critical"
at_least = 3.0

[[check]]
name = "even"
metric = "jain"
at_least = 0.9
"""


def test_a_whole_file_means_what_it_says() -> None:
    assert parse_scenario(WHOLE) == Scenario(
        name="noisy neighbour",
        seed=7,
        duration_seconds=600.0,
        warmup_seconds=60.0,
        runtime=Runtime(
            workers=4,
            sharing=SHARING.make("round_robin"),
            ordering=Aging(aging_seconds=30),
            critical_burst=2,
            admitted_max=1000,
        ),
        kinds=(
            Kind(name="work", service=Exponential(mean_seconds=1.0)),
            Kind(
                name="report",
                service=Fixed(seconds=2.5),
                lease_seconds=30.0,
                timeout_seconds=20.0,
                max_retries=0,
                cost=2.0,
            ),
        ),
        users=(
            User(
                name="flood",
                weight=0.5,
                arrivals=(
                    Poisson(kind="work", per_second=50.0),
                    Burst(kind="report", count=3, at_seconds=5.0, priority=Priority.CRITICAL),
                ),
            ),
            User(
                name="tenant/light",
                arrivals=(
                    FixedRate(kind="work", per_second=2.0, priority=Priority.VERY_HIGH),
                    At(kind="report", seconds=(1.0, 2.5), priority=Priority.LOW),
                ),
            ),
            User(name="silent"),
        ),
        checks=(
            Check(name="light users stay quick", metric="wait_seconds_p99", user="tenant/light", at_most=5.0),
            Check(name="urgent work is done", metric="completed", level=Priority.CRITICAL, at_least=3.0),
            Check(name="even", metric="jain", at_least=0.9),
        ),
    )


OPERATED = """\
name = "operated"
duration_seconds = 10
[runtime]
stealing = "listed"
when_full = "wait"
admitted_per_user_max = 5
[[kind]]
name = "work"
service = { distribution = "fixed", seconds = 1 }
rate_limit = 2
[[user]]
name = "crowd/{n}"
count = 2
concurrency_max = 1
arrivals = [{ process = "at", seconds = [0], kind = "work", delay_seconds = 3, expires_after_seconds = 9 }]
[[worker]]
count = 3
kinds = ["work"]
users = ["crowd/*"]
steals = ["others"]
[[event]]
action = "pause"
at_seconds = 1
kind = "work"
[[event]]
action = "resume"
at_seconds = 2
kind = "work"
[[event]]
action = "set_weight"
at_seconds = 3
user = "crowd/2"
weight = 4
[[event]]
action = "set_limit"
at_seconds = 4
concurrency_max = 0
[[check]]
name = "starves"
expect = "fail"
metric = "completed"
at_least = 1
"""


def test_workers_operators_and_crowds_mean_what_they_say() -> None:
    scenario = parse_scenario(OPERATED)
    runtime = scenario.runtime
    assert (runtime.stealing, runtime.when_full, runtime.admitted_per_user_max) == ("listed", "wait", 5)
    assert scenario.kinds == (Kind(name="work", service=Fixed(seconds=1.0), rate_limit=2.0),)
    arrivals = (At(kind="work", seconds=(0.0,), delay_seconds=3.0, expires_after_seconds=9.0),)
    assert scenario.users == (User(name="crowd/{n}", count=2, concurrency_max=1, arrivals=arrivals),)
    assert scenario.each_user() == [
        User(name=name, concurrency_max=1, arrivals=arrivals) for name in ("crowd/1", "crowd/2")
    ]
    assert scenario.workers == (Workers(count=3, kinds=("work",), users=("crowd/*",), steals=("others",)),)
    assert scenario.events == (
        PauseEvent(at_seconds=1.0, kind="work"),
        ResumeEvent(at_seconds=2.0, kind="work"),
        SetWeightEvent(at_seconds=3.0, user="crowd/2", weight=4.0),
        SetLimitEvent(at_seconds=4.0, concurrency_max=0),
    )
    assert scenario.checks == (Check(name="starves", expect="fail", metric="completed", at_least=1.0),)


SMALL = """\
name = "small"
duration_seconds = 10
[[kind]]
name = "work"
service = { distribution = "fixed", seconds = 1 }
[[user]]
name = "alice"
"""


def test_what_a_file_leaves_out_has_the_documented_defaults() -> None:
    scenario = parse_scenario(SMALL)
    assert (scenario.seed, scenario.warmup_seconds, scenario.checks) == (0, 0.0, ())
    assert scenario.runtime == Runtime(
        workers=8, sharing=WeightedFair(), ordering=Aging(aging_seconds=60.0), critical_burst=16, admitted_max=None
    )
    (kind,), (user,) = scenario.kinds, scenario.users
    assert (kind.lease_seconds, kind.timeout_seconds, kind.max_retries, kind.cost) == (60.0, None, 3, None)
    assert (user.weight, user.arrivals) == (1.0, ())


def test_the_cores_are_told_what_the_file_says() -> None:
    told = parse_scenario(WHOLE).settings()
    assert (told.sharing, told.ordering) == (SHARING.make("round_robin"), Aging(aging_seconds=30))
    assert (told.critical_burst, told.admitted_max) == (2, 1000)
    assert told.weights == {"flood": 0.5, "tenant/light": 1.0, "silent": 1.0}
    assert told.kind("report").lease_seconds == 30.0
    assert told.kind("report").retry.max_retries == 0
    assert told.kind("work").retry.max_retries == 3


@pytest.mark.parametrize("name", ["aging", "strict", "fifo", "actors:Strict"])
def test_an_ordering_policy_is_named_or_imported(name: str) -> None:
    scenario = parse_scenario(SMALL.replace("[[kind]]", f'runtime = {{ ordering = "{name}" }}\n[[kind]]'))
    assert scenario.runtime.ordering == (Strict() if ":" in name else ORDERING.make(name))


@pytest.mark.parametrize("name", ["weighted_fair", "round_robin", "fifo", "actors:WeightedFair"])
def test_a_sharing_policy_is_named_or_imported(name: str) -> None:
    scenario = parse_scenario(SMALL.replace("[[kind]]", f'runtime = {{ sharing = "{name}" }}\n[[kind]]'))
    assert scenario.runtime.sharing == (WeightedFair() if ":" in name else SHARING.make(name))


# What is refused


def top(lines: str) -> str:
    """The small file with more at its top level."""
    return SMALL.replace("[[kind]]", f"{lines}\n[[kind]]", 1)


def kind(lines: str) -> str:
    """The small file with a second kind."""
    return f'{SMALL}[[kind]]\nname = "more"\n{lines}\n'


def service(lines: str) -> str:
    return kind(f"service = {{ {lines} }}")


def user(lines: str) -> str:
    """The small file with a second user."""
    return f"{SMALL}[[user]]\n{lines}\n"


def arrivals(lines: str) -> str:
    return user(f'name = "bob"\n[[user.arrivals]]\n{lines}')


def event(lines: str) -> str:
    return f"{SMALL}[[event]]\nat_seconds = 1\n{lines}\n"


def worker(lines: str) -> str:
    return f"{SMALL}[[worker]]\n{lines}\n"


def check(lines: str) -> str:
    return f'{SMALL}[[check]]\nname = "c"\n{lines}\n'


LEVEL_NAMES = "very_low, low, normal, high, very_high, critical or 1 to 6"

# "..." stands for a list of names that grows with what there is to name.
REFUSED: list[tuple[str, str]] = [
    # Unknown keys, at each level
    (top("sed = 3"), "sed is not a key of this table (did you mean 'seed'?)"),
    (top("colour = 3"), "colour is not a key of this table"),
    (top("users = []"), "users is not a key of this table (did you mean 'user'?)"),
    (top("runtime = { worker = 3 }"), "runtime.worker is not a key of this table (did you mean 'workers'?)"),
    (
        kind('service = { distribution = "fixed", seconds = 1 }\nlease_second = 3'),
        "kind[1].lease_second is not a key of this table (did you mean 'lease_seconds'?)",
    ),
    (
        service('distribution = "exponential", mean_seconds = 1, mean_second = 1'),
        "kind[1].service.mean_second is not a key of this table (did you mean 'mean_seconds'?)",
    ),
    (user('name = "bob"\nwieght = 2'), "user[1].wieght is not a key of this table (did you mean 'weight'?)"),
    (
        arrivals('process = "burst"\nkind = "work"\ncount = 1\npriorty = 1'),
        "user[1].arrivals[0].priorty is not a key of this table (did you mean 'priority'?)",
    ),
    (
        arrivals('process = "at"\nkind = "work"\nseconds = []\nper_second = 1'),
        "user[1].arrivals[0].per_second is not a key of this table (did you mean 'seconds'?)",
    ),
    (
        check('metric = "jain"\nat_mots = 1\nat_least = 0'),
        "check[0].at_mots is not a key of this table (did you mean 'at_most'?)",
    ),
    (worker("cuont = 2"), "worker[0].cuont is not a key of this table (did you mean 'count'?)"),
    (
        event('action = "pause"\nweight = 2'),
        "event[0].weight is not a key of this table",
    ),
    # Missing keys, at each level
    (SMALL.replace('name = "small"\n', ""), "name is missing"),
    (SMALL.replace("duration_seconds = 10\n", ""), "duration_seconds is missing"),
    ('name = "x"\nduration_seconds = 1\nuser = []', "kind is missing"),
    ('name = "x"\nduration_seconds = 1\nkind = []', "user is missing"),
    (kind(""), "kind[1].service is missing"),
    (service('distribution = "fixed"'), "kind[1].service.seconds is missing"),
    (service('distribution = "exponential"'), "kind[1].service.mean_seconds is missing"),
    (service("seconds = 1"), "kind[1].service.distribution is missing"),
    (user("weight = 2"), "user[1].name is missing"),
    (arrivals('kind = "work"\nper_second = 1'), "user[1].arrivals[0].process is missing"),
    (arrivals('process = "poisson"\nper_second = 1'), "user[1].arrivals[0].kind is missing"),
    (arrivals('process = "poisson"\nkind = "work"'), "user[1].arrivals[0].per_second is missing"),
    (arrivals('process = "fixed"\nkind = "work"'), "user[1].arrivals[0].per_second is missing"),
    (arrivals('process = "at"\nkind = "work"'), "user[1].arrivals[0].seconds is missing"),
    (arrivals('process = "burst"\nkind = "work"'), "user[1].arrivals[0].count is missing"),
    (event(""), "event[0].action is missing"),
    (event('action = "set_weight"\nuser = "alice"'), "event[0].weight is missing"),
    (check("at_most = 1"), "check[0].metric is missing"),
    (f'{SMALL}[[check]]\nmetric = "jain"\nat_most = 1', "check[0].name is missing"),
    # Values of another type
    (top("seed = '7'"), "seed must be a whole number, got '7'"),
    (top("seed = true"), "seed must be a whole number, got True"),
    (top("seed = 7.0"), "seed must be a whole number, got 7.0"),
    (top("warmup_seconds = '1'"), "warmup_seconds must be a number, got '1'"),
    (top("warmup_seconds = false"), "warmup_seconds must be a number, got False"),
    (top("warmup_seconds = [1]"), "warmup_seconds must be a number, got [1]"),
    (top("runtime = 3"), "runtime must be a table, got 3"),
    (top("runtime = []"), "runtime must be a table, got []"),
    (top("runtime = { workers = '8' }"), "runtime.workers must be a whole number, got '8'"),
    (top("runtime = { workers = 8.0 }"), "runtime.workers must be a whole number, got 8.0"),
    (top("runtime = { critical_burst = 'many' }"), "runtime.critical_burst must be a whole number, got 'many'"),
    (top("runtime = { admitted_max = true }"), "runtime.admitted_max must be a whole number, got True"),
    (SMALL.replace('"small"', "3"), "name must be text, got 3"),
    (SMALL.replace('name = "work"', "name = 3"), "kind[0].name must be text, got 3"),
    (kind("service = 3"), "kind[1].service must be a table with 'distribution', got 3"),
    (service('distribution = "fixed", seconds = "1"'), "kind[1].service.seconds must be a number, got '1'"),
    (
        kind('service = { distribution = "fixed", seconds = 1 }\nmax_retries = true'),
        "kind[1].max_retries must be a whole number, got True",
    ),
    (user("name = 3"), "user[1].name must be text, got 3"),
    (user('name = "bob"\nweight = "1"'), "user[1].weight must be a number, got '1'"),
    (
        arrivals('process = "burst"\nkind = "work"\ncount = 1.0'),
        "user[1].arrivals[0].count must be a whole number, got 1.0",
    ),
    (arrivals('process = "burst"\nkind = 3\ncount = 1'), "user[1].arrivals[0].kind must be text, got 3"),
    (
        arrivals('process = "at"\nkind = "work"\nseconds = [1, "2"]'),
        "user[1].arrivals[0].seconds[1] must be a number, got '2'",
    ),
    (user('name = "bob"\narrivals = [3]'), "user[1].arrivals[0] must be a table with 'process', got 3"),
    (check('metric = "jain"\nat_most = "1"'), "check[0].at_most must be a number, got '1'"),
    (check('metric = "completed"\nuser = 3\nat_most = 1'), "check[0].user must be text, got 3"),
    (f"check = [3]\n{SMALL}", "check[0] must be a table, got 3"),
    (worker("count = '2'"), "worker[0].count must be a whole number, got '2'"),
    (worker('kinds = ["work", 3]'), "worker[0].kinds[1] must be text, got 3"),
    # Not a list: a text is not a list of its letters, and a single table is not a list of its keys
    (f"check = 3\n{SMALL}", "check must be a list, got 3"),
    (f"check = ''\n{SMALL}", "check must be a list, got ''"),
    (f"check = {{}}\n{SMALL}", "check must be a list, got {}"),
    (
        'name = "x"\nduration_seconds = 1\nkind = []\n[user]\nname = "alice"',
        "user must be a list, got {'name': 'alice'}",
    ),
    (user('name = "bob"\narrivals = ""'), "user[1].arrivals must be a list, got ''"),
    (arrivals('process = "at"\nkind = "work"\nseconds = 3'), "user[1].arrivals[0].seconds must be a list, got 3"),
    (arrivals('process = "at"\nkind = "work"\nseconds = "12"'), "user[1].arrivals[0].seconds must be a list, got '12'"),
    (worker('users = "alice"'), "worker[0].users must be a list, got 'alice'"),
    (worker('kinds = "work"'), "worker[0].kinds must be a list, got 'work'"),
    # Values out of bounds, infinite or not a number
    (top("seed = -1"), "seed must be a whole number >= 0, got -1"),
    (SMALL.replace("= 10", "= 0"), "duration_seconds must be a finite number > 0, got 0.0"),
    (SMALL.replace("= 10", "= inf"), "duration_seconds must be a finite number > 0, got inf"),
    (SMALL.replace("= 10", "= nan"), "duration_seconds must be a finite number > 0, got nan"),
    (top("warmup_seconds = -0.5"), "warmup_seconds must be a finite number >= 0, got -0.5"),
    (top("warmup_seconds = inf"), "warmup_seconds must be a finite number >= 0, got inf"),
    (top("runtime = { workers = 0 }"), "runtime.workers must be a whole number >= 1, got 0"),
    (top("runtime = { critical_burst = 0 }"), "runtime.critical_burst must be a whole number >= 1, got 0"),
    (top("runtime = { admitted_max = -1 }"), "runtime.admitted_max must be a whole number >= 0, got -1"),
    (service('distribution = "fixed", seconds = 0'), "kind[1].service.seconds must be a finite number > 0, got 0.0"),
    (
        service('distribution = "exponential", mean_seconds = nan'),
        "kind[1].service.mean_seconds must be a finite number > 0, got nan",
    ),
    *(
        (
            kind(f'service = {{ distribution = "fixed", seconds = 1 }}\n{name} = {value}'),
            f"kind[1].{name} must be a finite number > 0, got {float(value)!r}",
        )
        for name in ("lease_seconds", "timeout_seconds", "cost")
        for value in ("0", "-1", "inf", "nan")
    ),
    (
        kind('service = { distribution = "fixed", seconds = 1 }\nmax_retries = -1'),
        "kind[1].max_retries must be a whole number >= 0, got -1",
    ),
    (user('name = ""'), "user[1].name must be 1 to 128 printable characters, got ''"),
    (user(r'name = "a\nb"'), r"user[1].name must be 1 to 128 printable characters, got 'a\nb'"),
    (user(f'name = "{"x" * 300}"'), "user[1].name must be 1 to 128 printable characters, got 300 characters"),
    (user('name = "bob"\nweight = 0'), "user[1].weight must be a finite number > 0, got 0.0"),
    (user('name = "bob"\nweight = inf'), "user[1].weight must be a finite number > 0, got inf"),
    *(
        (
            arrivals(f'process = "{process}"\nkind = "work"\nper_second = {value}'),
            f"user[1].arrivals[0].per_second must be a finite number > 0, got {float(value)!r}",
        )
        for process in ("poisson", "fixed")
        for value in ("0", "-2", "inf")
    ),
    (
        arrivals('process = "at"\nkind = "work"\nseconds = [1, -1]'),
        "user[1].arrivals[0].seconds must be finite numbers >= 0, got -1.0",
    ),
    (
        arrivals('process = "at"\nkind = "work"\nseconds = [nan]'),
        "user[1].arrivals[0].seconds must be finite numbers >= 0, got nan",
    ),
    (
        arrivals('process = "burst"\nkind = "work"\ncount = 0'),
        "user[1].arrivals[0].count must be a whole number >= 1, got 0",
    ),
    (
        arrivals('process = "burst"\nkind = "work"\ncount = 1\nat_seconds = -1'),
        "user[1].arrivals[0].at_seconds must be a finite number >= 0, got -1.0",
    ),
    (
        arrivals('process = "burst"\nkind = "work"\ncount = 1\npriority = "urgent"'),
        f"user[1].arrivals[0].priority must be one of {LEVEL_NAMES}, got 'urgent'",
    ),
    (
        arrivals('process = "burst"\nkind = "work"\ncount = 1\npriority = 7'),
        f"user[1].arrivals[0].priority must be one of {LEVEL_NAMES}, got 7",
    ),
    (worker("count = 0"), "worker[0].count must be a whole number >= 1, got 0"),
    (
        event('action = "set_limit"\nrate_limit = 0'),
        "event[0].rate_limit must be a finite number > 0, got 0.0",
    ),
    (
        arrivals('process = "burst"\nkind = "work"\ncount = 1\nexpires_after_seconds = 0'),
        "user[1].arrivals[0].expires_after_seconds must be a finite number > 0, got 0.0",
    ),
    (
        user('name = "bob"\ncount = 2'),
        "user[1].name must have {n} in it where count is above 1, got 'bob'",
    ),
    (event('action = "set_weight"\nweight = 1'), "event[0]: event set_weight must name a user"),
    (
        event('action = "pause"\nuser = "alice"\nkind = "work"'),
        "event[0]: event must name a user or a kind, not both",
    ),
    # Names that nothing goes by
    (top('runtime = { stealing = "shortest" }'), "runtime.stealing must be one of ..., got 'shortest'"),
    (
        top('runtime = { when_full = "drop" }'),
        "runtime.when_full must be one of reject, wait, drop_oldest, got 'drop'",
    ),
    (check('metric = "jain"\nat_most = 1\nexpect = "maybe"'), "check[0].expect must be one of pass, fail, got 'maybe'"),
    (
        event('action = "puase"'),
        "event[0].action must be one of pause, resume, set_weight, set_limit, add_workers, retire_workers, got 'puase' (did you mean 'pause'?)",
    ),
    (
        event('action = "pause"\nuser = "alcie"'),
        "event[0].user must name a user of this scenario (alice), got 'alcie' (did you mean 'alice'?)",
    ),
    (
        worker('kinds = ["wrok"]'),
        "worker[0].kinds[0] must name a kind of this scenario (work), got 'wrok' (did you mean 'work'?)",
    ),
    (
        service('distribution = "fixd", seconds = 1'),
        "kind[1].service.distribution must be one of ..., got 'fixd' (did you mean 'fixed'?)",
    ),
    (
        arrivals('process = "poison"\nkind = "work"'),
        "user[1].arrivals[0].process must be one of ..., got 'poison' (did you mean 'poisson'?)",
    ),
    (arrivals("process = 3"), "user[1].arrivals[0].process must be one of ..., got 3"),
    (
        arrivals('process = "burst"\nkind = "wrok"\ncount = 1'),
        "user[1].arrivals[0].kind must name a kind of this scenario (work), got 'wrok' (did you mean 'work'?)",
    ),
    (
        check('metric = "completed"\nuser = "alcie"\nat_most = 1'),
        "check[0].user must name a user of this scenario (alice), got 'alcie' (did you mean 'alice'?)",
    ),
    (
        check('metric = "jian"\nat_most = 1'),
        "check[0].metric must be one of ..., got 'jian' (did you mean 'jain'?)",
    ),
    (
        check('metric = "completed"\nlevel = "urgent"\nat_most = 1'),
        f"check[0].level: priority must be one of {LEVEL_NAMES}, got 'urgent'",
    ),
    # Names that two things go by
    (user('name = "alice"'), "user[1].name must not repeat, got 'alice' again"),
    (
        f'{SMALL}[[kind]]\nname = "work"\nservice = {{ distribution = "fixed", seconds = 1 }}',
        "kind[1].name must not repeat, got 'work' again",
    ),
    (
        user('name = "crowd/{n}"\ncount = 3\n[[user]]\nname = "crowd/2"'),
        "user[2].name must not repeat, got 'crowd/2' again",
    ),
    # Checks that check nothing
    (check('metric = "completed"'), "check[0]: check 'c' must have either at_most or at_least"),
    (
        check('metric = "completed"\nat_most = 1\nat_least = 1'),
        "check[0]: check 'c' must have either at_most or at_least",
    ),
    (
        check('metric = "completed"\nat_most = nan'),
        "check[0]: check 'c' must have a limit that is a finite number, got nan",
    ),
    (
        check('metric = "completed"\nat_least = -inf'),
        "check[0]: check 'c' must have a limit that is a finite number, got -inf",
    ),
    (
        check('metric = "refused"\nlevel = 3\nat_most = 1'),
        "check[0]: check 'c' must be over users: refused has no level",
    ),
    (
        check('metric = "completed"\ncause = "failed"\nat_most = 1'),
        "check[0]: check 'c' must have no cause: only dead_lettered has one",
    ),
    (
        check('metric = "dead_lettered"\ncause = "bored"\nat_most = 1'),
        "check[0].cause must be one of failed, expired, poisoned, dropped, got 'bored'",
    ),
    (
        check('metric = "starved"\nat_most = 1'),
        "check[0]: check 'c' must have over_seconds if its metric is starved, and only then",
    ),
    (
        check('metric = "completed"\nover_seconds = 3\nat_most = 1'),
        "check[0]: check 'c' must have over_seconds if its metric is starved, and only then",
    ),
    (
        check('metric = "jain"\nuser = "alice"\nat_most = 1'),
        "check[0]: check 'c' must be over all users: jain has no user or level",
    ),
    # Policies
    (
        top('runtime = { sharing = "weighted_fare" }'),
        "runtime.sharing policy must be one of ... or 'module:Class', "
        "got 'weighted_fare' (did you mean 'weighted_fair'?)",
    ),
    (
        top('runtime = { ordering = "agin" }'),
        "runtime.ordering policy must be one of ... or 'module:Class', got 'agin' (did you mean 'aging'?)",
    ),
    (top("runtime = { ordering = 3 }"), "runtime.ordering policy must have key, got 3"),
    (
        top('runtime = { sharing = { policy = "fifo", depth = 1 } }'),
        "runtime.sharing.depth must be an option of fifo (none)",
    ),
    (
        top('runtime = { ordering = { policy = "aging", aging_second = 1 } }'),
        "runtime.ordering.aging_second must be an option of aging (aging_seconds) (did you mean 'aging_seconds'?)",
    ),
    (
        top('runtime = { ordering = { policy = "aging", aging_seconds = -1 } }'),
        "runtime.ordering.aging_seconds must be a finite number >= 0, got -1",
    ),
    (
        top('runtime = { ordering = { policy = "aging", aging_seconds = "60" } }'),
        "runtime.ordering.aging_seconds must be a finite number >= 0, got '60'",
    ),
    (
        top("runtime = { ordering = { aging_seconds = 1 } }"),
        "runtime.ordering: policy must name the ordering policy, got {'aging_seconds': 1}",
    ),
    (
        top('runtime = { sharing = "no_such_module:Policy" }'),
        "runtime.sharing policy must be importable, got 'no_such_module:Policy': No module named 'no_such_module'",
    ),
    (
        top('runtime = { sharing = "actors:Policy" }'),
        "runtime.sharing policy must be importable, got 'actors:Policy': module 'actors' has no attribute 'Policy'",
    ),
    (
        top('runtime = { sharing = ".actors:Policy" }'),
        "runtime.sharing policy must be importable, got '.actors:Policy': "
        "the 'package' argument is required to perform a relative import for '.actors'",
    ),
    (
        top('runtime = { sharing = "actors:SHARING" }'),
        f"runtime.sharing policy must be a class, got 'actors:SHARING': {SHARING!r}",
    ),
    (
        top('runtime = { sharing = "actors.policies.ordering:Strict" }'),
        "runtime.sharing policy must have ..., got Strict()",
    ),
    # Not TOML at all
    ("name = ", "the file must be TOML: Invalid value (at end of document)"),
    ("[runtime]\n[runtime]\n", "the file must be TOML: Cannot declare ('runtime',) twice (at line 2, column 9)"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED, ids=[said.split(" (did")[0][:70] for _, said in REFUSED])
def test_a_bad_file_is_refused_with_the_path_the_constraint_and_the_value(text: str, said: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        parse_scenario(text)
    assert re.fullmatch(re.escape(said).replace(re.escape("..."), ".+"), str(refused.value)), str(refused.value)


@pytest.mark.parametrize("text", ["x = " + "[" * 100_000, "seed = " + "9" * 5_000], ids=["nested too deep", "too long"])
def test_what_the_toml_parser_cannot_bear_is_refused_too(text: str) -> None:
    with pytest.raises(InvalidConfig, match=r"^the file must be TOML: "):
        parse_scenario(text)


def faults(text: str) -> set[str]:
    with pytest.raises(InvalidConfig) as refused:
        parse_scenario(text)
    return set(str(refused.value).splitlines())


def test_faults_in_several_tables_are_all_reported() -> None:
    text = top("runtime = { workers = '8' }") + '[[user]]\nname = "bob"\nweight = 0\n[[user]]\nname = 3\n[[kind]]\n'
    assert faults(text) == {
        "runtime.workers must be a whole number, got '8'",
        "user[1].weight must be a finite number > 0, got 0.0",
        "user[2].name must be text, got 3",
        "kind[1].name is missing",
        "kind[1].service is missing",
    }


def test_faults_in_one_table_are_all_reported() -> None:
    text = arrivals('process = "burst"\ncount = 0\nat_seconds = -1\npriority = 9\nspeed = 1')
    assert faults(text) == {
        "user[1].arrivals[0].kind is missing",
        "user[1].arrivals[0].count must be a whole number >= 1, got 0",
        "user[1].arrivals[0].at_seconds must be a finite number >= 0, got -1.0",
        f"user[1].arrivals[0].priority must be one of {LEVEL_NAMES}, got 9",
        "user[1].arrivals[0].speed is not a key of this table",
    }


def test_names_that_nothing_goes_by_are_all_reported() -> None:
    burst = '[[user.arrivals]]\nprocess = "burst"\ncount = 1\nkind = '
    bob = user(f'name = "bob"\n{burst}"x"\n{burst}"y"')
    assert faults(bob + '[[check]]\nname = "c"\nmetric = "completed"\nuser = "z"\nat_most = 1') == {
        "user[1].arrivals[0].kind must name a kind of this scenario (work), got 'x'",
        "user[1].arrivals[1].kind must name a kind of this scenario (work), got 'y'",
        "check[0].user must name a user of this scenario (alice, bob), got 'z'",
    }


# Files


def test_a_file_is_read_as_its_text_is(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(WHOLE, encoding="utf-8")
    assert load_scenario(path) == load_scenario(str(path)) == parse_scenario(WHOLE)


def test_every_fault_of_a_file_is_reported_with_the_files_name(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(top("seed = -1\nwarmup_seconds = 'x'"), encoding="utf-8")
    with pytest.raises(InvalidConfig) as refused:
        load_scenario(path)
    assert set(str(refused.value).splitlines()) == {
        f"{path}: seed must be a whole number >= 0, got -1",
        f"{path}: warmup_seconds must be a number, got 'x'",
    }


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    with pytest.raises(InvalidConfig) as refused:
        load_scenario(path)
    assert str(refused.value) == (
        f"{path}: must be a readable scenario file: [Errno 2] No such file or directory: '{path}'"
    )


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig) as refused:
        load_scenario(tmp_path)
    assert (
        str(refused.value) == f"{tmp_path}: must be a readable scenario file: [Errno 21] Is a directory: '{tmp_path}'"
    )


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "latin1.toml"
    path.write_bytes(b'name = "caf\xe9"\n')
    with pytest.raises(InvalidConfig) as refused:
        load_scenario(path)
    assert str(refused.value) == (
        f"{path}: must be a readable scenario file: "
        "'utf-8' codec can't decode byte 0xe9 in position 11: invalid continuation byte"
    )


# Any file at all


def as_toml(value: Any) -> str:
    """Plain data in TOML, tables and lists inline."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{as_toml(key)} = {as_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(letter):08x}" for letter in value) + '"'
    return repr(value)


def as_file(data: dict[str, Any]) -> str:
    return "".join(f"{as_toml(key)} = {as_toml(value)}\n" for key, value in data.items())


VALID: dict[str, Any] = {
    "name": "any",
    "seed": 1,
    "duration_seconds": 10.0,
    "warmup_seconds": 1,
    "runtime": {
        "workers": 2,
        "sharing": "weighted_fair",
        "ordering": {"policy": "aging", "aging_seconds": 30},
        "critical_burst": 4,
        "admitted_max": 10,
    },
    "kind": [
        {
            "name": "work",
            "service": {"distribution": "fixed", "seconds": 1},
            "lease_seconds": 9,
            "timeout_seconds": 3,
            "max_retries": 1,
            "cost": 1.0,
        },
        {"name": "odd", "service": {"distribution": "exponential", "mean_seconds": 2.0}},
    ],
    "user": [
        {
            "name": "alice",
            "weight": 2,
            "arrivals": [
                {"process": "poisson", "kind": "work", "per_second": 1.0, "priority": "high"},
                {"process": "fixed", "kind": "odd", "per_second": 0.5},
                {"process": "at", "kind": "odd", "seconds": [1, 2.5]},
                {"process": "burst", "kind": "work", "count": 3, "at_seconds": 1.0, "priority": 6},
            ],
        },
        {"name": "bob/{n}", "count": 2, "concurrency_max": 1},
    ],
    "worker": [{"count": 2, "kinds": ["work", "odd"], "users": ["alice"], "steals": ["bob/*"]}],
    "event": [
        {"action": "pause", "at_seconds": 1.0, "user": "alice"},
        {"action": "set_limit", "at_seconds": 2, "kind": "odd", "rate_limit": 1.0},
    ],
    "check": [
        {"name": "quick", "metric": "wait_seconds_p99", "user": "alice", "at_most": 5.0},
        {"name": "done", "metric": "completed", "level": "low", "at_least": 1},
    ],
}

words = st.one_of(
    st.text(max_size=5),
    st.sampled_from(
        ["name", "kind", "work", "odd", "alice", "fixed", "jain", "fifo", "json:JSONDecoder", "x:y", "critical"]
    ),
)
leaves = st.one_of(st.booleans(), st.integers(), st.floats(), words)
plain_values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=4,
)


def containers(value: Any) -> Iterator[Any]:
    """Every table and list in the data, the whole of it first."""
    if isinstance(value, (dict, list)):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from containers(inner)


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    data = deepcopy(VALID)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from([found for found in containers(data) if found]))
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        match draw(st.sampled_from(["replace", "delete", "add", "double"])):
            case "replace":
                place[key] = draw(plain_values)
            case "delete":
                del place[key]
            case "add" if isinstance(place, dict):
                place[draw(words)] = draw(plain_values)
            case "add":
                place.append(draw(plain_values))
            case _ if isinstance(place, list):
                place.append(deepcopy(place[key]))
        if not data:
            break
    return data


def test_the_data_that_is_mutated_is_valid_to_begin_with() -> None:
    scenario = parse_scenario(as_file(VALID))
    assert [user.name for user in scenario.users] == ["alice", "bob/{n}"]


@settings(max_examples=300)
@given(mutated())
def test_any_change_to_a_file_gives_a_scenario_or_invalid_config(data: dict[str, Any]) -> None:
    try:
        scenario = parse_scenario(as_file(data))
    except InvalidConfig as error:
        said = str(error)
    else:
        # Nothing was guessed: what was accepted is what was written.
        assert (scenario.name, scenario.duration_seconds) == (data["name"], data["duration_seconds"])
        assert [user.name for user in scenario.users] == [user["name"] for user in data["user"]]
        lengths = [len(user.get("arrivals", [])) for user in data["user"]]
        assert [len(user.arrivals) for user in scenario.users] == lengths
        assert len(scenario.checks) == len(data.get("check", []))
        return
    assert said
    assert "is not valid: " not in said, "every fault has words of its own"


# Arrivals

rates = st.floats(0.01, 20)
durations = st.floats(0.1, 50)
processes = st.one_of(
    st.builds(Poisson, kind=st.just("work"), per_second=rates),
    st.builds(FixedRate, kind=st.just("work"), per_second=rates),
    st.builds(At, kind=st.just("work"), seconds=st.lists(st.floats(0, 100), max_size=20).map(tuple)),
    st.builds(Burst, kind=st.just("work"), count=st.integers(1, 50), at_seconds=st.floats(0, 100)),
)


@given(processes, durations, st.integers(0, 9))
def test_arrivals_are_in_order_and_within_the_duration(
    process: Poisson | FixedRate | At | Burst, duration_seconds: float, seed: int
) -> None:
    times = list(process.times(Random(seed), duration_seconds))
    assert times == sorted(times)
    assert all(0 <= at < duration_seconds for at in times)


@given(processes, durations, st.integers(0, 9))
def test_a_shorter_run_has_the_same_arrivals_as_far_as_it_goes(
    process: Poisson | FixedRate | At | Burst, duration_seconds: float, seed: int
) -> None:
    longer = list(process.times(Random(seed), 2 * duration_seconds))
    assert list(process.times(Random(seed), duration_seconds)) == [at for at in longer if at < duration_seconds]


@given(rates, st.integers(0, 2**32))
def test_poisson_arrivals_have_the_rate_they_say(per_second: float, seed: int) -> None:
    # Of 1,000 expected arrivals the count has a standard deviation of 32: six of them are beyond any luck.
    count = sum(1 for _ in Poisson(kind="work", per_second=per_second).times(Random(seed), 1_000 / per_second))
    assert abs(count - 1_000) < 6 * math.sqrt(1_000)


def test_poisson_arrivals_have_no_memory() -> None:
    times = list(Poisson(kind="work", per_second=4.0).times(Random(1), 10_000.0))
    gaps = [later - earlier for earlier, later in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    # For exponential gaps both are 1/rate, and 1 in e lies beyond it.
    assert mean == pytest.approx(0.25, rel=0.03)
    assert deviation == pytest.approx(0.25, rel=0.03)
    assert sum(gap > 0.25 for gap in gaps) / len(gaps) == pytest.approx(1 / math.e, rel=0.03)


def test_fixed_arrivals_are_like_clockwork_and_do_not_drift() -> None:
    assert list(FixedRate(kind="work", per_second=3.0).times(Random(0), 2.0)) == [0, 1 / 3, 2 / 3, 1, 4 / 3, 5 / 3]
    assert sum(1 for _ in FixedRate(kind="work", per_second=10.0).times(Random(0), 1_000.0)) == 10_000


def test_listed_arrivals_come_sorted_and_the_late_ones_not_at_all() -> None:
    assert list(At(kind="work", seconds=(3.0, 1.0, 1.0, 5.0)).times(Random(0), 5.0)) == [1.0, 1.0, 3.0]


def test_a_burst_arrives_at_once_or_not_at_all() -> None:
    burst = Burst(kind="work", count=3, at_seconds=2.0)
    assert list(burst.times(Random(0), 2.5)) == [2.0, 2.0, 2.0]
    assert list(burst.times(Random(0), 2.0)) == []


SERVICES: list[tuple[Fixed | Exponential, Callable[[float], float]]] = [
    (Fixed(seconds=2.0), lambda uniform: 2.0),
    (Exponential(mean_seconds=2.0), lambda uniform: -2.0 * math.log(1 - uniform)),
]


@pytest.mark.parametrize(("service", "expected"), SERVICES, ids=["fixed", "exponential"])
@given(uniform=st.floats(0, 1, exclude_max=True))
def test_a_service_time_is_the_inverse_of_its_distribution(
    service: Fixed | Exponential, expected: Callable[[float], float], uniform: float
) -> None:
    seconds = service.sample(uniform)
    assert 0 <= seconds < math.inf
    assert seconds == pytest.approx(expected(uniform), abs=1e-9)


class Arrived:
    """What arrived, and when."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, float, str, int]] = []

    def on_event(self, event: Event) -> None:
        if isinstance(event, Admitted):
            self.seen.append((event.user, event.order_at, event.kind, event.level))

    def on_quiet(self, now: float) -> None:
        """Events tell it all."""


def arrived(scenario: Scenario, **changes: Any) -> list[tuple[str, float, str, int]]:
    observer = Arrived()
    simulate(scenario, observers=[observer], **changes)
    return sorted(observer.seen)


@settings(max_examples=3)
@given(st.integers(0, 99))
def test_the_same_seed_brings_the_same_work_whatever_the_policy(seed: int) -> None:
    poisson = Poisson(kind="work", per_second=2.0)
    scenario = Scenario(
        name="same",
        seed=seed,
        duration_seconds=20.0,
        kinds=(Kind(name="work", service=Exponential(mean_seconds=1.0)),),
        users=(User(name="alice", arrivals=(poisson, poisson)), User(name="bob", arrivals=(poisson,))),
        runtime=Runtime(workers=2),
    )
    plain = arrived(scenario)
    for sharing in SHARING.classes:
        for ordering in ORDERING.classes:
            assert arrived(scenario, sharing=sharing, ordering=ordering) == plain
    assert arrived(scenario, seed=seed + 1) != plain


def test_each_arrival_process_draws_numbers_of_its_own() -> None:
    poisson = Poisson(kind="work", per_second=2.0)
    kinds = (Kind(name="work", service=Fixed(seconds=1.0)),)
    users = (User(name="alice", arrivals=(poisson, poisson)), User(name="bob", arrivals=(poisson,)))
    both = Scenario(name="both", duration_seconds=20.0, kinds=kinds, users=users)
    alone = Scenario(name="alone", duration_seconds=20.0, kinds=kinds, users=users[:1])
    alice = [item for item in arrived(both) if item[0] == "alice"]
    assert alice == arrived(alone), "one more user changes nothing for the others"
    times = [at for _, at, _, _ in arrived(both)]
    assert len(set(times)) == len(times), "no two processes share their numbers"
