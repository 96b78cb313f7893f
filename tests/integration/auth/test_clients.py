"""Official clients, the inspector, mcp-remote and mcpkit itself log in and step up at servers of mcpkit."""

import json
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import anyio
import httpx2
import pytest
from joserfc.jwk import OKPKey
from mcp import Client as OfficialClient
from mcp import StdioServerParameters

from mcpkit import Client
from mcpkit.client import ClientCredentials, FileTokens, LocalCallbackServer, MemoryTokens, OAuth
from mcpkit.exceptions import AuthorizationError
from tests.helpers.browser import DENY, LOG_IN, OUR_ALLOW, OUR_DENY, Login
from tests.helpers.identity_provider import providing
from tests.helpers.node import node_search_path
from tests.helpers.oauth_flow import PageForms, User
from tests.integration.auth import clients
from tests.integration.auth.servers import serve_dev_auth, serve_jwt, serve_proxy

HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"


@pytest.fixture
def server(request, kind):
    """A protected server, by its kind of authorization server."""
    with ExitStack() as stack:
        if kind == "jwt":
            issuer = request.getfixturevalue("identity_provider").issuer
            yield stack.enter_context(serve_jwt(issuer))
        elif kind == "proxy":
            yield stack.enter_context(serve_proxy()).guarded
        else:
            yield stack.enter_context(serve_dev_auth())


class DevUser:
    """Logs in at the page of `DevAuth`, without a browser."""

    def __init__(self) -> None:
        self.logins: list[Login] = []

    def log_in(self, url: str) -> Login:
        with httpx2.Client() as browser:
            forms = PageForms(browser.get(url).text).forms
            form = next(form for form in forms if form.get("user") == "bob")
            location = browser.post(url.partition("?")[0], data=form).headers["location"]
        self.logins.append(Login(location, dict(parse_qsl(urlsplit(location).query)), []))
        return self.logins[-1]

    def visit(self, url: str) -> None:
        httpx2.get(self.log_in(url).url)


@pytest.fixture
def account(request, kind):
    """The user who logs in at the server."""
    return DevUser() if kind == "dev_auth" else request.getfixturevalue("user")


def python(url: str, account: Any, mode: str) -> dict[str, Any]:
    return anyio.run(clients.python_journey, url, mode, clients.authorization(url, account.log_in))


def typescript(url: str, account: Any, *arguments: str) -> dict[str, Any]:
    return clients.typescript_journey(url, account.log_in, *arguments)


def mcpkit_client(url: str, account: Any, revision: str) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        auth = OAuth(browser=LocalCallbackServer(open_browser=account.visit), storage=MemoryTokens())
        async with Client(url, auth=auth, protocol_version=revision) as client:
            steps = [("whoami", {}), ("add_note", {"text": "a"}), ("whoami", {}), ("add_note", {"text": "b"})]
            before, added, after, _ = [(await client.call_tool(*step)).text for step in steps]
        return {
            "revision": revision,
            "before": json.loads(before),
            "added": added,
            "after": json.loads(after),
        }

    return anyio.run(run)


@pytest.mark.parametrize(
    ("kind", "client", "arguments", "revision"),
    [
        ("dev_auth", python, ("legacy",), HANDSHAKE), ("jwt", python, ("auto",), STATELESS),
        ("dev_auth", typescript, (clients.SDK_1,), HANDSHAKE),
        ("dev_auth", typescript, (clients.CLIENT_2, "legacy"), HANDSHAKE),
        ("proxy", typescript, (clients.CLIENT_2, "auto"), STATELESS),
        ("dev_auth", mcpkit_client, ("2025-03-26",), "2025-03-26"),
        ("jwt", mcpkit_client, (HANDSHAKE,), HANDSHAKE), ("proxy", mcpkit_client, (STATELESS,), STATELESS),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value),
)  # fmt: skip
def test_client_logs_in_and_steps_up(server, account, client, arguments, revision):
    assert client(server.url, account, *arguments) == {
        "revision": revision,
        "before": {"subject": "bob", "scopes": ["notes:read"]},
        "added": "added",
        "after": {"subject": "bob", "scopes": ["notes:read", "notes:write"]},
    }
    assert server.notes == ["a", "b"]
    assert len(account.logins) == 2
    assert [each.status for each in server.exchanges if each.status in (401, 403)] == [401, 403]


@pytest.mark.parametrize("at_provider", [False, True], ids=["here", "at the provider"])
async def test_client_receives_access_denied(proxy, page, at_provider):
    ends: list[str] = []

    def show(url: str) -> None:
        page.open(url)
        if at_provider:
            page.follow(OUR_ALLOW)
            page.fill("[name=login]", "bob")
            page.fill("[name=password]", "bob's")
            page.follow(LOG_IN)
            page.follow(DENY)
        else:
            page.follow(OUR_DENY)
        ends.append(page.history()[-1]["url"])

    auth = OAuth(browser=LocalCallbackServer(open_browser=show), storage=MemoryTokens())
    with pytest.raises(AuthorizationError, match="access_denied"):
        async with Client(proxy.url, auth=auth) as client:
            await client.call_tool("whoami")
    assert parse_qs(urlsplit(ends[0]).query)["iss"] == [proxy.url.removesuffix("/mcp")]
    assert len(proxy.provider.requests("/auth")) == (1 if at_provider else 0)
    assert proxy.provider.requests("/token") == []
    assert "login" not in [event.name for event in proxy.events]


