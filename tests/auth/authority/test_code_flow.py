"""The authorization code flow, from the metadata to the last refresh."""

from __future__ import annotations

import os
import random

import anyio
import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from mcpkit.auth import DevUser, InvalidTokenError
from mcpkit.state.memory import Memory
from tests.helpers.authority_site import MCP, ORIGIN, SCOPES, SECRET, SSE, Here, Login, clicked, code_of, said
from tests.helpers.clock import Clock

pytestmark = pytest.mark.anyio

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "200"))


async def test_the_metadata_says_what_clients_look_for() -> None:
    here = Here()
    async with here.browser() as client:
        response = await client.get("/.well-known/oauth-authorization-server")
    found = response.json()
    assert response.headers["content-type"] == "application/json"
    assert found["issuer"] == ORIGIN
    assert found["authorization_endpoint"] == f"{ORIGIN}/authorize"
    assert found["token_endpoint"] == f"{ORIGIN}/token"
    assert found["registration_endpoint"] == f"{ORIGIN}/register"
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert found["authorization_response_iss_parameter_supported"] is True
    assert found["client_id_metadata_document_supported"] is True
    assert found["token_endpoint_auth_methods_supported"][0] == "none"
    assert found["grant_types_supported"] == ["authorization_code", "refresh_token"]
    assert found["scopes_supported"] == ["notes:read", "notes:write", "notes:admin"]


async def test_a_user_logs_in_and_the_client_gets_tokens_for_the_resource() -> None:
    here = Here([DevUser("ada", claims={"org_id": "acme"})])
    login = await here.login(scope="notes:write")
    async with here.browser() as browser:
        answer = said(await clicked(browser, login))
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


async def test_a_token_of_the_second_in_which_its_user_was_sent_away_can_be_told_from_those_before() -> None:
    here = Here(clock=Clock(1000.25))
    before = await here.granted(await here.tokens())
    here.clock.now = 1000.75
    after = await here.granted(await here.tokens())
    assert (before.issued, after.issued) == (1000.25, 1000.75)


async def test_access_tokens_are_jwts_that_the_published_keys_verify() -> None:
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


async def test_the_page_says_who_asks_for_what_and_where_the_user_is_sent() -> None:
    here = Here()
    login = await here.login(scope="notes:write")
    async with here.browser() as browser:
        page = await browser.get("/authorize", params=login.query)
    for shown in (
        "A client",
        "notes",
        "Change notes",
        "127.0.0.1:3000",
        "A program on this device",
        "nobody has checked it",
    ):
        assert shown in page.text
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["cache-control"] == "no-store"


async def test_a_redirect_elsewhere_is_shown_without_the_warning() -> None:
    here = Here()
    registered = await here.registered(redirect_uris=["https://app.example/cb"])
    login = Login(registered["client_id"], "https://app.example/cb")
    async with here.browser() as browser:
        page = await browser.get("/authorize", params=login.query)
    assert "app.example" in page.text
    assert "rogram on this device" not in page.text


async def test_without_a_resource_a_token_is_for_all_endpoints_as_clients_of_2025_03_26_name_none() -> None:
    here = Here()
    tokens = await here.tokens(await here.login(resource=None))
    assert (await here.granted(tokens, MCP)).principal == (await here.granted(tokens, SSE)).principal


async def test_a_token_for_one_endpoint_is_not_for_another() -> None:
    here = Here()
    tokens = await here.tokens()
    with pytest.raises(InvalidTokenError, match="another resource"):
        await here.granted(tokens, SSE)


@pytest.mark.parametrize("named", ["HTTP://127.0.0.1:8000/mcp", f"{MCP}/"])
async def test_a_resource_may_be_written_in_another_way(named: str) -> None:
    here = Here()
    await here.granted(await here.tokens(await here.login(resource=named)), MCP)


async def test_the_token_request_may_name_fewer_resources_and_scopes() -> None:
    here = Here()
    login = await here.login(resource=[MCP, SSE], scope="notes:write")
    tokens = await here.tokens(login, resource=SSE, scope="notes:read")
    assert tokens["scope"] == "notes:read"
    assert (await here.granted(tokens, SSE)).principal.scopes == {"notes:read"}
    with pytest.raises(InvalidTokenError):
        await here.granted(tokens, MCP)


async def test_an_empty_scope_is_as_good_as_none() -> None:
    here = Here()
    assert (await here.tokens(await here.login(scope="")))["scope"] == "notes:read"


