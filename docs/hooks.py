"""What `make docs` does beside MkDocs: examples in docstrings are fenced, and a page still to come has its place."""

import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig

STILL_TO_COME = "performance.md"
# An example ends at the first empty line, as it does for doctest.
EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """MkDocs asks whether the configuration is to be changed."""
    if not (Path(config.docs_dir) / STILL_TO_COME).exists():
        for section in config.nav or []:
            for pages in section.values():
                if isinstance(pages, list):
                    pages[:] = [page for page in pages if STILL_TO_COME not in page.values()]
    return config


class AsPeopleReadIt(griffe.Extension):
    """Examples are examples, though Markdown takes `>>>` for three quotations; fields have their defaults."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Griffe has read something from the source."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Griffe has read an attribute."""
        value = attr.value
        if isinstance(value, griffe.ExprCall) and str(value.function) == "attrs.field":
            given = {
                argument.name: argument.value
                for argument in value.arguments
                if isinstance(argument, griffe.ExprKeyword)
            }
            default = given.get("default")
            attr.value = None if str(default) == "_UNSAID" else default


def fenced(text: str) -> str:
    """The text of a docstring with a fence around each example."""
    return EXAMPLE.sub(lambda example: f"```pycon\n{example.group()}\n```", text)
