"""An issuer's metadata: fetched from the first place that has it, and kept."""

from __future__ import annotations

import math
from collections.abc import Callable
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
    ) -> None:
        urls = authorization_server_urls(issuer)
        self._urls = urls[::-1] if is_openid else urls
        self._issuer = issuer
        self._timeout = timeout
        self._http_client = http_client
        self._clock = clock
        self._fetches: OneAtATime[AuthorizationServerMetadata] = OneAtATime(timeout * (len(urls) + 1))
        self._kept: AuthorizationServerMetadata | None = None
        self._believed_until = -math.inf
        self._failure: FetchError | MetadataError | None = None
        self._next_fetch = -math.inf
        self.places = len(urls)

    async def read(self) -> AuthorizationServerMetadata:
        """Return all of it.

        Raises:
            FetchError: There is none.
            MetadataError: It is of somebody else.
        """
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
        return (await self.read()).endpoint(name)

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
                self._kept = await self._fetched()
        except (FetchError, MetadataError) as error:
            self._failure = error
            raise
        self._believed_until = self._clock() + _BELIEVED
        return self._kept

    async def _fetched(self) -> AuthorizationServerMetadata:
        what = f"the metadata of {self._issuer}"
        failures: list[FetchError | MetadataError] = []
        for url in self._urls:
            try:
                document = await fetch_document(
                    url, what, http_client=self._http_client, patience=self._timeout
                )
                return AuthorizationServerMetadata.read(document.members, self._issuer)
            except FetchError as error:
                if error.status is None and error.may_pass:
                    raise  # nobody is there, at none of these
                failures.append(error)
            except MetadataError as error:
                failures.append(error)
        # Whoever is somebody else, or is broken for now, says more than whoever has nothing there.
        raise min(failures, key=lambda each: isinstance(each, FetchError) and not each.may_pass)


def _again(error: FetchError | MetadataError) -> FetchError | MetadataError:
    """Return an error to raise once more, which would grow by each time that it is raised itself."""
    if isinstance(error, FetchError):
        return FetchError(str(error), status=error.status, may_pass=error.may_pass)
    return MetadataError(str(error))
