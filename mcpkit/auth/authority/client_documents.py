"""Client ID metadata documents: clients with a URL as ID, which serves a document that describes them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..fetching import FetchError, fetch_document
from ..one_at_a_time import AbandonedError, OneAtATime
from ..urls import MetadataError, split_url
from .client import Client
from .errors import OAuthError
from .redirects import MAX_LENGTH
from .registration import client_name, grant_types_of, is_refreshing, redirect_uris_of, said_in

if TYPE_CHECKING:
    import httpx2

_TIMEOUT = 5.0
"""Seconds in which a document must be received, because a user waits for it."""
_UNSAID = 300.0
_LONGEST = 24 * 3600.0
"""Seconds for which a document without cache headers is kept, and the maximum (draft, section 4.2)."""
_MOST_KEPT = 256
_MOST_FETCHED = 16
_MOST_OF_ONE = 4
"""Maximum concurrent fetches, in total and for one address. Further requests must be retried."""
_ABANDONED = 60.0
"""Seconds after which a fetch counts as lost with its event loop."""
_SECRETS = ("client_secret", "client_secret_expires_at")


class ClientDocuments:
    """Finds clients by the URL of their document (draft-ietf-oauth-client-id-metadata-document-00).

    Documents are cached as their headers allow. Errors are not cached.

    Args:
        http_client: Creates the client for fetches. It must not reach hosts of internal networks.
        clock: Returns seconds from any start.
    """

    def __init__(
        self,
        http_client: Callable[[], httpx2.AsyncClient] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._http_client = http_client
        self._clock = clock
        self._kept: dict[str, tuple[Client, float]] = {}
        self._fetching: dict[str, str | None] = {}  # for whom, by URL
        self._fetches: OneAtATime[Client] = OneAtATime(_ABANDONED)

    async def find(self, client_id: str, caller: str | None = None) -> Client:
        """Return the client with the document at a URL. Concurrent callers share one fetch.

        Args:
            client_id: The URL.
            caller: Address of the sender. Fetches for one address are limited, so that slow hosts do not block others.

        Raises:
            OAuthError: The document is missing or not valid.
        """
        kept = self._kept.get(client_id)
        if kept is not None and self._clock() < kept[1]:
            return kept[0]
        check_client_url(client_id)
        fetch = self._fetches.doing(client_id)
        if fetch is None:
            fetched_for = list(self._fetching.values())
            has_room = caller is None or fetched_for.count(caller) < _MOST_OF_ONE
            if len(fetched_for) >= _MOST_FETCHED or not has_room:
                raise _later("too many client metadata documents are being fetched; try again later")
            self._fetching[client_id] = caller
            fetch = self._fetches.begin(client_id, lambda: self._looked_up(client_id))
            fetch.add_done_callback(lambda _: self._fetching.pop(client_id, None))
        try:
            return await self._fetches.outcome(client_id, fetch)
        except AbandonedError:
            raise _later(
                "the fetch of the client metadata document was interrupted; try again later"
            ) from None

    async def aclose(self) -> None:
        """Cancel fetches of the running event loop."""
        await self._fetches.aclose()

    async def _looked_up(self, client_id: str) -> Client:
        client, max_age = await self._fetched(client_id)
        self._keep(client, min(_UNSAID if max_age is None else max_age, _LONGEST))
        return client

    async def _fetched(self, url: str) -> tuple[Client, float | None]:
        from .public_internet import public_client

        http_client = (self._http_client or public_client)()
        try:
            async with http_client:
                document = await fetch_document(
                    url,
                    "the client metadata document",
                    http_client=http_client,
                    patience=_TIMEOUT,
                    is_typed=True,
                )
        except FetchError as error:
            if (
                error.may_pass
            ):  # whose client is refused believes that it is unknown, and forgets its users' tokens
                raise _later(str(error)) from None
            raise _refused(str(error)) from None
        except MetadataError as error:
            raise _refused(str(error)) from None
        return _client(url, document.members), document.max_age

    def _keep(self, client: Client, seconds: float) -> None:
        self._kept.pop(client.id, None)
        if seconds > 0:
            while len(self._kept) >= _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[client.id] = client, self._clock() + seconds


def check_client_url(client_id: str) -> None:
    """Check that a URL can be a client ID (draft, section 3).

    Raises:
        OAuthError: The URL is not allowed.
    """
    parts = split_url(client_id)
    if (
        parts is None
        or len(client_id) > MAX_LENGTH
        or not client_id.startswith("https://")
        or not parts.hostname
        or not parts.path
        or "@" in parts.netloc
        or any(each in client_id for each in ("#", "\\"))
        or {".", ".."} & set(parts.path.lower().replace("%2e", ".").split("/"))
    ):
        raise _refused(
            "a client_id that is a URL must begin with https:// and have a host and a path, "
            "without user, fragment or dot segments"
        )


def _client(url: str, members: Mapping[str, object]) -> Client:
    members = said_in(members)
    if members.get("client_id") != url:
        raise _refused("the client_id in the client metadata document is not the URL of the document")
    if not members.get("client_name"):
        raise _refused("the client metadata document has no client_name")
    if any(name in members for name in _SECRETS):
        raise _refused("the client metadata document contains a client secret, but the document is public")
    if members.get("token_endpoint_auth_method", "none") != "none":
        raise _refused("token_endpoint_auth_method in the client metadata document must be none")
    refreshes = is_refreshing(grant_types_of(members))
    return Client(url, client_name(members), redirect_uris_of(members), is_refreshing=refreshes)


def _refused(description: str) -> OAuthError:
    return OAuthError("invalid_client", description, status=401)


def _later(description: str) -> OAuthError:
    return OAuthError("temporarily_unavailable", description, status=503)
