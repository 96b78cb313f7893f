"""The form that asks a user for a value of a type: what is asked, and how the answer is read.

client/elicitation, "Form Mode Elicitation Requests".
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from pydantic_core import ValidationError
from typing_extensions import is_typeddict

from .._utils.core_schema import validator
from .._utils.exceptions import ArgumentsError, Problem, RegistrationError, UnresolvedHint
from ..content.blocks import path
from ..content.convert import check_sendable
from ..content.third_party import is_struct
from ..protocol.jsonrpc import is_object, without
from . import hints, written_form
from .arguments import Arguments, from_validator
from .form_fields import FORMS, CannotSayError, Field
from .parameters import Parameter, empty, of_keys, parameter
from .problems import problems
from .references import target
from .values import Json

_HINTS = {"types", "typing", "typing_extensions"}
"""Where the classes of type hints come from."""

_VALUE = "value"
"""The one field of a form for a scalar."""


class _Source(NamedTuple):
    """A type as the source of a form.

    Args:
        schema: Its JSON Schema, an object.
        annotations: The types of its fields with their metadata, as far as they are known.
        convert: Makes the value of a content; raises ArgumentsError or ValueError.
    """

    schema: Json
    annotations: Mapping[str, Sequence[Any]]
    convert: Callable[[Json], Any]


class CannotAskError(ValueError):
    """A protocol version cannot express a form.

    Args:
        why: Reason and remedy, for the author.
        lack: Missing capability, for the user.
    """

    def __init__(self, why: str, lack: str) -> None:
        super().__init__(why)
        self.lack = lack


class Form:
    """A form; `Form.of` makes one."""

    def __init__(self, where: Callable[[str], str], source: _Source) -> None:
        schema = source.schema
        required: list[str] = schema.get("required", [])
        self._convert = source.convert
        self._fields = {
            name: Field.of(where(name), inner, source.annotations.get(name, ()))
            for name, inner in schema.get("properties", {}).items()
        }
        self._required = [name for name in required if not self._fields[name].may_be_null]
        # What Python must be given and a user may leave out.
        self._unanswered = {name: None for name in required if self._fields[name].may_be_null}
        self._expected = self._object({name: field.schema for name, field in self._fields.items()})
        self._schemas = {
            revision: self._say(where, revision, f"protocol version {revision}") for revision in FORMS
        }
        if not any(map(is_object, self._schemas.values())):
            raise RegistrationError(str(self._say(where, max(FORMS), "a form")))

    def _object(self, properties: Json) -> Json:
        required = {"required": self._required} if self._required else {}
        return {"type": "object", "properties": properties, **required}

    def _say(self, where: Callable[[str], str], revision: str, speaker: str) -> Json | CannotAskError:
        """Return the schema of a revision, or why it has none."""
        properties: Json = {}
        for name, field in self._fields.items():
            try:
                properties[name] = field.say(revision)
            except CannotSayError as error:
                why = f"{where(name)} is not possible: {speaker} has no {error}"
                return CannotAskError(why, f"{speaker} has no {error.what}")
        return self._object(properties)

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
            schema = written_form.checked(annotation)
            return Form(
                lambda field: f"the field {field!r}", _Source(schema, {}, written_form.reader(schema))
            )
        _refuse_values(annotation)
        if get_origin(annotation) is Annotated and _is_structure(annotation.__origin__):
            annotation = annotation.__origin__
        if isinstance(annotation, type) and get_origin(annotation) is None:
            return _of_class(annotation)
        return _form(annotation)

    def schema(self, revision: str) -> Json:
        """Return the `requestedSchema` for a protocol version; do not change it.

        Args:
            revision: Protocol version of the client.

        Raises:
            CannotAskError: The version cannot express it. The message has the field and the remedy.
            ValueError: The version has no forms.
        """
        if revision not in self._schemas:
            first = min(FORMS)
            raise ValueError(f"protocol version {revision} has no elicitation by form; {first} introduced it")
        schema = self._schemas[revision]
        if isinstance(schema, CannotAskError):
            raise schema.with_traceback(None)
        return schema

    def read(self, content: Any) -> Any:
        """Return the value that an accepted form holds.

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
            wrong = {problem.field for problem in error.problems}
            blank = [name for name in self._blank(content) if path((name,)) in wrong]
            if not blank:
                raise
            return self.read(without(content, *blank))

    def _blank(self, content: Any) -> list[str]:
        """Return the optional fields with an empty string, which hosts send for empty inputs."""
        answers: Json = content if is_object(content) else {}
        optional = self._fields.keys() - self._required
        return [name for name, value in answers.items() if value == "" and name in optional]

    def _read(self, content: Any) -> Any:
        answers = content
        if is_object(content):
            answers = {name: value for name, value in content.items() if not self._is_blank(name, value)}
        found = problems(self._expected, answers)
        if found:
            raise ArgumentsError(found)
        try:
            return self._convert({**self._unanswered, **content})
        except ValidationError as error:
            raise ArgumentsError(from_validator(error, content, self._expected)) from None
        except ValueError as error:
            raise ArgumentsError([Problem("", str(error))]) from error

    def _is_blank(self, name: str, value: Any) -> bool:
        return value is None and name in self._fields and self._fields[name].may_be_null


