"""Verification of access tokens that are JWTs."""

import logging
import re
import traceback
from collections import Counter
from typing import Any

import pytest

from mcpkit.auth import AccessToken, InvalidTokenError, Jwt
from mcpkit.auth.jws import ALGORITHMS, MAX_TOKEN
from tests.helpers.signed_tokens import AUDIENCE, CANARY, ISSUER, NOW, HostileTokens, Signer
from tests.helpers.tables import each_row
from tests.helpers.waiting import Clock

SIGNERS = {algorithm: Signer(algorithm, algorithm) for algorithm in ALGORITHMS}
ES = SIGNERS["ES256"]
KEYS = {"keys": [each.public() for each in SIGNERS.values()]}
NO_KEY = "no key of the issuer verifies"


def verifier(**options: Any) -> Jwt:
    return Jwt(ISSUER, **{"keys": KEYS, "clock": Clock(NOW), **options})


async def verify(token: str, **options: Any) -> AccessToken:
    return await verifier(**options).verify(token, AUDIENCE)


async def rejection(token: str, at: str = AUDIENCE, **options: Any) -> str:
    with pytest.raises(InvalidTokenError) as caught:
        await verifier(**options).verify(token, at)
    return caught.value.description


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_jwt_each_algorithm_returns_principal_and_times(algorithm):
    grant = await verify(SIGNERS[algorithm].token(jti="7", org={"id": "acme"}))
    principal = grant.principal
    assert principal.id == "https://id.example.com#sub=ada"
    assert (principal.issuer, principal.subject, principal.client_id) == (ISSUER, "ada", "editor")
    assert principal.scopes == {"notes:read", "notes:write"}
    claims = {"sub": "ada", "client_id": "editor", "scope": "notes:read notes:write"}
    assert principal.claims == {**claims, "jti": "7", "org": {"id": "acme"}}
    assert (grant.expires, grant.issued, grant.fresh_until) == (NOW + 605, NOW - 60, None)


@pytest.mark.limit("keys of an issuer")
@each_row(("keys", "problem"), [
    ({"keys": []}, "no key that can verify"), ([], "contains no key"), ("text", "not a PEM public key"),
    (ES.key.as_pem(private=True), "private key"),
    ({"keys": [{**ES.key.as_dict(private=True)}]}, "private or secret key"),
    ({"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0"}, "private or secret key"),
    ({"keys": [ES.public()] * 101}, "more than 100 keys"),
])  # fmt: skip
def test_jwt_keys_missing_or_private_raise_value_error(keys, problem):
    with pytest.raises(ValueError, match=problem):
        verifier(keys=keys)


async def test_jwt_keys_accept_jwks_jwk_and_pem():
    rsa, ed = SIGNERS["RS256"], SIGNERS["EdDSA"]
    pem = ES.key.as_pem(private=False)
    for keys in (KEYS, ES.public(), pem, pem.decode(), [rsa.public(), pem, ed.key.as_pem(private=False)]):
        assert (await verify(ES.token(), keys=keys)).principal.subject == "ada"


async def test_jwt_keys_unusable_are_skipped():
    rs = SIGNERS["RS256"]
    changes: list[dict[str, Any]] = [
        {"use": "enc"}, {"key_ops": ["encrypt"]}, {"alg": "RSA-OAEP"}, {"alg": "HS256"}, {"kty": "oct"},
        {"kid": 7}, {"n": None}, {"n": "***"}, {"n": "AAAA" * 400 + rs.public()["n"][:100]},
    ]  # fmt: skip
    unusable: list[Any] = [*(rs.public(**each) for each in changes), {"kty": "ML-DSA"}, "text"]
    assert NO_KEY in await rejection(rs.token(), keys={"keys": [*unusable, ES.public()]})
    good = rs.public(use=None, alg=None, key_ops=["verify"], x5t="abc")
    assert await verify(rs.token(), keys={"keys": [*unusable, good]})


async def test_jwt_key_verifies_only_its_own_algorithm():
    rs, ps = SIGNERS["RS256"], Signer("PS256", "RS256")
    ps.key = rs.key
    assert await verify(ps.token(), keys=rs.public(alg=None))
    assert NO_KEY in await rejection(ps.token(), keys=rs.public())
    assert NO_KEY in await rejection(rs.token(), keys=[ES.public(kid="RS256")])


async def test_jwt_without_kid_tries_matching_keys():
    others = [Signer("ES256", f"other {number}") for number in range(3)]
    keys = [each.public() for each in (*others, ES, SIGNERS["RS256"])]
    assert await verify(ES.token(header={"kid": None}), keys=keys)


TIMES = "exp, nbf or iat of the token"
NO_SUBJECT = "neither sub nor client_id"


