"""Floods, oversized requests and random input at an OAuthProxy."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlencode

import anyio
import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.auth.proxy.world import EDITOR, EVIL, MCP, ORIGIN, World, answer, consented, logged_in
from tests.helpers.oauth_flow import Login

pytestmark = pytest.mark.anyio


METADATA = {"redirect_uris": [EVIL], "token_endpoint_auth_method": "none"}


@pytest.mark.parametrize("size", [40_000, 1_000_000])
async def test_oversized_requests_are_rejected(size):
    world = World()
    login = await world.client(EDITOR)
    big = "x" * size
    line = big[:60_000]  # no client sends longer ones
    async with world.browser() as attacker:
        answers = [
            await attacker.get("/authorize", params={**login.query, "state": line}),
            await attacker.get("/authorize", params={**login.query, "client_id": line}),
            await attacker.get("/callback", params={"state": line}),
            await attacker.post("/authorize", data={"request": big}),
            await attacker.post("/token", data={"grant_type": "refresh_token", "refresh_token": big}),
            await attacker.post("/revoke", data={"token": big}),
            await attacker.post("/register", json={**METADATA, "client_name": big}),
            await attacker.post("/register", json={**METADATA, "x": big}),
            await attacker.post("/register", json={"redirect_uris": [f"https://evil.example/{big}"]}),
            await attacker.post("/register", json={"redirect_uris": [EVIL] * 1_000}),
            await attacker.post(
                "/register", content=b"[" * size, headers={"Content-Type": "application/json"}
            ),
        ]
    for response in answers:
        assert response.status_code in {400, 401, 413}, response.url.path
        assert len(response.content) < 20_000
        assert big not in response.text


async def test_endless_body_does_not_block_others():
    """A form that is never send_request whole: others are served meanwhile."""
    world = World()
    over = asyncio.Event()

    async def endless() -> Any:
        yield b"grant_type=refresh_token&refresh_token="
        await over.wait()

    async with world.browser(address="198.51.100.1") as attacker, world.browser("ada") as victim:
        held = [
            asyncio.create_task(
                attacker.post(
                    "/token", content=endless(), headers={"Content-Type": "application/x-www-form-urlencoded"}
                )
            )
            for _ in range(20)
        ]
        login = await world.client(EDITOR)
        assert await world.holds(login, await logged_in(world, victim, login)) == "ada"
        over.set()
        await asyncio.gather(*held)


async def test_concurrent_document_requests_fetch_once(monkeypatch):
    """A host that has its users' clients on its own servers: all of them come from one address, as one client."""
    fetched = 0
    waiting = asyncio.Event()

    async def answered(request: httpx2.Request) -> httpx2.Response:
        nonlocal fetched
        fetched += 1
        await waiting.wait()
        document = {"client_id": str(request.url), "client_name": "Editor", "redirect_uris": [EDITOR]}
        return httpx2.Response(200, json=document)

    def client() -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(answered))

    monkeypatch.setattr("mcpkit.auth.authority.public_internet.public_client", client)
    monkeypatch.setattr("mcpkit.auth.authority.client_documents._PATIENCE", 60.0)
    world = World()
    login = Login("https://editor.example.org/client.json", EDITOR, resource=MCP)
    async with world.browser(address="198.51.100.1") as host:
        asked = [asyncio.create_task(host.post("/token", data=login.form("x"))) for _ in range(40)]
        asyncio.get_running_loop().call_later(0.5, waiting.set)
        answers = await asyncio.gather(*asked)
    assert {each.status_code for each in answers} == {400}  # invalid_grant: the client was found
    assert fetched == 1


RELAXED = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


TEXT = st.text(max_size=30) | st.sampled_from(
    ["", "x" * 3000, "\r\nSet-Cookie: a=b", "\x00", "<script>", "é"]
)


PAIRS = st.lists(
    st.tuples(
        st.sampled_from(["code", "state", "error", "error_description", "error_uri", "iss", "session_state"]),
        TEXT,
    ),
    max_size=5,
)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)


ANSWER = st.dictionaries(
    st.sampled_from(
        [
            "access_token", "token_type", "expires_in", "refresh_token", "scope", "id_token", "error", "sub",
            "email",
        ]
    ),
    JSON,
    max_size=5,
)  # fmt: skip


BODY = (
    ANSWER.map(lambda params: json.dumps(params).encode())
    | st.binary(max_size=60)
    | JSON.map(lambda params: json.dumps(params).encode())
)


def check(response: httpx2.Response) -> None:
    """Refuse what no answer may be."""
    assert response.status_code in {200, 303, 400, 403, 413, 429, 503}, response.text
    assert "Traceback" not in response.text
    assert "upstream-" not in response.text + str(response.headers)
    location = response.headers.get("location", EDITOR)
    assert location.startswith((EDITOR, "https://id.example.net/"))
    assert location.isascii()
    assert location.isprintable()
    for cookie in response.headers.get_list("set-cookie"):
        assert cookie.startswith("__Host-mcpkit-")
    assert response.headers["cache-control"] == "no-store"


async def check_callback(pairs: list[tuple[str, str]], cookies: list[str], *, has_state: bool) -> None:
    world = World()
    login = await world.client(EDITOR)
    async with world.browser("ada", address="127.0.0.1") as browser:
        state = answer(await consented(browser, login))["state"]
        given = [*pairs, ("state", state)] if has_state else pairs
        if cookies:
            [mine] = [each for each in browser.cookies.jar if "-login-" in each.name]
            names = [f"{mine.name}.{number}" for number in range(1, len(cookies))]
            for name, value in zip([mine.name, *names], cookies, strict=True):
                browser.cookies.set(name, value, domain="mcp.example.com")
        response = await browser.get(f"/callback?{urlencode(given, errors='surrogatepass')}")
    check(response)
    assert "code" not in answer(response)


@RELAXED
@given(PAIRS, st.lists(st.sampled_from(["AAAA", "A" * 3800, "=", "x.y", "%00"]), max_size=3), st.booleans())
def test_callback_generated_parameters(pairs, cookies, has_state):
    anyio.run(lambda: check_callback(pairs, cookies, has_state=has_state))


async def check_answer(body: bytes, at: str, kind: str, status: int, *, openid: bool) -> None:
    world = World(openid=openid)

    async def garbage(request: Request) -> Response:
        return Response(body, status, media_type=kind)

    world.provider.app.router.routes.insert(0, Route(at, garbage, methods=["GET", "POST"]))
    login = await world.client(EDITOR)
    async with world.browser("ada", address="127.0.0.1") as browser:
        sent = await consented(browser, login)
        check(sent)
        ended = await browser.follow(sent, until=EDITOR)
        check(ended)
    params = answer(ended)
    assert params["iss"] == ORIGIN
    found = await world.holds(login, ended)
    assert found is None or at == "/userinfo"  # who says who somebody is, is believed


@RELAXED
@given(
    BODY,
    st.sampled_from(["/token", "/userinfo", "/keys", "/.well-known/openid-configuration"]),
    st.sampled_from(["application/json", "text/html", "application/x-www-form-urlencoded"]),
    st.sampled_from([200, 200, 200, 400, 401, 403, 404, 500, 503]),
    st.booleans(),
)
def test_provider_generated_answers(body, at, kind, status, openid):
    if not openid and at in {"/keys", "/.well-known/openid-configuration"}:
        return

    async def run() -> Any:
        await check_answer(body, at, kind, status, openid=openid)

    anyio.run(run)
