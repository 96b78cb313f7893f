"""The official Python client as a judge."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.types import PromptReference, ResourceTemplateReference

from interop.journey import COMMAND, HANDSHAKE, STATELESS, check, check_identity

TIME_OUT = 60


def plain(value: Any) -> dict[str, Any]:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def count_until_enough(client: Client) -> tuple[list[dict[str, Any]], Any]:
    progress: list[dict[str, Any]] = []
    all_reported = anyio.Event()

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append({"progress": done, "total": total, "message": message})
        if done == total:
            all_reported.set()

    async def say_enough() -> None:
        await all_reported.wait()
        await client.call_tool("enough")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(say_enough)
        result = await client.call_tool("count", {"to": 3}, progress_callback=on_progress)
    return progress, result


async def journey(mode: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    logs: list[dict[str, Any]] = []

    async def on_log(params: Any) -> None:
        logs.append(plain(params))

    parameters = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:])
    async with AsyncExitStack() as stack:
        stack.enter_context(anyio.fail_after(TIME_OUT))
        client = await stack.enter_async_context(
            Client(parameters, mode=mode, logging_callback=on_log, log_level="info", cache=None)
        )
        seen["revision"] = client.protocol_version
        seen["server"] = client.server_info and plain(client.server_info)
        seen["instructions"] = client.instructions
        if client.protocol_version != STATELESS:
            await client.set_logging_level("info")

        seen["tools"] = plain(await client.list_tools())["tools"]
        seen["add"] = plain(await client.call_tool("add", {"a": 2, "b": 3}))
        seen["quotient"] = plain(await client.call_tool("divide", {"a": 1, "b": 4}))
        seen["divide"] = plain(await client.call_tool("divide", {"a": 1, "b": 0}))
        seen["wrong"] = plain(await client.call_tool("add", {"a": "two", "b": 3}))
        seen["picture"] = plain(await client.call_tool("picture"))
        seen["progress"], count = await count_until_enough(client)
        seen["count"], seen["logs"] = plain(count), logs

        seen["resources"] = plain(await client.list_resources())["resources"]
        seen["templates"] = plain(await client.list_resource_templates())["resourceTemplates"]
        seen["read"] = plain(await client.read_resource("interop://greeting"))
        seen["readTemplate"] = plain(await client.read_resource("interop://greetings/dutch"))
        seen["prompts"] = plain(await client.list_prompts())["prompts"]
        seen["prompt"] = plain(await client.get_prompt("welcome", {"name": "Ada", "style": "friendly"}))
        prompt = PromptReference(type="ref/prompt", name="welcome")
        seen["completePrompt"] = plain(await client.complete(prompt, {"name": "style", "value": "f"}))
        template = ResourceTemplateReference(type="ref/resource", uri="interop://greetings/{language}")
        seen["completeTemplate"] = plain(await client.complete(template, {"name": "language", "value": "d"}))
        with pytest.raises(MCPError) as missing:
            await client.read_resource("interop://nowhere")
        seen["missing"] = {"code": missing.value.code, "data": missing.value.error.data}
    return seen


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
def test_handshake():
    seen = anyio.run(journey, "legacy")
    check_identity(seen)
    check(seen, HANDSHAKE)


def test_automatic():
    seen = anyio.run(journey, "auto")
    check_identity(seen)
    check(seen, STATELESS)


def test_pinned():
    """Pinned, this client asks for no identity: its first message is an ordinary request."""
    check(anyio.run(journey, STATELESS), STATELESS)
