"""Keys that an issuer publishes: fetched once, renewed, and used while the issuer is down."""

import asyncio
import base64
import json
import logging
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing, closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus

import anyio
import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from mcpkit._utils.exceptions import LoginNeededError, ProviderUnavailableError
from mcpkit.auth import InvalidTokenError, Jwt, UpstreamProvider
from mcpkit.auth.issuer_documents import MAX_KEYS_AGE, MAX_STALE, MIN_KEYS_AGE, RETRY
from mcpkit.auth.jwt import COOLDOWN
from mcpkit.storage import Sqlite
from tests.helpers import fake_idp as idp
from tests.helpers.oauth_flow import PROXY_ORIGIN, SECRET, ProxyFlow, ProxyServer, browser_at
from tests.helpers.signed_tokens import AUDIENCE, Signer
from tests.helpers.tables import each_row
from tests.helpers.waiting import Clock, until
from tests.integration.auth.servers import make_server, tool_call


@pytest.mark.parametrize(("path", "places"), [
    ("", [idp.METADATA]), ("", [idp.METADATA, idp.OPENID]), ("/", [idp.METADATA]),
    ("/tenant", [idp.METADATA + "/tenant"]),
    ("/tenant", [idp.METADATA + "/tenant", idp.OPENID + "/tenant"]),
    ("/tenant", [idp.METADATA + "/tenant", idp.OPENID + "/tenant", "/tenant" + idp.OPENID]),
])  # fmt: skip
@pytest.mark.parametrize("other_status", [404, 500])
async def test_metadata_is_found_at_every_well_known_url(issuer, clock, path, places, other_status):
    url = issuer.url + path
    issuer.places, issuer.metadata = {places[-1]}, {"issuer": url}

    def page(request: Request) -> Response | None:
        is_known = request.url.path in {places[-1], idp.KEYS}
        return None if is_known else PlainTextResponse("a page", other_status)

    issuer.instead = page
    async with aclosing(Jwt(url, clock=clock)) as jwt:
        assert await idp.is_verified(jwt, idp.OLD.token(iss=url))
    assert list(issuer.asked) == [*places, idp.KEYS]


@pytest.mark.limit("age of keys")
@pytest.mark.parametrize(("header", "seconds"), [
    ("max-age=600", 600), ("max-age=15", MIN_KEYS_AGE), ("no-store", MIN_KEYS_AGE),
    ("max-age=99999999", MAX_KEYS_AGE), ("", idp.HOUR),
])  # fmt: skip
async def test_keys_are_renewed_in_background(issuer, jwt, clock, header, seconds):
    issuer.headers = {"Cache-Control": header}
    assert await idp.is_verified(jwt, idp.token(issuer))
    clock.now += seconds * 0.79
    assert await idp.is_verified(jwt, idp.token(issuer))
    assert issuer.fetches == 1

    clock.now += seconds * 0.02
    issuer.is_open.clear()
    issuer.publish(idp.NEW)
    assert await idp.is_verified(jwt, idp.token(issuer))
    await until(lambda: issuer.fetches == 2)
    assert await idp.is_verified(jwt, idp.token(issuer))
    issuer.is_open.set()
    await until(lambda: not jwt.published_keys.is_fetching)
    assert await idp.is_verified(jwt, idp.token(issuer, idp.NEW))
    assert issuer.fetches == 2


