"""Logins in progress at the provider, each in a cookie of the browser that started it, and nowhere else."""

from __future__ import annotations

import json
import secrets
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response

from ...protocol.jsonrpc import Json
from ...storage.encryption_keys import Keys
from ..authority.asked import LIFETIME, Asked, dated_id
from ..authority.cookies import MOST, Cookies
from ..authority.errors import OAuthError
from ..base64url import decode, encode

_PURPOSE = "OAuth login at a provider"
_MOST = 4
"""Maximum logins in progress in one browser."""
_NOT_THERE = (
    "this login was started in another browser, or it is over; start it again in the client, in one browser"
)


@dataclass(frozen=True)
class Transaction:
    """A login in progress.

    Attributes:
        id: ID of the login, the `state` of the request to the provider.
        asked: The authorization request, which the user has allowed.
        verifier: The PKCE verifier for the provider (RFC 7636).
        nonce: Binds the ID token of the provider to this login.
        expires: Unix time in seconds at which the login expires.
        whose: User and time of a remembered consent (`Remembered.holds`); else None.
        is_kept: Whether the user chose to have the consent remembered.
    """

    id: str
    asked: Asked
    verifier: str
    nonce: str
    expires: float
    whose: str | None = None
    is_kept: bool = False

    @property
    def challenge(self) -> str:
        """The PKCE challenge for the provider (S256)."""
        return encode(sha256(self.verifier.encode()).digest())


class Transactions:
    """Starts logins, and finds them when the user returns.

    A login is encrypted, bound to its ID and to this authorization server, in a cookie that scripts and other sites
    cannot read. The browser sends it when the provider redirects the user here. So nothing is stored for users that
    never return, any process with the secret can continue, and a link sent to another user is useless. `Ending.claim`
    ensures that a login is used once.

    Args:
        issuer: The authorization server.
        keys: Keys that encrypt the cookies.
        clock: Returns the Unix time in seconds.
    """

    def __init__(self, issuer: str, keys: Keys, clock: Callable[[], float] = time.time) -> None:
        self._issuer = issuer
        self._keys = keys
        self._clock = clock
        self._cookies = Cookies("mcpkit-login-", _MOST, is_secure=issuer.startswith("https:"))

    def begin(self, asked: Asked, whose: str | None = None, *, is_kept: bool = False) -> Transaction:
        """Start a login; see `Transaction`."""
        return Transaction(
            dated_id(),
            asked,
            secrets.token_urlsafe(32),
            secrets.token_urlsafe(16),
            self._clock() + LIFETIME,
            whose,
            is_kept,
        )

    def keep(self, transaction: Transaction, request: Request, response: Response) -> None:
        """Set the cookie of a login in the response, and delete those of abandoned logins.

        Args:
            transaction: The login.
            request: The HTTP request.
            response: The response to it.

        Raises:
            OAuthError: The authorization request is too long for a cookie.
        """
        text = json.dumps(asdict(transaction), separators=(",", ":"))
        sealed = encode(
            self._keys.encrypt(_PURPOSE, zlib.compress(text.encode(), 9), self._place(transaction.id))
        )
        if len(sealed) > MOST:
            raise OAuthError("invalid_request", "state or redirect_uri is too long")
        self._cookies.keep(transaction.id, sealed, request, response)

    def find(self, request: Request, state: str) -> Transaction:
        """Return the login of a callback.

        Raises:
            OAuthError: This browser has not started the login, or it has expired.
        """
        data = decode(self._cookies.find(state, request))
        opened = None if not data else self._keys.decrypt(_PURPOSE, data, self._place(state))
        transaction = None if opened is None else _read(zlib.decompress(opened))
        if transaction is None or self._clock() >= transaction.expires:
            raise OAuthError("invalid_request", _NOT_THERE)
        return transaction

    def forget(self, transaction: Transaction, request: Request, response: Response) -> None:
        """Delete the cookie of a login in the response."""
        self._cookies.forget(transaction.id, request, response)

    def _place(self, id_: str) -> bytes:
        return f"{self._issuer}\n{id_}".encode("utf-8", "surrogatepass")


def _read(text: bytes) -> Transaction | None:
    """Return a login from decrypted text; None if another version of mcpkit wrote it."""
    members: Json = json.loads(text)
    try:
        asked = Asked(**members.pop("asked"))
        return Transaction(asked=asked, **members)
    except TypeError:
        return None
