"""URLs of servers, and discovery of protected resources and authorization servers: URLs and checks of their metadata.

This module does no I/O (basic/authorization, "Authorization Server Discovery"; RFC 9728, RFC 8414, OpenID Connect
Discovery 1.0).
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

from ..protocol.jsonrpc import is_array, is_object

# URLs: validation, comparison, and display of untrusted ones

_PORTS: Final = {"http": 80, "https": 443}
_URL: Final = re.compile(r"[!-~]+")
_MAX_SHOWN: Final = 200


class MetadataError(ValueError):
    """A URL or metadata document is not valid. The message contains the reason."""


def is_loopback(host: str | None) -> bool:
    """Return True if the host of a URL is a loopback name or address."""
    if not host:
        return False
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def leads_here(host: str | None) -> bool:
    """Return True if the host of a URL is this machine in any spelling, without a DNS lookup.

    It includes more than `is_loopback`: spellings that systems accept as its address, such as `127.1`, `0` and
    `::ffff:127.0.0.1`.
    """
    try:
        address = ipaddress.ip_address(host or "")
    except ValueError:
        try:
            address = ipaddress.IPv4Address(socket.inet_aton((host or "").rstrip(".")))
        except (OSError, UnicodeError):
            return is_loopback(host)
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified


def check_url(url: object, what: str, *, accepts_http: bool | None = None) -> str:
    """Check that a URL is safe for secrets (`https`, or `http` to a loopback address), and return it.

    Args:
        url: The URL.
        what: Name of the URL for the message, such as "the token_endpoint of https://id.example.com".
        accepts_http: Value of the option `accept_plain_http`, which allows `http` to other machines; None if there is
            no such option, so that the message does not mention it.

    Raises:
        MetadataError: The URL is malformed, is not encrypted, or has a user, a password or a fragment.
    """
    if not isinstance(url, str):
        raise MetadataError(f"{what} must be a string, got {shortened(repr(url))}")
    shown = shortened(url)
    parts = split_url(url)
    if parts is None or not parts.hostname or parts.scheme not in _PORTS:
        raise MetadataError(f"{what} is not a valid https URL: {shown}")
    if parts.username is not None or parts.password is not None:
        raise MetadataError(f"{what} must not contain a user name or password")
    if "#" in url:
        raise MetadataError(f"{what} must not have a fragment: {shown}")
    if parts.scheme == "http" and not accepts_http and not is_loopback(parts.hostname):
        way_out = "" if accepts_http is None else ". In a private network, set accept_plain_http=True"
        raise MetadataError(
            f"{what} is not encrypted: {shown}. Use https; http is only allowed to loopback addresses{way_out}"
        )
    return url


def canonical(url: str) -> str:
    """Return the canonical URL of a server: lower-case scheme and host, no default port, fragment or path `/` alone.

    Query and path are unchanged, because they can distinguish servers.

    Raises:
        MetadataError: The URL is not an HTTP URL.
    """
    parts = split_url(url)
    if parts is None or not parts.hostname or parts.scheme not in _PORTS:
        raise MetadataError(
            f"the URL of a server must be an https or http URL with a host, got {shortened(url)}"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    is_default_port = parts.port is None or parts.port == _PORTS[parts.scheme]
    netloc = host if is_default_port else f"{host}:{parts.port}"
    path = "" if parts.path == "/" and not parts.query else parts.path
    return urlunsplit((parts.scheme, netloc, path, parts.query, ""))


def origin(url: str) -> str:
    """Return scheme, host and port of a URL, in canonical form."""
    parts = urlsplit(canonical(url))
    return f"{parts.scheme}://{parts.netloc}"


def covers(resource: str, url: str) -> bool:
    """Return True if a protected resource is the server at a URL, or a path above it at the same origin.

    Raises:
        MetadataError: One of them is not an HTTP URL.
    """
    wide, narrow = urlsplit(canonical(resource)), urlsplit(canonical(url))
    if (wide.scheme, wide.netloc) != (narrow.scheme, narrow.netloc):
        return False
    if wide.query and wide.query != narrow.query:
        return False
    above = wide.path.rstrip("/")
    return narrow.path.rstrip("/") == above or narrow.path.startswith(above + "/")


def audience_matches(audiences: Collection[str], accepted: Collection[str]) -> bool:
    """Return True if one of the audiences of a token is accepted (RFC 8707, section 2).

    Audiences match if they are equal, or are URLs that differ only in the case of scheme and host, a default port, or a
    trailing slash.
    """

    def canonical_url(text: str) -> str | None:
        if "#" in text or "@" in text:
            return None
        try:
            return canonical(text).rstrip("/")
        except MetadataError:
            return None

    if not set(audiences).isdisjoint(accepted):
        return True
    urls = {canonical_url(each) for each in accepted} - {None}
    return bool(urls) and any(canonical_url(each) in urls for each in audiences)


def shortened(text: str) -> str:
    """Return an untrusted text for a message: short, printable, in quotes."""
    return repr("".join(char if char.isprintable() else " " for char in text[:_MAX_SHOWN]))


def split_url(url: str) -> SplitResult | None:
    """Split a URL; None if it is malformed, has characters outside visible ASCII, or an impossible host."""
    if not _URL.fullmatch(url):
        return None
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - read for its error
    except ValueError:
        return None
    labels = (parts.hostname or "x").removesuffix(".").split(".")
    return parts if all(0 < len(label) < 64 for label in labels) else None  # RFC 1035, 2.3.4


# Metadata

PROTECTED_RESOURCE: Final = "/.well-known/oauth-protected-resource"
AUTHORIZATION_SERVER: Final = "/.well-known/oauth-authorization-server"
OPENID_CONFIGURATION: Final = "/.well-known/openid-configuration"


def protected_resource_urls(url: str) -> tuple[str, ...]:
    """Return the possible URLs of the metadata of a server, in order: at its path, then at the root (RFC 9728, 3.1).

    Args:
        url: URL of the server.
    """
    parts = urlsplit(canonical(url))
    root = f"{parts.scheme}://{parts.netloc}{PROTECTED_RESOURCE}"
    if parts.path in {"", "/"} and not parts.query:
        return (root,)
    query = f"?{parts.query}" if parts.query else ""
    return (root + parts.path + query, root)


def authorization_server_urls(issuer: str, *, accepts_http: bool | None = None) -> tuple[str, ...]:
    """Return the possible URLs of the metadata of an issuer, in order (RFC 8414, 3.1 and 5).

    Args:
        issuer: The issuer.
        accepts_http: Allow plain http; see `check_url`.

    Raises:
        MetadataError: The issuer is not an https URL, or has a query or a fragment.
    """
    parts = urlsplit(check_url(issuer, "the issuer", accepts_http=accepts_http))
    if parts.query:
        raise MetadataError(f"the issuer must not have a query: {shortened(issuer)}")
    if parts.path.endswith((AUTHORIZATION_SERVER, OPENID_CONFIGURATION)):
        raise MetadataError(
            f"the issuer {shortened(issuer)} is the URL of a metadata document. Use the value of its `issuer` member"
        )
    base = f"{parts.scheme}://{parts.netloc}"
    path = parts.path.rstrip("/")
    if not path:
        return (base + AUTHORIZATION_SERVER, base + OPENID_CONFIGURATION)
    return (
        base + AUTHORIZATION_SERVER + path,
        base + OPENID_CONFIGURATION + path,
        base + path + OPENID_CONFIGURATION,
    )


def origin_urls(url: str) -> tuple[tuple[str, ...], tuple[str, str]]:
    """Return the metadata URLs of a server of 2025-03-26 as its own authorization server, and its possible issuers.

    Args:
        url: URL of the server.
    """
    base = origin(url)
    return (base + AUTHORIZATION_SERVER,), (base, base + "/")


@dataclass(frozen=True)
class ResourceMetadata:
    """Metadata of a protected resource (RFC 9728, 2).

    Attributes:
        resource: Identifier of the resource, for the parameter `resource` of token requests.
        authorization_servers: Issuers of the authorization servers; at least one.
        scopes: Scopes for basic use; None if not given.
        document: The whole document.
    """

    resource: str
    authorization_servers: tuple[str, ...]
    scopes: tuple[str, ...] | None
    document: Mapping[str, object] = field(repr=False)

    @classmethod
    def read(cls, document: object, url: str) -> ResourceMetadata:
        """Check a metadata document.

        Args:
            document: The decoded JSON.
            url: URL of the server that the document must describe.

        Raises:
            MetadataError: The document is malformed, or describes another server.
        """
        what = f"the protected resource metadata of {shortened(url)}"
        members = _object(document, what)
        resource = members.get("resource")
        if not isinstance(resource, str):
            raise MetadataError(f"{what} has no `resource` string")
        try:
            is_covered = covers(resource, url)
        except MetadataError:
            is_covered = False
        if not is_covered or "#" in resource:
            raise MetadataError(
                f"{what} has another `resource`, {shortened(resource)}. Clients must reject it (RFC 9728, 3.3)"
            )
        issuers = _strings(members, "authorization_servers", what)
        if not issuers:
            raise MetadataError(f"{what} has no `authorization_servers`")
        return cls(resource, issuers, _strings(members, "scopes_supported", what), members)


@dataclass(frozen=True)
class AuthorizationServerMetadata:
    """Metadata of an authorization server (RFC 8414, 2; OpenID Connect Discovery 1.0, 3).

    Attributes:
        issuer: The issuer.
        document: The whole document. The methods check the members that they read.
        accepts_http: Allow plain http; see `check_url`.
    """

    issuer: str
    document: Mapping[str, object] = field(repr=False)
    accepts_http: bool | None = None

    @classmethod
    def read(
        cls, document: object, *issuers: str, accepts_http: bool | None = None
    ) -> AuthorizationServerMetadata:
        """Check a metadata document.

        Args:
            document: The decoded JSON.
            issuers: Accepted values of `issuer`, compared byte for byte. There are two only if the issuer is presumed
                from an origin, with and without a trailing slash.
            accepts_http: Allow plain http; see `check_url`.

        Raises:
            MetadataError: The document is malformed, or has another issuer.
        """
        what = f"the authorization server metadata of {shortened(issuers[0])}"
        members = _object(document, what)
        issuer = members.get("issuer")
        if not isinstance(issuer, str):
            raise MetadataError(f"{what} has no `issuer` string")
        if issuer not in issuers:
            is_slash = issuer.rstrip("/") == issuers[0].rstrip("/")
            raise MetadataError(
                f"{what} has another `issuer`, {shortened(issuer)}; it must be equal byte for byte (RFC 8414, 3.3)"
                + (". They differ only in the trailing slash" if is_slash else "")
            )
        return cls(issuer, members, accepts_http)

    def completed(self, other: AuthorizationServerMetadata) -> AuthorizationServerMetadata:
        """Return the metadata with missing members added from another document of the same issuer."""
        own = {name: value for name, value in self.document.items() if value is not None}
        return replace(self, document={**other.document, **own})

    @classmethod
    def of_origin(cls, url: str, *, accepts_http: bool | None = None) -> AuthorizationServerMetadata:
        """Return the default metadata of a server of 2025-03-26 that is its own authorization server and has none.

        Args:
            url: URL of the server (2025-03-26, basic/authorization, "Fallbacks for Servers without Metadata
                Discovery").
            accepts_http: Allow plain http; see `check_url`.

        Raises:
            MetadataError: The URL is not encrypted.
        """
        issuer = check_url(origin(url), "the origin of the server", accepts_http=accepts_http)
        return cls(
            issuer,
            {
                "issuer": issuer,
                "authorization_endpoint": f"{issuer}/authorize",
                "token_endpoint": f"{issuer}/token",
                "registration_endpoint": f"{issuer}/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            },
            accepts_http,
        )

    def endpoint(self, name: str) -> str:
        """Return the URL of an endpoint, such as `token_endpoint` or `jwks_uri`.

        Raises:
            MetadataError: The endpoint is missing or not encrypted.
        """
        if not self.has(name):
            raise MetadataError(
                f"the metadata of the authorization server {shortened(self.issuer)} has no {name}"
            )
        what = f"{name} of the authorization server {shortened(self.issuer)}"
        return check_url(self.document[name], what, accepts_http=self.accepts_http)

    def has(self, name: str) -> bool:
        """Return True if the metadata has an endpoint of this name."""
        return self.document.get(name) is not None

    def strings(self, name: str) -> tuple[str, ...] | None:
        """Return a list of strings, such as `scopes_supported`; None if it is missing.

        Raises:
            MetadataError: The member is not a list of strings.
        """
        return _strings(self.document, name, f"the authorization server metadata of {shortened(self.issuer)}")

    def is_true(self, name: str) -> bool:
        """Return True if a member is true, such as `client_id_metadata_document_supported`."""
        return self.document.get(name) is True

    def check_pkce(self, *, may_be_unannounced: bool = False) -> None:
        """Check that the authorization server announces PKCE with S256.

        Otherwise clients must not log in (basic/authorization, "Authorization Code Protection").

        Args:
            may_be_unannounced: Accept metadata without `code_challenge_methods_supported`.

        Raises:
            MetadataError: S256 is not announced.
        """
        methods = self.strings("code_challenge_methods_supported")
        if may_be_unannounced if methods is None else "S256" in methods:
            return
        issuer = shortened(self.issuer)
        if methods is not None:
            raise MetadataError(
                f"the authorization server {issuer} does not support PKCE with S256, which clients require; its"
                f" metadata lists {', '.join(map(shortened, methods)) or 'no method'}"
            )
        raise MetadataError(
            f"the metadata of the authorization server {issuer} has no code_challenge_methods_supported, so clients"
            " must not log in there. If it supports PKCE, as Microsoft Entra ID and Amazon Cognito do, put an OAuth"
            " proxy in front of it, or set accept_unannounced_pkce=True on this client"
        )


def _object(document: object, what: str) -> Mapping[str, object]:
    if not is_object(document):
        raise MetadataError(f"{what} is not a JSON object")
    return document


def _strings(members: Mapping[str, object], name: str, what: str) -> tuple[str, ...] | None:
    value = members.get(name)
    if value is None:
        return None
    if not is_array(value):
        raise MetadataError(f"{what}: `{name}` is not a list of strings")
    texts = tuple(each for each in value if isinstance(each, str))
    if len(texts) != len(value):
        raise MetadataError(f"{what}: `{name}` contains an item that is not a string")
    return texts
