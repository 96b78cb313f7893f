from __future__ import annotations

import hmac
import os
import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit.state.keys import Keys

OLD = "the old secret of the station"
NEW = "the new secret of the station"


@pytest.fixture(autouse=True)
def no_secret_in_the_environment(monkeypatch):
    monkeypatch.delenv("MCPKIT_SECRET", raising=False)


def test_what_was_signed_verifies():
    keys = Keys(NEW, "weather")
    mac = keys.sign("session", b"data")
    assert len(mac) == 32
    assert keys.verify("session", b"data", mac)
    assert Keys(NEW.encode(), "weather").verify("session", b"data", mac)


def test_the_signature_stays_the_same_from_release_to_release():
    derived = hmac.digest(NEW.encode(), b"mcpkit\0session\0weather", "sha256")
    assert Keys(NEW, "weather").sign("session", b"data") == hmac.digest(derived, b"data", "sha256")


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 255))
def test_one_bit_of_the_signature_makes_it_another(data, bit):
    keys = Keys(NEW, "weather")
    mac = bytearray(keys.sign("session", data))
    mac[bit // 8] ^= 1 << bit % 8
    assert not keys.verify("session", data, bytes(mac))


@pytest.mark.parametrize("mac", [b"", b"\0", b"\0" * 32, b"\0" * 64])
def test_what_is_no_signature_does_not_verify(mac):
    assert not Keys(NEW, "weather").verify("session", b"data", mac)


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
def test_another_purpose_datum_secret_or_server_does_not_verify(purpose, data, secret, name):
    mac = Keys(NEW, "weather").sign("session", b"data")
    assert not Keys(secret, name).verify(purpose, data, mac)


def test_purpose_and_name_do_not_run_into_each_other():
    assert Keys(NEW, "b").sign("a", b"data") != Keys(NEW, "").sign("ab", b"data")
    assert Keys(NEW, "ab").sign("", b"data") != Keys(NEW, "b").sign("a", b"data")


def test_a_list_of_secrets_rotates():
    old, both, new = Keys(OLD, "weather"), Keys([NEW, OLD], "weather"), Keys(NEW, "weather")
    assert both.verify("session", b"data", old.sign("session", b"data"))
    assert both.sign("session", b"data") == new.sign("session", b"data")
    assert not new.verify("session", b"data", old.sign("session", b"data"))


def test_threads_may_use_one_set_of_keys():
    keys = Keys([NEW, OLD], "weather")
    expected = Keys(NEW, "weather").sign("session", b"data")

    def work(number: int) -> bool:
        purpose = f"purpose {number % 10}"
        mac = keys.sign(purpose, b"data")
        return keys.verify(purpose, b"data", mac) and keys.sign("session", b"data") == expected

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(400)))


# Encryption


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_what_was_encrypted_is_read_again_and_looks_different_each_time(data):
    keys = Keys(NEW, "weather")
    packed = keys.encrypt("state", data)
    assert keys.decrypt("state", packed) == data
    assert len(packed) == len(data) + 28
    assert packed != keys.encrypt("state", data)


def test_the_encryption_stays_the_same_from_release_to_release():
    derived = hmac.digest(NEW.encode(), b"mcpkit AES-256-GCM\0state\0weather", "sha256")
    packed = bytes(12) + AESGCM(derived).encrypt(bytes(12), b"data", None)
    assert Keys(NEW, "weather").decrypt("state", packed) == b"data"


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=40), st.data())
def test_one_bit_of_what_was_encrypted_makes_it_worthless(data, draw):
    keys = Keys(NEW, "weather")
    packed = bytearray(keys.encrypt("state", data))
    bit = draw.draw(st.integers(0, len(packed) * 8 - 1))
    packed[bit // 8] ^= 1 << bit % 8
    assert keys.decrypt("state", bytes(packed)) is None


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_what_was_not_encrypted_here_is_not_read(data):
    assert Keys(NEW, "weather").decrypt("state", data) is None


@pytest.mark.parametrize(
    ("purpose", "secret", "name"),
    [
        ("session", NEW, "weather"),
        ("state", OLD, "weather"),
        ("state", NEW, "climate"),
        ("state", [OLD, OLD + "!"], "weather"),
    ],
)
def test_another_purpose_secret_or_server_reads_nothing(purpose, secret, name):
    packed = Keys(NEW, "weather").encrypt("state", b"data")
    assert Keys(secret, name).decrypt(purpose, packed) is None


def test_what_signs_does_not_encrypt():
    signing = hmac.digest(NEW.encode(), b"mcpkit\0state\0weather", "sha256")
    packed = bytes(12) + AESGCM(signing).encrypt(bytes(12), b"data", None)
    assert Keys(NEW, "weather").decrypt("state", packed) is None


def test_a_list_of_secrets_rotates_what_encrypts():
    old, both, new = Keys(OLD, "weather"), Keys([NEW, OLD], "weather"), Keys(NEW, "weather")
    assert both.decrypt("state", old.encrypt("state", b"data")) == b"data"
    assert new.decrypt("state", both.encrypt("state", b"data")) == b"data"
    assert new.decrypt("state", old.encrypt("state", b"data")) is None


def test_threads_may_encrypt_with_one_set_of_keys():
    keys = Keys([NEW, OLD], "weather")

    def work(number: int) -> bool:
        purpose, data = f"purpose {number % 10}", b"%d" % number
        return keys.decrypt(purpose, keys.encrypt(purpose, data)) == data

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(400)))


