"""Keys for signatures and encryption, derived from the secret of a server."""

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

    Each purpose and server name has its own key, so a signature for one use is invalid for another, and on another
    server with the same secret. Encryption has separate keys. All methods are thread-safe.

    Args:
        secret: At least 16 bytes, or a sequence of such secrets. The first one signs and encrypts, and each one
            verifies and decrypts, so that a secret can be rotated. None takes the environment variable `MCPKIT_SECRET`.
            If that is not set, it takes a secret that the workers of one parent process share
            (`multiprocessing.current_process().authkey`): enough for `uvicorn --workers`, and lost with the parent.
        name: Name of the server.

    Attributes:
        name: Name of the server.

    Raises:
        TypeError: A secret is neither str nor bytes.
        ValueError: The sequence is empty, or a secret is shorter than 16 bytes.
    """

    __slots__ = ("_ciphers", "_keyed", "_secrets", "name")

    def __init__(self, secret: str | bytes | Sequence[str | bytes] | None, name: str) -> None:
        self.name = name
        self._secrets = _found() if secret is None else _given(secret)
        self._keyed: dict[str, tuple[hmac.HMAC, ...]] = {}
        self._ciphers: dict[str, tuple[AESGCM, ...]] = {}

    def sign(self, purpose: str, data: bytes) -> bytes:
        """Return the 32-byte signature of `data` for `purpose`.

        Args:
            purpose: Purpose of the signature, a constant, because the keys of each one are cached.
            data: The signed data.
        """
        return _digest(self._keyed_for(purpose)[0], data)

    def verify(self, purpose: str, data: bytes, mac: bytes) -> bool:
        """Return whether `mac` is the signature of `data` for `purpose`, under any of the secrets.

        It takes the same time whatever differs (but longer for each further secret).
        """
        import hmac

        return any(hmac.compare_digest(_digest(keyed, data), mac) for keyed in self._keyed_for(purpose))

    def ids(self, purpose: str) -> tuple[bytes, ...]:
        """Return the ids of the keys for `purpose`, 8 bytes each, that of the encrypting key first."""
        return tuple(key[:_ID] for key in self._derived("mcpkit key id", purpose))

    def encrypt(self, purpose: str, data: bytes, place: bytes | None = None) -> bytes:
        """Return `data` encrypted and authenticated, 28 bytes longer.

        Args:
            purpose: Purpose, as in `sign`.
            data: The data to encrypt.
            place: Associated data, such as the key in a store: decryption needs the same.

        Raises:
            ImportError: The package cryptography is not installed.
        """
        nonce = os.urandom(_NONCE)
        return nonce + self._ciphers_for(purpose)[0].encrypt(nonce, data, place)

    def decrypt(self, purpose: str, data: bytes, place: bytes | None = None) -> bytes | None:
        """Return data that was encrypted for `purpose` and `place`, under any of the secrets; None for anything else.

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
        """Return 32 bytes for each secret, the newest first, as key material of other algorithms.

        Args:
            purpose: Purpose, as in `sign`.
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
        """Return the name of the server, never the secret."""
        return f"Keys({self.name!r})"


def aes_gcm() -> type[AESGCM]:
    """Return the cipher, imported on use.

    Raises:
        ImportError: The package cryptography is not installed; the message says how to install it.
    """
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        from .._utils.installation import install_command

        raise ImportError(
            f"encryption needs cryptography. Run: {install_command('crypto')}", name=error.name
        ) from error
    return AESGCM


def check_environment() -> None:
    """Check the secret in the environment, if it is set.

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
        raise ValueError(f"secret_key= is an empty list; {SECRET_HOW}")
    return tuple(_checked(one, "secret_key=") for one in several)


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
