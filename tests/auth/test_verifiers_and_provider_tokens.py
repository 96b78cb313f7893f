"""Verifiers of static tokens, and several verifiers for one server."""

import logging
from functools import partial
from typing import Any

import pytest
from starlette.testclient import TestClient

from mcpkit import Principal, Server
from mcpkit.auth import (
    AccessToken,
    Auth0,
    Cognito,
    Entra,
    InvalidTokenError,
    Jwt,
    Keycloak,
    Okta,
    StaticTokens,
    TokenVerifier,
)
from mcpkit.auth.auth_option import Issuers
from tests.helpers.signed_tokens import AUDIENCE, NOW, Signer
from tests.helpers.tables import each_row
from tests.helpers.waiting import Clock

TOKEN, HASH = StaticTokens.make()


@each_row(("value", "principal"), [
    ("backup", Principal("backup")),
    (("backup", ["notes:read"]), Principal("backup", {"notes:read"})),
    (Principal("backup", {"a"}, client_id="c"), Principal("backup", {"a"}, client_id="c")),
])  # fmt: skip
async def test_static_tokens_return_configured_principal(value, principal):
    for key in (TOKEN, HASH):
        tokens = StaticTokens({StaticTokens.make()[0]: "other", key: value})
        assert await tokens.verify(TOKEN, AUDIENCE) == AccessToken(principal)
        assert tokens.issuers == ()
        assert TOKEN not in repr(vars(tokens))


@each_row("sent", ["", "x", TOKEN[:-1], TOKEN + "A", TOKEN.swapcase(), HASH, "\ud800", "x" * 100_000])
async def test_static_tokens_unknown_are_rejected(sent):
    with pytest.raises(InvalidTokenError, match="not one of the static tokens"):
        await StaticTokens({TOKEN: "backup"}).verify(sent, AUDIENCE)


WEAK, FORBIDDEN = "fewer than 128 random bits", "a bearer token cannot have"


@each_row(("tokens", "error", "problem"), [
    ({}, ValueError, "has no token"),
    *(({token: "a"}, ValueError, WEAK) for token in (
        "secret", "a" * 64, "0123456789abcdef0123456789abcde", "01234567890123456789012345678901234567",
        TOKEN[:21],
    )),
    *(({token: "a"}, ValueError, FORBIDDEN) for token in ("", TOKEN + "\n", TOKEN + " x", HASH.upper())),
    ({HASH[:-1]: "a"}, ValueError, "64 lower-case hexadecimal digits"),
    ({TOKEN: "a", HASH: "b"}, ValueError, "occurs twice"),
    ({TOKEN: Principal(None)}, ValueError, "has no id"),
    ({TOKEN: ""}, ValueError, "must not be empty"),
    ({TOKEN: 7}, TypeError, "must be a Principal, an id"),
    ({TOKEN: ("a", "b")}, TypeError, "must be a list of strings"),
    ({7: "a"}, TypeError, "must be a string"),
    ([TOKEN], TypeError, "must be a mapping"),
])  # fmt: skip
def test_static_tokens_weak_or_invalid_raise(tokens, error, problem):
    with pytest.raises(error, match=problem) as caught:
        StaticTokens(tokens)

    assert TOKEN not in str(caught.value)


def test_static_tokens_start_logs_warning_and_challenge_has_no_metadata(caplog):
    app = Server("notes", auth=StaticTokens({TOKEN: "backup"})).asgi(public_url=AUDIENCE)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with caplog.at_level(logging.WARNING, "mcpkit"), TestClient(app, "https://mcp.example.com") as http:
        known, unknown = (
            http.post(
                "/mcp", json=ping, headers={"Authorization": f"Bearer {token}", "Accept": "application/json"}
            )
            for token in (TOKEN, "x")
        )
    # A request outside of a session is no valid one, but its token is accepted.
    assert (known.status_code, unknown.status_code) == (400, 401)
    assert "resource_metadata" not in unknown.headers["www-authenticate"]
    assert (
        "notes accepts 1 static token at https://mcp.example.com/mcp: clients cannot log in there"
        " and need a token from the operator" in caplog.messages
    )


ONE, TWO = "https://one.example.com", "https://two.example.com"


SIGNERS = {ONE: Signer("ES256", "key"), TWO: Signer("ES256", "key")}
IN_HOUSE = Signer("ES256").token(iss="the house")


def jwt_for(issuer: str) -> Jwt:
    return Jwt(issuer, keys=SIGNERS[issuer].public(), clock=Clock(NOW))


