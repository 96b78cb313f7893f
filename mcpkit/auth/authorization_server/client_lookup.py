"""Lookup and authentication of clients: registered, preregistered, or with a client ID metadata document."""

from __future__ import annotations

import base64
import hmac
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

from starlette.requests import Request

from ...protocol import http_headers
from ..http_client import AbandonedError, FetchError, SingleFlight, fetch_document
from ..urls import MetadataError, split_url
from .client_registration import MAX_URI_LENGTH, Client, Registration, read_client
from .oauth_requests import OAuthError, Parameters, client_address

if TYPE_CHECKING:
    import httpx2

_TIMEOUT = 5.0
"""Seconds in which a document must be received, because a user waits for it."""
_DEFAULT_MAX_AGE = 300.0
_MAX_AGE = 24 * 3600.0
"""Seconds for which a document without cache headers is kept, and the maximum (draft, section 4.2)."""
_MAX_CACHED = 256
_MAX_FETCHES = 16
_MAX_FETCHES_PER_ADDRESS = 4
"""Maximum concurrent fetches, in total and for one address. Further requests must be retried."""
_ABANDONED = 60.0
"""Seconds after which a fetch counts as lost with its event loop."""
_BASIC_CHALLENGE = {"WWW-Authenticate": 'Basic realm="OAuth"'}


# Client ID metadata documents


