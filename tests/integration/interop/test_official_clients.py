"""The official Python and TypeScript clients, and the inspector, use everything of one server."""

from __future__ import annotations

import json
import runpy
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.types import (
    EmptyResult,
    PromptReference,
    Request,
    ResourceTemplateReference,
    ResourceUpdatedNotification,
    ToolListChangedNotification,
)

from tests.helpers.serving import ROOT, Served, serving
from tests.integration.interop.conftest import TIMEOUT, Reach, Run, json_of
from tests.integration.interop.cutting_proxy import cutting
from tests.integration.interop.journey import (
    HANDSHAKE,
    STATELESS,
    TOOLS,
    TRANSPORTS,
    check,
    check_identity,
    text_of,
)

SERVER = "server.py"
GREETING = "interop://greeting"

handshake = pytest.mark.filterwarnings("ignore:.*deprecated", "ignore:resources/.*subscribe is removed")


def plain(value: Any) -> dict[str, Any]:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


class Deletions:
    """Records the DELETE request of a client."""

    def __init__(self) -> None:
        self.requests: list[httpx2.Request] = []

    async def record(self, request: httpx2.Request) -> None:
        if request.method == "DELETE":
            self.requests.append(request)

    async def status_after(self) -> int | None:
        """The status of a request in the deleted session, if there was one."""
        if not self.requests:
            return None
        (deletion,) = self.requests
        async with create_mcp_http_client() as client:
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            return (await client.post(deletion.url, headers=deletion.headers, json=ping)).status_code


@asynccontextmanager
async def connected(
    transport: str, target: list[str], deletions: Deletions, **options: Any
) -> AsyncIterator[Client]:
    if transport == "stdio":
        async with Client(StdioServerParameters(command=target[0], args=target[1:]), **options) as client:
            yield client
    elif transport == "sse":
        async with Client(sse_client(*target), **options) as client:
            yield client
    else:
        async with create_mcp_http_client() as http:
            http.event_hooks["request"].append(deletions.record)
            async with Client(streamable_http_client(*target, http_client=http), **options) as client:
                yield client


async def count_until_enough(client: Client) -> tuple[list[dict[str, Any]], Any]:
    progress: list[dict[str, Any]] = []
    all_reported = anyio.Event()

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append({"progress": done, "total": total, "message": message})
        if done == total:
            all_reported.set()

    async def finish() -> None:
        await all_reported.wait()
        await client.call_tool("enough")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(finish)
        result = await client.call_tool("count", {"to": 3}, progress_callback=on_progress)
    return progress, result


async def cancel(client: Client) -> str:
    with anyio.CancelScope() as scope:

        async def on_progress(done: float, total: float | None, message: str | None) -> None:
            scope.cancel()

        await client.call_tool("hang", progress_callback=on_progress)
    return "cancelled" if scope.cancelled_caught else "answered"


