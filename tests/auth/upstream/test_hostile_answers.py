"""Providers that answer with nonsense, too much, too slowly, or not at all; and secrets that nobody may read."""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from mcpkit.auth import Upstream
from mcpkit.auth.fetching import MAX_DOCUMENT
from mcpkit.auth.upstream.errors import UpstreamRefusedError, UpstreamUnavailableError
from tests.helpers.openid_site import KEYS, METADATA, REVOKE, TOKEN, USERINFO, OpenIdSite
from tests.helpers.scripted_http import Asked, Reply, scripted
from tests.helpers.upstream_login import UpstreamLogin
from tests.helpers.upstream_site import CLIENT

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

WRITTEN = "the+secret+of+the+proxy Basic cHJveHk6dGhlK3NlY3JldCtvZit0aGUrcHJveHk="
TOKENS = {"access_token": "a", "token_type": "Bearer"}


def only(path: str, answer: Response) -> Callable[[Request], Response | None]:
    return lambda request: answer if request.url.path == path else None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Response(status_code=500), "has answered 500"),
        (Response(status_code=429), "has answered 429"),
        (Response(status_code=204), "no JSON object"),
        (RedirectResponse("/elsewhere"), "HTTP 307"),
        (HTMLResponse("<h1>Sign in</h1>"), r"no JSON object .*\(text/html\)"),
        (HTMLResponse("<h1>Forbidden</h1>", 403), r"text/html.*HTTP 403"),
        (
            Response("access_token=a&token_type=bearer", media_type="text/plain"),
            r"no JSON object .*\(text/plain\)",
        ),
        (JSONResponse(["a"]), "no JSON object"),
        (JSONResponse(None), "no JSON object"),
        (Response('{"access_token": "a", "access_token": "b"}', media_type="application/json"), "no JSON"),
        (Response(b"\xff\xfe", media_type="application/json"), "no JSON object"),
        (Response("x" * (MAX_DOCUMENT + 1), media_type="application/json"), "more than 524,288 bytes"),
        (Response(b"x", headers={"Content-Encoding": "br"}), "compressed its answer"),
        (Response(b"this is no gzip", headers={"Content-Encoding": "gzip"}), "cannot be decompressed"),
        (JSONResponse({}), "no token that could be one"),
        (JSONResponse(TOKENS, 201), "has answered 201"),
        (JSONResponse(TOKENS, 400), "has answered 400"),
        (JSONResponse({**TOKENS, "access_token": ""}), "no token that could be one"),
        (JSONResponse({**TOKENS, "access_token": 7}), "no token that could be one"),
        (JSONResponse({**TOKENS, "access_token": "a b"}), "no token that could be one"),
        (JSONResponse({**TOKENS, "access_token": "a\r\nX-Evil: b"}), "no token that could be one"),
        (JSONResponse({**TOKENS, "access_token": "x" * 16_385}), "no token that could be one"),
        (JSONResponse({**TOKENS, "refresh_token": 7}), r"\(refresh_token\)"),
        (JSONResponse({**TOKENS, "refresh_token": ""}), r"\(refresh_token\)"),
        (JSONResponse({**TOKENS, "token_type": "DPoP"}), "no bearer token"),
        (JSONResponse({**TOKENS, "token_type": "mac"}), "no bearer token"),
        (JSONResponse({**TOKENS, "token_type": None}), "no bearer token"),
        (JSONResponse({**TOKENS, "expires_in": -1}), "expires_in"),
        (JSONResponse({**TOKENS, "expires_in": "soon"}), "expires_in"),
        (JSONResponse({**TOKENS, "expires_in": 1e12}), "expires_in"),
        (JSONResponse({**TOKENS, "expires_in": True}), "expires_in"),
        (JSONResponse({**TOKENS, "scope": 7}), r"\(scope\)"),
        (JSONResponse({**TOKENS, "scope": ["openid"]}), r"\(scope\)"),
        (JSONResponse({**TOKENS, "scope": "a\nb"}), r"\(scope\)"),
        (JSONResponse({**TOKENS, "scope": "a " * 2_000}), r"\(scope\)"),
        (JSONResponse({"error": "invalid_client"}, 401), "look at client_id"),
        (JSONResponse({"error": "unauthorized_client"}, 403), "look at client_id"),
        (JSONResponse({"error": "temporarily_unavailable"}, 400), "refuses for now"),
        (JSONResponse({"error": "slow_down"}), "refuses for now"),
        (JSONResponse({"error": {"code": 1}}, 400), "refuses for now"),
        (JSONResponse({"error": ""}), "refuses for now"),
    ],
)
async def test_nonsense_is_no_answer(
    provider: OpenIdSite, login: UpstreamLogin, answer: Response, problem: str
) -> None:
    _, tokens = await login.redeemed()
    back = await login.answered()
    provider.instead = only(TOKEN, answer)
    for asking in (login.redeemed(back), login.upstream.provider.refresh(tokens)):
        with pytest.raises(UpstreamUnavailableError, match=problem):
            await asking
    provider.mend()
    assert (await login.upstream.provider.refresh(tokens)).access_token, "nothing is lost"


