"""Each provider: who vouches for its users, what is asked of it, and what an operator can get wrong."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from mcpkit.auth import Upstream
from mcpkit.auth.upstream.errors import UpstreamUnavailableError
from tests.helpers.signed_tokens import Signer
from tests.helpers.upstream_login import UpstreamLogin

pytestmark = pytest.mark.anyio

TENANT = "11111111-2222-3333-4444-555555555555"
SIGNER = Signer("RS256")
MADE: list[tuple[Any, str, str, str, dict[str, str], str, bool]] = [
    (
        lambda **options: Upstream.google("id", "secret", **options),
        "google",
        "https://accounts.google.com",
        "openid profile email",
        {"access_type": "offline", "prompt": "consent"},
        "basic",
        True,
    ),
    (
        lambda **options: Upstream.entra(TENANT, "id", "secret", **options),
        "entra",
        f"https://login.microsoftonline.com/{TENANT}/v2.0",
        "openid profile email offline_access",
        {},
        "basic",
        False,
    ),
    (
        lambda **options: Upstream.entra(
            TENANT.upper(), "id", "secret", authority="https://login.microsoftonline.us", **options
        ),
        "entra",
        f"https://login.microsoftonline.us/{TENANT}/v2.0",
        "openid profile email offline_access",
        {},
        "basic",
        False,
    ),
    (
        lambda **options: Upstream.cognito("eu-west-1_abcdefghi", "id", "secret", **options),
        "cognito",
        "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_abcdefghi",
        "openid email",
        {},
        "basic",
        False,
    ),
    (
        lambda **options: Upstream.auth0(
            "example.eu.auth0.com", "id", "secret", audience="https://api.example.com", **options
        ),
        "auth0",
        "https://example.eu.auth0.com/",
        "openid profile email offline_access",
        {"audience": "https://api.example.com"},
        "post",
        True,
    ),
    (
        lambda **options: Upstream.okta("https://example.okta.com", "id", "secret", **options),
        "okta",
        "https://example.okta.com",
        "openid profile email offline_access",
        {},
        "basic",
        True,
    ),
    (
        lambda **options: Upstream.keycloak("https://id.example.com/realms/one", "id", "secret", **options),
        "keycloak",
        "https://id.example.com/realms/one",
        "openid profile email offline_access",
        {},
        "basic",
        True,
    ),
    (
        lambda **options: Upstream.openid("https://id.example.com/", "id", "secret", **options),
        "openid",
        "https://id.example.com/",
        "openid profile email offline_access",
        {"prompt": "consent"},
        "basic",
        True,
    ),
]


class Net:
    """What a provider answers, under its real names, in process.

    Attributes:
        issuer: The provider.
        asked: What has come.
    """

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.asked: list[httpx2.Request] = []

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        path = request.url.path
        if path.endswith("/.well-known/openid-configuration"):
            return httpx2.Response(200, json=self._metadata())
        if path == "/keys":
            return httpx2.Response(200, json={"keys": [SIGNER.public()]})
        if path == "/userinfo":
            return httpx2.Response(200, json={"sub": "ada", "email": "ada@example.com"})
        if path == "/token":
            now = int(time.time())
            claims = {
                "iss": self.issuer,
                "aud": "id",
                "sub": "ada",
                "nonce": "the-nonce",
                "oid": "1",
                "tid": "2",
            }
            token = SIGNER.sign(json.dumps({**claims, "iat": now, "exp": now + 60}).encode(), {"typ": "JWT"})
            return httpx2.Response(
                200, json={"access_token": "a", "token_type": "Bearer", "expires_in": 60, "id_token": token}
            )
        return httpx2.Response(404)

    def _metadata(self) -> dict[str, Any]:
        origin = "https://endpoints.example.com"
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "userinfo_endpoint": f"{origin}/userinfo",
            "jwks_uri": f"{origin}/keys",
            "scopes_supported": ["openid", "offline_access"],
            "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
        }


@pytest.mark.parametrize(
    ("made", "name", "issuer", "scopes", "more", "authentication", "asks_userinfo"),
    MADE,
    ids=[f"{each[1]}-{number}" for number, each in enumerate(MADE)],
)
async def test_what_each_provider_is_asked(
    made: Any,
    name: str,
    issuer: str,
    scopes: str,
    more: dict[str, str],
    authentication: str,
    asks_userinfo: bool,
) -> None:
    net = Net(issuer)
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(net.answer)) as client:
        upstream = made(http_client=client)
        url = await UpstreamLogin(upstream).url()
        identity, tokens = await UpstreamLogin(upstream).redeemed({"code": "a", "iss": issuer})
        await upstream.provider.aclose()

    asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    for own in ("redirect_uri", "state", "code_challenge", "nonce"):
        assert asked.pop(own)
    assert asked == {
        "response_type": "code",
        "client_id": "id",
        "scope": scopes,
        "code_challenge_method": "S256",
        **more,
    }
    assert (upstream.name, upstream.issuer, upstream.is_public) == (name, issuer, name == "google")
    assert identity.subject == "ada"
    assert {"oid", "tid"} <= set(identity.claims)
    assert ("email" in identity.claims) is asks_userinfo
    assert tokens.scopes == tuple(scopes.split())
    sent = next(each for each in net.asked if each.url.path == "/token")
    assert (b"client_secret=secret" in sent.content) is (authentication == "post")
    assert ("authorization" in sent.headers) is (authentication == "basic")
    assert str(net.asked[0].url) == f"{issuer.rstrip('/')}/.well-known/openid-configuration"


async def test_a_name_and_a_title_of_ones_own() -> None:
    upstream = Upstream.openid("https://id.example.com", "id", None, name="work", title="Example Inc.")
    assert (upstream.name, upstream.title) == ("work", "Example Inc.")
    assert Upstream.openid("https://id.example.com", "id", None).title == "id.example.com"


async def test_the_template_of_many_tenants_is_no_issuer() -> None:
    net = Net("https://login.microsoftonline.com/{tenantid}/v2.0")
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(net.answer)) as client:
        with pytest.raises(UpstreamUnavailableError, match="another issuer"):
            await UpstreamLogin(Upstream.entra(TENANT, "id", "secret", http_client=client)).url()


@pytest.mark.parametrize(
    ("make", "error", "problem"),
    [
        (lambda: Upstream.entra("common", "id", "secret"), ValueError, "the ID of one tenant"),
        (lambda: Upstream.entra("organizations", "id", "secret"), ValueError, "the ID of one tenant"),
        (
            lambda: Upstream.entra(TENANT, "id", "secret", authority="http://login.example.com"),
            ValueError,
            "not encrypted",
        ),
        (lambda: Upstream.cognito("abcdefghi", "id", "secret"), ValueError, "the ID of a user pool"),
        (lambda: Upstream.auth0("https://example.auth0.com", "id", "secret"), ValueError, "the domain"),
        (lambda: Upstream.okta("http://example.okta.com", "id", "secret"), ValueError, "not encrypted"),
        (lambda: Upstream.google("id", ""), TypeError, "client_secret must be a text"),
        (lambda: Upstream.google("", "secret"), TypeError, "client_id must be a text"),
        (lambda: Upstream.openid("id.example.com", "id", "secret"), ValueError, "no URL"),
        (lambda: _openid(scopes="openid"), TypeError, "scopes must be"),
        (lambda: _openid(scopes=["a b"]), ValueError, "visible ASCII"),
        (lambda: _openid(parameters={"state": "a"}), ValueError, "cannot say state"),
        (lambda: _openid(parameters={"a": 1}), TypeError, "texts to texts"),
        (lambda: _openid(authentication="none"), ValueError, "authentication must be"),
        (lambda: _openid(timeout=0), ValueError, "timeout"),
        (lambda: _openid(leeway=-1), ValueError, "leeway"),
        (lambda: _openid(name=""), ValueError, "name has 1 to"),
        (lambda: _openid(title=7), TypeError, "title must be a text"),
        (lambda: _openid(claims="email"), TypeError, "claims must be"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem):
        make()


def _openid(**options: Any) -> Upstream:
    return Upstream.openid("https://id.example.com", "id", "secret", **options)


def test_what_is_not_installed_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("httpx2", "joserfc"):
        with monkeypatch.context() as patched:
            patched.delitem(sys.modules, name, raising=False)
            patched.setattr("mcpkit.auth.libraries.find_spec", lambda asked, name=name: asked != name or None)
            with pytest.raises(ImportError, match=rf"needs {name}. Run: pip install .*\[auth\]"):
                _openid()


@pytest.mark.slow
def test_a_provider_loads_nothing_before_it_is_asked() -> None:
    program = (
        "import sys\n"
        "from mcpkit.auth import Upstream\n"
        "Upstream.github('id', 'secret'), Upstream.openid('https://id.example.com', 'id', 'secret')\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    loaded = subprocess.check_output([sys.executable, "-c", program], text=True, timeout=120).split()
    assert {"httpx2", "joserfc", "cryptography", "starlette", "http"}.isdisjoint(loaded)


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("scope", "did you mean scopes"),
        ("titel", "did you mean title"),
        ("audience", "there are name, title"),
    ],
)
def test_an_option_that_no_provider_has_is_not_taken(option: str, hint: str) -> None:
    wrong: Any = {option: "repo"}
    with pytest.raises(TypeError, match=rf"GitHub takes no {option}=; {hint}"):
        Upstream.github("id", "secret", **wrong)


def test_parameters_that_are_no_mapping_are_not_taken() -> None:
    wrong: Any = ["login_hint"]
    with pytest.raises(TypeError, match="parameters must be a mapping"):
        Upstream.google("id", "secret", parameters=wrong)
