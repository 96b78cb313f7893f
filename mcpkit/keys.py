"""Keys: what this server has signed, known again by any process that has the same secret."""

from __future__ import annotations

import hmac
import os
from collections.abc import Sequence
from typing import Final

_VARIABLE: Final = "MCPKIT_SECRET"
_LEAST: Final = 16  # bytes: a key of 128 bits cannot be guessed
_HOW: Final = 'make one with: python -c "import secrets; print(secrets.token_urlsafe(32))"'


class Keys:
    """HMAC-SHA256 under keys derived from one secret (RFC 2104; NIST SP 800-108 for the derivation).

    There is a key for each purpose and server name, so that what is signed for one use is worth
    nothing in another, nor on another server that has the same secret. Safe in any thread.

    Args:
        secret: At least 16 bytes, or a sequence of such secrets: the first one signs, each one
            verifies, so that a secret can be replaced with no signature lost. None takes the
            environment variable `MCPKIT_SECRET`, and where that is not set, what the workers of
            one parent process share (`multiprocessing.current_process().authkey`): enough for
            `uvicorn --workers`, gone with the parent.
        name: The server's name.

    Raises:
        TypeError: A secret is neither str nor bytes.
        ValueError: There is no secret in the sequence, or a secret is shorter than 16 bytes.
    """

    __slots__ = ("_keyed", "_name", "_secrets")

    def __init__(self, secret: str | bytes | Sequence[str | bytes] | None, name: str) -> None:
        self._name = name
        self._secrets = _found() if secret is None else _given(secret)
        self._keyed: dict[str, tuple[hmac.HMAC, ...]] = {}

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
        return any(hmac.compare_digest(_digest(keyed, data), mac) for keyed in self._keyed_for(purpose))

    def _keyed_for(self, purpose: str) -> tuple[hmac.HMAC, ...]:
        keyed = self._keyed.get(purpose)
        if keyed is None:
            label = f"mcpkit\0{purpose}\0{self._name}".encode("utf-8", "surrogatepass")
            keyed = tuple(
                hmac.new(hmac.digest(secret, label, "sha256"), digestmod="sha256") for secret in self._secrets
            )
            self._keyed[purpose] = keyed
        return keyed

    def __repr__(self) -> str:
        """Show whose keys these are, never the secret."""
        return f"Keys({self._name!r})"


def _digest(keyed: hmac.HMAC, data: bytes) -> bytes:
    running = keyed.copy()  # the key has been hashed once; half the time of starting with it
    running.update(data)
    return running.digest()


def _given(secret: str | bytes | Sequence[str | bytes]) -> tuple[bytes, ...]:
    several = (secret,) if isinstance(secret, str | bytes) else tuple(secret)
    if not several:
        raise ValueError(f"secret= is an empty list: {_HOW}")
    return tuple(_checked(one, "secret=") for one in several)


def _found() -> tuple[bytes, ...]:
    variable = os.environ.get(_VARIABLE)
    if variable is not None:
        return (_checked(variable, _VARIABLE),)
    from multiprocessing import current_process

    return (bytes(current_process().authkey),)


def _checked(secret: object, source: str) -> bytes:
    if not isinstance(secret, str | bytes):
        raise TypeError(f"{source} must be str or bytes, or a list of them, got {type(secret).__name__}")
    # A lone surrogate cannot be encoded, and the error would show the secret.
    key = secret.encode("utf-8", "surrogatepass") if isinstance(secret, str) else secret
    if len(key) < _LEAST:
        raise ValueError(f"{source} must have at least {_LEAST} bytes: {_HOW}")
    return key
