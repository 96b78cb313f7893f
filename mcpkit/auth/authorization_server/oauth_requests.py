"""Requests to OAuth endpoints: parameters, scopes, resources, encrypted values, senders, and error responses."""

from __future__ import annotations

import ipaddress
import json
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import Scope as AsgiScope

from ...identity.principals_and_scopes import Scopes, check_name
from ...protocol import http_headers
from ...storage.encryption_keys import Keys
from ..jws import base64url_decode, base64url_encode
from ..oauth_http_client import error_text
from ..urls_and_discovery import MetadataError, canonical

Clock = Callable[[], float]
"""Returns the Unix time in seconds."""
NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}
"""Headers of responses that must not be cached (RFC 6749, section 5.1)."""
MAX_SIZE = 32 * 1024
"""Maximum bytes of a query or body. The longest client IDs and states have some KiB."""

_OPENID_SCOPES = frozenset({"openid", "profile", "email", "address", "phone"})
"""Scopes of OpenID Connect (Core 1.0, sections 3.1.2.1 and 5.4), which request claims of the user."""
_PRIVATE_NETWORKS = tuple(
    ipaddress.ip_network(network)
    for network in ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fe80::/10"]
)
"""Networks from which proxies send requests and internet clients do not (RFC 1918, 6598, 4193)."""


class OAuthError(Exception):
    """OAuth error response (RFC 6749, sections 4.1.2.1 and 5.2).

    Args:
        error: The error code.
        description: The reason, for the developer of the client. Forbidden characters become question marks.
        status: HTTP status of a response to a client.
        headers: Additional headers of that response.
    """

    def __init__(
        self, error: str, description: str, *, status: int = 400, headers: Mapping[str, str] | None = None
    ) -> None:
        self.description = error_text(description)
        super().__init__(f"{error}: {self.description}")
        self.error = error
        self.status = status
        self.headers = headers or {}

    def response(self) -> JSONResponse:
        """Return the response to a client."""
        content = {"error": self.error, "error_description": self.description}
        return JSONResponse(content, self.status, headers={**NO_STORE, **self.headers})


def restart_error(reason: str, status: int = 400) -> OAuthError:
    """Return the error of a login that the user must start again."""
    return OAuthError("invalid_request", f"{reason}; start the login again in the client", status=status)


# Parameters


class Parameters:
    """Parameters of a request. Parameters without a value are ignored (RFC 6749, section 3.1).

    No parameter may be repeated, because readers could disagree about its value; except `resource` (RFC 8707, 2).

    Args:
        data: The encoded query or form.

    Raises:
        OAuthError: The data is malformed or too long.
    """

    def __init__(self, data: bytes) -> None:
        if len(data) > MAX_SIZE:
            raise OAuthError("invalid_request", f"the parameters are longer than {MAX_SIZE} bytes")
        try:
            pairs = parse_qsl(data.decode("ascii"), keep_blank_values=True, errors="strict")
        except ValueError:
            raise OAuthError("invalid_request", "the parameters are not valid form data in UTF-8") from None
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            if value:
                self._values.setdefault(name, []).append(value)

    def get(self, name: str) -> str | None:
        """Return the value of a parameter; None if missing.

        Raises:
            OAuthError: The parameter is repeated.
        """
        values = self._values.get(name)
        if values is not None and len(values) > 1:
            raise OAuthError("invalid_request", f"{name} occurs more than once")
        return None if values is None else values[0]

    def require(self, name: str) -> str:
        """Return the value of a parameter.

        Raises:
            OAuthError: The parameter is missing or repeated.
        """
        value = self.get(name)
        if value is None:
            raise OAuthError("invalid_request", f"{name} is missing")
        return value

    def resources(self) -> Collection[str]:
        """Return all values of `resource`."""
        return self._values.get("resource", ())

    def check_repeated(self) -> Mapping[str, str]:
        """Check that no parameter is repeated, and return the values.

        Raises:
            OAuthError: A parameter is repeated.
        """
        return {name: self.require(name) for name in self._values if name != "resource"}


async def read_form(request: Request) -> Parameters:
    """Parse the form of a request.

    Raises:
        OAuthError: The body is not a form, or too long.
    """
    expected = "application/x-www-form-urlencoded"
    if http_headers.media_type(request.headers.get("content-type", "")) != expected:
        raise OAuthError("invalid_request", f"the Content-Type must be {expected}")
    return Parameters(await read_body(request))