class InHouse(TokenVerifier):
    async def verify(self, token: str, audience: str) -> AccessToken:
        if token not in {"opaque", IN_HOUSE}:
            raise InvalidTokenError("none of the house")
        return AccessToken(Principal("house"))


async def principal_or_error(issuers: TokenVerifier, token: str) -> Any:
    try:
        return (await issuers.verify(token, AUDIENCE)).principal.id
    except InvalidTokenError as error:
        return error.description


async def test_issuers_route_token_by_iss():
    issuers = Issuers([jwt_for(ONE), jwt_for(TWO), StaticTokens({TOKEN: "backup"}), InHouse()])
    assert issuers.issuers == (ONE, TWO)
    for token, principal in (
        (SIGNERS[ONE].token(iss=ONE), f"{ONE}#sub=ada"),
        (SIGNERS[TWO].token(iss=TWO), f"{TWO}#sub=ada"),
        (TOKEN, "backup"),
        ("opaque", "house"),
        (IN_HOUSE, "house"),
    ):
        assert await principal_or_error(issuers, token) == principal


async def test_issuers_send_static_token_to_no_other_verifier():
    sent: list[str] = []

    class Remote(InHouse):
        issuers = (ONE,)

        async def verify(self, token: str, audience: str) -> AccessToken:
            sent.append(token)
            return await super().verify(token, audience)

    issuers = Issuers([Remote(), StaticTokens({TOKEN: "backup"})])
    assert await principal_or_error(issuers, TOKEN) == "backup"
    assert sent == []
    assert await principal_or_error(issuers, "opaque") == "house"
    assert sent == ["opaque"]


UNKNOWN = "is not trusted by this server"


@each_row(("token", "problem"), [
    (SIGNERS[ONE].token(iss=TWO), "no key of the issuer verifies"),
    (SIGNERS[ONE].token(iss="https://three.example.com"), UNKNOWN),
    (SIGNERS[ONE].token(iss=[ONE]), UNKNOWN),
    *((token, UNKNOWN) for token in ("opaque", "a.b.c", "\ud800.\u00e9.x")),
])  # fmt: skip
async def test_issuers_unknown_issuer_is_rejected(token, problem):
    assert problem in await principal_or_error(Issuers([jwt_for(ONE), jwt_for(TWO)]), token)


# Access tokens of Entra, Cognito, Keycloak, Auth0 and Okta, as their documentation shows them


URL = "https://mcp.example.com/mcp"
SIGNER = Signer("RS256", "key")
TIMES = {"iat": NOW - 60, "exp": NOW + 3600}
TENANT = "f7e1c2a4-0b3d-4c5e-8f60-112233445566"
API = "11111111-2222-3333-4444-555555555555"
APP = "6731de76-14a6-49ae-97bc-6eba6914391e"
POOL = "eu-west-1_ABCdefGHI"
POOL_CLIENT = "57cbishk4j24pabc1234567890"
REALM = "https://id.example.com/realms/example"
OKTA_ISSUER = "https://example.okta.com/oauth2/default"
OPTIONS: dict[str, Any] = {"keys": SIGNER.public(), "clock": Clock(NOW)}

entra = partial(Entra, TENANT, API, keys=SIGNER.public(alg=None), clock=Clock(NOW))
cognito = partial(Cognito, POOL, client_ids=[POOL_CLIENT], **OPTIONS)
keycloak = partial(Keycloak, REALM, **OPTIONS)
auth0 = partial(Auth0, "example.eu.auth0.com", **OPTIONS)
okta = partial(Okta, OKTA_ISSUER, **OPTIONS)

