"""Traces: what is written is what is read, the header apart, whatever the batches."""

import hashlib
import io
import json
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import InvalidConfig
from actors.trace import SCHEMA_VERSION, ActorRestarted, Cancelled, Event, Header, TraceWriter, read_trace

EVENT_TYPES: tuple[type[Any], ...] = get_args(Event)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    int: st.integers(),
    str: st.text(),
    type(None): st.none(),
    Any: st.dictionaries(st.text(), st.integers(min_value=0, max_value=2**63), max_size=2),
}


def of_type(cls: type[Any]) -> st.SearchStrategy[Any]:
    """Instances of a struct, built from its annotations: a new event type is covered without a change here."""
    fields = {
        field.name: st.one_of([VALUES[kind] for kind in get_args(field.type) or (field.type,)])
        for field in msgspec.structs.fields(cls)
    }
    return st.builds(cls, **fields)


events = st.one_of([of_type(cls) for cls in EVENT_TYPES])
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=5,
)
headers = st.builds(
    Header,
    scenario=st.text(),
    seed=st.integers(min_value=0),
    version=st.text(),
    options=st.dictionaries(st.text(), json_values, max_size=4),
)


def written(items: list[Any], header: Header | None = None) -> tuple[bytes, str]:
    output = io.BytesIO()
    writer = TraceWriter(output, header)
    for item in items:
        writer.write(item)
    digest = writer.sha256()
    return output.getvalue(), digest


def lines_of(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def numbered(count: int) -> list[Cancelled]:
    return [Cancelled(float(number), f"alice#{number}", 1) for number in range(count)]


def test_every_event_type_is_in_the_union_and_has_a_tag_of_its_own() -> None:
    tags = [cls.__struct_config__.tag for cls in EVENT_TYPES]
    assert len(EVENT_TYPES) >= 14
    assert len(set(tags)) == len(tags)
    assert "header" not in tags


@pytest.mark.parametrize("cls", EVENT_TYPES, ids=lambda cls: cls.__name__)
@given(data=st.data())
def test_every_event_type_reads_back_as_it_was_written(cls: type[Any], data: st.DataObject) -> None:
    event = data.draw(of_type(cls))
    trace, _ = written([event])
    (read,) = read_trace(lines_of(trace))
    assert read == event
    assert type(read) is cls


@given(headers, st.lists(events, max_size=20))
def test_a_whole_trace_reads_back_header_first(header: Header, items: list[Any]) -> None:
    trace, _ = written(items, header)
    assert list(read_trace(lines_of(trace))) == [header, *items]


def test_a_trace_is_json_lines_with_the_schema_in_its_first() -> None:
    header = Header(scenario="demo", seed=7, version="0.1.0", options={"workers": 8})
    trace, _ = written([Cancelled(1.5, "alice#1", 2)], header)
    assert [json.loads(line) for line in lines_of(trace)] == [
        {
            "event": "header",
            "scenario": "demo",
            "seed": 7,
            "version": "0.1.0",
            "options": {"workers": 8},
            "schema": SCHEMA_VERSION,
        },
        {"event": "cancelled", "at": 1.5, "task": "alice#1", "token": 2},
    ]


@pytest.mark.parametrize("schema", [0, SCHEMA_VERSION + 1, 99])
def test_another_schema_is_refused_before_any_event_is_read(schema: int) -> None:
    # A later schema may well have more to say in its header and events that are unheard of here.
    header = {"event": "header", "scenario": "x", "seed": 1, "version": "9", "schema": schema, "mood": "sunny"}
    lines = [json.dumps(header).encode(), b'{"event":"unheard_of"}']
    with pytest.raises(InvalidConfig, match=rf"^trace schema must be {SCHEMA_VERSION}, got {schema}$"):
        list(read_trace(lines))


def test_a_bad_line_is_refused_with_its_number_after_the_good_ones_were_read() -> None:
    trace, _ = written(numbered(2))
    reading = read_trace([*lines_of(trace), b'{"event":"cancelled","at":1.0,"task":"alice#1"}'])
    assert [next(reading), next(reading)] == numbered(2)
    with pytest.raises(InvalidConfig, match=r"^trace line 3 must be an event, got b'.*': .*token"):
        next(reading)


@given(headers, headers, st.lists(events, max_size=10))
def test_the_hash_is_of_the_event_lines_alone(one: Header, other: Header, items: list[Any]) -> None:
    trace, digest = written(items, one)
    body = b"".join(lines_of(trace)[1:])
    assert digest == hashlib.sha256(body).hexdigest()
    assert written(items, other)[1] == digest
    assert written(items)[1] == digest


def test_a_writer_with_nowhere_to_write_to_hashes_all_the_same() -> None:
    writer = TraceWriter()
    for event in numbered(3):
        writer.write(event)
    assert writer.sha256() == written(numbered(3))[1]


def test_every_event_counts_in_the_hash_and_so_does_their_order() -> None:
    first, second, third = numbered(3)
    orders = [[], [first], [first, second], [second, first], [first, second, third], [first, first]]
    assert len({written(list(order))[1] for order in orders}) == len(orders)


@pytest.mark.parametrize("count", [0, 1, 511, 512, 513, 1023, 1024, 1025])
def test_a_trace_of_any_length_is_whole(count: int) -> None:
    trace, digest = written(numbered(count))
    assert list(read_trace(lines_of(trace))) == numbered(count)
    assert digest == hashlib.sha256(trace).hexdigest()


@given(st.integers(0, 1_200), st.sets(st.integers(0, 1_200), max_size=8))
def test_batch_boundaries_do_not_matter(count: int, pauses: set[int]) -> None:
    output = io.BytesIO()
    writer = TraceWriter(output)
    for number, event in enumerate(numbered(count)):
        # Asking for the hash on the way ends a batch, as a flush does.
        if number in pauses:
            writer.sha256() if number % 2 else writer.flush()
        writer.write(event)
    assert (writer.sha256(), output.getvalue()) == tuple(reversed(written(numbered(count))))


def test_events_may_be_handed_in_one_by_one_or_several_at_a_time() -> None:
    output, items = io.BytesIO(), numbered(7)
    writer = TraceWriter(output)
    writer.write_all(items[:3])
    writer.write(items[3])
    writer.write_all(items[4:])
    assert (writer.sha256(), output.getvalue()) == tuple(reversed(written(items)))


def test_an_error_text_that_is_not_unicode_is_written_all_the_same() -> None:
    # What an exception says can hold half a surrogate pair, from a file's name for one; the trace must survive it.
    event = ActorRestarted(0.0, "shard/alice", "ValueError: no file \udcff")
    trace, _ = written([Cancelled(0.0, "alice#1", 1), event])
    first, second = read_trace(lines_of(trace))
    assert first == Cancelled(0.0, "alice#1", 1)
    assert isinstance(second, ActorRestarted)
    assert second.error.startswith("ValueError: no file ")
