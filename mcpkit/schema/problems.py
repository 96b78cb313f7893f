"""What is wrong with a JSON value, in words: the value and its schema, read side by side.

Runs only once a validator has refused a value. It reads the keywords that this package writes; what other
checks say is added by the caller.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from pydantic_core import to_json

from ..errors import Problem
from ..protocol.jsonrpc import is_array, is_object
from .formats import EXAMPLES, FORMATS
from .values import Json, decode_base64, identity, is_unique

_LONGEST = 60


def shown(value: Any) -> str:
    """Return a JSON value as text, shortened to some 60 characters."""
    text = to_json(value, inf_nan_mode="constants", fallback=repr).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def problems(schema: Json, value: Any, root: Json, path: str = "") -> Iterator[Problem]:
    """Yield what is wrong with a value.

    Args:
        schema: What it should fit.
        value: A JSON value.
        root: The schema that holds `$defs`.
        path: Where the value is.

    Yields:
        One problem for each value that is wrong, none when all fits.
    """
    if "$ref" in schema:
        yield from problems(_target(schema, root), value, root, path)
        return
    for union in ("anyOf", "oneOf"):
        if union in schema:
            yield from _of_union(schema[union], value, root, path)
            return
    for part in schema.get("allOf", ()):
        yield from problems(part, value, root, path)
    if not _fits_alone(schema, value):
        yield Problem(path, f"expected {expected(schema, root)}, got {shown(value)}")
    elif is_object(value):
        yield from _in_object(schema, value, root, path)
    elif is_array(value):
        prefix = schema.get("prefixItems", ())
        for index, item in enumerate(value):
            inner = prefix[index] if index < len(prefix) else schema.get("items", {})
            if is_object(inner):
                yield from problems(inner, item, root, f"{path}[{index}]")


def _target(schema: Json, root: Json) -> Json:
    target: Any = root
    for key in schema["$ref"].split("/")[1:]:
        # A reference of another form is an author's own; jsonschema follows it, here it says nothing.
        target = target.get(key.replace("~1", "/").replace("~0", "~"), {})
    return {**target, **{key: value for key, value in schema.items() if key != "$ref"}}


def _of_union(branches: list[Json], value: Any, root: Json, path: str) -> Iterator[Problem]:
    found: list[list[Problem]] = []
    for branch in branches:
        wrong = list(problems(branch, value, root, path))
        if not wrong:
            return
        found.append(wrong)
    # The branch that was meant has the kind of the value, and its problems lie inside it.
    meant = [wrong for wrong in found if all(problem.field != path for problem in wrong)]
    tagged = [wrong for wrong, branch in zip(found, branches, strict=True) if _has_tag(branch, value, root)]
    for candidates in (tagged, meant):
        if len(candidates) == 1:
            yield from candidates[0]
            return
    yield Problem(path, f"expected {expected({'anyOf': branches}, root)}, got {shown(value)}")


def _has_tag(branch: Json, value: Any, root: Json) -> bool:
    """Tell whether an object carries the constant that tells this branch from the others."""
    if "$ref" in branch:
        branch = _target(branch, root)
    if not is_object(value):
        return False
    properties: Json = branch.get("properties", {})
    return any(
        name in value and "enum" in inner and identity(value[name]) in map(identity, inner["enum"])
        for name, inner in properties.items()
    )


def _in_object(schema: Json, value: Json, root: Json, path: str) -> Iterator[Problem]:
    properties: Json = schema.get("properties", {})
    additional = schema.get("additionalProperties", True)
    yield from missing(schema, value, root, path)
    names: Json = schema.get("propertyNames", {})
    for name, item in value.items():
        if any(problems({"type": "string", **names}, name, root)):
            wanted = expected({"type": "string", **names}, root)
            yield Problem(_member(path, name), f"the key is not {wanted}")
        if name in properties:
            yield from problems(properties[name], item, root, _member(path, name))
        elif additional is False:
            yield unknown(name, schema, path)
        elif additional is not True:
            yield from problems(additional, item, root, _member(path, name))


def _member(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def missing(schema: Json, value: Json, root: Json, path: str) -> Iterator[Problem]:
    """Yield a problem for each member that an object must have and has not."""
    for name in schema.get("required", ()):
        if name not in value:
            wanted = expected(schema.get("properties", {}).get(name, {}), root)
            yield Problem(_member(path, name), f"expected {wanted}, but it is missing")


def unknown(name: str, schema: Json, path: str) -> Problem:
    """Return the problem of a member that an object may not have."""
    import difflib

    known = list(schema.get("properties", {}))
    kind, kinds = ("key", "keys") if path else ("argument", "arguments")
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        hint = f'did you mean "{close[0]}"?'
    else:
        hint = f"the {kinds} are: {', '.join(known)}" if known else f"there are no {kinds}"
    return Problem(_member(path, name), f"unknown {kind}; {hint}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_KINDS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": is_array,
    "object": is_object,
}


def _is_base64(text: str) -> bool:
    try:
        decode_base64(text)
    except ValueError:
        return False
    return True


# Each keyword that is about the value alone, with the kinds that it is about and what it demands.
_KEYWORDS: dict[str, tuple[tuple[str, ...], Callable[[Any, Any], bool]]] = {
    "minimum": (("number",), lambda value, limit: value >= limit),
    "maximum": (("number",), lambda value, limit: value <= limit),
    "exclusiveMinimum": (("number",), lambda value, limit: value > limit),
    "exclusiveMaximum": (("number",), lambda value, limit: value < limit),
    "multipleOf": (("number",), lambda value, step: value % step == 0),
    "minLength": (("string",), lambda value, limit: len(value) >= limit),
    "maxLength": (("string",), lambda value, limit: len(value) <= limit),
    "pattern": (("string",), lambda value, pattern: re.search(_closed(pattern), value) is not None),
    "format": (("string",), lambda value, name: name not in FORMATS or FORMATS[name](value)),
    "contentEncoding": (("string",), lambda value, name: name != "base64" or _is_base64(value)),
    "minItems": (("array",), lambda value, limit: len(value) >= limit),
    "maxItems": (("array",), lambda value, limit: len(value) <= limit),
    "uniqueItems": (("array",), lambda value, wanted: not wanted or is_unique(value)),
    "minProperties": (("object",), lambda value, limit: len(value) >= limit),
    "maxProperties": (("object",), lambda value, limit: len(value) <= limit),
}


def _closed(pattern: str) -> str:
    # Python's `$` also matches before a last newline; JSON Schema's does not.
    return re.sub(r"(?<!\\)\$$", r"\\Z", pattern)


def _fits_alone(schema: Json, value: Any) -> bool:
    """Tell whether a value fits but for what lies inside it."""
    kinds = schema.get("type")
    if kinds is not None:
        allowed = [kinds] if isinstance(kinds, str) else kinds
        if not any(_KINDS[kind](value) for kind in allowed):
            return False
    if "enum" in schema and identity(value) not in map(identity, schema["enum"]):
        return False
    if "const" in schema and identity(value) != identity(schema["const"]):
        return False
    return all(
        demand(value, schema[keyword])
        for keyword, (about, demand) in _KEYWORDS.items()
        if keyword in schema and any(_KINDS[kind](value) for kind in about)
    )


_NAMES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "an array",
    "object": "an object",
}


def expected(schema: Json, root: Json) -> str:
    """Return what a schema expects, as the object of a sentence."""
    if "$ref" in schema:
        return expected(_target(schema, root), root)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " or ".join(dict.fromkeys(expected(branch, root) for branch in schema[union]))
    if "const" in schema:
        return shown(schema["const"])
    if "enum" in schema:
        choices = [shown(choice) for choice in schema["enum"]]
        return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"
    kinds = schema.get("type") or _implied(schema)
    named = [_named(kind, schema) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
    return " or ".join(named) or "a value"


def _implied(schema: Json) -> list[str]:
    """Return the kinds that a schema without `type` has rules for."""
    return list(
        dict.fromkeys(kind for key, (about, _) in _KEYWORDS.items() if key in schema for kind in about)
    )


def _named(kind: str, schema: Json) -> str:
    text = _NAMES[kind]
    if kind in ("integer", "number"):
        text += _range(schema)
    elif kind == "string":
        if schema.get("contentEncoding") == "base64":
            text = "a base64 string"
        text = EXAMPLES.get(schema.get("format", ""), text)
        text += _size(schema, "minLength", "maxLength", "character")
        text += f" that matches {schema['pattern']}" if "pattern" in schema else ""
    elif kind == "array":
        text += _size(schema, "minItems", "maxItems", "item")
        text += " without duplicates" if schema.get("uniqueItems") else ""
    elif kind == "object":
        text += _size(schema, "minProperties", "maxProperties", "key")
    return text


def _range(schema: Json) -> str:
    if "minimum" in schema and "maximum" in schema:
        text = f" from {shown(schema['minimum'])} to {shown(schema['maximum'])}"
    else:
        words = {
            "minimum": "of at least",
            "exclusiveMinimum": "greater than",
            "maximum": "of at most",
            "exclusiveMaximum": "less than",
        }
        parts = [f"{word} {shown(schema[key])}" for key, word in words.items() if key in schema]
        text = f" {' and '.join(parts)}" if parts else ""
    return text + (f" that is a multiple of {shown(schema['multipleOf'])}" if "multipleOf" in schema else "")


def _size(schema: Json, least: str, most: str, unit: str) -> str:
    low, high = schema.get(least), schema.get(most)
    if low is None and high is None:
        return ""
    if low == high:
        text = f"{low}"
    elif high is None:
        text = f"at least {low}"
    else:
        text = f"at most {high}" if not low else f"{low} to {high}"
    return f" of {text} {unit}{'' if text.endswith(' 1') or text == '1' else 's'}"
