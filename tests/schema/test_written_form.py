"""Forms that an author writes as JSON Schema."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from mcpkit import Context, RegistrationError
from mcpkit.schema.form import CannotAskError, Form
from tests.helpers.asked import ELICITING, Person, outcome, tool
from tests.helpers.form_types import NEWEST, OLDEST, Color, lines

pytestmark = pytest.mark.anyio

TRIP = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "title": "City", "minLength": 2},
        "days": {"type": "integer", "minimum": 1, "maximum": 14, "default": 3},
        "by": {"type": "string", "enum": ["bus", "train"]},
        "mail": {"type": "string", "format": "email"},
    },
    "required": ["city"],
}


@pytest.mark.parametrize("revision", ELICITING)
@pytest.mark.parametrize("is_sync", [False, True])
async def test_a_form_is_asked_as_it_is_written_and_answered_by_a_dict(revision: str, is_sync: bool) -> None:
    async def plan(ctx: Context) -> str:
        answer = await ctx.elicit("Where to?", TRIP)
        return repr(answer.value)

    def plan_in_a_thread(ctx: Context) -> str:
        return repr(ctx.sync.elicit("Where to?", TRIP).value)

    person = Person({"by": "bus", "city": "Rome", "pets": 1})
    text = await outcome(tool(plan_in_a_thread if is_sync else plan), person, revision)
    assert text == "{'city': 'Rome', 'days': 3, 'by': 'bus'}"
    ((_, params),) = person.asked
    expected = TRIP
    if revision == OLDEST:  # it has no defaults of numbers
        days = {"type": "integer", "minimum": 1, "maximum": 14}
        expected = {**TRIP, "properties": {**TRIP["properties"], "days": days}}  # type: ignore[dict-item]
    assert params["requestedSchema"] == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "city: expected a string"),
        ({"city": "R"}, "city: expected a string of at least 2 characters"),
        ({"city": "Rome", "days": 15}, "days: expected an integer from 1 to 14, got 15"),
        ({"city": "Rome", "by": "car"}, "by: expected "),
        ({"city": "Rome", "mail": "x"}, "mail: expected an email address"),
    ],
)
def test_an_answer_is_held_against_it(content: Any, message: str) -> None:
    (line,) = lines(TRIP, content)
    assert line.startswith(message)


def test_what_a_generator_of_schemas_writes_is_understood() -> None:
    class Paint(BaseModel):
        """What to paint."""

        color: Color
        coats: int = 2
        note: str | None = None

    form = Form.of({**Paint.model_json_schema(), "additionalProperties": False})
    assert form.schema(NEWEST) == {
        "type": "object",
        "properties": {
            "color": {"type": "string", "title": "Color", "enum": [color.value for color in Color]},
            "coats": {"type": "integer", "title": "Coats", "default": 2},
            "note": {"type": "string", "title": "Note"},
        },
        "required": ["color"],
    }
    color = next(iter(Color)).value
    assert form.read({"color": color}) == {"color": color, "coats": 2, "note": None}


def test_choices_with_titles_are_said_in_the_words_of_each_revision() -> None:
    size = {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]}
    form = Form.of({"type": "object", "properties": {"size": size}})
    assert form.schema(NEWEST)["properties"]["size"] == size
    old = {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]}
    assert form.schema(OLDEST)["properties"]["size"] == old


def test_what_a_revision_has_no_words_for_is_told() -> None:
    sizes = {"type": "array", "items": {"type": "string", "enum": ["s", "l"]}}
    form = Form.of({"type": "object", "properties": {"sizes": sizes}})
    assert form.schema(NEWEST)["properties"]["sizes"] == sizes
    with pytest.raises(CannotAskError, match="the field 'sizes' cannot be asked: revision 2025-06-18 has no"):
        form.schema(OLDEST)


FIELD: dict[str, Any] = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({}, 'the JSON Schema of a form says {"type": "object"'),
        ({"type": "string"}, 'the JSON Schema of a form says {"type": "object"'),
        ({"type": "object"}, 'the JSON Schema of a form says {"type": "object"'),
        ({"properties": {"a": FIELD}, "minProperties": 1}, "a form has no `minProperties` beside its fields"),
        ({"properties": {"a": FIELD}, "required": "a"}, "`required` is an array of the names"),
        ({"properties": {"a": FIELD}, "required": ["b"]}, "`required` names 'b', and there is no such field"),
        ({"properties": {"a": True}}, "the field 'a' is no JSON Schema"),
        ({"properties": {"a": {"$ref": "#/$defs/x"}}}, "$ref leads nowhere"),
        ({"properties": {"a": {"type": "strin"}}}, "the field 'a' is not of one type that a form has"),
        ({"properties": {"a": {"type": "object"}}}, "the field 'a' is an object, and a form is flat"),
        ({"properties": {"a": {"type": "array", "items": FIELD}}}, "the field 'a' is a list"),
        ({"properties": {"a": {**FIELD, "minLength": "2"}}}, "`minLength` is an integer of at least 0"),
        ({"properties": {"a": {**FIELD, "pattern": "("}}}, "`pattern` is a regular expression"),
        ({"properties": {"a": {**FIELD, "enum": "x"}}}, "`enum` is an array"),
        ({"properties": {"a": {"type": "integer", "maximum": None}}}, "`maximum` is a number"),
        ({"properties": {"a": {**FIELD, "default": 1}}}, "has the default 1, which does not fit it"),
        ({"properties": {"a": {**FIELD, "format": "password"}}}, "a secret|has no format 'password'"),
        ({"properties": {"a": {**FIELD, "minimum": 1}}}, "has no `minimum` for a text"),
        ({"properties": {"a": {"type": "integer", "enum": [1, 2]}}}, "offers choices that are no texts"),
    ],
)
def test_a_form_is_checked_when_it_is_given(schema: Any, message: str) -> None:
    if "properties" in schema:
        schema = {"type": "object", **schema}
    with pytest.raises(RegistrationError) as raised:
        Form.of(schema)
    assert any(part in str(raised.value) for part in message.split("|"))
