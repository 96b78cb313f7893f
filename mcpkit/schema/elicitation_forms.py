"""Forms that ask a user for a value of a type (client/elicitation, "Form Mode Elicitation Requests")."""

from __future__ import annotations

import enum
import functools
import inspect
import math
import re
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic_core import ValidationError
from typing_extensions import is_typeddict

from .._utils.exceptions import ArgumentsError, Problem, RegistrationError, UnresolvedHint
from ..content.blocks import path
from ..content.iterators_and_third_party_values import is_struct
from ..content.json_encoding import check_sendable
from ..protocol.jsonrpc import Json, is_array, is_object, without
from .argument_validation_and_repair import Arguments, from_validator
from .fast_path_for_builtin_types import describe
from .function_signatures import Parameter, empty, key_parameters, parameter
from .json_schema import inlined, published, target
from .patterns_and_formats import format_schema
from .pydantic_validators import validator_of
from .validation_errors import expected, is_secret, problems
from .value_validators import validator

# --- Fields
#
# Their schemas in each protocol version: client/elicitation, "Requested Schema", and `PrimitiveSchemaDefinition` in the
# schema of each version.

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
# Keywords of form fields, by revision.
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
# The revision with all that any has.
_WIDEST = "2025-11-25"

# The formats of texts, the same in every revision.
FORMATS = ("email", "uri", "date", "date-time")

_NAMES = {"string": "a string", "integer": "an integer", "number": "a number", "boolean": "a boolean",
          "choice": "a choice", "choices": "a multiple choice"}  # fmt: skip
_TYPES = {"choice": "string", "choices": "array"}
# Keywords that the rendered choices replace. A form does not allow the same choice twice.
_CHOICE = frozenset({"type", "enum", "enumNames", "oneOf", "anyOf", "const", "items", "uniqueItems"})

_INSTEAD = {
    "choices": "use a single choice, or one `bool` field for each",
    "pattern": "describe the pattern in words, and check the answer",
    "multipleOf": "describe the step in words, and check the answer",
    "exclusiveMinimum": "use `ge`, or check the answer",
    "exclusiveMaximum": "use `le`, or check the answer",
    "format": f"the formats are {', '.join(FORMATS)}; use `str`, and check the answer",
}


class UnsupportedFormError(ValueError):
    """A protocol version cannot express a form.

    Args:
        subject: The protocol version, or "a form" for all of them.
        place: The field.
        lack: Missing feature, as the object of "has no".
        instead: Remedy.
    """

    def __init__(self, subject: str, place: str, lack: str, instead: str) -> None:
        super().__init__(f"{place} is not possible: {subject} has no {lack}; {instead}")
        self.lack = f"{subject} has no {lack}"


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
        place: The field, for messages.
        kind: A key in the tables of `FORMS`.
        schema: Schema of its value, without null.
        keywords: Keywords besides type and choices.
        choices: Choices; empty for free input.
        is_legacy: Whether the author wrote `enumNames`, which are kept.
        may_be_null: Whether None stands for no input.
    """

    place: str
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
        titles = {value: title for each in annotations for value, title in _titles(each).items()}
        schema, may_be_null = _without_null(schema)
        if is_secret(schema):
            raise RegistrationError(
                f"{where} is a secret, which a form must not contain; use an elicitation by URL"
            )
        form = _without_local(published(schema))
        kind, choices, source = _kind(where, form, titles)
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
        return cls(where, kind, schema, keywords, tuple(choices), "enumNames" in schema, may_be_null)

    def render(self, revision: str, subject: str) -> Json:
        """Return the schema of the field in a revision of `FORMS`.

        Args:
            revision: The revision.
            subject: Its name in messages.

        Raises:
            UnsupportedFormError: The revision cannot express it.
        """
        known = FORMS[revision].get(self.kind)
        if known is None:
            lack = _NAMES[self.kind].removeprefix("a ")
            raise UnsupportedFormError(subject, self.place, lack, _INSTEAD[self.kind])
        keywords = self.keywords
        if "default" in keywords and "default" not in known:
            # It only fills the field in; an omitted field gets it when the answer is read.
            keywords = without(keywords, "default")
        for keyword, value in keywords.items():
            if keyword == "format" and keyword in known and value not in FORMATS:
                raise UnsupportedFormError(subject, self.place, f"format {value!r}", _INSTEAD["format"])
            if keyword not in known and keyword not in ("title", "description"):
                instead = _INSTEAD.get(keyword, "leave it out")
                lack = f"`{keyword}` for {_NAMES[self.kind]}"
                raise UnsupportedFormError(subject, self.place, lack, instead)
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


def _titles(annotation: Any, *, is_branch: bool = False) -> dict[Any, str]:
    """Return the titles of choices by their values: the `label`s of Enums, and `Annotated[Literal["s"], "Small"]`.

    Args:
        annotation: The type.
        is_branch: Whether it is a branch of a union; elsewhere such a text is a description.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    titles: dict[Any, str] = {}
    if origin is None and isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        members: Iterable[enum.Enum] = annotation
        for member in members:
            label = getattr(member, "label", None)
            if isinstance(label, str) and isinstance(member.value, str):
                titles[member.value] = label
    elif origin is Annotated:
        inner, *metadata = arguments
        texts = [item for item in metadata if isinstance(item, str)]
        if is_branch and texts and get_origin(inner) is Literal and len(get_args(inner)) == 1:
            titles[get_args(inner)[0]] = texts[-1]
        titles |= _titles(inner)
    elif origin is not Literal:
        for argument in arguments:
            titles |= _titles(argument, is_branch=origin in (Union, UnionType))
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
        if "format" in branch and schema["anyOf"] == format_schema(branch["format"]).get("anyOf"):
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


