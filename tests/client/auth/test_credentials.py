"""Stored tokens, DPoP proofs, client assertions and presented tokens: kept as they are, and never shown."""

import asyncio
import json
import logging
import os
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import keyring
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey, import_key

from mcpkit._utils.exceptions import TokenStorageError
from mcpkit.auth.urls_and_discovery import AuthorizationServerMetadata
from mcpkit.client.auth.authorization_server_client import AuthorizationFailedError
from mcpkit.client.auth.token_endpoint import PrivateKeyJwt, Prover, TokenReader, TokenRequest
from mcpkit.client.auth.token_storage import (
    VERSION,
    FileTokens,
    KeyringTokens,
    MemoryTokens,
    Registration,
    Tokens,
    TokenStorage,
    default_storage,
)
from tests.helpers.oauth_flow import MemoryKeyring
from tests.helpers.tables import each_row

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


RESOURCE, ISSUER = "https://mcp.example.com/mcp", "https://id.example.com"
PROOF_KEY = {"kty": "EC", "d": "key-SECRET"}
SCOPES = frozenset({"notes:read", "notes:write"})
TOKENS = Tokens(
    RESOURCE, ISSUER, "client-1", "access-SECRET", "refresh-SECRET", "DPoP", 1_800_000_000.5, SCOPES, PROOF_KEY
)  # fmt: skip
REDIRECT_URIS = ("http://127.0.0.1:1/callback",)
REGISTRATION = Registration(ISSUER, "client-1", "client-SECRET", "client_secret_basic", REDIRECT_URIS, None)


@pytest.fixture
def backend() -> Iterator[MemoryKeyring]:
    before, backend = keyring.get_keyring(), MemoryKeyring()
    keyring.set_keyring(backend)
    yield backend
    keyring.set_keyring(before)


