"""Clients that sign who they are, or for which somebody vouches."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from mcpkit.auth.discovery import AuthorizationServerMetadata
from mcpkit.client.authorization.errors import AuthorizationFailedError
from mcpkit.client.authorization.presented import Presented
from mcpkit.client.authorization.private_key_jwt import ForeignAssertion, PrivateKeyJwt, SigningKey
from mcpkit.client.authorization.roles import TokenRequest

pytestmark = pytest.mark.anyio

ISSUER = "https://id.example.com"
TOKEN = f"{ISSUER}/token"
KEYS: dict[str, Any] = {
    "RS256": RSAKey.generate_key(2048),
    "ES256": ECKey.generate_key("P-256"),
    "ES384": ECKey.generate_key("P-384"),
    "ES512": ECKey.generate_key("P-521"),
    "EdDSA": OKPKey.generate_key("Ed25519"),
}


def server(*algorithms: str) -> AuthorizationServerMetadata:
    taken = {"token_endpoint_auth_signing_alg_values_supported": list(algorithms)} if algorithms else {}
    return AuthorizationServerMetadata(ISSUER, {"issuer": ISSUER, "token_endpoint": TOKEN, **taken})


async def signed(authentication: Any, *algorithms: str) -> dict[str, str]:
    request = TokenRequest(TOKEN, {"grant_type": "client_credentials"})
    await authentication.sign(request, server(*algorithms))
    assert request.headers == {}
    return request.form


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # by joserfc, as it reads here
@pytest.mark.parametrize("algorithm", KEYS)
@pytest.mark.parametrize("form", ["pem", "jwk", "file"])
async def test_the_client_signs_who_it_is_for_the_issuer(algorithm: str, form: str, tmp_path: Path) -> None:
    key = KEYS[algorithm]
    pem = key.as_pem(private=True).decode()
    (tmp_path / "key.pem").write_text(pem)
    given = {"pem": pem, "jwk": key.as_dict(private=True), "file": tmp_path / "key.pem"}[form]
    authentication = PrivateKeyJwt("reports", SigningKey(given))
    sent = [await signed(authentication), await signed(authentication, algorithm)]
    tokens = [jwt.decode(each["client_assertion"], key, algorithms=[algorithm]) for each in sent]
    for form_sent, token in zip(sent, tokens, strict=True):
        assert form_sent["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        assert form_sent["client_id"] == "reports"
        assert token.header == {"typ": "JWT", "alg": algorithm}
        assert (token.claims["iss"], token.claims["sub"], token.claims["aud"]) == (
            "reports",
            "reports",
            ISSUER,
        )
        assert time.time() - 60 < token.claims["iat"] <= token.claims["exp"] - 60 < time.time() + 600
    assert tokens[0].claims["jti"] != tokens[1].claims["jti"]


@pytest.mark.slow
async def test_the_audience_the_algorithm_and_the_name_of_the_key_can_be_said() -> None:
    key = KEYS["RS256"]
    signing = SigningKey({**key.as_dict(private=True), "kid": "of the JWK"}, algorithm="PS256")
    assertion = (await signed(PrivateKeyJwt("reports", signing, audience=TOKEN)))["client_assertion"]
    token = jwt.decode(assertion, key, algorithms=["PS256"])
    assert token.header == {"typ": "JWT", "alg": "PS256", "kid": "of the JWK"}
    assert token.claims["aud"] == TOKEN
    named = SigningKey(key.as_pem(private=True).decode(), key_id="mine")
    assertion = (await signed(PrivateKeyJwt("reports", named)))["client_assertion"]
    assert jwt.decode(assertion, key).header["kid"] == "mine"


async def test_what_the_server_takes_is_signed_by_where_the_key_can() -> None:
    authentication = PrivateKeyJwt("reports", SigningKey(KEYS["RS256"].as_dict(private=True)))
    assertion = (await signed(authentication, "ES256", "PS384"))["client_assertion"]
    assert jwt.decode(assertion, KEYS["RS256"], algorithms=["PS384"]).header["alg"] == "PS384"
    with pytest.raises(
        AuthorizationFailedError, match="signed by ES256, and private_key= signs by RS256 or PS256"
    ):
        await signed(authentication, "ES256")


@pytest.mark.parametrize(
    "key",
    [
        "",
        "SECRET",
        "-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----",
        KEYS["ES256"].as_pem(private=False).decode(),
        KEYS["ES256"].as_dict(private=False),
        OctKey.generate_key(256).as_dict(private=True),
        OKPKey.generate_key("X25519").as_dict(private=True),
        {"kty": "EC", "crv": "P-256", "d": "SECRET"},
        {},
    ],
)
def test_what_is_no_private_key_is_refused_and_not_quoted(key: Any) -> None:
    with pytest.raises(ValueError, match="private_key= is a private key: the text of a PEM file") as raised:
        SigningKey(key)
    assert "SECRET" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None


def test_an_algorithm_that_the_key_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"algorithm='RS256': a key of P-256 signs by ES256"):
        SigningKey(KEYS["ES256"].as_dict(private=True), algorithm="RS256")


def test_a_key_that_cannot_be_read_says_which(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"key\.pem"):
        SigningKey(tmp_path / "key.pem")


def test_nothing_of_a_key_is_shown() -> None:
    key = KEYS["ES256"].as_dict(private=True)
    authentication = PrivateKeyJwt("reports", SigningKey(key))
    assert key["d"] not in repr(authentication) + repr(vars(authentication)) + repr(SigningKey(key))


async def test_an_assertion_of_somebody_else_is_fetched_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    authentication = ForeignAssertion("reports", Presented("assertion=", file))
    for text in ("one", "two"):
        file.write_text(f"{text}\n")
        sent = await signed(authentication)
        assert (sent["client_assertion"], sent["client_id"]) == (text, "reports")


async def test_a_token_comes_as_it_is_from_a_file_or_from_a_function(tmp_path: Path) -> None:
    async def later() -> str:
        return "later"

    (tmp_path / "token").write_text("filed\n")
    for given, expected in (
        ("plain", "plain"),
        (tmp_path / "token", "filed"),
        (lambda: "made", "made"),
        (later, "later"),
    ):
        assert await Presented("token", given).value() == expected  # type: ignore[arg-type]  # each is one of these


async def test_what_gives_no_token_is_named_and_not_quoted(tmp_path: Path) -> None:
    missing, binary = tmp_path / "missing", tmp_path / "binary"
    binary.write_bytes(b"\xff\xfeSECRET")
    with pytest.raises(
        AuthorizationFailedError, match=r"token cannot be read from .*missing: No such file"
    ) as raised:
        await Presented("token", missing).value()
    assert raised.value.may_pass
    with pytest.raises(AuthorizationFailedError, match="it is no text"):
        await Presented("token", binary).value()
    for odd in ("SECRET\nmore", "SECRET\x00", "", None, 5):
        with pytest.raises(
            AuthorizationFailedError, match="what token gives is no token: it is one line"
        ) as raised:
            await Presented("token", lambda odd=odd: odd).value()  # type: ignore[misc]  # the mistake
        assert "SECRET" not in str(raised.value)
    with pytest.raises(TypeError, match="not an object of bytes"):
        Presented("token", b"SECRET")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(ValueError, match="token is empty"):
        Presented("token", "")
