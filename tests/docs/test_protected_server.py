"""The servers of the tutorial on authorization and of the page on tools for some users, over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from email.message import Message
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.helpers.identity_provider import providing
from tests.helpers.serving import ROOT, Served, in_thread

from .pages import Block, Runner, blocks_of

PAGE = ROOT / "docs" / "protected-server.md"
HERE = "http://127.0.0.1:8000"
EXAMPLE = ROOT / "examples" / "notes" / "server.py"

_BROWSER = """
import sys

import httpx2

from tests.helpers.oauth_flow import PageForms

with httpx2.Client() as browser:
    page = browser.get(sys.argv[1])
    [form] = [each for each in PageForms(page.text).forms if each.get("user") == "ada"]
    browser.get(browser.post(sys.argv[1], data=form).headers["location"])
"""


def block(title: str) -> Block:
    [found] = [each for each in blocks_of(PAGE.read_text()) if each.title == title]
    return found


def shown(command: str) -> str:
    """What the page shows that a command prints."""
    blocks = [each.text for each in blocks_of(PAGE.read_text()) if each.language == "console"]
    [found] = [each for each in blocks if each.startswith(f"$ {command}")]
    return found.partition("\n")[2]


def test_protected_server_page_has_the_example() -> None:
    assert block("server.py").text == EXAMPLE.read_text()


@contextmanager
def followed(folder: Path) -> Iterator[Served]:
    """Save what the page says to save, and start the server as it says."""
    for name in ("server.py", "log_in.py"):
        (folder / name).write_text(block(name).text)
    with Served([sys.executable, str(folder / "server.py")], PORT=0) as server:
        yield server


def test_protected_server_login_prints_what_the_page_shows(tmp_path: Path) -> None:
    with followed(tmp_path) as server:
        origin = server.origin
        client = tmp_path / "log_in.py"
        client.write_text(client.read_text().replace(HERE, origin))
        browser = tmp_path / "browser.py"
        browser.write_text(_BROWSER)
        settings = {
            "BROWSER": f"{sys.executable} {browser} %s",
            "PYTHONPATH": str(ROOT),
            "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
        }
        done = subprocess.run(
            [sys.executable, str(client)],
            env=os.environ | settings,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == shown("python log_in.py")

        refused = httpx2.post(f"{origin}/mcp").headers["WWW-Authenticate"]
        assert f"www-authenticate: {refused}\n" == shown("curl -si").replace(HERE, origin)

        server.wait_for("Public URL: ")
        lines = [
            line.replace(HERE, origin) for line in shown("python server.py").splitlines() if line != "..."
        ]
        for line in lines:
            assert line in server.notes.splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="the workers of uvicorn share a port")
def test_protected_server_workers_share_notes_over_a_restart(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "uvicorn", "--factory", "server:app", "--app-dir", str(EXAMPLE.parent)]
    url = "https://notes.example.com/mcp"
    with providing() as provider:
        settings = {
            "ISSUER": provider.issuer,
            "PUBLIC_URL": url,
            "DATABASE": str(tmp_path / "notes.db"),
            "MCPKIT_SECRET": "at least sixteen characters",
        }
        token = provider.token("ada", "notes:write", url)
        for kept in (0, 3):
            with Served([*command, "--port", "0", "--workers", "2"], **settings) as server:
                server.wait_for("Application startup complete", times=2)
                for number in range(kept + 1, kept + 4):  # on a connection each, to whichever worker takes it
                    assert f"Noted, as number {number}." in _call(
                        server.origin, token, "add_note", {"text": "a"}
                    )
                assert httpx2.get(f"{server.origin}/health").status_code == 200
                assert _call(server.origin, token, "list_notes", {}).count('\\"a\\"') == kept + 3


def _call(origin: str, token: str, tool: str, arguments: dict[str, str]) -> str:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    headers = {
        "Host": "notes.example.com",
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = httpx2.post(f"{origin}/mcp", json=message, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.text


META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
LIST = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}})
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/list",
}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    before, _, _ = (ROOT / "docs/how-to/per-user.md").read_text().partition("Whatever else authenticates")
    runner = Runner("per-user", tmp_path)
    runner.run(before)
    with in_thread(runner._module.app) as url:
        yield url


class Reply(NamedTuple):
    status: int
    headers: Message
    body: bytes


def ask(url: str, method: str, path: str, body: str | None = None, **headers: str) -> Reply:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    with closing(connection):
        connection.request(method, path, body, {name.replace("_", "-"): headers[name] for name in headers})
        response = connection.getresponse()
        return Reply(response.status, response.headers, response.read())


def test_per_user_app_requires_a_token(url: str) -> None:
    for token in ({}, {"Authorization": "Bearer guessed"}, {"Authorization": "Basic eA=="}):
        answer = ask(url, "POST", "/mcp", LIST, **HEADERS, **token)
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, 'Bearer realm="notes"')
    answer = ask(url, "POST", "/mcp", LIST, **HEADERS, Authorization="bearer token-of-bob")
    assert answer.status == 200
    assert [tool["name"] for tool in json.loads(answer.body)["result"]["tools"]] == ["search"]
    assert ask(url, "GET", "/health").status == 200
    assert ask(url, "GET", "/healthy").status == 401
