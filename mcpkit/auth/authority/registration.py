"""Dynamic client registration (RFC 7591) without storage: the client ID contains the registration, encrypted."""

from __future__ import annotations

import json
import time
import unicodedata
import zlib
from collections.abc import Callable, Collection, Mapping

from ...protocol.jsonrpc import is_array
from ...storage.encryption_keys import Keys
from ..base64url import decode, encode
from .client import METHODS, Client
from .errors import OAuthError
from .redirects import check_redirect_uri, is_local

_PURPOSE = "OAuth client"
_SECRET = "OAuth client secret"
_PREFIX = "mcpkit-1."
"""Prefix of client IDs of this form."""
_MAX_REDIRECT_URIS = 32
_MAX_NAME = 100
_MOST_MARKS = 3
"""Maximum combining marks on one letter. More could reach over other lines."""
_BLANKS = frozenset("\u115f\u1160\u3164\uffa0\u2800")
"""Letters and symbols that look empty."""
_QUOTES = frozenset('"\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\u301d\u301e\uff02')
_GRANT_TYPES = ("authorization_code", "refresh_token")


class Registration:
    """Registers clients, and recognizes them in any process with the same secret. It cannot be filled up.

    Args:
        keys: Keys that encrypt IDs and sign secrets.
        clock: Returns the Unix time in seconds.
    """

    def __init__(self, keys: Keys, clock: Callable[[], float] = time.time) -> None:
        self._keys = keys
        self._clock = clock

    def register(self, metadata: Mapping[str, object]) -> dict[str, object]:
        """Register a client, and return the response (RFC 7591, section 3.2.1).

        Args:
            metadata: Client metadata. Unknown members are ignored.

        Raises:
            OAuthError: The metadata is not valid.
        """
        metadata = said_in(metadata)
        redirect_uris = redirect_uris_of(metadata)
        name = client_name(metadata)
        method = metadata.get("token_endpoint_auth_method", "client_secret_basic")
        if method not in METHODS:
            raise _refused(f"token_endpoint_auth_method must be one of {', '.join(METHODS)}")
        grant_types = grant_types_of(metadata)
        response_types = _chosen(metadata, "response_types", ("code",), "code")
        held = {"n": name, "r": redirect_uris, "m": method, "f": is_refreshing(grant_types)}
        sealed = self._keys.encrypt(_PURPOSE, zlib.compress(json.dumps(held).encode()))
        client_id = _PREFIX + encode(sealed)
        answer: dict[str, object] = {
            "client_id": client_id,
            "client_id_issued_at": int(self._clock()),
            "client_name": name,
            "redirect_uris": list(redirect_uris),
            "grant_types": grant_types,
            "response_types": response_types,
            "token_endpoint_auth_method": method,
            "application_type": _application_type(metadata, redirect_uris),
        }
        if method != "none":
            answer["client_secret"] = encode(self._keys.sign(_SECRET, client_id.encode()))
            answer["client_secret_expires_at"] = 0
        return answer

    def find(self, client_id: str) -> Client:
        """Return a registered client.

        Raises:
            OAuthError: The client ID is unknown.
        """
        sealed = decode(client_id.removeprefix(_PREFIX)) if client_id.startswith(_PREFIX) else None
        data = None if sealed is None else self._keys.decrypt(_PURPOSE, sealed)
        if data is None:
            raise OAuthError(
                "invalid_client",
                "client_id is unknown, or the secret of the server has changed. Register the client again",
                status=401,
            )
        held = json.loads(zlib.decompress(data))
        return Client(client_id, held["n"], tuple(held["r"]), held["m"], is_refreshing=held["f"])

    def has_secret(self, client: Client, secret: str) -> bool:
        """Return True if a secret is that of a registered client."""
        signature = decode(secret)
        return signature is not None and self._keys.verify(_SECRET, client.id.encode(), signature)


def is_registration(client_id: str) -> bool:
    """Return True if a client ID comes from dynamic registration."""
    return client_id.startswith(_PREFIX)


def said_in(metadata: Mapping[str, object]) -> dict[str, object]:
    """Return client metadata without null members."""
    return {name: value for name, value in metadata.items() if value is not None}


def redirect_uris_of(metadata: Mapping[str, object]) -> tuple[str, ...]:
    """Return the redirect URIs in client metadata.

    Raises:
        OAuthError: There is none, or one is not allowed.
    """
    given = metadata.get("redirect_uris")
    if not is_array(given) or not 1 <= len(given) <= _MAX_REDIRECT_URIS:
        raise OAuthError(
            "invalid_redirect_uri", f"redirect_uris must be a list of 1 to {_MAX_REDIRECT_URIS} URIs"
        )
    try:
        return tuple(dict.fromkeys(map(check_redirect_uri, given)))
    except ValueError as error:
        raise OAuthError("invalid_redirect_uri", str(error)) from None


def grant_types_of(metadata: Mapping[str, object]) -> list[str]:
    """Return the supported grant types in client metadata.

    Raises:
        OAuthError: The authorization code grant is missing.
    """
    return _chosen(metadata, "grant_types", _GRANT_TYPES, "authorization_code")


def is_refreshing(grant_types: Collection[str]) -> bool:
    """Return True if a client registered for refresh tokens (basic/authorization, "Refresh Tokens")."""
    return "refresh_token" in grant_types


def client_name(metadata: Mapping[str, object]) -> str:
    """Return the name of a client, in characters that are safe to display.

    Raises:
        OAuthError: The name is not a string, or too long.
    """
    name = metadata.get("client_name", "")
    if not isinstance(name, str) or len(name) > _MAX_NAME:
        raise _refused(f"client_name must be a string of at most {_MAX_NAME} characters")
    return " ".join(_shown(name).split()) or "A client without a name"


def _shown(name: str) -> str:
    """Return a name without invisible, direction-changing, quoting or overlapping characters."""
    shown: list[str] = []
    marks = 0
    for each in unicodedata.normalize("NFC", name):
        kind = unicodedata.category(each)[0]
        marks = marks + 1 if kind == "M" else 0
        if marks <= _MOST_MARKS and (kind != "C" or each == " ") and each not in _BLANKS:
            shown.append("'" if each in _QUOTES else each)
    return "".join(shown)


def _application_type(metadata: Mapping[str, object], redirect_uris: tuple[str, ...]) -> str:
    """Return `native` for a program on the machine of the user, else `web` (OpenID Connect Registration, 2)."""
    leads_here = any(map(is_local, redirect_uris))
    kind = metadata.get("application_type", "native" if leads_here else "web")
    if kind not in ("native", "web"):
        raise _refused("application_type must be native or web")
    if kind == "web" and leads_here:
        raise OAuthError(
            "invalid_redirect_uri",
            "application_type must be native for a client with loopback or private-use redirect URIs",
        )
    return str(kind)


def _chosen(metadata: Mapping[str, object], name: str, known: tuple[str, ...], needed: str) -> list[str]:
    """Return the supported items of a list (RFC 7591, section 2: the server may grant less than requested)."""
    given = metadata.get(name, [needed])
    if not is_array(given) or needed not in given:
        raise _refused(f"{name} must be a list that contains {needed}")
    return [each for each in known if each in given]


def _refused(description: str) -> OAuthError:
    return OAuthError("invalid_client_metadata", description)