# --- Forms


class Form:
    """A form; `Form.of` makes one.

    Args:
        name: Name of the type, for messages; empty for a JSON Schema.
        schema: Its JSON Schema, an object.
        annotations: The types of its fields with their metadata, as far as they are known.
        convert: Makes the value of a content; raises ArgumentsError or ValueError.
        has_fields: Whether the author wrote the fields, so that messages name them.

    Raises:
        RegistrationError: No protocol version can express it.
    """

    def __init__(
        self,
        name: str,
        schema: Json,
        annotations: Mapping[str, Sequence[Any]],
        convert: Callable[[Json], Any],
        *,
        has_fields: bool = True,
    ) -> None:
        self._convert = convert
        self._fields: dict[str, Field] = {}
        for field, inner in schema.get("properties", {}).items():
            place = f"{name}{name and ': '}the field {field!r}" if has_fields else name
            self._fields[field] = Field.of(place, inner, annotations.get(field, ()))
        required: list[str] = schema.get("required", [])
        self._required = [name for name in required if not self._fields[name].may_be_null]
        # Values that Python needs and a user may leave out.
        self._unanswered = {name: None for name in required if self._fields[name].may_be_null}
        self._expected = self._object({name: field.schema for name, field in self._fields.items()})
        try:
            self._render(_WIDEST, "a form")
        except UnsupportedFormError as error:
            raise RegistrationError(str(error)) from None

    @classmethod
    def of(cls, annotation: Any) -> Form:
        """Return the form for a value of a type.

        Args:
            annotation: A pydantic model, dataclass, TypedDict, NamedTuple or class of attrs or msgspec, with the
                fields of the form; or the type of a single value (str, int, float, bool, date, datetime, a `Literal`
                or Enum of strings, a list of one of these two), which is sent as `{"value": ...}`. A field that may be
                None or has a default is optional. A choice has the `label` of its Enum's members, or the titles in
                `Annotated[Literal["s"], "Small"] | Annotated[Literal["l"], "Large"]`. Or a JSON Schema of an object
                with such fields; its value is a dict, with defaults for omitted fields.

        Raises:
            RegistrationError: No form can request it. The message has the field and the remedy.
            UnresolvedHint: A type hint needs a name that is not defined yet.
        """
        if is_object(annotation):
            return _of_json_schema(annotation)
        _refuse_values(annotation)
        if get_origin(annotation) is Annotated and _is_structure(annotation.__origin__):
            annotation = annotation.__origin__
        if isinstance(annotation, type) and get_origin(annotation) is None:
            return _of_class(annotation)
        return _of_type(annotation)

    def schema(self, revision: str) -> Json:
        """Return the `requestedSchema` for a protocol version.

        Args:
            revision: Protocol version of the client.

        Raises:
            UnsupportedFormError: The version cannot express it. The message has the field and the remedy.
            ValueError: The version has no forms.
        """
        if revision not in FORMS:
            first = min(FORMS)
            raise ValueError(f"protocol version {revision} has no elicitation by form; {first} introduced it")
        return self._render(revision, f"protocol version {revision}")

    def read(self, content: Any) -> Any:
        """Return the value of an accepted form.

        Fields that the form does not have are ignored. Null is no answer where None is one; nor is an empty string for
        a field that may be left out and does not take one.

        Args:
            content: The `content` of an `ElicitResult`, a JSON value.

        Raises:
            ArgumentsError: It does not fit the form, or the type's own checks refuse it.
        """
        try:
            return self._read(content)
        except ArgumentsError as error:
            # Hosts send empty strings for empty inputs.
            wrong = {problem.field for problem in error.problems}
            answers: Json = content if is_object(content) else {}
            optional = self._fields.keys() - self._required
            blank = [
                name
                for name in answers
                if answers[name] == "" and name in optional and path((name,)) in wrong
            ]
            if not blank:
                raise
            return self.read(without(content, *blank))

    def _read(self, content: Any) -> Any:
        answers = content
        if is_object(content):
            nullable = {name for name, field in self._fields.items() if field.may_be_null}
            answers = {
                name: value for name, value in content.items() if value is not None or name not in nullable
            }
        if found := problems(self._expected, answers):
            raise ArgumentsError(found)
        try:
            return self._convert({**self._unanswered, **content})
        except ValidationError as error:
            raise ArgumentsError(from_validator(error, content, self._expected)) from None
        except ValueError as error:
            raise ArgumentsError([Problem("", str(error))]) from error

    def _render(self, revision: str, subject: str) -> Json:
        return self._object({name: field.render(revision, subject) for name, field in self._fields.items()})

    def _object(self, properties: Json) -> Json:
        required = {"required": self._required} if self._required else {}
        return {"type": "object", "properties": properties, **required}