@pytest.fixture
def settings(launched, tmp_path):
    """Environment variables of programs that open a browser."""
    path = launched.path(node_search_path())
    return {"HOME": str(tmp_path), "PATH": path, "NO_COLOR": "1", **launched.environment}


def test_mcp_remote_logs_in_and_steps_up(proxy, user, launched, settings, tmp_path):
    bridge = clients.ROOT / "node_modules" / "mcp-remote" / "dist" / "proxy.js"
    settings["MCP_REMOTE_CONFIG_DIR"] = str(tmp_path / "stored")
    command = StdioServerParameters(command="node", args=[str(bridge), proxy.url], env=settings)

    async def run() -> dict[str, Any]:
        with anyio.fail_after(clients.TIME_OUT):
            async with OfficialClient(command, mode="auto", cache=None) as client:
                return await clients.journey(client)

    with user.answering(launched):
        seen = anyio.run(run)
    assert seen["after"] == {"subject": "bob", "scopes": ["notes:read", "notes:write"]}
    assert proxy.guarded.notes == ["a", "b"]
    assert len(user.logins) == 2


def test_inspector_cli_logs_in(proxy, user, launched, settings, tmp_path):
    launcher = clients.ROOT / "node_modules/inspector-2/clients/launcher/build/index.js"
    options = ["--protocol-era", "modern", "--quiet", "--callback-url", "http://127.0.0.1:0/oauth/callback"]
    command = ["node", launcher, "--cli", proxy.url, *options, "--method", "tools/call", "--tool-name"]
    settings |= {"MCP_AUTO_OPEN_ENABLED": "true", "MCP_INSPECTOR_SECRET_STORE": "file"}
    with user.answering(launched):
        for _ in range(2):
            finished = subprocess.run(
                [*command, "whoami"],
                capture_output=True,
                cwd=tmp_path,
                encoding="utf-8",
                env=settings,
                stdin=subprocess.DEVNULL,
                timeout=clients.TIME_OUT,
            )
            assert finished.returncode == 0, finished.stderr
            expected = {"subject": "bob", "scopes": ["notes:read"]}
            assert json.loads(finished.stdout)["structuredContent"] == expected
    assert len(user.logins) == 1, "the second time it has a token"


async def test_client_credentials_with_private_key():
    key = OKPKey.generate_key("Ed25519")
    known = {
        "client_id": "signer", "grant_types": ["client_credentials"], "response_types": [],
        "redirect_uris": [], "token_endpoint_auth_method": "private_key_jwt",
        "token_endpoint_auth_signing_alg": "EdDSA",
        "jwks": {"keys": [key.as_dict(private=False)]},
    }  # fmt: skip
    with providing(clients=[known]) as provider, serve_jwt(provider.issuer) as server:
        auth = ClientCredentials("signer", private_key=key.as_pem(private=True).decode())
        async with Client(server.url, auth=auth) as client:
            result = await client.call_tool("whoami")
    assert result.structured_content == {"subject": None, "scopes": ["notes:read"]}


CALL = """
import asyncio, sys
from mcpkit import Client
from mcpkit.client import FileTokens, LocalCallbackServer, OAuth

def show(url):
    raise AssertionError("no second login is needed")

async def main():
    auth = OAuth(storage=FileTokens(sys.argv[2]), browser=LocalCallbackServer(open_browser=show))
    async with Client(sys.argv[1], auth=auth) as client:
        print((await client.call_tool("whoami")).structured_content["subject"])

asyncio.run(main())
"""


async def test_file_tokens_are_refreshed_by_one_process(tmp_path):
    path = tmp_path / "folder" / "tokens"
    user = User()
    user.storage = storage = FileTokens(path)
    with serve_dev_auth() as server:
        async with Client(server.url, auth=user.auth) as client:
            await client.call_tool("whoami")
        stored = await storage.get_tokens(server.url)
        assert stored is not None
        await storage.set_tokens(replace(stored, access_token="has-ended", expires=1.0))
        command = [sys.executable, "-c", CALL, server.url, str(path)]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        outputs = [process.communicate(timeout=60)[0] for process in processes]
        forms = [each for each in server.exchanges if each.path == "/token"]
    assert outputs == ["ada\n"] * 3
    refreshes = [each.status for each in forms if each.form["grant_type"] == "refresh_token"]
    assert refreshes == [200]
