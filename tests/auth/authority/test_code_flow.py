"""The authorization code flow of the authorization server, from its metadata to the last refresh."""

from __future__ import annotations

import os

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from mcpkit.auth import DevUser, InvalidTokenError
from mcpkit.state.memory import Memory
from tests.helpers.clock import Clock
from tests.helpers.oauth_flow import (
    MCP,
    ORIGIN,
    SSE,
    AuthServer,
    code_of,
    redirect_params,
    submit_login,
)

pytestmark = pytest.mark.anyio


async def test_metadata_has_required_members():
    found = AuthServer().authority.metadata()
    required = {
        "issuer", "authorization_endpoint", "token_endpoint", "jwks_uri", "response_types_supported",
        "subject_types_supported", "id_token_signing_alg_values_supported",
    }  # fmt: skip
    assert required <= set(found)
    assert "none" in found["token_endpoint_auth_methods_supported"]  # type: ignore[operator]  # a list
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert found["authorization_response_iss_parameter_supported"] is True
    assert found["client_id_metadata_document_supported"] is True
    assert "offline_access" not in found["scopes_supported"]  # type: ignore[operator]  # a list


EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "50"))


async def test_code_flow_returns_tokens_for_resource():
    server = AuthServer([DevUser("ada", claims={"org_id": "acme"})])
    login = await server.login(scope="notes:write")
    async with server.browser() as browser:
        answer = redirect_params(await submit_login(browser, login))
    assert answer["state"] == login.query["state"]
    assert answer["iss"] == ORIGIN

    response = await server.post("/token", login.form(answer["code"]))
    tokens = response.json()
    assert response.headers["cache-control"] == "no-store"
    assert (tokens["token_type"], tokens["expires_in"], tokens["scope"]) == ("Bearer", 600, "notes:write")

    grant = await server.granted(tokens)
    assert grant.principal.id == f"{ORIGIN}#sub=ada"
    assert (grant.principal.issuer, grant.principal.subject) == (ORIGIN, "ada")
    assert grant.principal.scopes == {"notes:write"}
    assert grant.principal.client_id == login.client_id
    assert grant.principal.claims["org_id"] == "acme"
    assert (grant.issued, grant.expires) == (server.clock.now, server.clock.now + 600)
    assert grant.fresh_until == server.clock.now + 30


async def test_access_token_is_jwt_verified_by_published_keys(server):
    tokens = await server.tokens()
    async with server.browser() as client:
        published = (await client.get("/jwks.json")).json()
    assert "d" not in published["keys"][0]
    keys = KeySet.import_key_set(published)
    token = jwt.decode(tokens["access_token"], keys, algorithms=["ES256"])
    assert token.header["typ"] == "at+jwt"
    assert {name: token.claims[name] for name in ("iss", "sub", "aud", "scope")} == {
        "iss": ORIGIN,
        "sub": "ada",
        "aud": MCP,
        "scope": "notes:read",
    }
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


async def test_authorize_grants_only_scopes_of_user():
    server = AuthServer([DevUser("ada", scopes=["notes:write"]), DevUser("bob", scopes=[])])
    tokens = await server.tokens(await server.login(scope="notes:admin"))
    assert tokens["scope"] == "notes:write"
    async with server.browser() as browser:
        answer = redirect_params(await submit_login(browser, await server.login(scope="notes:admin"), "bob"))
    assert answer["error"] == "access_denied"


async def test_login_wrong_password_can_be_retried():
    server = AuthServer([DevUser("ada", password="right"), DevUser("bob")])
    login = await server.login()
    async with server.browser() as browser:
        wrong = await submit_login(browser, login, "ada", "wrong")
        assert wrong.status_code == 403
        assert "Wrong password for" in wrong.text
        assert code_of(await submit_login(browser, login, "ada", "right"))
    async with server.browser() as browser:
        assert (await submit_login(browser, login)).status_code == 403


async def test_authorize_denied_redirects_with_access_denied(server, login):
    async with server.browser() as browser:
        page = await browser.get("/authorize", params=login.query)
        field = page.text.partition('name="request" value="')[2].partition('"')[0]
        response = await browser.post("/authorize", data={"request": field, "answer": "deny"})
    answer = redirect_params(response)
    assert (answer["error"], answer["iss"], answer["state"]) == (
        "access_denied",
        ORIGIN,
        login.query["state"],
    )


async def test_refresh_rotates_token(server):
    login = await server.login(scope="notes:write")
    tokens = await server.tokens(login)
    for _ in range(3):
        server.clock.now += 3600
        response = await server.refreshed(tokens, login)
        assert response.status_code == 200
        assert response.json()["refresh_token"] != tokens["refresh_token"]
        tokens = response.json()
        assert tokens["scope"] == "notes:write"
        assert (await server.granted(tokens)).principal.subject == "ada"


async def test_refresh_repeated_at_once_returns_same_token(server, login, tokens):
    first = (await server.refreshed(tokens, login)).json()
    server.clock.now += 9
    again = (await server.refreshed(tokens, login)).json()
    assert again["refresh_token"] == first["refresh_token"]
    assert (await server.refreshed(again, login)).status_code == 200


async def test_refresh_narrows_but_never_widens(server):
    login = await server.login(scope="notes:write")
    tokens = await server.tokens(login)
    more = await server.refreshed(tokens, login, scope="notes:admin")
    assert (more.status_code, more.json()["error"]) == (400, "invalid_scope")
    elsewhere = await server.refreshed(tokens, login, resource=SSE)
    assert (elsewhere.status_code, elsewhere.json()["error"]) == (400, "invalid_target")
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
    assert (await after.refreshed(tokens, login)).json()["error"] == "invalid_grant"
    with pytest.raises(InvalidTokenError, match="revoked"):
        await after.granted(tokens)


async def test_access_token_expires(server):
    tokens = await server.tokens()
    server.clock.now += 599
    await server.granted(tokens)
    server.clock.now += 1
    with pytest.raises(InvalidTokenError, match="expired"):
        await server.granted(tokens)
