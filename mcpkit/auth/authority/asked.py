"""Authorization requests of clients, checked."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from ...storage.encryption_keys import Keys
from ..base64url import decode, encode
from .client import Client
from .errors import OAuthError
from .parameters import Parameters
from .parts import Parts

LIFETIME = 600.0
"""Seconds in which the user must answer."""
ID_LENGTH = 35

_PURPOSE = "OAuth authorization request"
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_EXPIRED = "this form has expired or is not valid; start the login again in the client"


@dataclass(frozen=True)
class Asked:
    """A checked authorization request.

    Attributes:
        id: ID of the request.
        client_id: Client that sent it.
        client_name: Name that the client gave itself.
        redirect_uri: Redirect URI.
        state: The `state` parameter.
        challenge: The PKCE challenge.
        scopes: Requested scopes.
        resources: Requested resources.
        nonce: Binds the request to the browser that received the page.
        expires: Unix time in seconds at which the request expires.
    """

    id: str
    client_id: str
    client_name: str
    redirect_uri: str
    state: str | None
    challenge: str
    scopes: Sequence[str]
    resources: Sequence[str]
    nonce: str
    expires: float


def dated_id() -> str:
    """Return an unguessable ID of `ID_LENGTH` letters. IDs sort by time of creation.

    Cookies are named by these IDs, because not every client sends the oldest cookie first.
    """
    return f"{time.time_ns() // 1_000:013x}{secrets.token_urlsafe(16)}"


def asked_by(
    client: Client, redirect_uri: str, parameters: Parameters, parts: Parts, clock: Callable[[], float]
) -> Asked:
    """Check an authorization request (RFC 6749, section 4.1.1; RFC 7636, section 4.3; RFC 8707, section 2).

    Raises:
        OAuthError: The request is not valid. The error may be sent to the redirect URI.
    """
    parameters.check()
    if parameters.require("response_type") != "code":
        raise OAuthError("unsupported_response_type", "response_type must be code")
    if parameters.get("response_mode") not in {None, "query"}:
        raise OAuthError("invalid_request", "response_mode must be query")
    for name in ("request", "request_uri"):
        if parameters.get(name) is not None:
            raise OAuthError(f"{name}_not_supported", f"{name} is not supported")
    challenge = parameters.get("code_challenge")
    if challenge is None or parameters.get("code_challenge_method") != "S256":
        raise OAuthError(
            "invalid_request", "PKCE is required: code_challenge with code_challenge_method S256"
        )
    if not _CHALLENGE.fullmatch(challenge):
        raise OAuthError("invalid_request", "code_challenge must be a SHA-256 hash in base64url")
    return Asked(
        dated_id(),
        client.id,
        client.name,
        redirect_uri,
        parameters.get("state"),
        challenge,
        parts.scopes_of(parameters.get("scope")),
        parts.resources_of(parameters.all("resource"), parts.resources),
        secrets.token_urlsafe(16),
        clock() + LIFETIME,
    )


def sealed(asked: Asked, keys: Keys) -> str:
    """Encrypt a request for the processes of this server."""
    return encode(keys.encrypt(_PURPOSE, json.dumps(asdict(asked)).encode()))


def opened(text: str, keys: Keys, clock: Callable[[], float] = time.time) -> Asked:
    """Decrypt a request.

    Raises:
        OAuthError: The text is not an encrypted request, or the request has expired.
    """
    data = decode(text)
    found = None if data is None else keys.decrypt(_PURPOSE, data)
    if found is None:
        raise OAuthError("invalid_request", _EXPIRED)
    asked = Asked(**json.loads(found))
    if clock() >= asked.expires:
        raise OAuthError("invalid_request", _EXPIRED)
    return asked
