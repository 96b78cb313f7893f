"""Published keys of an issuer: discovery, caching, and renewal before they expire."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ..identity.audit import fetching
from .fetching import FetchError, fetch_document
from .issuer_metadata import RETRY, IssuerMetadata
from .key_set import KeySet, read_keys
from .one_at_a_time import AbandonedError, OneAtATime
from .urls import MetadataError, check_url
from .verifier import VerifierUnavailableError

if TYPE_CHECKING:
    import httpx2

    from .jws import Jws

SHORTEST = 300.0
"""Minimum seconds for which keys are kept, regardless of their headers."""
LONGEST = 86_400.0
"""Maximum seconds for which keys are cached before they are renewed."""
STALE = 86_400.0
"""Seconds for which expired keys stay in use if the issuer does not respond."""

_USUAL = 3_600.0  # where headers say nothing
_AHEAD = 0.8  # of the time for which they may be kept they are renewed in the background

logger = logging.getLogger(__name__)


class _Kept(NamedTuple):
    keys: KeySet
    renew: float
    fresh_until: float
    usable_until: float


class PublishedKeys:
    """Published keys of one issuer. It can be used in any thread and event loop.

    Args:
        issuer: The issuer.
        jwks_uri: URL of the JWK Set; None takes it from the metadata (RFC 8414, OpenID Connect Discovery 1.0).
        cooldown: Minimum interval in seconds between fetches that tokens with an unknown key cause.
        timeout: Seconds in which each document must be received.
        http_client: Client to use; None makes one.
        clock: Returns the Unix time in seconds.
        metadata: Metadata of the issuer, to share it; None creates it.
        accepts_http: Allow plain http; see `check_url`.

    Raises:
        MetadataError: The issuer or the URL is not allowed.
    """

    def __init__(
        self,
        issuer: str,
        jwks_uri: str | None,
        *,
        cooldown: float,
        timeout: float,
        http_client: httpx2.AsyncClient | None,
        clock: Callable[[], float],
        metadata: IssuerMetadata | None = None,
        accepts_http: bool | None = None,
    ) -> None:
        self._metadata = metadata or IssuerMetadata(
            issuer, timeout=timeout, http_client=http_client, clock=clock, accepts_http=accepts_http
        )
        self._issuer = issuer
        self._given_uri = (
            None if jwks_uri is None else check_url(jwks_uri, "jwks_uri", accepts_http=accepts_http)
        )
        self._accepts_http = accepts_http
        self._cooldown = cooldown
        self._timeout = timeout
        self._http_client = http_client
        self._clock = clock
        self._lock = threading.Lock()
        self._fetches: OneAtATime[KeySet] = OneAtATime(timeout * (self._metadata.places + 2))
        self._kept: _Kept | None = None
        self._found: tuple[str, float] | None = (
            None  # what the metadata says, and until when that is believed
        )
        self._next_look = -math.inf
        self._failed_until = -math.inf
        self._failure: str | None = None

    async def has_signed(self, token: Jws) -> bool:
        """Return True if a key of the issuer verifies the signature of a token.

        Keys are fetched if the token has an unknown key ID, at most once per cooldown.

        Raises:
            VerifierUnavailableError: No keys are available.
        """
        keys = await self._current()
        if keys.has_signed(token):
            return True
        if token.key_id is not None and keys.knows(token):
            return False
        return await self._is_by_a_new_key(token)

    @property
    def is_fetching(self) -> bool:
        """Whether keys are being fetched."""
        return self._fetches.doing(None) is not None

    async def aclose(self) -> None:
        """Cancel fetches of the running event loop."""
        await self._fetches.aclose()
        await self._metadata.aclose()

    async def _current(self) -> KeySet:
        now = self._clock()
        kept = self._kept
        if kept is None or now >= kept.usable_until:
            return await self._fetched()
        if now < kept.renew or now < self._failed_until:
            return kept.keys
        if (
            now < kept.fresh_until or self._failure is not None
        ):  # whoever does not answer is not waited for again
            self._fetches.begin(None, self._fetch)
            return kept.keys
        try:
            return await self._fetched()
        except VerifierUnavailableError:
            return kept.keys

    async def _is_by_a_new_key(self, token: Jws) -> bool:
        while True:
            with self._lock:  # so that of two only one looks, and the other one sees that it does
                kept = self._kept
                if kept is not None and kept.keys.has_signed(token):
                    return True
                running = self._fetches.doing(None)
                is_look = running is None
                if running is None:
                    now = self._clock()
                    if now < self._next_look and self._failure is None:
                        return False
                    self._check_failure()
                    self._next_look = now + self._cooldown
                    running = self._fetches.begin(None, self._fetch)
            try:
                keys = await self._fetches.outcome(None, running)
            except AbandonedError:
                self._next_look = -math.inf  # nobody has looked
                continue
            if is_look or keys.has_signed(token):
                return keys.has_signed(token)

    async def _fetched(self) -> KeySet:
        """Fetch the keys, or join a running fetch.

        Raises:
            VerifierUnavailableError: The keys cannot be fetched, or a fetch has just failed.
        """
        if not self.is_fetching:
            self._check_failure()
        return await self._fetches.wait(None, self._fetch)

    def _check_failure(self) -> None:
        wait = self._failed_until - self._clock()
        if wait > 0 and self._failure is not None:
            raise VerifierUnavailableError(self._failure, retry_after=math.ceil(wait))

    async def _fetch(self) -> KeySet:
        try:
            uri = self._given_uri or await self._metadata.endpoint("jwks_uri")
            with fetching("keys"):
                document = await fetch_document(
                    uri,
                    f"the keys of {self._issuer}",
                    http_client=self._http_client,
                    patience=self._timeout,
                    accepts_http=self._accepts_http,
                )
            try:
                keys = KeySet(read_keys(document.members))
            except ValueError as error:
                raise FetchError(f"the keys of {self._issuer}: the document has {error}") from None
        except (FetchError, MetadataError) as error:
            raise self._failed(error) from error
        max_age = _USUAL if document.max_age is None else document.max_age
        fresh = min(max(max_age, SHORTEST), LONGEST)
        now = self._clock()
        if self._kept is None or keys != self._kept.keys:
            self._next_look = -math.inf  # that was no flood of names that nobody knows
        self._kept = _Kept(keys, now + fresh * _AHEAD, now + fresh, now + fresh + STALE)
        if self._failure is not None:
            logger.info("The keys of %s can be fetched again", self._issuer)
        self._failure = None
        self._failed_until = -math.inf
        return keys

    def _failed(self, error: Exception) -> VerifierUnavailableError:
        """Store a failure and log it once for each cause, and return the error for it."""
        message = str(error)
        now = self._clock()
        if message != self._failure:
            kept = self._kept
            consequence = (
                "and the cached ones stay in use"
                if kept is not None
                else "so requests are answered with HTTP 503"
            )
            logger.warning(
                "Cannot fetch the keys of the issuer, %s. mcpkit tries again in %d s or later: %s",
                consequence,
                RETRY,
                message,
            )
        self._failure = message
        self._failed_until = now + RETRY
        if not (isinstance(error, FetchError) and error.may_pass):
            self._metadata.forget()  # they may have moved
        return VerifierUnavailableError(message, retry_after=math.ceil(RETRY))
