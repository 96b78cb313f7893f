"""Clients of an authorization server: client metadata, redirect URIs, and dynamic registration (RFC 7591)."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple
from urllib.parse import urlencode, urlsplit

from ...protocol.jsonrpc import is_array
from ...storage.encryption_keys import Keys
from ..jws import base64url_decode, base64url_encode
from ..urls import is_loopback, split_url
from .oauth_requests import Clock, OAuthError, seal, unseal

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
        if requested is None:
            if len(self.redirect_uris) != 1:
                raise OAuthError(
                    "invalid_request",
                    "redirect_uri is missing: it is required unless the client has registered exactly one",
                )
            return self.redirect_uris[0]
        if not is_registered(requested, self.redirect_uris):
            raise OAuthError("invalid_request", "redirect_uri is not one that the client has registered")
        return requested


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
    grant_types = metadata.get("grant_types")
    refreshes = is_array(grant_types) and "refresh_token" in grant_types
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
        wanted = metadata.get("token_endpoint_auth_method", "client_secret_basic")
        methods = [method for method in AUTH_METHODS if method == wanted]
        client = read_client("", metadata)
        if not methods:
            raise _invalid_metadata(f"token_endpoint_auth_method must be one of {', '.join(AUTH_METHODS)}")
        [method] = methods
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