@functools.lru_cache(maxsize=256)
def _of_class(cls: type) -> Form:
    # Only forms of classes are cached: equal `Literal`s may have their choices in different orders.
    return _of_type(cls)


# --- Types

_HINT_MODULES = {"types", "typing", "typing_extensions"}
# The only field of a form for a single value.
_VALUE = "value"


def _refuse_values(annotation: Any) -> None:
    """Refuse values that are no type hints, such as instances, and a class that may be None."""
    is_hint = isinstance(annotation, (type, str)) or type(annotation).__module__ in _HINT_MODULES
    if annotation is not None and not is_hint:
        raise RegistrationError(
            f"a form needs a type, such as a dataclass or a pydantic model, got {annotation!r}"
        )
    if type(None) in get_args(annotation) and any(_is_structure(part) for part in get_args(annotation)):
        name = str(annotation).replace("typing.", "")
        raise RegistrationError(
            f"{name} is an object, and a form cannot nest objects; remove `None`: an `ElicitationResult` that was "
            "not accepted has no value"
        )


def _is_pydantic(annotation: object) -> bool:
    """Return whether an object is a pydantic model or dataclass with fields."""
    return hasattr(annotation, "__pydantic_validator__") and not getattr(
        annotation, "__pydantic_root_model__", False
    )


def _is_structure(annotation: object) -> bool:
    is_data = isinstance(annotation, type) and (
        hasattr(annotation, "__dataclass_fields__") or hasattr(annotation, "_asdict")
    )
    return is_data or is_typeddict(annotation) or _is_pydantic(annotation) or is_struct(annotation)


def _of_type(annotation: Any) -> Form:
    name = annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")
    if not _is_structure(annotation):
        return _of_parameters(name, [parameter(_VALUE, annotation)], itemgetter(_VALUE), has_fields=False)
    if _is_pydantic(annotation) or is_struct(annotation):
        return _of_model(annotation, name)
    from dataclasses import MISSING, InitVar

    try:
        if is_typeddict(annotation):
            return _of_parameters(name, key_parameters(annotation), lambda values: values)
        hints = typing.get_type_hints(annotation, include_extras=True)
    except NameError as error:
        raise UnresolvedHint(
            f"{name}: the type hint {error.name!r} is not defined; define it in the module of the class, "
            "not inside a function, and import it outside `if TYPE_CHECKING`"
        ) from error
    arguments: list[Parameter] = []
    for written in inspect.signature(annotation).parameters.values():
        hint: Any = hints.get(written.name, empty)
        hint = typing.cast("Any", hint).type if isinstance(hint, InitVar) else hint
        field = getattr(annotation, "__dataclass_fields__", {}).get(written.name)
        has_factory = field is not None and field.default_factory is not MISSING
        default = empty if has_factory else written.default
        arguments.append(parameter(written.name, hint, default, may_be_omitted=has_factory))
    return _of_parameters(name, arguments, lambda values: annotation(**values))


