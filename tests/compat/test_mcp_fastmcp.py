"""FastMCP of mcpkit.compat: tool managers, malformed requests, tool names and errors."""

import asyncio
import json
from typing import Any

import pytest

from mcpkit import Client, ProtocolError
from mcpkit.compat.mcp_fastmcp import Context, FastMCP
from mcpkit.compat.mcp_fastmcp.mcp_components import ToolManager
from mcpkit.compat.shared_models_and_settings import UrlElicitationRequiredError, get_access_token
from mcpkit.compat.types import ElicitRequestURLParams, ErrorData


def bakery(**options: Any) -> FastMCP:
    mcp = FastMCP("bakery", **options)

    @mcp.tool()
    def bake(kind: str, ctx: Context) -> str:
        """Bake."""
        return f"{kind} for {(token := get_access_token()) and token.client_id}"

    @mcp.resource("order://{day}-{number}-{kind}.json")
    def order(day: str, number: int, kind: str) -> dict[str, Any]:
        return {"day": day, "number": number, "kind": kind}

    @mcp.prompt()
    def ask(question: str) -> str:
        return question

    return mcp


def weather(city: str, days: int = 1) -> str:
    """Tell the weather."""
    return f"{days} days of rain in {city}"


def test_tool_manager_duplicate_name_logs_warning(caplog):
    manager = ToolManager()
    manager.add_tool(weather)
    manager.add_tool(weather, description="another")
    assert manager.add_tool(weather).description == "Tell the weather."
    assert [record.getMessage() for record in caplog.records] == ["Tool already exists: weather"] * 2


@pytest.mark.limit("matching of a URI by a template of a FastMCP")
async def test_resource_uri_too_long_to_match_is_unknown() -> None:
    async with Client(bakery()._mcp_server.served) as client:
        kind = "k" * (391 - len("order://d-1-.json"))
        (read,) = await client.read_resource(f"order://d-1-{kind}.json")
        assert json.loads(read["text"])["kind"] == kind
        for uri in (f"order://d-1-k{kind}.json", "order://" + "-" * 4000):
            with pytest.raises(ProtocolError, match="Unknown resource"):
                await asyncio.wait_for(client.read_resource(uri), 20)


PAGE = ElicitRequestURLParams(message="Log in.", url="https://example.org", elicitationId="1")


def test_url_elicitation_required_error_round_trips():
    error = UrlElicitationRequiredError([PAGE])
    assert error.error.code == -32042
    assert str(error) == "URL elicitation required"
    again = UrlElicitationRequiredError.from_error(error.error)
    assert again.elicitations == [PAGE]
    assert str(UrlElicitationRequiredError([PAGE, PAGE])) == "URL elicitations required"
    assert str(UrlElicitationRequiredError([PAGE], "Log in first.")) == "Log in first."
    with pytest.raises(ValueError, match="Expected error code -32042, got -32602"):
        UrlElicitationRequiredError.from_error(ErrorData(code=-32602, message=""))
