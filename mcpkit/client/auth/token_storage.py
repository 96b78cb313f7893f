"""Tokens and client registrations, the base class of their storages, and the storage in memory."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, field
from threading import Lock
from typing import Final

from typing_extensions import Self

from ...protocol.jsonrpc import Json, is_array, is_object

VERSION: Final = 1
"""The version of new records. Records of the version before are read, and later ones are left unchanged."""

_MAX_TIME: Final = 1e12
"""The largest time in seconds since the epoch, thirty thousand years away."""
_POLL_INTERVAL: Final = 0.02
"""Seconds between two attempts to get a lock that another event loop may hold."""

logger = logging.getLogger("mcpkit.client")


# Records


@dataclass(frozen=True)
class Tokens:
    """Tokens for one server, issued by one authorization server to one client. Their `repr` contains no token.

    Attributes:
        resource: The resource identifier of the server.
        issuer: The authorization server.
        client_id: The client id.
        access_token: The access token.
        refresh_token: The refresh token; None if there is none.
        token_type: `Bearer` or `DPoP`.
        expires: The expiry of the access token in seconds since the epoch; None if unknown.
        scopes: The granted scopes.
        proof_key: The private key, as a JWK, that the tokens are bound to; None for bearer tokens (RFC 9449).
    """

    resource: str
    issuer: str
    client_id: str
    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    token_type: str = "Bearer"
    expires: float | None = None
    scopes: frozenset[str] = frozenset()
    proof_key: Json | None = field(default=None, repr=False)

    def record(self) -> Json:
        """Return the record of the tokens."""
        return {"version": VERSION, **asdict(self), "scopes": sorted(self.scopes)}

    @classmethod
    def read(cls, record: object) -> Self | None:
        """Return the tokens of a record; None if it is not a token record, or of an unknown version."""
        members = _read_record(
            record,
            {
                **dict.fromkeys(("resource", "issuer", "client_id", "access_token", "token_type"), _is_text),
                "refresh_token": _is_text_or_none,
                "expires": _is_time_or_none,
                "scopes": _is_text_list,
                "proof_key": lambda value: value is None or is_object(value),
            },
        )
        if members is None:
            return None
        return cls(scopes=frozenset(members.pop("scopes")), **members)


@dataclass(frozen=True)
class Registration:
    """The registration of a client at an authorization server. Its `repr` contains no secret.

    Attributes:
        issuer: The authorization server.
        client_id: The client id, valid at this authorization server only.
        secret: The client secret; None if there is none.
        method: The `token_endpoint_auth_method`, such as `none` or `client_secret_basic`.
        redirect_uris: The redirect URIs.
        expires: The expiry of the secret in seconds since the epoch; None for never.
    """

    issuer: str
    client_id: str
    secret: str | None = field(default=None, repr=False)
    method: str = "none"
    redirect_uris: tuple[str, ...] = ()
    expires: float | None = None

    def record(self) -> Json:
        """Return the record of the registration."""
        return {"version": VERSION, **asdict(self), "redirect_uris": list(self.redirect_uris)}

    @classmethod
    def read(cls, record: object) -> Self | None:
        """Return the registration of a record; None if it is not one, or of an unknown version."""
        members = _read_record(
            record,
            {
                **dict.fromkeys(("issuer", "client_id", "method"), _is_text),
                "secret": _is_text_or_none,
                "expires": _is_time_or_none,
                "redirect_uris": _is_text_list,
            },
        )
        if members is None:
            return None
        return cls(redirect_uris=tuple(members.pop("redirect_uris")), **members)


def _read_record(record: object, checks: dict[str, Callable[[object], bool]]) -> Json | None:
    """Return the members of a record; None if it is of an unknown version, or a member is not valid.

    Args:
        record: The record.
        checks: The check of each member, by its name.
    """
    version = record.get("version") if is_object(record) else None
    if not is_object(record) or type(version) is not int or not VERSION - 1 <= version <= VERSION:
        return None
    members = {name: record.get(name) for name in checks}
    return members if all(check(members[name]) for name, check in checks.items()) else None


def _is_text(value: object) -> bool:
    return type(value) is str and bool(value)


def _is_text_or_none(value: object) -> bool:
    return value is None or _is_text(value)


def _is_text_list(value: object) -> bool:
    return is_array(value) and all(type(each) is str for each in value)


def _is_time_or_none(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MAX_TIME


# Storages


class TokenStorage(ABC):
    """Base class of storages of tokens and client registrations.

    Subclasses store records by name: they implement `load`, `save`, `remove` and `lock`.
    """

    @abstractmethod
    async def load(self, name: str) -> Json | None:
        """Return a record.

        Args:
            name: The name of the record.

        Returns:
            The record; None if there is none.

        Raises:
            TokenStorageError: The record cannot be read.
        """

    @abstractmethod
    async def save(self, name: str, record: Json) -> None:
        """Store a record atomically, in place of an earlier one of that name.

        Args:
            name: The name of the record. It contains the URL of a server and no secret.
            record: The record as JSON values. It contains secrets.

        Raises:
            TokenStorageError: The record cannot be stored.
        """

    @abstractmethod
    async def remove(self, name: str) -> None:
        """Remove a record. A missing record is ignored.

        Args:
            name: The name of the record.

        Raises:
            TokenStorageError: The record cannot be removed.
        """

    @abstractmethod
    def lock(self, name: str) -> AbstractAsyncContextManager[None]:
        """Return a context manager that locks a record for one process and task at a time.

        The holder of the lock refreshes tokens, after checking whether another process has already done so.

        Args:
            name: The name of the record.
        """

    async def get_tokens(self, resource: str, client: str = "") -> Tokens | None:
        """Return the tokens for a server.

        Args:
            resource: The resource identifier of the server.
            client: The key that separates clients with tokens of their own, such as a `client_id`.

        Returns:
            The tokens; None if there are none, or their record cannot be read.

        Raises:
            TokenStorageError: The storage cannot be read.
        """
        found = Tokens.read(await self.load(_tokens_name(resource, client)))
        return found if found is not None and found.resource == resource else None

    async def set_tokens(self, tokens: Tokens, client: str = "") -> None:
        """Store tokens in place of those for the same server.

        Args:
            tokens: The tokens.
            client: The key that separates clients with tokens of their own, such as a `client_id`.

        Raises:
            TokenStorageError: The tokens cannot be stored.
        """
        await self._replace(_tokens_name(tokens.resource, client), tokens.record())

    async def delete_tokens(self, resource: str, client: str = "") -> None:
        """Delete the tokens for a server.

        Args:
            resource: The resource identifier of the server.
            client: The key that separates clients with tokens of their own, such as a `client_id`.

        Raises:
            TokenStorageError: The tokens cannot be deleted.
        """
        await self._replace(_tokens_name(resource, client), None)

    async def get_registration(self, issuer: str, client: str = "") -> Registration | None:
        """Return the client registration at an authorization server.

        Args:
            issuer: The authorization server.
            client: The key that separates clients with registrations of their own, such as a redirect URI.

        Returns:
            The registration; None if there is none, or its record cannot be read.

        Raises:
            TokenStorageError: The storage cannot be read.
        """
        found = Registration.read(await self.load(_registration_name(issuer, client)))
        return found if found is not None and found.issuer == issuer else None

    async def set_registration(self, registration: Registration, client: str = "") -> None:
        """Store a registration in place of the one at the same authorization server.

        Args:
            registration: The registration.
            client: The key that separates clients with registrations of their own.

        Raises:
            TokenStorageError: The registration cannot be stored.
        """
        await self._replace(_registration_name(registration.issuer, client), registration.record())

    async def delete_registration(self, issuer: str, client: str = "") -> None:
        """Delete the registration at an authorization server.

        Args:
            issuer: The authorization server.
            client: The key that separates clients with registrations of their own.

        Raises:
            TokenStorageError: The registration cannot be deleted.
        """
        await self._replace(_registration_name(issuer, client), None)

    def refresh_lock(self, resource: str, client: str = "") -> AbstractAsyncContextManager[None]:
        """Return a context manager under which one process and task at a time refreshes the tokens for a server.

            async with storage.refresh_lock(resource):
                tokens = await storage.get_tokens(resource)  # another process may have refreshed them

        Args:
            resource: The resource identifier of the server.
            client: The key that separates clients with tokens of their own, such as a `client_id`.
        """
        return self.lock(_tokens_name(resource, client))

    async def _replace(self, name: str, record: Json | None) -> None:
        """Store or remove a record, unless a later version of mcpkit wrote it."""
        stored = await self.load(name)
        version = None if stored is None else stored.get("version")
        if type(version) is int and version > VERSION:
            logger.warning(
                "a later version of mcpkit has stored %r. This version leaves it unchanged and keeps its own value in"
                " memory. Update mcpkit to use it",
                name,
            )
        elif record is None:
            await self.remove(name)
        else:
            await self.save(name, record)


def _tokens_name(resource: str, client: str) -> str:
    return f"tokens {resource} {client}".rstrip()


def _registration_name(issuer: str, client: str) -> str:
    return f"registration {issuer} {client}".rstrip()


class MemoryTokens(TokenStorage):
    """Stores tokens in the memory of this process."""

    def __init__(self) -> None:
        self._records: dict[str, Json] = {}
        self._locks: dict[str, Lock] = {}

    async def load(self, name: str) -> Json | None:
        """Return a record; None if there is none.

        Args:
            name: The name of the record.
        """
        return self._records.get(name)

    async def save(self, name: str, record: Json) -> None:
        """Store a record.

        Args:
            name: The name of the record.
            record: The record.
        """
        self._records[name] = record

    async def remove(self, name: str) -> None:
        """Remove a record. A missing record is ignored.

        Args:
            name: The name of the record.
        """
        self._records.pop(name, None)

    @asynccontextmanager
    async def lock(self, name: str) -> AsyncGenerator[None]:
        """Lock a record for all event loops of this process.

        Args:
            name: The name of the record.
        """
        lock = self._locks.setdefault(name, Lock())
        while not lock.acquire(blocking=False):  # noqa: ASYNC110  # no asyncio event spans several event loops
            await asyncio.sleep(_POLL_INTERVAL)
        try:
            yield
        finally:
            lock.release()
