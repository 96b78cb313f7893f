"""Generated requests to an authorization server: none is a 500, redirects elsewhere or leaks."""

import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.auth import DevClient, DevUser
from tests.helpers.oauth_flow import CALLBACK, MCP, ORIGIN, AuthServer, Login

PASSWORD, CLIENT_SECRET = "the password of bob", "the secret of job"
SERVER = AuthServer(
    [DevUser("ada"), DevUser("bob", password=PASSWORD)],
    clients=[DevClient("job", secret=CLIENT_SECRET, scopes=["notes:read"])],
    documents=lambda: httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(404))),
)


async def issue_secrets() -> dict[str, str]:
    login = await SERVER.login()
    tokens = await SERVER.tokens(login)
    return {
        "client_id": login.client_id,
        "code": await SERVER.code(await SERVER.login()),
        "refresh_token": tokens["refresh_token"],
        "access_token": tokens["access_token"],
    }


KNOWN = anyio.run(issue_secrets)
NAMES = [
    "client_id", "redirect_uri", "response_type", "response_mode", "state", "scope", "resource", "nonce",
    "code_challenge", "code_challenge_method", "grant_type", "code", "code_verifier", "refresh_token",
    "client_secret", "token", "token_type_hint", "request", "user", "password", "answer", "client_name",
]  # fmt: skip
VALUES = [
    *KNOWN.values(), CALLBACK, MCP, "code", "S256", "plain", "authorization_code", "refresh_token", "ada", "bob",
    "client_credentials", "job", "notes:read", "notes:admin", "query", "deny", "x" * 43, "x" * 3000,
    "https://evil.example/cb", "javascript:alert(1)", "http://127.0.0.1:9/callback", "\r\nSet-Cookie: a=b",
    "https://client.example/client.json", "\x00", "%", "é", "\U0001f600",
    "<script>", "{}", "[]", "..", "a.b.c", KNOWN["code"] + "x", KNOWN["refresh_token"][:-1], "",
]  # fmt: skip
PAIRS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES) | st.text(max_size=30)), max_size=12
)
BASES: list[dict[str, Any]] = [
    Login(KNOWN["client_id"]).query,
    {"grant_type": "refresh_token", "client_id": KNOWN["client_id"]},
    {},
]
HEADERS = st.dictionaries(
    st.sampled_from(["authorization", "cookie", "origin", "content-type", "host"]),
    st.sampled_from(
        ["Basic am9iOng=", "Basic", "Bearer x", "null", ORIGIN, "application/json", "a=b; mcpkit-=x", ";=;"]
    )
    | st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=20),
    max_size=2,
)
PATHS = st.sampled_from(["/authorize", "/token", "/revoke", "/register"])
FORM = "application/x-www-form-urlencoded"


def encoded(base: dict[str, Any], pairs: list[tuple[str, str]]) -> str:
    changed = {name for name, _ in pairs}
    kept = [pair for pair in base.items() if pair[0] not in changed]
    return urlencode([*kept, *pairs], errors="surrogatepass")


def check(response: httpx2.Response, sent: str = "") -> None:
    assert response.status_code < 500 or response.status_code == 503
    location = response.headers.get("location")
    if location is not None:
        assert (urlsplit(location).hostname, urlsplit(location).path) == ("127.0.0.1", "/callback")
        assert "code" not in parse_qs(urlsplit(location).query)
        assert location.isascii()
        assert location.isprintable()
    assert response.headers.get("set-cookie", "mcpkit-").startswith("mcpkit-")
    assert "Traceback" not in response.text
    assert PASSWORD not in response.text.replace(sent, "")
    assert CLIENT_SECRET not in response.text
    if "html" in response.headers.get("content-type", ""):
        assert "<script" not in response.text
        assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
    if response.url.path != "/callback" and response.status_code != 405:
        assert response.headers["cache-control"] == "no-store"


def send(method: str, path: str, **options: Any) -> httpx2.Response:
    async def run() -> httpx2.Response:
        async with SERVER.browser() as client:
            return await client.request(method, path, **options)

    return anyio.run(run)


@pytest.fixture(autouse=True)
def no_secrets_in_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    records = [record for record in caplog.records if record.name.partition(".")[0] == "mcpkit"]
    messages = "\n".join(record.getMessage() for record in records)
    for secret in (*KNOWN.values(), PASSWORD, CLIENT_SECRET):
        assert secret not in messages


@given(st.sampled_from(BASES), PAIRS)
def test_authorize_generated_queries(base, pairs):
    query = encoded(base, pairs)
    check(send("GET", f"/authorize?{query}"), query)


@given(PATHS, st.sampled_from(BASES), PAIRS, HEADERS)
def test_endpoints_generated_forms(path, base, pairs, headers):
    body = encoded(base, pairs)
    raw_headers = {name: value.encode("latin-1") for name, value in {"content-type": FORM, **headers}.items()}
    response = send("POST", path, content=body.encode(), headers=raw_headers)
    check(response, body)
    if response.status_code == 200 and path == "/token":
        assert KNOWN["refresh_token"].partition(".")[0] in response.json()["refresh_token"]


@pytest.mark.parametrize("path", ["/token", "/revoke", "/authorize", "/register"])
async def test_disconnect_during_body_is_400(path):
    incoming = [{"type": "http.request", "body": b"a=", "more_body": True}, {"type": "http.disconnect"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return incoming.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    kind = b"application/json" if path == "/register" else FORM.encode()
    headers = [(b"content-type", kind), (b"host", b"127.0.0.1:8000")]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    await SERVER.app(scope, receive, send)
    assert sent[0]["status"] == 400
