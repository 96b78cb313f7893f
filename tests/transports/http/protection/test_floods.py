"""Floods of invalid tokens and anonymous requests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpkit import Access, Limits, Principal, Server
from mcpkit.auth import AccessToken, TokenVerifier
from mcpkit.transports.http.protection import verification
from tests.helpers.raw_client import Client, Serve, initialize
from tests.helpers.servers.protected import Table, bearer
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio


EVE: dict[str, Any] = {"client": ("203.0.113.7", 50000)}


ADA: dict[str, Any] = {"client": ("203.0.113.8", 50000)}


@pytest.mark.limit("bad access tokens from one address")
async def test_bad_tokens_are_limited_per_address(
    server: Server, serve: Serve, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "MOST_BAD", 5)
    async with serve(server) as client:

        async def status(name: str, who: dict[str, Any]) -> int:
            return (await client.post(initialize(), bearer(name), **who).whole()).status

        assert await status("eve", EVE) == 200
        assert [await status(f"bad{number}", EVE) for number in range(7)] == [401] * 5 + [429] * 2
        pending = len(table.asked)
        refused = await client.post(initialize(), bearer("late"), **EVE).whole()
        assert refused.status == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert b"too many invalid access tokens were sent from address 203.0.113.7" in refused.body
        assert len(table.asked) == pending
        assert await status("eve", EVE) == 200  # what is known is good all the same
        assert await status("ada", ADA) == 200
        assert await status("bad", ADA) == 401
        assert (
            await client.post(initialize(), **EVE).whole()
        ).status == 401  # a request without a token is challenged
        assert [await status(f"bad{number}", {}) for number in range(9)] == [401] * 9  # perhaps a proxy's


class GatedVerifier(TokenVerifier):
    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.running = 0

    async def verify(self, token: str, audience: str) -> AccessToken:
        self.running += 1
        await self.gate.wait()
        self.running -= 1
        return AccessToken(Principal(token))


@pytest.mark.limit("access tokens that are verified at a time")
async def test_concurrent_verifications_are_limited_per_address(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "MOST_AT_ONCE", 8)
    slow = GatedVerifier()
    async with serve(Server("s", auth=slow)) as client:
        flood = [client.post(initialize(), bearer(f"eve{number}"), **EVE) for number in range(12)]
        await until(lambda: slow.running + sum(each.task.done() for each in flood) == 12)
        assert slow.running == 4
        ada = client.post(initialize(), bearer("ada"), **ADA)
        await until(lambda: slow.running == 5)
        slow.gate.set()
        assert sorted([(await each.whole()).status for each in flood]) == [200] * 4 + [503] * 8
        refused = next(each for each in flood if each.status == 503)
        assert refused.headers["retry-after"] == "1"
        assert (
            b"too many access tokens are being verified (4 from address 203.0.113.7; one client"
            in refused.body
        )
        assert (await ada.whole()).status == 200
        assert (await client.post(initialize(), bearer("late"), **EVE).whole()).status == 200


async def test_verification_failure_is_logged_once(
    serve: Serve, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(TokenVerifier):
        """Fails."""

        async def verify(self, token: str, audience: str) -> AccessToken:
            raise KeyError(token)

    table.is_down = True
    for verifier, status in ((table, 503), (Broken(), 500)):
        caplog.clear()
        async with serve(Server("s", auth=verifier)) as client:
            for number in range(10):
                answer = await client.post(initialize(), bearer(f"eve{number}"), **EVE).whole()
                assert answer.status == status
        texts = [
            each
            for each in caplog.messages
            if "access tokens cannot be verified" in each or "the token verifier raised" in each
        ]
        assert len(texts) == 1
    assert "KeyError: '...'" in caplog.text
    assert "eve" not in caplog.text


async def call(client: Client, name: str, token: dict[str, str], who: dict[str, Any]) -> int:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name, **token}
    params = {"name": name, "arguments": {}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return (await client.post(message, headers, **who).whole()).status


async def test_anonymous_requests_share_half_of_places(serve: Serve, table: Table) -> None:
    server = Server("s", auth=table, limits=Limits(concurrent_requests=16))
    gate, running = asyncio.Event(), 0

    @server.tool(access=Access(allow_anonymous=True))
    async def hold() -> str:
        nonlocal running
        running += 1
        await gate.wait()
        return "ended"

    async with serve(server) as client:
        peers: list[dict[str, Any]] = [{"client": (f"203.0.113.{number}", 1)} for number in range(16)]
        peers += [{}] * 4  # through a proxy of this machine
        one = [asyncio.create_task(call(client, "hold", {}, peers[0])) for _ in range(8)]
        await until(lambda: running + sum(each.done() for each in one) == 8)
        assert running == 4  # of those of all
        others = [asyncio.create_task(call(client, "hold", {}, peer)) for peer in peers]
        await until(lambda: running + sum(each.done() for each in (*one, *others)) == 8 + len(peers))
        assert running == 8
        known = [asyncio.create_task(call(client, "hold", bearer("ada"), {})) for _ in range(4)]
        await until(lambda: running == 12)
        gate.set()
        answers = await asyncio.gather(*one, *others, *known)
    assert sorted(answers) == [200] * 12 + [503] * 20
    assert server.engine.runtime.running.taken == 0
