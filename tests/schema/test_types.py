"""Every supported type: what clients read, what is accepted as what, and what is refused."""

# ruff: noqa: UP007, UP045 - the old spellings of unions are tested on purpose
from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import enum
import json
import math
import subprocess
import sys
import typing
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, Optional, TypeVar, Union
from uuid import UUID

import annotated_types as at
import pytest
import typing_extensions
from pydantic import AfterValidator, AnyUrl, BaseModel, ConfigDict, Field, HttpUrl
from typing_extensions import NotRequired, Required, Self

from mcpkit.errors import ArgumentsError, RegistrationError
from mcpkit.schema import Arguments, UnresolvedHint
from mcpkit.schema.signature import parameter

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Documented(enum.Enum):
    """How warm it is."""

    WARM = "warm"


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Place(typing.TypedDict):
    name: str
    size: NotRequired[int]


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


def _even(value: int) -> int:
    if value % 2:
        raise ValueError("odd numbers are not served")
    return value


UTC = dt.timezone.utc
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
DECIMAL = {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$"}

# The type, its schema, what it accepts with what that becomes, and what it refuses.
CASES: list[tuple[Any, Any, list[tuple[Any, Any]], list[Any]]] = [
    (str, {"type": "string"}, [("", ""), ("é", "é")], [1, None, ["a"]]),
    (int, {"type": "integer"}, [(5, 5), (5.0, 5), (2**70, 2**70), (1e300, int(1e300))], [5.5, "5", True, None]),
    (float, {"type": "number"}, [(5, 5.0), (0.5, 0.5)], ["5", True, None]),
    (bool, {"type": "boolean"}, [(True, True)], [1, 0.0, "true", None]),
    (None, NULL, [(None, None)], [0, "", False]),
    (
        bytes,
        {"type": "string", "contentEncoding": "base64"},
        [("AP8=", b"\x00\xff"), ("", b"")],
        ["A", "A===", "-_-_", "é", "AA AA", 1],
    ),
    (Any, {}, [(None, None), ({"a": [1]}, {"a": [1]})], []),
    (object, {}, [(1, 1)], []),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, [("a", "a")], ["c", 1, ["a"], {}]),
    (Literal[1, 2], {"type": "integer", "enum": [1, 2]}, [(1, 1), (2.0, 2)], [True, "1", 3]),
    (Literal["a", None, True], {"enum": ["a", None, True]}, [(None, None), (True, True)], [1, False]),
    (Literal[Color.RED], {"type": "string", "enum": ["red"]}, [("red", Color.RED)], ["blue"]),
    (Color, {"type": "string", "enum": ["red", "blue"]}, [("red", Color.RED)], ["RED", "green", None]),
    (Level, {"type": "integer", "enum": [1, 2]}, [(1, Level.LOW), (2.0, Level.HIGH)], [True, "1", 3]),
    (
        Documented,
        {"type": "string", "enum": ["warm"], "description": "How warm it is."},
        [("warm", Documented.WARM)],
        ["cold"],
    ),
    (list, {"type": "array", "items": {}}, [([1, "a"], [1, "a"])], [{}, "a", None]),
    (list[int], {"type": "array", "items": {"type": "integer"}}, [([], []), ([1, 2.0], [1, 2])], [["1"], [1.5]]),
    (list[str], {"type": "array", "items": {"type": "string"}}, [(["a"], ["a"])], [[1]]),
    (
        collections.abc.Sequence[int],
        {"type": "array", "items": {"type": "integer"}},
        [([1], [1])],
        ["1", {"a": 1}, ["1"]],
    ),
    (
        tuple[int, str],
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "minItems": 2,
            "maxItems": 2,
        },
        [([1, "a"], (1, "a"))],
        [[1], [1, "a", 2], ["a", 1]],
    ),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, [([1, 2], (1, 2))], [["1"]]),
    (
        set[int],
        {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
        [([1, 2], {1, 2})],
        [[1, 1], [1, 1.0], ["1"], {}],
    ),
    (
        frozenset[str],
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        [(["a"], frozenset("a"))],
        [["a", "a"]],
    ),
    (dict, {"type": "object", "additionalProperties": True}, [({"a": [1]}, {"a": [1]})], [[], "a"]),
    (
        dict[str, int],
        {"type": "object", "additionalProperties": {"type": "integer"}},
        [({"a": 1.0}, {"a": 1})],
        [{"a": "1"}, []],
    ),
    (
        collections.abc.Mapping[str, float],
        {"type": "object", "additionalProperties": {"type": "number"}},
        [({"a": 1}, {"a": 1.0})],
        [{"a": "1"}],
    ),
    (
        dict[int, str],
        {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "propertyNames": {"pattern": "^-?[0-9]+$"},
        },
        [({"5": "a"}, {5: "a"})],
        [{"a": "a"}, {"5.0": "a"}],
    ),
    (
        dict[Color, int],
        {
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "propertyNames": {"enum": ["red", "blue"]},
        },
        [({"red": 1}, {Color.RED: 1})],
        [{"green": 1}],
    ),
    (Optional[int], {"anyOf": [{"type": "integer"}, NULL]}, [(None, None), (1, 1)], ["1"]),
    (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}, [(1, 1), ("1", "1")], [None, True, 1.5]),
    (Union[float, int], {"anyOf": [{"type": "number"}, {"type": "integer"}]}, [(0.5, 0.5)], ["1"]),
    (
        Union[bool, int],
        {"anyOf": [{"type": "boolean"}, {"type": "integer"}]},
        [(True, True), (1.0, 1)],
        ["1"],
    ),
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
    (
        dt.datetime,
        {"type": "string", "format": "date-time"},
        [
            ("2026-01-31T09:30:00Z", dt.datetime(2026, 1, 31, 9, 30, tzinfo=UTC)),
            ("2026-01-31t09:30:00.25+00:00", dt.datetime(2026, 1, 31, 9, 30, 0, 250000, tzinfo=UTC)),
        ],
        ["2026-01-31T09:30:00", "2026-02-30T09:30:00Z", "2026-01-31", "1700000000", 1700000000, "now"],
    ),
    (
        dt.date,
        {"type": "string", "format": "date"},
        [("2024-02-29", dt.date(2024, 2, 29))],
        ["2023-02-29", "20240229", "2024-02-29T00:00:00Z", 0, "0"],
    ),
    (
        dt.time,
        {"type": "string", "format": "time"},
        [("09:30:00Z", dt.time(9, 30, tzinfo=UTC))],
        ["09:30:00", "09:30Z", "25:00:00Z", 0, "34200"],
    ),
    (
        dt.timedelta,
        {"type": "string", "format": "duration"},
        [("PT1H30M", dt.timedelta(hours=1.5)), ("P1W", dt.timedelta(7)), ("PT0.5S", dt.timedelta(seconds=0.5))],
        ["P", "1:30:00", "90", 90, "P1H"],
    ),
    (
        UUID,
        {"type": "string", "format": "uuid"},
        [("123e4567-e89b-12d3-a456-426614174000", UUID("123e4567-e89b-12d3-a456-426614174000"))],
        ["123e4567e89b12d3a456426614174000", "{123e4567-e89b-12d3-a456-426614174000}", "x", 1],
    ),
    (
        Decimal,
        DECIMAL,
        [("0.1", Decimal("0.1")), ("-1.50", Decimal("-1.50")), ("1E+3", Decimal("1E+3"))],
        [0.1, 1, "NaN", "Infinity", "1_0", " 1", "٣", "1e99999"],
    ),
    (
        Annotated[Decimal, Field(decimal_places=2)],
        {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,2})?$"},
        [("0.25", Decimal("0.25"))],
        ["0.125", 0.25],
    ),
    (
        Annotated[Decimal, Field(decimal_places=0)],
        {"type": "string", "pattern": r"^-?[0-9]+$"},
        [("7", Decimal(7))],
        ["7.5", "7.", 7],
    ),
    (
        Annotated[bytes, Field(min_length=1, max_length=3)],
        {"type": "string", "contentEncoding": "base64", "minLength": 4, "maxLength": 4},
        [("AP8=", b"\x00\xff")],
        ["", "AP8AAAAA", "AP8"],
    ),
    (IPv4Address, {"type": "string", "format": "ipv4"}, [("127.0.0.1", IPv4Address("127.0.0.1"))], ["1.2.3", 1]),
    (IPv6Address, {"type": "string", "format": "ipv6"}, [("::1", IPv6Address("::1"))], ["::1%eth0", ":", 1]),
    (Path, {"type": "string"}, [("/a/b", Path("/a/b"))], [1, None]),
    (
        HttpUrl,
        {"type": "string", "format": "uri", "pattern": "^(?:http|https):", "maxLength": 2083},
        [("https://example.org/a", HttpUrl("https://example.org/a"))],
        ["ftp://example.org", "example.org", "http://a b", 1],
    ),
    (AnyUrl, {"type": "string", "format": "uri"}, [("urn:a:b", AnyUrl("urn:a:b"))], ["no uri", "", 1]),
    (Annotated[int, at.Ge(0), at.Le(9)], {"type": "integer", "minimum": 0, "maximum": 9}, [(9.0, 9)], [10, -1]),
    (
        Annotated[float, at.Gt(0), at.Lt(1)],
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        [(0.5, 0.5)],
        [0, 1],
    ),
    (Annotated[int, at.MultipleOf(5)], {"type": "integer", "multipleOf": 5}, [(10, 10), (5.0, 5)], [7]),
    (
        Annotated[str, Field(min_length=1, max_length=3, pattern="^[a-z]*$")],
        {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^[a-z]*$"},
        [("abc", "abc")],
        ["", "abcd", "A", "a\n"],
    ),
    (Annotated[str, Field(min_length=0)], {"type": "string"}, [("", "")], [1]),
    (
        Annotated[list[int], at.Len(1, 2)],
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        [([1], [1])],
        [[], [1, 2, 3]],
    ),
    (
        Annotated[int, Field(json_schema_extra={"x-unit": "m"}, examples=[1], title="Height")],
        {"type": "integer", "title": "Height", "examples": [1], "x-unit": "m"},
        [(1.0, 1)],
        ["1"],
    ),
    (Annotated[int, AfterValidator(_even)], {"type": "integer"}, [(2, 2)], [3, "2"]),
    (Annotated[list[Annotated[str, "a name"]], "all names"],
     {"type": "array", "items": {"type": "string", "description": "a name"}, "description": "all names"},
     [(["a"], ["a"])], [[1]]),
]  # fmt: skip


