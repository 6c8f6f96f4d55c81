"""One figure, and how it is shown."""

import json

import attrs


@attrs.frozen
class Figure:
    """Something that was measured, and against what."""

    name: str
    value: float
    unit: str
    against: str
    ratio: float

    def as_json(self) -> str:
        """One JSON object on a line."""
        return json.dumps(attrs.asdict(self))

    def as_text(self) -> str:
        """A line for people."""
        return f"{self.name:<36} {self.value:>14,.2f} {self.unit:<10} {self.ratio:>8.3f} of {self.against}"
