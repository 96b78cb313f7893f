"""Verification of access tokens that are JWTs."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit.auth import AccessToken, InvalidTokenError, Jwt
from mcpkit.auth.jws import MAX_TOKEN
from mcpkit.auth.key_set import ALGORITHMS
from tests.helpers.clock import Clock
from tests.helpers.signed_tokens import AUDIENCE, ISSUER, NOW, Signer
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio

SIGNERS = {algorithm: Signer(algorithm, algorithm) for algorithm in ALGORITHMS}


ES = SIGNERS["ES256"]


KEYS = {"keys": [each.public() for each in SIGNERS.values()]}


def verifier(**options: Any) -> Jwt:
    return Jwt(ISSUER, **{"keys": KEYS, "clock": Clock(NOW), **options})


async def verify(token: str, **options: Any) -> AccessToken:
    return await verifier(**options).verify(token, AUDIENCE)


async def rejection(token: str, audience: str = AUDIENCE, **options: Any) -> str:
    with pytest.raises(InvalidTokenError) as caught:
        await verifier(**options).verify(token, audience)
    return caught.value.description


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_jwt_each_algorithm_returns_principal_and_times(algorithm):
    grant = await verify(SIGNERS[algorithm].token(jti="7", org={"id": "acme"}))

    who = grant.principal
    assert who.id == "https://id.example.com#sub=ada"
    assert (who.issuer, who.subject, who.client_id) == (ISSUER, "ada", "editor")
    assert who.scopes == {"notes:read", "notes:write"}
    assert who.claims == {
        "sub": "ada",
        "client_id": "editor",
        "scope": "notes:read notes:write",
        "jti": "7",
        "org": {"id": "acme"},
    }
    assert (grant.expires, grant.issued, grant.fresh_until) == (NOW + 605, NOW - 60, None)


@pytest.mark.limit("keys of an issuer")
@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"keys": []}, "no key that can verify"),
        ([], "contains no key"),
        ("text", "not a PEM public key"),
        (ES.key.as_pem(private=True), "private key"),
        ({"keys": [{**ES.key.as_dict(private=True)}]}, "private or secret key"),
        ({"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0"}, "private or secret key"),
        ({"keys": [ES.public()] * 101}, "more than 100 keys"),
    ],
    ids=["no keys", "empty list", "text", "private PEM", "private JWK", "secret", "too many"],
)
def test_jwt_keys_missing_or_private_raise_value_error(keys, problem):
    with pytest.raises(ValueError, match=problem):
        verifier(keys=keys)


async def test_jwt_keys_unusable_are_skipped():
    ps = SIGNERS["RS256"]
    weak = {"kty": "RSA", "n": "AAAA" * 400 + ps.public()["n"][:100], "e": "AQAB", "kid": "RS256"}
    others: list[Any] = [
        ps.public(use="enc"),
        ps.public(key_ops=["encrypt"]),
        ps.public(alg="RSA-OAEP"),
        ps.public(alg="HS256"),
        ps.public(kty="oct"),
        ps.public(kid=7),
        ps.public(n=None),
        ps.public(n="***"),
        weak,
        {"kty": "ML-DSA"},
        "text",
    ]
    assert "no key of the issuer verifies" in await rejection(
        ps.token(), keys={"keys": [*others, ES.public()]}
    )
    good = ps.public(use=None, alg=None, key_ops=["verify"], x5t="abc")
    assert await verify(ps.token(), keys={"keys": [*others, good]})


async def test_jwt_key_verifies_only_its_own_algorithm():
    rs, ps = SIGNERS["RS256"], SIGNERS["PS256"]
    ps.key, before = rs.key, ps.key
    try:
        assert await verify(ps.token(header={"kid": "RS256"}), keys=rs.public(alg=None))
        assert "no key of the issuer verifies" in await rejection(
            ps.token(header={"kid": "RS256"}), keys=rs.public()
        )
    finally:
        ps.key = before
    assert "no key of the issuer verifies" in await rejection(
        rs.token(), keys=[SIGNERS["ES256"].public(kid="RS256")]
    )


async def test_jwt_without_kid_tries_matching_keys():
    others = [Signer("ES256", f"other {number}") for number in range(3)]
    keys = [each.public() for each in (*others, ES, SIGNERS["RS256"])]
    assert await verify(ES.token(header={"kid": None}), keys=keys)


@pytest.mark.limit("names and lists in an access token")
@each_row(
    ("changes", "problem"),
    [
        ({"exp": NOW - 5}, "has expired"),
        ({"exp": None}, "exp, nbf or iat of the token"),
        ({"exp": "soon"}, "exp, nbf or iat of the token"),
        ({"exp": True}, "exp, nbf or iat of the token"),
        ({"exp": 10**400}, "exp, nbf or iat of the token"),
        ({"exp": -5}, "exp, nbf or iat of the token"),
        ({"nbf": NOW + 6}, "not valid yet"),
        ({"iat": NOW + 6}, "not valid yet"),
        ({"nbf": []}, "exp, nbf or iat of the token"),
        ({"iss": ISSUER + "/"}, "another issuer"),
        ({"iss": "HTTPS://id.example.com"}, "another issuer"),
        ({"iss": [ISSUER]}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": None}, "another audience"),
        ({"aud": []}, "another audience"),
        ({"aud": [AUDIENCE, 7]}, "another audience"),
        ({"aud": [[AUDIENCE]]}, "another audience"),
        ({"aud": {"url": AUDIENCE}}, "another audience"),
        ({"aud": [AUDIENCE] * 101}, "another audience"),
        ({"sub": None, "client_id": None}, "neither sub nor client_id"),
        ({"sub": ""}, "neither sub nor client_id"),
        ({"sub": 7}, "neither sub nor client_id"),
        ({"sub": "x" * 1001}, "neither sub nor client_id"),
        ({"client_id": ["editor"]}, "neither sub nor client_id"),
        ({"scope": 7}, "scopes of the token"),
        ({"scope": ["a", 7]}, "scopes of the token"),
        ({"scope": ["a"] * 1001}, "scopes of the token"),
    ],
)
async def test_jwt_claims_invalid_are_rejected(changes, problem):
    assert problem in await rejection(ES.token(**changes))


@pytest.mark.limit("difference between clocks")
async def test_jwt_times_allow_leeway():
    assert await verify(ES.token(exp=NOW - 4.5, nbf=NOW + 5, iat=NOW + 5))
    assert "expired" in await rejection(ES.token(exp=NOW - 0.5), leeway=0)
    assert await verify(ES.token(exp=NOW - 100), leeway=120)


@each_row(
    "audience",
    [
        AUDIENCE,
        [AUDIENCE, "https://other.example.com"],
        "HTTPS://MCP.Example.COM/mcp",
        "https://mcp.example.com:443/mcp",
        "https://mcp.example.com/mcp/",
    ],
)
async def test_jwt_audience_accepts_equivalent_urls(audience):
    assert await verify(ES.token(aud=audience))


@each_row(
    "audience",
    [
        "https://mcp.example.com", "https://mcp.example.com/", "https://mcp.example.com/MCP",
        "https://mcp.example.com/mcp/more", "https://mcp.example.com/mcp?x=1",
        "https://mcp.example.com/mcp#x", "https://evil@mcp.example.com/mcp",
        "https://mcp.example.com@evil.example/mcp", "https://mcp.example.com:8443/mcp",
        "http://mcp.example.com/mcp", "https://mcp.example.com/%6dcp", "mcp.example.com/mcp",
        "//mcp.example.com/mcp", "https://mcp.example.com\\mcp", "https://mcp.example.com.evil.example/mcp",
        " https://mcp.example.com/mcp",
    ],
)  # fmt: skip
async def test_jwt_audience_of_another_url_is_rejected(audience):
    assert "another audience" in await rejection(ES.token(aud=audience))


async def test_jwt_audience_is_endpoint_or_option():
    sse = "https://mcp.example.com/sse"
    assert "another audience" in await rejection(ES.token(), audience=sse)
    assert (await verifier().verify(ES.token(aud=sse), sse)).principal
    assert await verify(ES.token(aud="api://notes"), audience="api://notes")
    assert await verify(ES.token(aud="b"), audience=["a", "b"])
    assert "another audience" in await rejection(ES.token(), audience="api://notes")
    assert await verify(ES.token(aud="anything"), accept_tokens_for_any_audience=True)
    assert await verify(ES.token(aud=None), accept_tokens_for_any_audience=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "n"},
        {"at_hash": "h"},
        {"c_hash": "h"},
        {"aud": "editor"},
        {"aud": ["editor"]},
        {"aud": "web", "client_id": None, "azp": "web"},
    ],
)
async def test_jwt_id_token_is_rejected(changes):
    token = ES.token(header={"typ": "JWT"}, **changes)
    assert "ID token" in await rejection(token, accept_tokens_for_any_audience=True)
    # What says that it is an access token is one: clients may be resources, too.
    assert await verify(ES.token(**changes), accept_tokens_for_any_audience=True)


@each_row(
    "type_", [None, "", "dpop+jwt", "logout+jwt", "oauth-id-jag+jwt", "secevent+jwt", "JOSE", "at+jwt "]
)
async def test_jwt_typ_of_other_tokens_is_rejected(type_):
    assert "the type of the token" in await rejection(ES.token(header={"typ": type_}))


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": None},
        {"sub": "editor"},
        {"sub": None, "client_id": None, "azp": "editor"},
        {"sub": "editor", "client_id": None, "cid": "editor"},
    ],
)
async def test_jwt_without_user_returns_client_principal(claims):
    who = (await verify(ES.token(**claims))).principal
    assert who.id == "https://id.example.com#client=editor"
    assert (who.subject, who.client_id) == (None, "editor")


async def test_jwt_user_named_like_client_has_another_id():
    user = (await verify(ES.token(sub="#client=editor"))).principal
    client = (await verify(ES.token(sub=None))).principal
    assert user.id != client.id


@each_row(
    ("claims", "scopes"),
    [
        ({"scope": "a b"}, {"a", "b"}),
        ({"scope": ["a", "b"]}, {"a", "b"}),
        ({"scope": None, "scp": ["a"]}, {"a"}),
        ({"scope": "a", "scp": "b"}, {"a", "b"}),
        ({"scope": ""}, set()),
        ({"scope": None}, set()),
        ({"scope": " a  b "}, {"a", "b"}),
        ({"scope": "a\nb"}, {"a\nb"}),
    ],
)
async def test_jwt_scope_claims_are_read(claims, scopes):
    assert (await verify(ES.token(**claims))).principal.scopes == scopes


@each_row(
    ("required", "is_met"),
    [
        (["org_id"], True),
        (["email"], False),
        ({"org_id": "acme"}, True),
        ({"org_id": "other"}, False),
        ({"org_id": ["other", "acme"]}, True),
        ({"groups": "staff"}, True),
        ({"groups": "admins"}, False),
        ({"level": 1}, True),
        ({"level": True}, False),
        ({"verified": True}, True),
        ({"verified": 1}, False),
        ({"org_id": "acme", "level": 2}, False),
    ],
)
async def test_jwt_required_claims_are_checked(required, is_met):
    token = ES.token(org_id="acme", groups=["staff", "all"], level=1, verified=True)
    if is_met:
        assert await verify(token, required=required)
    else:
        assert "a value that this server requires" in await rejection(token, required=required)


@pytest.mark.limit("claims that are kept")
async def test_jwt_large_claims_are_dropped_unless_named():
    groups = [f"group {number}" for number in range(200)]
    token = ES.token(groups=groups, note="x" * 1025)
    assert {"groups", "note"}.isdisjoint((await verify(token)).principal.claims)
    assert (await verify(token, claims=["groups"])).principal.claims["groups"] == groups


@pytest.mark.limit("access token that a verifier reads")
async def test_jwt_too_long_is_rejected():
    assert await verify(ES.token(note="x" * 8000))
    token = ES.token(note="x" * MAX_TOKEN)
    assert "too long" in await rejection(token)
    assert "too long" in await rejection("x" * (MAX_TOKEN + 1))


@each_row(
    ("options", "error", "problem"),
    [
        ({"algorithms": ["HS256"]}, ValueError, "'HS256' is not supported"),
        ({"algorithms": ["none"]}, ValueError, "'none' is not supported"),
        ({"algorithms": []}, ValueError, "among RS256"),
        ({"algorithms": "RS256"}, TypeError, "must be a list"),
        ({"audience": ""}, ValueError, "must not be empty"),
        ({"audience": []}, ValueError, "must not be empty"),
        ({"audience": 7}, TypeError, "audience must be"),
        ({"audience": "a", "accept_tokens_for_any_audience": True}, ValueError, "exclude each other"),
        ({"leeway": -1}, ValueError, "leeway"),
        ({"cooldown": 0}, ValueError, "cooldown"),
        ({"jwks_uri": "https://id.example.com/keys"}, ValueError, "Pass one of them"),
        ({"required": "org_id"}, TypeError, "required must be a mapping"),
        ({"required": ['"']}, ValueError, "visible ASCII"),
        ({"required": [7]}, TypeError, "required must be a mapping"),
        ({"types": "JWT"}, TypeError, "types must be"),
        ({"scope_claims": [7]}, TypeError, "scope_claims must be"),
        ({"keys": 7}, TypeError, "keys= must be"),
        ({"keys": None, "jwks_uri": "http://id.example.com/keys"}, ValueError, "not encrypted"),
    ],
)
def test_jwt_options_invalid_raise(options, error, problem):
    with pytest.raises(error, match=problem):
        verifier(**options)


@each_row(
    "issuer",
    ["http://id.example.com", "id.example.com", "https://id.example.com?a=b", "https://id.example.com#a"],
)
def test_jwt_issuer_must_be_https_url(issuer):
    with pytest.raises(ValueError, match="the issuer"):
        Jwt(issuer)


async def test_jwt_keys_accept_jwks_jwk_and_pem():
    rsa, es, ed = (SIGNERS[name] for name in ("RS256", "ES256", "EdDSA"))
    pem = es.key.as_pem(private=False)
    for keys in (KEYS, es.public(), pem, pem.decode(), [rsa.public(), pem, ed.key.as_pem(private=False)]):
        assert (await verify(es.token(), keys=keys)).principal.subject == "ada"
