"""Where tokens and registrations are kept, and the simplest place: this process."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from threading import Lock
from typing import Final

from ...protocol.types import Json
from .tokens import Registration, Tokens, is_newer

_logger = logging.getLogger("mcpkit.client")
_AGAIN: Final = 0.02
"""Seconds after which a lock is tried again that another event loop may hold."""


class TokenStorageError(OSError):
    """Where tokens are kept cannot be used; the message says why, and what to do. It holds no token."""


class TokenStorage(ABC):
    """Where a client keeps tokens and registrations.

    A place of one's own has to keep records by name: `load`, `save`, `remove`, and `lock` as far as it can.
    """

    @abstractmethod
    async def load(self, name: str) -> Json | None:
        """Return the record of a name; None where there is none.

        Raises:
            TokenStorageError: It cannot be read.
        """

    @abstractmethod
    async def save(self, name: str, record: Json) -> None:
        """Keep a record, whole or not at all, in the place of the one of that name.

        Args:
            name: Its name, which is no secret: it holds the URL of a server.
            record: What is kept, as values of JSON. It holds secrets.

        Raises:
            TokenStorageError: It cannot be kept.
        """

    @abstractmethod
    async def remove(self, name: str) -> None:
        """Keep the record of a name no longer; where there is none it does nothing.

        Raises:
            TokenStorageError: It cannot be removed.
        """

    @abstractmethod
    def lock(self, name: str) -> AbstractAsyncContextManager[None]:
        """Return what keeps all others from the record of a name meanwhile who ask for the same.

        Whoever renews tokens does it within, and looks first whether another has done so already.
        """

    # What is kept

    async def get_tokens(self, resource: str, client: str = "") -> Tokens | None:
        """Return the tokens for a server; None where there are none that can be read.

        Args:
            resource: The server: its resource identifier.
            client: What tells clients apart that do not share tokens, such as the id of a registered one.
        """
        found = Tokens.read(await self.load(_tokens_name(resource, client)))
        return found if found is not None and found.resource == resource else None

    async def set_tokens(self, tokens: Tokens, client: str = "") -> None:
        """Keep tokens in the place of those for the same server."""
        await self._keep(_tokens_name(tokens.resource, client), tokens.record())

    async def delete_tokens(self, resource: str, client: str = "") -> None:
        """Keep the tokens for a server no longer."""
        await self._forget(_tokens_name(resource, client))

    async def get_registration(self, issuer: str, client: str = "") -> Registration | None:
        """Return what an authorization server knows the client by; None where there is nothing that can be read.

        Args:
            issuer: The authorization server.
            client: What tells clients apart that do not share a registration, such as their redirect URI.
        """
        found = Registration.read(await self.load(_registration_name(issuer, client)))
        return found if found is not None and found.issuer == issuer else None

    async def set_registration(self, registration: Registration, client: str = "") -> None:
        """Keep a registration in the place of the one at the same authorization server."""
        await self._keep(_registration_name(registration.issuer, client), registration.record())

    async def delete_registration(self, issuer: str, client: str = "") -> None:
        """Keep the registration at an authorization server no longer."""
        await self._forget(_registration_name(issuer, client))

    def refresh_lock(self, resource: str, client: str = "") -> AbstractAsyncContextManager[None]:
        """Return what lets one at a time renew the tokens for a server.

        async with storage.refresh_lock(resource):
            tokens = await storage.get_tokens(resource)     # perhaps another has renewed them
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
            " memory",
            name,
        )
        return True


class MemoryTokens(TokenStorage):
    """Keeps tokens in this process, where they end with it."""

    def __init__(self) -> None:
        self._records: dict[str, Json] = {}
        self._locks: dict[str, Lock] = {}

    async def load(self, name: str) -> Json | None:
        """Return the record of a name."""
        return self._records.get(name)

    async def save(self, name: str, record: Json) -> None:
        """Keep a record."""
        self._records[name] = record

    async def remove(self, name: str) -> None:
        """Keep the record of a name no longer."""
        self._records.pop(name, None)

    @asynccontextmanager
    async def lock(self, name: str) -> AsyncGenerator[None]:
        """Keep all others of this process from a record, whichever event loop they run in."""
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
