"""The values of a command line: `key=value`, `key:=JSON` and `key=@file`, as a schema wants them."""

from __future__ import annotations

import base64
import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from ..._utils.option_checks import nearest
from ...protocol.jsonrpc import Json, is_array, is_object
from ..exit_status import CommandError, Status
from .schemas import alternatives, choices, properties, required, takes, type_words

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_BASE64_FORMATS: Final = ("base64", "base64url", "byte")
_ORDER: Final = ("null", "boolean", "integer", "number", "array", "object", "string")
"""The order in which the types of a union are tried: the most specific first."""


class Word(NamedTuple):
    """An argument, as it is written.

    Args:
        key: Its name.
        text: What follows.
        is_json: Whether that is JSON, `key:=JSON`.
    """

    key: str
    text: str
    is_json: bool


class UnfitError(Exception):
    """A text is nothing that a schema takes; the message says what it does take."""


def words_of(texts: Sequence[str]) -> list[Word]:
    """Split arguments into their names and values.

    Raises:
        CommandError: One of them is none.
    """
    words: list[Word] = []
    for text in texts:
        key, equals, value = text.partition("=")
        is_json = key.endswith(":")
        key = key.removesuffix(":")
        if not equals or not key:
            raise CommandError(f"arguments must be key=value, key:=JSON or key=@file, got {text!r}")
        words.append(Word(key, value, is_json))
    return words


def arguments_of(name: str, schema: Json, texts: Sequence[str], given: str | None = None) -> Json:
    """Return the arguments that a command line gives a tool, or a prompt.

    Args:
        name: What it is called.
        schema: The schema of its arguments.
        texts: The arguments, as they are written.
        given: All of them as JSON, or `@file` with that; the others are put on top, and none is missed then.

    Raises:
        CommandError: One is unknown, missing, or no value that is taken; the message says what is.
    """
    arguments: Json = {} if given is None else _all_of(given)
    written: dict[str, list[Word]] = {}
    for word in words_of(texts):
        written.setdefault(word.key, []).append(word)
    problems: list[str] = []
    for key, words in written.items():
        try:
            arguments[key] = _value(words, _inner(key, schema), schema)
        except UnfitError as error:
            problems.append(f"{key}: {error}")
    if given is None:
        problems += [f"{key}: required argument is missing" for key in required(schema) if key not in written]
    if problems:
        raise CommandError("\n".join([*problems, takes(name, schema)]), Status.TOOL_ERROR)
    return arguments


def converted(texts: Sequence[str], schema: object, root: Json) -> object:
    """Return the value that texts stand for; several stand for the items of an array.

    Raises:
        UnfitError: They are nothing that the schema takes.
    """
    kinds = sorted(alternatives(schema, root), key=lambda each: _rank(each.get("type")))
    if len(texts) > 1:
        for each in kinds:
            if each.get("type", "array") == "array":
                return [converted([text], each.get("items", {}), root) for text in texts]
        raise UnfitError(f"given {len(texts)} times, expected one {type_words(schema, root)}")
    [text] = texts
    for each in kinds:
        with suppress(UnfitError):
            return _as(text, each, root)
    raise UnfitError(f"expected {type_words(schema, root)}, got {json.dumps(text, ensure_ascii=False)}")


def _value(words: list[Word], schema: object, root: Json) -> object:
    if any(word.is_json for word in words):
        if len(words) > 1:
            raise UnfitError("given more than once. Write an array as key:=[...]")
        return parsed(words[0].text)
    return converted([_text(word.text, schema, root) for word in words], schema, root)


def _inner(key: str, schema: Json) -> object:
    """Return the schema of an argument.

    Raises:
        UnfitError: There is no such argument.
    """
    known = properties(schema)
    if key in known:
        return known[key]
    additional: object = schema.get("additionalProperties", "properties" not in schema)
    if is_object(additional):
        return additional
    if additional is True or "patternProperties" in schema:
        return {}
    close = nearest(key, known)
    raise UnfitError(f"no such argument{f'; did you mean {close}?' if close else ''}")


def _as(text: str, schema: Json, root: Json) -> object:
    """Return a text as a value of a schema of one type."""
    if (values := choices(schema)) is not None:
        named = {value if isinstance(value, str) else json.dumps(value): value for value in values}
        return _literal(text, named)
    if schema.get("type") == "array":
        value = parsed(text) if text.lstrip().startswith("[") else None
        if is_array(value):
            return value
        return [converted([text], schema.get("items", {}), root)] if text else []
    return _READERS.get(str(schema.get("type")), _anything)(text)


def _literal(text: str, values: Mapping[str, object]) -> object:
    if text not in values:
        raise UnfitError(text)
    return values[text]


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text.strip()):
        raise UnfitError(text)
    return int(text)


def _number(text: str) -> float:
    if _INTEGER.fullmatch(text.strip()):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UnfitError(text)
    return number


def _object(text: str) -> object:
    value = parsed(text)
    if not is_object(value):
        raise UnfitError(text)
    return value


def _anything(text: str) -> object:
    try:
        return parsed(text)
    except UnfitError:
        return text


_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "string": str,
    "null": lambda text: _literal(text, {"null": None}),
    "boolean": lambda text: _literal(text.casefold(), {"true": True, "false": False}),
    "integer": _integer,
    "number": _number,
    "object": _object,
}


def _rank(kind: object) -> int:
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def parsed(text: str) -> object:
    """Return the value of a JSON text.

    Raises:
        UnfitError: It is none.
    """
    try:
        value: object = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UnfitError(f"invalid JSON: {error}") from None
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not valid in JSON. Use a finite number, a string or null")


def _all_of(given: str) -> Json:
    try:
        found = parsed(_read(given[1:]).decode("utf-8-sig") if given.startswith("@") else given)
    except (UnfitError, UnicodeDecodeError) as error:
        raise CommandError(f"--args: {error}") from None
    if not is_object(found):
        raise CommandError("--args must be a JSON object with the arguments by name")
    return found


def _text(text: str, schema: object, root: Json) -> str:
    """Return a text, or what is in the file that it names."""
    if not text.startswith("@"):
        return text
    content = _read(text[1:])
    for each in alternatives(schema, root):
        encoding: object = each.get("contentEncoding", each.get("format"))
        if encoding in _BASE64_FORMATS:
            encode = base64.urlsafe_b64encode if encoding == "base64url" else base64.b64encode
            return encode(content).decode()
    try:
        read = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnfitError(
            f"file {text[1:]} is not UTF-8, and this argument does not accept base64. Convert the file to UTF-8"
        ) from None
    is_text = any(each.get("type", "string") == "string" for each in alternatives(schema, root))
    return read if is_text else read.strip()


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise CommandError(
            f"cannot read {path}: {error.strerror}. To pass a string that begins with @, write key:='\"@...\"'",
            Status.NO_SUCH_THING,
        ) from None
