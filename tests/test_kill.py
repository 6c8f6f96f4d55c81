"""Kill -9: a real process on a real file, killed at any moment, time and again; judged by what it wrote down itself."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

from actors import Status, Task
from actors.stores.sqlite import SqliteReader

KILLS = 200 if os.environ.get("HYPOTHESIS_PROFILE") == "explore" else 20
LIFE_SECONDS_MAX = 0.5
ROOT = Path(__file__).parent.parent


class Campaign:
    """Lives, one after the other, on one file."""

    def __init__(self, child: "subprocess.Popen[str]") -> None:
        self._child = child

    def kill_after(self, seconds: float) -> None:
        pid = self._begin("live")
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
        assert self._read() == signal.SIGKILL, "it ended by itself"

    def finish(self) -> None:
        self._begin("finish")
        assert self._read() == 0

    def _begin(self, order: str) -> int:
        assert self._child.stdin is not None
        self._child.stdin.write(f"{order}\n")
        self._child.stdin.flush()
        return self._read()

    def _read(self) -> int:
        assert self._child.stdout is not None
        return int(self._child.stdout.readline())


@contextmanager
def campaign(store: Path, log: Path) -> Iterator[Campaign]:
    command = [sys.executable, "-m", "tests.killed_child", f"sqlite:{store}", str(log)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        yield Campaign(child)


def test_nothing_acknowledged_is_lost_or_undone_by_kill_nine(tmp_path: Path) -> None:
    store, log = tmp_path / "tasks.db", tmp_path / "log"
    random = Random(f"kill/{KILLS}")
    with campaign(store, log) as lives:
        for _ in range(KILLS):
            lives.kill_after(random.uniform(0.0, LIFE_SECONDS_MAX))
        lives.finish()
    with closing(SqliteReader(store)) as reader:
        tasks = {task.id: task for task in reader.tasks()}
    judge(log.read_text().splitlines(), tasks)


def judge(lines: list[str], tasks: dict[str, Task]) -> None:
    said = [line.split(" ", 2) for line in lines]
    accepted = {words[1] for words in said if words[0] == "accepted"}
    ended = {words[1]: words[2] for words in said if words[0] == "ended"}
    runs = Counter(words[1] for words in said if words[0] == "ran")
    assert len(accepted) > KILLS and len(ended) > KILLS, "the lives were too short to show anything"
    assert any(task.attempts > 1 for task in tasks.values()), "nobody was killed in the middle of anything"
    assert accepted <= tasks.keys()
    for task in tasks.values():
        assert task.status is Status.COMPLETED
        assert [attempt.outcome for attempt in task.history].count("completed") == 1
        # A claim is stored before its task is run: there are never more executions than attempts.
        assert runs[task.id] <= task.attempts == len(task.history) <= KILLS + 1
        assert [attempt.token for attempt in task.history] == sorted({attempt.token for attempt in task.history})
        assert ended.get(task.id, task.result) == task.result
    assert sorted(task.sequence for task in tasks.values()) == sorted({task.sequence for task in tasks.values()})
