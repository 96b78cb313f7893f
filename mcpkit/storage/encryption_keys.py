"""Keys derived from the secret of a server, for signatures and encryption, and records encrypted with them."""

from __future__ import annotations

import logging
import os
import struct
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic_core import from_json, to_json

from .base import SECRET_HELP, SECRET_VARIABLE

if TYPE_CHECKING:
    import hmac

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from ..protocol.jsonrpc import Json
    from .base import Storage, Store

logger = logging.getLogger(__name__)

_MIN_SECRET = 16  # bytes: a key of 128 bits cannot be guessed
_NONCE = 12  # bytes; random ones are good for 2**32 texts under one secret (NIST SP 800-38D, 8.3)


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

    __slots__ = ("_ciphers", "_hmacs", "_secrets", "name")

    def __init__(self, secret: str | bytes | Sequence[str | bytes] | None, name: str) -> None:
        self.name = name
        self._secrets: tuple[bytes, ...]
        if secret is not None:
            secrets = (secret,) if isinstance(secret, str | bytes) else tuple(secret)
            if not secrets:
                raise ValueError(f"secret_key= is an empty list; {SECRET_HELP}")
            self._secrets = tuple(_checked_secret(each, "secret_key=") for each in secrets)
        elif (variable := os.environ.get(SECRET_VARIABLE)) is not None:
            self._secrets = (_checked_secret(variable, SECRET_VARIABLE),)
        else:
            from multiprocessing import current_process

            self._secrets = (bytes(current_process().authkey),)
        self._hmacs: dict[str, tuple[hmac.HMAC, ...]] = {}
        self._ciphers: dict[str, tuple[AESGCM, ...]] = {}

    def sign(self, purpose: str, data: bytes) -> bytes:
        """Return the 32-byte signature of `data` for `purpose`.

        Args:
            purpose: Purpose of the signature, a constant, because the keys of each one are cached.
            data: The signed data.
        """
        return _digest(self._hmacs_for(purpose)[0], data)

    def verify(self, purpose: str, data: bytes, mac: bytes) -> bool:
        """Return whether `mac` is the signature of `data` for `purpose`, under any of the secrets.

        It takes the same time whatever differs (but longer for each further secret).
        """
        import hmac

        return any(hmac.compare_digest(_digest(keyed, data), mac) for keyed in self._hmacs_for(purpose))

    def ids(self, purpose: str) -> tuple[bytes, ...]:
        """Return the ids of the keys for `purpose`, 8 bytes each, that of the encrypting key first."""
        return tuple(key[:8] for key in self._derive("mcpkit key id", purpose))

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
        return self._derive("mcpkit key", purpose)

    def _hmacs_for(self, purpose: str) -> tuple[hmac.HMAC, ...]:
        if purpose not in self._hmacs:
            import hmac

            keys = self._derive("mcpkit", purpose)
            self._hmacs[purpose] = tuple(hmac.new(key, digestmod="sha256") for key in keys)
        return self._hmacs[purpose]

    def _ciphers_for(self, purpose: str) -> tuple[AESGCM, ...]:
        if purpose not in self._ciphers:
            self._ciphers[purpose] = tuple(map(aes_gcm(), self._derive("mcpkit AES-256-GCM", purpose)))
        return self._ciphers[purpose]

    def _derive(self, use: str, purpose: str) -> tuple[bytes, ...]:
        import hmac

        label = f"{use}\0{purpose}\0{self.name}".encode("utf-8", "surrogatepass")
        return tuple(hmac.digest(secret, label, "sha256") for secret in self._secrets)

    def __repr__(self) -> str:
        """Return the name of the server, never the secret."""
        return f"Keys({self.name!r})"


def aes_gcm() -> type[AESGCM]:
    """Import and return the cipher.

    Raises:
        ImportError: The package cryptography is not installed. The message contains the command that installs it.
    """
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        from .._utils.package import missing_package

        raise ImportError(missing_package("encryption", "cryptography", "crypto"), name=error.name) from error
    return AESGCM


def check_environment() -> None:
    """Check the secret in the environment, if it is set.

    Raises:
        ValueError: It is too short.
    """
    variable = os.environ.get(SECRET_VARIABLE)
    if variable is not None:
        _checked_secret(variable, SECRET_VARIABLE)


def _checked_secret(secret: object, source: str) -> bytes:
    if not isinstance(secret, str | bytes):
        raise TypeError(f"{source} must be str or bytes, or a list of them, got {type(secret).__name__}")
    # A lone surrogate cannot be encoded, and the error would show the secret.
    key = secret.encode("utf-8", "surrogatepass") if isinstance(secret, str) else secret
    if len(key) < _MIN_SECRET:
        raise ValueError(f"{source} must have at least {_MIN_SECRET} bytes, got {len(key)}; {SECRET_HELP}")
    return key


def _digest(keyed: hmac.HMAC, data: bytes) -> bytes:
    copy = keyed.copy()  # the key has been hashed once; this takes half the time of hashing it again
    copy.update(data)
    return copy.digest()


# Encrypted records

_PURPOSE = "sealed record"
_FORMAT = 1  # of the records that this version writes
_HEAD = struct.Struct(">B8sd")  # format, id of the key, expiry in Unix seconds
_RECORDS_AT_START = 1000  # so many are checked when a process starts
_LOG_INTERVAL = 60.0  # seconds in which processes that start together log unreadable records only once
_REMEDY = "Add the secret that was used to write it, Server(secret_key=[new, old]), or wait until the record expires"


class UnreadableRecordError(Exception):
    """A record cannot be decrypted with any of the secrets."""