@pytest.mark.limit("names and lists in an access token")
@each_row(("changes", "problem"), [
    ({"exp": NOW - 5}, "has expired"),
    *(({"exp": value}, TIMES) for value in (None, "soon", True, 10**400, -5)),
    ({"nbf": NOW + 6}, "not valid yet"),
    ({"iat": NOW + 6}, "not valid yet"),
    ({"nbf": []}, TIMES),
    *(({"iss": value}, "another issuer") for value in (ISSUER + "/", ISSUER.upper(), [ISSUER], None)),
    *(
        ({"aud": value}, "another audience")
        for value in (None, [], [AUDIENCE, 7], [[AUDIENCE]], {"url": AUDIENCE}, [AUDIENCE] * 101)
    ),
    ({"sub": None, "client_id": None}, NO_SUBJECT),
    *(({"sub": value}, NO_SUBJECT) for value in ("", 7, "x" * 1001)),
    ({"client_id": ["editor"]}, NO_SUBJECT),
    *(({"scope": value}, "scopes of the token") for value in (7, ["a", 7], ["a"] * 1001)),
])  # fmt: skip
async def test_jwt_claims_invalid_are_rejected(changes, problem):
    assert problem in await rejection(ES.token(**changes))


@pytest.mark.limit("difference between clocks")
async def test_jwt_times_allow_leeway():
    assert await verify(ES.token(exp=NOW - 4.5, nbf=NOW + 5, iat=NOW + 5))
    assert "expired" in await rejection(ES.token(exp=NOW - 0.5), leeway=0)
    assert await verify(ES.token(exp=NOW - 100), leeway=120)


@each_row("audience", [
    AUDIENCE, [AUDIENCE, "https://other.example.com"], "HTTPS://MCP.Example.COM/mcp",
    "https://mcp.example.com:443/mcp", "https://mcp.example.com/mcp/",
])  # fmt: skip
async def test_jwt_audience_accepts_equivalent_urls(audience):
    assert await verify(ES.token(aud=audience))


@each_row("audience", [
    "https://mcp.example.com", "https://mcp.example.com/", "https://mcp.example.com/MCP",
    "https://mcp.example.com/mcp/more", "https://mcp.example.com/mcp?x=1",
    "https://mcp.example.com/mcp#x", "https://evil@mcp.example.com/mcp",
    "https://mcp.example.com@evil.example/mcp", "https://mcp.example.com:8443/mcp",
    "http://mcp.example.com/mcp", "https://mcp.example.com/%6dcp", "mcp.example.com/mcp",
    "//mcp.example.com/mcp", "https://mcp.example.com\\mcp", "https://mcp.example.com.evil.example/mcp",
    " https://mcp.example.com/mcp",
])  # fmt: skip
async def test_jwt_audience_of_another_url_is_rejected(audience):
    assert "another audience" in await rejection(ES.token(aud=audience))


async def test_jwt_audience_is_endpoint_or_option():
    sse = "https://mcp.example.com/sse"
    assert "another audience" in await rejection(ES.token(), sse)
    assert (await verifier().verify(ES.token(aud=sse), sse)).principal
    assert await verify(ES.token(aud="api://notes"), audience="api://notes")
    assert await verify(ES.token(aud="b"), audience=["a", "b"])
    assert "another audience" in await rejection(ES.token(), audience="api://notes")
    for audience in ("anything", None):
        assert await verify(ES.token(aud=audience), accept_tokens_for_any_audience=True)


@each_row("changes", [
    *({name: "x"} for name in ("nonce", "at_hash", "c_hash")),
    *({"aud": value} for value in ("editor", ["editor"])),
    {"aud": "web", "client_id": None, "azp": "web"},
])  # fmt: skip
async def test_jwt_id_token_is_rejected(changes):
    token = ES.token(header={"typ": "JWT"}, **changes)
    assert "ID token" in await rejection(token, accept_tokens_for_any_audience=True)
    # With the type of access tokens it is one: clients may be resources, too.
    assert await verify(ES.token(**changes), accept_tokens_for_any_audience=True)


@each_row("cnf", [{"jkt": "x" * 43}, {"x5t#S256": "x" * 43}, {"jwk": {}}, {}, "key"])
async def test_jwt_bound_to_key_is_rejected(cnf):
    with pytest.raises(InvalidTokenError) as caught:
        await verify(ES.token(cnf=cnf))
    assert "bound to a key of its client (cnf)" in caught.value.description
    assert "not bound to a key or certificate (DPoP, mTLS)" in str(caught.value.advice)
    assert await verify(ES.token(cnf=None))


@each_row(
    "type_", [None, "", "dpop+jwt", "logout+jwt", "oauth-id-jag+jwt", "secevent+jwt", "JOSE", "at+jwt "]
)
async def test_jwt_typ_of_other_tokens_is_rejected(type_):
    assert "the type of the token" in await rejection(ES.token(header={"typ": type_}))


