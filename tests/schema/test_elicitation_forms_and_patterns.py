"""Forms: the schema that asks for a type, the answers that are read, and types that no form can ask for."""

# ruff: noqa: UP007, UP045 - the old spellings of unions are tested on purpose
import datetime as dt
import enum
import re
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union
from uuid import UUID

import annotated_types as at
import pytest
from pydantic import AnyUrl, BaseModel, Field, RootModel, SecretStr, StringConstraints, field_validator
from typing_extensions import NotRequired, TypedDict

from mcpkit._utils.exceptions import ArgumentsError, RegistrationError
from mcpkit.schema import Output, custom_schemas
from mcpkit.schema.elicitation_forms import FORMS, Form
from mcpkit.schema.patterns_and_formats import Email, Format, matches, published_pattern
from tests.helpers.schema_cases import Color, Level, arguments_of
from tests.helpers.tables import each_row

OLDEST, NEWEST = min(FORMS), max(FORMS)


class Size(enum.Enum):
    """How large."""

    SMALL = "s"
    LARGE = "l"

    @property
    def label(self) -> str:
        return self.name.capitalize()


class Order(BaseModel):
    sort: Literal["tea", "coffee"] = Field("tea", title="Drink", description="What to drink")
    cups: Annotated[int, Field(ge=1, le=9)] = 1
    size: Size | None = Field(None, alias="how-large")
    mail: Email = "a@example.org"
    page: AnyUrl | None = None

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


