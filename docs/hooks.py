"""What `make docs` does beside MkDocs: examples in docstrings are fenced, and fields are shown with their defaults."""

import re
from typing import Any

import griffe

# An example ends at the first empty line, as it does for doctest.
EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


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
