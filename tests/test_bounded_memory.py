"""What strangers can make up, names of users and kinds, must not fill the memory."""

import pytest

from actors import Notes, Settings
from actors.demand import Demand
from actors.messages import Ready, WorkerClass
from actors.policies import fair


def test_names_that_come_only_once_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each starts where the clock stands, so the clock passes nobody: what is remembered must have a bound of its own."""
    monkeypatch.setattr(fair, "RESTING_MAX", 10)
    notes = Notes("scheduler")
    account = fair.WeightedFair().start(notes, Demand(Settings(), Notes("claims")))
    for number in range(1_000):
        user = f"guest{number}"
        account.activate(user, 0.0)
        account.charge(user, 1.0, 0.0)
        account.deactivate(user)
        account.correct(user, 0.0, 0.0)
    assert len(account._nodes) <= 12
    assert len(notes.under("node/")) <= 12


def test_kinds_that_nobody_can_run_are_forgotten_with_their_last_task() -> None:
    demand = Demand(Settings(), Notes("scheduler"))
    demand.add_class(WorkerClass(frozenset({"work"})), 0.0)
    for number in range(1_000):
        for count in (1, 0):
            demand.hear(Ready("alice", {f"kind{number}": count}, {}, 1), 0.0)
    assert set(demand._kinds.known) <= {"work"}
    assert not demand._users
