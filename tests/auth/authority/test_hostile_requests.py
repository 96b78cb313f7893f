"""Generated requests to an authorization server: none is a 500, redirects elsewhere or leaks."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import parse_qs, quote_from_bytes, urlencode, urlsplit

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.auth import DevClient, DevUser
from tests.helpers.clock import Clock
from tests.helpers.oauth_flow import CALLBACK, MCP, ORIGIN, AuthServer, Login

HERE = AuthServer(
    [DevUser("ada"), DevUser("bob", password="the password of bob")],
    clients=[DevClient("job", secret="the secret of job", scopes=["notes:read"])],
    clock=Clock(),
    documents=lambda: httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(404))),
)


async def known_secrets() -> dict[str, str]:
    login = await HERE.login()
    tokens = await HERE.tokens(login)
    return {
        "client_id": login.client_id,
        "code": await HERE.code(await HERE.login()),
        "refresh_token": tokens["refresh_token"],
        "access_token": tokens["access_token"],
    }


KNOWN = anyio.run(known_secrets)


NAMES = st.sampled_from(
    [
        "client_id", "redirect_uri", "response_type", "response_mode", "state", "scope", "resource", "nonce",
        "code_challenge", "code_challenge_method", "grant_type", "code", "code_verifier", "refresh_token",
        "client_secret", "token", "token_type_hint", "request", "user", "password", "answer", "client_name",
    ]
)  # fmt: skip


GOOD = [
    *KNOWN.values(), CALLBACK, MCP, "code", "S256", "plain", "authorization_code", "refresh_token", "ada", "bob",
    "client_credentials", "job", "notes:read", "notes:admin", "query", "deny", "x" * 43, "x" * 3000,
    "https://evil.example/cb", "javascript:alert(1)", "http://127.0.0.1:9/callback", "\r\nSet-Cookie: a=b",
    "https://client.example/client.json", "\x00", "%", "é", "\U0001f600",
    "<script>", "{}", "[]", "..", "a.b.c", KNOWN["code"] + "x", KNOWN["refresh_token"][:-1], "",
]  # fmt: skip


PAIRS = st.lists(st.tuples(NAMES, st.one_of(st.sampled_from(GOOD), st.text(max_size=30))), max_size=12)


BASE = st.sampled_from(["authorize", "token", "none"])


HEADERS = st.dictionaries(
    st.sampled_from(["authorization", "cookie", "origin", "content-type", "host"]),
    st.one_of(
        st.sampled_from(
            [
                "Basic am9iOng=",
                "Basic",
                "Bearer x",
                "null",
                ORIGIN,
                "application/json",
                "a=b; mcpkit-=x",
                ";=;",
            ]
        ),
        st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=20),
    ),
    max_size=2,
)


RAW = st.one_of(
    st.binary(max_size=80), st.binary(max_size=40).map(lambda data: quote_from_bytes(data).encode())
)


def based(kind: str, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    login = Login(KNOWN["client_id"])
    good: dict[str, Any] = {
        "authorize": login.query,
        "token": {"grant_type": "refresh_token", "client_id": KNOWN["client_id"]},
    }.get(kind, {})
    changed = {name for name, _ in pairs}
    return [*((name, value) for name, value in good.items() if name not in changed), *pairs]


def check(response: httpx2.Response, sent: str) -> None:
    assert response.status_code < 500 or response.status_code == 503
    location = response.headers.get("location")
    if location is not None:
        assert urlsplit(location).hostname == "127.0.0.1"
        assert urlsplit(location).path == "/callback"
        assert "code" not in parse_qs(urlsplit(location).query)
        assert location.isascii()
        assert location.isprintable()
    assert "set-cookie" not in response.headers or response.headers["set-cookie"].startswith("mcpkit-")
    assert "Traceback" not in response.text
    assert "the password of bob" not in response.text.replace(sent, "")
    assert "the secret of job" not in response.text
    if "html" in response.headers.get("content-type", ""):
        assert "<script" not in response.text
        assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
    if response.url.path in {"/token", "/register", "/revoke", "/authorize"} and response.status_code != 405:
        assert response.headers["cache-control"] == "no-store"


async def sent(method: str, path: str, **options: Any) -> httpx2.Response:
    async with HERE.browser() as client:
        return await client.request(method, path, **options)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.DEBUG)
    yield
    all_headers = "\n".join(
        record.getMessage() for record in caplog.records if record.name.partition(".")[0] == "mcpkit"
    )
    for secret in (*KNOWN.values(), "the password of bob", "the secret of job"):
        assert secret not in all_headers


@given(BASE, PAIRS)
def test_authorize_generated_queries(kind, pairs):
    query = urlencode(based(kind, pairs), errors="surrogatepass")
    check(anyio.run(lambda: sent("GET", f"/authorize?{query}")), query)


@given(st.sampled_from(["/authorize", "/token", "/revoke", "/register"]), BASE, PAIRS, HEADERS)
def test_endpoints_generated_forms(path, kind, pairs, headers):
    body = urlencode(based(kind, pairs), errors="surrogatepass").encode()
    all_headers = {"content-type": "application/x-www-form-urlencoded", **headers}
    encoded = {name: value.encode("latin-1") for name, value in all_headers.items()}
    response = anyio.run(lambda: sent("POST", path, content=body, headers=encoded))
    check(response, body.decode())
    if response.status_code == 200 and path == "/token":
        assert KNOWN["refresh_token"].partition(".")[0] in response.json()["refresh_token"]


@given(st.sampled_from(["/authorize", "/token", "/revoke", "/register"]), RAW)
def test_endpoints_generated_bytes(path, data):
    for kind in ("application/x-www-form-urlencoded", "application/json"):
        response = anyio.run(lambda: sent("POST", path, content=data, headers={"Content-Type": kind}))
        check(response, "")
    check(anyio.run(lambda: send_raw_query(data)), "")


async def send_raw_query(query: bytes) -> httpx2.Response:

    async def put(scope: Any, receive: Any, send: Any) -> None:
        await HERE.app({**scope, "query_string": query}, receive, send)

    transport = httpx2.ASGITransport(put)
    async with httpx2.AsyncClient(transport=transport, base_url=ORIGIN) as client:
        return await client.get("/authorize")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(GOOD),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


METADATA = st.dictionaries(
    st.sampled_from(
        [
            "redirect_uris", "client_name", "token_endpoint_auth_method", "grant_types", "response_types",
            "application_type", "scope", "jwks", "client_uri", "logo_uri", "contacts", "software_statement",
        ]
    ),
    JSON,
)  # fmt: skip


@given(METADATA, st.booleans())
def test_register_generated_metadata(metadata, has_redirect):
    body_metadata = {"redirect_uris": [CALLBACK], **metadata} if has_redirect else metadata
    response = anyio.run(lambda: sent("POST", "/register", json=body_metadata))
    check(response, "")
    assert response.status_code in {201, 400}
    if response.status_code == 201:
        for uri in response.json()["redirect_uris"]:
            assert uri.startswith(("http://127.0.0.1", "https://"))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/token", "application/x-www-form-urlencoded"),
        ("/revoke", "application/x-www-form-urlencoded"),
        ("/authorize", "application/x-www-form-urlencoded"),
        ("/register", "application/json"),
    ],
)
async def test_disconnect_during_body_is_400(path, kind):
    incoming = [{"type": "http.request", "body": b"a=", "more_body": True}, {"type": "http.disconnect"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return incoming.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", kind.encode()), (b"host", b"127.0.0.1:8000")]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    await HERE.app(scope, receive, send)
    assert sent[0]["status"] == 400
