"""Keys derived from the secret: signatures, encryption, rotation, and which secrets are refused."""

from __future__ import annotations

import hmac
import traceback

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.state.keys import Keys

OLD = "the old secret of the station"

NEW = "the new secret of the station"


@pytest.fixture(autouse=True)
def no_secret_in_environment(monkeypatch):
    monkeypatch.delenv("MCPKIT_SECRET", raising=False)


def test_verify_accepts_a_signature():
    keys = Keys(NEW, "weather")
    mac = keys.sign("session", b"data")
    assert len(mac) == 32
    assert keys.verify("session", b"data", mac)
    assert Keys(NEW.encode(), "weather").verify("session", b"data", mac)


def test_sign_is_stable_across_releases():
    derived = hmac.digest(NEW.encode(), b"mcpkit\0session\0weather", "sha256")
    assert Keys(NEW, "weather").sign("session", b"data") == hmac.digest(derived, b"data", "sha256")


@given(st.binary(max_size=200), st.integers(0, 255))
def test_verify_refuses_a_signature_with_one_bit_changed(data, bit):
    keys = Keys(NEW, "weather")
    mac = bytearray(keys.sign("session", data))
    mac[bit // 8] ^= 1 << bit % 8
    assert not keys.verify("session", data, bytes(mac))


@pytest.mark.parametrize(
    ("purpose", "data", "secret", "name"),
    [
        ("state", b"data", NEW, "weather"),
        ("session", b"date", NEW, "weather"),
        ("session", b"data", OLD, "weather"),
        ("session", b"data", NEW, "climate"),
        ("session", b"data", [OLD, OLD + "!"], "weather"),
    ],
)
def test_verify_refuses_another_purpose_data_secret_or_server(purpose, data, secret, name):
    mac = Keys(NEW, "weather").sign("session", b"data")
    assert not Keys(secret, name).verify(purpose, data, mac)


def test_verify_accepts_earlier_secrets_of_the_list():
    old, both, new = Keys(OLD, "weather"), Keys([NEW, OLD], "weather"), Keys(NEW, "weather")
    assert both.verify("session", b"data", old.sign("session", b"data"))
    assert both.sign("session", b"data") == new.sign("session", b"data")
    assert not new.verify("session", b"data", old.sign("session", b"data"))


# Encryption


@given(st.binary(max_size=200))
def test_decrypt_returns_what_encrypt_received(data):
    keys = Keys(NEW, "weather")
    packed = keys.encrypt("state", data)
    assert keys.decrypt("state", packed) == data
    assert len(packed) == len(data) + 28
    assert packed != keys.encrypt("state", data)


def test_encrypt_is_stable_across_releases():
    derived = hmac.digest(NEW.encode(), b"mcpkit AES-256-GCM\0state\0weather", "sha256")
    packed = bytes(12) + AESGCM(derived).encrypt(bytes(12), b"data", None)
    assert Keys(NEW, "weather").decrypt("state", packed) == b"data"


@given(st.binary(max_size=40), st.data())
def test_decrypt_refuses_data_with_one_bit_changed(data, draw):
    keys = Keys(NEW, "weather")
    packed = bytearray(keys.encrypt("state", data))
    bit = draw.draw(st.integers(0, len(packed) * 8 - 1))
    packed[bit // 8] ^= 1 << bit % 8
    assert keys.decrypt("state", bytes(packed)) is None


@pytest.mark.parametrize(
    ("purpose", "secret", "name"),
    [
        ("session", NEW, "weather"),
        ("state", OLD, "weather"),
        ("state", NEW, "climate"),
        ("state", [OLD, OLD + "!"], "weather"),
    ],
)
def test_decrypt_refuses_another_purpose_secret_or_server(purpose, secret, name):
    packed = Keys(NEW, "weather").encrypt("state", b"data")
    assert Keys(secret, name).decrypt(purpose, packed) is None


def test_decrypt_refuses_data_encrypted_with_the_signing_key():
    signing = hmac.digest(NEW.encode(), b"mcpkit\0state\0weather", "sha256")
    packed = bytes(12) + AESGCM(signing).encrypt(bytes(12), b"data", None)
    assert Keys(NEW, "weather").decrypt("state", packed) is None


def test_decrypt_accepts_earlier_secrets_of_the_list():
    old, both, new = Keys(OLD, "weather"), Keys([NEW, OLD], "weather"), Keys(NEW, "weather")
    assert both.decrypt("state", old.encrypt("state", b"data")) == b"data"
    assert new.decrypt("state", both.encrypt("state", b"data")) == b"data"
    assert new.decrypt("state", old.encrypt("state", b"data")) is None


# Secrets


def test_secret_is_read_from_environment(monkeypatch):
    monkeypatch.setenv("MCPKIT_SECRET", NEW)
    assert Keys(None, "weather").sign("session", b"") == Keys(NEW, "weather").sign("session", b"")


@pytest.mark.parametrize("secret", ["", b"hunter2hunter2", [NEW, "hunter2hunter2"], []])
def test_short_secret_is_refused(secret):
    with pytest.raises(ValueError, match=r"^secret_key= .*secrets\.token_urlsafe\(32\)") as error:
        Keys(secret, "weather")
    assert "hunter2" not in "".join(traceback.format_exception_only(error.value))


def test_repr_hides_the_secret():
    keys = Keys([NEW, OLD], "weather")
    mac = keys.sign("session", b"")
    assert repr(keys) == "Keys('weather')"
    assert keys.verify("session", b"", mac)
    assert not hasattr(keys, "__dict__")
