"""Types drawn at random from supported.py and from everything that may hold them, each with its values."""

# ruff: noqa: UP007, UP045 - built of what is known at run time only, and the old spellings are tested on purpose
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple, Optional, Union

import pydantic
from hypothesis import strategies as st
from typing_extensions import TypedDict

from mcpkit.schema.hints import describe
from tests.helpers.supported import Supported
from tests.helpers.supported_foreign import EVERY


def _held(
    name: str, annotation: Any, values: st.SearchStrategy[Any], *inner: Supported, **options: Any
) -> Supported:
    options.setdefault("is_field", all(each.is_field for each in inner))
    options["is_exact"] = all(each.is_exact for each in inner)
    return Supported(name, annotation, values, None, **options)


def _list(inner: Supported) -> Supported:
    return _held("list", list[inner.annotation], st.lists(inner.values, max_size=3), inner)


def _pair(first: Supported, second: Supported) -> Supported:
    annotation = tuple[first.annotation, second.annotation]
    is_hashable = first.is_hashable and second.is_hashable
    return _held(
        "tuple", annotation, st.tuples(first.values, second.values), first, second, is_hashable=is_hashable
    )


def _tuple(inner: Supported) -> Supported:
    values = st.lists(inner.values, max_size=3).map(tuple)
    return _held("tuple", tuple[inner.annotation, ...], values, inner, is_hashable=inner.is_hashable)


def _optional(inner: Supported) -> Supported:
    return inner._replace(name="Optional", annotation=Optional[inner.annotation], values=st.none() | inner.values,
                          is_key=False)  # fmt: skip


def _mapping(key: Supported, inner: Supported) -> Supported:
    values = st.dictionaries(key.values, inner.values, max_size=3)
    return _held("dict", dict[key.annotation, inner.annotation], values, key, inner)


def _set(inner: Supported) -> Supported:
    return _held("set", set[inner.annotation], st.sets(inner.values, max_size=3), inner)


def _union(first: Supported, second: Supported) -> Supported:
    annotation = Union[first.annotation, second.annotation]
    return _held("union", annotation, first.values | second.values, first, second,
                 is_content=first.is_content or second.is_content,
                 is_hashable=first.is_hashable and second.is_hashable)  # fmt: skip


def _model(inner: Supported) -> Supported:
    config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    model = pydantic.create_model(
        "Model", __config__=config, value=(inner.annotation, ...), note=(str, "none")
    )
    # Not by its own `__init__`: that takes some types in another form.
    values = inner.values.map(lambda value: model.model_construct(value=value, note="a"))
    return _held("model", model, values, inner)


def _dataclass(inner: Supported) -> Supported:
    cls: Any = dataclasses.make_dataclass("Data", [("value", inner.annotation), ("note", str, "none")])
    return _held("dataclass", cls, inner.values.map(cls), inner)


def _typed_dict(inner: Supported) -> Supported:
    cls: Any = TypedDict("Record", {"value": inner.annotation}, total=False)
    return _held("TypedDict", cls, st.fixed_dictionaries({}, optional={"value": inner.values}), inner)


def _named_tuple(inner: Supported) -> Supported:
    cls: Any = NamedTuple("Entry", [("value", inner.annotation)])
    return _held("NamedTuple", cls, inner.values.map(cls), inner)


def _annotated(inner: Supported) -> Supported:
    return inner._replace(annotation=Annotated[inner.annotation, "a note"])


def kinds(annotation: Any) -> set[str]:
    """Return the types that JSON values of a type may have."""
    described = describe(annotation)
    return set(_kinds(described.schema, described.definitions))


def _kinds(schema: Any, definitions: Any) -> Iterator[str]:
    if "$ref" in schema:
        yield from _kinds(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    elif "anyOf" in schema:
        for branch in schema["anyOf"]:
            yield from _kinds(branch, definitions)
    elif "type" in schema:
        yield "number" if schema["type"] == "integer" else schema["type"]
    else:
        names = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
        yield from (names[type(value)] for value in schema["enum"])


def _are_apart(both: tuple[Supported, Supported]) -> bool:
    """Tell whether a JSON value says of which of two types it is."""
    return not kinds(both[0].annotation) & kinds(both[1].annotation)


class Holder(NamedTuple):
    """What may hold a type.

    Args:
        hold: Makes the entry of the holder.
        may_hold: Tells whether it may hold an entry.
    """

    hold: Callable[[Supported], Supported]
    may_hold: Callable[[Supported], bool]


def _is_data(each: Supported) -> bool:
    """Tell whether a list of it is an array: a list of `bytes` is several pieces of content."""
    return not each.is_content


def _is_field(each: Supported) -> bool:
    return each.is_field


_NAMES = EVERY[0]

HOLDERS = {
    "list": Holder(_list, _is_data),
    "tuple": Holder(_tuple, _is_data),
    "set": Holder(_set, lambda each: each.is_hashable and not each.is_content),
    "Optional": Holder(_optional, lambda each: True),
    "Annotated": Holder(_annotated, lambda each: True),
    "values of dict": Holder(lambda each: _mapping(_NAMES, each), _is_field),
    "keys of dict": Holder(lambda each: _mapping(each, _NAMES), lambda each: each.is_key and _is_field(each)),
    "model": Holder(_model, _is_field),
    "dataclass": Holder(_dataclass, _is_field),
    "TypedDict": Holder(_typed_dict, _is_field),
    "NamedTuple": Holder(_named_tuple, _is_field),
}

LEAVES = st.sampled_from(EVERY)
KEYS = st.sampled_from([each for each in EVERY if each.is_key and _is_field(each)])


def _holding(name: str, inner: st.SearchStrategy[Supported]) -> st.SearchStrategy[Supported]:
    if name == "pair":
        return st.tuples(inner.filter(_is_data), inner.filter(_is_data)).map(lambda both: _pair(*both))
    if name == "union":
        return st.tuples(inner, inner).filter(_are_apart).map(lambda both: _union(*both))
    if name == "dict":
        return st.tuples(KEYS, inner.filter(_is_field)).map(lambda both: _mapping(*both))
    return inner.filter(HOLDERS[name].may_hold).map(HOLDERS[name].hold)


TYPES: st.SearchStrategy[Supported] = st.recursive(
    LEAVES,
    lambda inner: st.sampled_from([*HOLDERS, "pair", "union", "dict"]).flatmap(
        lambda name: _holding(name, inner)
    ),
    max_leaves=4,
)