@pytest.mark.parametrize(
    ("said", "error", "description"),
    [
        ({"error": "invalid_grant"}, "invalid_grant", ""),
        ({"error": "invalid_grant", "error_description": 7}, "invalid_grant", ""),
        (
            {"error": "invalid_grant", "error_description": 'no "such" \\ \r\nX: é'},
            None,
            "no ?such? ? ??X: ?",
        ),
        ({"error": "invalid_grant", "error_description": "x" * 5_000}, None, "x" * 300),
        (
            {"error": "a", "error_description": "The user 'ada@example.com' may not"},
            None,
            "The user '...' may not",
        ),
        ({"error": "x" * 5_000}, "x" * 300, ""),
        ({"error": "é\n"}, "??", ""),
    ],
)
async def test_what_a_provider_says_is_bounded_and_plain(
    provider: OpenIdSite, login: UpstreamLogin, said: Any, error: str | None, description: str
) -> None:
    answer = await login.answered()
    provider.instead = only(TOKEN, JSONResponse(said, 400))
    with pytest.raises(UpstreamRefusedError) as caught:
        await login.redeemed(answer)
    assert (caught.value.error, caught.value.description) == (error or said["error"], description)
    if isinstance(said["error"], str) and said["error"]:
        with pytest.raises(UpstreamRefusedError) as returned:
            await login.redeemed({name: str(value) for name, value in said.items()})
        assert returned.value.error == caught.value.error


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (HTMLResponse("hello"), r"no JSON object .*\(text/html\)"),
        (Response("eyJ.eyJ.x", media_type="application/jwt"), "application/jwt"),
        (Response(status_code=403), "has answered 403"),
        (Response(status_code=503), "has answered 503"),
        (RedirectResponse("/"), "has answered 307"),
        (Response("x" * (MAX_DOCUMENT + 1), media_type="application/json"), "more than 524,288 bytes"),
    ],
)
async def test_userinfo_that_is_none(
    provider: OpenIdSite, login: UpstreamLogin, answer: Response, problem: str
) -> None:
    provider.instead = only(USERINFO, answer)
    with pytest.raises(UpstreamUnavailableError, match=problem):
        await login.redeemed()


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"issuer": "https://other.example.com"}, "another issuer"),
        ({"authorization_endpoint": None}, "has no authorization_endpoint"),
        ({"token_endpoint": "http://id.example.com/token"}, "not encrypted"),
        ({"userinfo_endpoint": 7}, "is no URL"),
        ({"token_endpoint_auth_methods_supported": "client_secret_basic"}, "no list of strings"),
    ],
)
async def test_metadata_that_is_wrong_is_not_believed(
    provider: OpenIdSite, login: UpstreamLogin, metadata: dict[str, Any], problem: str
) -> None:
    provider.metadata = metadata
    with pytest.raises(UpstreamUnavailableError, match=problem):
        await login.url()


async def test_a_provider_that_is_down_is_left_alone_for_a_moment(
    provider: OpenIdSite, login: UpstreamLogin
) -> None:
    provider.break_down()
    asking = await asyncio.gather(*(login.url() for _ in range(20)), return_exceptions=True)
    assert {type(each) for each in asking} == {UpstreamUnavailableError}
    assert provider.asked[METADATA] == 1


async def test_what_has_been_fetched_holds_while_a_provider_is_down(provider: OpenIdSite) -> None:
    now = [1_800_000_000.0]
    upstream = Upstream.openid(provider.url, *CLIENT, clock=lambda: now[0])
    url = await UpstreamLogin(upstream).url()
    provider.break_down()
    now[0] += 100_000
    assert await UpstreamLogin(upstream).url() == url
    await upstream.provider.aclose()
    assert provider.asked[METADATA] == 2


@pytest.mark.parametrize("path", [METADATA, TOKEN, KEYS, USERINFO])
async def test_a_provider_that_is_slow_is_not_waited_for_for_ever(provider: OpenIdSite, path: str) -> None:
    async with httpx2.AsyncClient(timeout=None) as client:
        upstream = Upstream.openid(provider.url, *CLIENT, timeout=0.5, http_client=client)
        login = UpstreamLogin(upstream)
        if path != METADATA:
            answer = await UpstreamLogin(patient := Upstream.openid(provider.url, *CLIENT)).answered()
            await patient.provider.aclose()
        provider.held = path
        provider.is_open.clear()
        with pytest.raises(UpstreamUnavailableError, match=r"not answered within 0\.5 s"):
            await (login.url() if path == METADATA else login.redeemed(answer))
        provider.mend()
        await upstream.provider.aclose()


