"""The provider and the browser that the tests beside this one stand on: what they do is what MCP asks of them."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
import uuid
from urllib.parse import urlencode

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from tests.helpers.identity_provider import PUBLIC, RESOURCE_SERVER, SERVICE, providing

RESOURCE = "http://127.0.0.1:1/mcp"
CALLBACK = "http://127.0.0.1:1/callback"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")


def metadata(issuer):
    return httpx2.get(f"{issuer}/.well-known/openid-configuration").raise_for_status().json()


def request_url(issuer, client_id=PUBLIC, redirect_uri=CALLBACK, **more):
    params = {
        "client_id": client_id,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "redirect_uri": redirect_uri,
        "resource": RESOURCE,
        "response_type": "code",
        "scope": "notes:read notes:write",
        "state": "the state",
        **more,
    }
    present = {name: value for name, value in params.items() if value is not None}
    return f"{metadata(issuer)['authorization_endpoint']}?{urlencode(present)}"


def ask_for_tokens(issuer, auth=None, **form):
    return httpx2.post(metadata(issuer)["token_endpoint"], data=form, auth=auth)


def redeem(issuer, login, client_id=PUBLIC, redirect_uri=CALLBACK):
    answer = ask_for_tokens(
        issuer,
        grant_type="authorization_code",
        client_id=client_id,
        code=login.answer["code"],
        code_verifier=VERIFIER,
        redirect_uri=redirect_uri,
    )
    return answer.raise_for_status().json()


def decoded(part):
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def header(token):
    return decoded(token.split(".")[0])


def claims(token):
    return decoded(token.split(".")[1])


def kids(issuer):
    return {key["kid"] for key in httpx2.get(metadata(issuer)["jwks_uri"]).json()["keys"]}


def test_its_metadata_say_what_it_can(identity_provider):
    said = metadata(identity_provider.issuer)
    other_form = httpx2.get(f"{identity_provider.issuer}/.well-known/oauth-authorization-server").json()
    assert said == other_form
    assert said["issuer"] == identity_provider.issuer
    assert said["code_challenge_methods_supported"] == ["S256"]
    assert said["authorization_response_iss_parameter_supported"] is True
    assert said["client_id_metadata_document_supported"] is True
    assert {"notes:read", "notes:write", "notes:admin", "offline_access"} <= {*said["scopes_supported"]}
    assert {"registration_endpoint", "introspection_endpoint", "revocation_endpoint"} <= {*said}
    assert "none" in said["token_endpoint_auth_methods_supported"]
    assert "ES256" in said["dpop_signing_alg_values_supported"]


def test_a_user_logs_in_and_consents(identity_provider, browser):
    issuer = identity_provider.issuer
    with browser.profile() as page:
        login = page.log_in(request_url(issuer), "bob", answers=True)
        assert login.answer["state"] == "the state"
        assert login.answer["iss"] == issuer
        assert "Log in" in login.pages[0]
        assert "notes:write: Change notes" in login.pages[1]
        assert CALLBACK in login.pages[1]
        assert [each["status"] for each in page.seen()] == [303, 200, 303, 303, 200, 303, 303, 200]
        again = page.log_in(request_url(issuer), answers=True)
        assert len(again.pages) == 1, (
            "the session is still there: only the consent of a native client is asked for"
        )
    tokens = redeem(issuer, login)
    token = tokens["access_token"]
    assert header(token)["typ"] == "at+jwt"
    assert header(token)["alg"] == "RS256"
    assert header(token)["kid"] in kids(issuer)
    said = claims(token)
    assert (said["iss"], said["aud"], said["sub"]) == (issuer, RESOURCE, "bob")
    assert (said["client_id"], said["scope"]) == (PUBLIC, "notes:read notes:write")


def test_a_user_allows_less_or_denies(identity_provider, browser):
    issuer = identity_provider.issuer
    with browser.profile() as page:
        login = page.log_in(request_url(issuer), refuses=["notes:write"], answers=True)
        assert redeem(issuer, login)["scope"] == "notes:read"
    with browser.profile() as page:
        login = page.log_in(request_url(issuer), consents=False, answers=True)
        assert login.answer["error"] == "access_denied"


def test_a_stranger_is_not_let_in(identity_provider, browser):
    with browser.profile() as page, pytest.raises(AssertionError, match="Wrong login or password"):
        page.log_in(request_url(identity_provider.issuer), "eve", answers=True)


def test_profiles_work_at_the_same_time(identity_provider, browser):
    subjects = set()
    both = threading.Barrier(2)

    def run(user):
        with browser.profile() as page:
            both.wait(60)
            login = page.log_in(request_url(identity_provider.issuer), user, answers=True)
        subjects.add((user, claims(redeem(identity_provider.issuer, login)["access_token"])["sub"]))

    threads = [threading.Thread(target=run, args=[user]) for user in ("ada", "bob")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert subjects == {("ada", "ada"), ("bob", "bob")}


def test_a_refresh_token_is_good_once(identity_provider, browser):
    issuer = identity_provider.issuer
    with browser.profile() as page:
        tokens = redeem(issuer, page.log_in(request_url(issuer), answers=True))
    form = {"grant_type": "refresh_token", "client_id": PUBLIC, "refresh_token": tokens["refresh_token"]}
    refreshed = ask_for_tokens(issuer, **form).json()
    assert claims(refreshed["access_token"])["aud"] == RESOURCE
    assert refreshed["refresh_token"] != tokens["refresh_token"]
    assert ask_for_tokens(issuer, **form).json()["error"] == "invalid_grant"


def test_a_client_registers_and_may_have_more_later(identity_provider, browser):
    issuer = identity_provider.issuer
    metadata_of_client = {
        "client_name": "A client",
        "redirect_uris": ["http://localhost:3/callback"],
        "scope": "notes:read",
        "token_endpoint_auth_method": "none",
    }
    answer = httpx2.post(metadata(issuer)["registration_endpoint"], json=metadata_of_client)
    assert answer.status_code == 201
    client_id = answer.json()["client_id"]
    with browser.profile() as page:
        url = request_url(issuer, client_id, "http://localhost:3/callback")
        login = page.log_in(url, answers=True)
        assert "A client" in login.pages[1]
    assert (
        redeem(issuer, login, client_id, "http://localhost:3/callback")["scope"] == "notes:read notes:write"
    )


def test_a_client_says_who_it_is_by_a_document(browser):
    client_id = "https://client.example.com/about.json"
    document = {
        "client_id": client_id,
        "client_name": "Documented",
        "redirect_uris": [CALLBACK],
        "token_endpoint_auth_method": "none",
    }
    with providing(documents={client_id: document}) as provider, browser.profile() as page:
        login = page.log_in(request_url(provider.issuer, client_id), answers=True)
        assert "Documented" in login.pages[1]
        assert claims(redeem(provider.issuer, login, client_id)["access_token"])["client_id"] == client_id


def test_a_service_gets_tokens_for_itself(identity_provider):
    form = {"grant_type": "client_credentials", "resource": RESOURCE, "scope": "notes:read"}
    tokens = ask_for_tokens(identity_provider.issuer, SERVICE, **form).raise_for_status().json()
    said = claims(tokens["access_token"])
    assert (said["sub"], said["aud"], said["scope"]) == (SERVICE[0], RESOURCE, "notes:read")


def proof(key, endpoint, **more):
    """Return what shows that a client has a key (RFC 9449)."""
    public = {
        name: value for name, value in key.as_dict(private=False).items() if name in ("kty", "crv", "x", "y")
    }
    said = {"htm": "POST", "htu": endpoint, "iat": int(time.time()), "jti": uuid.uuid4().hex, **more}
    return jwt.encode({"typ": "dpop+jwt", "alg": "ES256", "jwk": public}, said, key)


@pytest.mark.parametrize("dpop_nonces", [False, True])
def test_tokens_are_bound_to_a_key(dpop_nonces):
    key = ECKey.generate_key("P-256")
    form = {"grant_type": "client_credentials", "resource": RESOURCE, "scope": "notes:read"}
    with providing(dpop_nonces=dpop_nonces) as provider:
        endpoint = metadata(provider.issuer)["token_endpoint"]

        def ask(**more):
            headers = {"DPoP": proof(key, endpoint, **more)}
            return httpx2.post(endpoint, data=form, auth=SERVICE, headers=headers)

        answer = ask()
        if dpop_nonces:
            assert answer.json()["error"] == "use_dpop_nonce"
            answer = ask(nonce=answer.headers["DPoP-Nonce"])
        tokens = answer.raise_for_status().json()
    assert tokens["token_type"] == "DPoP"
    assert claims(tokens["access_token"])["cnf"] == {"jkt": key.thumbprint()}


def test_opaque_tokens_are_introspected_and_revoked():
    with providing(opaque=True, users={"ada": {"department": "maps"}}) as provider:
        token = provider.token("ada", "notes:read", RESOURCE)
        endpoint = metadata(provider.issuer)["introspection_endpoint"]

        def introspect():
            return (
                httpx2.post(endpoint, data={"token": token}, auth=RESOURCE_SERVER).raise_for_status().json()
            )

        said = introspect()
        assert (said["active"], said["sub"], said["aud"], said["scope"]) == (
            True,
            "ada",
            RESOURCE,
            "notes:read",
        )
        assert said["department"] == "maps"
        provider.revoke("ada")
        assert introspect() == {"active": False}


def test_keys_are_rotated(identity_provider):
    with providing(algorithm="ES256") as provider:
        before = provider.token("ada", "notes:read", RESOURCE)
        assert header(before)["alg"] == "ES256"
        provider.rotate()
        after = provider.token("ada", "notes:read", RESOURCE, seconds=60)
        assert header(after)["kid"] != header(before)["kid"]
        assert claims(after)["exp"] - claims(after)["iat"] == 60
        assert {header(before)["kid"], header(after)["kid"]} <= kids(provider.issuer)
        provider.rotate(keeps_old=False)
        assert not {header(before)["kid"], header(after)["kid"]} & kids(provider.issuer)
        assert [each.status for each in provider.seen("/jwks")] == [200, 200]


@pytest.mark.parametrize("how", ["refusing", "failing", "hanging"])
def test_it_is_down_and_back(how):
    with providing() as provider:
        with provider.down(how):
            if how == "failing":
                assert httpx2.get(f"{provider.issuer}/jwks").status_code == 503
            else:
                with pytest.raises(httpx2.ConnectError if how == "refusing" else httpx2.ReadTimeout):
                    httpx2.get(f"{provider.issuer}/jwks", timeout=0.5)
        assert httpx2.get(f"{provider.issuer}/jwks").status_code == 200


def test_an_issuer_may_have_a_path(browser):
    with providing(path="/realms/one") as provider, browser.profile() as page:
        assert provider.issuer.endswith("/realms/one")
        origin = provider.issuer.removesuffix("/realms/one")
        said = httpx2.get(f"{origin}/.well-known/oauth-authorization-server/realms/one").json()
        assert said == metadata(provider.issuer)
        login = page.log_in(request_url(provider.issuer), answers=True)
        assert login.answer["iss"] == provider.issuer
        assert claims(redeem(provider.issuer, login)["access_token"])["iss"] == provider.issuer
