"""The official Python and TypeScript clients, and the inspector, use everything of one server."""

import asyncio
import base64
import re
import runpy
import sys
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from mcp import Client

from tests.helpers.serving import ROOT, serving
from tests.integration.interop.conftest import HANDSHAKE, STATELESS, TIMEOUT, TRANSPORTS, Reach, Run, json_of

TOOLS = [
    *("add", "divide", "picture", "count", "enough", "part"),
    *("hang", "release", "stir", "locate", "imagine"),
]


def text_of(result: dict[str, Any]) -> str:
    [block] = result["content"]
    return str(block["text"])


def fields(value: dict[str, Any], *names: str) -> list[Any]:
    return [value.get(name) for name in names]


def check_results(
    results: dict[str, Any], version: str, *, not_found: int | None = None, has_session: bool = False
) -> None:
    """Assert all results of a client.

    Args:
        results: The results by request.
        version: What must have been negotiated.
        not_found: The code of the error for an unknown resource, where the client changes it.
        has_session: Whether the client has deleted a session.
    """
    is_stateless = version == STATELESS
    assert results["revision"] == version
    assert fields(results["server"], "name", "version", "title") == ["interop", "1.2.3", "Interoperability"]
    assert results["instructions"] == "Call add before anything else."
    assert [tool["name"] for tool in results["tools"]] == TOOLS
    check_tools({tool["name"]: tool for tool in results["tools"]}, is_stateless=is_stateless)
    check_calls(results, is_stateless=is_stateless)
    check_resources_and_prompts(results)
    code = not_found or (-32602 if is_stateless else -32002)
    assert results["missing"] == {"code": code, "data": {"uri": "interop://nowhere"}}
    assert (results["unknown"]["code"], results["nothing"]["code"]) == (-32602, -32601)
    assert results.get("afterDelete") == (404 if has_session else None)


def check_tools(tools: dict[str, Any], *, is_stateless: bool) -> None:
    add = tools["add"]
    assert fields(add, "description", "annotations") == ["Add two numbers.", {"readOnlyHint": True}]
    assert add["inputSchema"]["properties"] == {
        "a": {"type": "integer", "description": "The first term."},
        "b": {"type": "integer", "description": "The second term."},
    }
    assert add["inputSchema"]["required"] == ["a", "b"]
    assert sorted(add["outputSchema"]["properties"]) == ["terms", "total"]
    assert tools["divide"]["outputSchema"]["type"] == ("number" if is_stateless else "object")
    assert "outputSchema" not in tools["picture"]
    assert list(tools["count"]["inputSchema"]["properties"]) == ["to"]


def check_calls(results: dict[str, Any], *, is_stateless: bool) -> None:
    assert results["add"]["structuredContent"] == {"total": 5, "terms": [2, 3]}
    assert results["quotient"]["structuredContent"] == (0.25 if is_stateless else {"result": 0.25})
    assert not results["quotient"].get("isError")
    assert (results["divide"]["isError"], text_of(results["divide"])) == (True, "b must not be 0")
    assert results["wrong"]["isError"] is True
    assert text_of(results["wrong"]).startswith("a: ")
    assert text_of(results["locate"]) == "somewhere in São Paulo"
    [image] = results["picture"]["content"]
    assert fields(image, "type", "mimeType") == ["image", "image/png"]
    assert base64.b64decode(image["data"]).startswith(b"\x89PNG")
    progress = [fields(each, "progress", "total", "message") for each in results["progress"]]
    assert progress == [[1, 3, "at 1"], [2, 3, "at 2"], [3, 3, "at 3"]]
    [log] = results["logs"]
    assert fields(log, "level", "logger", "data") == ["warning", "counter", {"counted": 3}]
    assert [text_of(results[name]) for name in ("count", "part", "release")] == [
        "counted to 3",
        "met again",
        "released",
    ]
    assert results["hang"] == "cancelled"
    assert results["changes"] == ["interop://greeting", "tools"]
    if is_stateless:
        assert results["imagine"] == {"code": -32021, "data": {"requiredCapabilities": {"sampling": {}}}}
    else:
        assert results["imagine"]["isError"] is True
        assert "sampling" in text_of(results["imagine"])


def check_resources_and_prompts(results: dict[str, Any]) -> None:
    [resource] = results["resources"]
    expected = ["interop://greeting", "greeting", "A greeting", "text/plain"]
    assert fields(resource, "uri", "name", "title", "mimeType") == expected
    [template] = results["templates"]
    assert template["uriTemplate"] == "interop://greetings/{language}"
    contents = [results[name]["contents"] for name in ("read", "readTemplate")]
    assert [fields(content, "uri", "text") for [content] in contents] == [
        ["interop://greeting", "Hello, world"],
        ["interop://greetings/dutch", "Hallo"],
    ]
    [prompt] = results["prompts"]
    assert prompt["name"] == "welcome"
    name, style = prompt["arguments"]
    assert fields(name, "name", "description", "required") == ["name", "The guest.", True]
    assert (style["name"], style.get("required", False)) == ("style", False)
    assert [(each["role"], each["content"]["text"]) for each in results["prompt"]["messages"]] == [
        ("user", "Write a friendly welcome for Ada."),
        ("assistant", "With pleasure."),
    ]
    assert results["completePrompt"]["completion"]["values"] == ["formal", "friendly"]
    assert results["completeTemplate"]["completion"]["values"] == ["danish", "dutch"]


