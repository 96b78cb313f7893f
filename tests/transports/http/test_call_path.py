"""The path of a POST of `tools/call`: the files and functions of mcpkit from the ASGI app to its response."""

import json
import platform
import re
from typing import Any

import pytest

from mcpkit import Principal, Server
from mcpkit.auth import StaticTokens
from tests.engine.test_call_path import PACKAGE, CallPath
from tests.helpers.pipe import initialize, message, stateless_meta

pytestmark = pytest.mark.skipif(
    platform.python_implementation() != "CPython", reason="only CPython calls the profiler for each function"
)

PAGE = PACKAGE.parent / "docs" / "project" / "architecture-http.md"
TOKEN = "token-of-ada-0123456789"
URL = "http://127.0.0.1:8000/mcp"
STATELESS, SESSION = "2026-07-28", "2025-11-25"
MAX_FILES = {STATELESS: 18, SESSION: 25}
MAX_CALLS = {STATELESS: 65, SESSION: 90}


def make_server() -> Server:
    tokens = StaticTokens({TOKEN: Principal("ada", {"numbers"})})
    server = Server("path", auth=tokens, scopes={"numbers": "Add numbers"})

    @server.tool(scopes="numbers")
    async def add(x: int) -> int:
        return x + 1

    return server


async def post(app: Any, body: object, headers: dict[str, str], path: CallPath | None = None) -> list[Any]:
    """Send one POST to the app, and return the ASGI messages of the response. The path ends with the last one."""
    data = json.dumps(body).encode()
    named = {
        "Host": "127.0.0.1:8000",
        "Content-Type": "application/json",
        "Content-Length": str(len(data)),
        "Accept": "application/json, text/event-stream",
        "Authorization": f"Bearer {TOKEN}",
        **headers,
    }
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "root_path": "",
        "query_string": b"",
        "scheme": "http",
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8000),
        "headers": [(name.lower().encode(), value.encode()) for name, value in named.items()],
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": data, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if path is not None and message["type"] == "http.response.body":
            path.stop()
        sent.append(message)

    if path is not None:
        path.start()
    await app(scope, receive, send)
    return sent


async def path_of(revision: str) -> CallPath:
    """Return the path of the second call of the tool, with a token that is known."""
    path = CallPath()
    app = make_server().asgi(public_url=URL)
    headers = {"MCP-Protocol-Version": revision}
    params: dict[str, Any] = {"name": "add", "arguments": {"x": 1}}
    if revision == STATELESS:
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "add"}
        params["_meta"] = stateless_meta(revision)
    else:
        begun, _ = await post(app, initialize(revision), {})
        headers["Mcp-Session-Id"] = dict(begun["headers"])[b"mcp-session-id"].decode()
        await post(app, message("notifications/initialized", id_=None), headers)
    for id_ in (1, 2):
        begun, body = await post(app, message("tools/call", params, id_), headers, path)
        assert (begun["status"], json.loads(body["body"])["result"]["content"][0]["text"]) == (200, "2")
    await app.router()._service().aclose()
    return path


def page_of(revision: str) -> list[tuple[str, str]]:
    """Return the files and functions that the page shows, in order."""
    text = PAGE.read_text(encoding="utf-8")
    stateless, session = re.findall(r"```text\n(transports/http/.*?)```", text, re.DOTALL)
    rows = re.findall(
        r"^(\S+\.py) +([\w.]+(?:, [\w.]+)*)", session if revision == SESSION else stateless, re.MULTILINE
    )
    return [(file, name.rpartition(".")[2]) for file, names in rows for name in names.split(", ")]


@pytest.mark.parametrize("revision", [STATELESS, SESSION])
async def test_post_of_tool_call_passes_few_files_and_functions(revision: str) -> None:
    path = await path_of(revision)

    assert path.functions[0] == ("transports/http/asgi.py", "__call__")
    assert path.functions[-1] == ("transports/http/response.py", "respond")
    assert len(path.files) <= MAX_FILES[revision], str(path)
    assert len(path.functions) <= MAX_CALLS[revision], str(path)


@pytest.mark.parametrize("revision", [STATELESS, SESSION])
async def test_page_shows_path_of_post(revision: str) -> None:
    path = await path_of(revision)
    shown = page_of(revision)
    moving = (
        "transports/http/sessions/http_session.py",
        "save",
    )  # its place depends on the version of Python
    seen = iter(path.functions)
    missing = [each for each in shown if each != moving and each not in seen]

    assert missing == [], f"not on the path, or not in this order: {missing}\n{path}"
    files = {file for file, _ in shown}
    if revision == SESSION:
        assert moving in path.functions
        files |= {file for file, _ in page_of(STATELESS)}
        assert path.files <= files, str(path)
    else:
        assert path.files == files, str(path)
