"""Summaries of the schemas of arguments: types in words, signatures, usage."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ..protocol.jsonrpc import Json, is_array, is_object
from ..schema.json_schema import resolved

_MAX_DEPTH: Final = 8
_MAX_VALUES: Final = 12
"""Values of an enumeration that a summary lists."""

_IMPLIED_TYPES: Final = {
    "properties": "object",
    "additionalProperties": "object",
    "items": "array",
    "prefixItems": "array",
    "minLength": "string",
    "maxLength": "string",
    "pattern": "string",
    "format": "string",
    "minimum": "number",
    "maximum": "number",
}
"""Types that keywords imply in a schema without `type`."""


# Reading schemas


def alternatives(schema: object, root: Json, depth: int = 0) -> Iterator[Json]:
    """Yield the alternatives of a schema, each with one type; an alternative without a type accepts any value.

    Args:
        schema: The schema.
        root: The document that its references point into.
        depth: The number of schemas around it.
    """
    if not is_object(schema) or depth > _MAX_DEPTH:
        yield {}
        return
    rest: Json = {
        key: value for key, value in schema.items() if key not in ("anyOf", "oneOf", "allOf", "$ref")
    }
    if isinstance(reference := schema.get("$ref"), str):
        try:
            target: object = resolved(reference, root)
        except LookupError:  # outside of the document: any value is accepted
            target = {}
        yield from alternatives({**(target if is_object(target) else {}), **rest}, root, depth + 1)
        return
    branches: object = schema.get("anyOf") or schema.get("oneOf")
    if is_array(branches):
        for branch in branches:
            yield from alternatives({**rest, **branch} if is_object(branch) else branch, root, depth + 1)
        return
    parts: object = schema.get("allOf")
    if is_array(parts):
        for part in parts:
            rest = {**rest, **next(alternatives(part, root, depth + 1))}
    types: object = rest.get("type")
    if is_array(types) and types:
        for each in types:
            yield {**rest, "type": each}
    elif types is None and (implied := [_IMPLIED_TYPES[key] for key in rest if key in _IMPLIED_TYPES]):
        yield {**rest, "type": implied[0]}
    else:
        yield rest


def allowed_values(schema: Json) -> list[object] | None:
    """Return the values of `enum` or `const`; None if the schema has neither."""
    if "const" in schema:
        return [schema["const"]]
    values: object = schema.get("enum")
    return values if is_array(values) else None


def properties_of(schema: Json) -> Json:
    """Return the schemas of the arguments, by name."""
    properties: object = schema.get("properties")
    return properties if is_object(properties) else {}


def required_names(schema: Json) -> Sequence[object]:
    """Return the names of the required arguments."""
    names: object = schema.get("required")
    return names if is_array(names) else ()


def schema_of_tool(tool: Mapping[str, object]) -> Json:
    """Return the schema of a tool's arguments."""
    schema: object = tool.get("inputSchema")
    return schema if is_object(schema) else {}


def schema_of_prompt(prompt: Mapping[str, object]) -> Json:
    """Return a schema for the arguments of a prompt, all of them strings."""
    items: object = prompt.get("arguments")
    arguments = [each for each in items if is_object(each)] if is_array(items) else []
    return {
        "type": "object",
        "properties": {
            str(each.get("name")): {"type": "string", "description": each.get("description")}
            for each in arguments
        },
        "required": [str(each.get("name")) for each in arguments if each.get("required") is True],
    }


# Summaries


def type_summary(schema: object, root: Json, depth: int = 0) -> str:
    """Describe the values of a schema in a few words: `integer`, `a, b or c`, `array of string`, `string or null`."""
    words: list[str] = []
    for each in alternatives(schema, root, depth):
        if (values := allowed_values(each)) is not None:
            words += [
                value if isinstance(value, str) else json.dumps(value) for value in values[:_MAX_VALUES]
            ]
            words += ["..."] if len(values) > _MAX_VALUES else []
        elif each.get("type") == "array" and is_object(each.get("items")) and depth < _MAX_DEPTH:
            words.append(f"array of {type_summary(each['items'], root, depth + 1)}")
        else:
            words.append(str(each.get("type", "any")))
    words = list(dict.fromkeys(words))
    return "".join(words) if len(words) < 2 else f"{', '.join(words[:-1])} or {words[-1]}"


def signature(schema: Json) -> str:
    """Return the arguments and their types on one line; `?` marks optional arguments."""
    required = required_names(schema)
    return ", ".join(
        f"{name}{'' if name in required else '?'}: {type_summary(inner, schema)}{_default(inner)}"
        for name, inner in properties_of(schema).items()
    )


def usage(name: str, schema: Json) -> str:
    """Return the usage of a tool or a prompt, with one line for each argument."""
    properties, required = properties_of(schema), required_names(schema)
    if not properties:
        return f"{name} takes no arguments"
    rows = [
        (
            key,
            type_summary(inner, schema) + _default(inner),
            "required" if key in required else "optional",
            first_line(inner),
        )
        for key, inner in properties.items()
    ]
    widths = [*(max(len(row[column]) for row in rows) for column in range(3)), 0]
    lines = ("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join([f"{name} takes:", *(f"  {line.rstrip()}" for line in lines)])


def first_line(item: object) -> str:
    """Return the first line of the description of a tool, an argument or another item."""
    text: object = item.get("description") if is_object(item) else None
    return next(iter(text.strip().splitlines()), "") if isinstance(text, str) else ""


def _default(schema: object) -> str:
    if not is_object(schema) or schema.get("default") is None:
        return ""
    return f" = {json.dumps(schema['default'], ensure_ascii=False)}"
