"""Elicitation requests: the form for a type, and its result as a value of that type."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Generic, Literal

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from typing_extensions import TypeVar

from ...protocol.jsonrpc import Json, is_array, is_object
from ...protocol.objects import Incomplete
from .schemas import inlined, origin_of, rooted

T = TypeVar("T", default=object)
_PRIMITIVE = {"string", "number", "integer", "boolean"}


class AcceptedElicitation(BaseModel, Generic[T]):
    """The user accepted the request."""

    action: Literal["accept"] = "accept"
    data: T


@dataclass
class ScalarElicitationType(Generic[T]):
    """The form for one value."""

    value: T


class _Form(GenerateJsonSchema):
    """Schema generator with inlined choices; lists of choices are `anyOf`."""

    def list_schema(self, schema: core_schema.ListSchema) -> JsonSchemaValue:
        found = super().list_schema(schema)
        items = found.get("items", {})
        return {**found, "items": {"anyOf": items["oneOf"]}} if "oneOf" in items else found


def _choices(of: Json, key: str) -> Json:
    return {key: [{"const": value, "title": each.get("title", value)} for value, each in of.items()]}


def _literal(values: Incomplete) -> Incomplete:
    return Literal[tuple(values)]


def _one(kind: Incomplete, of: Incomplete, otherwise: Incomplete) -> Incomplete:
    return otherwise if of is None else kind[of]


def _several(values: Incomplete) -> Incomplete:
    choice = _literal(values)
    return list[choice]  # type: ignore[valid-type]  # made at run time


class Form:
    """The form for a type of result.

    Args:
        response_type: A scalar, a `Literal`, an `Enum`, a dataclass, a model; or choices, as a list of texts or a dict
            of titles, within a list if several may be chosen.
        title: Title of the only field.
        description: Description of the only field.

    Raises:
        TypeError: The type has no form.
    """

    def __init__(
        self, response_type: Incomplete, title: str | None = None, description: str | None = None
    ) -> None:
        if response_type is None:
            raise TypeError("ctx.elicit() requires a response_type. Pass bool for a confirmation")
        given: Incomplete = response_type[0] if is_array(response_type) and len(response_type) == 1 else None
        value: Json | None = None
        wrapped: Incomplete = None
        if is_object(response_type):
            value, wrapped = {**_choices(response_type, "oneOf"), "type": "string"}, _literal(response_type)
        elif given and is_object(given):
            value, wrapped = {"type": "array", "items": _choices(given, "anyOf")}, _several(given)
        elif given and is_array(given):
            value, wrapped = {"type": "array", "items": {"enum": given}}, _several(given)
        elif is_array(response_type):
            wrapped = _literal(response_type)
        elif (
            response_type in (bool, int, float, str)
            or origin_of(response_type) in (list, Literal)
            or (isinstance(response_type, type) and issubclass(response_type, Enum))
        ):
            wrapped = response_type
        elif title is not None or description is not None:
            raise TypeError(
                "response_title and response_description work only with single values. Use Field(title=...) in a model"
            )
        self._adapter: TypeAdapter[Incomplete] = TypeAdapter(
            _one(ScalarElicitationType, wrapped, response_type)
        )
        if value is not None:
            self.schema: Json = {"type": "object", "properties": {"value": value}, "required": ["value"]}
        else:
            self.schema = inlined(rooted(self._adapter.json_schema(schema_generator=_Form)))
            if wrapped is not None:
                del self.schema["title"], self.schema["description"]
            _check(self.schema)
        said = {"title": title, "description": description}
        if wrapped is not None:
            self.schema["properties"]["value"].update(
                {name: each for name, each in said.items() if each is not None}
            )

    def accepted(self, content: Incomplete) -> AcceptedElicitation[Incomplete]:
        """Return the result of the user. Raises pydantic's ValidationError."""
        found: Incomplete = self._adapter.validate_python(content)
        is_one = isinstance(found, ScalarElicitationType)
        return AcceptedElicitation(data=vars(found)["value"] if is_one else found)


def _check(schema: Json) -> None:
    if schema.get("type") != "object":
        raise TypeError(f"Elicitation schema must be an object schema, got type '{schema.get('type')}'.")
    for name, each in schema.get("properties", {}).items():
        items = each.get("items", {})
        if each.get("type") == "array":
            may_be = (
                "enum" in items or "const" in items or all("const" in one for one in items.get("anyOf", [{}]))
            )
        else:
            arms = each.get("anyOf") or each.get("oneOf") or [each]
            may_be = all("const" in one or "enum" in one or one.get("type") in _PRIMITIVE for one in arms)
        if not may_be:
            raise TypeError(
                f"Elicitation schema field '{name}' must be a string, a number, a boolean or an enum: forms are flat"
            )
