"""Texts of a format, wherever a type stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from mcpkit import Context, Email, Server, Uri
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio


class Model(BaseModel):
    mail: Email
    page: Uri | None = None


@dataclass
class Data:
    mail: Annotated[Email, "Yours"]
    page: Uri | None = None


@pytest.fixture
def server() -> Server:
    server = Server("texts")

    @server.tool
    async def write(to: Email, copies: list[Email], see: Uri = "https://example.org") -> Email:
        return to

    @server.tool
    async def write_as(model: Model, data: Data) -> str:
        return f"{model.mail} {data.mail}"

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Your address?", Data)).value.mail

    return server


async def test_arguments_and_results_name_their_format(server: Server) -> None:
    async with connect(server) as client:
        write, write_as, _ = await client.list_tools()
    email = {"type": "string", "format": "email"}
    arguments = write["inputSchema"]["properties"]
    assert arguments["to"] == write["outputSchema"] == email
    assert arguments["copies"]["items"] == email
    assert arguments["see"] == {"type": "string", "format": "uri", "default": "https://example.org"}
    both = write_as["inputSchema"]["properties"]
    assert both["model"]["properties"]["mail"] == email
    assert both["data"]["properties"]["mail"] == {**email, "description": "Yours"}


async def test_a_text_without_the_format_is_refused(server: Server) -> None:
    async with connect(server) as client:
        refused = await client.call(
            "write", {"to": "Ada", "copies": ["bob@example.org", "Cyd"], "see": "there"}
        )
        right = await client.call("write", {"to": "ada@example.org", "copies": []})
    assert refused.text.splitlines() == [
        'to: expected an email address, got "Ada"',
        'copies[1]: expected an email address, got "Cyd"',
        'see: expected a URI such as https://example.org/page, got "there"',
    ]
    assert right.text == "ada@example.org"


async def test_a_form_asks_for_the_format(server: Server) -> None:
    asked: list[Any] = []

    def answers(method: str, params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params["requestedSchema"]["properties"])
        return {"action": "accept", "content": {"mail": "ada@example.org"}}

    async with connect(server, answers=answers) as client:
        assert (await client.call("ask")).text == "ada@example.org"
    assert asked[0]["mail"] == {"type": "string", "format": "email", "description": "Yours"}
    assert asked[0]["page"] == {"type": "string", "format": "uri"}
