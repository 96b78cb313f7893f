"""Official clients, the inspector, mcp-remote and mcpkit itself log in, step up and refresh at servers of mcpkit."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import anyio
import httpx2
import pytest
from mcp import StdioServerParameters

from mcpkit import Client
from mcpkit.client import LocalCallbackServer, MemoryTokens, OAuth
from mcpkit.exceptions import AuthorizationError
from tests.helpers.browser import DENY, LOG_IN, OUR_ALLOW, OUR_DENY, Login
from tests.helpers.node import node_search_path
from tests.helpers.oauth_flow import PageForms
from tests.integration.auth.clients import (
    BRIDGE,
    CLIENT_2,
    LAUNCHER,
    SDK_1,
    TokenStorage,
    authorization,
    environment,
    mcp_remote_journey,
    python_journey,
    typescript_journey,
)
from tests.integration.auth.clients import INSPECTOR_TIME_OUT as TIME_OUT
from tests.integration.auth.servers import serve_dev_auth, serve_jwt, serve_proxy


@pytest.fixture(params=["jwt", "proxy", "dev_auth"])
def server(request, identity_provider):
    """A protected server, by its kind of authorization server."""
    with ExitStack() as stack:
        if request.param == "jwt":
            yield stack.enter_context(serve_jwt(identity_provider.issuer))
        elif request.param == "proxy":
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
def account(request, user):
    """The user who logs in at the server."""
    return DevUser() if "dev_auth" in request.node.callspec.id else user


def python(url: str, account: Any, mode: str) -> dict[str, Any]:
    return anyio.run(python_journey, url, mode, authorization(url, TokenStorage(), account.log_in))


def typescript(url: str, account: Any, *arguments: str) -> dict[str, Any]:
    driver, *arguments = arguments
    # SDK 1.x would refresh instead of asking for more scopes.
    grants = ["authorization_code"] if driver == SDK_1 else None
    seen: dict[str, Any] = typescript_journey(driver, url, tuple(arguments), account.log_in, grants=grants)[
        "seen"
    ]
    return seen


def mcpkit_client(url: str, account: Any, revision: str) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        auth = OAuth(browser=LocalCallbackServer(open_browser=account.visit), storage=MemoryTokens())
        async with Client(url, auth=auth, protocol_version=revision) as client:
            steps = [("whoami", {}), ("add_note", {"text": "a"}), ("whoami", {}), ("add_note", {"text": "b"})]
            texts = [(await client.call_tool(*step)).text for step in steps]
        return {
            "revision": revision,
            "before": json.loads(texts[0]),
            "added": texts[1],
            "after": json.loads(texts[2]),
        }

    return anyio.run(run)


HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
CLIENTS = [
    (python, ("legacy",), HANDSHAKE),
    (python, ("auto",), STATELESS),
    (typescript, (SDK_1,), HANDSHAKE),
    (typescript, (CLIENT_2, "legacy"), HANDSHAKE),
    (typescript, (CLIENT_2, "auto"), STATELESS),
    (mcpkit_client, ("2025-03-26",), "2025-03-26"),
    (mcpkit_client, (HANDSHAKE,), HANDSHAKE),
    (mcpkit_client, (STATELESS,), STATELESS),
]


@pytest.mark.parametrize(
    ("client", "arguments", "revision"),
    CLIENTS,
    ids=lambda value: getattr(value, "__name__", None) or str(value),
)
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


HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"


SDK_1, CLIENT_2 = "authorized_sdk_1.mjs", "authorized_client_2.mjs"


@pytest.mark.anyio
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
        ends.append(page.seen()[-1]["url"])

    auth = OAuth(browser=LocalCallbackServer(open_browser=show), storage=MemoryTokens())
    with pytest.raises(AuthorizationError, match="access_denied"):
        async with Client(proxy.url, auth=auth) as client:
            await client.call_tool("whoami")
    assert parse_qs(urlsplit(ends[0]).query)["iss"] == [proxy.url.removesuffix("/mcp")]
    assert len(proxy.provider.seen("/auth")) == (1 if at_provider else 0)
    assert proxy.provider.seen("/token") == []
    assert "login" not in [event.name for event in proxy.events]


ERAS = ["legacy", "modern"]


READ_SCOPES, ALL_SCOPES = ["notes:read"], ["notes:read", "notes:write"]


@pytest.mark.parametrize("mode", ["auto"])
def test_mcp_remote_logs_in_and_steps_up(proxy, user, page, launched, tmp_path, mode):
    settings = {
        "HOME": str(tmp_path),
        "MCP_REMOTE_CONFIG_DIR": str(tmp_path / "stored"),
        "PATH": launched.path(node_search_path()),
        **launched.environment,
    }
    command = StdioServerParameters(command="node", args=[str(BRIDGE), proxy.url], env=settings)
    with user.answering(launched):
        seen = anyio.run(mcp_remote_journey, command, mode)
    assert seen == {
        "before": {"subject": "bob", "scopes": READ_SCOPES},
        "added": "added",
        "after": {"subject": "bob", "scopes": ALL_SCOPES},
    }
    assert len(user.logins) == 2
    proxy.check_legs(logins=2)
    proxy.check_secrets(page, clients=texts_in(tmp_path))


@pytest.mark.parametrize("era", ERAS)
def test_inspector_cli_logs_in(proxy, user, page, launched, tmp_path, era):
    options = ["--protocol-era", era, "--quiet", "--callback-url", "http://127.0.0.1:0/oauth/callback"]
    command = ["node", LAUNCHER, "--cli", proxy.url, *options, "--method", "tools/call", "--tool-name"]
    settings = environment(
        tmp_path, launched.path(node_search_path()), MCP_AUTO_OPEN_ENABLED="true", **launched.environment
    )
    with user.answering(launched):
        for _ in range(2):
            finished = subprocess.run(
                [*command, "whoami"],
                capture_output=True,
                cwd=tmp_path,
                encoding="utf-8",
                env=settings,
                stdin=subprocess.DEVNULL,
                timeout=TIME_OUT,
            )
            assert finished.returncode == 0, finished.stderr
            assert json.loads(finished.stdout)["structuredContent"] == {
                "subject": "bob",
                "scopes": READ_SCOPES,
            }
    assert len(user.logins) == 1, "the second time it has a token"
    proxy.check_legs(logins=1)
    proxy.check_secrets(page, clients=texts_in(tmp_path))


def test_mcpkit_command_logs_in_and_out(proxy, user, page, launched, tmp_path):
    settings = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "PATH": launched.path(node_search_path()),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
        **launched.environment,
    }

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mcpkit", *words]
        return subprocess.run(
            command, capture_output=True, cwd=tmp_path, encoding="utf-8", env=settings, timeout=TIME_OUT
        )

    with user.answering(launched):
        login = run("auth", "login", proxy.url, "--scope", "notes:write")
    assert login.returncode == 0, login.stderr
    assert "notes:write" in login.stdout
    called = run("call", proxy.url, "whoami")
    assert '"bob"' in called.stdout, called.stderr
    stored = texts_in(tmp_path)
    assert proxy.wire.seen("/token", "POST")[0].said["refresh_token"] in stored
    proxy.check_legs(logins=1)
    proxy.check_secrets(page, clients=stored)

    assert run("auth", "logout", proxy.url).returncode == 0
    [token] = proxy.provider.seen("/token")
    revoked = [each.params["token"] for each in proxy.provider.seen("/token/revocation")]
    assert token.said["refresh_token"] in revoked, "the provider hears of the logout"
    assert run("call", proxy.url, "whoami").returncode == 3


def texts_in(folder: Path) -> str:
    files = (path for path in folder.rglob("*") if path.is_file())
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in files)