@functools.lru_cache(maxsize=256)
def _of_class(cls: type) -> Form:
    # Only classes are kept: of two equal `Literal`s, each may have its choices in an order of its own.
    return _form(cls)


def _form(annotation: Any) -> Form:
    name = annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")
    if not _is_structure(annotation):
        return Form(lambda _: name, _parameters(name, [parameter(_VALUE, annotation)], itemgetter(_VALUE)))
    return Form(lambda field: f"{name}: the field {field!r}", _structure(annotation, name))


def _refuse_values(annotation: Any) -> None:
    """Refuse what is no type hint, such as an instance, and a class that may be None."""
    is_hint = isinstance(annotation, (type, str)) or type(annotation).__module__ in _HINTS
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


def _is_structure(annotation: object) -> bool:
    return (
        is_typeddict(annotation) or _is_data(annotation) or _is_pydantic(annotation) or is_struct(annotation)
    )


def _is_data(annotation: object) -> bool:
    """Return whether an object is a dataclass or a NamedTuple class."""
    return isinstance(annotation, type) and (
        hasattr(annotation, "__dataclass_fields__") or hasattr(annotation, "_asdict")
    )


def _is_pydantic(annotation: object) -> bool:
    """Return whether an object is a pydantic model or dataclass with fields."""
    return hasattr(annotation, "__pydantic_validator__") and not getattr(
        annotation, "__pydantic_root_model__", False
    )


def _structure(cls: Any, name: str) -> _Source:
    if _is_pydantic(cls) or is_struct(cls):
        return _model(cls)
    try:
        if is_typeddict(cls):
            return _parameters(name, of_keys(cls), lambda values: values)
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise UnresolvedHint(
            f"{name}: the type hint {error.name!r} is not defined; define it in the module of the class, "
            "not inside a function, and import it outside `if TYPE_CHECKING`"
        ) from error
    arguments = [
        _argument(cls, written, hints.get(written.name, empty))
        for written in inspect.signature(cls).parameters.values()
    ]
    return _parameters(name, arguments, lambda values: cls(**values))


def _argument(cls: Any, written: inspect.Parameter, hint: Any) -> Parameter:
    from dataclasses import MISSING, InitVar

    if isinstance(hint, InitVar):
        hint = typing.cast("Any", hint).type
    field = getattr(cls, "__dataclass_fields__", {}).get(written.name)
    if field is not None and field.default_factory is not MISSING:
        return parameter(written.name, hint, may_be_omitted=True)
    return parameter(written.name, hint, written.default)


def _parameters(owner: str, parameters: Sequence[Parameter], build: Callable[[Json], Any]) -> _Source:
    arguments = Arguments.of_parameters(owner, parameters, drops_unknown=True)

    def convert(content: Json) -> Any:
        return build(arguments.validate(content))

    return _Source(arguments.schema, {each.name: (each.annotation,) for each in parameters}, convert)


def _model(cls: Any) -> _Source:
    described = hints.describe(cls)
    schema = described.schema
    check_sendable("", "schema", schema)
    if "$ref" in schema:  # a class that contains itself
        schema = target(schema, {"$defs": described.definitions})
    validates = validator(described.core)

    def convert(content: Json) -> Any:
        return validates.validate_python(content, by_alias=True, by_name=False)

    if is_struct(cls):
        from . import structs

        return _Source(schema, {name: (hint,) for name, hint in structs.fields(cls).items()}, convert)
    annotations = {
        _published(name, field): (field.annotation, *field.metadata)
        for name, field in cls.__pydantic_fields__.items()
    }
    return _Source(schema, annotations, convert)


def _published(name: str, field: Any) -> str:
    """Return the name of a pydantic field in its schema."""
    alias: Any = field.validation_alias
    choices: list[Any] = getattr(alias, "choices", [alias])
    return next((choice for choice in choices if isinstance(choice, str)), name)
