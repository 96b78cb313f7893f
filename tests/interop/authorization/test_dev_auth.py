"""Clients log in to `DevAuth`, ask for more and refresh, in both eras, over real HTTP; a program is the user."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import anyio
import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

import mcpkit
from mcpkit import Context, OAuth, Server
from mcpkit.auth import DevAuth
from mcpkit.client.authorization.loopback import Loopback
from mcpkit.client.authorization.storage import MemoryTokens
from tests.helpers.authority_site import SCOPES, Forms
from tests.helpers.browser import Login
from tests.helpers.serving import in_thread_at
from tests.interop.authorization.test_python_client import Kept, journey
from tests.interop.authorization.test_typescript import SDK_1, WAYS
from tests.interop.authorization.test_typescript import journey as in_typescript

CALLBACK = "http://127.0.0.1:3000/callback"


class Ear(logging.Handler):
    """Hears everything that the server and our client say; the browser's own loggers say what it does."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] in {"mcpkit", "uvicorn", "starlette"}:
            self.heard.append(record.getMessage() + str(record.exc_info) + str(record.__dict__))


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """What is logged, at every level."""
    ear, root = Ear(), logging.getLogger()
    before = root.level
    root.addHandler(ear)
    root.setLevel(logging.DEBUG)
    logging.getLogger("mcpkit").debug("it is heard")
    yield ear.heard
    root.removeHandler(ear)
    root.setLevel(before)


@pytest.fixture
def url() -> Iterator[str]:
    server = Server("notes", auth=DevAuth(users=["ada", "bob"]), scopes=SCOPES)

    @server.tool
    def whoami(ctx: Context) -> dict[str, Any]:
        """Say who asks."""
        return {"subject": ctx.principal.subject, "scopes": sorted(ctx.principal.scopes)}

    @server.tool(scopes="notes:write")
    def add_note(text: str) -> str:
        """Add a note."""
        return "added"

    with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as origin:
        yield f"{origin}/mcp"


async def click(page: str) -> httpx2.Response:
    """Click on the name of bob, and return the redirect to the client."""
    async with httpx2.AsyncClient() as browser:
        shown = await browser.get(page)
        [form] = [form for form in Forms(shown.text).forms if form.get("user") == "bob"]
        return await browser.post(page.partition("?")[0], data=form)


async def said(client: mcpkit.Client, name: str, **arguments: str) -> str:
    """Call a tool and return its text."""
    return (await client.call(name, arguments)).text


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_the_official_client_logs_in_and_steps_up(url: str, mode: str) -> None:
    answers: list[dict[str, str]] = []

    async def redirect(page: str) -> None:
        answers.append(dict(parse_qsl(urlsplit((await click(page)).headers["location"]).query)))

    async def callback() -> AuthorizationCodeResult:
        return AuthorizationCodeResult.model_validate(answers[-1])

    metadata = OAuthClientMetadata(client_name="Python", redirect_uris=[CALLBACK])
    auth = OAuthClientProvider(url, metadata, Kept(), redirect, callback)
    seen = anyio.run(journey, url, mode, auth)
    assert seen["before"] == {"subject": "bob", "scopes": ["notes:read"]}
    assert seen["added"] == "added"
    assert seen["after"] == {"subject": "bob", "scopes": ["notes:read", "notes:write"]}
    assert len(answers) == 2


@pytest.mark.parametrize(("driver", "arguments", "revision"), WAYS)
def test_the_official_clients_in_typescript_log_in_and_step_up(
    url: str, driver: str, arguments: tuple[str, ...], revision: str
) -> None:
    def log_in(page: str) -> Login:
        back = anyio.run(click, page).headers["location"]
        return Login(back, dict(parse_qsl(urlsplit(back).query)), [])

    # The SDK 1.x meets the wish for more scopes with a refresh where it can, which never has them.
    grants = ["authorization_code"] if driver == SDK_1 else None
    seen = in_typescript(driver, url, arguments, log_in, grants=grants)["seen"]
    assert seen == {
        "revision": revision,
        "before": {"subject": "bob", "scopes": ["notes:read"]},
        "added": "added",
        "after": {"subject": "bob", "scopes": ["notes:read", "notes:write"]},
    }


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25", "2026-07-28"])
def test_our_own_client_logs_in_and_steps_up_and_nothing_secret_is_logged(
    url: str, revision: str, heard: list[str]
) -> None:
    secrets: list[str] = []

    async def show(page: str) -> None:
        back = (await click(page)).headers["location"]
        secrets.append(dict(parse_qsl(urlsplit(back).query))["code"])
        async with httpx2.AsyncClient() as browser:
            await browser.get(back)

    async def use() -> None:
        storage = MemoryTokens()
        auth = OAuth(browser=Loopback(open_browser=show), storage=storage)
        async with mcpkit.Client(url, auth=auth, revision=revision) as client:
            assert json.loads(await said(client, "whoami"))["scopes"] == ["notes:read"]
            assert await said(client, "add_note", text="a") == "added"
            assert json.loads(await said(client, "whoami")) == {
                "subject": "bob",
                "scopes": ["notes:read", "notes:write"],
            }

    anyio.run(use)
    assert len(secrets) == 2
    assert "it is heard" in heard[0]
    for secret in secrets:
        assert secret not in "\n".join(heard)


def test_a_client_of_2025_03_26_finds_all_at_the_origin_and_names_no_resource(url: str) -> None:
    """It knows the URL of the server alone: metadata at its origin, or the paths that it takes without any."""
    origin = url.removesuffix("/mcp")
    verifier = "v" * 43
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    with httpx2.Client(base_url=origin) as client:
        assert client.post("/mcp", json={}).status_code == 401
        headers = {"MCP-Protocol-Version": "2025-03-26"}
        found = client.get("/.well-known/oauth-authorization-server", headers=headers).json()
        assert found["issuer"] == origin
        metadata = {"client_name": "Old", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
        client_id = client.post("/register", json=metadata).json()["client_id"]
        query = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": CALLBACK,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        page = client.get("/authorize", params=query)
        [form] = [form for form in Forms(page.text).forms if form.get("user") == "bob"]
        back = client.post("/authorize", data=form).headers["location"]
        code = dict(parse_qsl(urlsplit(back).query))["code"]
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": CALLBACK,
            "client_id": client_id,
            "code_verifier": verifier,
        }
        token = client.post("/token", data=form).json()["access_token"]
        opening = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-03-26",
                "capabilities": {},
                "clientInfo": {"name": "old", "version": "1"},
            },
        }
        accept = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {token}"}
        assert client.post("/mcp", json=opening, headers=accept).status_code == 200
        with client.stream("GET", "/sse", headers=accept) as stream:
            assert stream.status_code == 200


def test_who_comes_through_a_proxy_is_refused_with_a_good_token_too(url: str) -> None:
    with httpx2.Client(base_url=url.removesuffix("/mcp")) as client:
        for headers in ({"X-Forwarded-For": "10.0.0.1"}, {"Host": "mcp.example.com"}):
            for path in ("/mcp", "/token", "/register"):
                refused = client.post(path, json={}, headers=headers)
                assert refused.status_code in {403, 421}, refused.text
                assert "www-authenticate" not in refused.headers