class ClientDocuments:
    """Clients with a URL as ID, which serves a document that describes them.

    Documents are cached as their headers allow (draft-ietf-oauth-client-id-metadata-document-00). Errors are not
    cached.

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
        self._cache: dict[str, tuple[Client, float]] = {}
        self._addresses: dict[str, str | None] = {}  # the address that caused a fetch, by URL
        self._fetches: SingleFlight[Client] = SingleFlight(_ABANDONED)

    async def find(self, client_id: str, address: str | None = None) -> Client:
        """Return the client with the document at a URL. Concurrent requests share one fetch.

        Args:
            client_id: The URL.
            address: Address of the sender. Fetches for one address are limited, so that slow hosts do not block others.

        Raises:
            OAuthError: The document is missing or not valid.
        """
        cached = self._cache.get(client_id)
        if cached is not None and self._clock() < cached[1]:
            return cached[0]
        check_client_url(client_id)
        fetch = self._fetches.running(client_id)
        if fetch is None:
            addresses = list(self._addresses.values())
            is_over = address is not None and addresses.count(address) >= _MAX_FETCHES_PER_ADDRESS
            if len(addresses) >= _MAX_FETCHES or is_over:
                raise _unavailable("too many client metadata documents are being fetched; try again later")
            self._addresses[client_id] = address
            fetch = self._fetches.start(client_id, lambda: self._fetch(client_id))
            fetch.add_done_callback(lambda _: self._addresses.pop(client_id, None))
        try:
            return await self._fetches.result(client_id, fetch)
        except AbandonedError:
            raise _unavailable(
                "the fetch of the client metadata document was interrupted; try again later"
            ) from None

    async def aclose(self) -> None:
        """Cancel fetches of the running event loop."""
        await self._fetches.aclose()

    async def _fetch(self, url: str) -> Client:
        from ..ssrf_guard import public_client

        http_client = (self._http_client or public_client)()
        try:
            async with http_client:
                document = await fetch_document(
                    url,
                    "the client metadata document",
                    http_client=http_client,
                    time_limit=_TIMEOUT,
                    is_typed=True,
                )
        except FetchError as error:
            if error.may_pass:  # with invalid_client, the client would discard the tokens of its users
                raise _unavailable(str(error)) from None
            raise _invalid_client(str(error)) from None
        except MetadataError as error:
            raise _invalid_client(str(error)) from None
        client = _read_document(url, document.members)
        max_age = _DEFAULT_MAX_AGE if document.max_age is None else min(document.max_age, _MAX_AGE)
        self._cache.pop(url, None)
        if max_age > 0:
            while len(self._cache) >= _MAX_CACHED:
                del self._cache[next(iter(self._cache))]
            self._cache[url] = client, self._clock() + max_age
        return client


def check_client_url(client_id: str) -> None:
    """Check that a URL can be a client ID (draft, section 3).

    Raises:
        OAuthError: The URL is not allowed.
    """
    parts = split_url(client_id)
    if (
        parts is None
        or len(client_id) > MAX_URI_LENGTH
        or not client_id.startswith("https://")
        or not parts.hostname
        or not parts.path
        or "@" in parts.netloc
        or "#" in client_id
        or "\\" in client_id
        or {".", ".."} & set(parts.path.lower().replace("%2e", ".").split("/"))
    ):
        raise _invalid_client(
            "a client_id that is a URL must begin with https:// and have a host and a path, "
            "without user, fragment or dot segments"
        )


def _read_document(url: str, document: Mapping[str, object]) -> Client:
    members = {name: value for name, value in document.items() if value is not None}
    if members.get("client_id") != url:
        raise _invalid_client("the client_id in the client metadata document is not the URL of the document")
    if not members.get("client_name"):
        raise _invalid_client("the client metadata document has no client_name")
    if "client_secret" in members or "client_secret_expires_at" in members:
        raise _invalid_client(
            "the client metadata document contains a client secret, but the document is public"
        )
    if members.get("token_endpoint_auth_method", "none") != "none":
        raise _invalid_client("token_endpoint_auth_method in the client metadata document must be none")
    return read_client(url, members)


# All clients


class Clients:
    """Finds clients by ID, and authenticates them.

    Args:
        registration: Clients that registered themselves.
        documents: Clients with a metadata document; None if these are not allowed.
        preregistered: Preregistered clients.

    Attributes:
        documents: Clients with a metadata document; None if these are not allowed.
        have_own_scopes: Whether a preregistered client may use the client credentials grant.
    """

    def __init__(
        self,
        registration: Registration,
        documents: ClientDocuments | None,
        preregistered: Iterable[Client] = (),
    ) -> None:
        self._registration = registration
        self.documents = documents
        self._preregistered = {client.id: client for client in preregistered}
        self.have_own_scopes = any(client.scopes is not None for client in self._preregistered.values())

    async def find(self, client_id: str, address: str | None = None) -> Client:
        """Return a client.

        Args:
            client_id: The client ID.
            address: Address of the sender; see `client_address`.

        Raises:
            OAuthError: The client is unknown.
        """
        client = self._preregistered.get(client_id)
        if client is not None:
            return client
        if self.documents is not None and client_id.startswith(("https:", "http:")):
            return await self.documents.find(client_id, address)
        return self._registration.find(client_id)

    async def authenticate(self, request: Request, form: Parameters) -> Client:
        """Authenticate the client of a request (RFC 6749, section 2.3), and return it.

        Raises:
            OAuthError: The client is unknown, or its authentication failed.
        """
        header = request.headers.get("authorization")
        form_id, form_secret = form.get("client_id"), form.get("client_secret")
        if header is None:
            client_id, secret = form_id, form_secret
        else:
            client_id, secret = _basic_credentials(header)
            if form_secret is not None:
                raise OAuthError(
                    "invalid_request",
                    "the client uses two authentication methods: the Authorization header and client_secret",
                )
            if form_id not in {None, client_id}:
                raise OAuthError(
                    "invalid_request", "client_id differs from the one in the Authorization header"
                )
            client_id = client_id or form_id
        if client_id is None:
            raise OAuthError("invalid_client", "client_id is missing", status=401)
        try:
            client = await self.find(client_id, client_address(request.scope))
            if client.method == "none" and secret is not None:
                raise _invalid_client("this client has no secret: its token_endpoint_auth_method is none")
            if client.method != "none" and (secret is None or not self._has_secret(client, secret)):
                raise _invalid_client("the client secret is missing or wrong")
        except OAuthError as error:
            if error.status == 401 and header is not None:
                raise OAuthError(
                    error.error, error.description, status=401, headers=_BASIC_CHALLENGE
                ) from None
            raise
        return client

    def _has_secret(self, client: Client, secret: str) -> bool:
        if client.secret is not None:
            return hmac.compare_digest(client.secret.encode(), secret.encode())
        return self._registration.has_secret(client, secret)


def _basic_credentials(header: str) -> tuple[str, str]:
    """Parse the client ID and secret in the header `Authorization`."""
    try:
        credentials = http_headers.token68(header, "basic")
        text = base64.b64decode(credentials or "", validate=True).decode()
        client_id, separator, secret = text.partition(":")
        if not separator:
            raise ValueError
        return unquote_plus(client_id, errors="strict"), unquote_plus(secret, errors="strict")
    except ValueError:
        description = "the Authorization header must be Basic with the client_id and the client secret"
        raise OAuthError("invalid_client", description, status=401, headers=_BASIC_CHALLENGE) from None


def _invalid_client(description: str) -> OAuthError:
    return OAuthError("invalid_client", description, status=401)


def _unavailable(description: str) -> OAuthError:
    return OAuthError("temporarily_unavailable", description, status=503)
