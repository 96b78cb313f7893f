"""Proxies of the environment: which one a request goes through, and what is said of one that cannot be used.

The judge of the former is httpx2, given the same environment with proxies that can be used.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2
import pytest

from mcpkit import Client, Server, TransportError
from mcpkit.auth import Jwt
from mcpkit.auth.fetching import FetchError, fetch_document
from mcpkit.common import proxies
from tests.helpers.signed_tokens import Signer

pytestmark = pytest.mark.anyio

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "200"))
VARIABLES = ["HTTP_PROXY", "https_proxy", "ALL_PROXY"]
UNUSABLE = [
    "socks://127.0.0.1:1",
    "socks5://127.0.0.1:1",
    "socks4://user:secret@127.0.0.1:1",
    "ftp://127.0.0.1:1",
    "http://",
    "http://user:secret@127.0.0.1:port",
    "http://[::1",
    "://",
    "secret word",
]
EXEMPT = [
    "127.0.0.1",
    "localhost",
    "127.0.0.0/8",
    "::1",
    "[::1]",
    ".localhost",
    "*",
    "other.example",
    "*.x",
    "http://",
    "%",
    "",
    " ",
]
HOSTS = ["127.0.0.1", "127.0.0.2", "localhost", "[::1]", "a.localhost"]


@asynccontextmanager
async def listening(hits: list[str], name: str) -> AsyncIterator[int]:
    """Listen as a proxy does that notes each connection and closes it."""

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        hits.append(name)
        writer.close()

    server = await asyncio.start_server(note, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def environment(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    """Set the proxies of the environment, and no others."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


async def route(client: httpx2.AsyncClient, url: str, hits: list[str]) -> str:
    """Return which proxy a request went through, none, or the error of one that cannot be used."""
    hits.clear()
    async with client:
        try:
            await client.get(url, timeout=10)
        except httpx2.UnsupportedProtocol as error:
            return str(error)
        except httpx2.HTTPError:
            pass
    return hits[0] if hits else "none"


async def test_requests_go_through_the_same_proxy_as_with_httpx2_and_one_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hits: list[str] = []
    limits = httpx2.Limits()
    seen: set[str] = set()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = free.getsockname()[1]
    async with AsyncExitStack() as stack:
        ports = {name: await stack.enter_async_context(listening(hits, name)) for name in VARIABLES}
        for seed in range(EXAMPLES):
            draw = random.Random(seed)
            named = draw.sample(VARIABLES, draw.randrange(1, 4))
            usable = {name: f"{draw.choice(['http://', ''])}127.0.0.1:{ports[name]}" for name in named}
            unusable = {name: draw.choice(UNUSABLE) for name in named if draw.random() < 0.6}
            exempt = {"NO_PROXY": ",".join(draw.choices(EXEMPT, k=draw.randrange(4)))}
            url = f"{draw.choice(['http', 'https'])}://{draw.choice(HOSTS)}:{closed}/"
            environment(monkeypatch, {**usable, **exempt})
            try:
                judge = httpx2.AsyncClient(trust_env=True, verify=False)
            except httpx2.InvalidURL:  # httpx2 2.0 does not know IPv6 addresses in brackets in NO_PROXY
                continue
            expected = await route(judge, url, hits)
            environment(monkeypatch, {**usable, **unusable, **exempt})
            found = await route(proxies.client(False, trust_env=True, limits=limits), url, hits)
            seen.add(expected)
            if expected in unusable:
                assert found.startswith(f"the proxy of {expected} cannot be used: "), (seed, found)
                assert "NO_PROXY" in found
                assert "secret" not in found
            else:
                assert found == expected, (seed, unusable, exempt, url)
    assert seen == {*VARIABLES, "none"}


async def test_a_client_names_the_proxy_it_cannot_use_and_does_not_try_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment(monkeypatch, {"all_proxy": "socks://127.0.0.1:1"})
    with pytest.raises(
        TransportError, match=r"the proxy of all_proxy cannot be used: its scheme is 'socks'.* NO_PROXY"
    ):
        async with Client("http://127.0.0.1:9/mcp"):
            pass
    with pytest.raises(
        TransportError, match=r"the proxy of proxy= cannot be used: socks5:// needs .*socksio"
    ):
        async with Client("http://127.0.0.1:9/mcp", proxy="socks5://127.0.0.1:1"):
            pass


async def test_documents_that_a_proxy_keeps_away_are_not_there_for_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment(monkeypatch, {"HTTPS_PROXY": "socks5://127.0.0.1:1"})
    with pytest.raises(FetchError, match=r"the proxy of HTTPS_PROXY cannot be used") as caught:
        await fetch_document("https://id.example.com/keys", "the keys")
    assert caught.value.may_pass


async def test_a_server_whose_keys_a_proxy_keeps_away_answers_503(monkeypatch: pytest.MonkeyPatch) -> None:
    environment(monkeypatch, {"ALL_PROXY": "socks://127.0.0.1:1"})
    issuer = "https://id.example.com"
    server = Server("notes", auth=Jwt(issuer))
    app = server.asgi(public_url="https://mcp.example.com/mcp")
    now = int(time.time())
    times = {"iat": now - 60, "nbf": None, "exp": now + 600}
    token = Signer().token(iss=issuer, aud="https://mcp.example.com/mcp", **times)
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="https://mcp.example.com") as client:
        message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        answer = await client.post("/mcp", json=message, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 503, answer.text
