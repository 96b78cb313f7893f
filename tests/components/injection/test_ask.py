"""Parameters that the user fills in before the function runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import Field

from mcpkit import Answer, Ask, Depends, ProtocolError, RegistrationError, Server
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio
REVISIONS = ["2025-06-18", "2025-11-25", "2026-07-28"]


@dataclass
class City:
    name: str


@dataclass
class Trip:
    place: Place  # type: ignore[name-defined]  # noqa: F821 - not defined when a tool asks for it


def answering(*answers: dict[str, Any]) -> Any:
    left = list(answers)

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return left.pop(0)

    return answer


PARIS = {"action": "accept", "content": {"name": "Paris"}}
THREE = {"action": "accept", "content": {"value": 3}}
NO = {"action": "decline"}


@pytest.fixture
def server() -> Server:
    server = Server("asking")

    @server.tool
    async def plan(
        greeting: str, city: Annotated[City, Ask("Which city?")], days: Annotated[int, Ask("How long?")]
    ) -> str:
        return f"{greeting}: {days} days in {city.name}"

    @server.tool
    def in_a_thread(city: Annotated[City, Ask("Which city?")]) -> str:
        return city.name

    @server.tool
    async def perhaps(city: Annotated[City | None, Ask("Which city?")]) -> str:
        return city.name if city is not None else "nowhere"

    @server.tool
    async def whole(city: Annotated[Answer[City], Ask("Which city?")]) -> str:
        return f"{city.action} {city.value.name if city else '-'}"

    return server


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("tool", "answers", "text"),
    [
        ("plan", [PARIS, THREE], "Hello: 3 days in Paris"),
        ("plan", [PARIS, NO], "The user declined"),
        ("in_a_thread", [PARIS], "Paris"),
        ("perhaps", [PARIS], "Paris"),
        ("perhaps", [NO], "nowhere"),
        ("whole", [PARIS], "accept Paris"),
        ("whole", [NO], "decline -"),
    ],
)
async def test_the_user_fills_it_in(
    revision: str, tool: str, answers: list[dict[str, Any]], text: str, server: Server
) -> None:
    arguments = {"greeting": "Hello"} if tool == "plan" else {}
    async with connect(server, revision=revision, answers=answering(*answers)) as client:
        assert (await client.call(tool, arguments)).text == text


@pytest.mark.parametrize("revision", ["2024-11-05", *REVISIONS])
async def test_a_client_that_cannot_ask_leaves_none_where_none_is_welcome(
    revision: str, server: Server
) -> None:
    lacks = "The client lacks the capability that this needs: elicitation.form"
    async with connect(server, revision=revision) as client:
        assert (await client.call("perhaps")).text == "nowhere"
        for tool in ("in_a_thread", "whole"):
            if revision == REVISIONS[-1]:
                with pytest.raises(ProtocolError, match=lacks):
                    await client.call(tool)
            else:
                assert (await client.call(tool)).text == lacks


@pytest.mark.parametrize("type_", [int, int | None, Answer[int]])
async def test_what_else_its_type_says_is_asked_for_too(type_: Any) -> None:
    server = Server("asking")
    asked: list[Any] = []

    async def plan(days: Any) -> str:
        return f"{days}"

    plan.__annotations__["days"] = Annotated[type_, Field(ge=1, title="Days"), Ask("How long?")]
    server.tool(plan)

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params["requestedSchema"]["properties"]["value"])
        return THREE

    async with connect(server, answers=answer) as client:
        assert "3" in (await client.call("plan")).text
    assert asked == [{"type": "integer", "minimum": 1, "title": "Days"}]


async def test_it_stays_out_of_the_schema(server: Server) -> None:
    async with connect(server) as client:
        tools = {each["name"]: each["inputSchema"] for each in await client.list_tools()}
    assert list(tools["plan"]["properties"]) == ["greeting"]
    assert tools["whole"].get("properties", {}) == {}


async def test_what_cannot_be_asked_for_is_refused_at_once() -> None:
    server = Server("asking")

    async def plan(cities: Annotated[list[City], Ask("Which cities?")]) -> str:
        return str(cities)

    with pytest.raises(RegistrationError, match="plan"):
        server.tool(plan)


async def test_a_type_that_names_what_is_defined_later_is_read_when_the_server_starts() -> None:
    server = Server("asking")

    @server.tool
    async def plan(trip: Annotated[Trip, Ask("Where to?")]) -> str:
        return str(trip.place)

    globals()["Place"] = str
    answer = {"action": "accept", "content": {"place": "Rome"}}
    try:
        async with connect(server, answers=answering(answer)) as client:
            assert (await client.call("plan")).text == "Rome"
    finally:
        del globals()["Place"]


async def test_it_has_no_default() -> None:
    server = Server("asking")

    async def plan(days: Annotated[int, Ask("How long?")] = 3) -> str:
        return str(days)

    with pytest.raises(RegistrationError, match="no default"):
        server.tool(plan)


@pytest.mark.parametrize(
    ("mark", "problem"),
    [
        (Ask(3), "'plan': days: message must be a string, got 3"),  # type: ignore[arg-type]  # a mistake of authors'
        (Ask("How long?", key=""), "'plan': days: key must be a string of 1 to 100 characters, got ''"),
        (Ask, "plan: days: write Ask\\(...\\) in Annotated, not Ask"),
    ],
)
async def test_what_is_wrong_with_it_is_said_when_the_tool_is_registered(mark: Any, problem: str) -> None:
    async def plan(days: Any) -> str:
        return str(days)

    plan.__annotations__["days"] = Annotated[int, mark]
    with pytest.raises(RegistrationError, match=problem):
        Server("asking").tool(plan)


async def test_a_parameter_has_one_mark() -> None:
    async def plan(days: Annotated[int, Ask("How long?"), Depends(int)]) -> str:
        return str(days)

    with pytest.raises(RegistrationError, match="plan: days: one parameter is filled by one of Depends, Ask"):
        Server("asking").tool(plan)