@each_row(("annotation", "schema"), [
    (dt.date, {"type": "string", "format": "date"}),
    (dt.datetime, {"type": "string", "format": "date-time"}),
    (Optional[dt.datetime], {"type": "string", "format": "date-time"}),
    (Literal["b", "a"], {"type": "string", "enum": ["b", "a"]}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal["a", None], {"type": "string", "enum": ["a"]}),
    (Optional[Annotated[str, "Yours"]], {"type": "string", "description": "Yours"}),
    (Annotated[int, at.Gt(0), at.Ge(5), at.Lt(9.5)], {"type": "integer", "minimum": 5, "maximum": 9}),
    (set[Literal["a", "b"]], {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}),
    (Annotated[list[Literal["a", "b"]], at.Len(1, 2), "Some"],
     {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "maxItems": 2,
     "description": "Some"}),
    (list[Size],
     {"type": "array", "description": "How large.",
     "items": {"anyOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]}}),
    (Union[Literal["a", "b"], Annotated[Literal["c"], Field(title="See")], None],
     {"type": "string",
     "oneOf": [{"const": "a", "title": "a"}, {"const": "b", "title": "b"},
     {"const": "c", "title": "See"}]}),
])  # fmt: skip
def test_form_schema_of_single_value(annotation, schema):
    assert Form.of(annotation).schema(NEWEST)["properties"]["value"] == schema


@each_row(("type_", "name", "default"), [(str, "string", "a"), (int, "integer", 1)])
def test_form_default_is_used_where_version_cannot_publish_it(type_, name, default):
    form = Form.of(Annotated[type_, Field(default=default)])
    assert form.schema("2025-06-18") == {"type": "object", "properties": {"value": {"type": name}}}
    assert form.schema("2025-11-25")["properties"]["value"]["default"] == default
    assert form.read({}) == default


@each_row(("annotation", "content", "value"), [
    (Point, {"x": 1}, Point(1)), (Place, {"name": "a"}, {"name": "a", "note": None}),
    (Place, {"name": "a", "note": "b", "size": 2, "more": 1}, {"name": "a", "note": "b", "size": 2}),
    (Order, {"how-large": "s", "size": "l"}, Order(**{"how-large": Size.SMALL})),
    (Order, {"how-large": None}, Order()), (Optional[str], {}, None),
    (Optional[str], {"value": None}, None), (Optional[str], {"value": ""}, ""),
    (Annotated[str, Field(default="a")], {}, "a"),
    (set[Color], {"value": ["red", "blue"]}, {Color.RED, Color.BLUE}), (float, {"value": 5}, 5.0),
    (RootModel[str], {"value": "a"}, RootModel[str]("a")), (Decimal, {"value": "1.50"}, Decimal("1.50")),
    (dt.datetime, {"value": "2026-01-31T09:30:00"}, dt.datetime(2026, 1, 31, 9, 30)),
    (Optional[dt.datetime], {"value": "2026-01-31T09:30:00.5"}, dt.datetime(2026, 1, 31, 9, 30, 0, 500000)),
])  # fmt: skip
def test_form_read(annotation, content, value):
    read = Form.of(annotation).read(content)
    assert read == value
    assert type(read) is type(value)


@each_row(("annotation", "content", "expected"), [
    (Point, {}, "x: expected an integer, but it is missing"),
    (Point, {"x": None}, "x: expected an integer, got null"),
    (Point, {"x": "1"}, 'x: expected an integer, got "1"'),
    (Point, {"x": True}, "x: expected an integer, got true"),
    (Point, None, "expected an object, got null"), (Point, [1], "expected an object, got [1]"),
    (bool, {"value": "true"}, 'value: expected true or false, got "true"'),
    (list[Color], {"value": "red"}, 'value: expected an array, got "red"'),
    (list[Color], {"value": ["red", "x"]}, 'value[1]: expected "red" or "blue", got "x"'),
    (set[Color], {"value": ["red", "red"]},
     'value: expected an array without duplicates, got ["red","red"]'),
    (Order, {"mail": "home"}, 'mail: expected an email address, got "home"'),
    (Order, {"cups": 7}, "cups: seven cups are too many"),
])  # fmt: skip
def test_form_wrong_answer_is_reported(annotation, content, expected):
    with pytest.raises(ArgumentsError) as raised:
        Form.of(annotation).read(content)
    assert str(raised.value) == expected


@each_row(("annotation", "message"), [
    (dict[str, int], "is an object, and a form cannot nest objects"),
    (Optional[Place], "is an object, and a form cannot nest objects"),
    (list[str], "is a list, and a form only has lists of choices"),
    (list[Place], "is a list, and a form"), (list[Optional[Color]], "is a list, and a form only has lists"),
    (tuple[Literal["a"], Literal["b"]], "is a list, and a form only has lists"),
    (Union[int, str], "has a type that a form"), (Any, "has a type that a form"), (None, "has a type that a form"),
    (Literal[1, 2], "has choices that are not strings"), (Level, "has choices that are not strings"),
    (list[Level], "has choices that are not strings"), (Literal[None], "has choices that are not strings"),
    (SecretStr, "is a secret, which a form must not contain; use an elicitation by URL"),
    (UUID, "a form has no format 'uuid'; the formats are email, uri, date, date-time"),
    (dt.time, "a form has no format 'time'"), (bytes, "a form has no `contentEncoding` for a string"),
    (Annotated[int, Format("email")], "a form has no `format` for an integer"),
    (Annotated[float, at.Gt(0)], "a form has no `exclusiveMinimum` for a number; use `ge`"),
    (Annotated[int, at.MultipleOf(3)], "a form has no `multipleOf` for an integer"),
    (Annotated[str, Field(examples=["a"])], "a form has no `examples` for a string; leave it out"),
    (Annotated[dt.date, Field(default="soon")], "has the default 'soon', which is invalid"),
    (Annotated[Literal["a", "b"], Field(json_schema_extra={"enumNames": ["A"]})],
     "has 1 enumNames for 2 choices"),
])  # fmt: skip
def test_form_type_that_no_form_can_ask_is_refused(annotation, message):
    with pytest.raises(RegistrationError, match=re.escape(message)):
        Form.of(annotation)


def test_form_explicit_schema_choice_titles_by_version() -> None:
    size = {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]}
    form = Form.of({"type": "object", "properties": {"size": size}})
    assert form.schema(NEWEST)["properties"]["size"] == size
    old = {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]}
    assert form.schema(OLDEST)["properties"]["size"] == old


FIELD: dict[str, Any] = {"type": "string"}
OBJECT = {"type": "object", "properties": {"a": FIELD}}


@each_row(("field", "message"), [
    (True, "the field 'a' is not a JSON Schema"), ({"$ref": "#/$defs/x"}, "$ref cannot be resolved"),
    ({"type": "strin"}, "the field 'a' has a type that a form does not support"),
    ({"type": "object"}, "the field 'a' is an object, and a form cannot nest objects"),
    ({"type": "array", "items": FIELD}, "the field 'a' is a list"),
    ({**FIELD, "minLength": "2"}, "`minLength` must be an integer of at least 0"),
    ({**FIELD, "pattern": "("}, "`pattern` must be a regular expression"),
    ({**FIELD, "enum": "x"}, "`enum` must be an array"),
    ({"type": "integer", "maximum": None}, "`maximum` must be a number"),
    ({**FIELD, "default": 1}, "has the default 1, which is invalid"),
    ({**FIELD, "format": "password"}, "a secret"), ({**FIELD, "minimum": 1}, "has no `minimum` for a string"),
    ({"type": "integer", "enum": [1, 2]}, "has choices that are not strings"),
])  # fmt: skip
def test_form_explicit_field_that_is_invalid_is_refused(field: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=re.escape(message)):
        Form.of({"type": "object", "properties": {"a": field}})


@each_row(("schema", "message"), [
    *(
        (schema, 'the JSON Schema of a form must have {"type": "object"')
        for schema in ({}, {"type": "string"}, {"type": "object"})
    ),
    ({"minProperties": 1, **OBJECT}, "a form does not support `minProperties`"),
    ({"required": "a", **OBJECT}, "`required` must be an array of"),
    ({"required": ["b"], **OBJECT}, "`required` contains 'b', which is not a field"),
])  # fmt: skip
def test_form_explicit_schema_that_is_invalid_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=re.escape(message)):
        Form.of(schema)


