"""Structures: what clients read, what is accepted as what, and what is refused."""

# ruff: noqa: UP007, UP045 - the old spellings of unions are tested on purpose
# ruff: noqa: UP007, UP045 - the old spellings of unions are tested on purpose
from __future__ import annotations

import dataclasses
import typing
from typing import Annotated, Any, Generic, Literal, Optional, TypeVar, Union

import pytest
import typing_extensions
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import NotRequired, Required, Self

from mcpkit.common.errors import ArgumentsError
from mcpkit.schema import Arguments
from mcpkit.schema.parameters import parameter
from tests.helpers.structures import Case, Color, Place, Point, arguments_of, check_type

T = TypeVar("T")


class Partial(typing.TypedDict, total=False):
    name: Required[str]
    place: Place


class Extended(typing_extensions.TypedDict):
    name: str
    size: NotRequired[int]


class Node(typing.TypedDict):
    value: int
    children: list[Node]


@dataclasses.dataclass
class Station:
    id: int
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Region:
    places: list[Place]
    tree: Node | None = None


class City(BaseModel):
    """A place where people live."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=1, examples=["Bern"])
    country: str = Field("CH", alias="countryCode", json_schema_extra={"x-iso": True})


class Titled(BaseModel):
    model_config = ConfigDict(title="A titled model")
    a: int = Field(title="The A")


class Tree(BaseModel):
    value: int
    parent: Self | None = None
    children: list[Tree] = []


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Paint(BaseModel):
    color: Color
    other: Color | None = None


class Box(BaseModel, Generic[T]):
    content: T


NULL = {"type": "null"}
CITY = {
    "type": "object",
    "description": "A place where people live.",
    "properties": {
        "name": {"type": "string", "minLength": 1, "examples": ["Bern"]},
        "countryCode": {"type": "string", "default": "CH", "x-iso": True},
    },
    "required": ["name"],
    "additionalProperties": False,
}
STATION = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["id"],
}
PLACE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
    "required": ["name"],
}


CASES: list[Case] = [
    (
        Union[Cat, Dog],
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {
                        "kind": {"type": "string", "enum": ["cat"], "default": "cat"},
                        "lives": {"type": "integer", "default": 9},
                    },
                },
                {
                    "type": "object",
                    "properties": {"kind": {"type": "string", "enum": ["dog"]}, "name": {"type": "string"}},
                    "required": ["kind", "name"],
                },
            ]
        },
        [({"lives": 8}, Cat(lives=8)), ({"kind": "dog", "name": "Rex"}, Dog(kind="dog", name="Rex"))],
        [{"kind": "dog"}, {"kind": "bird"}],
    ),
    (
        Annotated[Cat | Dog, Field(discriminator="kind")],
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {
                        "kind": {"type": "string", "enum": ["cat"], "default": "cat"},
                        "lives": {"type": "integer", "default": 9},
                    },
                    "required": ["kind"],
                },
                {
                    "type": "object",
                    "properties": {"kind": {"type": "string", "enum": ["dog"]}, "name": {"type": "string"}},
                    "required": ["kind", "name"],
                },
            ]
        },
        [({"kind": "cat"}, Cat())],
        [{"lives": 8}, {"kind": "dog"}, {}],
    ),
    (Place, PLACE, [({"name": "a"}, {"name": "a"}), ({"name": "a", "size": 1.0}, {"name": "a", "size": 1})], [{}]),
    (Extended, PLACE, [({"name": "a"}, {"name": "a"})], [{"name": "a", "size": "1"}]),
    (
        Partial,
        {
            "type": "object",
            "properties": {"name": {"type": "string"}, "place": PLACE},
            "required": ["name"],
        },
        [({"name": "a"}, {"name": "a"})],
        [{}, {"name": "a", "place": {}}],
    ),
    (
        list[Place],
        {"type": "array", "items": PLACE},
        [([{"name": "a"}], [{"name": "a"}])],
        [[{}], {"name": "a"}],
    ),
    (Station, STATION, [({"id": 1.0}, Station(1)), ({"id": 1, "tags": ["a"]}, Station(1, ["a"]))], [{}, {"id": "1"}]),
    (
        Region,
        {
            "type": "object",
            "properties": {
                "places": {"type": "array", "items": PLACE},
                "tree": {"anyOf": [{"$ref": "#/$defs/Node"}, NULL], "default": None},
            },
            "required": ["places"],
        },
        [({"places": [{"name": "a"}]}, Region([{"name": "a"}]))],
        [{"places": [{}]}, {"places": [], "tree": {"value": 1}}],
    ),
    (
        Point,
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "number", "default": 0.0}],
            "items": {"anyOf": [{"type": "integer"}, {"type": "number", "default": 0.0}]},
            "minItems": 1,
            "maxItems": 2,
        },
        [([1], Point(1)), ([1, 2], Point(1, 2.0))],
        [[], [1, 2, 3], {"x": 1}, ["1"]],
    ),
    (
        City,
        CITY,
        [({"name": "Bern", "countryCode": "DE"}, City(name="Bern", countryCode="DE"))],
        [{"name": ""}, {"name": "Bern", "country": "DE"}, {}, {"name": "Bern", "x": 1}],
    ),
    (
        Titled,
        {
            "type": "object",
            "title": "A titled model",
            "properties": {"a": {"type": "integer", "title": "The A"}},
            "required": ["a"],
        },
        [({"a": 1}, Titled(a=1))],
        [{}],
    ),
    (
        Paint,
        {
            "type": "object",
            "properties": {
                "color": {"enum": ["red", "blue"], "type": "string"},
                "other": {"anyOf": [{"enum": ["red", "blue"], "type": "string"}, NULL], "default": None},
            },
            "required": ["color"],
        },
        [({"color": "red"}, Paint(color=Color.RED))],
        [{"color": "green"}, {"color": "RED"}],
    ),
    (
        Box[int],
        {"type": "object", "properties": {"content": {"type": "integer"}}, "required": ["content"]},
        [({"content": 1.0}, Box[int](content=1))],
        [{"content": "1"}],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("annotation", "schema", "accepted", "refused"), CASES, ids=[str(c[0]) for c in CASES]
)
def test_a_structure(
    annotation: Any, schema: Any, accepted: list[tuple[Any, Any]], refused: list[Any]
) -> None:
    check_type(annotation, schema, accepted, refused)


def test_types_that_contain_themselves_are_definitions_with_their_names() -> None:
    arguments = arguments_of(Optional[Tree])
    assert arguments.schema == {
        "type": "object",
        "properties": {"value": {"anyOf": [{"$ref": "#/$defs/Tree"}, NULL]}},
        "required": ["value"],
        "additionalProperties": False,
        "$defs": {
            "Tree": {
                "type": "object",
                "properties": {
                    "value": {"type": "integer"},
                    "parent": {"anyOf": [{"$ref": "#/$defs/Tree"}, NULL], "default": None},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "default": []},
                },
                "required": ["value"],
            }
        },
    }
    assert arguments.validate({"value": {"value": 1.0, "children": [{"value": 2}]}})["value"] == Tree(
        value=1, children=[Tree(value=2)]
    )
    with pytest.raises(ArgumentsError, match=r'value\.children\[0\]\.value: expected an integer, got "two"'):
        arguments.validate({"value": {"value": 1, "children": [{"value": "two"}]}})


def test_two_arguments_may_share_a_recursive_type() -> None:
    arguments = Arguments.of_parameters("f", [parameter("a", Tree), parameter("b", list[Tree])])
    assert list(arguments.schema["$defs"]) == ["Tree"]
    assert arguments.validate({"a": {"value": 1}, "b": [{"value": 2}]}) == {
        "a": Tree(value=1),
        "b": [Tree(value=2)],
    }


def test_a_typed_dict_may_contain_itself() -> None:
    arguments = arguments_of(Node)
    assert arguments.schema["$defs"]["Node"]["required"] == ["value", "children"]
    tree = {"value": 1, "children": [{"value": 2, "children": []}]}
    assert arguments.validate({"value": tree}) == {"value": tree}
    with pytest.raises(ArgumentsError, match=r"value\.children\[0\]\.value"):
        arguments.validate({"value": {"value": 1, "children": [{}]}})
