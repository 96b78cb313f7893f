"""What a form asks in each revision, and how an answer is read."""

# ruff: noqa: UP007, UP045 - the old spellings of unions are tested on purpose
from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import subprocess
import sys
import typing
from dataclasses import InitVar, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union
from uuid import UUID

import annotated_types as at
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker
from pydantic import AnyUrl, BaseModel, Field, RootModel, SecretStr, field_validator
from typing_extensions import NotRequired, TypedDict

from mcpkit.errors import ArgumentsError, Problem, RegistrationError
from mcpkit.schema import UnresolvedHint
from mcpkit.schema.form import Form
from mcpkit.schema.form_fields import FORMATS, FORMS, Email, Format, Uri
from wire.official import official

REVISIONS = sorted(FORMS)
OLDEST, NEWEST = REVISIONS[0], REVISIONS[-1]


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.Enum):
    """How large."""

    SMALL = "s"
    LARGE = "l"

    @property
    def label(self) -> str:
        return self.name.capitalize()


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


Plan = Union[Annotated[Literal["free"], "Free for ever"], Annotated[Literal["pro"], "9 € a month"]]


@dataclass
class City:
    name: Annotated[str, "The city", at.Len(2, 20)]
    mail: Email
    people: Annotated[int, at.Gt(0), at.Lt(10**8)]
    area: Annotated[float, at.Ge(0.5)]
    color: Color
    size: Size
    founded: dt.date | None
    seen: dt.datetime | None = None
    page: Uri | None = None
    is_capital: bool = False


class Order(BaseModel):
    sort: Literal["tea", "coffee"] = Field("tea", title="Drink", description="What to drink")
    cups: Annotated[int, Field(ge=1, le=9)] = 1
    size: Size | None = Field(None, alias="how-large")
    mail: Email = "a@example.org"
    page: AnyUrl | None = None
    extras: Annotated[list[Literal["milk", "sugar"]], Field(min_length=1, max_length=2)] = ["milk"]
    plans: set[Plan] = set()

    @field_validator("cups")
    @classmethod
    def even(cls, cups: int) -> int:
        if cups == 7:
            raise ValueError("seven cups are too\nmany")
        return cups


class Point(NamedTuple):
    x: int
    y: float = 0.5


class Place(TypedDict):
    name: str
    note: str | None
    size: NotRequired[Annotated[int, "In metres"]]


@pydantic.dataclasses.dataclass
class Box:
    color: Color
    size: Size = Size.SMALL


@dataclass
class Span:
    first: int
    last: int
    scale: InitVar[int] = 1
    tags: list[Color] = field(default_factory=lambda: [Color.RED])
    length: int = field(init=False)

    def __post_init__(self, scale: int) -> None:
        if self.last < self.first:
            raise ValueError("the last comes before the first")
        self.length = (self.last - self.first) * scale


class Nothing(TypedDict):
    pass


class Legacy(BaseModel):
    plan: Literal["a", "b"] = Field(json_schema_extra={"enumNames": ["First", "Second"]})


class Written(BaseModel):
    plan: str = Field(json_schema_extra={"oneOf": [{"const": "a", "title": "First"}, {"const": "b"}]})


PLAIN: list[Any] = [
    *(str, int, float, bool, dt.date, dt.datetime, Color, Size, Email, Uri, Plan, Literal["a", "b"]),
    *(Optional[str], Optional[Plan], Literal["a", None], City, Place, Nothing, Legacy, Written),
    Annotated[str, Field(title="Name", description="Yours", max_length=9)],
]
NEWER: list[Any] = [
    *(list[Color], list[Size], list[Plan], set[Size], tuple[Literal["a"], ...], Order, Point, Box, Span),
    Annotated[list[Literal["a", "b"]], at.Len(1, 2)],
    Annotated[Optional[Plan], Field(title="Plan", default="pro")],
]
"""What it takes more to say than the oldest revision knows."""


def asked(annotation: Any, revision: str = NEWEST) -> Any:
    """Return how a form asks for a single value."""
    return Form.of(annotation).schema(revision)["properties"]["value"]


def lines(annotation: Any, content: Any) -> list[str]:
    """Return what is wrong with an answer."""
    with pytest.raises(ArgumentsError) as raised:
        Form.of(annotation).read(content)
    return str(raised.value).splitlines()


