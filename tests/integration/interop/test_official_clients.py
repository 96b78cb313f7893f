"""The official Python and TypeScript clients, and the inspector, use everything of one server."""

from __future__ import annotations

import base64
import re
import runpy
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from mcp import Client

from tests.helpers.serving import ROOT, Served, serving
from tests.integration.interop.conftest import HANDSHAKE, STATELESS, TIMEOUT, TRANSPORTS, Reach, Run, json_of

TOOLS = [
    *("add", "divide", "picture", "count", "enough", "part"),
    *("hang", "release", "stir", "locate", "imagine", "invite"),
]


def text_of(result: dict[str, Any]) -> str:
    [block] = result["content"]
    return str(block["text"])


def fields(value: dict[str, Any], *names: str) -> list[Any]:
    return [value.get(name) for name in names]


def check_identity(seen: dict[str, Any]) -> None:
    """Assert what a client knows of the server after it has connected."""
    assert fields(seen["server"], "name", "version", "title") == ["interop", "1.2.3", "Interoperability"]
    assert seen["instructions"] == "Call add before anything else."


def check_results(
    seen: dict[str, Any], version: str, *, not_found: int | None = None, has_session: bool = False
) -> None:
    """Assert everything that a client has seen.

    Args:
        seen: The results by request.
        version: What must have been negotiated.
        not_found: The code of the error for an unknown resource, where the client changes it.
        has_session: Whether the client has deleted a session.
    """
    is_stateless = version == STATELESS
    assert seen["revision"] == version
    assert [tool["name"] for tool in seen["tools"]] == TOOLS
    check_tools({tool["name"]: tool for tool in seen["tools"]}, is_stateless=is_stateless)
    check_calls(seen, is_stateless=is_stateless)
    check_resources_and_prompts(seen)
    code = not_found or (-32602 if is_stateless else -32002)
    assert seen["missing"] == {"code": code, "data": {"uri": "interop://nowhere"}}
    assert (seen["unknown"]["code"], seen["nothing"]["code"]) == (-32602, -32601)
    assert seen.get("afterDelete") == (404 if has_session else None)


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


def check_calls(seen: dict[str, Any], *, is_stateless: bool) -> None:
    assert seen["add"]["structuredContent"] == {"total": 5, "terms": [2, 3]}
    assert seen["quotient"]["structuredContent"] == (0.25 if is_stateless else {"result": 0.25})
    assert not seen["quotient"].get("isError")
    assert (seen["divide"]["isError"], text_of(seen["divide"])) == (True, "b must not be 0")
    assert seen["wrong"]["isError"] is True
    assert text_of(seen["wrong"]).startswith("a: ")
    assert text_of(seen["locate"]) == "somewhere in São Paulo"
    [image] = seen["picture"]["content"]
    assert fields(image, "type", "mimeType") == ["image", "image/png"]
    assert base64.b64decode(image["data"]).startswith(b"\x89PNG")
    progress = [fields(each, "progress", "total", "message") for each in seen["progress"]]
    assert progress == [[1, 3, "at 1"], [2, 3, "at 2"], [3, 3, "at 3"]]
    [log] = seen["logs"]
    assert fields(log, "level", "logger", "data") == ["warning", "counter", {"counted": 3}]
    assert [text_of(seen[name]) for name in ("count", "part", "release")] == [
        "counted to 3",
        "met again",
        "released",
    ]
    assert seen["hang"] == "cancelled"
    assert seen["changes"] == ["interop://greeting", "tools"]
    if is_stateless:
        assert seen["imagine"] == {"code": -32021, "data": {"requiredCapabilities": {"sampling": {}}}}
    else:
        assert seen["imagine"]["isError"] is True
        assert "sampling" in text_of(seen["imagine"])


