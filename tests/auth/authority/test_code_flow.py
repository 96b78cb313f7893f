"""The authorization code flow of the authorization server, from its metadata to the last refresh."""

from __future__ import annotations

import os
import random

import anyio
import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from mcpkit.auth import DevUser, InvalidTokenError
from mcpkit.auth.discovery import AuthorizationServerMetadata, authorization_server_urls
from mcpkit.state.memory import Memory
from tests.helpers.authority_site import MCP, ORIGIN, SCOPES, SECRET, SSE, Here, Login, clicked, code_of
from tests.helpers.authority_site import said as redirect_params
from tests.helpers.clock import Clock

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("issuer", [ORIGIN, f"{ORIGIN}/", f"{ORIGIN}/login", f"{ORIGIN}/a/b/"])
async def test_metadata_is_equal_at_all_well_known_urls(issuer):
    here = Here(issuer=issuer)
    async with here.browser() as client:
        answers = [await client.get(url) for url in authorization_server_urls(issuer)]
    assert len(answers) == (2 if issuer.rstrip("/") == ORIGIN else 3)
    found = [answer.json() for answer in answers]
    assert found == [here.authority.metadata()] * len(answers)
    read = AuthorizationServerMetadata.read(found[0], issuer)
    for name in ("authorization", "token", "registration", "revocation"):
        assert read.endpoint(f"{name}_endpoint").startswith(f"{issuer.rstrip('/')}/")


async def test_metadata_of_issuer_with_path_is_not_at_other_paths():
    here = Here(issuer=f"{ORIGIN}/login")
    async with here.browser() as client:
        for path in (
            "/.well-known/oauth-authorization-server",
            "/.well-known/openid-configuration",
            "/login/.well-known/oauth-authorization-server",
            "/.well-known/oauth-authorization-server/other",
            "/authorize",
        ):
            assert (await client.get(path)).status_code == 404


async def test_metadata_has_required_members():
    found = Here().authority.metadata()
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


EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "200"))


async def test_code_flow_returns_tokens_for_resource():
    here = Here([DevUser("ada", claims={"org_id": "acme"})])
    login = await here.login(scope="notes:write")
    async with here.browser() as browser:
        answer = redirect_params(await clicked(browser, login))
    assert answer["state"] == login.query["state"]
    assert answer["iss"] == ORIGIN

    response = await here.post("/token", login.form(answer["code"]))
    tokens = response.json()
    assert response.headers["cache-control"] == "no-store"
    assert (tokens["token_type"], tokens["expires_in"], tokens["scope"]) == ("Bearer", 600, "notes:write")

    grant = await here.granted(tokens)
    assert grant.principal.id == f"{ORIGIN}#sub=ada"
    assert (grant.principal.issuer, grant.principal.subject) == (ORIGIN, "ada")
    assert grant.principal.scopes == {"notes:write"}
    assert grant.principal.client_id == login.client_id
    assert grant.principal.claims["org_id"] == "acme"
    assert (grant.issued, grant.expires) == (here.clock.now, here.clock.now + 600)
    assert grant.fresh_until == here.clock.now + 30


async def test_access_token_iat_has_fractions():
    here = Here(clock=Clock(1000.25))
    before = await here.granted(await here.tokens())
    here.clock.now = 1000.75
    after = await here.granted(await here.tokens())
    assert (before.issued, after.issued) == (1000.25, 1000.75)


async def test_access_token_is_jwt_verified_by_published_keys():
    here = Here()
    tokens = await here.tokens()
    async with here.browser() as client:
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


async def test_authorize_without_resource_covers_all_endpoints():
    here = Here()
    tokens = await here.tokens(await here.login(resource=None))
    assert (await here.granted(tokens, MCP)).principal == (await here.granted(tokens, SSE)).principal


async def test_access_token_of_one_endpoint_is_rejected_at_another():
    here = Here()
    tokens = await here.tokens()
    with pytest.raises(InvalidTokenError, match="another resource"):
        await here.granted(tokens, SSE)


