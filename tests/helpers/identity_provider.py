"""A real authorization server, npm's oidc-provider, on a free port of this machine, set up as MCP wants it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from tests.helpers.node import NodeProcess

SCOPES = {
    "notes:read": "Read notes",
    "notes:write": "Change notes",
    "notes:admin": "Change the notes of everybody",
}
USERS: dict[str, dict[str, object]] = {"ada": {}, "bob": {}}
NO_CLAIMS: Mapping[str, Sequence[str]] = MappingProxyType({})
RESOURCE_SERVER = ("resource-server", "the resource server's")
"""The client that may introspect tokens, and its secret."""
SERVICE = ("service", "the service's")
"""The client that gets tokens for itself, with the grant of client credentials, and its secret."""
PUBLIC = "public"
"""A client without a secret that is known beforehand; it redirects to `http://127.0.0.1/callback`, with any port."""
CLIENTS: list[dict[str, object]] = [
    {
        "client_id": client_id, "client_secret": secret, "grant_types": grants, "response_types": [],
        "redirect_uris": [],
    }
    for (client_id, secret), grants in ((RESOURCE_SERVER, []), (SERVICE, ["client_credentials"]))
]  # fmt: skip
CLIENTS.append(
    {
        "client_id": PUBLIC, "application_type": "native",
        "grant_types": ["authorization_code", "refresh_token"],
        "redirect_uris": ["http://127.0.0.1/callback"], "token_endpoint_auth_method": "none",
    }
)  # fmt: skip

CONFIDENTIAL = ("confidential", "the secret of the confidential client")
"""The id of the client of `confidential`, and its secret."""


def confidential(redirect_uri: str) -> dict[str, object]:
    """Return the metadata of a client with a secret, as providers without registration have one put in by hand."""
    return {
        "client_id": CONFIDENTIAL[0], "client_secret": CONFIDENTIAL[1], "client_name": "The one client",
        "grant_types": ["authorization_code", "refresh_token"], "redirect_uris": [redirect_uri],
    }  # fmt: skip


class ProviderRequest(NamedTuple):
    """A request that the provider has answered.

    Attributes:
        params: What came in the query and the body.
        error: The code of the error that it was answered with, if it was one.
        said: The JSON object of the response, or an empty one.
    """

    method: str
    path: str
    status: int
    params: dict[str, Any]
    error: str | None
    said: dict[str, Any]


class IdentityProvider:
    """The provider. Users log in with their name and, as the password, that with `'s` behind it.

    Attributes:
        issuer: Its issuer URL.
    """

    def __init__(self, node: NodeProcess) -> None:
        self._node = node
        self.issuer: str = node.greeting

    def token(self, user: str, scope: str, resource: str) -> str:
        """Return an access token as the user would get it for the resource, without a browser."""
        details = {"user": user, "scope": scope, "resource": resource, "client_id": PUBLIC, "seconds": None}
        token: str = self._node.ask("issue", details)
        return token

    @contextmanager
    def down(self, how: Literal["refusing", "failing", "hanging"] = "refusing") -> Iterator[None]:
        """Be down until the end of the block: refuse connections, answer 503, or never answer."""
        self._node.ask("down", {"how": how})
        try:
            yield
        finally:
            self._node.ask("up")

    def requests(self, path: str = "") -> list[ProviderRequest]:
        """Return the requests so far, of a path such as `/token` alone: `/reg`, `/auth`, `/jwks`, ..."""
        answered = [ProviderRequest(**each) for each in self._node.ask("requests")]
        return [each for each in answered if path in ("", each.path)]


@contextmanager
def providing(
    *,
    users: Mapping[str, Mapping[str, object]] = USERS,
    clients: Sequence[Mapping[str, object]] = CLIENTS,
    documents: Mapping[str, Mapping[str, object]] | None = None,
    identity_claims: Mapping[str, Sequence[str]] = NO_CLAIMS,
    opaque: bool = False,
    registers: bool = True,
    reads_documents: bool = True,
) -> Iterator[IdentityProvider]:
    """Run a provider until the end of the block.

    It has PKCE with S256, dynamic registration, client ID metadata documents, resource indicators, `iss` in its
    responses, refresh tokens that are good for one use, client credentials, introspection, revocation and DPoP.

    Args:
        users: Who may log in, with more claims for their tokens.
        clients: Metadata of those that need not register.
        documents: The client ID metadata documents that there are in its internet, by URL (`https://...`).
        identity_claims: The claims of users that a client gets for a scope, such as `{"email": ["email"]}`.
        opaque: Access tokens are opaque, to be introspected, rather than JWTs with the resource as their audience.
        registers: Whether clients can register dynamically.
        reads_documents: Whether it knows client ID metadata documents.
    """
    settings = {
        "users": users, "scopes": SCOPES, "clients": clients, "documents": documents or {}, "opaque": opaque,
        "identity_claims": dict(identity_claims), "algorithm": "RS256", "token_seconds": 3600,
        "registers": registers, "port": 0, "reads_documents": reads_documents, "dpop_nonces": False,
        "path": "",
    }  # fmt: skip
    node = NodeProcess(Path(__file__).with_suffix(".mjs"), "oidc-provider", json.dumps(settings))
    try:
        yield IdentityProvider(node)
    finally:
        node.close()