ENTRA = {
    "aud": API, "iss": f"https://login.microsoftonline.com/{TENANT}/v2.0", "nbf": NOW - 60, "aio": "opaque",
    "azp": APP, "azpacr": "0", "name": "Ada", "oid": "690222be-ff1a-4d56-abd1-7e4f7d38e474",
    "scp": "Notes.Read Notes.Write", "sub": "HKZpfaHyWadeOouYlitjrI-KffTm222X5rrV3xDqfKQ", "tid": TENANT,
    "uti": "fqiBqXLPj0eQa82S-IYFAA", "ver": "2.0", **TIMES,
}  # fmt: skip
COGNITO = {
    "sub": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "cognito:groups": ["testgroup"],
    "iss": f"https://cognito-idp.eu-west-1.amazonaws.com/{POOL}", "version": 2, "client_id": POOL_CLIENT,
    "origin_jti": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "token_use": "access",
    "scope": "openid https://mcp.example.com/mcp/read", "auth_time": NOW - 60, "username": "ada", **TIMES,
}  # fmt: skip
KEYCLOAK = {
    "jti": "trrtcc:1", "iss": REALM, "aud": [URL, "account"], "sub": "0f6c9f1e-6f2e-4f7b-9d54-2f7a4d0a7c11",
    "typ": "Bearer", "azp": "editor", "sid": "s", "scope": "openid notes:read", "preferred_username": "ada",
    **TIMES,
}  # fmt: skip
AUTH0 = {
    "iss": "https://example.eu.auth0.com/", "sub": "auth0|123456", "azp": "my_client_id",
    "aud": [URL, "https://example.eu.auth0.com/userinfo"], "scope": "openid profile read:notes",
    "permissions": ["read:notes", "write:notes"], **TIMES,
}  # fmt: skip
OKTA = {
    "ver": 1, "jti": "AT.0mP4JKAZX1iACIT4vbEDF7LpvDVjxypPMf0D7uX39RE", "iss": OKTA_ISSUER,
    "aud": "api://default", "sub": "ada@example.com", "cid": "nmdP1fcyvdVO11AL7ECm",
    "uid": "00ujmkLgagxeRrAg20g3", "scp": ["openid", "notes:read"], "auth_time": NOW - 60, **TIMES,
}  # fmt: skip


def signed(claims: dict[str, Any], type_: str | None = "JWT", **changes: Any) -> str:
    members = {name: value for name, value in {**claims, **changes}.items() if value is not None}
    return SIGNER.token(members, {"typ": type_})


async def expect_rejection(jwt: Jwt, token: str, problem: str) -> None:
    with pytest.raises(InvalidTokenError) as caught:
        await jwt.verify(token, URL)
    assert problem in caught.value.description


async def identity_of(jwt: Jwt, token: str) -> tuple[str | None, str | None, set[str]]:
    principal = (await jwt.verify(token, URL)).principal
    return principal.subject, principal.client_id, set(principal.scopes)


def expect_invalid(create: Any, problem: str, *values: str) -> None:
    for value in values:
        with pytest.raises(ValueError, match=problem):
            create(value)


async def test_entra_tokens():
    scopes = {f"api://{API}/Notes.Read", f"api://{API}/Notes.Write"}
    assert await identity_of(entra(), signed(ENTRA)) == (ENTRA["sub"], APP, scopes)
    named = entra(application_id_uri="https://mcp.example.com")
    scopes = {"https://mcp.example.com/Notes.Read", "https://mcp.example.com/Notes.Write"}
    assert (await identity_of(named, signed(ENTRA)))[2] == scopes
    for changes in ({"idtyp": "app"}, {"sub": ENTRA["oid"]}):
        of_application = signed(ENTRA, scp=None, roles=["Notes.All"], **changes)
        assert await identity_of(entra(), of_application) == (None, APP, {f"api://{API}/Notes.All"})
    # A user with roles of the application, and no scopes, is still a user.
    of_user = signed(ENTRA, scp=None, roles=["Admin"])
    assert await identity_of(entra(), of_user) == (ENTRA["sub"], APP, set())

    await expect_rejection(entra(), signed(ENTRA, azp=None, scp=None, nonce="n"), "ID token")
    await expect_rejection(entra(), signed(ENTRA, aud=APP), "another audience")
    issuer = f"https://sts.windows.net/{TENANT}/"
    await expect_rejection(entra(), signed(ENTRA, iss=issuer), "another issuer")
    tenants = ("common", "organizations", "consumers", "example.com", f"{TENANT}/../x")
    expect_invalid(lambda tenant: Entra(tenant, API), "the GUID of one Entra tenant", *tenants)


async def test_cognito_tokens():
    scopes = {"openid", "https://mcp.example.com/mcp/read"}
    assert await identity_of(cognito(), signed(COGNITO, None)) == (COGNITO["sub"], POOL_CLIENT, scopes)
    bound = signed(COGNITO, None, aud=URL, client_id="another")
    assert (await identity_of(cognito(client_ids=[]), bound))[1] == "another"
    machine = signed(COGNITO, None, sub=POOL_CLIENT, username=None)
    assert (await identity_of(cognito(), machine))[0] is None

    await expect_rejection(cognito(), signed(COGNITO, None, client_id="another"), "another audience")
    await expect_rejection(cognito(client_ids=[]), signed(COGNITO, None), "another audience")
    foreign = signed(COGNITO, None, aud="https://other.example.com")
    await expect_rejection(cognito(), foreign, "another audience")
    await expect_rejection(cognito(), signed(COGNITO, None, token_use="id", aud=URL), "token_use")
    await expect_rejection(cognito(), signed(COGNITO, None, token_use=None), "token_use")
    pools = ("eu-west-1", "cn-north-1_abc", "eu-west-1_a/b", "https://cognito-idp.eu-west-1.amazonaws.com/x")
    expect_invalid(Cognito, "must be the ID of a Cognito user pool", *pools)
    with pytest.raises(TypeError, match="client_ids must be a list"):
        Cognito(POOL, client_ids=POOL_CLIENT)


