"""Clients of an authorization server: redirect URIs, registration (RFC 7591), metadata documents, authentication."""

from __future__ import annotations

import base64
import hmac
import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import unquote_plus, urlencode, urlsplit

from starlette.requests import Request

from ...protocol import http_headers
from ...protocol.jsonrpc import is_array
from ...storage.encryption_keys import Keys
from ..jws import as_list, base64url_decode, base64url_encode
from ..oauth_http_client import AbandonedError, FetchError, SingleFlight, fetch_document
from ..urls_and_discovery import MetadataError, is_loopback, split_url
from .oauth_requests import Clock, OAuthError, Parameters, client_address, seal, unseal

if TYPE_CHECKING:
    import httpx2

AuthMethod = Literal["none", "client_secret_basic", "client_secret_post"]
AUTH_METHODS: tuple[AuthMethod, ...] = ("none", "client_secret_basic", "client_secret_post")
"""Client authentication methods. `none` is needed for clients with a metadata document."""
MAX_URI_LENGTH = 1024

_PURPOSE = "OAuth client"
_SECRET = "OAuth client secret"
_ID_PREFIX = "mcpkit-1."
"""Prefix of client IDs from dynamic registration."""
_MAX_REDIRECT_URIS = 32
_MAX_NAME = 100
_MAX_MARKS = 3
"""Maximum combining marks on one letter. More could reach over other lines."""
_BLANKS = frozenset("\u115f\u1160\u3164\uffa0\u2800")
"""Letters and symbols that look empty."""
_QUOTES = frozenset('"\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\u301d\u301e\uff02')

_VISIBLE = re.compile(r"[!-~]+")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
"""A host as it is displayed. Escaped characters would make it another host for a browser than for a reader."""
_FORBIDDEN_SCHEMES = frozenset(
    {
        "about", "afp", "android-app", "blob", "chrome", "chrome-extension", "content", "data",
        "facetime", "file", "filesystem", "ftp", "ftps", "geo", "gopher", "help", "intent", "itms",
        "jar", "javascript", "ldap", "ldaps", "livescript", "mailto", "market", "mhtml", "mocha",
        "nfs", "res", "resource", "rtsp", "search", "sftp", "shell", "sip", "sips", "smb", "sms",
        "ssh", "steam", "tel", "telnet", "vbscript", "view-source", "ws", "wss", "wyciwyg",
        "x-apple.systempreferences",
    }
)  # fmt: skip
"""Schemes by which a browser runs or displays the URI itself, or starts a program that is not an OAuth client."""
_FORBIDDEN_PREFIXES = ("ms-", "search-", "web+")
"""Prefixes of schemes of Windows components, and of sites registered as protocol handlers."""
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


class Client(NamedTuple):
    """A client of an authorization server.

    Attributes:
        id: The `client_id`.
        name: Display name chosen by the client, not verified.
        redirect_uris: Registered redirect URIs.
        method: Client authentication method. Both methods with a secret are accepted alike.
        secret: Client secret of a preregistered client.
        scopes: Scopes for the client credentials grant; None if it is not allowed.
        uses_refresh_tokens: Whether the client registered for refresh tokens (basic/authorization, "Refresh Tokens").
    """

    id: str
    name: str
    redirect_uris: tuple[str, ...]
    method: AuthMethod = "none"
    secret: str | None = None
    scopes: tuple[str, ...] | None = None
    uses_refresh_tokens: bool = True

    def redirect_uri(self, requested: str | None) -> str:
        """Return the redirect URI for a request.

        Args:
            requested: The `redirect_uri` of the request; None is allowed if the client has registered exactly one.

        Raises:
            OAuthError: The redirect URI is not registered.
        """
        error = None
        if requested is None and len(self.redirect_uris) != 1:
            error = "redirect_uri is missing: it is required unless the client has registered exactly one"
        elif requested is not None and not is_registered(requested, self.redirect_uris):
            error = "redirect_uri is not one that the client has registered"
        if error is not None:
            raise OAuthError("invalid_request", error)
        return requested or self.redirect_uris[0]


# Redirect URIs


