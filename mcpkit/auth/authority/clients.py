"""Clients of an authorization server: registered, with a metadata document, or preregistered."""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from .client import Client
from .client_documents import ClientDocuments
from .registration import Registration


class Clients:
    """Finds clients by ID.

    Args:
        registration: Clients that registered themselves.
        documents: Clients with a metadata document; None if these are not allowed.
        by_hand: Preregistered clients.

    Attributes:
        may_ask_for_themselves: Whether a preregistered client may use the client credentials grant.
        may_have_documents: Whether a URL can be a client ID.
    """

    def __init__(
        self, registration: Registration, documents: ClientDocuments | None, by_hand: Iterable[Client] = ()
    ) -> None:
        self._registration = registration
        self._documents = documents
        self.may_have_documents = documents is not None
        self._by_hand = {client.id: client for client in by_hand}
        self.may_ask_for_themselves = any(client.scopes is not None for client in self._by_hand.values())

    async def find(self, client_id: str, caller: str | None = None) -> Client:
        """Return a client.

        Args:
            client_id: The client ID.
            caller: Address of the sender; see `caller_of`.

        Raises:
            OAuthError: The client is unknown.
        """
        found = self._by_hand.get(client_id)
        if found is not None:
            return found
        if self._documents is not None and client_id.startswith(("https:", "http:")):
            return await self._documents.find(client_id, caller)
        return self._registration.find(client_id)

    def has_secret(self, client: Client, secret: str) -> bool:
        """Return True if a secret is that of a client, in constant time."""
        if client.secret is not None:
            return hmac.compare_digest(client.secret.encode(), secret.encode())
        return self._registration.has_secret(client, secret)

    async def aclose(self) -> None:
        """Cancel lookups of the running event loop."""
        if self._documents is not None:
            await self._documents.aclose()