# Where the secret comes from


def test_the_environment_has_it_when_the_author_has_not(monkeypatch):
    monkeypatch.setenv("MCPKIT_SECRET", NEW)
    assert Keys(None, "weather").sign("session", b"") == Keys(NEW, "weather").sign("session", b"")


def test_the_author_goes_before_the_environment(monkeypatch):
    monkeypatch.setenv("MCPKIT_SECRET", OLD)
    assert Keys(NEW, "weather").sign("session", b"") != Keys(None, "weather").sign("session", b"")


WORKERS = """
import multiprocessing

def sign(results):
    from mcpkit.state.keys import Keys
    results.put(Keys(None, "weather").sign("session", b"data").hex())

if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    results = spawn.Queue()
    workers = [spawn.Process(target=sign, args=[results]) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        print(results.get())
    for worker in workers:
        worker.join()
"""


@pytest.mark.slow
def test_workers_of_one_parent_share_a_secret_that_no_other_parent_has(tmp_path):
    script = tmp_path / "workers.py"
    script.write_text(WORKERS, "utf-8")
    command = [sys.executable, str(script)]
    seen = [
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()
        for _ in range(2)
    ]
    assert [len(macs) for macs in seen] == [2, 2]
    assert [len(set(macs)) for macs in seen] == [1, 1]
    assert seen[0] != seen[1]


SIGNS = """
import sys
from mcpkit.state.keys import Keys

Keys("sixteen or more bytes", "weather").sign("session", b"")
print("multiprocessing" in sys.modules)
"""


def test_multiprocessing_is_loaded_only_when_it_is_needed():
    command = [sys.executable, "-c", SIGNS]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert output.strip() == "False"


# What is refused, and what is never shown


@pytest.mark.parametrize("secret", ["", "hunter2hunter2", b"hunter2hunter2", [NEW, "hunter2hunter2"], [], ()])
def test_a_secret_that_can_be_guessed_is_refused(secret):
    with pytest.raises(ValueError, match=r"^secret= .*secrets\.token_urlsafe\(32\)") as refused:
        Keys(secret, "weather")
    assert "hunter2" not in "".join(traceback.format_exception_only(refused.value))


@pytest.mark.parametrize("value", ["", "hunter2hunter2"])
def test_a_variable_that_is_set_must_hold_a_secret(monkeypatch, value):
    monkeypatch.setenv("MCPKIT_SECRET", value)
    with pytest.raises(ValueError, match=r"^MCPKIT_SECRET must have at least 16 bytes") as refused:
        Keys(None, "weather")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("secret", [[NEW, 1234567], [None], [bytearray(b"hunter2hunter2hunter2")]])
def test_a_secret_of_another_type_is_refused(secret):
    with pytest.raises(TypeError, match="must be str or bytes") as refused:
        Keys(secret, "weather")
    assert "hunter2" not in str(refused.value)
    assert "1234567" not in str(refused.value)


def test_sixteen_bytes_are_enough_and_are_counted_as_bytes():
    assert Keys("ä" * 8, "weather").sign("session", b"") == Keys(("ä" * 8).encode(), "weather").sign(
        "session", b""
    )


def test_any_str_and_any_bytes_of_the_environment_serve(monkeypatch):
    assert Keys("\ud800" * 16, "\ud800").sign("session", b"")
    if os.supports_bytes_environ:
        monkeypatch.setitem(os.environb, b"MCPKIT_SECRET", b"\xff" * 16)
        assert Keys(None, "weather").sign("session", b"")


def test_the_secret_does_not_show():
    keys = Keys([NEW, OLD], "weather")
    mac = keys.sign("session", b"")
    assert repr(keys) == "Keys('weather')"
    assert keys.verify("session", b"", mac)
    assert not hasattr(keys, "__dict__")
