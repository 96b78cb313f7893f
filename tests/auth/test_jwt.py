"""Access tokens that are JWTs: which are taken, and what they grant."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from mcpkit import Principal
from mcpkit.auth import Grant, InvalidTokenError
from mcpkit.auth.jws import MAX_TOKEN
from mcpkit.auth.jwt import Jwt
from mcpkit.auth.key_set import ALGORITHMS
from tests.helpers.clock import Clock
from tests.helpers.signed_tokens import AUDIENCE, ISSUER, NOW, Signer, claims_of

pytestmark = pytest.mark.anyio

SIGNERS = {algorithm: Signer(algorithm, algorithm) for algorithm in ALGORITHMS}
ES = SIGNERS["ES256"]
KEYS = {"keys": [each.public() for each in SIGNERS.values()]}


def verifier(**options: Any) -> Jwt:
    return Jwt(ISSUER, **{"keys": KEYS, "clock": Clock(NOW), **options})


async def granted(token: str, **options: Any) -> Grant:
    return await verifier(**options).verify(token, AUDIENCE)


async def refusal(token: str, audience: str = AUDIENCE, **options: Any) -> str:
    with pytest.raises(InvalidTokenError) as caught:
        await verifier(**options).verify(token, audience)
    return caught.value.description


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_a_token_says_who_asks_and_what_was_granted(algorithm: str) -> None:
    grant = await granted(SIGNERS[algorithm].token(jti="7", org={"id": "acme"}))

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


async def test_keys_may_be_given_as_they_come() -> None:
    rsa, es, ed = (SIGNERS[name] for name in ("RS256", "ES256", "EdDSA"))
    pem = es.key.as_pem(private=False)
    for keys in (KEYS, es.public(), pem, pem.decode(), [rsa.public(), pem, ed.key.as_pem(private=False)]):
        assert (await granted(es.token(), keys=keys)).principal.subject == "ada"


@pytest.mark.limit("keys of an issuer")
@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"keys": []}, "no key that could verify"),
        ([], "holds no key"),
        ("text", "no public key as PEM"),
        (ES.key.as_pem(private=True), "private key"),
        ({"keys": [{**ES.key.as_dict(private=True)}]}, "private or secret key"),
        ({"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0"}, "private or secret key"),
        ({"keys": [ES.public()] * 101}, "more than 100 keys"),
    ],
)
def test_keys_that_are_none_or_private_are_refused_at_once(keys: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        verifier(keys=keys)


async def test_keys_that_are_not_for_signatures_or_weak_are_passed_over() -> None:
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
    assert "by none of the keys" in await refusal(ps.token(), keys={"keys": [*others, ES.public()]})
    good = ps.public(use=None, alg=None, key_ops=["verify"], x5t="abc")
    assert await granted(ps.token(), keys={"keys": [*others, good]})


async def test_a_key_holds_to_its_own_algorithm_and_type() -> None:
    rs, ps = SIGNERS["RS256"], SIGNERS["PS256"]
    ps.key, before = rs.key, ps.key
    try:
        assert await granted(ps.token(header={"kid": "RS256"}), keys=rs.public(alg=None))
        assert "by none of the keys" in await refusal(ps.token(header={"kid": "RS256"}), keys=rs.public())
    finally:
        ps.key = before
    assert "by none of the keys" in await refusal(rs.token(), keys=[SIGNERS["ES256"].public(kid="RS256")])


async def test_a_token_that_names_no_key_is_tried_with_those_that_fit() -> None:
    others = [Signer("ES256", f"other {number}") for number in range(3)]
    keys = [each.public() for each in (*others, ES, SIGNERS["RS256"])]
    assert await granted(ES.token(header={"kid": None}), keys=keys)


async def test_two_keys_of_one_name_are_both_tried() -> None:
    assert await granted(ES.token(), keys=[Signer("ES256", "ES256").public(), ES.public()])


@pytest.mark.limit("names and lists in an access token")
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"exp": NOW - 5}, "has expired"),
        ({"exp": None}, "times of the token"),
        ({"exp": "soon"}, "times of the token"),
        ({"exp": True}, "times of the token"),
        ({"exp": 10**400}, "times of the token"),
        ({"exp": -5}, "times of the token"),
        ({"nbf": NOW + 6}, "not valid yet"),
        ({"iat": NOW + 6}, "not valid yet"),
        ({"nbf": []}, "times of the token"),
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
        ({"sub": None, "client_id": None}, "whose it is"),
        ({"sub": ""}, "whose it is"),
        ({"sub": 7}, "whose it is"),
        ({"sub": "x" * 1001}, "whose it is"),
        ({"client_id": ["editor"]}, "whose it is"),
        ({"scope": 7}, "scopes of the token"),
        ({"scope": ["a", 7]}, "scopes of the token"),
        ({"scope": ["a"] * 1001}, "scopes of the token"),
    ],
)
async def test_what_a_token_must_say(changes: dict[str, Any], problem: str) -> None:
    assert problem in await refusal(ES.token(**changes))


@pytest.mark.limit("difference between clocks")
async def test_clocks_may_differ_by_the_leeway() -> None:
    assert await granted(ES.token(exp=NOW - 4.5, nbf=NOW + 5, iat=NOW + 5))
    assert "expired" in await refusal(ES.token(exp=NOW - 0.5), leeway=0)
    assert await granted(ES.token(exp=NOW - 100), leeway=120)


@pytest.mark.parametrize(
    "audience",
    [
        AUDIENCE,
        [AUDIENCE, "https://other.example.com"],
        "HTTPS://MCP.Example.COM/mcp",
        "https://mcp.example.com:443/mcp",
        "https://mcp.example.com/mcp/",
    ],
)
async def test_the_url_of_the_endpoint_may_be_written_in_its_ways(audience: Any) -> None:
    assert await granted(ES.token(aud=audience))


@pytest.mark.parametrize(
    "audience",
    [
        "https://mcp.example.com",
        "https://mcp.example.com/",
        "https://mcp.example.com/MCP",
        "https://mcp.example.com/mcp/more",
        "https://mcp.example.com/mcp?x=1",
        "https://mcp.example.com/mcp#x",
        "https://evil@mcp.example.com/mcp",
        "https://mcp.example.com@evil.example/mcp",
        "https://mcp.example.com:8443/mcp",
        "http://mcp.example.com/mcp",
        "https://mcp.example.com/%6dcp",
        "mcp.example.com/mcp",
        "//mcp.example.com/mcp",
        "https://mcp.example.com\\mcp",
        "https://mcp.example.com.evil.example/mcp",
        " https://mcp.example.com/mcp",
    ],
)
async def test_another_endpoint_is_another_audience(audience: str) -> None:
    assert "another audience" in await refusal(ES.token(aud=audience))


async def test_what_is_asked_decides_or_what_the_author_names() -> None:
    sse = "https://mcp.example.com/sse"
    assert "another audience" in await refusal(ES.token(), audience=sse)
    assert (await verifier().verify(ES.token(aud=sse), sse)).principal
    assert await granted(ES.token(aud="api://notes"), audience="api://notes")
    assert await granted(ES.token(aud="b"), audience=["a", "b"])
    assert "another audience" in await refusal(ES.token(), audience="api://notes")
    assert await granted(ES.token(aud="anything"), accept_tokens_for_any_audience=True)
    assert await granted(ES.token(aud=None), accept_tokens_for_any_audience=True)


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
async def test_an_id_token_is_no_access_token(changes: dict[str, Any]) -> None:
    token = ES.token(header={"typ": "JWT"}, **changes)
    assert "ID token" in await refusal(token, accept_tokens_for_any_audience=True)
    # What says that it is an access token is one: clients may be resources, too.
    assert await granted(ES.token(**changes), accept_tokens_for_any_audience=True)


@pytest.mark.parametrize("type_", ["at+jwt", "AT+JWT", "application/at+jwt", "JWT", "jwt", "application/JWT"])
async def test_types_that_are_taken(type_: str) -> None:
    assert await granted(ES.token(header={"typ": type_}))


@pytest.mark.parametrize(
    "type_", [None, "", "dpop+jwt", "logout+jwt", "oauth-id-jag+jwt", "secevent+jwt", "JOSE", "at+jwt "]
)
async def test_other_types_are_not(type_: str | None) -> None:
    assert "of a type" in await refusal(ES.token(header={"typ": type_}))


async def test_a_type_that_is_not_said_may_be_allowed() -> None:
    assert await granted(ES.token(header={"typ": None}), types=["at+jwt", ""])


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": None},
        {"sub": "editor"},
        {"sub": None, "client_id": None, "azp": "editor"},
        {"sub": "editor", "client_id": None, "cid": "editor"},
    ],
)
async def test_a_client_may_ask_for_itself(claims: dict[str, Any]) -> None:
    who = (await granted(ES.token(**claims))).principal
    assert who.id == "https://id.example.com#client=editor"
    assert (who.subject, who.client_id) == (None, "editor")


async def test_a_user_with_the_name_of_a_client_is_another_one() -> None:
    user = (await granted(ES.token(sub="#client=editor"))).principal
    client = (await granted(ES.token(sub=None))).principal
    assert user.id != client.id


@pytest.mark.parametrize(
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
async def test_scopes_are_a_text_or_a_list(claims: dict[str, Any], scopes: set[str]) -> None:
    assert (await granted(ES.token(**claims))).principal.scopes == scopes


async def test_scopes_and_clients_may_stand_elsewhere() -> None:
    token = ES.token(scope="no", permissions=["yes"], client_id="no", application="yes")
    who = (await granted(token, scope_claims=["permissions"], client_claims=["application"])).principal
    assert (who.scopes, who.client_id) == ({"yes"}, "yes")


@pytest.mark.parametrize(
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
async def test_more_may_be_required(required: Any, is_met: bool) -> None:
    token = ES.token(org_id="acme", groups=["staff", "all"], level=1, verified=True)
    if is_met:
        assert await granted(token, required=required)
    else:
        assert "does not say what this server requires" in await refusal(token, required=required)


@pytest.mark.limit("claims that are kept")
async def test_large_claims_are_kept_where_they_are_wanted() -> None:
    groups = [f"group {number}" for number in range(200)]
    token = ES.token(groups=groups, note="x" * 1025)
    assert {"groups", "note"}.isdisjoint((await granted(token)).principal.claims)
    assert (await granted(token, claims=["groups"])).principal.claims["groups"] == groups


@pytest.mark.limit("access token that a verifier reads")
async def test_a_long_token_is_not_read() -> None:
    assert await granted(ES.token(note="x" * 8000))
    token = ES.token(note="x" * MAX_TOKEN)
    assert "too long" in await refusal(token)
    assert "too long" in await refusal("x" * (MAX_TOKEN + 1))


@pytest.mark.parametrize(
    ("options", "error", "problem"),
    [
        ({"algorithms": ["HS256"]}, ValueError, "not 'HS256'"),
        ({"algorithms": ["none"]}, ValueError, "not 'none'"),
        ({"algorithms": []}, ValueError, "among RS256"),
        ({"algorithms": "RS256"}, TypeError, "must be a list"),
        ({"audience": ""}, ValueError, "must not be empty"),
        ({"audience": []}, ValueError, "must not be empty"),
        ({"audience": 7}, TypeError, "audience must be"),
        ({"audience": "a", "accept_tokens_for_any_audience": True}, ValueError, "contradict"),
        ({"leeway": -1}, ValueError, "leeway"),
        ({"cooldown": 0}, ValueError, "cooldown"),
        ({"jwks_uri": "https://id.example.com/keys"}, ValueError, "give one of them"),
        ({"required": "org_id"}, TypeError, "required must be a mapping"),
        ({"required": ['"']}, ValueError, "visible ASCII"),
        ({"required": [7]}, TypeError, "required must be a mapping"),
        ({"types": "JWT"}, TypeError, "types must be"),
        ({"scope_claims": [7]}, TypeError, "scope_claims must be"),
        ({"keys": 7}, TypeError, "keys= is"),
        ({"keys": None, "jwks_uri": "http://id.example.com/keys"}, ValueError, "not encrypted"),
    ],
)
def test_options_that_cannot_be_are_refused(options: Any, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem):
        verifier(**options)


@pytest.mark.parametrize(
    "issuer",
    ["http://id.example.com", "id.example.com", "https://id.example.com?a=b", "https://id.example.com#a"],
)
def test_an_issuer_is_a_url_of_https(issuer: str) -> None:
    with pytest.raises(ValueError, match="the issuer"):
        Jwt(issuer)


@pytest.mark.parametrize("name", ["joserfc.jwk", "httpx2"])
def test_without_the_extra_it_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install .*\[auth\]"):
        Jwt(ISSUER)


def test_the_claims_of_the_helper_are_good() -> None:
    assert claims_of(sub=None).keys() == {"iss", "aud", "exp", "iat", "client_id", "scope"}


async def test_a_subclass_knows_its_issuer_better() -> None:
    asked: list[str] = []

    class Ours(Jwt):
        def check(self, claims: Any) -> None:
            asked.append("check")
            super().check(claims)
            if claims.get("suspended"):
                raise InvalidTokenError("the account is suspended")

        def principal(self, claims: Any) -> Principal:
            asked.append("principal")
            return Principal(f"ours:{claims['sub']}", claims["rights"])

    ours = Ours(ISSUER, keys=KEYS, clock=Clock(NOW))
    who = (await ours.verify(ES.token(rights=["read"]), AUDIENCE)).principal
    assert (who.id, who.scopes) == ("ours:ada", {"read"})
    for forged in (Signer("ES256", "ES256").token(), ES.token(suspended=True)):
        with pytest.raises(InvalidTokenError):
            await ours.verify(forged, AUDIENCE)
    assert asked == [
        "check",
        "principal",
        "check",
        "check",
    ]  # whose it is, is not asked of what nobody has signed
