"""What a form asks in each revision."""

# ruff: noqa: UP007, UP045 - the old spellings of unions are tested on purpose
from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

import annotated_types as at
import pydantic
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from mcpkit.schema.form import Form
from mcpkit.schema.form_fields import FORMATS, FORMS
from mcpkit.schema.texts import Email, Uri
from tests.helpers.form_types import (
    NEWEST,
    OLDEST,
    REVISIONS,
    Box,
    City,
    Color,
    Order,
    Place,
    Plan,
    Point,
    Size,
    Span,
    asked,
    lines,
)
from tests.helpers.official import official


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
        (dt.datetime, {"type": "string", "format": "date-time"}),
        (Optional[dt.datetime], {"type": "string", "format": "date-time"}),
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


@pytest.mark.parametrize(("type_", "read"), [(str, "a"), (int, 1)])
def test_a_default_that_a_revision_cannot_show_is_still_the_default(type_, read):
    form = Form.of(Annotated[type_, Field(default=read)])
    assert form.schema("2025-06-18") == {
        "type": "object",
        "properties": {"value": {"type": {str: "string", int: "integer"}[type_]}},
    }
    assert form.schema("2025-11-25")["properties"]["value"]["default"] == read
    assert form.read({}) == read


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
from mcpkit.schema.texts import Email

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


@pytest.mark.slow
def test_pydantic_is_left_alone_by_types_that_are_not_its_own(tmp_path: Path):
    script = tmp_path / "simple.py"
    script.write_text(SIMPLE)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("False\n", "")
