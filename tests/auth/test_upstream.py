"""Upstream presets: what each provider is asked, options and errors."""

import json
import time
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.auth import UpstreamProvider
from mcpkit.auth.upstream.upstream_client import UpstreamRefusedError, UpstreamUnavailableError
from tests.helpers.fake_idp import CLIENT, UpstreamLogin
from tests.helpers.signed_tokens import Signer
from tests.helpers.tables import each_row

TENANT = "11111111-2222-3333-4444-555555555555"


SIGNER = Signer("RS256")


OFFLINE = "openid profile email offline_access"
POOL = "eu-west-1_abcdefghi"
COGNITO = f"https://cognito-idp.eu-west-1.amazonaws.com/{POOL}"
REALM = "https://id.example.com/realms/one"
PRESETS: list[tuple[str, tuple[str, ...], dict[str, str], str, str, dict[str, str]]] = [
    # preset, arguments, options, issuer, scopes, more parameters
    ("google", (), {}, "https://accounts.google.com", "openid profile email",
     {"access_type": "offline", "prompt": "consent"}),
    ("entra", (TENANT,), {}, f"https://login.microsoftonline.com/{TENANT}/v2.0", OFFLINE, {}),
    ("entra", (TENANT.upper(),), {"authority": "https://login.microsoftonline.us"},
     f"https://login.microsoftonline.us/{TENANT}/v2.0", OFFLINE, {}),
    ("cognito", (POOL,), {}, COGNITO, "openid email", {}),
    ("auth0", ("example.eu.auth0.com",), {"audience": "https://api.example.com"},
     "https://example.eu.auth0.com/", OFFLINE, {"audience": "https://api.example.com"}),
    ("okta", ("https://example.okta.com",), {}, "https://example.okta.com", OFFLINE, {}),
    ("keycloak", (REALM,), {}, REALM, OFFLINE, {}),
    ("openid", ("https://id.example.com/",), {}, "https://id.example.com/", OFFLINE, {"prompt": "consent"}),
]  # fmt: skip