async def test_keycloak_tokens():
    sub = KEYCLOAK["sub"]
    for type_ in ("JWT", "at+jwt"):
        token = signed(KEYCLOAK, type_, nonce="before version 25")
        assert await identity_of(keycloak(), token) == (sub, "editor", {"openid", "notes:read"})
    account = {"preferred_username": "service-account-backup", "azp": "Backup", "client_id": "Backup"}
    assert (await identity_of(keycloak(), signed(KEYCLOAK, **account)))[:2] == (None, "Backup")
    for part in ({"preferred_username": "service-account-editor"}, {"client_id": "editor"}):
        assert (await identity_of(keycloak(), signed(KEYCLOAK, **part)))[0] == sub

    for type_ in ("ID", "Refresh", "Offline", "DPoP", None):
        await expect_rejection(keycloak(), signed(KEYCLOAK, typ=type_), "ID token")
    for audience in ("account", None):
        await expect_rejection(keycloak(), signed(KEYCLOAK, aud=audience), "another audience")
    await expect_rejection(keycloak(), signed(KEYCLOAK, sub=None), "neither sub nor client_id")


async def test_auth0_tokens():
    scopes = {"openid", "profile", "read:notes"}
    assert await identity_of(auth0(), signed(AUTH0)) == ("auth0|123456", "my_client_id", scopes)
    of_standard = signed(AUTH0, "at+jwt", azp=None, client_id="my_client_id", jti="1")
    assert (await identity_of(auth0(), of_standard))[1] == "my_client_id"
    machine = signed(AUTH0, sub="my_client_id@clients", gty="client-credentials")
    assert (await identity_of(auth0(), machine))[:2] == (None, "my_client_id")
    assert (await identity_of(auth0(), signed(AUTH0, sub="another@clients")))[0] == "another@clients"
    by_role = auth0(scope_claims=["permissions"])
    assert (await identity_of(by_role, signed(AUTH0)))[2] == {"read:notes", "write:notes"}

    id_token = signed(AUTH0, aud="my_client_id", azp=None, nonce="n")
    await expect_rejection(auth0(), id_token, "another audience")
    await expect_rejection(auth0(audience="my_client_id"), id_token, "ID token")
    await expect_rejection(auth0(), signed(AUTH0, iss="https://example.eu.auth0.com"), "another issuer")
    domains = ("https://example.eu.auth0.com", "example.eu.auth0.com/", "")
    expect_invalid(Auth0, "must be that of an Auth0 tenant", *domains)


async def test_okta_tokens():
    jwt, user, client = okta(audience="api://default"), OKTA["uid"], OKTA["cid"]
    assert await identity_of(jwt, signed(OKTA, None)) == (user, client, {"openid", "notes:read"})
    assert (await identity_of(okta(), signed(OKTA, None, aud=URL)))[0] == user
    assert (await identity_of(jwt, signed(OKTA, None, sub=client, uid=None)))[:2] == (None, client)

    id_token = signed(OKTA, None, aud=client, cid=None, jti="ID.1", at_hash="h")
    await expect_rejection(okta(audience=client), id_token, "ID token")
    await expect_rejection(okta(), signed(OKTA, None), "another audience")
    expect_invalid(Okta, "an Okta authorization server", "https://example.okta.com")


@pytest.mark.parametrize(
    ("jwt", "is_logged"), [(entra, True), (cognito, True), (keycloak, False), (auth0, False)]
)
def test_preset_without_pkce_metadata_logs_warning_at_start(jwt, is_logged, caplog):
    app = Server("notes", auth=jwt()).asgi(public_url=URL)
    with caplog.at_level(logging.WARNING, "mcpkit"), TestClient(app, "https://mcp.example.com"):
        pass
    assert ("does not announce PKCE" in caplog.text) is is_logged
