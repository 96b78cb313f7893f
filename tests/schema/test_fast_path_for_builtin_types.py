"""The short way for plain types makes the same JSON Schema and core schema as pydantic.

Except for a union with `Any`, of which the short way publishes `{}`, and the place of null in a union.
"""

from __future__ import annotations

import collections.abc
import datetime as dt
import enum
import sys
import types
import typing
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union
from uuid import UUID

import annotated_types as at
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field
from typing_extensions import NotRequired

from mcpkit.protocol.objects import ParamHeader
from mcpkit.schema import type_schemas
from mcpkit.schema.fast_path_for_builtin_types import NotPlainError, describe_plain
from mcpkit.types import Email, Uri


class Color(enum.Enum):
    """A color."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Place(typing.TypedDict):
    """A place."""

    name: str
    size: NotRequired[Annotated[int, at.Ge(0)]]
    inner: Optional[list[Color]]  # noqa: UP045 - of values


LEAVES: list[Any] = [
    int, float, str, bool, bytes, list[Any], dict[str, Any], Decimal, UUID, Path, Email, Uri, Color, Level, Place,
    dt.date, dt.time, dt.datetime, dt.timedelta, Literal["a", "b"], Literal[1, 2], Literal["x", 1, None, True],
    Literal[Color.RED], list, dict, tuple, Annotated[int, at.Gt(3), at.Le(9)],
    Annotated[int, Field(ge=0, lt=10)], Annotated[str, Field(pattern="^[a-z]+$", title="A", description="B")],
    Annotated[str, Field(min_length=1), at.MaxLen(9)],
    Annotated[float, at.MultipleOf(0.5)], Annotated[str, at.Len(2, 4)], Annotated[str, "A text"],
    Annotated[str, ParamHeader("Region")], Annotated[list[int], "Numbers"], Annotated[Email, "Yours"],
]  # fmt: skip


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    wraps: list[Any] = [
        lambda item, _: list[item],
        lambda item, _: collections.abc.Sequence[item],
        lambda item, _: dict[str, item],
        lambda item, _: collections.abc.Mapping[str, item],
        lambda item, _: tuple[item, ...],
        lambda item, other: tuple[item, other],
        lambda item, _: Optional[item],  # noqa: UP045 - of values
        lambda item, other: Union[item, other],  # noqa: UP007 - of values
        lambda item, _: Annotated[item, "A text"],
    ]
    return st.builds(lambda wrap, item, other: wrap(item, other), st.sampled_from(wraps), inner, inner)


ANNOTATIONS = st.recursive(st.sampled_from(LEAVES), containers, max_leaves=4)

_IGNORED = frozenset({"metadata", "ref", "serialization", "cls", "cls_name", "config", "computed_fields"})
"""Keys of core schemas that change nothing about accepted values."""


def comparable(core: Any, definitions: Any = types.MappingProxyType({})) -> Any:
    """Return a core schema without references, defaults and identities of functions."""
    if isinstance(core, dict):
        if core.get("type") == "definitions":
            return comparable(core["schema"], {each["ref"]: each for each in core["definitions"]})
        if core.get("type") == "definition-ref":
            return comparable(definitions[core["schema_ref"]], definitions)
        if core.get("type") == "any":
            return None
        parts = {key: comparable(inner, definitions) for key, inner in core.items() if key not in _IGNORED}
        if parts.get("extra_behavior") == "ignore":
            del parts["extra_behavior"]
        parts = {key: part for key, part in parts.items() if part is not None and part is not False}
        return None if parts == {"type": "nullable"} else parts
    if isinstance(core, (list, tuple)):
        return [comparable(inner, definitions) for inner in core]
    if core is Path or getattr(core, "__name__", "") == "path_validator":
        return "Path"
    if callable(core) and not isinstance(core, type):
        return getattr(core, "__qualname__", type(core).__qualname__)
    return core


def sorted_branches(schema: Any) -> Any:
    """Return a JSON Schema with null as the last branch of each union, where pydantic puts it."""
    if isinstance(schema, dict):
        parts = {key: sorted_branches(inner) for key, inner in schema.items()}
        if "anyOf" in parts:
            parts["anyOf"].sort(key=lambda branch: branch == {"type": "null"})
        return parts
    return [sorted_branches(inner) for inner in schema] if isinstance(schema, list) else schema


@given(ANNOTATIONS)
def test_plain_type_is_described_as_by_pydantic(annotation: Any) -> None:
    plain = describe_plain(annotation)
    other = type_schemas.describe(annotation, "validation")
    assert sorted_branches(plain.schema) == sorted_branches(other.schema)
    assert not other.definitions
    assert comparable(plain.core) == comparable(other.core)


def test_fast_path_leaves_other_types_to_pydantic() -> None:
    others: list[Any] = [
        Annotated[int, at.Ge(0), at.Predicate(bool)], Annotated[list[int], at.Len(1, 2)], dict[int, int],
        Annotated[str, at.MinLen(0)], Annotated[float, at.Le(float("inf"))], bytearray, range, set[int],
        Annotated[int, Field(ge=0, alias="b")], Annotated[int, Field(examples=[1])], Annotated[str, Field(strict=True)],
    ]  # fmt: skip
    for annotation in others:
        try:
            found = describe_plain(annotation)
        except NotPlainError:
            continue
        raise AssertionError(annotation, found)
    assert "pydantic" in sys.modules
