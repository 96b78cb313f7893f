"""Instances of models without validators and serializers, as pydantic needs much of a start to build them."""

from __future__ import annotations

from copy import copy
from types import NoneType, UnionType
from typing import Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, WithJsonSchema
from pydantic.fields import FieldInfo

from ...protocol.jsonrpc import Json
from ...protocol.objects import Incomplete
from .basic import AnyFunction

ModelT = TypeVar("ModelT", bound=BaseModel)

_OURS = "mcpkit.compat."
_FUNCTION: object = get_origin(AnyFunction)
_ANYTHING = (object, get_args(Json)[1])
_SIMPLE = (str, int, float, bool, NoneType)


def made(kind: type[ModelT], /, **values: object) -> ModelT:
    """Return a model with these values. It is validated unless all values certainly fit.

    Lists and dicts are copied, as in validation, so that changes of the model do not affect the originals.
    """
    fields = {field.alias or name: field for name, field in kind.model_fields.items()}
    is_certain = (
        kind.__module__.startswith(_OURS)
        and not kind.__pydantic_complete__
        and all(name in values or not field.is_required() for name, field in fields.items())
        and all(name in fields and _fits(value, fields[name]) for name, value in values.items())
    )
    if not is_certain:
        return kind(**values)
    return kind.model_construct(None, **{name: _own(value) for name, value in values.items()})


def _own(value: object) -> object:
    return copy(value) if value.__class__ in (dict, list) else value


def _fits(value: object, field: FieldInfo) -> bool:
    """Return True if a field certainly accepts a value without conversion."""
    literals = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    known = [each for each in (field.default, *literals) if type(each) in _SIMPLE]
    if any(type(value) is type(each) and value == each for each in known):
        return True
    is_bound = any(not isinstance(each, WithJsonSchema) for each in field.metadata)
    return not is_bound and is_exactly(value, field.annotation)


def is_exactly(value: Incomplete, annotation: object) -> bool:
    """Return True if a value certainly has a type and needs no conversion."""
    origin: Incomplete = get_origin(annotation)
    kind: type[object] = value.__class__
    of = get_args(annotation)
    if origin in (Union, UnionType):
        return any(is_exactly(value, each) for each in of)
    if origin is list and kind is list:
        return all(is_exactly(each, of[0]) for each in value)
    if origin is dict and kind is dict:
        return all(is_exactly(name, of[0]) and is_exactly(each, of[1]) for name, each in value.items())
    if origin is type:
        return isinstance(value, type) and issubclass(value, of[0])
    if origin is _FUNCTION:
        return callable(value)
    return annotation in (kind, *_ANYTHING)


def plain(value: Incomplete) -> object:
    """Return the members of a model without a serializer as a dict; return other values unchanged."""
    kind: type[object] = value.__class__
    if kind is list:
        return [plain(each) for each in value]
    if not issubclass(kind, BaseModel) or kind.__pydantic_complete__ or not kind.__module__.startswith(_OURS):
        return value
    names = {name: field.alias or name for name, field in kind.model_fields.items()}
    said: Json = {**vars(value), **(value.model_extra or {})}
    return {names.get(name, name): plain(each) for name, each in said.items() if each is not None}
