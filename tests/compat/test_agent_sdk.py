"""Tools in the style of agent SDKs, as a server of mcpkit in every way."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any

import pytest

from mcpkit import Client, RegistrationError, current_context
from mcpkit.compat.agent_sdk import (
    SdkMcpTool,
    ToolAnnotations,
    ToolInvocationContext,
    create_sdk_mcp_server,
    tool,
)
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

ERAS = ("2024-11-05", "2025-11-25", "2026-07-28")

PROGRAM = """
from typing import Annotated
from mcpkit.compat.agent_sdk import create_sdk_mcp_server, tool

@tool("greet", "Say hello.", {"name": Annotated[str, "Who"]})
async def greet(args):
    return {"content": [{"type": "text", "text": f"Hello, {args['name']}!"}]}

config = create_sdk_mcp_server("greeter", "1.2.3", tools=[greet])

if __name__ == "__main__":
    config["instance"].server.run()
"""


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}], **more}


@tool("greet", "Say hello.", {"name": Annotated[str, "Who"]}, ToolAnnotations(readOnlyHint=True))
async def greet(args: dict[str, Any]) -> dict[str, Any]:
    return text(f"Hello, {args['name']}!")


def returning(value: object) -> SdkMcpTool[Any]:
    async def handler(args: dict[str, Any]) -> Any:
        return value

    return tool("give", "Give.", {})(handler)


@pytest.mark.parametrize("revision", ERAS)
async def test_sdk_server_lists_and_calls_tools(revision: str) -> None:
    config = create_sdk_mcp_server("greeter", "1.2.3", tools=[greet])
    assert (config["type"], config["name"]) == ("sdk", "greeter")
    async with connect(config["instance"].server, revision=revision) as client:
        (listed,) = await client.list_tools()
        assert listed["inputSchema"]["properties"] == {"name": {"type": "string", "description": "Who"}}
        assert (await client.call("greet", {"name": "Ann"})).text == "Hello, Ann!"
        for name, arguments, said in [
            ("greet", {}, "Input validation error: 'name' is a required property"),
            ("greet", {"name": 1}, "Input validation error: 1 is not of type 'string'"),
            ("lost", {}, "Tool 'lost' not found"),
        ]:
            result = await client.call(name, arguments)
            assert (result.is_error, result.text) == (True, said)


async def test_sdk_server_runs_over_stdio(tmp_path: Any) -> None:
    program = tmp_path / "greeter.py"
    program.write_text(PROGRAM)
    async with Client([sys.executable, str(program)]) as client:
        assert (await client.call("greet", {"name": "Ann"})).text == "Hello, Ann!"


async def test_sdk_server_accepts_mcpkit_components() -> None:
    server = create_sdk_mcp_server("greeter", tools=[greet])["instance"].server

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    server.resource("data://x", name="x")(lambda: "data")
    async with connect(server) as client:
        assert (await client.call("add", {"a": 1, "b": 2})).structured == 3
        assert (await client.call("greet", {"name": "Ann"})).text == "Hello, Ann!"
        assert (await client.read("data://x"))[0]["text"] == "data"


async def test_sdk_server_without_tools_connects() -> None:
    async with connect(create_sdk_mcp_server("empty")["instance"].server) as client:
        assert client.server_info["version"] == "1.0.0"


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "Tool 'give' returned None. Tool handlers must return a dict with a \"content\" list."),
        ("words", "words"),
        ([1, 2], "[1, 2]"),
        (
            {"result": 5, "a": 1},
            "Tool 'give' returned a dict without \"content\". Got keys: ['a', 'result'].",
        ),
        ({"content": [{"type": "text"}]}, "'text'"),
        (text("it is broken", is_error=True), "it is broken"),
    ],
)
async def test_sdk_tool_malformed_result_is_error_text(returned: object, said: str) -> None:
    async with connect(create_sdk_mcp_server("s", tools=[returning(returned)])["instance"].server) as client:
        result = await client.call("give")
        assert (result.is_error, result.text) == (True, said)


@pytest.mark.parametrize("returned", [{}, {"is_error": False}, {"content": []}])
async def test_sdk_tool_empty_result_is_accepted(returned: object) -> None:
    async with connect(create_sdk_mcp_server("s", tools=[returning(returned)])["instance"].server) as client:
        assert (await client.call("give")).content == []


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
        calling = asyncio.create_task(client.call("watch"))
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
        assert (await client.call("two", {"fail": False})).text == "True"
        result = await client.call("two", {"fail": True})
        assert (result.is_error, result.text) == (True, "as it should")


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


@pytest.mark.parametrize(
    "annotations",
    [
        ToolAnnotations(title="T", maxResultSizeChars=5),
        {"title": "T", "max_result_size_chars": 5, "shade": "red"},
    ],
)
async def test_tool_annotations_are_serialized(annotations: object) -> None:
    declared = tool("t", "T.", {}, annotations)(greet.handler)
    async with connect(create_sdk_mcp_server("s", tools=[declared])["instance"].server) as client:
        (listed,) = await client.list_tools()
    assert listed["annotations"] == {"title": "T"}
    assert listed["_meta"] == {"anthropic/maxResultSizeChars": 5}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: create_sdk_mcp_server("s", tools=[greet, greet]), "'greet'"),
        (lambda: create_sdk_mcp_server("s", tools=[tool("a b", "T.", {})(greet.handler)]), "a tool name is"),
    ],
)
def test_sdk_server_rejects_duplicate_and_invalid_tools(make: Callable[[], object], said: str) -> None:
    with pytest.raises(RegistrationError, match=said):
        make()


def test_sdk_server_runs_without_other_packages() -> None:
    script = f"""
import asyncio, json, sys

for name in ("mcp", "jsonschema", "anyio"):
    sys.modules[name] = None
{PROGRAM}
from mcpkit.testing import connect

async def main():
    async with connect(config["instance"].server) as client:
        said = [(await client.call("greet", {{"name": "Ann"}})).text]
        for arguments in ({{}}, {{"name": 1}}):
            result = await client.request("tools/call", {{"name": "greet", "arguments": arguments}})
            said.append(result["content"][0]["text"])
        print(json.dumps(said))

asyncio.run(main())
""".replace('if __name__ == "__main__":\n    config["instance"].server.run()\n', "")
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, encoding="utf-8", timeout=60
    )
    assert finished.returncode == 0, finished.stderr
    greeted, missing, wrong = json.loads(finished.stdout)
    assert greeted == "Hello, Ann!"
    assert missing.startswith("Input validation error: name: ")
    assert wrong.startswith("Input validation error: name: ")
