"""Fields that were left blank: an empty text has the field's default where no empty text fits."""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import annotated_types as at
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, Field

from mcpkit import Context, Server
from mcpkit.common.errors import ArgumentsError
from mcpkit.schema import Arguments
from mcpkit.schema.form import Form
from mcpkit.testing import connect
from tests.helpers.structures import Color, Place, parameter

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "200"))


def filled(value: str) -> str:
    if not value:
        raise ValueError("it is empty")
    return value


FLAT: list[tuple[Any, Any]] = [
    # types that forms can ask for, with a default
    (int, 3),
    (float, 0.5),
    (bool, True),
    (int | None, None),
    (Literal["slow", "fast"], "slow"),
    (list[Literal["a", "b"]], None),
    (Color, Color.RED),
    (dt.date, dt.date(2026, 1, 31)),
    (Annotated[str, at.MinLen(1)], "x"),
    (Annotated[str, AfterValidator(filled)], "x"),
    (str, "x"),
    (str | None, None),
]
NESTED: list[tuple[Any, Any]] = [
    (list[int] | None, None),
    (dict[str, int], None),
    (Place | None, None),
    (tuple[int, int], (1, 2)),
    (Decimal, Decimal(1)),
    (UUID | None, None),
    (Annotated[str, Field(pattern="^[a-z]+$")], "x"),
    (bytes | int, 1),
    (Any, 1),
    (int | str, 1),
]
TAKES_EMPTY = (str, str | None, Any, int | str, bytes | int)


def chosen(kinds: list[tuple[Any, Any]]) -> st.SearchStrategy[list[tuple[tuple[Any, Any], bool]]]:
    return st.lists(st.tuples(st.sampled_from(kinds), st.booleans()), min_size=1, max_size=5)


@settings(max_examples=EXAMPLES, derandomize=True, deadline=None, database=None)
@given(chosen(FLAT + NESTED), st.booleans())
def test_a_blank_argument_is_left_out_where_no_empty_text_fits(
    fields: list[tuple[tuple[Any, Any], bool]], is_exploded: bool
) -> None:
    optional = [parameter(f"p{index}", *field) for index, (field, _) in enumerate(fields)]
    arguments = Arguments.of_parameters("f", [parameter("needed", int), *optional])
    blank = {f"p{index}": hint for index, ((hint, _), is_blank) in enumerate(fields) if is_blank}
    texts: dict[str, Any] = dict.fromkeys(blank, "")
    result = arguments.validate_strings({"needed": "5", **texts})
    stays = {name: b"" if hint == bytes | int else "" for name, hint in blank.items() if hint in TAKES_EMPTY}
    assert result == {"needed": 5, **stays}
    with pytest.raises(ArgumentsError, match=r"^needed: expected an integer"):
        arguments.validate_strings({"needed": "", **texts})
    if is_exploded:
        exploded = {name: [""] for name, hint in blank.items() if hint == list[int] | None}
        assert arguments.validate_strings({"needed": "5", **exploded}) == {"needed": 5}


@settings(max_examples=EXAMPLES, derandomize=True, deadline=None, database=None)
@given(chosen(FLAT))
def test_a_blank_answer_of_a_form_has_the_default(fields: list[tuple[tuple[Any, Any], bool]]) -> None:
    made = [(f"p{index}", hint, dataclasses.field(default=default))
            for index, ((hint, default), _) in enumerate(fields)]  # fmt: skip
    form = Form.of(dataclasses.make_dataclass("Trip", [("needed", int), *made]))
    blank = {f"p{index}": hint for index, ((hint, _), is_blank) in enumerate(fields) if is_blank}
    value = form.read({"needed": 5, **dict.fromkeys(blank, "")})
    for index, ((hint, default), is_blank) in enumerate(fields):
        assert getattr(value, f"p{index}") == ("" if is_blank and hint in TAKES_EMPTY else default)
    with pytest.raises(ArgumentsError, match=r"^needed: expected an integer"):
        form.read({"needed": "", **dict.fromkeys(blank, "")})


@pytest.mark.anyio
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_hosts_may_send_blank_fields_of_prompts_templates_and_forms(revision: str) -> None:
    server = Server("forms")

    @server.prompt
    def plan(city: str, days: int = 3, note: str = "none") -> str:
        return f"{city} {days} {note!r}"

    @server.resource("trip://{city}{?days,pace}")
    def trip(city: str, days: int = 3, pace: Literal["slow", "fast"] = "slow") -> str:
        return f"{city} {days} {pace}"

    @dataclasses.dataclass
    class Trip:
        city: str
        days: int = 3
        until: dt.date | None = None

    @server.tool
    async def ask(ctx: Context) -> str:
        return repr((await ctx.elicit("Where?", Trip)).value)

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": {"city": "", "days": "", "until": ""}}

    async with connect(server, revision=revision, answers=answer) as client:
        (message,) = await client.get_prompt("plan", {"city": "", "days": "", "note": ""})
        assert message["content"]["text"] == " 3 ''"
        (content,) = await client.read("trip://Oslo?days=&pace=")
        assert content["text"] == "Oslo 3 slow"
        assert (await client.call("ask")).text.endswith("Trip(city='', days=3, until=None)")
