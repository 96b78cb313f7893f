"""Metadata of an issuer, fetched from the first URL that has it, and cached."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..identity.audit import fetching
from .discovery import AuthorizationServerMetadata, authorization_server_urls
from .fetching import FetchError, fetch_document
from .one_at_a_time import OneAtATime
from .urls import MetadataError

if TYPE_CHECKING:
    import httpx2

RETRY = 5.0
"""Seconds before a failed fetch is repeated."""
_BELIEVED = 86_400.0  # seconds, after which somebody may have moved


class IssuerMetadata:
    """Metadata of an issuer (RFC 8414, OpenID Connect Discovery 1.0). It can be used in any thread and event loop.

    Concurrent callers share one fetch. After a failed fetch there is a pause. Cached metadata stays in use if the
    issuer does not respond to a renewal.

    Args:
        issuer: The issuer.
        timeout: Seconds in which each document must be received.
        http_client: Client to use; None makes one.
        clock: Returns the Unix time in seconds.
        is_openid: Try the OpenID Connect URL first, because some issuers have two documents.
        accepts_http: Allow plain http; see `check_url`.

    Attributes:
        places: Number of possible URLs.

    Raises:
        MetadataError: The issuer is not an allowed URL.
    """

    def __init__(
        self,
        issuer: str,
        *,
        timeout: float,
        http_client: httpx2.AsyncClient | None,
        clock: Callable[[], float],
        is_openid: bool = False,
        accepts_http: bool | None = None,
    ) -> None:
        urls = authorization_server_urls(issuer, accepts_http=accepts_http)
        self._urls = urls[::-1] if is_openid else urls
        self._issuer = issuer
        self._timeout = timeout
        self._http_client = http_client
        self._accepts_http = accepts_http
        self._clock = clock
        self._fetches: OneAtATime[AuthorizationServerMetadata] = OneAtATime(timeout * (len(urls) + 1))
        self._kept: AuthorizationServerMetadata | None = None
        self._believed_until = -math.inf
        self._failure: FetchError | MetadataError | None = None
        self._next_fetch = -math.inf
        self._unread: Sequence[str] = ()  # where it may be besides the place in which it was found
        self._next_completion = -math.inf
        self.places = len(urls)

    async def read(self, *needed: str) -> AuthorizationServerMetadata:
        """Return the metadata, completed by the other documents of the issuer if a needed member is missing.

        Args:
            needed: Needed members, such as `token_endpoint`. Their presence is not checked.

        Raises:
            FetchError: No metadata can be fetched.
            MetadataError: The metadata has another issuer, or is malformed.
        """
        metadata = await self._first()
        if all(map(metadata.has, needed)) or not self._unread or self._clock() < self._next_completion:
            return metadata
        return await self._fetches.wait("rest", self._completed)

    async def _first(self) -> AuthorizationServerMetadata:
        kept = self._kept
        now = self._clock()
        if kept is not None and (now < self._believed_until or now < self._next_fetch):
            return kept
        if now < self._next_fetch and self._failure is not None and self._fetches.doing(None) is None:
            raise _again(self._failure)
        try:
            return await self._fetches.wait(None, self._renewed)
        except FetchError as error:
            if kept is None or not error.may_pass:
                raise
            return kept

    async def endpoint(self, name: str) -> str:
        """Return the URL of an endpoint, such as `introspection_endpoint` or `jwks_uri`.

        Raises:
            FetchError: No metadata can be fetched.
            MetadataError: The metadata has another issuer, or no such URL.
        """
        return (await self.read(name)).endpoint(name)

    def forget(self) -> None:
        """Mark the cached metadata as stale, so that the next call fetches it again."""
        self._believed_until = -math.inf

    async def aclose(self) -> None:
        """Cancel fetches of the running event loop."""
        await self._fetches.aclose()

    async def _renewed(self) -> AuthorizationServerMetadata:
        self._next_fetch = self._clock() + RETRY
        try:
            with fetching("metadata"):
                self._kept, self._unread = await self._fetched()
        except (FetchError, MetadataError) as error:
            self._failure = error
            raise
        self._believed_until = self._clock() + _BELIEVED
        self._next_completion = -math.inf
        return self._kept

    async def _completed(self) -> AuthorizationServerMetadata:
        """Return the cached metadata completed by the documents at the other URLs. A missing document is ignored."""
        first = metadata = self._kept
        assert metadata is not None
        left: list[str] = []
        for url in self._unread:
            try:
                with fetching("metadata"):
                    metadata = metadata.completed(await self._read_from(url))
            except FetchError as error:
                if error.may_pass:
                    left.append(url)
            except MetadataError:
                pass  # it is of another issuer, or no metadata
        if self._kept is first:  # else it has been fetched anew meanwhile
            self._next_completion = self._clock() + RETRY
            self._kept, self._unread = metadata, left
        return metadata

    async def _read_from(self, url: str) -> AuthorizationServerMetadata:
        document = await fetch_document(
            url,
            f"the metadata of {self._issuer}",
            http_client=self._http_client,
            patience=self._timeout,
            accepts_http=self._accepts_http,
        )
        return AuthorizationServerMetadata.read(
            document.members, self._issuer, accepts_http=self._accepts_http
        )

    async def _fetched(self) -> tuple[AuthorizationServerMetadata, Sequence[str]]:
        """Return the metadata from the first URL that has it, and the URLs that were not tried."""
        failures: list[FetchError | MetadataError] = []
        for place, url in enumerate(self._urls, 1):
            try:
                return await self._read_from(url), self._urls[place:]
            except FetchError as error:
                if error.is_unreachable:
                    raise
                failures.append(error)
            except MetadataError as error:
                failures.append(error)
        # Whoever is somebody else, or is broken for now, says more than whoever has nothing there.
        raise min(failures, key=lambda each: isinstance(each, FetchError) and not each.may_pass)


def _again(error: FetchError | MetadataError) -> FetchError | MetadataError:
    """Return a copy of an error, because raising one object repeatedly extends its traceback."""
    if isinstance(error, FetchError):
        return FetchError(
            str(error),
            status=error.status,
            may_pass=error.may_pass,
            is_unreachable=error.is_unreachable,
        )
    return MetadataError(str(error))
