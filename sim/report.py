"""Pictures of runs and comparisons, and reports made of them. Drawing needs the `lab` extra; matplotlib is imported when it is done.

Each function of a picture takes what is to be shown and returns a `Picture`: a notebook shows it by itself, `save` writes
it. Its title says the finding, worked out from the data. Where there are more users than can be told apart, those who used most and
those who waited longest are shown by name, the names of one tenant as one, and the rest together as others.
"""

from collections.abc import Mapping

from sim.curve import Curve
from sim.history import History
from sim.picture import Picture
from sim.pictures.changes import changes_picture
from sim.pictures.graphs import messages_picture, steals_picture
from sim.pictures.heatmap import heatmap_picture
from sim.pictures.over_time import backlog_picture, service_picture
from sim.pictures.timeline import timeline_picture
from sim.pictures.waits import waits_picture

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
