"""The command `evenhand db`."""

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from actors.stores.contract import Batch
from actors.stores.sqlite import SqliteStore
from actors.task import Cause, Status
from sim.cli import main
from tests.test_journal import task

FAILED = task(2, status=Status.FAILED, completed_at=5.0, attempts=1, error="ValueError: boom", cause=Cause.FAILED)
DONE = task(3, status=Status.COMPLETED, completed_at=6.0, kind="mail", user="bob", result={"a": 1})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.db"
    with closing(SqliteStore(path)) as store:
        tasks = {one.id: one for one in (task(1), FAILED, DONE)}
        store.write(Batch(at=7.0, tasks=tasks, notes={("queue", "sequence"): 3}))
    return path


@pytest.fixture
def evenhand(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["db", *map(str, arguments)])
        captured = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return code, captured.out, captured.err

    return run


def test_stats_say_how_many_stand_where(evenhand: Any, path: Path) -> None:
    status, out, _ = evenhand(path, "stats")
    said = json.loads(out)
    assert status == 0 and said["tasks"] == {
        "pending": 1,
        "in_progress": 0,
        "completed": 1,
        "failed": 1,
        "cancelled": 0,
    }
    assert (said["inbox"], said["last_at"]) == ({"waiting": 0, "refused": 0}, 7.0)


def test_list_show_and_explain_tell_of_tasks(evenhand: Any, path: Path) -> None:
    _, out, _ = evenhand(path, "list")
    assert [line.split()[0] for line in out.splitlines()] == ["t1", "t3", "t2"]
    _, out, _ = evenhand(path, "list", "--status", "failed", "--user", "alice")
    assert out == "t2 failed work alice attempts=1 ValueError: boom\n"
    _, out, _ = evenhand(path, "list", "--limit", 1, "--offset", 1)
    assert out.startswith("t3 completed mail bob")
    _, out, _ = evenhand(path, "show", "t3")
    assert json.loads(out)["result"] == {"a": 1}
    _, out, _ = evenhand(path, "explain", "t2")
    assert re.fullmatch(r"alice#2 failed [0-9.]+ s ago: ValueError: boom\.\n", out)
    status, _, err = evenhand(path, "show", "t9")
    assert status == 1 and err == "evenhand: no task has id 't9'\n"
    assert evenhand(path, "show")[0] == 2


def test_requeue_puts_a_dead_letter_back(evenhand: Any, path: Path) -> None:
    assert evenhand(path, "requeue", "t2", "--reset-retries")[:2] == (0, "alice#2 is pending again\n")
    with closing(SqliteStore(path)) as store:
        back = store.get("t2")
    assert back is not None and (back.status, back.attempts, back.requeues) == (Status.PENDING, 0, 1)
    status, _, err = evenhand(path, "requeue", "t3")
    assert status == 1 and "a task must be failed to be requeued without its runtime, got completed" in err


def test_purge_removes_what_it_is_told(evenhand: Any, path: Path) -> None:
    assert evenhand(path, "purge", "--user", "bob")[1] == "0 tasks removed\n"
    assert evenhand(path, "purge")[1] == "1 tasks removed\n"
    assert evenhand(path, "purge", "--status", "completed")[1] == "1 tasks removed\n"
    status, _, err = evenhand(path, "purge", "--status", "pending")
    assert status == 1 and "tasks must have ended to be purged, got status pending" in err
    assert evenhand(path, "list")[1].split()[0] == "t1"


def test_vacuum_makes_a_file_smaller(evenhand: Any, path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        many = {f"t{number}": task(number, payload="x" * 1_000) for number in range(10, 1_000)}
        store.write(Batch(tasks=many))
        store.write(Batch(removed=dict.fromkeys(many)))
    status, out, _ = evenhand(path, "vacuum")
    before, _, _, now, _ = out.replace(",", "").split(maxsplit=4)[0:5]
    assert status == 0 and path.stat().st_size < int(before) and now


def test_what_changes_a_file_needs_to_own_it_and_what_reads_does_not(evenhand: Any, path: Path) -> None:
    with closing(SqliteStore(path)):
        for action in ("stats", "list", "check", "export"):
            assert evenhand(path, action)[0] == 0
        for arguments in (("requeue", "t2"), ("purge",), ("vacuum",)):
            status, _, err = evenhand(path, *arguments)
            assert status == 1 and "is owned by process" in err


def test_check_finds_what_is_wrong(evenhand: Any, path: Path) -> None:
    assert evenhand(path, "check")[:2] == (0, "no faults\n")
    with closing(SqliteStore(path)) as store:
        store._connection.execute("UPDATE tasks SET user = 'eve' WHERE id = 't1'")
        store._connection.execute("UPDATE tasks SET record = '{' WHERE id = 't2'")
    status, out, _ = evenhand(path, "check")
    first, second, last = out.splitlines()
    assert status == 1 and last == "2 faults"
    assert first.startswith("row 1: its columns must be [1, 't1', 'alice'") and "row 2: a stored task must be" in second


def test_what_is_exported_can_be_imported(evenhand: Any, path: Path, tmp_path: Path) -> None:
    copy, lines = tmp_path / "copy.db", tmp_path / "lines.jsonl"
    assert evenhand(path, "export", lines)[0] == 0
    assert evenhand(copy, "import", lines)[:2] == (0, "3 tasks imported\n")
    _, first, _ = evenhand(path, "export")
    _, second, _ = evenhand(copy, "export")
    assert first == second == lines.read_text() and len(first.splitlines()) == 5
    status, _, err = evenhand(copy, "import", lines)
    assert status == 1 and "must be empty to be imported into, got 3 tasks" in err
    assert evenhand(path, "export", lines)[0] == 2, "nothing is overwritten"
    lines.write_text("{}\n")
    assert "line 1: evenhand_store must be 1, got None" in evenhand(tmp_path / "third.db", "import", lines)[2]


def test_a_file_that_is_not_there_is_not_made(evenhand: Any, tmp_path: Path) -> None:
    for action in ("stats", "purge"):
        status, _, err = evenhand(tmp_path / "none.db", action)
        assert status == 1 and err.endswith("none.db must be a file, got none\n")
    assert list(tmp_path.iterdir()) == []
