"""Forms that are asked again because of what was entered: the user is told what was wrong with it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from mcpkit import Context, Elicit, Server
from mcpkit.testing import connect
from tests.helpers.asked import ELICITING, City, Person, outcome, tool

pytestmark = pytest.mark.anyio


class Guest(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def is_welcome(cls, name: str) -> str:
        if name == "Bob":
            raise ValueError("Bob is banned")
        if name == "Eve":
            raise ValueError("Eve " * 1000)
        return name


async def invite(ctx: Context) -> str:
    guest = (await ctx.elicit("Who comes?", Guest)).value
    seats = (await ctx.elicit(f"How many seats for {guest.name}?", int)).value
    return f"{seats} for {guest.name}"


def messages(person: Person) -> list[str]:
    return [params["message"] for _, params in person.asked]


@pytest.mark.parametrize("revision", ELICITING)
async def test_a_form_says_why_it_comes_again(revision: str) -> None:
    person = Person({"name": "Bob"}, {"nickname": "A"}, {"name": "Ada"}, {"value": "two"}, {"value": 2})
    assert await outcome(tool(invite), person, revision) == "2 for Ada"
    assert messages(person) == [
        "Who comes?",
        "Who comes?\n\nname: Bob is banned",
        "Who comes?\n\nname: expected a string, but it is missing",
        "How many seats for Ada?",
        'How many seats for Ada?\n\nvalue: expected an integer, got "two"',
    ]


@pytest.mark.parametrize("revision", ELICITING)
async def test_what_is_said_is_bounded(revision: str) -> None:
    person = Person({"name": "Eve"}, {"name": "Ada"}, {"value": 2})
    assert await outcome(tool(invite), person, revision) == "2 for Ada"
    assert len(messages(person)[1]) == len("Who comes?\n\n") + 501
    assert messages(person)[1].endswith("…")


@pytest.mark.parametrize("revision", ELICITING)
async def test_of_several_forms_the_one_that_comes_again_says_why(revision: str) -> None:
    async def both(ctx: Context) -> str:
        guest, city = await ctx.ask(Elicit("Who comes?", Guest), Elicit("Where from?", City))
        return f"{guest.value.name} from {city.value.name}"

    person = Person({"name": "Bob"}, {"name": "Rome", "days": 1}, {"name": "Ada"})
    assert await outcome(tool(both), person, revision) == "Ada from Rome"
    assert messages(person) == ["Who comes?", "Where from?", "Who comes?\n\nname: Bob is banned"]


async def test_it_is_the_same_question_to_the_next_round() -> None:
    """Also where a client does not answer at once what it is asked again."""
    server = Server("asking")
    server.tool(invite)
    call: dict[str, Any] = {"name": "invite", "arguments": {}}
    asked: list[str] = []
    async with connect(server, capabilities={"elicitation": {}}) as client:
        for name in (None, "Bob", None, "Ada"):
            result = await client.request("tools/call", call)
            ((key, request),) = result["inputRequests"].items()
            asked.append(request["params"]["message"])
            call["requestState"] = result["requestState"]
            call["inputResponses"] = (
                {} if name is None else {key: {"action": "accept", "content": {"name": name}}}
            )
        result = await client.request("tools/call", call)
    assert asked == ["Who comes?", "Who comes?", "Who comes?\n\nname: Bob is banned", "Who comes?"]
    assert list(result["inputRequests"]) == ["#2"]