def refusal(annotation: Any) -> str:
    """Return why no form can ask for a type."""
    with pytest.raises(RegistrationError) as raised:
        Form.of(annotation)
    return str(raised.value)


# What each revision says


def request(schema: Any) -> dict[str, Any]:
    return {"method": "elicitation/create", "params": {"message": "Well?", "requestedSchema": schema}}


@pytest.mark.parametrize(
    ("annotation", "revision"),
    [(each, revision) for each in PLAIN for revision in REVISIONS]
    + [(each, revision) for each in NEWER for revision in REVISIONS[1:]],
    ids=str,
)
def test_what_is_asked_fits_the_official_schema(annotation, revision, schema_dir):
    message = request(Form.of(annotation).schema(revision))
    judge = official(schema_dir, revision)
    if "jsonrpc" in judge.definitions["ElicitRequest"]["properties"]:
        message |= {"jsonrpc": "2.0", "id": 1}
    judge.check("ElicitRequest", message)


def test_the_judge_knows_what_a_revision_cannot_say(schema_dir):
    for inner in [{"type": "string", "default": "a"}, {"type": "string", "oneOf": []}, {"type": "array"}]:
        with pytest.raises(AssertionError):
            official(schema_dir, OLDEST).check(
                "ElicitRequest", request({"type": "object", "properties": {"a": inner}})
            )


DEFINITIONS = {
    "string": ["StringSchema"],
    "integer": ["NumberSchema"],
    "number": ["NumberSchema"],
    "boolean": ["BooleanSchema"],
    "choice": [
        "EnumSchema",
        "UntitledSingleSelectEnumSchema",
        "TitledSingleSelectEnumSchema",
        "LegacyTitledEnumSchema",
    ],
    "choices": ["UntitledMultiSelectEnumSchema", "TitledMultiSelectEnumSchema"],
}


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_table_is_that_of_the_official_schema(revision, schema_dir):
    definitions = official(schema_dir, revision).definitions
    table: dict[str, set[str]] = {}
    for kind, names in DEFINITIONS.items():
        for name in names:
            table.setdefault(kind, set()).update(definitions.get(name, {}).get("properties", {}))
    known = {kind: keywords - {"type", "title", "description", "items"} for kind, keywords in table.items()}
    ours = {kind: set(keywords) - {"pattern"} for kind, keywords in FORMS[revision].items()}
    assert ours == {kind: keywords for kind, keywords in known.items() if table[kind]}
    assert set(definitions["StringSchema"]["properties"]["format"]["enum"]) == set(FORMATS)


def test_a_form_says_all_that_is_written():
    assert Form.of(City).schema("2025-11-25") == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The city", "minLength": 2, "maxLength": 20},
            "mail": {"type": "string", "format": "email"},
            "people": {"type": "integer", "minimum": 1, "maximum": 10**8 - 1},
            "area": {"type": "number", "minimum": 0.5},
            "color": {"type": "string", "enum": ["red", "blue"]},
            "size": {
                "type": "string",
                "description": "How large.",
                "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}],
            },
            "founded": {"type": "string", "format": "date"},
            "seen": {"type": "string", "format": "date-time"},
            "page": {"type": "string", "format": "uri"},
            "is_capital": {"type": "boolean", "default": False},
        },
        "required": ["name", "mail", "people", "area", "color", "size"],
    }


def test_a_form_of_a_pydantic_model():
    plans = [{"const": "free", "title": "Free for ever"}, {"const": "pro", "title": "9 € a month"}]
    assert Form.of(Order).schema(NEWEST) == {
        "type": "object",
        "properties": {
            "sort": {
                "type": "string",
                "title": "Drink",
                "description": "What to drink",
                "enum": ["tea", "coffee"],
                "default": "tea",
            },
            "cups": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1},
            "how-large": {
                "type": "string",
                "description": "How large.",
                "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}],
            },
            "mail": {"type": "string", "format": "email", "default": "a@example.org"},
            "page": {"type": "string", "format": "uri"},
            "extras": {
                "type": "array",
                "minItems": 1,
                "maxItems": 2,
                "items": {"type": "string", "enum": ["milk", "sugar"]},
                "default": ["milk"],
            },
            "plans": {"type": "array", "items": {"anyOf": plans}, "default": []},
        },
    }


class Renamed(BaseModel):
    size: Size = Field(validation_alias=pydantic.AliasChoices("how-large", "size"))
    plan: Plan = Field(alias="offer")


