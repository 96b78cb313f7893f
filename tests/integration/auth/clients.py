"""Official clients and the client of mcpkit, with a user who logs in for them in a browser."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.auth import OAuthClientProvider
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)

from tests.helpers.browser import Launched, Login, Profile
from tests.helpers.node import node_search_path
from tests.helpers.serving import Served

DOCUMENT = {
    "client_id": "https://client.example.com/about.json",
    "client_name": "Documented",
    "grant_types": ["authorization_code", "refresh_token"],
    "redirect_uris": ["http://127.0.0.1:1/callback"],
    "token_endpoint_auth_method": "none",
}


class User:
    def __init__(self, page: Profile, name: str = "bob") -> None:
        self._page = page
        self._name = name
        self.logins: list[Login] = []

    def log_in(self, url: str) -> Login:
        self.logins.append(self._page.log_in(url, self._name, answers=True))
        return self.logins[-1]

    def visit(self, url: str) -> None:
        """Log in for a client that listens."""
        self.logins.append(self._page.log_in(url, self._name))

    @contextmanager
    def answering(self, launched: Launched) -> Iterator[None]:

        def run() -> None:
            while (url := launched.next()) is not None:
                self.visit(url)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            launched.end()
            thread.join()


TIME_OUT = 60
INSPECTOR_TIME_OUT = 60


class TokenStorage:
    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def authorization(
    url: str, storage: TokenStorage, log_in: Callable[[str], Login], **options: Any
) -> OAuthClientProvider:
    answers: list[dict[str, str]] = []

    async def redirect(request: str) -> None:
        login = await anyio.to_thread.run_sync(log_in, request)
        answers.append(login.answer)

    async def callback() -> AuthorizationCodeResult:
        return AuthorizationCodeResult.model_validate(answers.pop())

    metadata = OAuthClientMetadata(client_name="Python", redirect_uris=DOCUMENT["redirect_uris"])
    return OAuthClientProvider(url, metadata, storage, redirect, callback, **options)


@asynccontextmanager
async def connected(url: str, auth: httpx2.Auth, **options: Any) -> AsyncIterator[Client]:
    with anyio.fail_after(TIME_OUT):
        if url.endswith("/sse"):
            async with Client(sse_client(url, auth=auth), **options) as client:
                yield client
        else:
            async with (
                create_mcp_http_client(auth=auth) as http,
                Client(streamable_http_client(url, http_client=http), cache=None, **options) as client,
            ):
                yield client


async def python_journey(url: str, mode: str, auth: OAuthClientProvider) -> dict[str, Any]:
    async with connected(url, auth, mode=mode) as client:
        seen = {"revision": client.protocol_version}
        seen["before"] = (await client.call_tool("whoami")).structured_content
        seen["added"] = (await client.call_tool("add_note", {"text": "a"})).content[0].text
        seen["after"] = (await client.call_tool("whoami")).structured_content
        await client.call_tool("add_note", {"text": "b"})
    return seen


DRIVERS = Path(__file__).parents[2] / "interop" / "node"


SDK_1, CLIENT_2 = "authorized_sdk_1.mjs", "authorized_client_2.mjs"


def typescript_journey(
    driver: str, url: str, arguments: tuple[str, ...], log_in: Callable[[str], Login], **kept: Any
) -> dict[str, Any]:
    node = shutil.which("node", path=node_search_path())
    assert node is not None
    command = [node, DRIVERS / driver, json.dumps(kept), url, *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for line in process.stdout:
                message = json.loads(line)
                if "seen" in message:
                    return message
                process.stdin.write(json.dumps(log_in(message["authorize"]).answer) + "\n")
                process.stdin.flush()
        finally:
            process.kill()
        assert process.stderr is not None
        raise AssertionError(process.stderr.read())


BRIDGE = Path(__file__).parents[3] / "node_modules" / "mcp-remote" / "dist" / "proxy.js"


BRIDGE_TIME_OUT = 90


async def mcp_remote_journey(parameters: StdioServerParameters, mode: str) -> dict[str, Any]:
    with anyio.fail_after(BRIDGE_TIME_OUT):
        async with Client(parameters, mode=mode, cache=None) as client:
            seen = {"before": (await client.call_tool("whoami")).structured_content}
            seen["added"] = (await client.call_tool("add_note", {"text": "a"})).content[0].text
            seen["after"] = (await client.call_tool("whoami")).structured_content
    return seen


LAUNCHER = Path(__file__).parents[3] / "node_modules/inspector-2/clients/launcher/build/index.js"


def environment(home: Path, path: str, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "MCP_INSPECTOR_SECRET_STORE": "file", "NO_COLOR": "1", "PATH": path, **more}


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


@contextmanager
def page_of(home: Path, url: str, era: str) -> Iterator[str]:
    command = [
        "node",
        str(LAUNCHER),
        "--web",
        "--server-url",
        url,
        "--transport",
        "http",
        "--protocol-era",
        era,
    ]
    settings = environment(
        home, node_search_path(), CLIENT_PORT=free_port(), MCP_AUTO_OPEN_ENABLED="false", MCP_SANDBOX_PORT="0"
    )
    # It says where it is on its standard output.
    with Served(["/bin/sh", "-c", 'exec "$@" >&2', "sh", *command], **settings) as served:
        served.wait_for("MCP_INSPECTOR_API_TOKEN=")
        found = re.search(r"http://\S+MCP_INSPECTOR_API_TOKEN=\w+", served.notes)
        assert found is not None
        yield found[0]
