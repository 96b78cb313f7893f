"""Dynamic registration (RFC 7591), which keeps nothing: the id of a client holds what it has registered, encrypted."""

from __future__ import annotations

import json
import time
import unicodedata
import zlib
from collections.abc import Callable, Collection, Mapping

from ...protocol.jsonrpc import is_array
from ...state.keys import Keys
from ..base64url import decode, encode
from .client import METHODS, Client
from .errors import OAuthError
from .redirects import check_redirect_uri, is_local

_PURPOSE = "OAuth client"
_SECRET = "OAuth client secret"
_PREFIX = "mcpkit-1."
"""Begins the ids of this form."""
_MAX_REDIRECT_URIS = 32
_MAX_NAME = 100
_MOST_MARKS = 3
"""Marks on one letter; those of more could reach over other lines."""
_BLANKS = frozenset("\u115f\u1160\u3164\uffa0\u2800")
"""Letters and symbols that look like nothing."""
_QUOTES = frozenset('"\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\u301d\u301e\uff02')
_GRANT_TYPES = ("authorization_code", "refresh_token")


class Registration:
    """Registers clients, and knows them again in any process with the same secret. Nobody can fill it.

    Args:
        keys: Encrypt the ids and sign the secrets.
        clock: The time in Unix seconds.
    """

    def __init__(self, keys: Keys, clock: Callable[[], float] = time.time) -> None:
        self._keys = keys
        self._clock = clock

    def register(self, metadata: Mapping[str, object]) -> dict[str, object]:
        """Return what a client that registers itself is answered (RFC 7591, section 3.2.1).

        Args:
            metadata: What it says of itself; what is not known is passed over.

        Raises:
            OAuthError: It cannot be a client here.
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
        """Return a client that has registered itself.

        Raises:
            OAuthError: None has this id.
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
        """Say whether this is the secret of a client that has registered itself."""
        signature = decode(secret)
        return signature is not None and self._keys.verify(_SECRET, client.id.encode(), signature)


def is_registration(client_id: str) -> bool:
    """Say whether the id of a client is one that it was given when it registered itself."""
    return client_id.startswith(_PREFIX)


def said_in(metadata: Mapping[str, object]) -> dict[str, object]:
    """Return what a client says of itself; null is as good as nothing."""
    return {name: value for name, value in metadata.items() if value is not None}


def redirect_uris_of(metadata: Mapping[str, object]) -> tuple[str, ...]:
    """Return the redirect URIs that a client says it has.

    Raises:
        OAuthError: It has none, or one that no client may have.
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
    """Return how a client says it gets tokens, as far as that is known here.

    Raises:
        OAuthError: It does not by codes.
    """
    return _chosen(metadata, "grant_types", _GRANT_TYPES, "authorization_code")


def is_refreshing(grant_types: Collection[str]) -> bool:
    """Say whether a client wants refresh tokens: it says so (basic/authorization, "Refresh Tokens")."""
    return "refresh_token" in grant_types


def client_name(metadata: Mapping[str, object]) -> str:
    """Return what a client is called, in characters that a page can show without being turned about.

    Raises:
        OAuthError: Its name is no text, or too long.
    """
    name = metadata.get("client_name", "")
    if not isinstance(name, str) or len(name) > _MAX_NAME:
        raise _refused(f"client_name must be a string of at most {_MAX_NAME} characters")
    return " ".join(_shown(name).split()) or "A client without a name"


def _shown(name: str) -> str:
    """Return a name without what could hide in it, turn it about, end the quotes around it, or cover other lines."""
    shown: list[str] = []
    marks = 0
    for each in unicodedata.normalize("NFC", name):
        kind = unicodedata.category(each)[0]
        marks = marks + 1 if kind == "M" else 0
        if marks <= _MOST_MARKS and (kind != "C" or each == " ") and each not in _BLANKS:
            shown.append("'" if each in _QUOTES else each)
    return "".join(shown)


def _application_type(metadata: Mapping[str, object], redirect_uris: tuple[str, ...]) -> str:
    """Return whether it is a program on the user's machine, or runs elsewhere (OpenID Connect Registration, 2)."""
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
    """Return what of a list is known here (RFC 7591, section 2: the server may take less than it was asked for)."""
    given = metadata.get(name, [needed])
    if not is_array(given) or needed not in given:
        raise _refused(f"{name} must be a list that contains {needed}")
    return [each for each in known if each in given]


def _refused(description: str) -> OAuthError:
    return OAuthError("invalid_client_metadata", description)
