"""A picture: a finding, and the PNG that shows it. Made by sim/report.py; to hold or show one nothing needs matplotlib."""

from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import attrs

from actors.errors import InvalidConfig

__all__ = ["Picture"]


@attrs.frozen
class Picture:
    """A picture that a notebook shows by itself, that goes into a file, or within a page.

    >>> Picture("backlog", "nobody waits", b"...").data_uri()
    'data:image/png;base64,Li4u'
    """

    name: str
    """What sort of picture it is: `backlog`, `timeline`, ..."""
    title: str
    """What it shows, as it stands above it."""
    png: bytes = attrs.field(repr=False)

    def save(self, path: str | Path) -> None:
        """Write it to a file; InvalidConfig if that cannot be."""
        try:
            Path(path).write_bytes(self.png)
        except OSError as error:
            raise InvalidConfig(f"a picture must go to a file that can be written: {error}") from None

    def data_uri(self) -> str:
        """The whole of it as an address, for a page that needs no other file."""
        return f"data:image/png;base64,{b64encode(self.png).decode()}"

    def as_json(self) -> dict[str, str]:
        """As plain data, for a line of JSON."""
        return {"name": self.name, "title": self.title, "png": b64encode(self.png).decode()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Picture":
        """What `as_json` made of one.

        >>> picture = Picture("backlog", "nobody waits", b"...")
        >>> Picture.from_json(picture.as_json()) == picture
        True
        """
        return cls(data["name"], data["title"], b64decode(data["png"]))

    def _repr_png_(self) -> bytes:
        return self.png