class Changes:
    """Records change notifications."""

    def __init__(self) -> None:
        self.changes: set[str] = set()
        self.is_complete = anyio.Event()

    async def on_message(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.add("tools")
        elif isinstance(message, ResourceUpdatedNotification):
            self.add(str(message.params.uri))

    def add(self, change: str) -> None:
        self.changes.add(change)
        if len(self.changes) == 2:
            self.is_complete.set()

    async def after(self, client: Client) -> list[str]:
        if client.protocol_version == STATELESS:
            async with client.listen(tools_list_changed=True, resource_subscriptions=[GREETING]) as stream:
                await client.call_tool("stir")
                while not self.is_complete.is_set():
                    event = await anext(stream)
                    self.add(getattr(event, "uri", "tools"))
        else:
            await client.subscribe_resource(GREETING)
            await client.call_tool("stir")
            await self.is_complete.wait()
            await client.unsubscribe_resource(GREETING)
        return sorted(self.changes)


async def outcome(coroutine: Any) -> dict[str, Any]:
    """Return the result, or the code and data of the error."""
    try:
        return plain(await coroutine)
    except MCPError as refused:
        return {"code": refused.code, "data": refused.error.data}


async def journey(mode: str, transport: str, *target: str) -> dict[str, Any]:
    seen: dict[str, Any] = {"logs": []}
    changes = Changes()
    deletions = Deletions()

    async def on_log(params: Any) -> None:
        seen["logs"].append(plain(params))

    options = {
        "mode": mode,
        "logging_callback": on_log,
        "log_level": "info",
        "message_handler": changes.on_message,
        "cache": None,
    }
    with anyio.fail_after(TIMEOUT):
        async with connected(transport, [*target], deletions, **options) as client:
            seen["revision"] = client.protocol_version
            seen["server"] = client.server_info and plain(client.server_info)
            seen["instructions"] = client.instructions
            if client.protocol_version != STATELESS:
                await client.set_logging_level("info")
            await use_all(client, seen)
            seen["changes"] = await changes.after(client)
        seen["afterDelete"] = await deletions.status_after()
    return seen


async def use_all(client: Client, seen: dict[str, Any]) -> None:
    seen["tools"] = plain(await client.list_tools())["tools"]
    seen["add"] = plain(await client.call_tool("add", {"a": 2, "b": 3}))
    seen["quotient"] = plain(await client.call_tool("divide", {"a": 1, "b": 4}))
    seen["divide"] = plain(await client.call_tool("divide", {"a": 1, "b": 0}))
    seen["wrong"] = plain(await client.call_tool("add", {"a": "two", "b": 3}))
    seen["picture"] = plain(await client.call_tool("picture"))
    seen["locate"] = plain(await client.call_tool("locate", {"region": "São Paulo"}))
    seen["progress"], count = await count_until_enough(client)
    seen["count"] = plain(count)
    seen["part"] = plain(await client.call_tool("part"))
    seen["hang"] = await cancel(client)
    seen["release"] = plain(await client.call_tool("release"))

    seen["resources"] = plain(await client.list_resources())["resources"]
    seen["templates"] = plain(await client.list_resource_templates())["resourceTemplates"]
    seen["read"] = plain(await client.read_resource(GREETING))
    seen["readTemplate"] = plain(await client.read_resource("interop://greetings/dutch"))
    seen["prompts"] = plain(await client.list_prompts())["prompts"]
    seen["prompt"] = plain(await client.get_prompt("welcome", {"name": "Ada", "style": "friendly"}))
    prompt = PromptReference(type="ref/prompt", name="welcome")
    seen["completePrompt"] = plain(await client.complete(prompt, {"name": "style", "value": "f"}))
    template = ResourceTemplateReference(type="ref/resource", uri="interop://greetings/{language}")
    seen["completeTemplate"] = plain(await client.complete(template, {"name": "language", "value": "d"}))
    seen["missing"] = await outcome(client.read_resource("interop://nowhere"))
    seen["unknown"] = await outcome(client.call_tool("nobody"))
    seen["imagine"] = await outcome(client.call_tool("imagine"))
    nothing = Request[Any, Any](method="interop/nothing", params=None)
    seen["nothing"] = await outcome(client.session.send_request(nothing, EmptyResult))


SDK_1, CLIENT_2 = "node/sdk_1.mjs", "node/client_2.mjs"
NOT_FOUND = -32602
"""The TypeScript client 2.x has one code for an unknown resource in all versions."""


@handshake
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("mode", "version"), [("legacy", HANDSHAKE), ("auto", STATELESS), (STATELESS, STATELESS)]
)
def test_python_client_sees_expected_results(reach: Reach, transport: str, mode: str, version: str) -> None:
    seen = anyio.run(journey, mode, *reach(transport))
    if mode != STATELESS:  # pinned, this client does not request the identity
        check_identity(seen)
    check(seen, version, has_session=transport == "http" and version == HANDSHAKE)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_typescript_client_1_sees_expected_results(run_driver: Run, reach: Reach, transport: str) -> None:
    seen = run_driver(SDK_1, *reach(transport))
    check_identity(seen)
    check(seen, HANDSHAKE, has_session=transport == "http")


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("mode", "version"), [("legacy", HANDSHAKE), ("auto", STATELESS), (STATELESS, STATELESS)]
)
def test_typescript_client_2_sees_expected_results(
    run_driver: Run, reach: Reach, transport: str, mode: str, version: str
) -> None:
    seen = run_driver(CLIENT_2, mode, *reach(transport))
    check_identity(seen)
    has_session = transport == "http" and version == HANDSHAKE
    check(seen, version, not_found=NOT_FOUND, has_session=has_session)


@handshake
@pytest.mark.parametrize("client", ["python", SDK_1, CLIENT_2])
def test_cut_connection_client_resumes_stream(http_server: Served, run_driver: Run, client: str) -> None:
    """The stream of a call is cut in the middle, and the stream of the session after a notification."""
    with cutting(http_server.origin, b'"at 2"', b"tools/list_changed") as proxy:
        target = ["http", f"{proxy.origin}/mcp"]
        if client == "python":
            seen = anyio.run(journey, "legacy", *target)
        else:
            seen = run_driver(client, *(["legacy"] if client == CLIENT_2 else []), *target)
    assert proxy.markers == []
    assert proxy.resumptions >= 2
    check(seen, HANDSHAKE, not_found=NOT_FOUND if client == CLIENT_2 else None, has_session=True)