@pytest.mark.parametrize("named", ["HTTP://127.0.0.1:8000/mcp", f"{MCP}/"])
async def test_authorize_resource_accepts_equivalent_urls(named):
    here = Here()
    await here.granted(await here.tokens(await here.login(resource=named)), MCP)


async def test_token_request_narrows_resource_and_scope():
    here = Here()
    login = await here.login(resource=[MCP, SSE], scope="notes:write")
    tokens = await here.tokens(login, resource=SSE, scope="notes:read")
    assert tokens["scope"] == "notes:read"
    assert (await here.granted(tokens, SSE)).principal.scopes == {"notes:read"}
    with pytest.raises(InvalidTokenError):
        await here.granted(tokens, MCP)


async def test_openid_scopes_are_ignored():
    draw = random.Random(17)
    foreign = ["openid", "email", "profile", "address", "phone", "offline_access"]
    for table in (SCOPES, {"notes:write": "Change notes"}, {**SCOPES, "email": "Read the mail of the user"}):
        here = Here(scopes=table)
        defaults = [name for name in table if name == "notes:read"]
        for _ in range(EXAMPLES // 10):
            own = draw.choice([[], ["notes:write"], ["email"]])
            requested = own + [name for name in foreign if draw.random() < 0.5 and name not in own]
            draw.shuffle(requested)
            login = await here.login(scope=" ".join(requested))
            granted = sorted(name for name in requested if name in table) or defaults
            tokens = await here.tokens(login)
            assert sorted(tokens.get("scope", "").split()) == granted, requested
            again = await here.refreshed(tokens, login, scope=" ".join(["openid", *granted]))
            assert sorted(again.json().get("scope", "").split()) == granted, requested


async def test_authorize_without_scope_table_grants_any_scope():
    here = Here(scopes={})
    assert (await here.tokens(await here.login(scope="a b")))["scope"] == "a b"
    assert "scope" not in await here.tokens()


async def test_authorize_grants_only_scopes_of_user():
    here = Here([DevUser("ada", scopes=["notes:write"]), DevUser("bob", scopes=[])])
    tokens = await here.tokens(await here.login(scope="notes:admin"))
    assert tokens["scope"] == "notes:write"
    async with here.browser() as browser:
        answer = redirect_params(await clicked(browser, await here.login(scope="notes:admin"), "bob"))
    assert answer["error"] == "access_denied"


async def test_login_wrong_password_can_be_retried():
    here = Here([DevUser("ada", password="right"), DevUser("bob")])
    login = await here.login()
    async with here.browser() as browser:
        wrong = await clicked(browser, login, "ada", "wrong")
        assert wrong.status_code == 403
        assert "not the password" in wrong.text
        assert code_of(await clicked(browser, login, "ada", "right"))
    async with here.browser() as browser:
        assert (await clicked(browser, login)).status_code == 403


async def test_authorize_denied_redirects_with_access_denied():
    here = Here()
    login = await here.login()
    async with here.browser() as browser:
        page = await browser.get("/authorize", params=login.query)
        field = page.text.partition('name="request" value="')[2].partition('"')[0]
        response = await browser.post("/authorize", data={"request": field, "answer": "deny"})
    answer = redirect_params(response)
    assert (answer["error"], answer["iss"], answer["state"]) == (
        "access_denied",
        ORIGIN,
        login.query["state"],
    )


async def test_authorize_loopback_redirect_accepts_any_port():
    here = Here()
    registered = await here.registered(redirect_uris=["http://127.0.0.1/callback"])
    login = Login(registered["client_id"], "http://127.0.0.1:54321/callback")
    assert await here.tokens(login)


async def test_authorize_single_redirect_uri_is_default():
    here = Here()
    login = await here.login(redirect_uri=None)
    assert await here.tokens(login, redirect_uri=None)


async def test_refresh_rotates_token():
    here = Here()
    login = await here.login(scope="notes:write")
    tokens = await here.tokens(login)
    for _ in range(3):
        here.clock.now += 3600
        response = await here.refreshed(tokens, login)
        assert response.status_code == 200
        assert response.json()["refresh_token"] != tokens["refresh_token"]
        tokens = response.json()
        assert tokens["scope"] == "notes:write"
        assert (await here.granted(tokens)).principal.subject == "ada"


async def test_refresh_token_requires_grant_type():
    here = Here()
    for grant_types, has_one in (
        (["authorization_code"], False),
        (["authorization_code", "refresh_token"], True),
    ):
        client_id = (await here.registered(grant_types=grant_types))["client_id"]
        assert ("refresh_token" in await here.tokens(Login(client_id))) is has_one


async def test_refresh_repeated_at_once_returns_same_token():
    here = Here()
    login = await here.login()
    tokens = await here.tokens(login)
    first = (await here.refreshed(tokens, login)).json()
    here.clock.now += 9
    again = (await here.refreshed(tokens, login)).json()
    assert again["refresh_token"] == first["refresh_token"]
    assert (await here.refreshed(again, login)).status_code == 200


async def test_refresh_narrows_but_never_widens():
    here = Here()
    login = await here.login(scope="notes:write")
    tokens = await here.tokens(login)
    more = await here.refreshed(tokens, login, scope="notes:admin")
    assert (more.status_code, more.json()["error"]) == (400, "invalid_scope")
    elsewhere = await here.refreshed(tokens, login, resource=SSE)
    assert (elsewhere.status_code, elsewhere.json()["error"]) == (400, "invalid_target")
    here.clock.now += 3600  # neither has used the token up
    same = await here.refreshed(tokens, login, scope="offline_access")
    assert same.json()["scope"] == "notes:write"
    less = await here.refreshed(tokens, login, scope="notes:read")
    assert less.json()["scope"] == "notes:read"
    here.clock.now += 3600
    assert (await here.refreshed(less.json(), login)).json()["scope"] == "notes:write"


async def test_refresh_of_removed_user_is_rejected():
    shared, clock = Memory(), Clock()
    before = Here([DevUser("ada"), DevUser("bob")], shared=shared, clock=clock)
    login = await before.login()
    tokens = await before.tokens(login)
    after = Here([DevUser("bob")], shared=shared, clock=clock)
    assert (await after.refreshed(tokens, login)).json()["error"] == "invalid_grant"
    with pytest.raises(InvalidTokenError, match="revoked"):
        await after.granted(tokens)


async def test_code_flow_continues_across_processes_and_secrets():
    shared, clock = Memory(), Clock()
    first = Here(shared=shared, clock=clock)
    login = await first.login()
    code = await first.code(login)
    second = Here(shared=shared, clock=clock, secret=["a newer secret, long enough", SECRET])
    tokens = (await second.post("/token", login.form(code))).json()
    third = Here(shared=shared, clock=clock, secret=["a newer secret, long enough", SECRET])
    refreshed = (await third.refreshed(tokens, login)).json()
    assert (await second.granted(refreshed)).principal.subject == "ada"
    old = Here(shared=shared, clock=clock, secret="a newer secret, long enough")
    assert (await old.refreshed(refreshed, login)).json()["error"] == "invalid_client"


async def test_access_token_expires():
    here = Here()
    tokens = await here.tokens()
    here.clock.now += 599
    await here.granted(tokens)
    here.clock.now += 1
    with pytest.raises(InvalidTokenError, match="expired"):
        await here.granted(tokens)


async def test_concurrent_logins_in_one_browser():
    here = Here()
    logins = [await here.login() for _ in range(5)]
    codes: list[httpx2.Response] = []
    async with here.browser() as browser, anyio.create_task_group() as tasks:

        async def log_in(login: Login) -> None:
            codes.append(await clicked(browser, login))

        for login in logins:
            tasks.start_soon(log_in, login)
    assert len({code_of(response) for response in codes}) == 5
