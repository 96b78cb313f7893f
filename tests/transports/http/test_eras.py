"""Two eras on one URL: the envelope decides, never the method (basic/versioning)."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Server
from tests.helpers.asgi_client import Serve
from tests.helpers.pipe import HANDSHAKE, META, stateless_meta
from tests.helpers.stateless_server import REVISION, request, text_of
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio


VERSIONS = [None, "", *HANDSHAKE, REVISION, "2099-01-01", "v999.0.0", f"{REVISION}, {REVISION}"]


@pytest.mark.parametrize("named", [None, *HANDSHAKE, REVISION, "v999.0.0", "", 7])
@pytest.mark.parametrize("header", VERSIONS)
async def test_header_and_meta_decide_the_era(
    header: str | None, named: Any, server: Server, serve: Serve
) -> None:
    meta = {META + "clientCapabilities": {}}
    if named is not None:
        meta[META + "protocolVersion"] = named
    if named is None:
        # -32600 is what the handshake era says of a request without a session.
        expected = -32600 if header in {None, *HANDSHAKE} else -32602 if header == REVISION else -32022
    elif not isinstance(named, str):
        expected = -32602
    elif header != named:
        expected = -32020
    else:
        expected = None if named == REVISION else -32022
    async with serve(server) as client:
        headers = {"mcp-protocol-version": header, "mcp-method": "tools/list"}
        answer = await client.post(request("tools/list", {"_meta": meta}), headers).whole()
        body = answer.json()
        assert body.get("error", {}).get("code") == expected, body
        assert answer.status == (200 if expected is None else 400)
        if expected == -32022:
            requested = header if named is None else named
            assert body["error"]["data"] == {"supported": [REVISION], "requested": requested}
        if expected != -32600:
            assert body["id"] == 1


async def test_a_revision_that_is_not_served_is_told_before_its_headers_are_missed(
    server: Server, serve: Serve
) -> None:
    """What else has to be in the headers is for that revision to say."""
    async with serve(server) as client:
        meta = stateless_meta("v999.0.0")
        answer = client.post(request("tools/list", {"_meta": meta}), {"mcp-protocol-version": "v999.0.0"})
        assert (await answer.whole()).status == 400
        assert answer.error()["code"] == -32022


async def test_initialize_opens_a_session_though_it_wants_this_revision(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize(REVISION)
        assert session.revision == "2025-11-25"
        assert await session.text("envelope") == "handshake 2025-11-25 test"


async def test_both_eras_are_served_side_by_side(server: Server, serve: Serve, work: Work) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        waiting = client.call("wait", id=1)
        await work.started.wait()
        assert await session.text("envelope") == "handshake 2025-11-25 test"
        assert text_of(await client.call("envelope").response()) == f"stateless {REVISION} wire"
        work.gate.set()
        assert text_of(await waiting.response()) == "waited"
