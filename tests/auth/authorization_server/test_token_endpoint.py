"""Metadata, /token and /revoke: codes, refresh tokens, client authentication, revocation."""

import asyncio
import base64
from typing import Any

import anyio
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from mcpkit.auth import DevClient, DevUser, InvalidTokenError, VerifierUnavailableError
from mcpkit.storage.memory import Memory
from tests.helpers.oauth_flow import MCP, ORIGIN, SSE, AuthServer, Login, redirect_params, submit_login
from tests.helpers.tables import each_row
from tests.helpers.waiting import Clock

NO_GRANT = (400, "invalid_grant")


@pytest.fixture
async def tokens(server: AuthServer, login: Login) -> dict[str, Any]:
    return await server.tokens(login)


def basic(name: str, secret: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()}


def error_of(response: Any) -> tuple[int, str]:
    assert response.headers["cache-control"] == "no-store"
    return response.status_code, response.json()["error"]


async def token_error(server: AuthServer, form: Any, **options: Any) -> tuple[int, str]:
    return error_of(await server.post("/token", form, **options))


async def refresh_error(server: AuthServer, tokens: Any, login: Login, **form: Any) -> tuple[int, str]:
    return error_of(await server.refreshed(tokens, login, **form))


async def expect_revoked(server: AuthServer, login: Login, *each_tokens: dict[str, Any]) -> None:
    for tokens in each_tokens:
        with pytest.raises(InvalidTokenError, match="revoked"):
            await server.granted(tokens)
        assert await refresh_error(server, tokens, login) == NO_GRANT


def test_metadata_has_required_members():
    found: dict[str, Any] = AuthServer().authority.metadata()
    required = {
        "issuer", "authorization_endpoint", "token_endpoint", "jwks_uri", "response_types_supported",
        "subject_types_supported", "id_token_signing_alg_values_supported",
    }  # fmt: skip
    assert required <= set(found)
    assert "none" in found["token_endpoint_auth_methods_supported"]
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert found["authorization_response_iss_parameter_supported"] is True
    assert found["client_id_metadata_document_supported"] is True
    assert "offline_access" not in found["scopes_supported"]


async def test_code_flow_returns_tokens_for_resource():
    server = AuthServer([DevUser("ada", claims={"org_id": "acme"})])
    login = await server.login(scope="notes:write")
    async with server.browser() as browser:
        params = redirect_params(await submit_login(browser, login))
        published = (await browser.get("/jwks.json")).json()
    assert (params["state"], params["iss"]) == (login.query["state"], ORIGIN)

    response = await server.post("/token", login.form(params["code"]))
    tokens = response.json()
    assert response.headers["cache-control"] == "no-store"
    assert (tokens["token_type"], tokens["expires_in"], tokens["scope"]) == ("Bearer", 600, "notes:write")

    grant = await server.granted(tokens)
    principal, now = grant.principal, server.clock.now
    assert principal.id == f"{ORIGIN}#sub=ada"
    assert (principal.issuer, principal.subject, principal.client_id) == (ORIGIN, "ada", login.client_id)
    assert principal.scopes == {"notes:write"}
    assert principal.claims["org_id"] == "acme"
    assert (grant.issued, grant.expires, grant.fresh_until) == (now, now + 600, now + 30)

    assert "d" not in published["keys"][0]
    keys = KeySet.import_key_set(published)
    token = jwt.decode(tokens["access_token"], keys, algorithms=["ES256"])
    assert token.header["typ"] == "at+jwt"
    claims = {"iss": ORIGIN, "sub": "ada", "aud": MCP, "scope": "notes:write"}
    assert token.claims.items() >= claims.items()
    assert token.claims["jti"]


async def test_authorize_without_resource_covers_all_endpoints(server):
    tokens = await server.tokens(await server.login(resource=None))
    assert (await server.granted(tokens, MCP)).principal == (await server.granted(tokens, SSE)).principal


