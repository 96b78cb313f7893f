"""Access tokens of Entra, Cognito, Keycloak, Auth0 and Okta, as their documentation shows them."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from starlette.testclient import TestClient

from mcpkit import Server
from mcpkit.auth import AccessToken, Auth0, Cognito, Entra, InvalidTokenError, Jwt, Keycloak, Okta
from tests.helpers.clock import Clock
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


OKTA_ISSUER = "https://example.okta.com/oauth2/default"


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
    return Okta(OKTA_ISSUER, keys=SIGNER.public(), clock=Clock(NOW), **options)


ENTRA = {
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


COGNITO = {
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


KEYCLOAK = {
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


AUTH0 = {
    "iss": "https://example.eu.auth0.com/",
    "sub": "auth0|123456",
    "aud": [URL, "https://example.eu.auth0.com/userinfo"],
    "azp": "my_client_id",
    "scope": "openid profile read:notes",
    "permissions": ["read:notes", "write:notes"],
    **TIMES,
}


OKTA = {
    "ver": 1,
    "jti": "AT.0mP4JKAZX1iACIT4vbEDF7LpvDVjxypPMf0D7uX39RE",
    "iss": OKTA_ISSUER,
    "aud": "api://default",
    "sub": "ada@example.com",
    "cid": "nmdP1fcyvdVO11AL7ECm",
    "uid": "00ujmkLgagxeRrAg20g3",
    "scp": ["openid", "notes:read"],
    "auth_time": NOW - 60,
    **TIMES,
}


def signed(claims: dict[str, Any], type_: str | None = "JWT", **changes: Any) -> str:
    members = {name: value for name, value in {**claims, **changes}.items() if value is not None}
    return SIGNER.token(members, {"typ": type_})


async def rejection(jwt: Jwt, token: str) -> str:
    with pytest.raises(InvalidTokenError) as caught:
        await jwt.verify(token, URL)
    return caught.value.description


def identity_of(grant: AccessToken) -> tuple[str | None, str | None, set[str]]:
    return grant.principal.subject, grant.principal.client_id, set(grant.principal.scopes)


async def test_entra_tokens():
    grant = await entra().verify(signed(ENTRA), URL)
    assert identity_of(grant) == (ENTRA["sub"], APP, {f"api://{API}/Notes.Read", f"api://{API}/Notes.Write"})
    named = await entra(application_id_uri="https://mcp.example.com").verify(signed(ENTRA), URL)
    assert named.principal.scopes == {
        "https://mcp.example.com/Notes.Read",
        "https://mcp.example.com/Notes.Write",
    }

    oid = ENTRA["oid"]
    for changes in ({"idtyp": "app"}, {"sub": oid}):
        of_application = signed(ENTRA, scp=None, roles=["Notes.All"], **changes)
        assert identity_of(await entra().verify(of_application, URL)) == (
            None,
            APP,
            {f"api://{API}/Notes.All"},
        )
    # A user whom the application was given roles, and no scopes, is still a user.
    assert identity_of(await entra().verify(signed(ENTRA, scp=None, roles=["Admin"]), URL)) == (
        ENTRA["sub"],
        APP,
        set(),
    )

    assert "ID token" in await rejection(entra(), signed(ENTRA, azp=None, scp=None, nonce="n"))
    assert "another audience" in await rejection(entra(), signed(ENTRA, aud=APP))
    assert "another issuer" in await rejection(
        entra(), signed(ENTRA, iss=f"https://sts.windows.net/{TENANT}/")
    )
    for tenant in ("common", "organizations", "consumers", "example.com", f"{TENANT}/../x"):
        with pytest.raises(ValueError, match="the GUID of one Entra tenant"):
            Entra(tenant, API)


async def test_cognito_tokens():
    grant = await cognito().verify(signed(COGNITO, None), URL)
    assert identity_of(grant) == (
        COGNITO["sub"],
        COGNITO["client_id"],
        {"openid", "https://mcp.example.com/mcp/read"},
    )
    bound = signed(COGNITO, None, aud=URL, client_id="another")
    assert identity_of(await cognito(client_ids=[]).verify(bound, URL))[1] == "another"
    machine = signed(COGNITO, None, sub=COGNITO["client_id"], username=None)
    assert identity_of(await cognito().verify(machine, URL))[0] is None

    assert "another audience" in await rejection(cognito(), signed(COGNITO, None, client_id="another"))
    assert "another audience" in await rejection(cognito(client_ids=[]), signed(COGNITO, None))
    assert "another audience" in await rejection(
        cognito(), signed(COGNITO, None, aud="https://other.example.com")
    )
    assert "token_use" in await rejection(cognito(), signed(COGNITO, None, token_use="id", aud=URL))
    assert "token_use" in await rejection(cognito(), signed(COGNITO, None, token_use=None))
    for pool in (
        "eu-west-1",
        "cn-north-1_abc",
        "eu-west-1_a/b",
        "https://cognito-idp.eu-west-1.amazonaws.com/x",
    ):
        with pytest.raises(ValueError, match="must be the ID of a Cognito user pool"):
            Cognito(pool)
    with pytest.raises(TypeError, match="client_ids must be a list"):
        Cognito(POOL, client_ids="57cbishk4j24pabc1234567890")


async def test_keycloak_tokens():
    for type_ in ("JWT", "at+jwt"):
        grant = await keycloak().verify(signed(KEYCLOAK, type_, nonce="before version 25"), URL)
        assert identity_of(grant) == (KEYCLOAK["sub"], "editor", {"openid", "notes:read"})
    account = {"preferred_username": "service-account-backup", "azp": "Backup", "client_id": "Backup"}
    assert identity_of(await keycloak().verify(signed(KEYCLOAK, **account), URL))[:2] == (None, "Backup")
    for part in ({"preferred_username": "service-account-editor"}, {"client_id": "editor"}):
        assert identity_of(await keycloak().verify(signed(KEYCLOAK, **part), URL))[0] == KEYCLOAK["sub"]

    for type_ in ("ID", "Refresh", "Offline", "DPoP", None):
        assert "ID token" in await rejection(keycloak(), signed(KEYCLOAK, typ=type_))
    assert "another audience" in await rejection(keycloak(), signed(KEYCLOAK, aud="account"))
    assert "another audience" in await rejection(keycloak(), signed(KEYCLOAK, aud=None))
    assert "neither sub nor client_id" in await rejection(keycloak(), signed(KEYCLOAK, sub=None))


async def test_auth0_tokens():
    assert identity_of(await auth0().verify(signed(AUTH0), URL)) == (
        "auth0|123456",
        "my_client_id",
        {"openid", "profile", "read:notes"},
    )
    of_standard = signed(AUTH0, "at+jwt", azp=None, client_id="my_client_id", jti="1")
    assert identity_of(await auth0().verify(of_standard, URL))[1] == "my_client_id"
    machine = signed(AUTH0, sub="my_client_id@clients", gty="client-credentials")
    assert identity_of(await auth0().verify(machine, URL))[:2] == (None, "my_client_id")
    other = signed(AUTH0, sub="another@clients")
    assert identity_of(await auth0().verify(other, URL))[0] == "another@clients"
    by_role = await auth0(scope_claims=["permissions"]).verify(signed(AUTH0), URL)
    assert by_role.principal.scopes == {"read:notes", "write:notes"}

    id_token = signed(AUTH0, aud="my_client_id", azp=None, nonce="n")
    assert "another audience" in await rejection(auth0(), id_token)
    assert "ID token" in await rejection(auth0(audience="my_client_id"), id_token)
    assert "another issuer" in await rejection(auth0(), signed(AUTH0, iss="https://example.eu.auth0.com"))
    for domain in ("https://example.eu.auth0.com", "example.eu.auth0.com/", ""):
        with pytest.raises(ValueError, match="must be that of an Auth0 tenant"):
            Auth0(domain)


async def test_okta_tokens():
    jwt = okta(audience="api://default")
    assert identity_of(await jwt.verify(signed(OKTA, None), URL)) == (
        "00ujmkLgagxeRrAg20g3",
        "nmdP1fcyvdVO11AL7ECm",
        {"openid", "notes:read"},
    )
    assert identity_of(await okta().verify(signed(OKTA, None, aud=URL), URL))[0] == "00ujmkLgagxeRrAg20g3"
    machine = signed(OKTA, None, sub=OKTA["cid"], uid=None)
    assert identity_of(await jwt.verify(machine, URL))[:2] == (None, "nmdP1fcyvdVO11AL7ECm")

    id_token = signed(OKTA, None, aud="nmdP1fcyvdVO11AL7ECm", cid=None, jti="ID.1", at_hash="h")
    assert "ID token" in await rejection(okta(audience="nmdP1fcyvdVO11AL7ECm"), id_token)
    assert "another audience" in await rejection(okta(), signed(OKTA, None))
    with pytest.raises(ValueError, match="an Okta authorization server"):
        Okta("https://example.okta.com")


@pytest.mark.parametrize(
    ("jwt", "is_logged"), [(entra, True), (cognito, True), (keycloak, False), (auth0, False)]
)
def test_preset_without_pkce_metadata_logs_warning_at_start(jwt, is_logged, caplog):
    app = Server("notes", auth=jwt()).asgi(public_url=URL)
    with caplog.at_level(logging.WARNING, "mcpkit"), TestClient(app, "https://mcp.example.com"):
        pass

    assert ("does not announce PKCE" in caplog.text) is is_logged