def arguments_of(annotation: Any) -> Arguments:
    return Arguments.of_parameters("f", [parameter("value", annotation)])


@pytest.mark.parametrize(
    ("annotation", "schema", "accepted", "refused"), CASES, ids=[str(c[0]) for c in CASES]
)
def test_a_type(annotation: Any, schema: Any, accepted: list[tuple[Any, Any]], refused: list[Any]) -> None:
    arguments = arguments_of(annotation)
    assert arguments.schema["properties"]["value"] == schema
    for value, converted in accepted:
        result = arguments.validate({"value": value})["value"]
        assert result == converted
        assert type(result) is type(converted)
    for value in refused:
        with pytest.raises(ArgumentsError, match=r"value"):
            arguments.validate({"value": value})


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
    with pytest.raises(ArgumentsError, match=r'value\.children\[0\]\.value: expected an integer, got "2"'):
        arguments.validate({"value": {"value": 1, "children": [{"value": "2"}]}})


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


def test_a_default_of_none_makes_the_argument_nullable() -> None:
    arguments = Arguments.of_parameters("f", [parameter("a", str, None)])
    assert arguments.schema["properties"]["a"] == {"anyOf": [{"type": "string"}, NULL], "default": None}
    assert arguments.validate({"a": None}) == {"a": None}