async def test_access_token_of_one_endpoint_is_rejected_at_another(server):
    tokens = await server.tokens()
    with pytest.raises(InvalidTokenError, match="another audience"):
        await server.granted(tokens, SSE)


async def test_token_request_narrows_resource_and_scope(server):
    login = await server.login(resource=[MCP, SSE], scope="notes:write")
    tokens = await server.tokens(login, resource=SSE, scope="notes:read")
    assert tokens["scope"] == "notes:read"
    assert (await server.granted(tokens, SSE)).principal.scopes == {"notes:read"}
    with pytest.raises(InvalidTokenError):
        await server.granted(tokens, MCP)


async def test_access_token_expires(server, tokens):
    server.clock.now += 599
    await server.granted(tokens)
    server.clock.now += 1
    with pytest.raises(InvalidTokenError, match="expired"):
        await server.granted(tokens)


async def test_refresh_narrows_but_never_widens(server):
    login = await server.login(scope="notes:write")
    tokens = await server.tokens(login)
    assert await refresh_error(server, tokens, login, scope="notes:admin") == (400, "invalid_scope")
    assert await refresh_error(server, tokens, login, resource=SSE) == (400, "invalid_target")
    server.clock.now += 3600  # neither has used the token up
    same = await server.refreshed(tokens, login, scope="offline_access")
    assert same.json()["scope"] == "notes:write"
    less = await server.refreshed(tokens, login, scope="notes:read")
    assert less.json()["scope"] == "notes:read"
    server.clock.now += 3600
    assert (await server.refreshed(less.json(), login)).json()["scope"] == "notes:write"


async def test_refresh_of_removed_user_is_rejected():
    shared, clock = Memory(), Clock()
    before = AuthServer([DevUser("ada"), DevUser("bob")], shared=shared, clock=clock)
    login = await before.login()
    tokens = await before.tokens(login)
    after = AuthServer([DevUser("bob")], shared=shared, clock=clock)
    assert await refresh_error(after, tokens, login) == NO_GRANT
    await expect_revoked(after, login, tokens)


async def test_code_requires_verifier_client_and_redirect(server, login, code):
    other = (await server.registered())["client_id"]
    for change, error in (
        ({"code_verifier": "x" * 43}, "invalid_grant"),
        ({"code_verifier": "short"}, "invalid_grant"),
        ({"code_verifier": login.query["code_challenge"]}, "invalid_grant"),
        ({"client_id": other}, "invalid_grant"),
        ({"redirect_uri": "http://127.0.0.1:3000/other"}, "invalid_grant"),
        ({"code": code[:-1] + ("A" if code[-1] != "A" else "B")}, "invalid_grant"),
        ({"code": "nothing"}, "invalid_grant"),
        ({"code_verifier": None}, "invalid_request"),
        ({"code": None}, "invalid_request"),
        ({"resource": "https://other.example"}, "invalid_target"),
        ({"scope": "notes:admin"}, "invalid_scope"),
    ):
        assert await token_error(server, login.form(code) | change) == (400, error), change
    # None of these has used it up: a thief of the code cannot keep its owner out.
    assert (await server.post("/token", login.form(code))).status_code == 200


async def test_code_expires_after_a_minute(server, login, code):
    server.clock.now += 60
    assert await token_error(server, login.form(code)) == NO_GRANT


@pytest.mark.parametrize("is_refreshed", [False, True])
async def test_code_reuse_revokes_tokens(server, login, code, is_refreshed):
    tokens = (await server.post("/token", login.form(code))).json()
    if is_refreshed:
        tokens = (await server.refreshed(tokens, login)).json()
    else:
        server.clock.now += 11
    await server.granted(tokens)
    assert await token_error(server, login.form(code)) == NO_GRANT
    await expect_revoked(server, login, tokens)


