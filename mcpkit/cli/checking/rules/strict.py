"""Strict modes of models, for those who ask for them."""

from __future__ import annotations

from collections.abc import Iterator

from ....protocol.jsonrpc import Json
from ....schema.json_schema import nodes
from ..finding import Found, Looked, rule
from ..hosts import STRICT, Strict, names_of, schema_of
from .schemas import is_recursive


@rule("strict-mode", "warning")
def strict_mode(looked: Looked) -> Iterator[Found]:
    """A tool cannot be used in a strict mode that `--host` selects, by its documentation."""
    for host in looked.strict_hosts:
        mode = STRICT[host]
        for where, tool in looked.each("tool"):
            for what, cure in _refused(mode, schema_of(tool)):
                yield Found(where, f"{mode.host}'s strict mode {what}", cure)


def _refused(mode: Strict, root: Json) -> Iterator[tuple[str, str]]:
    parts = list(nodes(root))
    refused = sorted({key for schema in parts for key in schema if key in mode.refused})
    if refused:
        yield (
            f"rejects {', '.join(f'`{key}`' for key in refused)}",
            "describe the constraint in a description",
        )
    objects = [schema for schema in parts if schema.get("type") == "object"]
    if any(schema.get("additionalProperties") is not False for schema in objects):
        yield "requires `additionalProperties: false` in each object", "use models instead of maps"
    if mode.needs_all and any(
        schema_of(each, "properties").keys() - names_of(each, "required") for each in objects
    ):
        yield "requires each property to be required", "make optional properties nullable and required"
    if not mode.allows_recursion and is_recursive(root):
        yield "rejects recursive schemas", "use a fixed number of levels"