async def test_a_provider_that_drips_is_not_waited_for() -> None:
    async def drip(asked: Asked, reply: Reply) -> None:
        await reply.raw(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"
        )
        while True:
            await reply.raw(b" ")
            await asyncio.sleep(0.05)

    async with scripted(drip) as server:
        upstream = _by_hand(server.url, timeout=0.5)
        with pytest.raises(UpstreamUnavailableError, match=r"not answered within 0\.5 s"):
            await UpstreamLogin(upstream).redeemed({"code": "a"})
        await upstream.provider.aclose()


async def test_a_code_is_sent_once() -> None:
    async def cut(asked: Asked, reply: Reply) -> None:
        reply.cut()

    async with scripted(cut) as server:
        upstream = _by_hand(server.url)
        with pytest.raises(UpstreamUnavailableError, match="broke before the answer"):
            await UpstreamLogin(upstream).redeemed({"code": "a"})
        assert len(server.asked) == 1, "it may have been redeemed"
        await upstream.provider.aclose()


async def test_a_provider_that_is_not_there() -> None:
    async with scripted(lambda asked, reply: reply.send(200)) as server:
        where = server.url
    upstream = _by_hand(where)
    with pytest.raises(UpstreamUnavailableError, match="cannot connect"):
        await UpstreamLogin(upstream).redeemed({"code": "a"})
    await upstream.provider.aclose()


async def test_no_cookie_of_a_provider_is_kept() -> None:
    async def bake(asked: Asked, reply: Reply) -> None:
        assert "cookie" not in asked.headers
        headers = {"Set-Cookie": "session=ada; Path=/"}
        await reply.json({"id": 1, **TOKENS}, headers=headers)

    async with scripted(bake) as server:
        upstream = _by_hand(server.url, subject_claim="id")
        for _ in range(2):
            assert (await UpstreamLogin(upstream).redeemed({"code": "a"}))[0].subject == "1"
        await upstream.provider.aclose()
        assert len(server.asked) == 4


@pytest.mark.slow
def test_each_event_loop_has_its_connections(provider: OpenIdSite) -> None:
    upstream = Upstream.openid(provider.url, *CLIENT)
    found: list[str] = []

    async def once() -> None:
        found.append((await UpstreamLogin(upstream).redeemed())[0].subject)
        await upstream.provider.aclose()

    threads = [threading.Thread(target=lambda: asyncio.run(once())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["sub-of-ada"] * 3


@pytest.mark.slow
async def test_nothing_of_a_secret_is_said_or_written_down(
    provider: OpenIdSite, login: UpstreamLogin, caplog: pytest.LogCaptureFixture
) -> None:
    shown: list[str] = []

    def note(error: BaseException) -> None:
        shown.extend((str(error), repr(error), "".join(traceback.format_exception(error))))

    identity, tokens = await login.redeemed()
    answer = await login.answered()  # in a browser, which says all
    with caplog.at_level(logging.DEBUG):
        for status in (200, 400, 401, 403, 500):
            for error in ("invalid_grant", "invalid_client", "slow_down"):
                for sent, asking in (
                    (f"{answer['code']} {login.verifier}", login.redeemed(answer)),
                    (f"{tokens.refresh_token}", login.upstream.provider.refresh(tokens)),
                    (f"{tokens.access_token}", login.upstream.provider.identify(tokens)),
                    (f"{tokens.refresh_token}", login.upstream.provider.revoke(tokens)),
                ):
                    echoed = {"error": error, "error_description": f"{sent} of {CLIENT} {WRITTEN}"}
                    provider.instead = lambda _, echoed=echoed, status=status: JSONResponse(echoed, status)
                    try:
                        await asking
                    except (UpstreamRefusedError, UpstreamUnavailableError) as caught:
                        note(caught)
        for broken in (
            {"access_token": f"{tokens.access_token} \n"},
            {"access_token": tokens.access_token, "expires_in": tokens.refresh_token},
            {"access_token": tokens.access_token, "scope": f"{tokens.refresh_token}\n"},
            {"access_token": tokens.access_token, "id_token": f"{answer['code']}.b.c"},
        ):
            provider.instead = only(TOKEN, JSONResponse(broken))
            with pytest.raises(UpstreamUnavailableError) as unavailable:
                await login.redeemed(answer)
            note(unavailable.value)
        renewed = replace(tokens, access_token=tokens.access_token)
        shown += [
            repr(tokens),
            str(renewed),
            repr(identity),
            repr(login.upstream),
            repr(vars(login.upstream)),
        ]
    assert len(shown) > 100
    said = "\n".join([*shown, caplog.text])
    for secret in {*provider.secrets, str(CLIENT[1]), login.verifier, *WRITTEN.split()} - {"Basic"}:
        assert secret not in said
    assert REVOKE in said, "what is searched says something"


def _by_hand(url: str, **options: Any) -> Upstream:
    endpoints = {f"{name}_endpoint": url for name in ("authorization", "token", "userinfo")}
    return Upstream.oauth(url, *CLIENT, **endpoints, **options)
