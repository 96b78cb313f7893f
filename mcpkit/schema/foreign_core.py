"""Classes that pydantic does not know, where pydantic meets them: in annotations, and in its core schemas.

In the fields of a class they are instances of an unknown class to it, without what stands in their brackets.
"""

from __future__ import annotations

import collections.abc
import sys
import typing
from collections.abc import Iterator, Mapping
from fractions import Fraction
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, cast, get_args, get_origin

import typing_extensions
from pydantic_core import CoreSchema, core_schema

from .._utils.core_schema import copied
from ..protocol.jsonrpc import is_object
from . import types
from .described import Described, NotInTable, is_incoming
from .foreign_types import described, iterated_as, unaliased
from .parameters import last_text

_METADATA = "mcpkit"
_LITERAL_STRINGS = (typing_extensions.LiteralString, getattr(typing, "LiteralString", str))
NO_SCHEMAS = frozenset({"metadata", "config", "cls"})

# Subscribed with what is only known at run time, which no type checker follows.
_ANNOTATED: Any = Annotated
_LIST: Any = list


def rewritten(annotation: Any) -> Any:
    """Return an annotation that pydantic supports, in place of `NDArray[T]`, `Iterator[T]` or `LiteralString`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if not arguments or origin is Literal:
        return str if annotation in _LITERAL_STRINGS else annotation
    annotation = unaliased(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is not collections.abc.Iterable and (found := iterated_as(origin, arguments)):
        item, is_iterated = found
        items = _LIST[rewritten(item)]
        return _ANNOTATED[items, _Iterated()] if is_iterated else items
    if isinstance(origin, type) and origin.__module__ == "numpy":
        return _ANNOTATED[origin, _Known(annotation)]
    inner, metadata = arguments, ()
    if origin is Annotated:
        inner, metadata = arguments[:1], annotation.__metadata__
    parts = (*map(rewritten, inner), *map(_known, metadata))
    if all(new is old for new, old in zip(parts, (*inner, *metadata), strict=True)):
        return annotation
    if hasattr(annotation, "copy_with") and origin is not Annotated:
        return annotation.copy_with(parts)
    subscribed = cast("Any", Union if origin is UnionType else origin)
    return subscribed[parts]


TEXT = "mcpkit_text"
"""The key of a text of `Annotated` in the metadata of a core schema."""


class _Text(NamedTuple):
    """Description in `Annotated`; `Field(description=...)` would change the class in all places."""

    text: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        inner = handler(source)
        return cast("CoreSchema", {**inner, "metadata": {**inner.get("metadata", {}), TEXT: self.text}})


def _known(item: object) -> object:
    """Return metadata of `Annotated` as pydantic reads it."""
    text = last_text([item])
    return item if text is None else _Text(text)


class _Known(NamedTuple):
    """Marks a class that pydantic does not support, with its type arguments."""

    annotation: Any

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.is_instance_schema(
            get_origin(self.annotation), metadata={_METADATA: self.annotation}
        )


class _Iterated(NamedTuple):
    """Marks a list that the function receives as an iterator."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        inner = handler(source)
        return core_schema.no_info_after_validator_function(iter, inner) if is_incoming() else inner


def of_node(node: Any) -> Described | None:
    """Return schema and validator for a node of a core schema of pydantic; None where they are those of pydantic.

    Args:
        node: It stands for a class that pydantic does not know, or has another form for.

    Raises:
        RegistrationError: JSON has no form for the class.
    """
    kind = node.get("type")
    if kind == "is-instance":
        annotation = node.get("metadata", {}).get(_METADATA, node["cls"])
        if annotation is collections.abc.Hashable:  # a key or an item, in the words of pandas; anything
            return types.describe(annotation)
    elif kind == "fraction" or (kind == "lax-or-strict" and _is_fraction(node)):
        annotation = Fraction
    else:
        return None
    try:
        return described(annotation, types.describe)
    except NotInTable:
        return None


def restored(core: Any) -> Any:
    """Return a core schema in which the fields of classes have what stands in the brackets of their annotations."""
    return _restored(core, {}, {}) if "numpy" in sys.modules else core


_Aliases = Mapping[Any, Any]
"""Annotations with brackets by the class before these."""


def _restored(core: Any, fields: Mapping[str, _Aliases], aliases: _Aliases) -> Any:
    if not is_object(core):
        return copied(core, lambda inner: _restored(inner, fields, aliases))
    kind = core.get("type")
    if kind == "is-instance" and core["cls"] in aliases:
        return {**core, "metadata": {**core.get("metadata", {}), _METADATA: aliases[core["cls"]]}}
    if kind in ("model", "dataclass", "typed-dict", "named-tuple"):
        fields = _aliases_of(core.get("cls"))
    elif kind == "call":  # what pydantic before 2.14 makes of a NamedTuple
        fields = _aliases_of(core["function"])
    elif isinstance(core.get("name"), str) and "schema" in core:
        aliases = fields.get(core["name"], {})
    if kind in ("model-fields", "typed-dict"):
        inner: Any = {
            name: _restored(field, {}, fields.get(name, {})) for name, field in core["fields"].items()
        }
        return {**core, "fields": inner}
    return copied(core, lambda inner: _restored(inner, fields, aliases), NO_SCHEMAS)


def _aliases_of(cls: Any) -> Mapping[str, _Aliases]:
    try:
        hints = typing_extensions.get_type_hints(cls, include_extras=True)
    except (NameError, TypeError):  # pydantic has found what a name means elsewhere
        return {}
    return {name: {get_origin(part): part for part in _of_numpy(hint)} for name, hint in hints.items()}


def _of_numpy(hint: Any) -> Iterator[Any]:
    hint = unaliased(hint)
    origin = get_origin(hint)
    if isinstance(origin, type) and origin.__module__ == "numpy":
        yield hint
    else:
        for part in get_args(hint):
            yield from _of_numpy(part)


def _is_fraction(node: Any) -> bool:
    # How pydantic before 2.14 says it.
    function = node["lax_schema"].get("function")
    return is_object(function) and getattr(function.get("function"), "__name__", "") == "fraction_validator"
