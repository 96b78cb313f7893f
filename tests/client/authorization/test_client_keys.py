"""Keys of clients: DPoP proofs, signed client assertions, and assertions from files and functions."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey, import_key

from mcpkit.auth.discovery import AuthorizationServerMetadata
from mcpkit.client.authorization.dpop import Proofs
from mcpkit.client.authorization.errors import AuthorizationFailedError
from mcpkit.client.authorization.presented import Presented
from mcpkit.client.authorization.private_key_jwt import PrivateKeyJwt, SigningKey
from mcpkit.client.authorization.roles import TokenRequest
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio

SERVER = "https://mcp.example.com/mcp"


def read(proof: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims of a proof that its own key has signed, as a server reads it."""
    first = proof.split(".", maxsplit=1)[0]
    header = json.loads(urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    token = jwt.decode(proof, import_key(header["jwk"], "EC"), algorithms=["ES256"])
    return token.header, token.claims


def test_dpop_nonce_is_per_origin() -> None:
    proofs = Proofs()
    proofs.set_nonce("https://id.example.com/token", "of-issuer")
    proofs.set_nonce(SERVER, "of-server")
    proofs.set_nonce(SERVER, "newer")
    assert read(proofs.proof("POST", "https://ID.example.com:443/other"))[1]["nonce"] == "of-issuer"
    assert read(proofs.proof("POST", SERVER))[1]["nonce"] == "newer"
    assert "nonce" not in read(proofs.proof("POST", "https://other.example.com"))[1]


def test_dpop_stored_key_shows_public_members_only() -> None:
    key = {**Proofs().key, "kid": "mine", "note": "SECRET"}
    header, claims = read(Proofs(key).proof("GET", f"{SERVER}?a=b#c", "a-token"))
    assert (header["typ"], set(header["jwk"])) == ("dpop+jwt", {"kty", "crv", "x", "y"})
    assert (claims["htm"], claims["htu"]) == ("GET", SERVER)
    assert claims["ath"] == urlsafe_b64encode(sha256(b"a-token").digest()).rstrip(b"=").decode()


ISSUER = "https://id.example.com"
TOKEN = f"{ISSUER}/token"
KEYS: dict[str, Any] = {
    "RS256": RSAKey.generate_key(2048), "ES256": ECKey.generate_key("P-256"), "ES384": ECKey.generate_key("P-384"),
    "ES512": ECKey.generate_key("P-521"), "EdDSA": OKPKey.generate_key("Ed25519"),
}  # fmt: skip


def server(*algorithms: str) -> AuthorizationServerMetadata:
    taken = {"token_endpoint_auth_signing_alg_values_supported": list(algorithms)} if algorithms else {}
    return AuthorizationServerMetadata(ISSUER, {"issuer": ISSUER, "token_endpoint": TOKEN, **taken})


async def signed(authentication: Any, *algorithms: str) -> dict[str, str]:
    request = TokenRequest(TOKEN, {"grant_type": "client_credentials"})
    await authentication.sign(request, server(*algorithms))
    assert request.headers == {}
    return request.form


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # by joserfc, as it reads here
@pytest.mark.parametrize(
    ("algorithm", "form"), [*((each, "pem") for each in KEYS), ("ES256", "jwk"), ("ES256", "file")]
)
async def test_client_assertion_claims_and_algorithms(algorithm: str, form: str, tmp_path: Path) -> None:
    key = KEYS[algorithm]
    pem = key.as_pem(private=True).decode()
    (tmp_path / "key.pem").write_text(pem)
    given = {"pem": pem, "jwk": key.as_dict(private=True), "file": tmp_path / "key.pem"}[form]
    authentication = PrivateKeyJwt("reports", SigningKey(given))
    sent = [await signed(authentication), await signed(authentication, algorithm)]
    tokens = [jwt.decode(each["client_assertion"], key, algorithms=[algorithm]) for each in sent]
    for form_sent, token in zip(sent, tokens, strict=True):
        assert form_sent["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        assert form_sent["client_id"] == token.claims["iss"] == token.claims["sub"] == "reports"
        assert token.header == {"typ": "JWT", "alg": algorithm}
        assert token.claims["aud"] == ISSUER
        assert time.time() - 60 < token.claims["iat"] <= token.claims["exp"] - 60 < time.time() + 600
    assert tokens[0].claims["jti"] != tokens[1].claims["jti"]


@each_row("key", [
    "", "SECRET", "-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----",
    KEYS["ES256"].as_pem(private=False).decode(), OctKey.generate_key(256).as_dict(private=True),
    {"kty": "EC", "crv": "P-256", "d": "SECRET"}, {},
])  # fmt: skip
def test_signing_key_invalid_is_refused_and_not_quoted(key: Any) -> None:
    with pytest.raises(ValueError, match="must be an unencrypted private key: the text of a PEM") as raised:
        SigningKey(key)
    assert "SECRET" not in str(raised.value)
    assert raised.value.__cause__ is raised.value.__context__ is None


def test_keys_are_not_shown() -> None:
    proofs = Proofs()
    assert proofs.key["d"] not in repr(proofs) + repr(vars(proofs))
    key = KEYS["ES256"].as_dict(private=True)
    authentication = PrivateKeyJwt("reports", SigningKey(key))
    assert key["d"] not in repr(authentication) + repr(vars(authentication)) + repr(SigningKey(key))


async def test_presented_token_from_text_file_or_function(tmp_path: Path) -> None:
    async def later() -> str:
        return "later"

    (tmp_path / "token").write_text("filed\n")
    sources: dict[Any, str] = {
        "plain": "plain",
        tmp_path / "token": "filed",
        (lambda: "made"): "made",
        later: "later",
    }
    for source, expected in sources.items():
        assert await Presented("token", source).value() == expected


async def test_presented_token_invalid_is_error_without_secret(tmp_path: Path) -> None:
    missing, binary = tmp_path / "missing", tmp_path / "binary"
    binary.write_bytes(b"\xff\xfeSECRET")
    with pytest.raises(AuthorizationFailedError, match=r"cannot be read from .*missing: No such") as raised:
        await Presented("token", missing).value()
    assert raised.value.may_pass
    with pytest.raises(AuthorizationFailedError, match="it is not UTF-8 text"):
        await Presented("token", binary).value()
    for malformed in ("SECRET\nmore", "SECRET\x00", "", None, 5):
        with pytest.raises(
            AuthorizationFailedError, match=r"did not yield a token.* a single line"
        ) as raised:
            await Presented("token", lambda malformed=malformed: malformed).value()  # type: ignore[misc]
        assert "SECRET" not in str(raised.value)
    with pytest.raises(TypeError, match="not bytes"):
        Presented("token", b"SECRET")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(ValueError, match="token is empty"):
        Presented("token", "")