# Patterns: as ECMA-262 in published schemas, in linear time in validation; others are refused at registration


EXPONENTIAL = "^(?:(?=a)a+)+$"


UNBOUNDED = [
    r"^(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9]{8,}$", r"^(?!admin$)[a-z]+$", r"^([a-z]+)-\1$", r"(?<=\$)[0-9]+",
    r"^(?P<quote>['\"]).*(?P=quote)$", "(?i)^(?!admin)", "^(a)?(?(1)b|c)(?!d)",
]  # fmt: skip


@each_row("pattern", UNBOUNDED)
def test_pattern_with_lookaround_or_backreference_is_refused(pattern: str) -> None:
    annotated = Annotated[str, Field(pattern=pattern)]
    compiled = Annotated[str, StringConstraints(pattern=re.compile(pattern))]
    for annotation in (annotated, list[annotated], compiled):  # type: ignore[valid-type]
        with pytest.raises(
            RegistrationError, match=r"has lookarounds, backreferences .* unbounded matching time. Write it"
        ):
            arguments_of(annotation)


def test_pattern_with_lookaround_in_explicit_schema_is_bounded() -> None:
    for schema in (
        {"type": "object", "properties": {"a": {"type": "string", "pattern": EXPONENTIAL}}},
        {"type": "object", "patternProperties": {EXPONENTIAL: {}}, "additionalProperties": False},
    ):
        assert custom_schemas.arguments(schema).schema == schema
        checked = custom_schemas.CheckedSchema(schema, "input_schema")
        assert checked.fits({"a" * 40: 1} if "patternProperties" in schema else {"a": "a" * 40})
        assert not checked.fits(
            {"a" * 60 + "b": 1} if "patternProperties" in schema else {"a": "a" * 60 + "b"}
        )


TRANSLATED = [
    (r"\Aa\Z", "^a$"), (r"\Aa\z", "^a$"), ("(?P<year>[0-9]+)-x", "(?<year>[0-9]+)-x"), (r"[\w.-]+@\d{2,}?", None),
    (r"^[-\w]+(?:\.[a-z]+)*$", None), (r"\\A[\]A\\Z]", None), (r"\p{Lu}\x41\u00e9", None), ("^[^\\s]*$", None),
]  # fmt: skip


@each_row(("pattern", "expected"), TRANSLATED)
def test_pattern_is_published_as_ecma(pattern: str, expected: str | None) -> None:
    assert published_pattern(pattern) == (expected or pattern)
    matches(pattern)


def test_pattern_end_is_the_very_end() -> None:
    for pattern in ("^a$", r"\Aa\Z", r"\Aa\z"):
        assert matches(pattern)("a")
        assert not matches(pattern)("a\n")