class Slow(Memory):
    """A shared store that lets others go first."""

    def __init__(self, shared: Memory) -> None:
        super().__init__()
        self.put, self.delete = shared.put, shared.delete  # type: ignore[method-assign]
        self._shared = shared

    async def get(self, key: str) -> Any:
        found = await self._shared.get(key)
        await anyio.sleep(0)
        return found


@pytest.fixture
def processes() -> list[AuthServer]:
    shared, clock = Memory(), Clock()
    return [AuthServer(shared=Slow(shared), clock=clock) for _ in range(20)]


async def test_code_concurrent_use_returns_tokens_once(processes):
    login = await processes[0].login()
    form = login.form(await processes[0].code(login))
    responses = await asyncio.gather(*(server.post("/token", form) for server in processes))
    first, *others = sorted(responses, key=lambda response: response.status_code)
    assert {error_of(response) for response in others} == {NO_GRANT}
    await processes[-1].granted(first.json())  # the losers of the race take nothing from the winner


async def test_refresh_concurrent_use_returns_one_successor(processes):
    server = processes[0]
    login = await server.login()
    tokens = await server.tokens(login)
    responses = await asyncio.gather(*(server.refreshed(tokens, login) for server in processes))
    assert {response.status_code for response in responses} == {200}
    [successor] = {response.json()["refresh_token"] for response in responses}
    server.clock.now += 3600
    assert (await server.refreshed({"refresh_token": successor}, login)).status_code == 200


async def test_refresh_reuse_revokes_grant(server, login):
    first = await server.tokens(login)
    second = (await server.refreshed(first, login)).json()
    server.clock.now += 9  # a client may repeat a request at once
    assert (await server.refreshed(first, login)).json()["refresh_token"] == second["refresh_token"]
    server.clock.now += 2
    assert await refresh_error(server, first, login) == NO_GRANT
    await expect_revoked(server, login, first, second)


async def test_refresh_by_another_client_is_rejected(server, login, tokens):
    thief = await server.login()
    assert await refresh_error(server, tokens, thief) == NO_GRANT
    assert (await server.refreshed(tokens, login)).status_code == 200


async def test_code_and_refresh_token_are_not_interchangeable(server, login, code):
    assert await refresh_error(server, {"refresh_token": code}, login) == NO_GRANT
    tokens = (await server.post("/token", login.form(code))).json()
    assert await token_error(server, login.form(tokens["refresh_token"])) == NO_GRANT
    for text in (code, tokens["refresh_token"], "a.b.c", "", "x" * 20_000):
        with pytest.raises(InvalidTokenError, match="not issued by this"):
            await server.authority.verify(text, MCP)


async def test_confidential_client_must_authenticate(server):
    registered = await server.registered(token_endpoint_auth_method="client_secret_post")
    other = await server.registered(token_endpoint_auth_method="client_secret_basic")
    name, secret = registered["client_id"], registered["client_secret"]
    login = Login(name)
    code = await server.code(login)
    for more, headers, error in (
        ({}, {}, (401, "invalid_client")),
        ({"client_secret": "wrong"}, {}, (401, "invalid_client")),
        ({"client_secret": other["client_secret"]}, {}, (401, "invalid_client")),
        ({"client_secret": secret}, basic(name, secret), (400, "invalid_request")),
        ({"client_id": "another"}, basic(name, secret), (400, "invalid_request")),
    ):
        assert await token_error(server, login.form(code, **more), headers=headers) == error
    wrong = await server.post("/token", login.form(code), headers=basic(name, "wrong"))
    assert error_of(wrong) == (401, "invalid_client")
    assert wrong.headers["www-authenticate"].startswith("Basic ")
    response = await server.post("/token", login.form(code, client_id=None), headers=basic(name, secret))
    tokens = response.json()
    assert await refresh_error(server, tokens, login) == (401, "invalid_client")
    assert (await server.refreshed(tokens, login, client_secret=secret)).status_code == 200


