"""Clients as users write them: targets, calls, lists, changes, handlers and errors; only type checkers read it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from typing_extensions import assert_type

from mcpkit import Client, ClientGroup, ProtocolError, Server, SyncClient, Timeout
from mcpkit.client import (
    CallResult,
    Change,
    ClientTelemetry,
    FormRequest,
    OutgoingMessage,
    RemoteTool,
    Replay,
    SampleRequest,
    SamplingHandler,
    Subscription,
    SyncSubscription,
    SyncTool,
    TaskHandle,
    TransportListener,
    UrlRequest,
)
from mcpkit.elicitation import ElicitationResult, Root, SamplingResult
from mcpkit.exceptions import AuthorizationError, InvalidResultError, StatusError, TransportError
from mcpkit.types import (
    ContentBlock,
    Implementation,
    PromptDefinition,
    PromptMessage,
    ResourceContents,
    ResourceTemplateDefinition,
    ServerCapabilities,
    ToolDefinition,
)


@dataclass
class City:
    name: str


async def calls(client: Client) -> None:
    """A result has the type that was asked for."""
    assert_type(await client.call_tool("find"), CallResult)
    assert_type(await client.call_tool("find", {"name": "Oslo"}, timeout=3), CallResult)
    assert_type(await client.call_tool("find", result_type=City), City)
    assert_type(await client.call_tool("find", result_type=list[City]), list[City])
    assert_type(await client.call_tool("find", task=True), TaskHandle[CallResult])
    assert_type(await client.call_tool("find", result_type=City, task=True, timeout=3), TaskHandle[City])
    assert_type(client.task("id", result_type=City), TaskHandle[City])
    tools = await client.tools()
    assert_type(tools, dict[str, RemoteTool])
    assert_type(tools["find"].schema, dict[str, Any])
    assert_type(await tools["find"](city="Oslo"), Any)


async def fill_in(form: FormRequest) -> dict[str, str] | ElicitationResult[Any]:
    assert_type(form.fields[0].kind, Literal["string", "integer", "number", "boolean", "choice", "choices"])
    return {"name": "Oslo"} if form.fields else form.decline()


def fill_in_at_once(form: FormRequest) -> City | None:
    return City("Oslo") if form.fields else None


async def visit(page: UrlRequest) -> bool:
    assert_type(page.url, str)
    return bool(page.host)


def sample(request: SampleRequest) -> str:
    return request.text


async def sample_with_tools(request: SampleRequest) -> SamplingResult | dict[str, Any] | None:
    return {"content": request.text} if request.tools else None


async def find_roots() -> list[str | Path | Root]:
    return ["/srv", Path("/home"), Root("file:///tmp")]


Client("server.py", elicitation_handler=fill_in, url_elicitation_handler=visit, sampling_handler=sample)
Client(
    "server.py",
    elicitation_handler=fill_in_at_once,
    url_elicitation_handler=lambda page: None,
    roots=find_roots,
)
Client("server.py", sampling_handler=sample_with_tools, roots=["/srv", Path("/home")])
Client(
    "server.py", elicitation_handler=FormRequest.decline, sampling_handler=SamplingHandler(sample, tools=True)
)
Client("server.py", roots=list)


def show_progress(done: float, total: float | None, message: str | None) -> None: ...
def show(way: Literal["sent", "received"], text: str) -> None: ...
def log(level: str, data: object, logger: str | None) -> None: ...


async def use() -> None:
    """Use everything."""
    async with Client("server.py", trace=show, record="talk.jsonl", log_handler=log) as client:
        assert_type(client, Client)
        assert_type(client.protocol_version, str)
        assert_type(client.server_info, Implementation)
        assert_type(client.server_capabilities, ServerCapabilities)
        assert_type(client.instructions, str | None)
        assert_type(await client.list_tools(use_cache=False), list[ToolDefinition])
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


async def changes(client: Client) -> AsyncIterator[Change]:
    """Hear of changes."""
    async with client.listen(tools_list_changed=True, resource_subscriptions=["weather://oslo"]) as watch:
        assert_type(watch, Subscription)
        async for change in watch:
            assert_type(change.kind, Literal["tools", "prompts", "resources", "resource"])
            assert_type(change.uri, str | None)
            yield change


def uses_sync_client() -> None:
    """Everything without an event loop."""
    with SyncClient({"mcpServers": {"a": {"command": "a"}, "b": {"url": "https://b"}}}, timeout=3) as client:
        assert_type(client, SyncClient)
        assert_type(client.servers, Mapping[str, SyncClient])
        assert_type(client.failures, Mapping[str, Exception])
        assert_type(client.list_tools(), list[ToolDefinition])
        assert_type(client.tools(), dict[str, SyncTool])
        assert_type(client.call_tool("find", result_type=City), City)
        assert_type(client.call_tool("find", result_type=City, task=True).result(), City)
        with client.listen() as watch:
            assert_type(watch, SyncSubscription)
            for change in watch:
                assert_type(change, Change)
        result = client.call_tool("bake", progress=show_progress)
        assert_type(result.text, str)
        assert_type(result.content, list[ContentBlock])
        assert_type(result.is_error, bool)
        assert_type(result.structured_content, Any)


def fails(error: Exception) -> None:
    """Errors have the attributes that tell them apart."""
    if isinstance(error, AuthorizationError):
        assert_type(error.challenge, str)
    elif isinstance(error, StatusError):
        assert_type(error.status, int)
    elif isinstance(error, TransportError):
        assert_type(error.may_have_begun, bool)
        assert_type(error.retry_after, float | None)
    elif isinstance(error, InvalidResultError):
        assert_type(error.result, CallResult)
    elif isinstance(error, ProtocolError):
        assert_type(error.code, int)


Client("server.py", trace=True, timeout=None)
Client("server.py", timeout="soon")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Client("server.py", trace=log)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
SyncClient("server.py", timout=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


server = Server("weather")


async def token() -> str:
    return "secret"


class Mine:
    async def open(self, receiver: TransportListener) -> None: ...
    async def send(self, message: OutgoingMessage) -> None: ...
    async def close(self) -> None: ...


assert_type(Client("server.py", env={"CITY": "Oslo"}, cwd=Path.cwd(), stderr=subprocess.DEVNULL), Client)
Client(Replay("talk.jsonl"), telemetry=ClientTelemetry())
Client(Path("server.py"), stderr=print)
Client([sys.executable, Path("server.py"), "-v"])
Client(("uvx", "mcp-server-time"))
Client("https://example.com/mcp", token=token, headers={"A": "b"}, verify=False, cert="client.pem")
Client(server)
Client(server.asgi(), path="/weather/mcp", token="secret")
Client(Mine())
Client({"mcpServers": {"weather": server, "time": ["uvx", "mcp-server-time"]}}, timeout=3.0)

Client(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Client("server.py", enw={})  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
Client("server.py", env=["CITY=Oslo"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def several(path: Path) -> None:
    async with ClientGroup(path) as client:
        assert_type(await client.call_tool("weather_find"), CallResult)
        assert_type(await client.call_tool("weather_find", result_type=City), City)
        assert_type(await client.call_tool("weather_find", result_type=City, task=True), TaskHandle[City])
        assert_type(client.servers, Mapping[str, Client])
        assert_type(client.failures, Mapping[str, Exception])
        assert_type(await client.servers["weather"].list_tools(), list[ToolDefinition])