async def read_body(request: Request, error: str = "invalid_request") -> bytes:
    """Read the body of a request.

    Raises:
        OAuthError: The body is too long or incomplete. The error code is `error`.
    """
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > MAX_SIZE:
                raise OAuthError(error, f"the body is longer than {MAX_SIZE} bytes", status=413)
    except ClientDisconnect:
        raise OAuthError(error, "the client disconnected before the body was complete") from None
    return body


# Scopes and resources


def requested_scopes(text: str | None, scopes: Scopes) -> tuple[str, ...]:
    """Return the scopes in the parameter `scope` that the server has.

    Clients without known scopes request those of OpenID Connect. An authorization server may ignore requested scopes
    (RFC 6749, section 3.3). So these are ignored, unless the server has them in its table or has no table.
    `offline_access` is ignored too, because all tokens can be refreshed.

    Raises:
        OAuthError: The server does not have one of the scopes.
    """
    table = scopes.table
    ignored = {"", "offline_access", *(_OPENID_SCOPES if table else ())}.difference(table)
    names = dict.fromkeys(name for name in (text or "").split(" ") if name not in ignored)
    for name in names:
        try:
            check_name(name)
        except ValueError:
            raise OAuthError("invalid_scope", "scope must be a space-separated list of scopes") from None
        if table and name not in table:
            known = " ".join(table)
            raise OAuthError(
                "invalid_scope", f"{name[:100]} is not a scope of this server. Its scopes are: {known}"
            )
    return tuple(names)


def common_scopes(requested: Collection[str], available: Collection[str], scopes: Scopes) -> tuple[str, ...]:
    """Return the requested scopes that are also available, including implied ones."""
    return scopes.reduced(sorted(scopes.expanded(requested) & scopes.expanded(available)))


def requested_resources(requested: Iterable[str], allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the requested resources, or all if none are requested (RFC 8707).

    Clients of revision 2025-03-26 request none.

    Raises:
        OAuthError: A resource is not allowed.
    """
    found: dict[str, None] = {}
    by_url = {canonical(each).rstrip("/"): each for each in reversed(allowed)}
    for url in requested:
        try:
            resource = None if "#" in url else by_url.get(canonical(url).rstrip("/"))
        except MetadataError:
            resource = None
        if resource is None:
            raise OAuthError("invalid_target", f"resource must be one of: {' '.join(allowed)}")
        found[resource] = None
    return tuple(found) or allowed


# Values that clients and browsers carry


def seal(keys: Keys, purpose: str, value: object, place: str = "") -> str:
    """Return a JSON value, compressed and encrypted, as text.

    Args:
        keys: Keys of the server.
        purpose: Purpose of the value, which has keys of its own.
        value: The value.
        place: Name of the place that the value is bound to.
    """
    data = zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 9)
    return base64url_encode(keys.encrypt(purpose, data, _encode_place(place)))


def unseal(keys: Keys, purpose: str, text: str, place: str = "") -> Any:
    """Return the value of `seal`; None if this server has not sealed the text for this purpose and place."""
    encrypted = base64url_decode(text)
    data = keys.decrypt(purpose, encrypted, _encode_place(place)) if encrypted else None
    return None if data is None else json.loads(zlib.decompress(data))


def _encode_place(place: str) -> bytes | None:
    return place.encode("utf-8", "surrogatepass") if place else None


# The address of the sender


def client_address(scope: AsgiScope) -> str | None:
    """Return the address that identifies the sender of a request.

    Args:
        scope: The request.

    Returns:
        The address, for IPv6 its network. None if it is that of a proxy that the ASGI server does not trust, because
        all its clients would share it.
    """
    peer = scope.get("client")
    return None if peer is None or is_untrusted_proxy(scope) else http_headers.caller_at(peer[0])


def is_untrusted_proxy(scope: AsgiScope) -> bool:
    """Return True if a private network sends forwarding headers that the ASGI server does not trust."""
    headers, peer = Headers(scope=scope), scope.get("client")
    if peer is None or not ("x-forwarded-for" in headers or "forwarded" in headers):
        return False
    try:
        address = ipaddress.ip_address(peer[0])
    except ValueError:
        return False
    return any(address in network for network in _PRIVATE_NETWORKS)
