"""Metadata and keys of an issuer: fetched on use, cached, and renewed.

Both can be used in any thread and event loop. Concurrent callers share one fetch. After a failed fetch there is a
pause, and cached documents stay in use meanwhile.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, NamedTuple

from ..identity.audit_and_revocation import fetching
from .jws import read_jwk_set
from .oauth_http_client import AbandonedError, Document, FetchError, SingleFlight, fetch_document
from .urls_and_discovery import (
    AuthorizationServerMetadata,
    MetadataError,
    authorization_server_urls,
    check_url,
)
from .verifier import VerifierUnavailableError

if TYPE_CHECKING:
    import httpx2

    from .jws import Jws, KeySet

RETRY = 5.0
"""Seconds before a failed fetch is repeated."""
MIN_KEYS_AGE = 300.0
"""Minimum seconds for which keys are kept, regardless of their headers."""
MAX_KEYS_AGE = 86_400.0
"""Maximum seconds for which keys are cached before they are renewed."""
MAX_STALE = 86_400.0
"""Seconds for which expired keys stay in use if the issuer does not respond."""

_METADATA_AGE = 86_400.0
_DEFAULT_KEYS_AGE = 3_600.0
_RENEW_AFTER = 0.8
"""Part of their age after which keys are renewed in the background."""

logger = logging.getLogger(__name__)


class IssuerMetadata:
    """Metadata of an issuer (RFC 8414, OpenID Connect Discovery 1.0).

    Args:
        issuer: The issuer.
        timeout: Seconds in which each document must be received.
        http_client: Client to use; None makes one.
        clock: Returns the Unix time in seconds.
        is_openid: Try the OpenID Connect URL first, because some issuers have two documents.
        accepts_http: Allow plain http; see `check_url`.

    Attributes:
        issuer: The issuer.
        timeout: Seconds in which each document must be received.
        accepts_http: Allow plain http.
        clock: Returns the Unix time in seconds.
        max_seconds: Seconds in which the metadata is available, or all its URLs have failed.

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
        self.issuer = issuer
        self.timeout = timeout
        self.accepts_http = accepts_http
        self.clock = clock
        self._http_client = http_client
        self.max_seconds = timeout * (len(urls) + 1)
        self._fetches: SingleFlight[AuthorizationServerMetadata] = SingleFlight(self.max_seconds)
        self._cached: AuthorizationServerMetadata | None = None
        self._fresh_until = -math.inf
        self._failure: FetchError | MetadataError | None = None
        self._next_fetch = -math.inf
        self._other_urls: Sequence[str] = ()  # not tried, because an earlier one had the metadata
        self._next_completion = -math.inf

    async def read(self, *members: str) -> AuthorizationServerMetadata:
        """Return the metadata, completed by the other documents of the issuer if a needed member is missing.

        Args:
            members: Needed members, such as `token_endpoint`. Their presence is not checked.

        Raises:
            FetchError: No metadata can be fetched.
            MetadataError: The metadata has another issuer, or is malformed.
        """
        cached, now = self._cached, self.clock()
        if cached is None or now >= max(self._fresh_until, self._next_fetch):
            is_paused = now < self._next_fetch and self._fetches.running(None) is None
            if is_paused and self._failure is not None:
                raise copy(self._failure)  # raising one object repeatedly would extend its traceback
            try:
                cached = await self._fetches.run(None, self._fetch)
            except FetchError as error:
                if cached is None or not error.may_pass:
                    raise
        if all(map(cached.has, members)) or not self._other_urls or self.clock() < self._next_completion:
            return cached
        return await self._fetches.run("other documents", self._complete)

    async def endpoint(self, name: str) -> str:
        """Return the URL of an endpoint, such as `introspection_endpoint` or `jwks_uri`.

        Raises:
            FetchError: No metadata can be fetched.
            MetadataError: The metadata has another issuer, or no such URL.
        """
        return (await self.read(name)).endpoint(name)

    def forget(self) -> None:
        """Mark the cached metadata as stale, so that the next call fetches it again."""
        self._fresh_until = -math.inf

    async def aclose(self) -> None:
        """Cancel fetches of the running event loop."""
        await self._fetches.aclose()

    async def _fetch(self) -> AuthorizationServerMetadata:
        """Fetch the metadata from the first URL that has it."""
        self._next_fetch = self.clock() + RETRY
        failures: list[FetchError | MetadataError] = []
        with fetching("metadata"):
            for number, url in enumerate(self._urls, 1):
                try:
                    self._cached = await self._fetch_from(url)
                except (FetchError, MetadataError) as error:
                    failures.append(error)
                    if isinstance(error, FetchError) and error.is_unreachable:
                        self._failure = error
                        raise
                else:
                    self._other_urls = self._urls[number:]
                    self._fresh_until = self.clock() + _METADATA_AGE
                    self._next_completion = -math.inf
                    return self._cached
            # Another issuer, or a server that is broken for now, says more than a URL without a document.
            self._failure = min(failures, key=lambda each: isinstance(each, FetchError) and not each.may_pass)
            raise self._failure

    async def _complete(self) -> AuthorizationServerMetadata:
        """Return the cached metadata completed by the documents at the other URLs. A missing document is ignored."""
        first = self._cached
        assert first is not None
        metadata = first
        retried: list[str] = []
        for url in self._other_urls:
            try:
                with fetching("metadata"):
                    metadata = metadata.completed(await self._fetch_from(url))
            except FetchError as error:
                if error.may_pass:
                    retried.append(url)
            except MetadataError:
                pass  # another issuer, or no metadata
        if self._cached is first:  # else it has been fetched again meanwhile
            self._next_completion = self.clock() + RETRY
            self._cached, self._other_urls = metadata, retried
        return metadata

    async def _fetch_from(self, url: str) -> AuthorizationServerMetadata:
        document = await self.fetch_document(url, "metadata")
        return AuthorizationServerMetadata.read(document.members, self.issuer, accepts_http=self.accepts_http)

    async def fetch_document(self, url: str, what: str) -> Document:
        """Fetch a document of the issuer; see `fetch_document`.

        Args:
            url: URL of the document.
            what: Kind of the document, such as "metadata".
        """
        name = f"the {what} of {self.issuer}"
        client, limit = self._http_client, self.timeout
        return await fetch_document(
            url, name, http_client=client, time_limit=limit, accepts_http=self.accepts_http
        )


