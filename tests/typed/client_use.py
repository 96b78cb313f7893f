"""What type checkers know of the rest of a client: lists, changes, what is seen, and what goes wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal

from typing_extensions import assert_type

from mcpkit import Client, ProtocolError, SyncClient, Timeout, ToolError
from mcpkit.client import (
    CallResult,
    Change,
    ClientTelemetry,
    RemoteTool,
    Replay,
    Subscription,
    SyncSubscription,
)
from mcpkit.exceptions import (
    AuthorizationError,
    InvalidResultError,
    OutcomeUnknownError,
    StatusError,
    TransportError,
)
from mcpkit.types import (
    ContentBlock,
    Implementation,
    PromptDefinition,
    PromptMessage,
    ResourceContents,
    ResourceDefinition,
    ResourceTemplateDefinition,
    ServerCapabilities,
    ToolDefinition,
)


def show_progress(done: float, total: float | None, message: str | None) -> None:
    """Show how far it is."""
    print(done, total, message)


def show(way: Literal["sent", "received"], text: str) -> None:
    """Show a message."""
    print(way, text)


def log(level: str, data: object, logger: str | None) -> None:
    """Write a message of the server's down."""
    print(level, data, logger)


async def use() -> None:
    """Use everything."""
    async with Client("server.py", trace=show, record="talk.jsonl", log_handler=log) as client:
        assert_type(client, Client)
        assert_type(client.protocol_version, str)
        assert_type(client.server_info, Implementation)
        assert_type(client.server_capabilities, ServerCapabilities)
        assert_type(client.instructions, str | None)
        assert_type(await client.list_tools(use_cache=False), list[ToolDefinition])
        assert_type(await client.list_resources(), list[ResourceDefinition])
        assert_type(await client.list_resource_templates(), list[ResourceTemplateDefinition])
        assert_type(await client.list_prompts(), list[PromptDefinition])
        assert_type(await client.read_resource("weather://oslo"), list[ResourceContents])
        assert_type(await client.get_prompt("greet", {"name": "Ada"}), list[PromptMessage])
        assert_type(await client.complete("greet", "name", "A"), list[str])
        assert_type(await client.request("ping", timeout=3), dict[str, Any])
        assert_type(await client.notify("notifications/roots/list_changed"), None)
        await client.set_log_level("debug")
        await client.call_tool("bake", progress=show_progress, retry=True, timeout=Timeout(total=60.0))
        client.roots = ["/srv"]


async def tools(client: Client) -> None:
    """Call tools as functions."""
    for name, tool in (await client.tools()).items():
        assert_type(name, str)
        assert_type(tool, RemoteTool)
        assert_type(tool.schema, dict[str, Any])
        assert_type(await tool(city="Oslo"), Any)


async def changes(client: Client) -> AsyncIterator[Change]:
    """Hear of changes."""
    async with client.listen(tools_list_changed=True, resource_subscriptions=["weather://oslo"]) as watch:
        assert_type(watch, Subscription)
        async for change in watch:
            assert_type(change.kind, Literal["tools", "prompts", "resources", "resource"])
            assert_type(change.uri, str | None)
            yield change


def changes_that_are_waited_for(client: SyncClient) -> None:
    """Hear of changes, without an event loop."""
    with client.listen() as watch:
        assert_type(watch, SyncSubscription)
        for change in watch:
            assert_type(change, Change)


def waits() -> None:
    """Everything without an event loop."""
    with SyncClient({"mcpServers": {"a": {"command": "a"}, "b": {"url": "https://b"}}}, timeout=3) as client:
        assert_type(client, SyncClient)
        assert_type(client.servers, Mapping[str, SyncClient])
        assert_type(client.failures, Mapping[str, Exception])
        assert_type(client.list_tools(), list[ToolDefinition])
        assert_type(client.read_resource("weather://oslo"), list[ResourceContents])
        assert_type(client.request("ping"), dict[str, Any])
        assert_type(client.complete("greet", "name", "A"), list[str])
        result = client.call_tool("bake", progress=show_progress)
        assert_type(result.text, str)
        assert_type(result.content, list[ContentBlock])
        assert_type(result.is_error, bool)
        assert_type(result.structured_content, Any)


async def plays() -> None:
    """Play a conversation again, and measure it."""
    async with Client(Replay("talk.jsonl"), telemetry=ClientTelemetry()) as client:
        await client.call_tool("bake")


async def fails(client: Client) -> CallResult | None:
    """Tell errors apart."""
    try:
        return await client.call_tool("bake")
    except AuthorizationError as error:
        assert_type(error.challenge, str)
    except StatusError as error:
        assert_type(error.status, int)
    except OutcomeUnknownError:
        return await client.call_tool("bake", retry=True)
    except TransportError as error:
        assert_type(error.may_have_begun, bool)
        assert_type(error.retry_after, float | None)
    except InvalidResultError as error:
        return error.result
    except ProtocolError as error:
        assert_type(error.code, int)
    except (ToolError, TimeoutError):
        pass
    return None


Client("server.py", trace=True, timeout=None)
Client("server.py", timeout="soon")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Client("server.py", trace=log)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
SyncClient("server.py", timout=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