@pytest.mark.limit("age of keys")
async def test_keys_are_used_while_issuer_is_down_until_stale(issuer, jwt, clock, caplog):
    assert await idp.is_verified(jwt, idp.token(issuer))
    issuer.break_down()
    clock.now += idp.HOUR
    with caplog.at_level(logging.INFO, "mcpkit"):
        for _ in range(2):  # the second time nothing is fetched: a moment ago the issuer did not respond
            assert await idp.is_verified(jwt, idp.token(issuer))
            assert issuer.fetches == 2
        clock.now += MAX_STALE - 1
        assert await idp.is_verified(jwt, idp.token(issuer))
        await until(lambda: issuer.asked[idp.METADATA] == 2 and not jwt.published_keys.is_fetching)
        clock.now += 1 + RETRY

        error = await idp.unavailable(jwt, idp.token(issuer))
        assert error.retry_after == 5
        assert "responded with HTTP 503" in error.description

        issuer.repair()
        clock.now += RETRY
        assert await idp.is_verified(jwt, idp.token(issuer))
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2, "each message is logged once"
    assert "the cached ones stay in use" in messages[0]
    assert messages[1].endswith("can be fetched again")


async def test_issuer_down_without_keys_is_unavailable_and_recovers(issuer, jwt, clock):
    issuer.break_down()
    errors = await asyncio.gather(*(idp.unavailable(jwt, idp.token(issuer)) for _ in range(50)))
    assert {error.retry_after for error in errors} == {5}
    clock.now += 2
    assert (await idp.unavailable(jwt, idp.token(issuer))).retry_after == 3
    assert issuer.asked == {idp.METADATA: 1, idp.OPENID: 1}

    issuer.repair()
    clock.now += 3
    assert await idp.is_verified(jwt, idp.token(issuer))


async def test_issuer_unreachable_is_unavailable(issuer, clock):
    async def problem(url: str, **options: Any) -> str:
        async with aclosing(Jwt(url, clock=clock, **options)) as jwt:
            return (await idp.unavailable(jwt, idp.OLD.token(iss=url))).description

    issuer.is_open.clear()
    assert "did not respond within 0.1 s" in await problem(issuer.url, timeout=0.1)
    with socket.socket() as unused:  # its port is taken, and refuses connections
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        assert f"cannot connect to {url}" in await problem(url)


@each_row(("response", "problem"), [
    (JSONResponse({}), "a JWK Set must have a list `keys`"),
    (JSONResponse({"keys": {}}), "a JWK Set must have a list `keys`"),
    (JSONResponse({"keys": []}), "no key that can verify"),
    (JSONResponse({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "old"}]}), "no key that can verify"),
    (JSONResponse({"keys": [{}] * 101}), "more than 100 keys"),
    (JSONResponse([]), "JSON object"),
    (PlainTextResponse("{"), "not a valid JSON object (text/plain)"),
    (RedirectResponse("/other"), "redirects"),
    (Response(status_code=404), "responded with HTTP 404"),
    (JSONResponse({"keys": ["x" * 600_000]}), "sent more than"),
])  # fmt: skip
async def test_invalid_keys_do_not_replace_valid_keys(issuer, clock, response, problem, caplog):
    caplog.clear()
    issuer.repair()
    async with (
        aclosing(Jwt(issuer.url, clock=clock)) as jwt,
        aclosing(Jwt(issuer.url, clock=clock)) as without_keys,
    ):
        sent = idp.token(issuer)
        assert await idp.is_verified(jwt, sent)
        issuer.instead = lambda request: response if request.url.path == idp.KEYS else None
        clock.now += idp.HOUR
        assert await idp.is_verified(jwt, sent)
        assert problem in caplog.text
        assert problem in (await idp.unavailable(without_keys, sent)).description


async def test_key_rotation_under_load_loses_no_request(issuer, jwt):
    """Each change comes within the cooldown of the last one; requests in flight may have the older key."""
    signers = [Signer("ES256", f"key {number}") for number in range(5)]
    issuer.publish(signers[0])
    newest, sent, statuses, is_over = signers[0], [0] * 4, Counter[int](), anyio.Event()

    async def send_requests(number: int) -> None:
        while not is_over.is_set():
            options = tool_call("whoami", idp.token(issuer, newest))
            statuses[(await http.post("/mcp", **options)).status_code] += 1
            sent[number] += 1
            await anyio.sleep(0)  # a verification without a fetch does not suspend

    async with (
        browser_at(make_server(jwt, []).asgi(public_url=AUDIENCE), "https://mcp.example.com") as http,
        anyio.create_task_group() as load,
    ):
        for number in range(len(sent)):
            load.start_soon(send_requests, number)
        await until(lambda: all(sent))
        for older, newest in pairwise(signers):
            issuer.publish(older, newest)
            before = list(sent)
            await until(lambda before=before: all(now >= then + 2 for now, then in zip(sent, before)))
        is_over.set()
    assert set(statuses) == {200}
    assert issuer.fetches == len(signers)


