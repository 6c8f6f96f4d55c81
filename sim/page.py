"""A page by hand: one HTML file with everything in it, that asks for no other file and runs no script."""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

from actors.errors import InvalidConfig
from sim.picture import Picture

__all__ = ["fold", "heading", "page", "paragraph", "picture", "table", "write_page"]

_STYLE = """\
body { max-width: 66rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff; font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; } h2 { font-size: 1.25rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-size: 0.92rem; margin: 0.6rem 0 1.2rem; }
caption { text-align: left; font-weight: 600; padding: 0.3rem 0; }
th, td { padding: 0.25rem 0.7rem; text-align: right; border-bottom: 1px solid #ddd; font-variant-numeric: tabular-nums; }
th { border-bottom: 2px solid #888; font-weight: 600; } th:first-child, td:first-child, .named { text-align: left; }
.begins td { border-top: 2px solid #bbb; }
.scrolls { overflow-x: auto; } figure { margin: 1rem 0; } img { max-width: 100%; height: auto; }
summary { cursor: pointer; font-weight: 600; padding: 0.4rem 0; } .small { color: #555; font-size: 0.88rem; }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """The whole page.

    >>> "<script" in page("a finding", [paragraph("and why")])
    False
    """
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def heading(text: str) -> str:
    """What the next part is about."""
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str, *, small: bool = False) -> str:
    """Some text.

    >>> paragraph("a < b")
    '<p>a &lt; b</p>'
    """
    return f'<p class="small">{escape(text)}</p>' if small else f"<p>{escape(text)}</p>"


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows of text; where several begin alike a thicker line sets them apart.

    >>> print(table("waits", ["user", "p99"], [["alice", "3 s"]]))
    <div class="scrolls"><table><caption>waits</caption>
    <thead><tr><th>user</th><th>p99</th></tr></thead>
    <tbody>
    <tr><td>alice</td><td>3 s</td></tr>
    </tbody></table></div>
    """
    lines = [f'<div class="scrolls"><table><caption>{escape(caption)}</caption>']
    sides = [' class="named"' if name == "policy" else "" for name in head]
    named = "".join(f"<th{side}>{escape(name)}</th>" for name, side in zip(head, sides, strict=True))
    lines.append(f"<thead><tr>{named}</tr></thead>\n<tbody>")
    found = list(rows)
    alike = any(row[0] == after[0] for row, after in pairwise(found))
    before = None
    for row in found:
        begins = ' class="begins"' if alike and row[0] != before else ""
        before = row[0]
        cells = "".join(f"<td{side}>{escape(cell)}</td>" for cell, side in zip(row, sides, strict=True))
        lines.append(f"<tr{begins}>{cells}</tr>")
    return "\n".join([*lines, "</tbody></table></div>"])


def picture(shown: Picture) -> str:
    """A picture, within the page; its finding is said to those who cannot see it."""
    return f'<figure><img src="{shown.data_uri()}" alt="{escape(shown.title)}"></figure>'


def fold(summary: str, parts: Iterable[str]) -> str:
    """What is seen only by who asks for it."""
    return "\n".join([f"<details><summary>{escape(summary)}</summary>", *parts, "</details>"])


def write_page(path: str | Path, text: str) -> None:
    """Write it; InvalidConfig if that cannot be."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidConfig(f"--report must be a file that can be written: {error}") from None
