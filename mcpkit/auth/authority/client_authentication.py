"""Client authentication at the token endpoint (RFC 6749, section 2.3)."""

from __future__ import annotations

import base64
from urllib.parse import unquote_plus

from starlette.requests import Request

from ...protocol import http_headers
from .callers import caller_of
from .client import Client
from .clients import Clients
from .errors import OAuthError
from .parameters import Parameters


async def authenticated(request: Request, form: Parameters, clients: Clients) -> Client:
    """Authenticate the client of a request, and return it.

    Raises:
        OAuthError: The client is unknown, or its authentication failed.
    """
    header = request.headers.get("authorization")
    client_id, secret = (None, None) if header is None else _basic(header)
    named, sent = form.get("client_id"), form.get("client_secret")
    if secret is not None and sent is not None:
        raise OAuthError(
            "invalid_request",
            "the client uses two authentication methods: the Authorization header and client_secret",
        )
    if client_id is not None and named not in {None, client_id}:
        raise OAuthError("invalid_request", "client_id differs from the one in the Authorization header")
    client_id = client_id or named
    if client_id is None:
        raise OAuthError("invalid_client", "client_id is missing", status=401)
    secret = secret if header is not None else sent
    try:
        client = await clients.find(client_id, caller_of(request.scope))
        if client.method == "none" and secret is not None:
            raise _refused("this client has no secret: its token_endpoint_auth_method is none")
        if client.method != "none" and (secret is None or not clients.has_secret(client, secret)):
            raise _refused("the client secret is missing or wrong")
    except OAuthError as error:
        if error.status == 401 and header is not None:
            raise OAuthError(
                error.error,
                error.description,
                status=401,
                headers={"WWW-Authenticate": 'Basic realm="OAuth"'},
            ) from None
        raise
    return client


def _basic(header: str) -> tuple[str, str]:
    """Parse the client ID and secret in the header `Authorization`."""
    try:
        credentials = http_headers.token68(header, "basic")
        if credentials is None:
            raise ValueError
        text = base64.b64decode(credentials, validate=True).decode()
        name, separator, secret = text.partition(":")
        if not separator:
            raise ValueError
        return unquote_plus(name, errors="strict"), unquote_plus(secret, errors="strict")
    except ValueError:
        raise OAuthError(
            "invalid_client",
            "the Authorization header must be Basic with the client_id and the client secret",
            status=401,
            headers={"WWW-Authenticate": 'Basic realm="OAuth"'},
        ) from None


def _refused(description: str) -> OAuthError:
    return OAuthError("invalid_client", description, status=401)