def test_titles_are_found_under_the_names_that_are_published():
    properties = Form.of(Renamed).schema(NEWEST)["properties"]
    assert {name: inner["oneOf"][0]["title"] for name, inner in properties.items()} == {
        "how-large": "Small",
        "offer": "Free for ever",
    }


def test_a_form_without_fields():
    assert Form.of(Nothing).schema(OLDEST) == {"type": "object", "properties": {}}
    assert Form.of(Nothing).read({}) == {}


def test_a_single_value_is_a_form_with_one_field():
    assert Form.of(int).schema(NEWEST) == {
        "type": "object",
        "properties": {"value": {"type": "integer"}},
        "required": ["value"],
    }
    assert Form.of(int).read({"value": 5}) == 5


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (dt.date, {"type": "string", "format": "date"}),
        (Literal["b", "a"], {"type": "string", "enum": ["b", "a"]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", None], {"type": "string", "enum": ["a"]}),
        (Optional[Annotated[str, "Yours"]], {"type": "string", "description": "Yours"}),
        (Annotated[int, at.Gt(0), at.Ge(5), at.Lt(9.5)], {"type": "integer", "minimum": 5, "maximum": 9}),
        (set[Literal["a", "b"]], {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}),
        (
            Annotated[list[Literal["a", "b"]], at.Len(1, 2), "Some"],
            {
                "type": "array",
                "items": {"type": "string", "enum": ["a", "b"]},
                "minItems": 1,
                "maxItems": 2,
                "description": "Some",
            },
        ),
        (
            list[Size],
            {
                "type": "array",
                "description": "How large.",
                "items": {"anyOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
            },
        ),
        (
            Union[Literal["a", "b"], Annotated[Literal["c"], Field(title="See")], None],
            {
                "type": "string",
                "oneOf": [
                    {"const": "a", "title": "a"},
                    {"const": "b", "title": "b"},
                    {"const": "c", "title": "See"},
                ],
            },
        ),
    ],
    ids=str,
)
def test_how_a_type_is_asked(annotation, schema):
    assert asked(annotation) == schema


@pytest.mark.parametrize("annotation", [Size, Plan], ids=str)
def test_titles_are_enum_names_where_there_is_nothing_newer(annotation):
    old, new = asked(annotation, OLDEST), asked(annotation)
    assert old["enum"] == [choice["const"] for choice in new["oneOf"]]
    assert old["enumNames"] == [choice["title"] for choice in new["oneOf"]]


@pytest.mark.parametrize("revision", REVISIONS)
def test_enum_names_that_are_written_stay(revision):
    schema = Form.of(Legacy).schema(revision)["properties"]["plan"]
    assert schema == {"type": "string", "enum": ["a", "b"], "enumNames": ["First", "Second"]}


def test_choices_that_are_written_as_json_schema():
    schema = Form.of(Written).schema(OLDEST)["properties"]["plan"]
    assert schema == {"type": "string", "enum": ["a", "b"], "enumNames": ["First", "b"]}
    assert lines(Written, {"plan": "c"}) == ['plan: expected "a" or "b", got "c"']


def test_an_optional_field_has_no_default_to_show():
    assert "default" not in asked(Annotated[Optional[str], Field(default=None)])
    assert "value" not in Form.of(Optional[str]).schema(NEWEST).get("required", [])


# What cannot be said


@pytest.mark.parametrize(
    ("annotation", "revision", "message"),
    [
        (list[Color], "2025-06-18", "has no multiple choice; ask for one of them"),
        (Annotated[str, Field(pattern="^a")], "2025-06-18", "has no `pattern` for a text; describe"),
        (Annotated[str, Field(pattern="^a")], "2026-07-28", "has no `pattern` for a text; describe"),
    ],
    ids=str,
)
def test_what_a_revision_cannot_say_is_refused(annotation, revision, message):
    form = Form.of(annotation)
    with pytest.raises(ValueError, match="cannot be asked: revision") as raised:
        form.schema(revision)
    assert f"revision {revision} {message}" in str(raised.value)
    assert form.schema("2025-11-25")


def test_the_message_names_the_field():
    with pytest.raises(
        ValueError, match=r"^Order: the field 'extras' cannot be asked: revision 2025-06-18 has"
    ):
        Form.of(Order).schema(OLDEST)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
def test_older_revisions_have_no_forms(revision):
    with pytest.raises(ValueError, match="has no forms; 2025-06-18 brought them"):
        Form.of(str).schema(revision)


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (dict[str, int], "is an object, and a form is flat"),
        (Optional[City], "is an object, and a form is flat"),
        (list[str], "is a list, and the only lists of a form are choices"),
        (list[City], "is a list, and the only lists"),
        (list[Optional[Color]], "is a list, and the only lists"),
        (tuple[Literal["a"], Literal["b"]], "is a list, and the only lists"),
        (Union[int, str], "is not of one type"),
        (Any, "is not of one type"),
        (None, "is not of one type"),
        (Literal[1, 2], "offers choices that are no texts"),
        (Level, "offers choices that are no texts"),
        (list[Level], "offers choices that are no texts"),
        (Literal[None], "offers choices that are no texts"),
        (SecretStr, "is a secret, which must not pass through a form; ask for it by a URL"),
        (UUID, "a form has no format 'uuid'; its formats are email, uri, date, date-time"),
        (dt.time, "a form has no format 'time'"),
        (bytes, "a form has no `contentEncoding` for a text"),
        (Annotated[int, Format("email")], "a form has no `format` for an integer"),
        (Annotated[float, at.Gt(0)], "a form has no `exclusiveMinimum` for a number; use `ge`"),
        (Annotated[int, at.MultipleOf(3)], "a form has no `multipleOf` for an integer"),
        (Annotated[str, Field(examples=["a"])], "a form has no `examples` for a text; leave it out"),
        (Annotated[dt.date, Field(default="soon")], "has the default 'soon', which is no answer to it"),
        (
            Annotated[Literal["a", "b"], Field(json_schema_extra={"enumNames": ["A"]})],
            "has 1 enumNames for 2 choices",
        ),
    ],
    ids=str,
)
def test_what_no_form_can_ask_is_refused_at_once(annotation, message):
    assert message in refusal(annotation)