async def test_scopes_of_openid_are_ignored_beside_any_of_the_server_and_alone() -> None:
    draw = random.Random(17)
    foreign = ["openid", "email", "profile", "address", "phone", "offline_access"]
    for table in (SCOPES, {"notes:write": "Change notes"}, {**SCOPES, "email": "Read the mail of the user"}):
        here = Here(scopes=table)
        defaults = [name for name in table if name == "notes:read"]
        for _ in range(EXAMPLES // 10):
            own = draw.choice([[], ["notes:write"], ["email"]])
            asked = own + [name for name in foreign if draw.random() < 0.5 and name not in own]
            draw.shuffle(asked)
            login = await here.login(scope=" ".join(asked))
            granted = sorted(name for name in asked if name in table) or defaults
            tokens = await here.tokens(login)
            assert sorted(tokens.get("scope", "").split()) == granted, asked
            again = await here.refreshed(tokens, login, scope=" ".join(["openid", *granted]))
            assert sorted(again.json().get("scope", "").split()) == granted, asked


async def test_without_a_table_any_scope_is_granted() -> None:
    here = Here(scopes={})
    assert (await here.tokens(await here.login(scope="a b")))["scope"] == "a b"
    assert "scope" not in await here.tokens()


async def test_a_user_grants_what_they_have_and_no_more() -> None:
    here = Here([DevUser("ada", scopes=["notes:write"]), DevUser("bob", scopes=[])])
    tokens = await here.tokens(await here.login(scope="notes:admin"))
    assert tokens["scope"] == "notes:write"
    async with here.browser() as browser:
        answer = said(await clicked(browser, await here.login(scope="notes:admin"), "bob"))
    assert answer["error"] == "access_denied"


async def test_a_password_has_to_be_right_and_may_be_tried_again() -> None:
    here = Here([DevUser("ada", password="right"), DevUser("bob")])
    login = await here.login()
    async with here.browser() as browser:
        wrong = await clicked(browser, login, "ada", "wrong")
        assert wrong.status_code == 403
        assert "not the password" in wrong.text
        assert code_of(await clicked(browser, login, "ada", "right"))
    async with here.browser() as browser:
        assert (await clicked(browser, login)).status_code == 403


async def test_a_user_may_say_no() -> None:
    here = Here()
    login = await here.login()
    async with here.browser() as browser:
        page = await browser.get("/authorize", params=login.query)
        field = page.text.partition('name="request" value="')[2].partition('"')[0]
        response = await browser.post("/authorize", data={"request": field, "answer": "deny"})
    answer = said(response)
    assert (answer["error"], answer["iss"], answer["state"]) == (
        "access_denied",
        ORIGIN,
        login.query["state"],
    )


async def test_any_port_of_this_machine_is_as_good_as_the_registered_one() -> None:
    here = Here()
    registered = await here.registered(redirect_uris=["http://127.0.0.1/callback"])
    login = Login(registered["client_id"], "http://127.0.0.1:54321/callback")
    assert await here.tokens(login)


async def test_the_one_redirect_uri_of_a_client_need_not_be_named() -> None:
    here = Here()
    login = await here.login(redirect_uri=None)
    assert await here.tokens(login, redirect_uri=None)


async def test_refresh_tokens_are_used_once_and_the_last_one_goes_on() -> None:
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


async def test_only_who_says_so_gets_refresh_tokens() -> None:
    """Some clients refresh where they should ask the user for more."""
    here = Here()
    for grant_types, has_one in (
        (["authorization_code"], False),
        (["authorization_code", "refresh_token"], True),
    ):
        client_id = (await here.registered(grant_types=grant_types))["client_id"]
        assert ("refresh_token" in await here.tokens(Login(client_id))) is has_one


async def test_a_refresh_whose_answer_was_lost_may_be_repeated_at_once() -> None:
    here = Here()
    login = await here.login()
    tokens = await here.tokens(login)
    first = (await here.refreshed(tokens, login)).json()
    here.clock.now += 9
    again = (await here.refreshed(tokens, login)).json()
    assert again["refresh_token"] == first["refresh_token"]
    assert (await here.refreshed(again, login)).status_code == 200


async def test_a_refresh_may_name_less_but_not_more() -> None:
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


async def test_a_user_who_is_gone_gets_no_new_tokens() -> None:
    shared, clock = Memory(), Clock()
    before = Here([DevUser("ada"), DevUser("bob")], shared=shared, clock=clock)
    login = await before.login()
    tokens = await before.tokens(login)
    after = Here([DevUser("bob")], shared=shared, clock=clock)
    assert (await after.refreshed(tokens, login)).json()["error"] == "invalid_grant"
    with pytest.raises(InvalidTokenError, match="revoked"):
        await after.granted(tokens)


async def test_each_step_may_be_another_process_and_the_secret_may_be_replaced_meanwhile() -> None:
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


async def test_tokens_expire() -> None:
    here = Here()
    tokens = await here.tokens()
    here.clock.now += 599
    await here.granted(tokens)
    here.clock.now += 1
    with pytest.raises(InvalidTokenError, match="expired"):
        await here.granted(tokens)


async def test_logins_at_once_in_one_browser_do_not_disturb_each_other() -> None:
    here = Here()
    logins = [await here.login() for _ in range(5)]
    codes: list[httpx2.Response] = []
    async with here.browser() as browser, anyio.create_task_group() as tasks:

        async def log_in(login: Login) -> None:
            codes.append(await clicked(browser, login))

        for login in logins:
            tasks.start_soon(log_in, login)
    assert len({code_of(response) for response in codes}) == 5
