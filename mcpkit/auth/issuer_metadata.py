"""An issuer's metadata: fetched from the first place that has it, and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..state.meter import fetching
from .discovery import AuthorizationServerMetadata, authorization_server_urls
from .fetching import FetchError, fetch_document
from .urls import MetadataError

if TYPE_CHECKING:
    import httpx2

_BELIEVED = 86_400.0  # seconds, after which somebody may have moved


class IssuerMetadata:
    """What an issuer says of itself (RFC 8414, OpenID Connect Discovery 1.0).

    Args:
        issuer: The issuer.
        timeout: Seconds in which each document must have come.
        http_client: A client of the author's.
        clock: The time in Unix seconds.

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
    ) -> None:
        self._urls = authorization_server_urls(issuer)
        self._issuer = issuer
        self._timeout = timeout
        self._http_client = http_client
        self._clock = clock
        self._kept: tuple[AuthorizationServerMetadata, float] | None = None
        self.places = len(self._urls)

    async def endpoint(self, name: str) -> str:
        """Return the URL of an endpoint, such as `introspection_endpoint`, or `jwks_uri`.

        Raises:
            FetchError: There is no metadata.
            MetadataError: It is of somebody else, or has no such URL.
        """
        if self._kept is None or self._clock() >= self._kept[1]:
            with fetching("metadata"):
                self._kept = (await self._fetched(), self._clock() + _BELIEVED)
        return self._kept[0].endpoint(name)

    def forget(self) -> None:
        """Have it fetched again when somebody asks next."""
        self._kept = None

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
