"""Tools in the style of agent SDKs, as a server of mcpkit in every way."""

import asyncio
from typing import Annotated, Any

import pytest

from mcpkit import current_context
from mcpkit.compat.agent_sdk import ToolAnnotations, ToolInvocationContext, create_sdk_mcp_server, tool
from mcpkit.testing import connect


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}], **more}


@tool("greet", "Say hello.", {"name": Annotated[str, "Who"]}, ToolAnnotations(readOnlyHint=True))
async def greet(args: dict[str, Any]) -> dict[str, Any]:
    return text(f"Hello, {args['name']}!")


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_sdk_server_serves_tools_and_components_of_mcpkit(revision: str) -> None:
    config = create_sdk_mcp_server("greeter", "1.2.3", tools=[greet])
    assert (config["type"], config["name"]) == ("sdk", "greeter")
    server = config["instance"].server
    server.tool(lambda: "native", name="add")
    server.resource("data://x", name="x")(lambda: "data")
    async with connect(server, protocol_version=revision) as client:
        listed, _ = await client.list_tools()
        assert listed["inputSchema"]["properties"] == {"name": {"type": "string", "description": "Who"}}
        assert (await client.call_tool("greet", {"name": "Ann"})).text == "Hello, Ann!"
        result = await client.call_tool("greet", {"name": 1})
        assert (result.is_error, result.text) == (True, "Input validation error: 1 is not of type 'string'")
        assert (await client.call_tool("lost")).text == "Tool 'lost' not found"
        assert (await client.call_tool("add")).text == "native"
        assert (await client.read_resource("data://x"))[0]["text"] == "data"


@pytest.mark.parametrize(("returned", "text"), [
    (None, "Tool 'give' returned None. Tool handlers must return a dict with a \"content\" list."),
    ("words", "words"),
    ([1, 2], "[1, 2]"),
    (
        {"result": 5, "a": 1},
        "Tool 'give' returned a dict without \"content\". Got keys: ['a', 'result'].",
    ),
    ({"content": [{"type": "text"}]}, "'text'"),
    (text("it is broken", is_error=True), "it is broken"),
])  # fmt: skip
async def test_sdk_tool_malformed_result_is_error_text(returned: object, text: str) -> None:
    @tool("give", "Give.", {})
    async def give(args: dict[str, Any]) -> Any:
        return returned

    async with connect(create_sdk_mcp_server("s", tools=[give])["instance"].server) as client:
        result = await client.call_tool("give")
        assert (result.is_error, result.text) == (True, text)


async def test_sdk_tool_cancelled_call_sets_signal() -> None:
    begun, seen = asyncio.Event(), asyncio.get_running_loop().create_future()

    @tool("watch", "Watch.", {})
    async def watch(args: dict[str, Any], extra: ToolInvocationContext) -> dict[str, Any]:
        assert not extra.signal.is_set()
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.set_result(extra.signal.is_set())
            raise
        return text("never")

    async with connect(create_sdk_mcp_server("s", tools=[watch])["instance"].server) as client:
        calling = asyncio.create_task(client.call_tool("watch"))
        await begun.wait()
        calling.cancel()
        assert await asyncio.wait_for(seen, 10) is True


async def test_sdk_tool_with_context_parameter_returns_and_raises() -> None:
    @tool("two", "Two.", {"fail": bool})
    async def two(args: dict[str, Any], extra: ToolInvocationContext) -> dict[str, Any]:
        if args["fail"]:
            raise ValueError("as it should")
        return text(f"{current_context().request_id is not None}")

    async with connect(create_sdk_mcp_server("s", tools=[two])["instance"].server) as client:
        for fails, expected in ((False, "True"), (True, "as it should")):
            result = await client.call_tool("two", {"fail": fails})
            assert (result.is_error, result.text) == (fails, expected)


def test_tool_annotations_accept_both_spellings() -> None:
    hints = ToolAnnotations(read_only_hint=True, destructiveHint=False, max_result_size_chars=5, shade="red")
    assert hints == {"readOnlyHint": True, "destructiveHint": False, "maxResultSizeChars": 5, "shade": "red"}
    assert hints.readOnlyHint is hints.read_only_hint is True
    assert hints.destructive_hint is False
    assert hints.title is hints.open_world_hint is None
    assert hints.shade == "red"
    assert ToolAnnotations(readOnlyHint=False, read_only_hint=True) == {"readOnlyHint": False}
    with pytest.raises(AttributeError, match="annotations have no 'color'"):
        hints.color
