"""Keys: what this server has signed or encrypted, known again by any process that has the same secret."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import hmac

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SECRET_VARIABLE = "MCPKIT_SECRET"
_LEAST = 16  # bytes: a key of 128 bits cannot be guessed
_ID = 8  # bytes
_NONCE = 12  # bytes; random ones are good for 2**32 texts under one secret (NIST SP 800-38D, 8.3)
SECRET_HOW = 'generate one with: python -c "import secrets; print(secrets.token_urlsafe(32))"'


class Keys:
    """HMAC-SHA256 and AES-256-GCM under keys derived from one secret (RFC 2104; NIST SP 800-108 for the derivation).

    There is a key for each purpose and server name, so that what is signed for one use is worth
    nothing in another, nor on another server that has the same secret. What encrypts has keys of its
    own. Safe in any thread.

    Args:
        secret: At least 16 bytes, or a sequence of such secrets: the first one signs and encrypts, each
            one verifies and decrypts, so that a secret can be replaced with nothing lost. None takes the
            environment variable `MCPKIT_SECRET`, and where that is not set, what the workers of
            one parent process share (`multiprocessing.current_process().authkey`): enough for
            `uvicorn --workers`, gone with the parent.
        name: The server's name.

    Attributes:
        name: The server's name.

    Raises:
        TypeError: A secret is neither str nor bytes.
        ValueError: There is no secret in the sequence, or a secret is shorter than 16 bytes.
    """

    __slots__ = ("_ciphers", "_keyed", "_secrets", "name")

    def __init__(self, secret: str | bytes | Sequence[str | bytes] | None, name: str) -> None:
        self.name = name
        self._secrets = _found() if secret is None else _given(secret)
        self._keyed: dict[str, tuple[hmac.HMAC, ...]] = {}
        self._ciphers: dict[str, tuple[AESGCM, ...]] = {}

    def sign(self, purpose: str, data: bytes) -> bytes:
        """Return the 32 bytes that prove that `data` was signed here for `purpose`.

        Args:
            purpose: What the signature is for: a constant of the program, as each has its keys kept.
            data: What is signed.
        """
        return _digest(self._keyed_for(purpose)[0], data)

    def verify(self, purpose: str, data: bytes, mac: bytes) -> bool:
        """Return whether `mac` is the signature of `data` for `purpose`, under any of the secrets.

        It takes the same time whatever differs (but longer for each further secret).
        """
        import hmac

        return any(hmac.compare_digest(_digest(keyed, data), mac) for keyed in self._keyed_for(purpose))

    def ids(self, purpose: str) -> tuple[bytes, ...]:
        """Return what names the keys for `purpose`, 8 bytes each, that of the one that encrypts first."""
        return tuple(key[:_ID] for key in self._derived("mcpkit key id", purpose))

    def encrypt(self, purpose: str, data: bytes, place: bytes | None = None) -> bytes:
        """Return `data` in a form that none but these keys can read, or change unnoticed; 28 bytes longer.

        Args:
            purpose: What it is for, as `sign` has it.
            data: What is encrypted.
            place: What it belongs to, such as its key in a store: it is readable there alone.

        Raises:
            ImportError: The package cryptography is not installed.
        """
        nonce = os.urandom(_NONCE)
        return nonce + self._ciphers_for(purpose)[0].encrypt(nonce, data, place)

    def decrypt(self, purpose: str, data: bytes, place: bytes | None = None) -> bytes | None:
        """Return what was encrypted here for `purpose` and `place`, under any of the secrets; None for anything else.

        Raises:
            ImportError: The package cryptography is not installed.
        """
        from cryptography.exceptions import InvalidTag

        nonce, encrypted = data[:_NONCE], data[_NONCE:]
        if len(nonce) < _NONCE:
            return None
        for cipher in self._ciphers_for(purpose):
            try:
                return cipher.decrypt(nonce, encrypted, place)
            except InvalidTag:
                continue
        return None

    def derive(self, purpose: str) -> tuple[bytes, ...]:
        """Return 32 bytes for each secret, the newest first: what keys of other algorithms are made of.

        Args:
            purpose: What they are for, as `sign` has it.
        """
        return tuple(self._derived("mcpkit key", purpose))

    def _keyed_for(self, purpose: str) -> tuple[hmac.HMAC, ...]:
        if purpose not in self._keyed:
            import hmac

            derived = self._derived("mcpkit", purpose)
            self._keyed[purpose] = tuple(hmac.new(key, digestmod="sha256") for key in derived)
        return self._keyed[purpose]

    def _ciphers_for(self, purpose: str) -> tuple[AESGCM, ...]:
        if purpose not in self._ciphers:
            derived = self._derived("mcpkit AES-256-GCM", purpose)
            self._ciphers[purpose] = tuple(map(aes_gcm(), derived))
        return self._ciphers[purpose]

    def _derived(self, use: str, purpose: str) -> list[bytes]:
        label = f"{use}\0{purpose}\0{self.name}".encode("utf-8", "surrogatepass")
        import hmac

        return [hmac.digest(secret, label, "sha256") for secret in self._secrets]

    def __repr__(self) -> str:
        """Show whose keys these are, never the secret."""
        return f"Keys({self.name!r})"


def aes_gcm() -> type[AESGCM]:
    """Return the cipher, imported on use.

    Raises:
        ImportError: The package cryptography is not installed; the message says how to install it.
    """
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        from ..common.installation import install_command

        raise ImportError(
            f"encryption needs cryptography. Run: {install_command('crypto')}", name=error.name
        ) from error
    return AESGCM


def check_environment() -> None:
    """Refuse a secret in the environment that is none.

    Raises:
        ValueError: It is too short.
    """
    variable = os.environ.get(SECRET_VARIABLE)
    if variable is not None:
        _checked(variable, SECRET_VARIABLE)


def _digest(keyed: hmac.HMAC, data: bytes) -> bytes:
    running = keyed.copy()  # the key has been hashed once; half the time of starting with it
    running.update(data)
    return running.digest()


def _given(secret: str | bytes | Sequence[str | bytes]) -> tuple[bytes, ...]:
    several = (secret,) if isinstance(secret, str | bytes) else tuple(secret)
    if not several:
        raise ValueError(f"secret= is an empty list; {SECRET_HOW}")
    return tuple(_checked(one, "secret=") for one in several)


def _found() -> tuple[bytes, ...]:
    variable = os.environ.get(SECRET_VARIABLE)
    if variable is not None:
        return (_checked(variable, SECRET_VARIABLE),)
    from multiprocessing import current_process

    return (bytes(current_process().authkey),)


def _checked(secret: object, source: str) -> bytes:
    if not isinstance(secret, str | bytes):
        raise TypeError(f"{source} must be str or bytes, or a list of them, got {type(secret).__name__}")
    # A lone surrogate cannot be encoded, and the error would show the secret.
    key = secret.encode("utf-8", "surrogatepass") if isinstance(secret, str) else secret
    if len(key) < _LEAST:
        raise ValueError(f"{source} must have at least {_LEAST} bytes, got {len(key)}; {SECRET_HOW}")
    return key
