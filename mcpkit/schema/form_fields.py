"""Fields of a form, and their schemas in each protocol version.

client/elicitation, "Requested Schema", and `PrimitiveSchemaDefinition` in the schema of each version.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from .._utils.exceptions import RegistrationError
from ..protocol.jsonrpc import is_array, without
from ..protocol.types import Json
from . import formats
from .errors import is_secret, problems
from .json_schema import published

_TEXT = frozenset({"minLength", "maxLength", "format"})
_RANGE = frozenset({"minimum", "maximum"})
_DEFAULT = frozenset({"default"})

_NEWER = {
    "string": _TEXT | _DEFAULT,
    "integer": _RANGE | _DEFAULT,
    "number": _RANGE | _DEFAULT,
    "boolean": _DEFAULT,
    "choice": frozenset({"enum", "enumNames", "oneOf", "default"}),
    "choices": frozenset({"minItems", "maxItems", "default"}),
}
FORMS: dict[str, dict[str, frozenset[str]]] = {
    # revision: {kind of field: its keywords, besides `type`, `title` and `description`}
    "2025-06-18": {
        "string": _TEXT,
        "integer": _RANGE,
        "number": _RANGE,
        "boolean": _DEFAULT,
        "choice": frozenset({"enum", "enumNames"}),
    },
    # Its page has `pattern`, though its schema and later pages do not.
    "2025-11-25": {**_NEWER, "string": _NEWER["string"] | {"pattern"}},
    "2026-07-28": _NEWER,
}
"""Keywords of form fields, by revision."""

FORMATS = ("email", "uri", "date", "date-time")
"""The formats of texts, the same in every revision."""

_NAMES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "choice": "a choice",
    "choices": "a multiple choice",
}
_TYPES = {"choice": "string", "choices": "array"}
_CHOICE = frozenset({"type", "enum", "enumNames", "oneOf", "anyOf", "const", "items", "uniqueItems"})
"""Keywords that the rendered choices replace. A form does not allow the same choice twice."""

_INSTEAD = {
    "choices": "use a single choice, or one `bool` field for each",
    "pattern": "describe the pattern in words, and check the answer",
    "multipleOf": "describe the step in words, and check the answer",
    "exclusiveMinimum": "use `ge`, or check the answer",
    "exclusiveMaximum": "use `le`, or check the answer",
    "format": f"the formats are {', '.join(FORMATS)}; use `str`, and check the answer",
}


class UnsupportedFieldError(Exception):
    """A revision cannot express a field.

    Args:
        what: The missing feature, as the object of "has no".
        instead: Remedy.
    """

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(f"{what}; {instead}")
        self.what = what


class Choice(NamedTuple):
    """One of several texts.

    Args:
        value: Value that the client sends.
        title: Text for the user; None to show the value.
    """

    value: str
    title: str | None


class Field(NamedTuple):
    """One field of a form.

    Args:
        kind: A key in the tables of `FORMS`.
        schema: Schema of its value, without null.
        keywords: Keywords besides type and choices.
        choices: Choices; empty for free input.
        is_legacy: Whether the author wrote `enumNames`, which are kept.
        may_be_null: Whether None stands for no input.
    """

    kind: str
    schema: Json
    keywords: Json
    choices: tuple[Choice, ...]
    is_legacy: bool
    may_be_null: bool

    @classmethod
    def of(cls, where: str, schema: Json, annotations: Iterable[Any]) -> Field:
        """Return the field for a type.

        Args:
            where: Place, for messages.
            schema: JSON Schema of the type, with the default if there is one.
            annotations: The type and its metadata, for details that the schema does not have.

        Raises:
            RegistrationError: No form has such a field.
        """
        parts = [part for annotation in annotations for part in _parts(annotation)]
        schema, may_be_null = _without_null(schema)
        if is_secret(schema):
            raise RegistrationError(
                f"{where} is a secret, which a form must not contain; use an elicitation by URL"
            )
        form = _without_local(published(schema))
        kind, choices, source = _kind(where, form, _titles(parts))
        notes = {key: source[key] for key in ("title", "description") if key in source}
        keywords = notes | without(form, *_CHOICE)
        default = keywords.get("default")
        if default is None:
            keywords.pop("default", None)
        elif problems(schema, default):
            raise RegistrationError(
                f"{where} has the default {default!r}, which is invalid for the field; change or remove the default"
            )
        if kind == "integer":
            _include_limits(keywords)
        return cls(kind, schema, keywords, tuple(choices), "enumNames" in schema, may_be_null)

    def render(self, revision: str) -> Json:
        """Return the schema of the field in a revision of `FORMS`.

        Raises:
            UnsupportedFieldError: The revision cannot express it.
        """
        known = FORMS[revision].get(self.kind)
        if known is None:
            raise UnsupportedFieldError(_NAMES[self.kind].removeprefix("a "), _INSTEAD[self.kind])
        keywords = self.keywords
        if "default" in keywords and "default" not in known:
            # It only fills the field in; an omitted field gets it when the answer is read.
            keywords = without(keywords, "default")
        for keyword, value in keywords.items():
            if keyword == "format" and keyword in known and value not in FORMATS:
                raise UnsupportedFieldError(f"format {value!r}", _INSTEAD["format"])
            if keyword not in known and keyword not in ("title", "description"):
                instead = _INSTEAD.get(keyword, "leave it out")
                raise UnsupportedFieldError(f"`{keyword}` for {_NAMES[self.kind]}", instead)
        return {"type": _TYPES.get(self.kind, self.kind), **keywords, **self._render_choices(known)}

    def _render_choices(self, known: frozenset[str]) -> Json:
        """Return the choices with the keywords of a revision."""
        values = [choice.value for choice in self.choices]
        titles = [choice.title or choice.value for choice in self.choices]
        titled = [{"const": value, "title": title} for value, title in zip(values, titles, strict=True)]
        has_titles = any(choice.title for choice in self.choices)
        if self.kind == "choices":
            return {"items": {"anyOf": titled} if has_titles else {"type": "string", "enum": values}}
        if not self.choices:
            return {}
        if not has_titles:
            return {"enum": values}
        if "oneOf" in known and not self.is_legacy:
            return {"oneOf": titled}
        return {"enum": values, "enumNames": titles}


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield the parts of an annotation: classes, metadata, and choices with their titles."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from annotation.__metadata__
        yield from _parts(annotation.__origin__)
    elif origin is None:
        yield annotation
    elif origin is not Literal:
        if origin in (Union, UnionType):
            yield from _titled_choices(arguments)
        for argument in arguments:
            yield from _parts(argument)


def _titled_choices(branches: Iterable[Any]) -> Iterator[Choice]:
    """Yield the choices that are written as `Annotated[Literal["s"], "Small"]`."""
    for branch in branches:
        if get_origin(branch) is Annotated and get_origin(branch.__origin__) is Literal:
            values = get_args(branch.__origin__)
            titles = [item for item in branch.__metadata__ if isinstance(item, str)]
            if len(values) == 1 and titles:
                yield Choice(values[0], titles[-1])


def _titles(parts: Iterable[Any]) -> dict[Any, str]:
    """Return the titles of choices by their values: those beside a `Literal`, and the `label`s of Enums."""
    titles: dict[Any, str] = {}
    for part in parts:
        if isinstance(part, Choice) and part.title is not None:
            titles[part.value] = part.title
        elif isinstance(part, type) and issubclass(part, enum.Enum):
            members: Iterable[enum.Enum] = part
            for member in members:
                label = getattr(member, "label", None)
                if isinstance(label, str) and isinstance(member.value, str):
                    titles[member.value] = label
    return titles


def _without_null(schema: Json) -> tuple[Json, bool]:
    branches: list[Json] = schema.get("anyOf", [])
    rest = [branch for branch in branches if branch != {"type": "null"}]
    if len(rest) < len(branches):
        inner, _ = _without_null(rest[0] if len(rest) == 1 else {"anyOf": rest})
        return {**inner, **without(schema, "anyOf")}, True
    choices: list[Any] = schema.get("enum", [])
    if None in choices:
        return {**schema, "enum": [choice for choice in choices if choice is not None]}, True
    return schema, False


def _without_local(schema: Json) -> Json:
    """Return a schema without times that have no offset, as forms have no unions."""
    for branch in schema.get("anyOf", ()):
        if "format" in branch and schema["anyOf"] == formats.format_schema(branch["format"]).get("anyOf"):
            return {**branch, **without(schema, "anyOf")}
    return schema


def _kind(where: str, schema: Json, titles: dict[Any, str]) -> tuple[str, Sequence[Choice], Json]:
    """Return the kind of a field, its choices, and the schema that describes these."""
    choices = _choices(where, schema, titles)
    if choices is not None:
        return "choice", choices, schema
    kind = schema.get("type")
    if kind == "array":
        items: Json = schema.get("items", {})
        choices = _choices(where, items, titles) if "prefixItems" not in schema else None
        if choices is None:
            raise RegistrationError(
                f"{where} is a list, and a form only has lists of choices; use a list of a `Literal` or "
                "an Enum, or use one string and split it"
            )
        return "choices", choices, items
    if kind == "object" or "$ref" in schema:
        raise RegistrationError(
            f"{where} is an object, and a form cannot nest objects; move its fields to the form itself"
        )
    if kind not in _NAMES:
        raise RegistrationError(
            f"{where} has a type that a form does not support; use str, int, float, bool, date, datetime, a "
            "`Literal` or an Enum of strings, or a list of one of these two"
        )
    return kind, (), schema


def _choices(
    where: str, schema: Json, titles: dict[Any, str], *, is_branch: bool = False
) -> list[Choice] | None:
    """Return the choices of a schema; None if it is no choice."""
    for union in ("oneOf", "anyOf"):
        if union in schema:
            branches = [_choices(where, branch, titles, is_branch=True) for branch in schema[union]]
            known = [branch for branch in branches if branch is not None]
            return [choice for branch in known for choice in branch] if len(known) == len(branches) else None
    values: Any = [schema["const"]] if "const" in schema else schema.get("enum")
    if not is_array(values):
        return None
    if not values or not all(isinstance(value, str) for value in values):
        raise RegistrationError(
            f"{where} has choices that are not strings, which a form does not support; "
            "use strings, and convert the answer"
        )
    named: list[str | None] = schema.get("enumNames") or [titles.get(value) for value in values]
    if len(named) != len(values):
        raise RegistrationError(
            f"{where} has {len(named)} enumNames for {len(values)} choices; write one for each choice"
        )
    if is_branch and len(values) == 1:
        named = [named[0] or schema.get("title")]
    return [Choice(value, title) for value, title in zip(values, named, strict=True)]


def _include_limits(keywords: Json) -> None:
    """Convert exclusive limits of integers to inclusive ones, as forms have no others."""
    if (low := keywords.pop("exclusiveMinimum", None)) is not None:
        low = math.floor(low) + 1
        keywords["minimum"] = max(low, keywords.get("minimum", low))
    if (high := keywords.pop("exclusiveMaximum", None)) is not None:
        high = math.ceil(high) - 1
        keywords["maximum"] = min(high, keywords.get("maximum", high))
