"""Whom a picture shows, and in which colour: a few users by name, the names of a tenant as one, the rest as others.

Shown by name are those who used most and those who waited longest. Colours are Okabe's and Ito's, which people with any
sort of colour vision can tell apart; lines differ in their dashes too.
"""

import math
from collections.abc import Mapping, Sequence

import attrs

from sim.groups import percentile
from sim.history import History
from sim.outcome import tenants_of

__all__ = ["Party", "parties_of", "shown_users"]

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")
_DASHES = ("-", (0, (6, 2)), "-.", (0, (2, 1)), (0, (8, 2, 2, 2)), (0, (4, 1)), (0, (1, 1)))
OTHERS_COLOUR = "#9a9a9a"
_LABEL_MAX = 28


@attrs.frozen
class Party:
    """One user, or several that are shown as one."""

    label: str
    members: tuple[str, ...]
    colour: str
    dashes: object
    is_rest: bool = False
    """Whether these are those who are not shown by name."""


def parties_of(history: History, users_max: int = 7, spoken_of: str | None = None) -> list[Party]:
    """Who is shown, in the order of the scenario, others last; of whom the title speaks is among those named."""
    waits = history.waits()
    p99 = {user: percentile(found, 0.99) or 0.0 for user, found in waits.items()}
    groups = shown_users(history.service(), p99, users_max, spoken_of)
    return [
        Party(
            _shortened(label),
            tuple(members),
            OTHERS_COLOUR if label.startswith("others (") else _COLOURS[number % len(_COLOURS)],
            ":" if label.startswith("others (") else _DASHES[number % len(_DASHES)],
            is_rest=label.startswith("others ("),
        )
        for number, (label, members) in enumerate(groups.items())
    ]


def _shortened(label: str) -> str:
    """So long that there is room for something beside it.

    >>> _shortened("somebody-with-a-very-long-name@example.org")
    'somebody-with-a…example.org'
    """
    return label if len(label) <= _LABEL_MAX else f"{label[:15]}…{label[-11:]}"


def shown_users(
    service: Mapping[str, float], p99: Mapping[str, float], users_max: int, spoken_of: str | None = None
) -> dict[str, Sequence[str]]:
    """Which users are shown by name, and which together: at most so many groups.

    >>> service = {"a": 9.0, "b": 1.0, "c": 2.0, "d": 3.0, "t/1": 3.0, "t/2": 4.0}
    >>> shown_users(service, {"b": 99.0}, users_max=4)
    {'a': ['a'], 'b': ['b'], 't/*': ['t/1', 't/2'], 'others (2)': ['c', 'd']}
    """
    users = list(service)
    if len(users) <= users_max:
        return {user: [user] for user in users}
    tenant_of = {user: tenant for tenant, members in tenants_of(users).items() for user in members}
    groups: dict[str, Sequence[str]] = {}
    for user in users:
        group = tenant_of.get(user, user)
        groups[group] = [*groups.get(group, []), user]
    if len(groups) <= users_max:
        return groups
    used = {label: math.fsum(service[user] for user in members) for label, members in groups.items()}
    waited = {label: max(p99.get(user, 0.0) for user in members) for label, members in groups.items()}
    ranks = dict.fromkeys(groups, len(groups))
    for measured in (used, waited):
        for rank, label in enumerate(sorted(groups, key=lambda label: -measured[label])):
            ranks[label] = min(ranks[label], rank)
    named = set(sorted(groups, key=lambda label: (spoken_of not in groups[label], ranks[label]))[: users_max - 1])
    others = [user for label, members in groups.items() if label not in named for user in members]
    shown = {label: members for label, members in groups.items() if label in named}
    return shown | {f"others ({len(others)})": others}
