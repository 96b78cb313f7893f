"""Whatever strangers answer to the look: it ends, and what it says of them is short and printable."""

from __future__ import annotations

import asyncio
import json

import httpx2
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit.client.authorization.checking.check import check_authorization
from mcpkit.client.authorization.checking.finding import Finding

URL = "https://mcp.example.com/mcp"
RESOURCE = {"resource": URL, "authorization_servers": ["https://id.example.com"], "scopes_supported": ["a"]}
ISSUER = {
    "issuer": "https://id.example.com",
    "authorization_endpoint": "https://id.example.com/authorize",
    "token_endpoint": "https://id.example.com/token",
    "code_challenge_methods_supported": ["S256"],
}
TEXTS = st.text(max_size=20) | st.sampled_from(
    [URL, "https://[::1", "https://a b", "http://127.0.0.1:1", "x" * 5_000]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
HEADERS = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=80)


def looked(challenge: str, resource: object, issuer: object) -> list[Finding]:
    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/mcp":
            return httpx2.Response(401, headers={b"WWW-Authenticate": challenge.encode("latin-1")})
        document = resource if "protected-resource" in request.url.path else issuer
        return httpx2.Response(
            200, content=json.dumps(document).encode(), headers={"Content-Type": "application/json"}
        )

    async def look() -> list[Finding]:
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
            return await check_authorization(URL, http_client=client)

    return asyncio.run(look())


def check_what_is_said(findings: list[Finding]) -> None:
    for each in findings:
        assert each.why.isprintable(), each.why
        assert len(each.why) < 4_000


@settings(max_examples=60, deadline=None)
@given(HEADERS | st.sampled_from(['Bearer resource_metadata="', "Bearer ", 'Bearer scope="']), HEADERS)
def test_challenges_of_any_form(first: str, second: str) -> None:
    check_what_is_said(looked(first + second, RESOURCE, ISSUER))


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from([*RESOURCE, "bearer_methods_supported"]), JSON), JSON)
def test_metadata_of_servers_of_any_form(changes: dict[str, object], whole: object) -> None:
    check_what_is_said(looked("Bearer", {**RESOURCE, **changes}, ISSUER))
    check_what_is_said(looked("Bearer", whole, ISSUER))


FIELDS = [
    *ISSUER,
    "registration_endpoint",
    "response_types_supported",
    "grant_types_supported",
    "scopes_supported",
]


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS), JSON), JSON)
def test_metadata_of_authorization_servers_of_any_form(changes: dict[str, object], whole: object) -> None:
    check_what_is_said(looked("Bearer", RESOURCE, {**ISSUER, **changes}))
    check_what_is_said(looked("Bearer", RESOURCE, whole))
