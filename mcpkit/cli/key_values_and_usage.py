"""Arguments on the command line, converted by a schema: `key=value`, `key:=JSON`, `key=@file`; and their usage."""

from __future__ import annotations

import base64
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import click

from .._utils.option_checks import nearest
from ..protocol.jsonrpc import Json, is_array, is_object, object_at
from ..schema.json_schema import resolved
from .exit_status import CommandError, Status

_MAX_DEPTH: Final = 8
_MAX_VALUES: Final = 12
"""Values of an enumeration that a summary lists."""

_IMPLIED_TYPES: Final = {
    **dict.fromkeys(("properties", "additionalProperties"), "object"),
    **dict.fromkeys(("items", "prefixItems"), "array"),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), "string"),
    **dict.fromkeys(("minimum", "maximum"), "number"),
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


def required_names(schema: Json) -> Sequence[object]:
    """Return the names of the required arguments."""
    names: object = schema.get("required")
    return names if is_array(names) else ()


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
        for name, inner in object_at(schema, "properties").items()
    )


def usage(name: str, schema: Json) -> str:
    """Return the usage of a tool or a prompt, with one line for each argument."""
    properties, required = object_at(schema, "properties"), required_names(schema)
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


# Arguments on the command line

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_BASE64_FORMATS: Final = ("base64", "base64url", "byte")
_JSON_TYPES: Final[Mapping[object, Callable[[object], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "object": is_object,
}
_ORDER: Final = ("null", "boolean", "integer", "number", "array", "object", "string")
"""The order in which the types of a union are tried: the most specific first."""


class KeyValue(NamedTuple):
    """An argument before conversion.

    Args:
        key: The name of the argument.
        text: The text after the equals sign.
        is_json: Whether the text is JSON, as in `key:=JSON`.
    """

    key: str
    text: str
    is_json: bool


class ConversionError(Exception):
    """A text cannot be converted to a value of its schema; the message names the expected type."""


def parse_options(texts: Iterable[str], separator: str, usage: str) -> dict[str, str]:
    """Return the values of options such as `NAME=VALUE` or `NAME:VALUE` by name.

    Args:
        texts: The values of the options.
        separator: The separator; blanks around a value after a colon are removed.
        usage: The option in the message of an error.

    Raises:
        click.UsageError: The separator or the name is missing; the message has no value, which may be secret.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, found, value = text.partition(separator)
        if not found or not name.strip():
            raise click.UsageError(
                f"invalid value: it has no {separator!r} or no name before it. Write {usage}"
            )
        values[name.strip()] = value.strip() if separator == ":" else value
    return values


def parse_key_values(texts: Sequence[str]) -> list[KeyValue]:
    """Split arguments at the equals sign.

    Raises:
        CommandError: An argument has no equals sign, or no name.
    """
    pairs: list[KeyValue] = []
    for text in texts:
        key, equals, value = text.partition("=")
        is_json = key.endswith(":")
        key = key.removesuffix(":")
        if not equals or not key:
            raise CommandError(f"arguments must be key=value, key:=JSON or key=@file, got {text!r}")
        pairs.append(KeyValue(key, value, is_json))
    return pairs


def parse_arguments(name: str, schema: Json, texts: Sequence[str], base: str | None = None) -> Json:
    """Parse the arguments of a tool or a prompt.

    Args:
        name: The name of the tool or prompt, for messages.
        schema: The schema of its arguments.
        texts: The arguments on the command line.
        base: A JSON object with arguments, or `@file`; `texts` override it, and required arguments are not checked.

    Raises:
        CommandError: An argument is unknown, missing or not of its type; the message has the usage.
    """
    arguments: Json = {}
    if base is not None:
        try:
            value = parse_json(_read_file(base[1:]).decode("utf-8-sig") if base.startswith("@") else base)
        except (ConversionError, UnicodeDecodeError) as error:
            raise CommandError(f"--args: {error}") from None
        if not is_object(value):
            raise CommandError("--args must be a JSON object with the arguments by name")
        arguments = value
    pairs: dict[str, list[KeyValue]] = {}
    for pair in parse_key_values(texts):
        pairs.setdefault(pair.key, []).append(pair)
    problems: list[str] = []
    for key, same_key in pairs.items():
        try:
            arguments[key] = _value(same_key, _schema_of_argument(key, schema), schema)
        except ConversionError as error:
            problems.append(f"{key}: {error}")
    if base is None:
        problems += [
            f"{key}: required argument is missing" for key in required_names(schema) if key not in pairs
        ]
    if problems:
        raise CommandError("\n".join([*problems, usage(name, schema)]), Status.TOOL_ERROR)
    return arguments


def _schema_of_argument(key: str, schema: Json) -> object:
    properties = object_at(schema, "properties")
    if key in properties:
        return properties[key]
    additional: object = schema.get("additionalProperties", "properties" not in schema)
    if is_object(additional):
        return additional
    if additional is True or "patternProperties" in schema:
        return {}
    close = nearest(key, properties)
    raise ConversionError(f"no such argument{f'; did you mean {close}?' if close else ''}")


def _value(pairs: list[KeyValue], schema: object, root: Json) -> object:
    if any(pair.is_json for pair in pairs):
        if len(pairs) > 1:
            raise ConversionError("given more than once. Write an array as key:=[...]")
        return parse_json(pairs[0].text)
    return convert([_text_or_file(pair.text, schema, root) for pair in pairs], schema, root)


# Files


def _text_or_file(text: str, schema: object, root: Json) -> str:
    """Return a text, or for `@file` the content of the file: base64 if the schema requires it, text otherwise."""
    if not text.startswith("@"):
        return text
    content = _read_file(text[1:])
    kinds = list(alternatives(schema, root))
    for each in kinds:
        encoding: object = each.get("contentEncoding", each.get("format"))
        if encoding in _BASE64_FORMATS:
            encode = base64.urlsafe_b64encode if encoding == "base64url" else base64.b64encode
            return encode(content).decode()
    try:
        decoded = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConversionError(
            f"file {text[1:]} is not UTF-8, and this argument does not accept base64. Convert the file to UTF-8"
        ) from None
    is_string = any(each.get("type", "string") == "string" for each in kinds)
    return decoded if is_string else decoded.strip()


def _read_file(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise CommandError(
            f"cannot read {path}: {error.strerror}. To pass a string that begins with @, write key:='\"@...\"'",
            Status.NO_SUCH_THING,
        ) from None


# Conversion


def parse_json(text: str) -> object:
    """Parse JSON.

    Raises:
        ConversionError: The text is not valid JSON.
    """
    try:
        value: object = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ConversionError(f"invalid JSON: {error}") from None
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not valid in JSON. Use a finite number, a string or null")


def convert(texts: Sequence[str], schema: object, root: Json) -> object:
    """Convert the texts of one argument to its value; several texts are the items of an array.

    Raises:
        ConversionError: No type of the schema accepts the texts.
    """
    ranks = {kind: rank for rank, kind in enumerate(_ORDER)}
    kinds = sorted(alternatives(schema, root), key=lambda each: ranks.get(str(each.get("type")), len(ranks)))
    if len(texts) > 1:
        for each in kinds:
            if each.get("type", "array") == "array":
                return [convert([text], each.get("items", {}), root) for text in texts]
        raise ConversionError(f"given {len(texts)} times, expected one {type_summary(schema, root)}")
    [text] = texts
    for each in kinds:
        with suppress(ConversionError):
            return _convert_to_type(text, each, root)
    raise ConversionError(
        f"expected {type_summary(schema, root)}, got {json.dumps(text, ensure_ascii=False)}"
    )


def _convert_to_type(text: str, schema: Json, root: Json) -> object:
    """Convert a text by a schema of one type. The messages of its errors are not shown."""
    kind = schema.get("type")
    value: object = text
    if (values := allowed_values(schema)) is not None:
        by_text = {each if isinstance(each, str) else json.dumps(each): each for each in values}
        if text not in by_text:
            raise ConversionError(text)
        value = by_text[text]
    elif kind == "array":
        value = parse_json(text) if text.lstrip().startswith("[") else None
        if not is_array(value):
            value = [convert([text], schema.get("items", {}), root)] if text else []
    elif kind in ("integer", "number"):
        number: float = math.nan
        with suppress(ValueError):
            number = int(text) if _INTEGER.fullmatch(text.strip()) else float(text)
        if not math.isfinite(number) or (kind == "integer" and isinstance(number, float)):
            raise ConversionError(text)
        value = number
    elif kind in _JSON_TYPES:
        value = parse_json(text.casefold() if kind == "boolean" else text)
        if not _JSON_TYPES[kind](value):
            raise ConversionError(text)
    elif kind != "string":
        with suppress(ConversionError):
            value = parse_json(text)
    return value
