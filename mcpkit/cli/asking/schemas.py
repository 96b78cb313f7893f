"""What the schema of an argument takes, as people read it, and the plain schemas that it is made of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ...protocol.jsonrpc import Json, is_array, is_object
from ...schema.json_schema import resolved

_DEEPEST: Final = 8
_MOST_CHOICES: Final = 12
"""How many choices are named."""

_KINDS: Final = {
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


def alternatives(schema: object, root: Json, depth: int = 0) -> Iterator[Json]:
    """Yield the schemas of one type each that a schema stands for; one without a type takes anything.

    Args:
        schema: The schema.
        root: Where its references start from.
        depth: How deep it is looked for.
    """
    if not is_object(schema) or depth > _DEEPEST:
        yield {}
        return
    rest: Json = {
        key: value for key, value in schema.items() if key not in ("anyOf", "oneOf", "allOf", "$ref")
    }
    if isinstance(reference := schema.get("$ref"), str):
        yield from alternatives({**_target(reference, root), **rest}, root, depth + 1)
        return
    branches: object = schema.get("anyOf") or schema.get("oneOf")
    if is_array(branches):
        for branch in branches:
            yield from alternatives({**rest, **branch} if is_object(branch) else branch, root, depth + 1)
        return
    demands: object = schema.get("allOf")
    if is_array(demands):
        for demand in demands:
            rest = {**rest, **next(alternatives(demand, root, depth + 1))}
    kinds: object = rest.get("type")
    if is_array(kinds) and kinds:
        for kind in kinds:
            yield {**rest, "type": kind}
    elif kinds is None and (implied := next((_KINDS[key] for key in rest if key in _KINDS), None)):
        yield {**rest, "type": implied}
    else:
        yield rest


def choices(schema: Json) -> list[object] | None:
    """Return the values that alone are taken; None where there is no such list."""
    if "const" in schema:
        return [schema["const"]]
    values: object = schema.get("enum")
    return values if is_array(values) else None


def type_words(schema: object, root: Json, depth: int = 0) -> str:
    """Say what a schema takes, in a few words: `integer`, `a, b or c`, `array of string`, `string or null`."""
    words: list[str] = []
    for each in alternatives(schema, root, depth):
        if (values := choices(each)) is not None:
            named = [value if isinstance(value, str) else json.dumps(value) for value in values]
            more = ["..."] if len(named) > _MOST_CHOICES else []
            words += [*named[:_MOST_CHOICES], *more]
        elif each.get("type") == "array" and is_object(each.get("items")) and depth < _DEEPEST:
            words.append(f"array of {type_words(each['items'], root, depth + 1)}")
        else:
            words.append(str(each.get("type", "any")))
    return _joined(list(dict.fromkeys(words)))


def signature(schema: Json) -> str:
    """Say on one line what a tool takes; `?` marks what may be left out."""
    needed = required(schema)
    return ", ".join(
        f"{name}{'' if name in needed else '?'}: {type_words(inner, schema)}{_default(inner)}"
        for name, inner in properties(schema).items()
    )


def takes(name: str, schema: Json) -> str:
    """Say in lines what a tool or a prompt takes."""
    known = properties(schema)
    if not known:
        return f"{name} takes no arguments"
    needed = required(schema)
    rows = [
        (
            key,
            type_words(inner, schema) + _default(inner),
            "required" if key in needed else "optional",
            first_line(inner),
        )
        for key, inner in known.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = (
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, [*widths, 0], strict=True)) for row in rows
    )
    return "\n".join([f"{name} takes:", *(f"  {line.rstrip()}" for line in lines)])


def properties(schema: Json) -> Json:
    """Return the schemas of the arguments, by name."""
    found: object = schema.get("properties")
    return found if is_object(found) else {}


def required(schema: Json) -> Sequence[object]:
    """Return the names of the arguments that must be given."""
    found: object = schema.get("required")
    return found if is_array(found) else ()


def of_prompt(prompt: Mapping[str, object]) -> Json:
    """Return the arguments of a prompt, all of them strings, as a schema."""
    found: object = prompt.get("arguments")
    arguments = [each for each in found if is_object(each)] if is_array(found) else []
    return {
        "type": "object",
        "properties": {
            str(each.get("name")): {"type": "string", "description": each.get("description")}
            for each in arguments
        },
        "required": [str(each.get("name")) for each in arguments if each.get("required") is True],
    }


def first_line(described: object) -> str:
    """Return the first line of a description, or nothing."""
    text: object = described.get("description") if is_object(described) else None
    return next(iter(text.strip().splitlines()), "") if isinstance(text, str) else ""


def _default(schema: object) -> str:
    if not is_object(schema) or schema.get("default") is None:
        return ""
    return f" = {json.dumps(schema['default'], ensure_ascii=False)}"


def _joined(words: list[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _target(reference: str, root: Json) -> Json:
    """Return what a reference within a schema leads to; a schema that takes anything where it leads elsewhere."""
    try:
        found: object = resolved(reference, root)
    except LookupError:
        return {}
    return found if is_object(found) else {}