@each_row("claims", [
    {"sub": None},
    {"sub": "editor"},
    {"sub": None, "client_id": None, "azp": "editor"},
    {"sub": "editor", "client_id": None, "cid": "editor"},
])  # fmt: skip
async def test_jwt_without_user_returns_client_principal(claims):
    principal = (await verify(ES.token(**claims))).principal
    assert principal.id == "https://id.example.com#client=editor"
    assert (principal.subject, principal.client_id) == (None, "editor")


async def test_jwt_user_named_like_client_has_another_id():
    user = (await verify(ES.token(sub="#client=editor"))).principal
    client = (await verify(ES.token(sub=None))).principal
    assert user.id != client.id


@each_row(("claims", "scopes"), [
    ({"scope": "a b"}, {"a", "b"}), ({"scope": ["a", "b"]}, {"a", "b"}),
    ({"scope": None, "scp": ["a"]}, {"a"}), ({"scope": "a", "scp": "b"}, {"a", "b"}),
    *(({"scope": value}, set()) for value in ("", None)), ({"scope": " a  b "}, {"a", "b"}),
    ({"scope": "a\nb"}, {"a\nb"}),
])  # fmt: skip
async def test_jwt_scope_claims_are_read(claims, scopes):
    assert (await verify(ES.token(**claims))).principal.scopes == scopes


@each_row(("required", "is_met"), [
    *((required, True) for required in (
        ["org_id"], {"org_id": "acme"}, {"org_id": ["other", "acme"]}, {"groups": "staff"},
        {"level": 1}, {"verified": True},
    )),
    *((required, False) for required in (
        ["email"], {"org_id": "other"}, {"groups": "admins"}, {"level": True}, {"verified": 1},
        {"org_id": "acme", "level": 2},
    )),
])  # fmt: skip
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
    for token in (ES.token(note="x" * MAX_TOKEN), "x" * (MAX_TOKEN + 1)):
        assert "too long" in await rejection(token)


@each_row(("options", "error", "problem"), [
    *(({"algorithms": [name]}, ValueError, f"'{name}' is not supported") for name in ("HS256", "none")),
    ({"algorithms": []}, ValueError, "among RS256"),
    ({"algorithms": "RS256"}, TypeError, "must be a list"),
    *(({"audience": value}, ValueError, "must not be empty") for value in ("", [])),
    ({"audience": 7}, TypeError, "audience must be"),
    ({"audience": "a", "accept_tokens_for_any_audience": True}, ValueError, "exclude each other"),
    *(({name: -1}, ValueError, name) for name in ("leeway", "cooldown")),
    ({"jwks_uri": "https://id.example.com/keys"}, ValueError, "Pass one of them"),
    ({"required": "org_id"}, TypeError, "required must be a mapping"),
    ({"required": ['"']}, ValueError, "visible ASCII"),
    ({"required": [7]}, TypeError, "required must be a mapping"),
    ({"types": "JWT"}, TypeError, "types must be"),
    ({"scope_claims": [7]}, TypeError, "scope_claims must be"),
    ({"keys": 7}, TypeError, "keys= must be"),
    ({"keys": None, "jwks_uri": "http://id.example.com/keys"}, ValueError, "not encrypted"),
])  # fmt: skip
def test_jwt_options_invalid_raise(options, error, problem):
    with pytest.raises(error, match=problem):
        verifier(**options)


FIXED_TEXT = re.compile(r"(the (token|signature|header|type|scopes)|no key|exp,) [a-zA-Z ,_()]+")


@pytest.mark.slow
async def test_jwt_generated_hostile_tokens_are_rejected_without_quoting(caplog):
    hostile = HostileTokens([SIGNERS[name] for name in ("RS256", "ES256", "EdDSA", "PS256")])
    jwt = verifier()
    for signer in hostile.signers:
        assert await jwt.verify(signer.token(hostile.claims()), AUDIENCE)
    rejected: Counter[str] = Counter()
    with caplog.at_level(logging.DEBUG):
        for way, token in hostile.tokens(20_261_122, 21 * 20):
            with pytest.raises(InvalidTokenError) as caught:
                await jwt.verify(token, AUDIENCE)
            assert FIXED_TEXT.fullmatch(caught.value.description), f"{way}: {token}"
            text = "".join(traceback.format_exception(caught.value))
            pieces = [piece for piece in token.split(".") if len(piece) > 20]
            assert not any(piece in text for piece in (*pieces, CANARY))
            rejected[way] += 1
    assert len(rejected) == 21
    assert set(rejected.values()) == {20}
    assert not caplog.records
