"""The clients that an authorization server knows: by registration, by a document of theirs, or by hand."""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from .client import Client
from .client_documents import ClientDocuments
from .registration import Registration


class Clients:
    """Finds clients by their ids.

    Args:
        registration: Knows those that have registered themselves.
        documents: Knows those whose id is the URL of a document; None where none of them is known.
        by_hand: Those that somebody has written down.

    Attributes:
        may_ask_for_themselves: Whether any of those by hand may do so, without a user.
        may_have_documents: Whether a URL may be an id.
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
            client_id: Its id.
            caller: Who wants to know, as `caller_of` has it.

        Raises:
            OAuthError: There is none of that id.
        """
        found = self._by_hand.get(client_id)
        if found is not None:
            return found
        if self._documents is not None and client_id.startswith(("https:", "http:")):
            return await self._documents.find(client_id, caller)
        return self._registration.find(client_id)

    def has_secret(self, client: Client, secret: str) -> bool:
        """Say whether this is the secret of a client, in a time that tells nothing of it."""
        if client.secret is not None:
            return hmac.compare_digest(client.secret.encode(), secret.encode())
        return self._registration.has_secret(client, secret)

    async def aclose(self) -> None:
        """Stop looking clients up in the running event loop."""
        if self._documents is not None:
            await self._documents.aclose()
