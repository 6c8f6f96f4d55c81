"""The site that `make docs` builds: without a warning, whole, and with nothing fetched from other hosts."""

import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import actors
import sim

pytest.importorskip("mkdocs", reason="the site needs the docs extra: pip install 'evenhand[docs]'")
pytest.importorskip("mkdocstrings", reason="the site needs the docs extra: pip install 'evenhand[docs]'")

ROOT = Path(__file__).parent.parent
REFERENCE = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
LOADS = {"audio", "embed", "iframe", "img", "input", "link", "object", "script", "source", "track", "video"}
"""Elements that fetch what they name, without a click."""


def built_site(folder: Path) -> Path:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stdout + built.stderr
    return folder


class Loaded(HTMLParser):
    """The addresses that a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in LOADS:
            self.addresses += [value for name, value in attrs if name in ("href", "src", "srcset", "data") and value]


def loaded_by(html: str) -> list[str]:
    parser = Loaded()
    parser.feed(html)
    return [
        address for address in parser.addresses if re.match(r"\w+:|//", address) and not address.startswith("data:")
    ]


def test_what_is_fetched_from_elsewhere_is_found() -> None:
    page = (
        '<link href="https://a.example/x.css"><script src="//b.example/x.js"></script><a href="https://c.example">c</a>'
    )
    assert loaded_by(page + '<img src="x.png">') == ["https://a.example/x.css", "//b.example/x.js"]


def check_pages(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    assert {str(page.relative_to(site)): found for page in pages if (found := loaded_by(page.read_text("utf-8")))} == {}
    # The theme would load a library for diagrams, and ask a host about a repository, if a page had one.
    for page in pages:
        assert not re.search(r'class="mermaid"|data-md-component="source"', page.read_text("utf-8")), page


def check_style_sheets(site: Path) -> None:
    sheets = list(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        assert not re.search(r"(url\(|@import)\s*[\"']?(\w+:)?//", sheet.read_text("utf-8")), sheet


def check_search(site: Path) -> None:
    assert "Fairness in plain words" in (site / "search" / "search_index.json").read_text("utf-8")


def check_reference(site: Path) -> None:
    """Examples of docstrings are shown as examples, and not as quotations."""
    page = (site / "reference" / "simulator.html").read_text("utf-8")
    assert '<span class="gp">&gt;&gt;&gt; </span>' in page
    assert "<blockquote>" not in page
    # Fields of attrs classes are shown with their defaults, and not with how they are validated.
    options = re.sub(r"<[^>]+>", "", (site / "reference" / "options.html").read_text("utf-8"))
    assert "workers: int = 16" in options
    assert "attrs.field" not in options and "_UNSAID" not in options


def test_the_site_builds_without_a_warning_and_fetches_nothing_from_other_hosts(tmp_path: Path) -> None:
    """One test, because building takes seconds."""
    site = built_site(tmp_path)
    check_pages(site)
    check_style_sheets(site)
    check_search(site)
    check_reference(site)


@pytest.mark.parametrize(
    ("package", "name"), [(package.__name__, name) for package in (actors, sim) for name in package.__all__]
)
def test_every_public_name_is_in_the_reference_once(package: str, name: str) -> None:
    assert len(re.findall(rf"^::: {package}\.{name}$", REFERENCE, re.MULTILINE)) == 1


@pytest.fixture(scope="module")
def hooks() -> Any:
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_examples_in_docstrings_are_fenced_up_to_the_first_empty_line(hooks: Any) -> None:
    text = "Adds.\n\n>>> 1 + 1\n2\n>>> def f():\n...     pass\n\nSo it does."
    assert hooks.fenced(text) == "Adds.\n\n```pycon\n>>> 1 + 1\n2\n>>> def f():\n...     pass\n```\n\nSo it does."
    assert hooks.fenced("no example") == "no example"
