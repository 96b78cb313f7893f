"""Invalid, slow and missing answers of a provider, and secrets in errors and logs."""

from collections.abc import Callable

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response

from mcpkit.auth import UpstreamProvider
from mcpkit.auth.http_client import MAX_DOCUMENT
from mcpkit.auth.upstream.upstream_client import (
    UpstreamRefusedError,
    UpstreamTokens,
    UpstreamUnavailableError,
)
from tests.helpers.fake_idp import CLIENT, KEYS, OPENID, TOKEN, USERINFO, UpstreamLogin
from tests.helpers.tables import each_row

TOKENS = {"access_token": "a", "token_type": "Bearer"}


def only(path: str, answer: Response) -> Callable[[Request], Response | None]:
    return lambda request: answer if request.url.path == path else None


def json_text(text: str | bytes, **headers: str) -> Response:
    return Response(text, media_type="application/json", headers=headers)


TOO_LONG = (json_text("x" * (MAX_DOCUMENT + 1)), "more than the maximum of 524,288 bytes")
INVALID_MEMBERS = [
    ("access_token", ["", 7, "a b", "a\r\nX-Evil: b", "x" * 16_385], "a missing or invalid token"),
    ("refresh_token", [7, ""], r"\(refresh_token\)"),
    ("token_type", ["DPoP", "mac", None], "not a bearer token"),
    ("expires_in", [-1, "soon", 1e12, True], "expires_in"),
    ("scope", [7, ["openid"], "a\nb", "a " * 2_000], r"\(scope\)"),
]


@pytest.mark.slow
@each_row(("answer", "problem"), [
    *((Response(status_code=status), f"responded with HTTP {status}") for status in (500, 429)),
    (Response(status_code=204), "JSON object"),
    (RedirectResponse("/elsewhere"), "HTTP 307"),
    (HTMLResponse("<h1>Sign in</h1>"), r"JSON object .*\(text/html\)"),
    (HTMLResponse("<h1>Forbidden</h1>", 403), r"text/html.*HTTP 403"),
    (PlainTextResponse("access_token=a&token_type=bearer"), r"JSON object .*\(text/plain\)"),
    *((json_text(text), "JSON object") for text in (
        '["a"]', "null", '{"access_token": "a", "access_token": "b"}', b"\xff\xfe",
    )),
    TOO_LONG,
    (json_text(b"x", **{"Content-Encoding": "br"}), "a Content-Encoding that was not requested"),
    (json_text(b"this is no gzip", **{"Content-Encoding": "gzip"}), "cannot be decompressed"),
    (JSONResponse({}), "a missing or invalid token"),
    *((JSONResponse(TOKENS, status), f"responded with HTTP {status}") for status in (201, 400)),
    *(
        (JSONResponse({**TOKENS, name: value}), problem)
        for name, values, problem in INVALID_MEMBERS
        for value in values
    ),
    (JSONResponse({"error": "invalid_client"}, 401), "Check client_id"),
    (JSONResponse({"error": "unauthorized_client"}, 403), "Check client_id"),
    *((JSONResponse({"error": error}, 400), "is temporarily unavailable") for error in (
        "temporarily_unavailable", "slow_down", {"code": 1}, "",
    )),
])  # fmt: skip
async def test_token_response_invalid_is_unavailable(provider, login, answer, problem):
    tokens = UpstreamTokens("access", "refresh", None, ())
    provider.instead = only(TOKEN, answer)
    for asking in (login.redeemed({"code": "a"}), login.upstream.provider.refresh(tokens)):
        with pytest.raises(UpstreamUnavailableError, match=problem):
            await asking
    assert not provider.asked["/elsewhere"]


@each_row("answer", [json_text("eyJ.eyJ.x"), Response(status_code=403), RedirectResponse("/"), TOO_LONG[0]])
async def test_userinfo_response_invalid_is_unavailable(provider, login, answer):
    provider.instead = only(USERINFO, answer)
    with pytest.raises(UpstreamUnavailableError, match="userinfo"):
        await login.redeemed()


@each_row(("body", "error", "description"), [
    ({"error": "invalid_grant"}, "invalid_grant", ""),
    ({"error": "invalid_grant", "error_description": 7}, "invalid_grant", ""),
    ({"error": "a", "error_description": 'no "such" \\ \r\nX: é'}, "a", "no ?such? ? ??X: ?"),
    ({"error": "a", "error_description": "x" * 5_000}, "a", "x" * 300),
    ({"error": "a", "error_description": "User 'ada@example.com' may not"}, "a", "User '...' may not"),
    ({"error": "x" * 5_000}, "x" * 300, ""),
    ({"error": "é\n"}, "??", ""),
])  # fmt: skip
async def test_provider_error_text_is_limited(provider, login, body, error, description):
    provider.repair()
    answer = await login.answered()
    provider.instead = only(TOKEN, JSONResponse(body, 400))
    with pytest.raises(UpstreamRefusedError) as caught:
        await login.redeemed(answer)
    assert (caught.value.error, caught.value.description) == (error, description)
    with pytest.raises(UpstreamRefusedError) as returned:
        await login.redeemed({name: str(value) for name, value in body.items()})
    assert returned.value.error == error


@pytest.mark.parametrize("path", [OPENID, TOKEN, KEYS, USERINFO])
async def test_provider_slow_times_out(provider, login, path):
    answer = await login.answered()
    async with httpx2.AsyncClient(timeout=None) as client:
        upstream = UpstreamProvider.openid(provider.url, *CLIENT, timeout=0.5, http_client=client)
        provider.held = path
        provider.is_open.clear()
        with pytest.raises(UpstreamUnavailableError, match=r"did not respond within 0\.5 s"):
            await UpstreamLogin(upstream).redeemed(answer)
        provider.repair()
        await upstream.provider.aclose()
