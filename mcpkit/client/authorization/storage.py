"""Storage of tokens and registrations, and the storage in memory."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from threading import Lock
from typing import Final

from ...protocol.jsonrpc import Json
from .tokens import Registration, Tokens, is_newer

_logger = logging.getLogger("mcpkit.client")
_AGAIN: Final = 0.02
"""Seconds between two attempts to get a lock that another event loop may hold."""


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

    # What is kept

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
        await self._keep(_tokens_name(tokens.resource, client), tokens.record())

    async def delete_tokens(self, resource: str, client: str = "") -> None:
        """Delete the tokens for a server.

        Args:
            resource: The resource identifier of the server.
            client: The key that separates clients with tokens of their own, such as a `client_id`.

        Raises:
            TokenStorageError: The tokens cannot be deleted.
        """
        await self._forget(_tokens_name(resource, client))

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
        await self._keep(_registration_name(registration.issuer, client), registration.record())

    async def delete_registration(self, issuer: str, client: str = "") -> None:
        """Delete the registration at an authorization server.

        Args:
            issuer: The authorization server.
            client: The key that separates clients with registrations of their own.

        Raises:
            TokenStorageError: The registration cannot be deleted.
        """
        await self._forget(_registration_name(issuer, client))

    def refresh_lock(self, resource: str, client: str = "") -> AbstractAsyncContextManager[None]:
        """Return a context manager under which one process and task at a time refreshes the tokens for a server.

            async with storage.refresh_lock(resource):
                tokens = await storage.get_tokens(resource)  # another process may have refreshed them

        Args:
            resource: The resource identifier of the server.
            client: The key that separates clients with tokens of their own, such as a `client_id`.
        """
        return self.lock(_tokens_name(resource, client))

    async def _keep(self, name: str, record: Json) -> None:
        if not await self._is_of_another_version(name):
            await self.save(name, record)

    async def _forget(self, name: str) -> None:
        if not await self._is_of_another_version(name):
            await self.remove(name)

    async def _is_of_another_version(self, name: str) -> bool:
        if not is_newer(await self.load(name)):
            return False
        _logger.warning(
            "a later version of mcpkit has stored %r. This version leaves it unchanged and keeps its own value in"
            " memory. Update mcpkit to use it",
            name,
        )
        return True


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
        while not lock.acquire(blocking=False):  # noqa: ASYNC110  # no event is of several loops
            await asyncio.sleep(_AGAIN)
        try:
            yield
        finally:
            lock.release()


def _tokens_name(resource: str, client: str) -> str:
    return f"tokens {resource} {client}".rstrip()


def _registration_name(issuer: str, client: str) -> str:
    return f"registration {issuer} {client}".rstrip()
