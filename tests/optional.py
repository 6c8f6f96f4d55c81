"""Options of any sort, for properties over them."""

from typing import Any

from hypothesis import strategies as st

from actors import (
    Accumulating,
    Aging,
    AlertOptions,
    Arrival,
    Capped,
    Deadline,
    Deficit,
    Fifo,
    KindOptions,
    Lottery,
    NoisyNeighbour,
    Options,
    RetryPolicy,
    RoundRobin,
    Strict,
    UserOptions,
    WeightedFair,
    WorkerOptions,
)

__all__ = ["kind_options", "names", "options_of_any_sort", "retries"]

names = st.from_regex(r"[A-Za-z0-9]{1,4}(_[A-Za-z0-9]{1,3})?", fullmatch=True)
"""Such as may stand in the name of a variable."""

seconds = st.floats(1e-6, 1e6) | st.integers(1, 10**6)
counts = st.integers(0, 2**40)
lists = st.lists(names | st.just("*"), max_size=3).map(tuple)

retries = st.builds(
    RetryPolicy,
    max_retries=counts,
    base_seconds=seconds,
    factor=st.floats(1, 10),
    max_seconds=seconds,
    jitter=st.floats(0, 1),
    retry_on=st.lists(names, max_size=2).map(tuple),
    give_up_on=st.lists(names, max_size=2).map(tuple),
)

kind_options: dict[str, st.SearchStrategy[Any]] = {
    "concurrency_max": st.none() | counts,
    "rate_limit": st.none() | seconds,
    "timeout_seconds": st.none() | seconds,
    "lease_seconds": seconds,
    "max_retries": counts,
    "retry": retries,
}
"""What may be said of a kind, each with its values."""

kinds = st.fixed_dictionaries({}, optional=kind_options).map(lambda said: KindOptions(**said))
users = st.builds(
    UserOptions, weight=seconds, rate_limit=st.none() | seconds, concurrency_max=st.none() | st.integers(0, 99)
)
workers = st.builds(
    WorkerOptions, count=st.integers(1, 5), kinds=st.none() | lists, users=st.none() | lists, steals=lists
)
alerts = st.builds(
    AlertOptions,
    oldest_wait_seconds=st.none() | seconds,
    failure_rate=st.none() | st.floats(0, 1),
    stuck=st.none() | counts,
    unreachable=st.none() | counts,
    refused=st.none() | counts,
)
sharing = st.one_of(
    st.sampled_from([WeightedFair(), RoundRobin(), Fifo()]),
    st.builds(Deficit, seconds),
    st.builds(Lottery, counts),
    st.builds(Capped, st.integers(1, 9)),
    st.builds(NoisyNeighbour, share_max=st.floats(0.01, 1), in_flight_min=st.integers(1, 99)),
)
ordering = st.one_of(
    st.sampled_from([Accumulating(), Arrival(), Deadline(), Strict()]),
    st.builds(Aging, seconds),
)

options_of_any_sort = st.builds(
    Options,
    workers=st.integers(1, 99),
    worker=st.lists(workers, max_size=3).map(tuple),
    sharing=sharing,
    ordering=ordering,
    stealing=st.sampled_from(["none", "listed", "longest", "random_two"]),
    critical_burst=st.none() | st.integers(1, 99),
    poison_after=st.integers(1, 99),
    rate_limit=st.none() | seconds,
    concurrency_max=st.none() | counts,
    kinds=st.dictionaries(names, kinds, max_size=3),
    users=st.dictionaries(names, users, max_size=3),
    admitted_max=st.none() | counts,
    admitted_per_user_max=st.none() | counts,
    admission_share=st.none() | seconds,
    when_full=st.sampled_from(["reject", "wait", "drop_oldest"]),
    keep_completed_seconds=st.none() | seconds,
    keep_failed_seconds=st.none() | seconds,
    keep_cancelled_seconds=st.none() | st.just(0.0),
    payload_bytes_max=counts,
    stop_grace_seconds=seconds,
    drain=st.booleans(),
    cancel_grace_seconds=seconds,
    alerts=alerts,
    record=st.none() | st.sampled_from(["run.jsonl", "a b", "8", "true", "x\"y'z", "2024-01-01", "über.jsonl"]),
    seed=st.none() | st.integers(0, 2**64 - 1),
)
"""Options that a file can express."""