@each_row(("change", "error"), [
    ({"grant_type": None}, "invalid_request"),
    ({"grant_type": "password"}, "unsupported_grant_type"),
    ({"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}, "unsupported_grant_type"),
    ({"grant_type": ["authorization_code", "refresh_token"]}, "invalid_request"),
    ({"grant_type": "client_credentials"}, "unauthorized_client"),
    ({"anything": ["a", "b"]}, "invalid_request"),
])  # fmt: skip
async def test_token_request_grant_type_invalid_is_rejected(server, login, change, error):
    assert await token_error(server, login.form("x", **change)) == (400, error)


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@each_row(("options", "status"), [
    ({"json": {"grant_type": "refresh_token"}}, 400),
    ({"content": b"grant_type=x", "headers": {"Content-Type": "text/plain"}}, 400),
    ({"content": b""}, 400), ({"content": b"a=%FF", "headers": FORM}, 400),
    ({"content": b"\xff", "headers": FORM}, 400), ({"data": {"a": "x" * 40_000}}, 413),
])  # fmt: skip
async def test_token_request_body_invalid_is_rejected(server, options, status):
    async with server.browser() as client:
        assert error_of(await client.post("/token", **options)) == (status, "invalid_request")
        assert (await client.get("/token")).status_code == 405


async def test_client_credentials_returns_token():
    server = AuthServer(clients=[DevClient("job", secret="the job's secret", scopes=["notes:write"])])
    form = {"grant_type": "client_credentials", "resource": MCP}
    response = await server.post("/token", form, headers=basic("job", "the job's secret"))
    tokens = response.json()
    assert (response.status_code, tokens["scope"]) == (200, "notes:write")
    assert "refresh_token" not in tokens
    principal = (await server.granted(tokens)).principal
    assert (principal.subject, principal.client_id) == (None, "job")
    assert principal.id == f"{ORIGIN}#client=job"
    assert "client_credentials" in server.authority.metadata()["grant_types_supported"]
    revoked = {"token": tokens["access_token"]}
    assert (
        await server.post("/revoke", revoked, headers=basic("job", "the job's secret"))
    ).status_code == 200
    with pytest.raises(InvalidTokenError, match="revoked"):
        await server.granted(tokens)


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
async def test_revoke_ends_grant(server, login, tokens, kind):
    form = {"token": tokens[kind], "client_id": login.client_id, "token_type_hint": "nonsense"}
    for _ in range(2):
        response = await server.post("/revoke", form)
        assert (response.status_code, response.content) == (200, b"")
        await expect_revoked(server, login, tokens)


async def test_revoke_of_unknown_or_foreign_token(server, login, tokens):
    thief = (await server.login()).client_id
    unknown = await server.post("/revoke", {"token": "nothing", "client_id": login.client_id})
    assert unknown.status_code == 200
    for kind in ("access_token", "refresh_token"):
        foreign = await server.post("/revoke", {"token": tokens[kind], "client_id": thief})
        assert error_of(foreign) == NO_GRANT
    anonymous = await server.post("/revoke", {"token": tokens["refresh_token"]})
    assert error_of(anonymous) == (401, "invalid_client")
    await server.granted(tokens)


class Broken(Memory):
    async def get(self, key: str) -> Any:
        raise ConnectionError("the store at 10.0.0.7 is down")

    put = delete = get  # type: ignore[assignment]


async def test_token_request_store_failure_is_503():
    shared, clock = Memory(), Clock()
    good, bad = AuthServer(shared=shared, clock=clock), AuthServer(shared=Broken(), clock=clock)
    login = await good.login()
    tokens = await good.tokens(login)
    response = await bad.post("/token", login.form(await good.code(login)))
    assert error_of(response) == (503, "temporarily_unavailable")
    assert "10.0.0.7" not in response.text
    revoked = await bad.post("/revoke", {"token": tokens["access_token"], "client_id": login.client_id})
    assert revoked.status_code == 503
    with pytest.raises(VerifierUnavailableError):
        await bad.granted(tokens)
