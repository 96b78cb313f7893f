"""Resources, and templates of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....client.contract.changes import variables_of
from ..finding import Found, Looked, rule


@rule("uri-not-absolute", "error")
def not_absolute(looked: Looked) -> Iterator[Found]:
    """The URI of a resource or a template has no scheme."""
    for where, item in looked.each("resource", "template"):
        if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", str(item.get("uri", item.get("uriTemplate")))):
            yield Found(
                where,
                "its URI has no scheme, so clients cannot read it",
                "add a scheme, for example notes://today",
            )


@rule("template-variables", "warning")
def variables(looked: Looked) -> Iterator[Found]:
    """A template has variables that clients cannot fill in: unnamed, named twice, oddly named, or none."""
    for where, item in looked.each("template"):
        template = str(item.get("uriTemplate"))
        names = variables_of(template)
        rest = re.sub(r"\{[^{}]*\}", "", template)
        odd = [name for name in names if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)]
        if "{" in rest or "}" in rest:
            yield Found(where, "its braces are unbalanced", "close each brace")
        elif not names:
            yield Found(where, "it has no variables", "declare it as a resource")
        elif odd:
            yield Found(
                where,
                f"{', '.join(map(repr, odd))} is not a valid variable name",
                "use letters, digits and _",
            )
        elif len(set(names)) < len(names):
            yield Found(where, "it has the same variable twice", "use each variable once")