class Nested(BaseModel):
    city: Place


class Tree(BaseModel):
    children: list[Tree] = []
    parent: Tree | None = None


@dataclass
class Nest:
    at: Point
    pair: Annotated[Nested, "Two"]


@pytest.mark.parametrize(
    ("annotation", "field"), [(Nested, "city"), (Tree, "children"), (Nest, "at")], ids=str
)
def test_a_nested_object_is_refused_by_name(annotation, field):
    assert refusal(annotation).startswith(f"{annotation.__name__}: the field {field!r} is ")


def test_a_class_that_is_no_structure_is_refused():
    class Opaque:
        pass

    assert "no form in JSON; use a dataclass, a TypedDict or a pydantic model" in refusal(Opaque)


class Unknown(TypedDict):
    name: Missing  # noqa: F821 - not defined on purpose


@dataclass
class UnknownData:
    name: Missing  # noqa: F821 - not defined on purpose


@pytest.mark.parametrize("annotation", [Unknown, UnknownData])
def test_a_type_hint_that_is_not_defined(annotation):
    with pytest.raises(UnresolvedHint, match="'Missing' is not defined"):
        Form.of(annotation)


# What an answer becomes


def test_an_answer_becomes_a_value_of_the_type():
    content = {
        "name": "Berlin",
        "mail": "a@example.org",
        "people": 3.0,
        "area": 891,
        "color": "red",
        "size": "l",
        "seen": "2026-01-31T09:30:00Z",
        "more": [1],
    }
    assert Form.of(City).read(content) == City(
        *("Berlin", "a@example.org", 3, 891.0, Color.RED, Size.LARGE, None),
        seen=dt.datetime(2026, 1, 31, 9, 30, tzinfo=dt.timezone.utc),
    )


