"""Official clients, with a user who logs in for them in a browser."""

import json
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.client.auth import OAuthClientProvider
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

TIME_OUT = 60
ROOT = Path(__file__).parents[3]
SDK_1, CLIENT_2 = "authorized_sdk_1.mjs", "authorized_client_2.mjs"
"""The drivers of the TypeScript SDKs."""


class User:
    def __init__(self, page: Profile, name: str = "bob") -> None:
        self._page = page
        self._name = name
        self.logins: list[Login] = []

    def log_in(self, url: str) -> Login:
        """Log in for a client that does not listen at its redirect URI, and return the response."""
        self.logins.append(self._page.log_in(url, self._name, answers=True))
        return self.logins[-1]

    def visit(self, url: str) -> None:
        """Log in for a client that listens."""
        self.logins.append(self._page.log_in(url, self._name))

    @contextmanager
    def answering(self, launched: Launched) -> Iterator[None]:
        """Log in wherever a program opens a browser, until the end of the block."""

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


class TokenStorage:
    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def authorization(url: str, log_in: Callable[[str], Login]) -> OAuthClientProvider:
    """Return the authorization of the Python SDK."""
    answers: list[dict[str, str]] = []

    async def redirect(request: str) -> None:
        login = await anyio.to_thread.run_sync(log_in, request)
        answers.append(login.answer)

    async def callback() -> AuthorizationCodeResult:
        return AuthorizationCodeResult.model_validate(answers.pop())

    metadata = OAuthClientMetadata(client_name="Python", redirect_uris=["http://127.0.0.1:1/callback"])
    return OAuthClientProvider(url, metadata, TokenStorage(), redirect, callback)


async def journey(client: Client) -> dict[str, Any]:
    """Call a tool that needs a login, one that needs another scope, and both again."""
    seen = {"revision": client.protocol_version}
    seen["before"] = (await client.call_tool("whoami")).structured_content
    seen["added"] = (await client.call_tool("add_note", {"text": "a"})).content[0].text
    seen["after"] = (await client.call_tool("whoami")).structured_content
    await client.call_tool("add_note", {"text": "b"})
    return seen


async def python_journey(url: str, mode: str, auth: OAuthClientProvider) -> dict[str, Any]:
    with anyio.fail_after(TIME_OUT):
        async with (
            create_mcp_http_client(auth=auth) as http,
            Client(streamable_http_client(url, http_client=http), cache=None, mode=mode) as client,
        ):
            return await journey(client)


def typescript_journey(
    url: str, log_in: Callable[[str], Login], driver: str, *arguments: str
) -> dict[str, Any]:
    node = shutil.which("node", path=node_search_path())
    assert node is not None
    # SDK 1.x would refresh instead of asking for more scopes.
    options = {"grants": ["authorization_code"]} if driver == SDK_1 else {}
    path = ROOT / "tests" / "interop" / "node" / driver
    command = [node, path, json.dumps(options), url, *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            for line in process.stdout:
                message = json.loads(line)
                if "seen" in message:
                    seen: dict[str, Any] = message["seen"]
                    return seen
                process.stdin.write(json.dumps(log_in(message["authorize"]).answer) + "\n")
                process.stdin.flush()
        finally:
            process.kill()
        raise AssertionError(process.stderr.read())