def _of_parameters(
    name: str, parameters: Sequence[Parameter], build: Callable[[Json], Any], *, has_fields: bool = True
) -> Form:
    arguments = Arguments.of_parameters(name, parameters, drops_unknown=True)
    annotations = {each.name: (each.annotation,) for each in parameters}

    def convert(content: Json) -> Any:
        return build(arguments.validate(content))

    return Form(name, arguments.schema, annotations, convert, has_fields=has_fields)


def _of_model(cls: Any, name: str) -> Form:
    described = describe(cls)
    schema = described.schema
    check_sendable("", "schema", schema)
    if "$ref" in schema:  # a class that contains itself
        schema = target(schema, {"$defs": described.definitions})
    validate = validator(described.core).validate_python
    annotations: dict[str, Sequence[Any]]
    if is_struct(cls):
        from .third_party_types import struct_hints

        annotations = {field: (hint,) for field, hint in struct_hints(cls).items()}
    else:
        annotations = {}
        for own, field in cls.__pydantic_fields__.items():
            aliases: list[Any] = getattr(field.validation_alias, "choices", [field.validation_alias])
            published = next((alias for alias in aliases if isinstance(alias, str)), own)
            annotations[published] = (field.annotation, *field.metadata)
    return Form(name, schema, annotations, partial(validate, by_alias=True, by_name=False))


# --- JSON Schemas of the author: an object of flat fields (client/elicitation, "Requested Schema")

_ROOT = frozenset({"type", "properties", "required"})
# Keywords that generators of schemas write and forms do not have.
_DROPPED = frozenset({"$schema", "$id", "$defs", "$comment", "title", "description", "additionalProperties"})
# The schema of each keyword's value.
_RULES: dict[str, Json] = {
    keyword: rule
    for rule, keywords in (
        ({"type": "string"}, ("title", "description", "format")),
        ({"type": "integer", "minimum": 0}, ("minLength", "maxLength", "minItems", "maxItems")),
        ({"type": "number"}, ("minimum", "maximum")),
        ({"type": "array"}, ("enum", "oneOf", "anyOf", "enumNames")),
    )
    for keyword in keywords
}


def _of_json_schema(schema: Json) -> Form:
    """Return the form of a JSON Schema.

    Raises:
        RegistrationError: It is not the schema of a form. The message has the place and the remedy.
    """
    check_sendable("", "form", schema)
    if schema.get("type") != "object" or not is_object(schema.get("properties")):
        raise RegistrationError(
            'the JSON Schema of a form must have {"type": "object", "properties": {...}}; for another '
            "type, pass the type"
        )
    if strange := sorted(schema.keys() - _ROOT - _DROPPED):
        raise RegistrationError(f"a form does not support `{strange[0]}`; remove it")
    schema = inlined(schema)
    properties: Json = schema["properties"]
    for name, field in properties.items():
        _check_field(f"the field {name!r}", field)
    required = schema.get("required", [])
    if not is_array(required) or not all(isinstance(name, str) for name in required):
        raise RegistrationError("`required` must be an array of field names")
    if unknown := [name for name in required if name not in properties]:
        raise RegistrationError(
            f"`required` contains {unknown[0]!r}, which is not a field; add it to `properties`, or remove it"
        )
    defaults = {name: field["default"] for name, field in properties.items() if "default" in field}

    def convert(content: Json) -> Json:
        answers = {**defaults, **content}
        return {name: answers[name] for name in properties if name in answers}

    return Form("", {key: value for key, value in schema.items() if key in _ROOT}, {}, convert)


def _check_field(where: str, field: Any) -> None:
    if not is_object(field):
        raise RegistrationError(f"{where} is not a JSON Schema; write it as a dict")
    for keyword, value in field.items():
        rule = _RULES.get(keyword)
        if rule is not None and not validator_of(rule).isinstance_python(value):
            raise RegistrationError(f"{where}: `{keyword}` must be {expected(rule, {})}, got {value!r}")
        if keyword == "pattern":
            try:
                re.compile(value)
            except (re.error, TypeError):
                raise RegistrationError(
                    f"{where}: `pattern` must be a regular expression, got {value!r}"
                ) from None
        if keyword in ("oneOf", "anyOf", "items"):
            for part in value if is_array(value) else [value]:
                _check_field(where, part)
