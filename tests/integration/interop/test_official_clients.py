"""The official Python and TypeScript clients, and the inspector, use everything of one server."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from mcp import Client

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
)

SERVER = "server.py"
GREETING = "interop://greeting"

handshake = pytest.mark.filterwarnings("ignore:.*deprecated", "ignore:resources/.*subscribe is removed")


SDK_1, CLIENT_2 = "node/sdk_1.mjs", "node/client_2.mjs"
NOT_FOUND = -32602
"""The TypeScript client 2.x has one code for an unknown resource in all versions."""


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


@pytest.mark.parametrize("client", [SDK_1, CLIENT_2])
def test_cut_connection_client_resumes_stream(http_server: Served, run_driver: Run, client: str) -> None:
    """The stream of a call is cut in the middle, and the stream of the session after a notification."""
    with cutting(http_server.origin, b'"at 2"', b"tools/list_changed") as proxy:
        target = ["http", f"{proxy.origin}/mcp"]
        seen = run_driver(client, *(["legacy"] if client == CLIENT_2 else []), *target)
    assert proxy.markers == []
    assert proxy.resumptions >= 2
    check(seen, HANDSHAKE, not_found=NOT_FOUND if client == CLIENT_2 else None, has_session=True)


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
