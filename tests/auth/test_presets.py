"""Tokens of providers, in the forms that their documentation shows; `mcpkit/auth/presets.py` says where."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mcpkit import Server
from mcpkit.auth import Auth0, Cognito, Entra, Grant, InvalidTokenError, Jwt, Keycloak, Okta
from tests.helpers.clock import Clock
from tests.helpers.serving import in_thread
from tests.helpers.signed_tokens import NOW, Signer

pytestmark = pytest.mark.anyio

URL = "https://mcp.example.com/mcp"
SIGNER = Signer("RS256", "key")
TIMES = {"iat": NOW - 60, "exp": NOW + 3600}
TENANT = "f7e1c2a4-0b3d-4c5e-8f60-112233445566"
API = "11111111-2222-3333-4444-555555555555"
APP = "6731de76-14a6-49ae-97bc-6eba6914391e"
POOL = "eu-west-1_ABCdefGHI"
REALM = "https://id.example.com/realms/example"
OKTA = "https://example.okta.com/oauth2/default"


def entra(**options: Any) -> Jwt:
    return Entra(TENANT, API, keys=SIGNER.public(alg=None), clock=Clock(NOW), **options)


def cognito(**options: Any) -> Jwt:
    options = {"client_ids": ["57cbishk4j24pabc1234567890"], **options}
    return Cognito(POOL, keys=SIGNER.public(), clock=Clock(NOW), **options)


def keycloak(**options: Any) -> Jwt:
    return Keycloak(REALM, keys=SIGNER.public(), clock=Clock(NOW), **options)


def auth0(**options: Any) -> Jwt:
    return Auth0("example.eu.auth0.com", keys=SIGNER.public(), clock=Clock(NOW), **options)


def okta(**options: Any) -> Jwt:
    return Okta(OKTA, keys=SIGNER.public(), clock=Clock(NOW), **options)


# Access tokens of users, as each provider's documentation has them.
OF_ENTRA = {
    "aud": API,
    "iss": f"https://login.microsoftonline.com/{TENANT}/v2.0",
    "nbf": NOW - 60,
    "aio": "opaque",
    "azp": APP,
    "azpacr": "0",
    "name": "Ada",
    "oid": "690222be-ff1a-4d56-abd1-7e4f7d38e474",
    "scp": "Notes.Read Notes.Write",
    "sub": "HKZpfaHyWadeOouYlitjrI-KffTm222X5rrV3xDqfKQ",
    "tid": TENANT,
    "uti": "fqiBqXLPj0eQa82S-IYFAA",
    "ver": "2.0",
    **TIMES,
}
OF_COGNITO = {
    "sub": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
    "cognito:groups": ["testgroup"],
    "iss": f"https://cognito-idp.eu-west-1.amazonaws.com/{POOL}",
    "version": 2,
    "client_id": "57cbishk4j24pabc1234567890",
    "origin_jti": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
    "token_use": "access",
    "scope": "openid https://mcp.example.com/mcp/read",
    "auth_time": NOW - 60,
    "username": "ada",
    **TIMES,
}
OF_KEYCLOAK = {
    "jti": "trrtcc:1",
    "iss": REALM,
    "aud": [URL, "account"],
    "sub": "0f6c9f1e-6f2e-4f7b-9d54-2f7a4d0a7c11",
    "typ": "Bearer",
    "azp": "editor",
    "sid": "s",
    "scope": "openid notes:read",
    "preferred_username": "ada",
    **TIMES,
}
OF_AUTH0 = {
    "iss": "https://example.eu.auth0.com/",
    "sub": "auth0|123456",
    "aud": [URL, "https://example.eu.auth0.com/userinfo"],
    "azp": "my_client_id",
    "scope": "openid profile read:notes",
    "permissions": ["read:notes", "write:notes"],
    **TIMES,
}
OF_OKTA = {
    "ver": 1,
    "jti": "AT.0mP4JKAZX1iACIT4vbEDF7LpvDVjxypPMf0D7uX39RE",
    "iss": OKTA,
    "aud": "api://default",
    "sub": "ada@example.com",
    "cid": "nmdP1fcyvdVO11AL7ECm",
    "uid": "00ujmkLgagxeRrAg20g3",
    "scp": ["openid", "notes:read"],
    "auth_time": NOW - 60,
    **TIMES,
}


def signed(claims: dict[str, Any], type_: str | None = "JWT", **changes: Any) -> str:
    told = {name: value for name, value in {**claims, **changes}.items() if value is not None}
    return SIGNER.token(told, {"typ": type_})


async def refusal(jwt: Jwt, token: str) -> str:
    with pytest.raises(InvalidTokenError) as caught:
        await jwt.verify(token, URL)
    return caught.value.description


def who(grant: Grant) -> tuple[str | None, str | None, set[str]]:
    return grant.principal.subject, grant.principal.client_id, set(grant.principal.scopes)


async def test_entra() -> None:
    grant = await entra().verify(signed(OF_ENTRA), URL)
    assert who(grant) == (OF_ENTRA["sub"], APP, {f"api://{API}/Notes.Read", f"api://{API}/Notes.Write"})
    named = await entra(application_id_uri="https://mcp.example.com").verify(signed(OF_ENTRA), URL)
    assert named.principal.scopes == {
        "https://mcp.example.com/Notes.Read",
        "https://mcp.example.com/Notes.Write",
    }

    oid = OF_ENTRA["oid"]
    for changes in ({"idtyp": "app"}, {"sub": oid}):
        of_application = signed(OF_ENTRA, scp=None, roles=["Notes.All"], **changes)
        assert who(await entra().verify(of_application, URL)) == (None, APP, {f"api://{API}/Notes.All"})
    # A user whom the application was given roles, and no scopes, is still a user.
    assert who(await entra().verify(signed(OF_ENTRA, scp=None, roles=["Admin"]), URL)) == (
        OF_ENTRA["sub"],
        APP,
        set(),
    )

    assert "ID token" in await refusal(entra(), signed(OF_ENTRA, azp=None, scp=None, nonce="n"))
    assert "another audience" in await refusal(entra(), signed(OF_ENTRA, aud=APP))
    assert "another issuer" in await refusal(
        entra(), signed(OF_ENTRA, iss=f"https://sts.windows.net/{TENANT}/")
    )
    for tenant in ("common", "organizations", "consumers", "example.com", f"{TENANT}/../x"):
        with pytest.raises(ValueError, match="takes the ID of one tenant"):
            Entra(tenant, API)


async def test_cognito() -> None:
    grant = await cognito().verify(signed(OF_COGNITO, None), URL)
    assert who(grant) == (
        OF_COGNITO["sub"],
        OF_COGNITO["client_id"],
        {"openid", "https://mcp.example.com/mcp/read"},
    )
    bound = signed(OF_COGNITO, None, aud=URL, client_id="another")
    assert who(await cognito(client_ids=[]).verify(bound, URL))[1] == "another"
    machine = signed(OF_COGNITO, None, sub=OF_COGNITO["client_id"], username=None)
    assert who(await cognito().verify(machine, URL))[0] is None

    assert "another audience" in await refusal(cognito(), signed(OF_COGNITO, None, client_id="another"))
    assert "another audience" in await refusal(cognito(client_ids=[]), signed(OF_COGNITO, None))
    assert "another audience" in await refusal(
        cognito(), signed(OF_COGNITO, None, aud="https://other.example.com")
    )
    assert "token_use" in await refusal(cognito(), signed(OF_COGNITO, None, token_use="id", aud=URL))
    assert "token_use" in await refusal(cognito(), signed(OF_COGNITO, None, token_use=None))
    for pool in (
        "eu-west-1",
        "cn-north-1_abc",
        "eu-west-1_a/b",
        "https://cognito-idp.eu-west-1.amazonaws.com/x",
    ):
        with pytest.raises(ValueError, match="takes the ID of a user pool"):
            Cognito(pool)
    with pytest.raises(TypeError, match="client_ids must be a list"):
        Cognito(POOL, client_ids="57cbishk4j24pabc1234567890")


async def test_keycloak() -> None:
    for type_ in ("JWT", "at+jwt"):
        grant = await keycloak().verify(signed(OF_KEYCLOAK, type_, nonce="before version 25"), URL)
        assert who(grant) == (OF_KEYCLOAK["sub"], "editor", {"openid", "notes:read"})
    account = {"preferred_username": "service-account-backup", "azp": "Backup", "client_id": "Backup"}
    assert who(await keycloak().verify(signed(OF_KEYCLOAK, **account), URL))[:2] == (None, "Backup")
    for part in ({"preferred_username": "service-account-editor"}, {"client_id": "editor"}):
        assert who(await keycloak().verify(signed(OF_KEYCLOAK, **part), URL))[0] == OF_KEYCLOAK["sub"]

    for type_ in ("ID", "Refresh", "Offline", "DPoP", None):
        assert "ID token" in await refusal(keycloak(), signed(OF_KEYCLOAK, typ=type_))
    assert "another audience" in await refusal(keycloak(), signed(OF_KEYCLOAK, aud="account"))
    assert "another audience" in await refusal(keycloak(), signed(OF_KEYCLOAK, aud=None))
    assert "whose it is" in await refusal(keycloak(), signed(OF_KEYCLOAK, sub=None))


async def test_auth0() -> None:
    assert who(await auth0().verify(signed(OF_AUTH0), URL)) == (
        "auth0|123456",
        "my_client_id",
        {"openid", "profile", "read:notes"},
    )
    of_standard = signed(OF_AUTH0, "at+jwt", azp=None, client_id="my_client_id", jti="1")
    assert who(await auth0().verify(of_standard, URL))[1] == "my_client_id"
    machine = signed(OF_AUTH0, sub="my_client_id@clients", gty="client-credentials")
    assert who(await auth0().verify(machine, URL))[:2] == (None, "my_client_id")
    other = signed(OF_AUTH0, sub="another@clients")
    assert who(await auth0().verify(other, URL))[0] == "another@clients"
    by_role = await auth0(scope_claims=["permissions"]).verify(signed(OF_AUTH0), URL)
    assert by_role.principal.scopes == {"read:notes", "write:notes"}

    id_token = signed(OF_AUTH0, aud="my_client_id", azp=None, nonce="n")
    assert "another audience" in await refusal(auth0(), id_token)
    assert "ID token" in await refusal(auth0(audience="my_client_id"), id_token)
    assert "another issuer" in await refusal(auth0(), signed(OF_AUTH0, iss="https://example.eu.auth0.com"))
    for domain in ("https://example.eu.auth0.com", "example.eu.auth0.com/", ""):
        with pytest.raises(ValueError, match="takes the domain of a tenant"):
            Auth0(domain)


async def test_okta() -> None:
    jwt = okta(audience="api://default")
    assert who(await jwt.verify(signed(OF_OKTA, None), URL)) == (
        "00ujmkLgagxeRrAg20g3",
        "nmdP1fcyvdVO11AL7ECm",
        {"openid", "notes:read"},
    )
    assert who(await okta().verify(signed(OF_OKTA, None, aud=URL), URL))[0] == "00ujmkLgagxeRrAg20g3"
    machine = signed(OF_OKTA, None, sub=OF_OKTA["cid"], uid=None)
    assert who(await jwt.verify(machine, URL))[:2] == (None, "nmdP1fcyvdVO11AL7ECm")

    id_token = signed(OF_OKTA, None, aud="nmdP1fcyvdVO11AL7ECm", cid=None, jti="ID.1", at_hash="h")
    assert "ID token" in await refusal(okta(audience="nmdP1fcyvdVO11AL7ECm"), id_token)
    assert "another audience" in await refusal(okta(), signed(OF_OKTA, None))
    with pytest.raises(ValueError, match="issuer of an authorization server"):
        Okta("https://example.okta.com")


async def test_options_of_the_author_go_before_those_of_the_provider() -> None:
    jwt = okta(audience="api://default", scope_claims=["groups"], required={"ver": 1}, types=["at+jwt"])
    assert "of a type" in await refusal(jwt, signed(OF_OKTA, None))
    assert (await jwt.verify(signed(OF_OKTA, "at+jwt", groups=["staff"]), URL)).principal.scopes == {"staff"}


@pytest.mark.parametrize(
    ("jwt", "is_said"), [(entra, True), (cognito, True), (keycloak, False), (auth0, False)]
)
def test_at_the_start_it_says_where_clients_will_not_log_in(
    jwt: Any, is_said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    app = Server("notes", auth=jwt()).asgi(public_url=URL)
    with caplog.at_level(logging.WARNING, "mcpkit"), in_thread(app):
        pass

    assert ("does not say that it knows PKCE" in caplog.text) is is_said
