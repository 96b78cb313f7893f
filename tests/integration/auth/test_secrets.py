"""Secrets of a provider, its users and the server in what an OAuthProxy stores, logs and responds."""

import base64
import json
import logging
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mcpkit._utils.exceptions import LoginNeededError, ProviderUnavailableError
from mcpkit.auth import UpstreamProvider
from mcpkit.storage import Sqlite
from tests.helpers.fake_idp import (
    CLIENT,
    REVOKE,
    TOKEN,
    USERINFO,
    OpenIdSite,
    UpstreamLogin,
    log_in,
    serving_site,
)
from tests.helpers.oauth_flow import PROXY_ORIGIN, SECRET, ProxyFlow, ProxyServer
from tests.helpers.signed_tokens import Signer
from tests.helpers.waiting import Clock

EMAIL = "ada.lovelace@analytical.example"


class Provider(OpenIdSite):
    def __init__(self) -> None:
        super().__init__(Signer())
        self.users = {"ada": {"email": EMAIL}}
        self.claims = lambda claims: {**claims, "email": EMAIL, "email_verified": True}

    def secret(self, kind: str) -> str:
        secret = f"{super().secret(kind)}+/~"  # characters that are escaped in URLs
        self.secrets.add(secret)
        return secret

    def secrets_by_kind(self) -> dict[str, set[str]]:
        """The secrets that only the provider and its client may see. Its codes are in URLs of the browser."""
        verifiers = {form["code_verifier"] for _, form in self.forms if "code_verifier" in form}
        found = {"email": {EMAIL}, "client": {CLIENT[1]}, "verifier": verifiers, "server": {SECRET}}
        for secret in self.secrets - verifiers - {CLIENT[1]}:
            kind = "id_token" if secret.startswith("eyJ") else secret.partition("_")[0]
            found.setdefault(kind, set()).add(secret)
        del found["code"]
        return found


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()
    with serving_site(provider):
        yield provider


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Sqlite]:
    with closing(Sqlite(tmp_path / "shared.db")) as store:
        yield store


def error_of(description: str, error: str = "invalid_request") -> Response:
    return JSONResponse({"error": error, "error_description": description, "error_uri": description}, 400)


def echo_form(request: Request) -> Response:
    form = dict(parse_qsl(getattr(request, "_body", b"").decode()))
    return error_of(" ".join(form.get(name, "") for name in ("code_verifier", "refresh_token", "token")))


PROVIDER_ERRORS = [
    lambda _: Response(status_code=500),
    lambda _: error_of(f"{EMAIL} may not", "access_denied"),
    lambda request: error_of(f"{request.headers.get('authorization')} at {request.url}"),
    echo_form,
    lambda request: Response(request.headers.get("authorization", "") * 3, media_type="text/html"),
]


def parts_of(secret: str) -> list[str]:
    """Return the parts of a secret to search for: logs may shorten it."""
    if secret.startswith("eyJ"):
        return [secret.rpartition(".")[2][:48]]
    return [secret[:24], secret[-24:]] if len(secret) >= 48 else [secret]


def contains(text: bytes, secret: str) -> bool:
    """Return whether a secret occurs in a text: as it is, escaped, or as part of base64."""
    return any(form in text for form in _forms(secret))


def _forms(secret: str) -> Iterator[bytes]:
    for form in (secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1]):
        yield form.encode()
    for before in range(3):  # how many bytes of three stand before it
        begin, end = (0, 2, 3)[before], (before + len(secret.encode())) * 8 // 6
        for encode_ in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode_(bytes(before) + secret.encode() + bytes(2))[begin:end]


async def test_store_logs_and_responses_have_no_secrets(provider, store, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    upstream: Any = UpstreamProvider.openid(provider.url, *CLIENT, scopes=["openid", "email"])
    proxy = ProxyServer(upstream, clock=Clock(time.time()), site_options={"shared": store})
    responses: list[bytes] = []

    async def record(response: httpx2.Response) -> None:
        responses.extend((*map(b": ".join, response.headers.raw), await response.aread()))

    async def visit(url: str) -> str:
        return str(httpx2.URL(f"{PROXY_ORIGIN}/callback", params=await log_in(url)))

    def new_flow() -> ProxyFlow:
        flow = ProxyFlow(proxy.browser(), visit)
        flow.browser.event_hooks["response"].append(record)
        return flow

    def stored() -> bytes:
        stored = [file.read_bytes() for file in tmp_path.glob("shared.db*")]
        return b"\n".join([*stored, caplog.text.encode(), *responses])

    def leaked_kinds() -> set[str]:
        data = stored()
        return {
            kind
            for kind, secrets in provider.secrets_by_kind().items()
            if any(contains(data, part) for secret in secrets for part in parts_of(secret))
        }

    flow, other = new_flow(), new_flow()
    tokens = await flow.tokens()
    await proxy.token_for(tokens, "openid")
    tokens = (await flow.refreshed(tokens)).json()
    provider.changed = lambda members: {**members, "expires_in": 0}  # each use is a refresh
    others = await other.tokens()
    others = (await other.refreshed(others)).json()
    assert (await other.refreshed({"refresh_token": f"nothing.{others['refresh_token']}"})).status_code == 400
    for respond in PROVIDER_ERRORS:
        callback = await other.at_provider()
        provider.instead = lambda request, respond=respond: (
            respond(request) if request.url.path in {TOKEN, USERINFO, REVOKE} else None
        )
        with suppress(LoginNeededError, ProviderUnavailableError):
            await proxy.token_for(others, "openid")
        await other.refreshed(others)
        assert "code=" not in (await other.back(callback)).headers["location"]
        provider.repair()
    assert leaked_kinds() == set()
    await flow.revoked(tokens["refresh_token"])
    assert (await flow.refreshed(tokens)).status_code == 400
    assert leaked_kinds() == set()
    _, upstream_tokens = await UpstreamLogin(upstream).redeemed()
    shown = repr((upstream_tokens, upstream, vars(upstream))).encode()
    assert not [secret for secret in provider.secrets if contains(shown, secret)]
    assert provider.secrets_by_kind().keys() == {
        "access", "refresh", "id_token", "verifier", "client", "email", "server",
    }  # fmt: skip
    assert contains(stored(), tokens["access_token"]), "nothing is recorded"
    assert "invalid_grant" in caplog.text
    await upstream.provider.aclose()
