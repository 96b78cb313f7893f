"""Garbage from everywhere at once, browsers, clients and the provider: nothing breaks, and nobody is let in."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import anyio
import httpx2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.helpers.two_browsers import EDITOR, ORIGIN, World, answer, consented

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
            "access_token",
            "token_type",
            "expires_in",
            "refresh_token",
            "scope",
            "id_token",
            "error",
            "sub",
            "email",
        ]
    ),
    JSON,
    max_size=5,
)
BODY = (
    ANSWER.map(lambda said: json.dumps(said).encode())
    | st.binary(max_size=60)
    | JSON.map(lambda said: json.dumps(said).encode())
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


async def came_back(pairs: list[tuple[str, str]], cookies: list[str], *, has_state: bool) -> None:
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
def test_callbacks(pairs: list[tuple[str, str]], cookies: list[str], has_state: bool) -> None:
    anyio.run(lambda: came_back(pairs, cookies, has_state=has_state))


async def answered(body: bytes, at: str, kind: str, status: int, *, openid: bool) -> None:
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
    said = answer(ended)
    assert said["iss"] == ORIGIN
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
def test_answers_of_the_provider(body: bytes, at: str, kind: str, status: int, openid: bool) -> None:
    if not openid and at in {"/keys", "/.well-known/openid-configuration"}:
        return

    async def run() -> Any:
        await answered(body, at, kind, status, openid=openid)

    anyio.run(run)