@pytest.mark.limit("fetches for unknown keys")
async def test_unknown_kids_fetch_keys_once_per_cooldown(issuer, jwt, clock):
    assert await idp.is_verified(jwt, idp.token(issuer))
    for fetches in (2, 3):
        flood = [idp.token(issuer, header={"kid": f"unknown {number}"}) for number in range(100)]
        assert not any(await asyncio.gather(*(idp.is_verified(jwt, each) for each in flood)))
        assert not any([await idp.is_verified(jwt, each) for each in flood])
        assert await idp.is_verified(jwt, idp.token(issuer))
        assert issuer.fetches == fetches
        clock.now += COOLDOWN
    issuer.publish(idp.NEW)
    assert await idp.is_verified(jwt, idp.token(issuer, idp.NEW))


async def test_invalid_token_fetches_nothing(issuer, jwt):
    for changes in (
        {"exp": 1},
        {"iss": "https://other.example.com"},
        {"aud": "other"},
        {"header": {"typ": "other"}},
        {"header": {"alg": "HS256"}},
    ):
        with pytest.raises(InvalidTokenError):
            await jwt.verify(idp.NEW.token(**{"iss": issuer.url, **changes}), AUDIENCE)
        assert not issuer.asked, changes
    assert await idp.is_verified(jwt, idp.token(issuer))
    assert not await idp.is_verified(jwt, idp.token(issuer, idp.NEW, header={"kid": "old"}))
    assert issuer.fetches == 1


# Secrets of a provider, its users and the server in what an OAuthProxy stores, logs and responds


EMAIL = "ada.lovelace@analytical.example"


class Provider(idp.OpenIdSite):
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
        found = {"email": {EMAIL}, "client": {idp.CLIENT[1]}, "verifier": verifiers, "server": {SECRET}}
        for secret in self.secrets - verifiers - {idp.CLIENT[1]}:
            kind = "id_token" if secret.startswith("eyJ") else secret.partition("_")[0]
            found.setdefault(kind, set()).add(secret)
        del found["code"]
        return found


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()
    with idp.serving_site(provider):
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
    upstream: Any = UpstreamProvider.openid(provider.url, *idp.CLIENT, scopes=["openid", "email"])
    proxy = ProxyServer(upstream, clock=Clock(time.time()), site_options={"shared": store})
    responses: list[bytes] = []

    async def record(response: httpx2.Response) -> None:
        responses.extend((*map(b": ".join, response.headers.raw), await response.aread()))

    async def visit(url: str) -> str:
        return str(httpx2.URL(f"{PROXY_ORIGIN}/callback", params=await idp.log_in(url)))

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
            respond(request) if request.url.path in {idp.TOKEN, idp.USERINFO, idp.REVOKE} else None
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
    _, upstream_tokens = await idp.UpstreamLogin(upstream).redeemed()
    shown = repr((upstream_tokens, upstream, vars(upstream))).encode()
    assert not [secret for secret in provider.secrets if contains(shown, secret)]
    assert provider.secrets_by_kind().keys() == {
        "access", "refresh", "id_token", "verifier", "client", "email", "server",
    }  # fmt: skip
    assert contains(stored(), tokens["access_token"]), "nothing is recorded"
    assert "invalid_grant" in caplog.text
    await upstream.provider.aclose()