@pytest.mark.parametrize(
    ("annotation", "content", "value"),
    [
        (Point, {"x": 1}, Point(1)),
        (Place, {"name": "a"}, {"name": "a", "note": None}),
        (Place, {"name": "a", "note": "b", "size": 2, "more": 1}, {"name": "a", "note": "b", "size": 2}),
        (Order, {}, Order()),
        (Order, {"how-large": "s", "size": "l"}, Order(**{"how-large": Size.SMALL})),
        (Order, {"how-large": None}, Order()),
        (Box, {"color": "blue"}, Box(Color.BLUE)),
        (Span, {"first": 1, "last": 4, "scale": 2}, Span(1, 4, 2)),
        (Annotated[Point, "Where"], {"x": 1}, Point(1)),
        (Optional[str], {}, None),
        (Optional[str], {"value": None}, None),
        (Optional[str], {"value": ""}, ""),
        (Annotated[str, Field(default="a")], {}, "a"),
        (set[Color], {"value": ["red", "blue"]}, {Color.RED, Color.BLUE}),
        (float, {"value": 5}, 5.0),
        (RootModel[str], {"value": "a"}, RootModel[str]("a")),
        (Decimal, {"value": "1.50"}, Decimal("1.50")),
    ],
    ids=str,
)
def test_what_is_read(annotation, content, value):
    read = Form.of(annotation).read(content)
    assert read == value
    assert type(read) is type(value)


def test_an_answer_that_does_not_fit_has_one_line_a_field():
    content = {
        "name": "x",
        "mail": "home",
        "people": "3",
        "area": 0,
        "color": "green",
        "size": 1,
        "founded": "",
    }
    assert lines(City, content) == [
        'name: expected a string of 2 to 20 characters, got "x"',
        'mail: expected an email address, got "home"',
        'people: expected an integer greater than 0 and less than 100000000, got "3"',
        "area: expected a number of at least 0.5, got 0",
        'color: expected "red" or "blue", got "green"',
        'size: expected "s" or "l", got 1',
        'founded: expected a date such as 2026-01-31, got ""',
    ]


@pytest.mark.parametrize(
    ("annotation", "content", "expected"),
    [
        (Point, {}, ["x: expected an integer, but it is missing"]),
        (Point, {"x": None}, ["x: expected an integer, got null"]),
        (Point, {"x": "1"}, ['x: expected an integer, got "1"']),
        (Point, {"x": True}, ["x: expected an integer, got true"]),
        (Point, None, ["expected an object, got null"]),
        (Point, [1], ["expected an object, got [1]"]),
        (bool, {"value": "true"}, ['value: expected true or false, got "true"']),
        (list[Color], {"value": "red"}, ['value: expected an array, got "red"']),
        (list[Color], {"value": ["red", "x"]}, ['value[1]: expected "red" or "blue", got "x"']),
        (set[Color], {"value": ["red", "red"]}, ["value: expected an array without duplicates, got [\"red\",\"red\"]"]),
        (Order, {"mail": "home"}, ['mail: expected an email address, got "home"']),
        (Order, {"cups": 7}, ["cups: seven cups are too many"]),
        (Span, {"first": 2, "last": 1}, ["the last comes before the first"]),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_with_an_answer(annotation, content, expected):
    assert lines(annotation, content) == expected


class Strict(BaseModel, extra="forbid"):
    low: int = 0
    high: int = 9

    @pydantic.model_validator(mode="after")
    def ordered(self) -> Strict:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


def test_what_a_model_checks_itself_speaks_without_names_of_libraries():
    assert lines(Strict, {"low": 10}) == ["low is above high"]
    (line,) = lines(Strict, {"more": 1})
    assert line.startswith("more: ")
    assert "pydantic" not in line


# Properties

FIELDS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, st.text(max_size=5)),
    (int, st.integers(-(10**6), 10**6)),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bool, st.booleans()),
    (dt.date, st.dates()),
    (dt.datetime, st.datetimes(timezones=st.just(dt.timezone.utc))),
    (Color, st.sampled_from(Color)),
    (Size, st.sampled_from(Size)),
    (Plan, st.sampled_from(["free", "pro"])),
    (list[Size], st.lists(st.sampled_from(Size), max_size=3)),
    (set[Color], st.sets(st.sampled_from(Color))),
    (Annotated[str, at.MinLen(1), at.MaxLen(3)], st.text(min_size=1, max_size=3)),
    (Annotated[int, at.Gt(-3), at.Le(3)], st.integers(-2, 3)),
]
KINDS = ["dataclass", "named tuple", "typed dict", "model"]


def build(kind: str, fields: dict[str, Any]) -> Any:
    if kind == "dataclass":
        return dataclasses.make_dataclass("Answer", fields.items())
    if kind == "named tuple":
        return typing.NamedTuple("Answer", list(fields.items()))
    if kind == "typed dict":
        return TypedDict("Answer", fields)
    return pydantic.create_model("Answer", **{name: (hint, ...) for name, hint in fields.items()})


