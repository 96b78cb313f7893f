"""Strict modes of models, for those who ask for them."""

from __future__ import annotations

from collections.abc import Iterator

from ....protocol.types import Json
from ....schema.references import nodes
from ..finding import Found, Looked, rule
from ..hosts import STRICT, Strict, names_of, schema_of
from .schemas import is_recursive


@rule("strict-mode", "warning")
def strict_mode(looked: Looked) -> Iterator[Found]:
    """A tool cannot be used in a strict mode that is asked for by `--host`, as documented there."""
    for host in looked.strict_hosts:
        mode = STRICT[host]
        for where, tool in looked.each("tool"):
            for what, cure in _refused(mode, schema_of(tool)):
                yield Found(where, f"{mode.host}'s strict mode {what}", cure)


def _refused(mode: Strict, root: Json) -> Iterator[tuple[str, str]]:
    parts = list(nodes(root))
    refused = sorted({key for schema in parts for key in schema if key in mode.refused})
    if refused:
        yield f"refuses {', '.join(f'`{key}`' for key in refused)}", "say in a description what they demand"
    objects = [schema for schema in parts if schema.get("type") == "object"]
    if any(schema.get("additionalProperties") is not False for schema in objects):
        yield "wants `additionalProperties: false` of each object", "take models, and no maps"
    if mode.needs_all and any(
        schema_of(each, "properties").keys() - names_of(each, "required") for each in objects
    ):
        yield "wants each property to be required", "take null where nothing is given, and require it"
    if not mode.allows_recursion and is_recursive(root):
        yield "refuses schemas that contain themselves", "take as many levels as there are"
