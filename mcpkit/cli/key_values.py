"""Arguments on the command line: `key=value`, `key:=JSON` and `key=@file`, converted by a schema."""

from __future__ import annotations

import base64
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import click

from .._utils.option_checks import nearest
from ..protocol.jsonrpc import Json, is_array, is_object
from .exit_status import CommandError, Status
from .schema_summary import allowed_values, alternatives, properties_of, required_names, type_summary, usage

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_BASE64_FORMATS: Final = ("base64", "base64url", "byte")
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
    arguments: Json = {} if base is None else _parse_object(base)
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


def _parse_object(text: str) -> Json:
    """Parse the option `--args`."""
    try:
        value = parse_json(_read_file(text[1:]).decode("utf-8-sig") if text.startswith("@") else text)
    except (ConversionError, UnicodeDecodeError) as error:
        raise CommandError(f"--args: {error}") from None
    if not is_object(value):
        raise CommandError("--args must be a JSON object with the arguments by name")
    return value


def _schema_of_argument(key: str, schema: Json) -> object:
    properties = properties_of(schema)
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
    kinds = sorted(alternatives(schema, root), key=lambda each: _rank(each.get("type")))
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


def _rank(kind: object) -> int:
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def _convert_to_type(text: str, schema: Json, root: Json) -> object:
    """Convert a text by a schema of one type. The messages of its errors are not shown."""
    if (values := allowed_values(schema)) is not None:
        by_text = {value if isinstance(value, str) else json.dumps(value): value for value in values}
        return _literal(text, by_text)
    if schema.get("type") == "array":
        value = parse_json(text) if text.lstrip().startswith("[") else None
        if is_array(value):
            return value
        return [convert([text], schema.get("items", {}), root)] if text else []
    return _CONVERTERS.get(str(schema.get("type")), _json_or_text)(text)


def _literal(text: str, values: Mapping[str, object]) -> object:
    if text not in values:
        raise ConversionError(text)
    return values[text]


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text.strip()):
        raise ConversionError(text)
    return int(text)


def _number(text: str) -> float:
    if _INTEGER.fullmatch(text.strip()):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConversionError(text)
    return number


def _object(text: str) -> object:
    value = parse_json(text)
    if not is_object(value):
        raise ConversionError(text)
    return value


def _json_or_text(text: str) -> object:
    try:
        return parse_json(text)
    except ConversionError:
        return text


_CONVERTERS: Final[Mapping[str, Callable[[str], object]]] = {
    "string": str,
    "null": lambda text: _literal(text, {"null": None}),
    "boolean": lambda text: _literal(text.casefold(), {"true": True, "false": False}),
    "integer": _integer,
    "number": _number,
    "object": _object,
}