@st.composite
def answers(draw: st.DrawFn) -> tuple[Any, Any]:
    """Draw a type and a value of it."""
    chosen = draw(st.lists(st.tuples(st.sampled_from(FIELDS), st.booleans()), max_size=4))
    fields = {
        f"f{number}": (Optional[hint], st.none() | value) if is_optional else (hint, value)
        for number, ((hint, value), is_optional) in enumerate(chosen)
    }
    cls = build(draw(st.sampled_from(KINDS)), {name: hint for name, (hint, _) in fields.items()})
    return cls, cls(**{name: draw(value) for name, (_, value) in fields.items()})


@settings(max_examples=150, deadline=None)
@given(answers())
def test_a_value_that_is_dumped_is_read_back(answer):
    cls, value = answer
    dumped = json.loads(pydantic.TypeAdapter(cls).dump_json(value))
    content = (
        dict(zip(cls._fields, dumped, strict=True))
        if hasattr(cls, "_fields") and isinstance(dumped, list)
        else dumped
    )
    assert Form.of(cls).read(content) == value
    # Who leaves out what is null says the same.
    assert Form.of(cls).read({name: item for name, item in content.items() if item is not None}) == value


def complaints(form: Form, content: Any) -> tuple[Problem, ...]:
    """Return what is wrong with an answer; nothing when it is read."""
    try:
        form.read(content)
    except ArgumentsError as error:
        return error.problems
    return ()


CONTENTS = st.dictionaries(
    st.sampled_from(["f0", "f1", "more"]),
    st.sampled_from(
        [
            *("", "a", "abcd", "red", "s", "free", "a@b", "2026-01-31", "2026-02-30", "2026-01-31T09:30:00Z"),
            *(
                True,
                False,
                0,
                1,
                -3,
                3.0,
                3.5,
                4,
                1e300,
                [],
                ["s"],
                ["s", "l"],
                ["x"],
                ["s", 1],
                {},
                {"a": 1},
            ),
        ]
    ),
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(FIELDS), st.booleans()), max_size=2), CONTENTS, st.sampled_from(KINDS)
)
def test_what_is_read_is_what_the_form_asks_for(chosen, content, kind):
    hints = [hint for (hint, _), _ in chosen]
    fields = {
        f"f{number}": Optional[hint] if is_optional else hint
        for number, (hint, (_, is_optional)) in enumerate(zip(hints, chosen, strict=True))
    }
    form = Form.of(build(kind, fields))
    judge = Draft202012Validator(form.schema("2025-11-25"), format_checker=FormatChecker())
    wrong = [
        error.path[0] if error.path else error.message.split("'")[1] for error in judge.iter_errors(content)
    ]
    assert {problem.field.partition("[")[0] for problem in complaints(form, content)} == set(wrong)


# What it costs


def test_the_form_of_a_class_is_made_once():
    assert Form.of(City) is Form.of(City)


def test_equal_choices_keep_their_own_order():
    assert asked(Literal["x", "y"])["enum"] == ["x", "y"]
    assert asked(Literal["y", "x"])["enum"] == ["y", "x"]


SIMPLE = """
import sys
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, TypedDict
from mcpkit.schema.form import Form
from mcpkit.schema.form_fields import Email

@dataclass
class Data:
    mail: Annotated[Email, "Yours"]
    sort: Literal["a", "b"] | None = None

class Keys(TypedDict):
    count: int

class Pair(NamedTuple):
    x: float
    y: float = 0.5

Form.of(Data).read({"mail": "a@b"})
Form.of(Keys).read({"count": 1})
Form.of(Pair).read({"x": 1})
Form.of(list[Literal["a"]]).read({"value": []})
print("pydantic" in sys.modules)
"""


def test_pydantic_is_left_alone_by_types_that_are_not_its_own(tmp_path: Path):
    script = tmp_path / "simple.py"
    script.write_text(SIMPLE)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("False\n", "")


@pytest.mark.parametrize(("type_", "read"), [(str, "a"), (int, 1)])
def test_a_default_that_a_revision_cannot_show_is_still_the_default(type_, read):
    form = Form.of(Annotated[type_, Field(default=read)])
    assert form.schema("2025-06-18") == {
        "type": "object",
        "properties": {"value": {"type": {str: "string", int: "integer"}[type_]}},
    }
    assert form.schema("2025-11-25")["properties"]["value"]["default"] == read
    assert form.read({}) == read