def check_redirect_uri(uri: object) -> str:
    """Check a redirect URI, and return it: `https`, `http` to a loopback host, or a private-use scheme.

    Raises:
        ValueError: The URI is not allowed. The message contains the reason.
    """
    if not isinstance(uri, str) or len(uri) > MAX_URI_LENGTH or not _VISIBLE.fullmatch(uri):
        raise ValueError(
            f"a redirect URI must be a string of at most {MAX_URI_LENGTH} visible ASCII characters"
        )
    parts = split_url(uri)
    if parts is None or not _SCHEME.fullmatch(parts.scheme):
        raise ValueError("a redirect URI must be an absolute URI")
    if "#" in uri:
        raise ValueError("a redirect URI must not have a fragment")
    if "\\" in uri or parts.username is not None or parts.password is not None:
        raise ValueError("a redirect URI must not contain a user name, a password or a backslash")
    if parts.scheme in _FORBIDDEN_SCHEMES or parts.scheme.startswith(_FORBIDDEN_PREFIXES):
        raise ValueError(
            f"the scheme {parts.scheme} is not allowed in a redirect URI. Use https, or a private-use scheme such as "
            "com.example.app:/callback"
        )
    if parts.scheme in {"http", "https"}:
        if not parts.hostname:
            raise ValueError("a redirect URI must have a host")
        if not _HOST.fullmatch(parts.hostname):
            raise ValueError(
                "the host of a redirect URI must be an ASCII name; write others in Punycode (xn--)"
            )
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            raise ValueError("a redirect URI with http must have a loopback host; use https for other hosts")
    elif not uri[len(parts.scheme) + 1 :].startswith("/"):
        raise ValueError(
            "a redirect URI with a private-use scheme must have a slash after the colon, as app.example:/callback"
        )
    return uri


def is_registered(uri: str, registered: Iterable[str]) -> bool:
    """Return True if a redirect URI is registered.

    It must be equal to a registered one, except for the port of a loopback URI (RFC 8252, 7.3).
    """
    try:
        check_redirect_uri(uri)
    except ValueError:
        return False
    parts = urlsplit(uri)
    for other in registered:
        known = urlsplit(other)
        if parts.scheme == "http" and is_loopback(parts.hostname):
            if parts._replace(netloc=parts.hostname or "") == known._replace(netloc=known.hostname or ""):
                return True
        elif uri == other:
            return True
    return False


def is_web(uri: str) -> bool:
    """Return True if a browser opens the redirect URI itself: it has no private-use scheme."""
    return urlsplit(uri).scheme in {"http", "https"}


def is_local(uri: str) -> bool:
    """Return True if a redirect URI leads to a program on the machine of the user, which is not verified."""
    return not is_web(uri) or is_loopback(urlsplit(uri).hostname)


def host_of(uri: str) -> str:
    """Return the part of a redirect URI for display: its host and port, or its private-use scheme.

    It is in lower case, because a capital I looks like an l.
    """
    parts = urlsplit(uri)
    return parts.netloc.lower() if is_web(uri) else f"{parts.scheme}:"


def with_parameters(uri: str, parameters: Mapping[str, str]) -> str:
    """Return a redirect URI with additional query parameters (RFC 6749, 3.1.2)."""
    return f"{uri}{'&' if '?' in uri else '?'}{urlencode(parameters)}"


# Client metadata


def read_client(client_id: str, metadata: Mapping[str, object]) -> Client:
    """Return the client that client metadata describes (RFC 7591, section 2).

    Args:
        client_id: The client ID.
        metadata: The metadata. Unknown and null members are ignored.

    Raises:
        OAuthError: The metadata is not valid.
    """
    uris = metadata.get("redirect_uris")
    if not is_array(uris) or not 1 <= len(uris) <= _MAX_REDIRECT_URIS:
        raise OAuthError(
            "invalid_redirect_uri", f"redirect_uris must be a list of 1 to {_MAX_REDIRECT_URIS} URIs"
        )
    try:
        redirect_uris = tuple(dict.fromkeys(map(check_redirect_uri, uris)))
    except ValueError as error:
        raise OAuthError("invalid_redirect_uri", str(error)) from None
    name = metadata.get("client_name")
    if not isinstance(name, str | None) or len(name or "") > _MAX_NAME:
        raise _invalid_metadata(f"client_name must be a string of at most {_MAX_NAME} characters")
    # The server may grant less than requested, so unsupported items are ignored.
    for member, required in (("grant_types", "authorization_code"), ("response_types", "code")):
        items = metadata.get(member)
        if items is not None and (not is_array(items) or required not in items):
            raise _invalid_metadata(f"{member} must be a list that contains {required}")
    refreshes = "refresh_token" in as_list(metadata.get("grant_types"))
    return Client(client_id, _safe_name(name or ""), redirect_uris, uses_refresh_tokens=refreshes)