def test_session_with_shared_secret_continues_in_another_process(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPKIT_SECRET", "only for the tests of a session's move")

    async def move(url: str) -> None:
        # A pooled connection that has died would be noticed too late.
        limits = httpx2.Limits(max_keepalive_connections=0)
        async with (
            httpx2.AsyncClient(limits=limits) as http,
            Client(streamable_http_client(url, http_client=http), mode="legacy") as client,
        ):
            await client.call_tool("add", {"a": 1, "b": 2})
            first.stop(signal.SIGKILL)
            proxy.lead_to(second.origin)
            result = await client.call_tool("add", {"a": 2, "b": 3})
            assert result.structured_content == {"total": 5, "terms": [2, 3]}

    with (
        serving([*command, "http"]) as first,
        serving([*command, "http"]) as second,
        cutting(first.origin) as proxy,
    ):
        anyio.run(move, f"{proxy.origin}/mcp")


def test_server_stop_ends_listen_stream_without_error(command: list[str]) -> None:
    async def listen(url: str) -> None:
        with anyio.fail_after(TIMEOUT):
            async with Client(url, cache=None) as client, client.listen(tools_list_changed=True) as stream:
                await anyio.to_thread.run_sync(served.stop)
                assert [event async for event in stream] == []

    with serving([*command, "http"]) as served:
        anyio.run(listen, f"{served.origin}/mcp")


@pytest.mark.anyio
@handshake
@pytest.mark.parametrize("mode", ["legacy", STATELESS])
async def test_python_client_over_stdio_receives_ordinary_values_unchanged(mode: str) -> None:
    """The 375 values that `bench/values.py` counts."""
    values = runpy.run_path(str(ROOT / "bench" / "values.py"))
    found = await values["count"](sys.executable, "mcpkit", mode)
    assert len(found) == 375
    assert {name: why for name, why in found.items() if why} == {}


INSPECTOR_0 = [ROOT / "node_modules" / "inspector-0" / "cli" / "build" / "cli.js", "--cli"]
INSPECTOR_2 = [ROOT / "node_modules/inspector-2/clients/launcher/build/index.js", "--cli"]


COMMANDS: dict[str, tuple[list[str], Callable[[dict[str, Any]], Any], Any]] = {
    "tools/list": ([], lambda result: [tool["name"] for tool in result["tools"]], TOOLS),
    "tools/call": (
        ["--tool-name", "add", "--tool-arg", "a=2", "b=3"],
        lambda result: result["structuredContent"],
        {"total": 5, "terms": [2, 3]},
    ),
    "resources/list": ([], lambda result: [each["uri"] for each in result["resources"]], [GREETING]),
    "resources/templates/list": (
        [],
        lambda result: [each["uriTemplate"] for each in result["resourceTemplates"]],
        ["interop://greetings/{language}"],
    ),
    "resources/read": (
        ["--uri", "interop://greetings/dutch"],
        lambda result: [content["text"] for content in result["contents"]],
        ["Hallo"],
    ),
    "prompts/list": ([], lambda result: [each["name"] for each in result["prompts"]], ["welcome"]),
    "prompts/get": (
        ["--prompt-name", "welcome", "--prompt-args", "name=Ada"],
        lambda result: result["messages"][0]["content"]["text"],
        "Write a formal welcome for Ada.",
    ),
}
INSPECTORS = [(era, method) for method in COMMANDS for era in ("", "legacy", "modern")] + [
    ("auto", "tools/call")
]


@pytest.mark.parametrize(("era", "method"), INSPECTORS)
def test_inspector_command_line_shows_result(run_node: Any, reach: Reach, era: str, method: str) -> None:
    """The inspector 0.x, which has no eras, and 2.x; the transports take turns."""
    transports = TRANSPORTS if era in {"", "legacy"} else TRANSPORTS[:2]
    _, *target = reach(transports[list(COMMANDS).index(method) % len(transports)])
    inspector = [*INSPECTOR_2, "--protocol-era", era] if era else INSPECTOR_0
    options, read, expected = COMMANDS[method]
    assert read(json_of(run_node(*inspector, *target, "--method", method, *options))) == expected


def test_inspector_failed_tool_exits_with_status_5(run_node: Any, command: list[str]) -> None:
    options = ["--method", "tools/call", "--tool-name", "divide", "--tool-arg", "a=1", "b=0"]
    finished = run_node(*INSPECTOR_2, *command, *options)
    assert finished.returncode == 5, finished.stderr
    assert text_of(json.loads(finished.stdout)) == "b must not be 0"


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_inspector_strict_has_no_schema_findings(run_node: Any, command: list[str], era: str) -> None:
    options = ["--protocol-era", era, "--format", "json", "--method", "tools/list", "--strict"]
    assert json_of(run_node(*INSPECTOR_2, *command, *options)).get("schemaFindings", []) == []
