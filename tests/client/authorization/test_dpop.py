"""Proofs of possession: what they say, whom they are for, and that nothing of the key is shown."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey, import_key

from mcpkit.client.authorization.dpop import Proofs

SERVER = "https://mcp.example.com/mcp"


def read(proof: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims of a proof that its own key has signed, as a server reads it."""
    first = proof.split(".", maxsplit=1)[0]
    header = json.loads(urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    token = jwt.decode(proof, import_key(header["jwk"], "EC"), algorithms=["ES256"])
    return token.header, token.claims


def test_a_proof_says_what_it_is_for_and_is_signed_by_the_key_it_shows() -> None:
    proofs = Proofs()
    header, claims = read(proofs.proof("POST", "https://mcp.example.com:8443/mcp?a=b#c", "a-token"))
    assert (header["typ"], header["alg"]) == ("dpop+jwt", "ES256")
    assert set(header["jwk"]) == {"kty", "crv", "x", "y"}
    assert (claims["htm"], claims["htu"]) == ("POST", "https://mcp.example.com:8443/mcp")
    assert abs(claims["iat"] - time.time()) < 60
    assert claims["ath"] == urlsafe_b64encode(sha256(b"a-token").digest()).rstrip(b"=").decode()
    assert "nonce" not in claims


def test_a_proof_for_the_token_endpoint_names_no_token_and_none_is_like_another() -> None:
    proofs = Proofs()
    claims = [read(proofs.proof("POST", "https://id.example.com/token"))[1] for _ in range(50)]
    assert all("ath" not in each for each in claims)
    assert len({each["jti"] for each in claims}) == 50


def test_a_url_without_a_path_has_one_in_the_proof() -> None:
    assert read(Proofs().proof("GET", "https://mcp.example.com"))[1]["htu"] == "https://mcp.example.com/"


def test_a_nonce_is_for_the_origin_that_has_given_it() -> None:
    proofs = Proofs()
    proofs.heard("https://id.example.com/token", "of-issuer")
    proofs.heard(SERVER, "of-server")
    proofs.heard(SERVER, "newer")
    assert read(proofs.proof("POST", "https://ID.example.com:443/other"))[1]["nonce"] == "of-issuer"
    assert read(proofs.proof("POST", SERVER))[1]["nonce"] == "newer"
    assert "nonce" not in read(proofs.proof("POST", "https://other.example.com"))[1]


@pytest.mark.slow
def test_nonces_of_many_origins_are_not_all_kept() -> None:
    proofs = Proofs()
    for number in range(1_000):
        proofs.heard(f"https://{number}.example.com", "n")
    assert (
        sum("nonce" in read(proofs.proof("GET", f"https://{n}.example.com"))[1] for n in range(1_000)) <= 100
    )


def test_the_key_is_kept_and_used_again() -> None:
    proofs = Proofs()
    assert Proofs(proofs.key).key == proofs.key
    assert (
        read(proofs.proof("GET", SERVER))[0]["jwk"] == read(Proofs(proofs.key).proof("GET", SERVER))[0]["jwk"]
    )
    assert Proofs().key != proofs.key


def test_more_in_a_stored_key_is_not_shown() -> None:
    key = {**Proofs().key, "kid": "mine", "note": "SECRET"}
    assert set(read(Proofs(key).proof("GET", SERVER))[0]["jwk"]) == {"kty", "crv", "x", "y"}


@pytest.mark.parametrize(
    "key",
    [
        {},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": "EC", "crv": "P-256", "x": "1", "y": "2", "d": "3"},
        {**ECKey.generate_key("P-384").as_dict(private=True)},
        ECKey.generate_key("P-256").as_dict(private=False),
        {"kty": "EC", "crv": "P-256", "x": 1, "y": [], "d": None},
    ],
)
def test_what_is_no_key_for_proofs_is_replaced(key: dict[str, Any]) -> None:
    assert read(Proofs(key).proof("GET", SERVER))


def test_nothing_of_the_key_is_shown() -> None:
    proofs = Proofs()
    assert proofs.key["d"] not in repr(proofs)
    assert proofs.key["d"] not in repr(vars(proofs))


@given(st.text(max_size=50) | st.text('abc"\\ ~!', max_size=50))
def test_what_is_no_nonce_is_passed_over(nonce: str) -> None:
    proofs = PROOFS
    proofs.heard(SERVER, "before")
    proofs.heard(SERVER, nonce)
    said = read(proofs.proof("POST", SERVER))[1]["nonce"]
    is_nonce = bool(nonce) and all("!" <= char <= "~" and char not in '"\\' for char in nonce)
    assert said == (nonce if is_nonce else "before")


PROOFS = Proofs()
