"""Pictures of runs and comparisons, and reports made of them. Drawing needs the `lab` extra; matplotlib is imported when it is done.

Each function of a picture takes what is to be shown and returns a `Picture`: a notebook shows it by itself, `save` writes
it. Its title says the finding, worked out from the data. Where there are more users than can be told apart, those who used most and
those who waited longest are shown by name, the names of one tenant as one, and the rest together as others.
"""

from collections.abc import Mapping
from pathlib import Path

from actors.version import installed_version
from sim.comparison import Comparison
from sim.curve import Curve
from sim.history import History
from sim.page import fold, heading, page, paragraph, picture, table, write_page
from sim.picture import Picture
from sim.pictures.changes import changes_picture
from sim.pictures.graphs import messages_picture, steals_picture
from sim.pictures.heatmap import heatmap_picture
from sim.pictures.over_time import backlog_picture, service_picture
from sim.pictures.timeline import timeline_picture
from sim.pictures.waits import waits_picture
from sim.side_by_side import (
    CHANGE_HEAD,
    RUN_HEAD,
    USER_HEAD,
    change_rows,
    difference_head,
    difference_rows,
    method,
    run_rows,
    user_rows,
)
from sim.what_if import WhatIf

__all__ = [
    "backlog_picture",
    "changes_picture",
    "heatmap_picture",
    "messages_picture",
    "pictures_of_run",
    "service_picture",
    "steals_picture",
    "timeline_picture",
    "waits_picture",
    "write_change_report",
    "write_report",
]


def pictures_of_run(history: History, ideal: Mapping[str, Curve] | None = None) -> list[Picture]:
    """Every picture that there is of one run; of steals only if there were any."""
    shown = [
        backlog_picture(history),
        service_picture(history, ideal=ideal),
        waits_picture(history),
        timeline_picture(history),
    ]
    return [*shown, *([steals_picture(history)] if any(stint.stolen for stint in history.stints()) else [])]


def write_report(comparison: Comparison, path: str | Path) -> None:
    """Write a page about a comparison: what was found, the tables, the heat map, and the pictures of each policy's run.

    The pictures of runs are there if the comparison was made with `pictures=True`. The page is one file and asks for no other.
    """
    several = len(comparison.scenarios) > 1
    where = f"{len(comparison.scenarios)} scenarios" if several else comparison.scenarios[0]
    title = f"{len(comparison.policies)} policies on {where}"
    parts = [paragraph(method(comparison))]
    for scenario in comparison.scenarios:
        parts += [heading(scenario)] if several else []
        parts += _section(comparison, scenario)
    seeds = ", ".join(map(str, comparison.seeds))
    parts.append(paragraph(f"Made by evenhand {installed_version()}; seeds {seeds}.", small=True))
    write_page(path, page(title, parts))


def write_change_report(what: WhatIf, path: str | Path) -> None:
    """Write a page about what a change of terms would have meant for each user: the finding, the picture, the table."""
    shown = changes_picture(what)
    parts = [
        paragraph(f"The work of {what.recording} done again: before, {what.before}; after, {what.after}."),
        *([paragraph(f"Replayed as recorded, {what.fidelity.in_words()}.")] if what.fidelity is not None else []),
        picture(shown),
        table("Waits for the first start", CHANGE_HEAD, change_rows(what, users_max=len(what.users))),
        paragraph(f"Made by evenhand {installed_version()}.", small=True),
    ]
    write_page(path, page(f"{what.recording}: what would change, and for whom", parts))


def _section(comparison: Comparison, scenario: str) -> list[str]:
    parts = [
        picture(heatmap_picture(comparison, scenario=scenario)),
        table("Each user", USER_HEAD, user_rows(comparison, scenario)),
        table("All users", RUN_HEAD, run_rows(comparison, scenario)),
        paragraph(_LAG_IN_WORDS, small=True),
    ]
    if len(comparison.policies) > 1:
        rows = difference_rows(comparison, scenario)
        parts.append(table("Differences, seed by seed", difference_head(comparison), rows))
    for policy in comparison.policies:
        shown = [one for where, whose, one in comparison.pictures if (where, whose) == (scenario, policy)]
        if shown:
            parts.append(fold(f"{policy}, under seed {comparison.seeds[0]}", [picture(one) for one in shown]))
    return parts


_LAG_IN_WORDS = (
    "The worst lag is by how many seconds of one worker's time any user ever fell behind the ideal fluid share: what it would have "
    "been given if work flowed to everybody at once by weight. Jain's index is 1 where all users were given the same for their "
    "weight while all of them had work waiting."
)