@pytest.fixture(params=["memory", "file", "keyring"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> TokenStorage:
    if request.param == "keyring":
        request.getfixturevalue("backend")
        return KeyringTokens()
    return MemoryTokens() if request.param == "memory" else FileTokens(tmp_path / "tokens" / "mcpkit.json")


async def test_storage_keeps_and_forgets_by_resource_and_client(storage: TokenStorage) -> None:
    assert await storage.get_tokens(RESOURCE) is None
    await storage.delete_tokens(RESOURCE)
    await storage.set_tokens(TOKENS)
    await storage.set_registration(REGISTRATION)
    assert await storage.get_tokens(RESOURCE) == TOKENS
    assert await storage.get_registration(ISSUER) == REGISTRATION
    assert await storage.get_tokens(f"{RESOURCE}/") is None
    assert await storage.get_registration(f"{ISSUER}/") is None
    newer = replace(TOKENS, access_token="newer", refresh_token=None, expires=None, proof_key=None)
    other = replace(TOKENS, client_id="two")
    await storage.set_tokens(newer)
    await storage.set_tokens(other, "two")
    assert await storage.get_tokens(RESOURCE) == newer
    await storage.delete_tokens(RESOURCE)
    await storage.delete_registration(ISSUER)
    assert await storage.get_tokens(RESOURCE) is None
    assert await storage.get_registration(ISSUER) is None
    assert await storage.get_tokens(RESOURCE, "two") == other


async def test_storage_reads_previous_version_and_keeps_later_one(storage, caplog) -> None:
    await storage.save(f"tokens {RESOURCE}", {**TOKENS.record(), "version": VERSION - 1})
    assert await storage.get_tokens(RESOURCE) == TOKENS
    later = {**TOKENS.record(), "version": VERSION + 1, "more": "of it"}
    await storage.save(f"tokens {RESOURCE}", later)
    assert await storage.get_tokens(RESOURCE) is None
    with caplog.at_level(logging.WARNING):
        await storage.set_tokens(TOKENS)
        await storage.delete_tokens(RESOURCE)
    assert await storage.load(f"tokens {RESOURCE}") == later
    assert "a later version of mcpkit" in caplog.text
    assert "SECRET" not in caplog.text


async def test_storage_refresh_lock_is_exclusive_per_resource(storage: TokenStorage) -> None:
    order: list[str] = []

    async def second() -> None:
        async with storage.refresh_lock(RESOURCE):
            order.append("second")

    async with storage.refresh_lock(RESOURCE):
        waiting = asyncio.ensure_future(second())
        async with storage.refresh_lock("https://other.example"):
            order.append("other")
        await asyncio.sleep(0)
        order.append("first")
    await waiting
    assert order == ["other", "first", "second"]


def test_storage_repr_has_no_secret() -> None:
    displayed = f"{TOKENS!r} {TOKENS} {REGISTRATION!r} {MemoryTokens()!r} {FileTokens('x')!r}"
    assert "SECRET" not in displayed
    assert "notes:read" in displayed


async def test_keyring_splits_long_tokens(backend: MemoryKeyring) -> None:
    assert isinstance(default_storage(), KeyringTokens)
    storage = KeyringTokens("my program")
    long = replace(TOKENS, access_token="ä€😀" * 4_000)
    await storage.set_tokens(long)
    assert len(backend.entries) > 10
    assert {service for service, _ in backend.entries} == {"my program"}
    assert await storage.get_tokens(RESOURCE) == long
    await storage.set_tokens(TOKENS)
    assert len(backend.entries) == 1
    await storage.set_tokens(long)
    await storage.delete_tokens(RESOURCE)
    assert backend.entries == {}


async def test_keyring_error_has_no_secret(backend: MemoryKeyring) -> None:
    storage = KeyringTokens()
    backend.problem = RuntimeError("locked, with access-SECRET in it")
    with pytest.raises(TokenStorageError, match=r"keyring failed \(RuntimeError\)\. Unlock it") as raised:
        await storage.get_tokens(RESOURCE)
    assert raised.value.__suppress_context__


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "tokens.json"


async def test_file_tokens_are_readable_by_owner_only(path: Path) -> None:
    before = os.umask(0)
    try:
        await FileTokens(path).set_tokens(TOKENS)
    finally:
        os.umask(before)
    assert [each.stat().st_mode & 0o777 for each in (path, path.parent)] == [0o600, 0o700]
    assert [each.name for each in path.parent.iterdir()] == [path.name]  # no lock, no half of a file


@pytest.mark.parametrize(("what", "right", "wrong"), [("file", 0o600, 0o640), ("folder", 0o700, 0o702)])
async def test_file_tokens_open_to_others_are_refused(path: Path, what: str, right: int, wrong: int) -> None:
    storage = FileTokens(path)
    await storage.set_tokens(TOKENS)
    target = path if what == "file" else path.parent
    target.chmod(wrong)
    message = rf"other users can access .* \(mode {wrong:04o}\)\. Run chmod {right:o}"
    for attempt in (lambda: storage.get_tokens(RESOURCE), lambda: storage.set_tokens(TOKENS)):
        with pytest.raises(TokenStorageError, match=message):
            await attempt()
    target.chmod(right)
    assert await storage.get_tokens(RESOURCE) == TOKENS


async def test_file_tokens_link_folder_and_pipe_are_refused(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    target = path.parent / "elsewhere"
    target.write_text("{}")
    path.symlink_to(target)
    with pytest.raises(TokenStorageError, match="it is a symbolic link"):
        await FileTokens(path).get_tokens(RESOURCE)
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(TokenStorageError, match="is not a regular file"):
        await FileTokens(path).get_tokens(RESOURCE)
    with pytest.raises(TokenStorageError, match="is not a regular file"):
        await FileTokens(path.parent).get_tokens(RESOURCE)


@pytest.mark.parametrize("text", ["access-SECRET", '{"version": "1"}', "[" * 100_000])
async def test_file_tokens_malformed_file_is_unchanged_and_not_quoted(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700)
    path.touch(0o600)
    path.write_text(text)
    for attempt in (FileTokens(path).get_tokens(RESOURCE), FileTokens(path).set_tokens(TOKENS)):
        with pytest.raises(TokenStorageError, match="is not a token file of mcpkit") as raised:
            await attempt
        assert "SECRET" not in str(raised.value)
        assert raised.value.__context__ is None or "SECRET" not in str(raised.value.__context__)
    assert path.read_text() == text


NAMES = st.sampled_from([*TOKENS.record(), "secret", "method", "redirect_uris"])


@example({"proof_key": "a text"}, None)
@given(st.dictionaries(NAMES, JSON_VALUES), JSON_VALUES)
def test_token_records_of_any_form_are_read_or_none(changed: dict[str, Any], value: object) -> None:
    for record in ({**TOKENS.record(), **changed}, changed, value):
        tokens, registration = Tokens.read(record), Registration.read(record)
        if tokens is not None:
            assert Tokens.read(json.loads(json.dumps(tokens.record()))) == tokens
        if registration is not None:
            assert Registration.read(json.loads(json.dumps(registration.record()))) == registration


SERVER = "https://mcp.example.com/mcp"


def read(proof: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims of a proof that its own key has signed, as a server reads it."""
    first = proof.split(".", maxsplit=1)[0]
    header = json.loads(urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    token = jwt.decode(proof, import_key(header["jwk"], "EC"), algorithms=["ES256"])
    return token.header, token.claims


def test_dpop_nonce_is_per_origin() -> None:
    proofs = Prover()
    proofs.set_nonce("https://id.example.com/token", "of-issuer")
    proofs.set_nonce(SERVER, "of-server")
    proofs.set_nonce(SERVER, "newer")
    assert read(proofs.proof("POST", "https://ID.example.com:443/other"))[1]["nonce"] == "of-issuer"
    assert read(proofs.proof("POST", SERVER))[1]["nonce"] == "newer"
    assert "nonce" not in read(proofs.proof("POST", "https://other.example.com"))[1]


def test_dpop_stored_key_shows_public_members_only() -> None:
    key = {**Prover().key, "kid": "mine", "note": "SECRET"}
    header, claims = read(Prover(key).proof("GET", f"{SERVER}?a=b#c", "a-token"))
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
    authentication = PrivateKeyJwt("reports", given)
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
def test_private_key_jwt_invalid_key_is_refused_and_not_quoted(key: Any) -> None:
    with pytest.raises(ValueError, match="must be an unencrypted private key: the text of a PEM") as raised:
        PrivateKeyJwt("reports", key)
    assert "SECRET" not in str(raised.value)
    assert raised.value.__cause__ is raised.value.__context__ is None


def test_keys_are_not_shown() -> None:
    proofs = Prover()
    assert proofs.key["d"] not in repr(proofs) + repr(vars(proofs))
    key = KEYS["ES256"].as_dict(private=True)
    authentication = PrivateKeyJwt("reports", key)
    assert key["d"] not in repr(authentication) + repr(vars(authentication))


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
        assert await TokenReader("token", source).read() == expected


async def test_presented_token_invalid_is_error_without_secret(tmp_path: Path) -> None:
    missing, binary = tmp_path / "missing", tmp_path / "binary"
    binary.write_bytes(b"\xff\xfeSECRET")
    with pytest.raises(AuthorizationFailedError, match=r"cannot be read from .*missing: No such") as raised:
        await TokenReader("token", missing).read()
    assert raised.value.may_pass
    with pytest.raises(AuthorizationFailedError, match="it is not UTF-8 text"):
        await TokenReader("token", binary).read()
    for malformed in ("SECRET\nmore", "SECRET\x00", "", None, 5):
        with pytest.raises(
            AuthorizationFailedError, match=r"did not yield a token.* a single line"
        ) as raised:
            await TokenReader("token", lambda malformed=malformed: malformed).read()  # type: ignore[misc]
        assert "SECRET" not in str(raised.value)
    with pytest.raises(TypeError, match="not bytes"):
        TokenReader("token", b"SECRET")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(ValueError, match="token is empty"):
        TokenReader("token", "")
