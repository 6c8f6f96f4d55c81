"""Submitting into a file that another process owns."""

import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio

from actors import InvalidTask, NewTask, Runtime, StoreFailed, open_runtime
from actors.stores.inbox import submit_into
from actors.stores.sqlite import SqliteReader, SqliteStore

ROOT = Path(__file__).parent.parent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.db"
    SqliteStore(path).close()
    return path


async def ended(runtime: Runtime, task_id: str) -> Any:
    with trio.fail_after(20):
        while not any(task.id == task_id for task in runtime.tasks(limit=None)):
            await trio.sleep(0.01)
        return (await runtime.wait(task_id)).result


def rows(path: Path) -> list[tuple[Any, ...]]:
    with closing(SqliteReader(path)) as reader:
        return reader._connection.execute("SELECT id, error FROM inbox ORDER BY number").fetchall()


async def echo(payload: Any) -> Any:
    return payload


async def test_the_owner_runs_what_another_process_submits(path: Path) -> None:
    program = (
        "import sys; from actors import NewTask; from actors.stores.inbox import submit_into\n"
        "print(*submit_into(sys.argv[1], [NewTask('echo', {'n': 1}, user='alice', priority='high')], 0.0))"
    )
    async with open_runtime(f"sqlite:{path}") as runtime:
        runtime.handler("echo")(echo)
        done = await trio.run_process([sys.executable, "-c", program, str(path)], capture_stdout=True, cwd=ROOT)
        assert await ended(runtime, done.stdout.decode().strip()) == {"n": 1}
    assert rows(path) == []


async def test_what_was_submitted_while_nobody_owned_it_is_found_later_and_comes_in_once(path: Path) -> None:
    ids = submit_into(path, [NewTask("echo", number, user="alice") for number in range(300)], 0.0)
    assert [row[0] for row in rows(path)] == ids
    for _ in range(2):
        async with open_runtime(f"sqlite:{path}") as runtime:
            runtime.handler("echo")(echo)
            assert [await ended(runtime, task_id) for task_id in (ids[0], ids[-1])] == [0, 299]
    with closing(SqliteReader(path)) as reader:
        assert [task.id for task in sorted(reader.tasks(), key=lambda task: task.sequence)] == ids
    assert rows(path) == []


async def test_a_known_key_means_the_task_that_is_there_and_a_refusal_says_why(path: Path) -> None:
    async with open_runtime(f"sqlite:{path}", admitted_max=1, admission_share=None) as runtime:
        known = await runtime.submit("later", user="alice", idempotency_key="once")
        submit_into(path, [NewTask("later", user="alice", idempotency_key="once")], 0.0)
        (refused,) = submit_into(path, [NewTask("later", user="bob")], 0.0)
        with trio.fail_after(20):
            while rows(path) != [(refused, "admitted tasks must be at most 1, got one more")]:
                await trio.sleep(0.01)
        assert [task.id for task in runtime.tasks()] == [known.id]
    async with open_runtime(f"sqlite:{path}") as runtime:
        await trio.sleep(0.3)
        assert runtime.stats().pending == 1, "what was refused is not tried again"


def test_what_is_no_task_is_refused_before_it_is_written(path: Path) -> None:
    with pytest.raises(InvalidTask, match=r"^payload must be"):
        submit_into(path, [NewTask("work"), NewTask("work", {1, 2})], 0.0)
    with pytest.raises(InvalidTask, match=r"^persist must be true"):
        submit_into(path, [NewTask("work", persist=False)], 0.0)
    assert rows(path) == []
    with pytest.raises(StoreFailed, match="could not be opened: unable to open database file"):
        submit_into(path.with_name("none.db"), [NewTask("work")], 0.0)


def test_the_inbox_is_read_by_an_index(path: Path) -> None:
    query = "SELECT number, submit FROM inbox WHERE error IS NULL AND number > ? ORDER BY number LIMIT ?"
    with closing(SqliteReader(path)) as reader:
        (step,) = reader._connection.execute(f"EXPLAIN QUERY PLAN {query}", (0, 1)).fetchall()
    assert step[3].startswith("SEARCH inbox USING")