class _CachedKeys(NamedTuple):
    keys: KeySet
    renew: float
    fresh_until: float
    usable_until: float


class PublishedKeys:
    """Published keys of one issuer.

    Args:
        metadata: Metadata of the issuer.
        jwks_uri: URL of the JWK Set; None takes it from the metadata (RFC 8414, OpenID Connect Discovery 1.0).
        cooldown: Minimum interval in seconds between fetches that tokens with an unknown key cause.

    Raises:
        MetadataError: The URL is not allowed.
    """

    def __init__(self, metadata: IssuerMetadata, jwks_uri: str | None, *, cooldown: float) -> None:
        if jwks_uri is not None:
            check_url(jwks_uri, "jwks_uri", accepts_http=metadata.accepts_http)
        self._metadata = metadata
        self._jwks_uri = jwks_uri
        self._cooldown = cooldown
        self._clock = metadata.clock
        self._lock = threading.Lock()
        self._fetches: SingleFlight[KeySet] = SingleFlight(metadata.max_seconds + metadata.timeout)
        self._cached: _CachedKeys | None = None
        self._next_search = -math.inf  # for the key of a token with an unknown key ID
        self._failed_until = -math.inf
        self._failure: str | None = None

    async def verifies(self, token: Jws) -> bool:
        """Return True if a key of the issuer verifies the signature of a token.

        Keys are fetched if the token has an unknown key ID, at most once per cooldown.

        Raises:
            VerifierUnavailableError: No keys are available.
        """
        keys = await self._current_keys()
        if keys.verifies(token):
            return True
        if token.key_id is not None and keys.has_key_of(token):
            return False
        return await self._is_verified_by_new_key(token)

    @property
    def is_fetching(self) -> bool:
        """True while keys are being fetched."""
        return self._fetches.running(None) is not None

    async def aclose(self) -> None:
        """Cancel fetches of the running event loop."""
        await self._fetches.aclose()
        await self._metadata.aclose()

    async def _current_keys(self) -> KeySet:
        cached, now = self._cached, self._clock()
        if cached is not None and now < cached.usable_until:
            if now < cached.renew or now < self._failed_until:
                return cached.keys
            # Tokens do not wait for a renewal ahead of time, nor for an issuer that did not respond before.
            if now < cached.fresh_until or self._failure is not None:
                self._fetches.start(None, self._fetch)
                return cached.keys
        try:
            if not self.is_fetching:
                self._check_failure()
            return await self._fetches.run(None, self._fetch)
        except VerifierUnavailableError:
            if cached is None or now >= cached.usable_until:
                raise
            return cached.keys

    async def _is_verified_by_new_key(self, token: Jws) -> bool:
        while True:
            with self._lock:  # of two tokens, one starts a fetch, and the other one joins it
                if self._cached is not None and self._cached.keys.verifies(token):
                    return True
                future = self._fetches.running(None)
                is_started = future is None
                if future is None:
                    now = self._clock()
                    if now < self._next_search and self._failure is None:
                        return False
                    self._check_failure()
                    self._next_search = now + self._cooldown
                    future = self._fetches.start(None, self._fetch)
            try:
                keys = await self._fetches.result(None, future)
            except AbandonedError:
                self._next_search = -math.inf
                continue
            is_verified = keys.verifies(token)
            # A joined fetch may have begun before the key was published, so it does not count.
            if is_started or is_verified:
                return is_verified

    def _check_failure(self) -> None:
        """Raise an error if a fetch has just failed."""
        seconds = self._failed_until - self._clock()
        if seconds > 0 and self._failure is not None:
            raise VerifierUnavailableError(self._failure, retry_after=math.ceil(seconds))

    async def _fetch(self) -> KeySet:
        try:
            url = self._jwks_uri or await self._metadata.endpoint("jwks_uri")
            with fetching("keys"):
                document = await self._metadata.fetch_document(url, "keys")
            try:
                keys = read_jwk_set(document.members)
            except ValueError as error:
                raise FetchError(f"the keys of {self._metadata.issuer}: the document has {error}") from None
        except (FetchError, MetadataError) as error:
            if not (isinstance(error, FetchError) and error.may_pass):
                self._metadata.forget()  # the keys may have moved
            self._note_failure(str(error))
            raise VerifierUnavailableError(str(error), retry_after=math.ceil(RETRY)) from error
        max_age = _DEFAULT_KEYS_AGE if document.max_age is None else document.max_age
        age = min(max(max_age, MIN_KEYS_AGE), MAX_KEYS_AGE)
        now = self._clock()
        if self._cached is None or keys.identity != self._cached.keys.identity:
            # A token had a new key, so it is no part of a flood of unknown key IDs.
            self._next_search = -math.inf
        self._cached = _CachedKeys(keys, now + age * _RENEW_AFTER, now + age, now + age + MAX_STALE)
        if self._failure is not None:
            logger.info("The keys of %s can be fetched again", self._metadata.issuer)
        self._failure = None
        self._failed_until = -math.inf
        return keys

    def _note_failure(self, message: str) -> None:
        """Store a failure, and log it once for each cause."""
        if message != self._failure:
            is_cached = self._cached is not None
            logger.warning(
                "Cannot fetch the keys of the issuer, %s. mcpkit tries again in %d s or later: %s",
                "and the cached ones stay in use" if is_cached else "so requests are answered with HTTP 503",
                RETRY,
                message,
            )
        self._failure = message
        self._failed_until = self._clock() + RETRY
