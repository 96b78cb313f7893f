"""An issuer's metadata: fetched from the first place that has it, and kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..state.meter import fetching
from .discovery import AuthorizationServerMetadata, authorization_server_urls
from .fetching import FetchError, fetch_document
from .one_at_a_time import OneAtATime
from .urls import MetadataError

if TYPE_CHECKING:
    import httpx2

RETRY = 5.0
"""Seconds after which an issuer that has not answered is asked again."""
_BELIEVED = 86_400.0  # seconds, after which somebody may have moved


class IssuerMetadata:
    """What an issuer says of itself (RFC 8414, OpenID Connect Discovery 1.0). Safe in any thread and event loop.

    It is fetched once for all who ask while it is being fetched; an issuer that does not say it is left alone for a
    moment. What has been fetched before holds where the issuer does not answer when it should be renewed.

    Args:
        issuer: The issuer.
        timeout: Seconds in which each document must have come.
        http_client: A client of the author's.
        clock: The time in Unix seconds.
        is_openid: Whether it is looked for first where OpenID Connect has it, as some issuers have two documents.
        accepts_http: As `check_url` has it.

    Attributes:
        places: How many places it may be in.

    Raises:
        MetadataError: The issuer is no URL that may be asked.
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
        """Return it; where one document lacks a member, with those of the issuer's other documents.

        Args:
            needed: Members that are needed, such as `token_endpoint`; whether they are there is not checked.

        Raises:
            FetchError: There is none.
            MetadataError: It is of somebody else.
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
        """Return the URL of an endpoint, such as `introspection_endpoint`, or `jwks_uri`.

        Raises:
            FetchError: There is no metadata.
            MetadataError: It is of somebody else, or has no such URL.
        """
        return (await self.read(name)).endpoint(name)

    def forget(self) -> None:
        """Have it fetched again when somebody asks in a moment."""
        self._believed_until = -math.inf

    async def aclose(self) -> None:
        """End what is being fetched in the running event loop."""
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
        """Return what is kept, with what the documents in the other places have more; a missing one does no harm."""
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
        """Return the metadata in the first place that has it, and the places that have not been looked at."""
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
    """Return an error to raise once more, which would grow by each time that it is raised itself."""
    if isinstance(error, FetchError):
        return FetchError(
            str(error),
            status=error.status,
            may_pass=error.may_pass,
            is_unreachable=error.is_unreachable,
        )
    return MetadataError(str(error))
