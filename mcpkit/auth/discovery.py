"""Where metadata of protected resources and of authorization servers is found, and whether it may be believed.

Nothing here asks anybody: it says which URLs to ask, and checks what has been answered (basic/authorization,
"Authorization Server Discovery"; RFC 9728, RFC 8414, OpenID Connect Discovery 1.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urlsplit

from .strict_json import items_in, members_in
from .urls import MetadataError, canonical, check_url, covers, origin, shortened

PROTECTED_RESOURCE: Final = "/.well-known/oauth-protected-resource"
AUTHORIZATION_SERVER: Final = "/.well-known/oauth-authorization-server"
OPENID_CONFIGURATION: Final = "/.well-known/openid-configuration"


def protected_resource_urls(url: str) -> tuple[str, ...]:
    """Return where the metadata of a server may be, in the order to ask: at its path, and at the root (RFC 9728, 3.1).

    Args:
        url: The URL of the server.
    """
    parts = urlsplit(canonical(url))
    root = f"{parts.scheme}://{parts.netloc}{PROTECTED_RESOURCE}"
    if parts.path in {"", "/"} and not parts.query:
        return (root,)
    query = f"?{parts.query}" if parts.query else ""
    return (root + parts.path + query, root)


def authorization_server_urls(issuer: str, *, accepts_http: bool | None = None) -> tuple[str, ...]:
    """Return where the metadata of an issuer may be, in the order to ask (RFC 8414, 3.1 and 5).

    Args:
        issuer: The issuer, as it was named.
        accepts_http: As `check_url` has it.

    Raises:
        MetadataError: It is no issuer: no URL of https, or with a query or a fragment.
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
    """Return where a server of 2025-03-26 has metadata as its own authorization server, and how it may call itself.

    Args:
        url: The URL of the server.
    """
    base = origin(url)
    return (base + AUTHORIZATION_SERVER,), (base, base + "/")


@dataclass(frozen=True)
class ResourceMetadata:
    """What a protected resource says of itself (RFC 9728, 2).

    Attributes:
        resource: Its identifier, which tokens are asked for.
        authorization_servers: The issuers of those tokens; at least one.
        scopes: The scopes that basic use needs; None where it does not say.
        document: All that it says.
    """

    resource: str
    authorization_servers: tuple[str, ...]
    scopes: tuple[str, ...] | None
    document: Mapping[str, object] = field(repr=False)

    @classmethod
    def read(cls, document: object, url: str) -> ResourceMetadata:
        """Check a metadata document.

        Args:
            document: The document, as JSON has it.
            url: The URL of the server whose metadata it should be.

        Raises:
            MetadataError: It cannot be used, or is about another server.
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
    """What an authorization server says of itself (RFC 8414, 2; OpenID Connect Discovery 1.0, 3).

    Attributes:
        issuer: Who it is.
        document: All that it says; what is read of it by the methods below is checked there.
        accepts_http: As `check_url` has it.
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
            document: The document, as JSON has it.
            issuers: Whom it was asked of: its `issuer` must be one of these, to the byte. There are two only where
                nobody has named one, and an origin stands for it, of which one cannot know whether it ends in `/`.
            accepts_http: As `check_url` has it.

        Raises:
            MetadataError: It cannot be used, or is of somebody else.
        """
        what = f"the authorization server metadata of {shortened(issuers[0])}"
        members = _object(document, what)
        issuer = members.get("issuer")
        if not isinstance(issuer, str):
            raise MetadataError(f"{what} has no `issuer` string")
        if issuer not in issuers:
            slash = ". They differ only in the trailing slash" if _bare(issuer) == _bare(issuers[0]) else ""
            raise MetadataError(
                f"{what} has another `issuer`, {shortened(issuer)}; it must be equal byte for byte (RFC 8414,"
                f" 3.3){slash}"
            )
        return cls(issuer, members, accepts_http)

    def completed(self, other: AuthorizationServerMetadata) -> AuthorizationServerMetadata:
        """Return the same with the members that it lacks, of another document of the same issuer."""
        own = {name: value for name, value in self.document.items() if value is not None}
        return replace(self, document={**other.document, **own})

    @classmethod
    def of_origin(cls, url: str, *, accepts_http: bool | None = None) -> AuthorizationServerMetadata:
        """Return what is presumed of a server of 2025-03-26 that is its own authorization server and has no metadata.

        Args:
            url: The URL of the server (2025-03-26, basic/authorization, "Fallbacks for Servers without Metadata
                Discovery").
            accepts_http: As `check_url` has it.

        Raises:
            MetadataError: It is not encrypted.
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
        """Return the URL of an endpoint, such as `token_endpoint`, or `jwks_uri`.

        Raises:
            MetadataError: There is none, or it is not encrypted.
        """
        if not self.has(name):
            raise MetadataError(
                f"the metadata of the authorization server {shortened(self.issuer)} has no {name}"
            )
        what = f"{name} of the authorization server {shortened(self.issuer)}"
        return check_url(self.document[name], what, accepts_http=self.accepts_http)

    def has(self, name: str) -> bool:
        """Say whether there is an endpoint of this name."""
        return self.document.get(name) is not None

    def strings(self, name: str) -> tuple[str, ...] | None:
        """Return a list of strings, such as `scopes_supported`; None where there is none.

        Raises:
            MetadataError: It is something else.
        """
        return _strings(self.document, name, f"the authorization server metadata of {shortened(self.issuer)}")

    def says(self, name: str) -> bool:
        """Say whether something is said to be so, such as `client_id_metadata_document_supported`."""
        return self.document.get(name) is True

    def check_pkce(self, *, may_be_unannounced: bool = False) -> None:
        """Refuse an authorization server that does not say that it knows PKCE with S256.

        Clients must not go on then (basic/authorization, "Authorization Code Protection").

        Args:
            may_be_unannounced: Whether one that says nothing of PKCE is taken for one that knows it.

        Raises:
            MetadataError: It does not say so.
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


def _bare(url: str) -> str:
    return url.rstrip("/")


def _object(document: object, what: str) -> Mapping[str, object]:
    members = members_in(document)
    if members is None:
        raise MetadataError(f"{what} is not a JSON object")
    return members


def _strings(members: Mapping[str, object], name: str, what: str) -> tuple[str, ...] | None:
    value = members.get(name)
    if value is None:
        return None
    items = items_in(value)
    if items is None:
        raise MetadataError(f"{what}: `{name}` is not a list of strings")
    texts = tuple(each for each in items if isinstance(each, str))
    if len(texts) != len(items):
        raise MetadataError(f"{what}: `{name}` contains an item that is not a string")
    return texts
