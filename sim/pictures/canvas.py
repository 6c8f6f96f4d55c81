"""What all pictures have in common: matplotlib, imported only here and only when something is drawn; size, type and title.

Figures are made without pyplot, so nothing is kept that somebody would have to close, and no window system is asked for.
"""

import math
import textwrap
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from io import BytesIO
from typing import TYPE_CHECKING, Any, Self

from actors.errors import InvalidConfig
from sim.picture import Picture
from sim.words import time_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["INK", "STEPS", "Canvas", "count_axis", "duration_axis", "require", "time_axis"]

INK = "#222222"

WIDTH_INCHES = 9.0
DOTS_PER_INCH = 110
_TITLE_CHARACTERS = 84
_COLOURS_MAX = 128
_RATIO_SEEN = 30
"""How much smaller something may be and still be seen beside the largest."""
_WAITS_SEEN = 2e4
_SHORTEST_SECONDS = 1e-4
STEPS = {
    1e-4: "0.1 ms",
    1e-3: "1 ms",
    1e-2: "10 ms",
    0.1: "0.1 s",
    1.0: "1 s",
    10.0: "10 s",
    60.0: "1 min",
    600.0: "10 min",
    3_600.0: "1 h",
    36_000.0: "10 h",
    86_400.0: "1 d",
    864_000.0: "10 d",
    8_640_000.0: "100 d",
}
"""Waits in seconds that are marked on an axis, and how."""

_STYLE = {
    "font.size": 10.0,
    "font.family": "DejaVu Sans",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#888888",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "hatch.linewidth": 0.6,
    # A user may be called what it likes: a $ is a $, and a letter that the type lacks is a box, not a warning.
    "text.parse_math": False,
}


def _smaller(drawn: BytesIO) -> bytes:
    """The same with as many colours as such a picture has, in a third of the bytes: reports and notebooks hold many."""
    from PIL import Image

    written = BytesIO()
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(_COLOURS_MAX, dither=Image.Dither.NONE).save(written, "png", optimize=True)
    return written.getvalue()


class Canvas:
    """A figure on the way to becoming a picture: drawn within its block, where the style is that of all pictures."""

    def __init__(self, height_inches: float, rows: int = 1, columns: int = 1, **grid: Any) -> None:
        self._height_inches = height_inches
        self._shape = (rows, columns)
        self._grid = grid
        self._style = ExitStack()
        self.figure: Figure
        self.axes: list[Axes]

    def __enter__(self) -> Self:
        matplotlib = _matplotlib()
        from matplotlib.figure import Figure

        self._style.enter_context(matplotlib.rc_context(_STYLE))
        self._style.enter_context(warnings.catch_warnings())
        # What the type has no letter for is a box.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        size = (WIDTH_INCHES, self._height_inches)
        self.figure = Figure(figsize=size, dpi=DOTS_PER_INCH, facecolor="white", layout="constrained")
        self.axes = list(self.figure.subplots(*self._shape, squeeze=False, **self._grid).flat)
        return self

    def __exit__(self, *_: object) -> None:
        self._style.close()

    def legend(self) -> None:
        """Who is who, beside what is drawn, where it covers nothing; nothing if nobody is there."""
        if self.axes[0].get_legend_handles_labels()[0]:
            self.axes[0].figure.legend(loc="outside right center", fontsize=9)

    def finished(self, name: str, title: str) -> Picture:
        """The picture, below the finding that it shows."""
        said = textwrap.fill(title, _TITLE_CHARACTERS)
        self.figure.suptitle(said, x=0.01, ha="left", fontsize=11.5, fontweight="bold", color=INK)
        drawn = BytesIO()
        self.figure.savefig(drawn, format="png")
        return Picture(name, title, _smaller(drawn))


def time_axis(axes: "Axes", began_at: float, ended_at: float, what: str = "time since the start") -> float:
    """Label the x axis in the unit that fits; what times are to be divided by."""
    unit, name = time_unit(ended_at - began_at)
    axes.set_xlabel(f"{what} ({name})")
    if ended_at > began_at:
        axes.set_xlim(began_at / unit, ended_at / unit)
    return unit


def duration_axis(axes: "Axes", longest: float) -> None:
    """Make the x axis one of waits, from none at all by steps of about ten to the longest."""
    longest = max(longest, _SHORTEST_SECONDS)
    steps = [step for step in STEPS if longest / _WAITS_SEEN <= step <= longest]
    axes.set_xscale("symlog", linthresh=steps[0], linscale=0.35)
    axes.set_xlim(-steps[0] * 0.08, longest * 1.3)
    axes.set_xticks([0.0, *steps], labels=["0", *(STEPS[step] for step in steps)])
    axes.minorticks_off()


def count_axis(axes: "Axes", peaks: Sequence[float]) -> None:
    """Make the y axis one of counts: by powers of ten where the small ones would not be seen beside the large."""
    largest, smallest = max(peaks, default=0.0), min((peak for peak in peaks if peak > 0), default=0.0)
    if largest <= _RATIO_SEEN * smallest or largest <= _RATIO_SEEN:
        axes.set_ylim(0, max(1.0, largest * 1.15))
        axes.yaxis.set_major_formatter("{x:,.0f}")
        return
    axes.set_yscale("symlog", linthresh=1.0, linscale=0.35)
    axes.set_ylim(0, largest * 4)
    steps = [0.0, *(10.0**power for power in range(math.ceil(math.log10(largest)) + 1))]
    axes.set_yticks(steps, labels=[f"{step:,.0f}" for step in steps])
    axes.minorticks_off()


def require() -> None:
    """Nothing, if pictures can be drawn here; else InvalidConfig says which extra is missing."""
    _matplotlib()


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise InvalidConfig("pictures need the lab extra: pip install 'evenhand[lab]'") from None
    return matplotlib