def check_resources_and_prompts(seen: dict[str, Any]) -> None:
    [resource] = seen["resources"]
    expected = ["interop://greeting", "greeting", "A greeting", "text/plain"]
    assert fields(resource, "uri", "name", "title", "mimeType") == expected
    [template] = seen["templates"]
    assert template["uriTemplate"] == "interop://greetings/{language}"
    contents = [seen[name]["contents"] for name in ("read", "readTemplate")]
    assert [fields(content, "uri", "text") for [content] in contents] == [
        ["interop://greeting", "Hello, world"],
        ["interop://greetings/dutch", "Hallo"],
    ]
    [prompt] = seen["prompts"]
    assert prompt["name"] == "welcome"
    name, style = prompt["arguments"]
    assert fields(name, "name", "description", "required") == ["name", "The guest.", True]
    assert (style["name"], style.get("required", False)) == ("style", False)
    assert [(each["role"], each["content"]["text"]) for each in seen["prompt"]["messages"]] == [
        ("user", "Write a friendly welcome for Ada."),
        ("assistant", "With pleasure."),
    ]
    assert seen["completePrompt"]["completion"]["values"] == ["formal", "friendly"]
    assert seen["completeTemplate"]["completion"]["values"] == ["danish", "dutch"]


class CuttingProxy(socketserver.ThreadingTCPServer):
    """Passes bytes on to a server; an event stream that says a marker is cut after that event, once for each.

    Args:
        origin: The server's URL, without a path.
        markers: What an event must hold for the connection to be cut.
    """

    daemon_threads = True

    def __init__(self, origin: str, markers: list[bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lead_to(origin)
        self.origin = f"http://127.0.0.1:{self.server_address[1]}"
        self.markers = markers
        self.resumptions = 0
        self.open: set[socket.socket] = set()

    def lead_to(self, origin: str) -> None:
        """Pass what new connections say on to this server."""
        address = urlsplit(origin)
        self.server = (address.hostname or "", address.port or 0)

    def cut(self) -> None:
        """Break all connections off."""
        for connection in tuple(self.open):
            shut(connection)

    def keep(self, received: bytes) -> int | None:
        """Take the first marker that a finished event holds; give where that event ends."""
        for marker in self.markers:
            if found := re.search(re.escape(marker) + rb".*?\r?\n\r?\n", received, re.DOTALL):
                self.markers.remove(marker)
                return found.end()
        return None


class Handler(socketserver.BaseRequestHandler):
    """One connection of a client."""

    server: CuttingProxy

    def handle(self) -> None:
        with socket.create_connection(self.server.server) as upstream:
            self.server.open.add(upstream)
            asking = threading.Thread(target=self.pass_on_requests, args=[upstream], daemon=True)
            asking.start()
            self.pass_on_answers(upstream)
            self.server.open.discard(upstream)
            shut(upstream)
            shut(self.request)
            asking.join()

    def pass_on_requests(self, upstream: socket.socket) -> None:
        while data := receive(self.request):
            self.server.resumptions += data.lower().count(b"last-event-id:")
            send(upstream, data)
        shut(upstream)

    def pass_on_answers(self, upstream: socket.socket) -> None:
        heard = b""
        while data := receive(upstream):
            before = len(heard)
            heard += data
            end = self.server.keep(heard)
            send(self.request, data if end is None else data[: max(0, end - before)])
            if end is not None:
                return


def receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except OSError:  # the other end has broken the connection off, which is an end too
        return b""


def send(connection: socket.socket, data: bytes) -> None:
    try:
        connection.sendall(data)
    except OSError:  # nobody listens any more; the end is seen where this connection is read
        return


def shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # it is shut
        return


@contextmanager
def cutting(origin: str, *markers: bytes) -> Iterator[CuttingProxy]:
    """Serve a cutting proxy until the end of the block."""
    with CuttingProxy(origin, list(markers)) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()


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
    check_results(seen, HANDSHAKE, has_session=transport == "http")


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
    check_results(seen, version, not_found=NOT_FOUND, has_session=has_session)


@pytest.mark.parametrize("client", [SDK_1, CLIENT_2])
def test_cut_connection_client_resumes_stream(http_server: Served, run_driver: Run, client: str) -> None:
    """The stream of a call is cut in the middle, and the stream of the session after a notification."""
    with cutting(http_server.origin, b'"at 2"', b"tools/list_changed") as proxy:
        target = ["http", f"{proxy.origin}/mcp"]
        seen = run_driver(client, *(["legacy"] if client == CLIENT_2 else []), *target)
    assert proxy.markers == []
    assert proxy.resumptions >= 2
    check_results(seen, HANDSHAKE, not_found=NOT_FOUND if client == CLIENT_2 else None, has_session=True)


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