class Net:
    """An OpenID provider with the endpoints of `issuer`, wherever they are."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.requests: list[httpx2.Request] = []
        self.instead: dict[str, httpx2.Response] = {}

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self.respond))

    def respond(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        origin = "https://endpoints.example.com"
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": "id", "sub": "ada", "nonce": "the-nonce", "oid": "1", "tid": "2"}
        id_token = SIGNER.token({**claims, "iat": now, "exp": now + 60}, {"typ": "JWT"})
        documents: dict[str, dict[str, Any]] = {
            "/openid-configuration": {
                "issuer": self.issuer, "authorization_endpoint": f"{origin}/authorize",
                "token_endpoint": f"{origin}/token", "userinfo_endpoint": f"{origin}/userinfo",
                "jwks_uri": f"{origin}/keys", "scopes_supported": ["openid", "offline_access"],
                "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
            },
            "/keys": {"keys": [SIGNER.public()]},
            "/userinfo": {"sub": "ada", "email": "ada@example.com"},
            "/token": {"access_token": "a", "token_type": "Bearer", "expires_in": 60, "id_token": id_token},
        }  # fmt: skip
        path = "/" + request.url.path.rpartition("/")[2]
        if path not in documents:
            return httpx2.Response(404)
        return self.instead.get(path) or httpx2.Response(200, json=documents[path])


@each_row(("name", "arguments", "options", "issuer", "scopes", "more"), PRESETS)
async def test_upstream_preset_requests(name, arguments, options, issuer, scopes, more):
    net = Net(issuer)
    async with net.client() as client:
        create = getattr(UpstreamProvider, name)
        upstream = create(*arguments, "id", "secret", http_client=client, **options)
        url = await UpstreamLogin(upstream).url()
        identity, tokens = await UpstreamLogin(upstream).redeemed({"code": "a", "iss": issuer})
        await upstream.provider.aclose()

    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    for own in ("redirect_uri", "state", "code_challenge", "nonce"):
        assert query.pop(own)
    expected = {"response_type": "code", "client_id": "id", "scope": scopes, "code_challenge_method": "S256"}
    assert query == expected | more
    assert (upstream.name, upstream.issuer, upstream.is_public) == (name, issuer, name == "google")
    assert identity.subject == "ada"
    assert {"oid", "tid"} <= set(identity.claims)
    assert ("email" in identity.claims) is (name not in {"entra", "cognito"})
    assert tokens.scopes == tuple(scopes.split())
    sent = next(each for each in net.requests if each.url.path == "/token")
    assert (b"client_secret=secret" in sent.content) is (name == "auth0")
    assert ("authorization" in sent.headers) is (name != "auth0")
    assert str(net.requests[0].url) == f"{issuer.rstrip('/')}/.well-known/openid-configuration"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)
MEMBERS = st.sampled_from(
    ["access_token", "token_type", "expires_in", "refresh_token", "id_token", "error", "sub"]
)
BODY = st.dictionaries(MEMBERS, JSON, max_size=5).map(json.dumps).map(str.encode) | st.binary(max_size=60)


@given(
    st.sampled_from(["/openid-configuration", "/keys", "/userinfo", "/token"]),
    BODY,
    st.sampled_from(["application/json", "text/html", "application/x-www-form-urlencoded"]),
    st.sampled_from([200, 200, 200, 400, 401, 403, 404, 500, 503]),
)
def test_upstream_generated_responses_give_no_login(path, body, media_type, status):
    net = Net("https://id.example.com")
    net.instead[path] = httpx2.Response(status, content=body, headers={"Content-Type": media_type})

    async def run() -> None:
        async with net.client() as client:
            login = UpstreamLogin(UpstreamProvider.openid(net.issuer, "id", "secret", http_client=client))
            await login.url()
            await login.redeemed({"code": "a", "iss": net.issuer})

    with pytest.raises((UpstreamRefusedError, UpstreamUnavailableError)):
        anyio.run(run)


CREDENTIALS = ("id", "secret")
github_with = partial(UpstreamProvider.github, "id", "secret")
NO_TENANT = "the GUID of one Entra tenant"


@each_row(("make", "error", "problem"), [
    (lambda: UpstreamProvider.entra("common", *CREDENTIALS), ValueError, NO_TENANT),
    (lambda: UpstreamProvider.entra("organizations", *CREDENTIALS), ValueError, NO_TENANT),
    (lambda: UpstreamProvider.entra(TENANT, *CREDENTIALS, authority="http://login.example.com"),
        ValueError, "not encrypted"),
    (lambda: UpstreamProvider.cognito("abc", *CREDENTIALS), ValueError, "the ID of a Cognito user pool"),
    (lambda: UpstreamProvider.auth0("https://example.auth0.com", *CREDENTIALS),
        ValueError, "domain must be"),
    (lambda: UpstreamProvider.okta("http://example.okta.com", *CREDENTIALS), ValueError, "not encrypted"),
    (lambda: UpstreamProvider.google("id", ""), TypeError, "client_secret must be a non-empty string"),
    (lambda: UpstreamProvider.google("", "secret"), TypeError, "client_id must be a non-empty string"),
    (lambda: UpstreamProvider.openid("id.example.com", *CREDENTIALS),
        ValueError, "not a valid https URL"),
    (lambda: openid_with(scopes="openid"), TypeError, "scopes must be"),
    (lambda: openid_with(scopes=["a b"]), ValueError, "visible ASCII"),
    (lambda: openid_with(parameters={"state": "a"}), ValueError, "must not contain state"),
    (lambda: openid_with(parameters={"a": 1}), TypeError, "strings to strings"),
    (lambda: openid_with(authentication="none"), ValueError, "authentication must be"),
    (lambda: openid_with(timeout=0), ValueError, "timeout"),
    (lambda: openid_with(leeway=-1), ValueError, "leeway"),
    (lambda: openid_with(name=""), ValueError, "name must have 1 to"),
    (lambda: openid_with(title=7), TypeError, "title must be a string"),
    *(
        (partial(github_with, **{option: "repo"}), TypeError, f"GitHub has no option {option}=; {hint}")
        for option, hint in (
            ("scope", "did you mean scopes"), ("titel", "did you mean title"), ("audience", "its options"),
        )
    ),
    (lambda: openid_with(claims="email"), TypeError, "claims must be"),
])  # fmt: skip
def test_upstream_options_invalid_raise(make, error, problem):
    with pytest.raises(error, match=problem):
        make()


def openid_with(**options: Any) -> UpstreamProvider:
    return UpstreamProvider.openid("https://id.example.com", "id", "secret", **options)


@each_row(("url", "site", "api"), [
    ("https://github.com", "https://github.com", "https://api.github.com/user"),
    ("https://octo.ghe.com/", "https://octo.ghe.com", "https://api.octo.ghe.com/user"),
    ("https://git.example.com", "https://git.example.com", "https://git.example.com/api/v3/user"),
])  # fmt: skip
async def test_github_urls(url, site, api):
    requests: list[httpx2.Request] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        members = {"id": 1, "login": "ada", "access_token": "a", "token_type": "bearer"}
        return httpx2.Response(200, json=members)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(respond)) as client:
        upstream = UpstreamProvider.github(*CLIENT, url=url, http_client=client)
        assert (await UpstreamLogin(upstream).url()).startswith(f"{site}/login/oauth/authorize?")
        await UpstreamLogin(upstream).redeemed({"code": "a", "iss": upstream.issuer})
        await upstream.provider.aclose()
        assert not client.is_closed
    assert [str(each.url) for each in requests] == [f"{site}/login/oauth/access_token", api]
    assert requests[1].headers["authorization"] == "Bearer a"