class CuttingProxy:
    """Passes bytes on to a server, and cuts the stream of a response after an event with a marker, once for each.

    Args:
        origin: The URL of the server, without a path.
        markers: Texts of events.
    """

    def __init__(self, origin: str, *markers: bytes) -> None:
        self.server = urlsplit(origin)
        self.markers = [*markers]
        self.resumptions = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a client."""
        upstream, request = await asyncio.open_connection(self.server.hostname, self.server.port)

        async def send_requests() -> None:
            while data := await reader.read(65536):
                self.resumptions += data.lower().count(b"last-event-id:")
                request.write(data)
            request.close()

        async def send_responses() -> None:
            received = b""
            while data := await upstream.read(65536):
                before, received = len(received), received + data
                end = self.end_of_marked_event(received)
                writer.write(data if end is None else data[: max(0, end - before)])
                if end is not None:
                    break
            request.close()
            writer.close()

        await asyncio.gather(send_requests(), send_responses(), return_exceptions=True)

    def end_of_marked_event(self, received: bytes) -> int | None:
        for marker in self.markers:
            if found := re.search(re.escape(marker) + rb".*?\r?\n\r?\n", received, re.DOTALL):
                self.markers.remove(marker)
                return found.end()
        return None


SERVER = "server.py"
SDK_1, CLIENT_2 = "node/sdk_1.mjs", "node/client_2.mjs"
NOT_FOUND = -32602
"""The TypeScript client 2.x has one code for an unknown resource in all versions."""


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_typescript_client_1_sees_expected_results(run_driver: Run, reach: Reach, transport: str) -> None:
    results = run_driver(SDK_1, *reach(transport))
    check_results(results, HANDSHAKE, has_session=transport == "http")


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("mode", "version"), [("legacy", HANDSHAKE), ("auto", STATELESS), (STATELESS, STATELESS)]
)
def test_typescript_client_2_sees_expected_results(run_driver, reach, transport, mode, version) -> None:
    results = run_driver(CLIENT_2, mode, *reach(transport))
    has_session = transport == "http" and version == HANDSHAKE
    check_results(results, version, not_found=NOT_FOUND, has_session=has_session)


@pytest.mark.parametrize("client", [SDK_1, CLIENT_2])
async def test_cut_connection_client_resumes_stream(http_server, run_driver, client) -> None:
    """The stream of a call is cut in the middle, and the stream of the session after a notification."""
    proxy = CuttingProxy(http_server.origin, b'"at 2"', b"tools/list_changed")
    async with await asyncio.start_server(proxy.serve, "127.0.0.1", 0) as listener:
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
        mode = ["legacy"] if client == CLIENT_2 else []
        results = await asyncio.to_thread(run_driver, client, *mode, "http", url)
    assert proxy.markers == []
    assert proxy.resumptions >= 2
    check_results(results, HANDSHAKE, not_found=NOT_FOUND if client == CLIENT_2 else None, has_session=True)


def test_server_stop_ends_listen_stream_without_error(command: list[str]) -> None:
    async def listen(url: str) -> None:
        with anyio.fail_after(TIMEOUT):
            async with Client(url, cache=None) as client, client.listen(tools_list_changed=True) as stream:
                await anyio.to_thread.run_sync(served.stop)
                assert [event async for event in stream] == []

    with serving([*command, "http"]) as served:
        anyio.run(listen, f"{served.origin}/mcp")


HOLDERS = {"legacy": ["alone", "dict", "model"], STATELESS: ["alone", "list", "dataclass", "TypedDict"]}


@pytest.mark.filterwarnings("ignore:.*deprecated", "ignore:resources/.*subscribe is removed")
@pytest.mark.parametrize("mode", HOLDERS)
async def test_python_client_over_stdio_receives_ordinary_values_unchanged(mode: str) -> None:
    """The values that `bench/values.py` counts, each alone and in half of the holders."""
    values = runpy.run_path(str(ROOT / "bench" / "values.py"))
    found = await values["count"](sys.executable, "mcpkit", mode, HOLDERS[mode])
    assert len(found) == 56 * len(HOLDERS[mode]) + 39
    assert {name: why for name, why in found.items() if why} == {}


INSPECTOR_0 = [ROOT / "node_modules" / "inspector-0" / "cli" / "build" / "cli.js", "--cli"]
INSPECTOR_2 = [ROOT / "node_modules/inspector-2/clients/launcher/build/index.js", "--cli"]


@pytest.mark.parametrize("era", ["", "legacy", "modern", "auto"])
def test_inspector_command_line_calls_tool(run_node: Any, reach: Reach, era: str) -> None:
    """The inspector 0.x, which has no eras, and 2.x."""
    _, *target = reach({"legacy": "sse", "modern": "http"}.get(era, "stdio"))
    inspector = [*INSPECTOR_2, "--protocol-era", era] if era else INSPECTOR_0
    call = ["--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=2", "b=3"]
    assert json_of(run_node(*inspector, *target, *call))["structuredContent"] == {"total": 5, "terms": [2, 3]}