LEFT_OUT = [
    *(
        "(?i)abc", "(?i:abc)", "(?m)^a", "(?x)a b", "[[:alpha:]]", "[a-z&&[^b]]", r"\<a", r"\p{Greek}", "^*",
        r"\@",
    ),
    *(r"a\-b", "a{", "]", "(?#comment)a"),
]  # fmt: skip


@each_row("pattern", LEFT_OUT)
def test_pattern_without_ecma_form_is_recognized(pattern: str) -> None:
    assert published_pattern(pattern) is None


class Code(BaseModel):
    code: Annotated[str, Field(pattern="(?i)^[a-z]{2}$")]
    other: Annotated[str, StringConstraints(pattern=re.compile("^x$", re.IGNORECASE))] = "x"


@each_row(("annotation", "accepted", "refused"), [
    (Annotated[str, Field(pattern="(?i)^never published$")], "NEVER published", "ever"),
    (Code, {"code": "CH", "other": "X"}, {"code": "C"}),
    (Code, {"code": "CH"}, {"code": "CH", "other": "y"}),
    (dict[Annotated[str, Field(pattern="(?i)^key$")], int], {"KEY": 1}, {"other": 1}),
])  # fmt: skip
def test_pattern_left_out_of_schema_is_checked_in_arguments(annotation, accepted, refused) -> None:
    arguments = arguments_of(annotation)
    assert "pattern" not in str(arguments.schema)
    arguments.validate({"value": accepted})
    with pytest.raises(ArgumentsError, match="match"):
        arguments.validate({"value": refused})
    output = Output.of(annotation)
    assert output is not None
    assert "pattern" not in str(output.schema)


EXPLICIT = {
    "type": "object",
    "properties": {"pattern": {"type": "string", "pattern": r"\Aa\Z", "default": r"\A"},
     "enum": {"not": {"pattern": "(?i)^b$"}},
     "either": {"oneOf": [{"pattern": "(?i)^c$"}, {"type": "string", "maxLength": 2}]}},
    "patternProperties": {r"\Ax-": {"type": "integer"}, "(?i)^y-": {"type": "integer"}},
    "propertyNames": {"pattern": "^[a-zA-Z0-9-]+\\Z"}, "additionalProperties": False,
}  # fmt: skip


def test_pattern_of_explicit_schema_is_never_stricter() -> None:
    arguments = custom_schemas.arguments(EXPLICIT)
    assert arguments.schema == {"type": "object",
        "properties": {"pattern": {"type": "string", "pattern": "^a$", "default": r"\A"}, "enum": {},
        "either": {"anyOf": [{}, {"type": "string", "maxLength": 2}]}},
        "patternProperties": {"^x-": {"type": "integer"}},
        "propertyNames": {"pattern": "^[a-zA-Z0-9-]+$"}}  # fmt: skip
    arguments.validate({"pattern": "a", "enum": "c", "either": "de", "x-a": 1, "Y-b": 2})
    wrong = {"pattern": "a\n", "enum": "B", "either": "C", "Y-b": "c", "x-b": "c", "zz": 1, "x-\n": 1}
    for name, value in wrong.items():
        with pytest.raises(ArgumentsError):
            arguments.validate({name: value})


@each_row("pattern", ["(", "[", "a{2,1}", "(?P<a>", "*a", r"(?<=a+)b"])
def test_pattern_that_is_invalid_is_refused(pattern: str) -> None:
    with pytest.raises(RegistrationError, match="is not a regular expression"):
        arguments_of(Annotated[str, Field(pattern=pattern)])


def test_pattern_mismatch_is_explained_in_linear_time() -> None:
    pattern = r"^(\w+\s?)+$"
    properties = {"value": {"type": "string", "pattern": pattern}}
    for arguments in (
        arguments_of(Annotated[str, Field(pattern=pattern)]),
        custom_schemas.arguments({"type": "object", "properties": properties}),
    ):
        with pytest.raises(ArgumentsError, match="expected a string that matches"):
            arguments.validate({"value": "a" * 60 + "!"})


def test_pattern_lone_surrogate_does_not_match() -> None:
    assert not matches("^[^a]")("\ud800")