def _safe_name(name: str) -> str:
    """Return a name without invisible, direction-changing, quoting or overlapping characters."""
    characters: list[str] = []
    marks = 0
    for each in unicodedata.normalize("NFC", name):
        kind = unicodedata.category(each)[0]
        marks = marks + 1 if kind == "M" else 0
        if marks <= _MAX_MARKS and (kind != "C" or each == " ") and each not in _BLANKS:
            characters.append("'" if each in _QUOTES else each)
    return " ".join("".join(characters).split()) or "A client without a name"


class Registration:
    """Registers clients, and recognizes them in any process with the same secret.

    Nothing is stored: the client ID contains the registration, encrypted. So registrations cannot fill the storage.

    Args:
        keys: Keys that encrypt IDs and sign secrets.
        clock: Returns the Unix time in seconds.
    """

    def __init__(self, keys: Keys, clock: Clock = time.time) -> None:
        self._keys = keys
        self._clock = clock

    def register(self, metadata: Mapping[str, object]) -> dict[str, object]:
        """Register a client, and return the response (RFC 7591, section 3.2.1).

        Args:
            metadata: Client metadata. Unknown members are ignored.

        Raises:
            OAuthError: The metadata is not valid.
        """
        metadata = {name: value for name, value in metadata.items() if value is not None}
        method = metadata.get("token_endpoint_auth_method", "client_secret_basic")
        client = read_client("", metadata)
        if method not in AUTH_METHODS:
            raise _invalid_metadata(f"token_endpoint_auth_method must be one of {', '.join(AUTH_METHODS)}")
        # `native` is a program on the machine of the user (OpenID Connect Registration, 2).
        has_local_uri = any(map(is_local, client.redirect_uris))
        kind = metadata.get("application_type", "native" if has_local_uri else "web")
        if kind not in ("native", "web"):
            raise _invalid_metadata("application_type must be native or web")
        if kind == "web" and has_local_uri:
            raise OAuthError(
                "invalid_redirect_uri",
                "application_type must be native for a client with loopback or private-use redirect URIs",
            )
        content = {"n": client.name, "r": client.redirect_uris, "m": method, "f": client.uses_refresh_tokens}
        client_id = _ID_PREFIX + seal(self._keys, _PURPOSE, content)
        response: dict[str, object] = {
            "client_id": client_id,
            "client_id_issued_at": int(self._clock()),
            "client_name": client.name,
            "redirect_uris": list(client.redirect_uris),
            "grant_types": ["authorization_code", *(["refresh_token"] if client.uses_refresh_tokens else [])],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
            "application_type": kind,
        }
        if method != "none":
            response["client_secret"] = base64url_encode(self._keys.sign(_SECRET, client_id.encode()))
            response["client_secret_expires_at"] = 0
        return response

    def find(self, client_id: str) -> Client:
        """Return a registered client.

        Raises:
            OAuthError: The client ID is unknown.
        """
        content = None
        if is_registration(client_id):
            content = unseal(self._keys, _PURPOSE, client_id.removeprefix(_ID_PREFIX))
        if content is None:
            raise OAuthError(
                "invalid_client",
                "client_id is unknown, or the secret of the server has changed. Register the client again",
                status=401,
            )
        uris, refreshes = tuple(content["r"]), content["f"]
        return Client(client_id, content["n"], uris, content["m"], uses_refresh_tokens=refreshes)

    def has_secret(self, client: Client, secret: str) -> bool:
        """Return True if a secret is that of a registered client, in constant time."""
        signature = base64url_decode(secret)
        return signature is not None and self._keys.verify(_SECRET, client.id.encode(), signature)


def is_registration(client_id: str) -> bool:
    """Return True if a client ID comes from dynamic registration."""
    return client_id.startswith(_ID_PREFIX)


def _invalid_metadata(description: str) -> OAuthError:
    return OAuthError("invalid_client_metadata", description)


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
                error.headers = _BASIC_CHALLENGE
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