def test_an_argument_without_annotation_is_any_value() -> None:
    def f(a, b=1):  # type: ignore[no-untyped-def]  # what is tested
        return a, b

    from mcpkit.schema import Signature

    arguments = Arguments.of(Signature.of(f, is_injected=lambda *_: False))
    assert arguments.schema["properties"] == {"a": {}, "b": {"default": 1}}
    assert arguments.validate({"a": [None]}) == {"a": [None]}


@pytest.mark.parametrize(
    "annotation", [typing.Callable[[], int], type, complex, Literal[b"x"], dict[float, int]]
)
def test_a_type_that_json_does_not_know_is_refused_by_the_name_of_the_argument(annotation: Any) -> None:
    with pytest.raises(RegistrationError, match=r"f: argument 'value': "):
        arguments_of(annotation)


def test_a_class_that_is_no_structure_is_refused() -> None:
    class Opaque: ...

    with pytest.raises(RegistrationError, match=r"f: argument 'value': .*Opaque"):
        arguments_of(Opaque)


def test_a_model_that_is_not_complete_can_be_tried_again() -> None:
    class Early(BaseModel):
        later: "Later"  # noqa: UP037 - defined below, by name

    with pytest.raises(UnresolvedHint):
        arguments_of(Early)

    class Later(BaseModel):
        a: int

    Early.model_rebuild(_types_namespace={"Later": Later})
    assert arguments_of(Early).validate({"value": {"later": {"a": 1}}})["value"].later == Later(a=1)


def test_a_bound_that_json_has_no_number_for_is_refused_or_checked() -> None:
    arguments = arguments_of(Annotated[float, at.Le(math.inf)])
    json.dumps(arguments.schema, allow_nan=False)
    assert arguments.validate({"value": 1}) == {"value": 1.0}


def test_the_text_is_the_same_on_every_run() -> None:
    code = (
        "import json; from typing import *; from mcpkit.schema import Arguments;"
        "from mcpkit.schema.signature import parameter; from pydantic import BaseModel;"
        "M = type('M', (BaseModel,), {'__annotations__': {'b': Set[str], 'a': Literal['x', 'y', 'z']}});"
        "print(json.dumps(Arguments.of_parameters('f', [parameter('z', M), parameter('a', Optional[int])]).schema))"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(runs) == 1
    (text,) = runs
    assert list(json.loads(text)["properties"]) == ["z", "a"]


def test_simple_types_do_not_import_pydantic() -> None:
    code = """
import datetime, decimal, enum, pathlib, sys, typing, uuid
from typing import Annotated, Literal, Optional
import annotated_types
from mcpkit.schema import Arguments, Output, Signature
class E(enum.Enum):
    A = "a"
class Place(typing.TypedDict):
    name: str
def f(a: int, b: Optional[list[str]], c: Literal["x"], d: E, e: datetime.date, g: uuid.UUID, h: pathlib.Path,
      i: decimal.Decimal, j: Annotated[float, "text"], k: Annotated[int, annotated_types.Ge(0)], m: bytes = b"",
      n: Place = None, **rest: int) -> dict[str, float]:
    '''Do.'''
arguments = Arguments.of(Signature.of(f, is_injected=lambda *_: False))
Output.of(dict[str, float]).dump({"a": 1.0})
try:
    arguments.validate({"a": "x"})
except Exception:
    pass
heavy = {"pydantic", "docstring_parser", "jsonschema", "email", "http", "starlette", "unittest"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)