class NewerRecordError(UnreadableRecordError):
    """A record was written by a later version of mcpkit, and stays unchanged."""


class EncryptedRecords:
    """JSON records in a store, encrypted and bound to their keys. A copy under another key cannot be decrypted.

    A record contains the id of its encryption key. A record with an older key or format is written again with the
    newest one when it is read, unless another caller changes it at that moment.

    Args:
        store: Store of the records.
        keys: Keys for the encryption.
        prefix: Prefix of these records within the server, such as `"clients"`.
        is_encrypted: False for records in a store that ends with the process, which need no encryption.
    """

    def __init__(self, store: Store, keys: Keys, prefix: str, *, is_encrypted: bool = True) -> None:
        self._store = store
        self._keys = keys
        self._is_encrypted = is_encrypted
        self._prefix = f"{keys.name}/sealed/{prefix}/"
        self._key_id = keys.ids(_PURPOSE)[0]

    async def get(self, key: str) -> tuple[Json, str] | None:
        """Return a record with its version; None if there is none.

        Raises:
            UnreadableRecordError: None of the secrets decrypts it.
            NewerRecordError: It was written by a later version of mcpkit.
            OSError: The store does not answer.
        """
        store_key = self._prefix + key
        while (stored := await self._store.get(store_key)) is not None:
            data, expires = self._decrypt(store_key, stored.value)
            value: Json = from_json(data, cache_strings="none")
            left = expires - time.time()
            if left <= 0 or stored.value[: _HEAD.size] == _HEAD.pack(_FORMAT, self._key_id, expires):
                return value, stored.version
            version: str | None = stored.version
            with suppress(OSError):  # a later read will write it again
                encrypted = self._encrypt(store_key, data, expires)
                version = await self._store.put(store_key, encrypted, version=stored.version, ttl=left)
            if version is not None:
                return value, version
        return None

    async def put(self, key: str, value: Json, *, version: str | None, ttl: float) -> str | None:
        """Set a record, unless another caller has changed it since it was read; see `Store.put`.

        Returns:
            The new version; None if nothing was written.

        Raises:
            OSError: The store does not answer.
            PydanticSerializationError: The value is not JSON.
        """
        store_key = self._prefix + key
        encrypted = self._encrypt(store_key, to_json(value), time.time() + ttl)
        return await self._store.put(store_key, encrypted, version=version, ttl=ttl)

    async def delete(self, key: str, *, version: str) -> bool:
        """Remove a record, unless another caller has changed it since it was read; return True if it was removed.

        Raises:
            OSError: The store does not answer.
        """
        return await self._store.delete(self._prefix + key, version=version)

    async def items(self, prefix: str) -> AsyncIterator[Json]:
        """Iterate over the readable records with a prefix.

        Raises:
            OSError: The store does not answer.
        """
        async for store_key, stored in self._store.items(self._prefix + prefix):
            with suppress(UnreadableRecordError):
                yield from_json(self._decrypt(store_key, stored.value)[0], cache_strings="none")

    def _encrypt(self, store_key: str, data: bytes, expires: float) -> bytes:
        head = _HEAD.pack(_FORMAT, self._key_id, expires)
        if not self._is_encrypted:
            return head + data
        return head + self._keys.encrypt(_PURPOSE, data, head + store_key.encode("utf-8", "surrogatepass"))

    def _decrypt(self, store_key: str, value: bytes) -> tuple[bytes, float]:
        """Return the content and the expiry of a record."""
        if value[:1] > bytes([_FORMAT]):
            raise NewerRecordError(
                f"the record {store_key!r} was written by a later version of mcpkit (format {value[0]}; this "
                f"version supports up to {_FORMAT}). Update mcpkit"
            )
        head, encrypted = value[: _HEAD.size], value[_HEAD.size :]
        data: bytes | None = encrypted
        if self._is_encrypted:
            data = self._keys.decrypt(_PURPOSE, encrypted, head + store_key.encode("utf-8", "surrogatepass"))
        if data is None:
            raise UnreadableRecordError(
                f"the record {store_key!r} cannot be decrypted with the given secrets. {_REMEDY}"
            )
        expires: float = _HEAD.unpack(head)[2]
        return data, expires


async def log_unreadable_records(storage: Storage, keys: Keys) -> None:
    """Log the number of unreadable encrypted records among the first thousand of a server.

    Of several processes that start together, one logs it.

    Args:
        storage: Storage of the server.
        keys: Keys that should decrypt the records.
    """
    ids = keys.ids(_PURPOSE)
    checked = unreadable = newer = 0
    at_least = ""
    try:
        async for _, stored in storage.items(f"{keys.name}/sealed/"):
            if checked == _RECORDS_AT_START:
                at_least = "at least "
                break
            checked += 1
            if stored.value[:1] > bytes([_FORMAT]):
                newer += 1
            elif stored.value[1:9] not in ids:
                unreadable += 1
        if not (unreadable or newer) or not await storage.claim(f"{keys.name}/unreadable", _LOG_INTERVAL):
            return
    except OSError as error:
        logger.error(  # noqa: TRY400 - the traceback adds nothing
            "the shared store does not answer, so mcpkit could not check whether the secrets decrypt its records: %s",
            error,
        )
        return
    if unreadable:
        logger.warning(
            "cannot decrypt %s%d records of %r with the given secrets. %s",
            at_least,
            unreadable,
            storage,
            _REMEDY,
        )
    if newer:
        logger.warning(
            "skipped %s%d records of %r that were written by a later version of mcpkit. Update mcpkit",
            at_least,
            newer,
            storage,
        )
