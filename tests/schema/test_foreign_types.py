"""Annotations of other people's classes: what clients read, what is accepted, and what comes back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Generator, ItemsView, Iterator, KeysView, ValuesView
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple

import attrs
import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, create_model
from typing_extensions import NotRequired, Required, TypedDict, Unpack

from mcpkit import ArgumentsError, RegistrationError, Server
from mcpkit.protocol.revisions import LATEST, LATEST_HANDSHAKE
from mcpkit.schema import Output
from mcpkit.testing import connect
from tests.helpers.structures import arguments_of

pytestmark = pytest.mark.anyio


class Small(BaseModel):
    size: int


@attrs.define
class Leaf:
    share: Fraction
    _count: int = attrs.field(default=1, validator=attrs.validators.ge(0))
    label: Any = attrs.field(default="", validator=attrs.validators.instance_of(str))


@attrs.define
class Tree:
    """A tree."""

    leaf: Leaf
    branches: list[Tree] = attrs.Factory(list)
    small: Small | None = None
    hidden: int = attrs.field(init=False, default=7)


@attrs.define
class Oak:
    branches: list[Oak]


class Cat(msgspec.Struct, tag=True, rename="camel"):
    nine_lives: Annotated[int, msgspec.Meta(ge=0, le=9, description="Those that are left")]
    name: str | msgspec.UnsetType = msgspec.UNSET


class Dog(msgspec.Struct, tag=True):
    name: str
    raw: bytes = b"\xfb\xff"


class Pair(msgspec.Struct, array_like=True):
    left: int


@dataclass
class Grid:
    data: npt.NDArray[np.float32]
    share: Fraction
    pets: list[Cat | Dog]
    steps: range = range(3)


class Model(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    data: npt.NDArray[np.int64]
    at: pd.Timestamp


class Row(NamedTuple):
    share: Fraction


class Options(TypedDict, total=False):
    city: Required[str]
    days: int


class More(TypedDict):
    share: Fraction
    tree: NotRequired[Tree]


NUMBER = {"type": "number"}
FLOATS = {"anyOf": [NUMBER, {"type": "null"}]}
FRACTION = {"type": "string", "pattern": "^-?[0-9]+(?:/0*[1-9][0-9]*)?$"}

SAME: list[tuple[Any, Any, Any]] = [
    # annotation, what is sent and comes back, what the function gets
    (Fraction, "1/3", Fraction(1, 3)),
    (range, [0, 3, 6], range(0, 9, 3)),
    (range, [], range(0)),
    (range, [5], range(5, 6)),
    (range, [3, 2, 1], range(3, 0, -1)),
    (SimpleNamespace, {"a": {"b": 1}}, SimpleNamespace(a={"b": 1})),
    (np.float64, 1.5, np.float64(1.5)),
    (np.float32, 1.5, np.float32(1.5)),
    (np.int64, 2, np.int64(2)),
    (np.uint8, 255, np.uint8(255)),
    (np.bool_, True, np.bool_(True)),
    (np.str_, "x", np.str_("x")),
    (np.datetime64, "2026-07-28", np.datetime64("2026-07-28")),
    (np.datetime64, "2026-07-28T01:02:03.123456789", np.datetime64("2026-07-28T01:02:03.123456789")),
    (np.timedelta64, "-P1DT0.000000001S", np.timedelta64(-86_400_000_000_001, "ns")),
    (np.ndarray, [[1, 2]], np.array([[1, 2]])),
    (npt.NDArray[np.float64], [[1.5], [None]], np.array([[1.5], [np.nan]])),
    (npt.NDArray[np.str_], ["a", "bc"], np.array(["a", "bc"])),
    (np.ndarray[tuple[int, int], np.dtype[np.bool_]], [[True]], np.array([[True]])),
    (npt.NDArray[np.timedelta64], ["PT1S"], np.array([np.timedelta64(10**9, "ns")])),
    (pd.Timestamp, "2026-07-28T01:02:03", pd.Timestamp("2026-07-28T01:02:03")),
    (pd.Timestamp, "2026-07-28T01:02:03+02:00", pd.Timestamp("2026-07-28T01:02:03+02:00")),
    (pd.Timedelta, "P1DT2H", pd.Timedelta("1 day 2:00:00")),
    (Leaf, {"share": "1/3", "count": 2, "label": ""}, Leaf(Fraction(1, 3), 2)),
    (Cat, {"type": "Cat", "nineLives": 9}, Cat(9)),
    (Dog, {"type": "Dog", "name": "x", "raw": "+/8="}, Dog("x")),
    (Cat | Dog, {"type": "Dog", "name": "x", "raw": "AA=="}, Dog("x", b"\0")),
    (dict[str, Leaf | None], {"a": None}, {"a": None}),
    (list[tuple[Fraction, Small]], [["1/2", {"size": 1}]], [(Fraction(1, 2), Small(size=1))]),
    (Row, ["1/2"], Row(Fraction(1, 2))),
    (More, {"share": "1/2"}, {"share": Fraction(1, 2)}),
    (Annotated[Fraction, "A part"], "1/2", Fraction(1, 2)),
]


def echo(annotation: Any, taken: list[Any]) -> Callable[..., Any]:
    """Return a tool that returns what it takes."""

    def same(value: Any) -> Any:
        taken.append(value)
        return value

    same.__annotations__ = {"value": annotation, "return": annotation}
    return same


def is_equal(left: Any, right: Any) -> bool:
    """Compare what holds arrays as well."""
    if isinstance(left, np.ndarray | pd.Series):
        return bool(np.array_equal(left, right, equal_nan=left.dtype.kind == "f"))
    return bool(left == right)


@pytest.mark.parametrize("revision", [LATEST_HANDSHAKE, LATEST])
@pytest.mark.parametrize(("annotation", "sent", "value"), SAME)
async def test_a_value_arrives_as_its_class_and_comes_back(
    annotation: Any, sent: Any, value: Any, revision: str
) -> None:
    taken: list[Any] = []
    server = Server("foreign")
    server.tool(echo(annotation, taken))
    async with connect(server, revision=revision) as client:
        (tool,) = await client.list_tools()
        Draft202012Validator(tool["inputSchema"]).validate({"value": sent})
        result = await client.call("same", {"value": sent})
    assert not result.is_error, result.text
    assert type(taken[0]) is type(value)
    assert is_equal(taken[0], value)
    assert result.structured in (sent, {"result": sent})


def schema_of(annotation: Any) -> Any:
    return arguments_of(annotation).schema["properties"]["value"]


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Fraction, FRACTION),
        (np.int64, {"type": "integer"}),
        (np.uint8, {"type": "integer", "minimum": 0, "maximum": 255}),
        (np.ndarray, {"type": "array", "items": {}}),
        (
            np.ndarray[tuple[int, int], np.dtype[np.float64]],
            {"type": "array", "items": {"type": "array", "items": FLOATS}},
        ),
        (
            Leaf,
            {
                "type": "object",
                "properties": {
                    "share": FRACTION,
                    "count": {"type": "integer", "default": 1},
                    "label": {"default": ""},
                },
                "required": ["share"],
            },
        ),
        (
            Cat,
            {
                "type": "object",
                "properties": {
                    "type": {"type": "string", "enum": ["Cat"]},
                    "nineLives": {
                        "type": "integer",
                        "minimum": 0,
                        "maximum": 9,
                        "description": "Those that are left",
                    },
                    "name": {"type": "string"},
                },
                "required": ["type", "nineLives"],
            },
        ),
    ],
)
def test_the_schema_says_what_is_taken(annotation: Any, schema: Any) -> None:
    assert schema_of(annotation) == schema


def test_a_class_that_contains_itself_is_a_definition() -> None:
    arguments = arguments_of(list[Tree])
    assert arguments.schema["properties"]["value"] == {"type": "array", "items": {"$ref": "#/$defs/Tree"}}
    tree = arguments.schema["$defs"]["Tree"]
    assert tree["description"] == "A tree."
    assert tree["properties"]["branches"] == {"type": "array", "items": {"$ref": "#/$defs/Tree"}}
    assert "hidden" not in tree["properties"]
    leaf = {"share": "1"}
    value = arguments.validate({"value": [{"leaf": leaf, "branches": [{"leaf": leaf}]}]})["value"]
    assert value == [Tree(Leaf(Fraction(1)), [Tree(Leaf(Fraction(1)))])]


def test_the_fields_of_a_class_keep_what_stands_in_brackets() -> None:
    found = arguments_of(Grid).validate(
        {"value": {"data": [1, None], "share": "1/2", "pets": [{"type": "Dog", "name": "x"}]}}
    )["value"]
    assert found.data.dtype == np.float32
    assert found.pets == [Dog("x")]
    assert found.steps == range(3)
    found = arguments_of(Model).validate({"value": {"data": [[1]], "at": "2026-07-28T01:02:03Z"}})["value"]
    assert found.data.dtype == np.int64
    assert found.at == pd.Timestamp("2026-07-28T01:02:03Z")


def test_a_model_may_hold_a_class_that_it_was_defined_before() -> None:
    @attrs.define
    class Local:
        share: Fraction
        ref: int = 0
        metadata: int = 0

    class Held(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)

        local: Local
        several: list[Local] = []

    sent = {
        "local": {"share": "1/2", "ref": 1, "metadata": 2},
        "several": [{"share": "1/3", "ref": 3, "metadata": 4}],
    }
    taken = arguments_of(Held).validate({"value": sent})["value"]
    assert (taken.local, taken.several) == (Local(Fraction(1, 2), 1, 2), [Local(Fraction(1, 3), 3, 4)])
    output = Output.of(Held)
    assert output is not None
    assert output.dump(taken) == sent


def test_a_model_cannot_hold_a_class_of_itself_that_it_was_defined_before() -> None:
    forest = create_model("Forest", __config__=ConfigDict(arbitrary_types_allowed=True), oak=(Oak, ...))
    with pytest.raises(RegistrationError, match="Oak contains itself, which a model of pydantic cannot hold"):
        arguments_of(forest)


@pytest.mark.parametrize(
    ("annotation", "sent", "message"),
    [
        (Fraction, "1/0", 'value: expected a fraction such as "1/3"'),
        (np.uint8, 256, "value: expected an integer from 0 to 255, got 256"),
        (np.int64, 2**63, "value: "),
        (range, [1, 2, 4], "value: expected integers at equal distances"),
        (npt.NDArray[np.int64], [[1], [1, 2]], "value: .*inhomogeneous"),
        (npt.NDArray[np.int64], ["a"], r"value\[0\]: expected an integer"),
        (pd.Timestamp, "yesterday", "value: expected a date and time"),
        (pd.Timestamp, "9999-01-01T00:00:00Z", None),
        (pd.Timedelta, "P", "value: expected an ISO 8601 duration"),
        (pd.Timedelta, "P999999999D", "value: "),
        (Leaf, {"share": "1", "count": -1}, "value: 'count' must be >= 0|value: '_count' must be >= 0"),
        (Leaf, {"share": "1", "label": 1}, "value: 'label' must be <class 'str'>"),
        (Leaf, {"share": 1.5}, r"value\.share: expected a fraction"),
        (Cat, {"type": "Dog", "nineLives": 1}, "value.type"),
        (Cat, {"type": "Cat", "nineLives": 10}, "value.nineLives: expected an integer from 0 to 9, got 10"),
        (Grid, {"data": ["a"], "share": "1", "pets": []}, r"value.data\[0\]: expected a number"),
        (Model, {"data": [[1], [2, 3]], "at": "2026-07-28T01:02:03Z"}, "value.data: .*inhomogeneous"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(annotation: Any, sent: Any, message: str | None) -> None:
    if message is None:
        arguments_of(annotation).validate({"value": sent})
        return
    with pytest.raises(ArgumentsError, match=message):
        arguments_of(annotation).validate({"value": sent})


def _spread() -> Generator[int, None, None]:
    yield from (1, 2)


RESULTS: list[tuple[Any, Callable[[], Any], Any]] = [
    (Iterator[int], lambda: iter([1, 2]), [1, 2]),
    (Generator[int, None, None], _spread, [1, 2]),
    (Iterator[Small], lambda: (Small(size=size) for size in (1, 2)), [{"size": 1}, {"size": 2}]),
    (Iterator[Fraction], lambda: map(Fraction, (1, 2)), ["1", "2"]),
    (KeysView[str], lambda: {"a": 1}.keys(), ["a"]),
    (ValuesView[int], lambda: {"a": 1}.values(), [1]),
    (ItemsView[str, int], lambda: {"a": 1}.items(), [["a", 1]]),
    (type({}.keys()), lambda: {"a": 1}.keys(), ["a"]),
    (npt.NDArray[np.float64], lambda: np.array([1.5, np.nan]), [1.5, None]),
    (list[pd.Timestamp], lambda: list(pd.to_datetime(["2026-07-28"])), ["2026-07-28T00:00:00"]),
    (list[float], lambda: [np.float32(1.5)], [1.5]),
    (list[int], lambda: np.arange(2), [0, 1]),
    (dict[str, int], lambda: {"a": np.int64(1)}, {"a": 1}),
    (Small, lambda: Small.model_construct(size=np.int64(1)), {"size": 1}),
]


@pytest.mark.parametrize(("annotation", "make", "data"), RESULTS)
async def test_a_result_is_data(annotation: Any, make: Callable[[], Any], data: Any) -> None:
    def make_it() -> Any:
        return make()

    make_it.__annotations__["return"] = annotation
    server = Server("foreign")
    server.tool(make_it)
    async with connect(server) as client:
        (tool,) = await client.list_tools()
        result = await client.call("make_it")
    assert not result.is_error, result.text
    assert result.structured == data
    Draft202012Validator(tool["outputSchema"]).validate(data)


TABLES: list[Any] = [pd.DataFrame, pd.Series, pl.DataFrame, pl.Series]


@pytest.mark.parametrize("cls", TABLES)
async def test_a_table_by_itself_is_csv_and_within_data_it_is_data(cls: Any) -> None:
    taken: list[Any] = []

    def alone(table: Any) -> Any:
        taken.append(table)
        return table

    alone.__annotations__ = {"table": cls, "return": cls}

    def inside(table: Any) -> Any:
        return {"table": table}

    inside.__annotations__ = {"table": cls, "return": dict[str, cls]}

    def several(table: Any) -> Any:
        return [table, "and words"]

    several.__annotations__ = {"table": cls, "return": list[cls | str]}
    server = Server("tables")
    for each in (alone, inside, several):
        server.tool(each)
    rows = [{"a": 1}, {"a": 2}] if "Frame" in cls.__name__ else [1, 2]
    async with connect(server) as client:
        assert [("outputSchema" in tool) for tool in await client.list_tools()] == [False, True, False]
        result = await client.call("alone", {"table": rows})
        assert type(taken[0]) is cls
        assert (result.structured, result.text.splitlines()[1:]) == (None, ["1", "2"])
        assert (await client.call("inside", {"table": rows})).structured == {"table": rows}
        assert [block["type"] for block in (await client.call("several", {"table": rows})).content] == [
            "text",
            "text",
        ]
        wrong = await client.call("alone", {"table": {}})
        assert wrong.text == "table: expected an array, got {}"


def test_an_iterator_as_an_argument_can_be_gone_through_once() -> None:
    for annotation in (Iterator[int], Iterator[Small]):
        sent = [1] if annotation == Iterator[int] else [{"size": 1}]
        taken = arguments_of(annotation).validate({"value": sent})["value"]
        assert len([next(taken), *taken]) == 1


def test_what_has_no_form_is_refused() -> None:
    class Strange:
        """Nobody knows it."""

    for annotation in (np.complex128, Strange, list[Strange], AsyncIterator[int], Pair):
        with pytest.raises(RegistrationError, match=r"form in JSON|array_like"):
            arguments_of(annotation)
    with pytest.raises(RegistrationError, match=r"Strange has no form in JSON; .*json_type"):
        arguments_of(list[Small | Strange])


async def test_keyword_arguments_of_a_typed_dict_are_named() -> None:
    server = Server("foreign")

    @server.tool
    def travel(by: str, **options: Unpack[Options]) -> str:
        """Travel.

        Args:
            city: Where to.
        """
        return json.dumps({"by": by, **options})

    async with connect(server) as client:
        (tool,) = await client.list_tools()
        assert tool["inputSchema"] == {
            "type": "object",
            "properties": {
                "by": {"type": "string"},
                "city": {"type": "string", "description": "Where to."},
                "days": {"type": "integer"},
            },
            "required": ["by", "city"],
            "additionalProperties": False,
        }
        assert (
            await client.call("travel", {"by": "bus", "city": "Rome"})
        ).text == '{"by": "bus", "city": "Rome"}'
        refused = await client.call("travel", {"by": "bus", "city": "Rome", "dayz": 2})
        assert refused.text == 'dayz: unknown argument; did you mean "days"?'


def test_a_name_may_stand_once() -> None:
    def travel(city: str, **options: Unpack[Options]) -> None:  # type: ignore[misc]
        """Travel."""

    with pytest.raises(RegistrationError, match="'city' is a parameter, and a key of Options too"):
        Server("foreign").tool(travel)
