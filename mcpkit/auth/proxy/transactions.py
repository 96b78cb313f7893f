"""Logins that are under way at the provider: each is in a cookie of the browser that began it, and nowhere else."""

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

from ...protocol.types import Json
from ...state.keys import Keys
from ..authority.asked import LIFETIME, Asked, dated_id
from ..authority.cookies import MOST, Cookies
from ..authority.errors import OAuthError
from ..base64url import decode, encode

_PURPOSE = "OAuth login at a provider"
_MOST = 4
"""Logins that may be under way in one browser."""
_NOT_THERE = (
    "this login was started in another browser, or it is over; start it again in the client, in one browser"
)


@dataclass(frozen=True)
class Transaction:
    """A login that is under way.

    Attributes:
        id: Which one: the `state` of the provider's request.
        asked: What the client asked for, and the user has allowed.
        verifier: What shows the provider that it was asked by whoever brings its code (RFC 7636).
        nonce: Ties the provider's ID token to this login.
        expires: When it is too late to come back, in Unix seconds.
        whose: Who has allowed it, and when, where that was remembered (`Remembered.holds`); else None.
        is_kept: Whether the user wants it to be remembered.
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
        """What the provider is told of the verifier: its S256 challenge."""
        return encode(sha256(self.verifier.encode()).digest())


class Transactions:
    """Begins logins, and finds them again when the user comes back.

    A login is sealed, bound to its id and to this authorization server, in a cookie that no script and no other site
    reads, and that comes along when the provider sends the user back. So nothing is kept of who never does, any process
    with the secret goes on with it, and whoever is sent somebody else's link has nothing to go on with. That it is
    used once is not to be seen here; see `Ending.claim`.

    Args:
        issuer: The authorization server.
        keys: Seal them.
        clock: The time in Unix seconds.
    """

    def __init__(self, issuer: str, keys: Keys, clock: Callable[[], float] = time.time) -> None:
        self._issuer = issuer
        self._keys = keys
        self._clock = clock
        self._cookies = Cookies("mcpkit-login-", _MOST, is_secure=issuer.startswith("https:"))

    def begin(self, asked: Asked, whose: str | None = None, *, is_kept: bool = False) -> Transaction:
        """Return a new login; see `Transaction`."""
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
        """Give a login to the browser that is being answered, and take from it those that it has abandoned.

        Args:
            transaction: The login.
            request: What the browser has sent.
            response: What it is answered.

        Raises:
            OAuthError: The client's request is too long for that.
        """
        text = json.dumps(asdict(transaction), separators=(",", ":"))
        sealed = encode(
            self._keys.encrypt(_PURPOSE, zlib.compress(text.encode(), 9), self._place(transaction.id))
        )
        if len(sealed) > MOST:
            raise OAuthError("invalid_request", "state or redirect_uri is too long")
        self._cookies.keep(transaction.id, sealed, request, response)

    def find(self, request: Request, state: str) -> Transaction:
        """Return the login with which a user comes back.

        Raises:
            OAuthError: This browser has begun none of that id, or it is too late.
        """
        data = decode(self._cookies.find(state, request))
        opened = None if not data else self._keys.decrypt(_PURPOSE, data, self._place(state))
        transaction = None if opened is None else _read(zlib.decompress(opened))
        if transaction is None or self._clock() >= transaction.expires:
            raise OAuthError("invalid_request", _NOT_THERE)
        return transaction

    def forget(self, transaction: Transaction, request: Request, response: Response) -> None:
        """Take a login from the browser that is being answered."""
        self._cookies.forget(transaction.id, request, response)

    def _place(self, id_: str) -> bytes:
        return f"{self._issuer}\n{id_}".encode("utf-8", "surrogatepass")


def _read(text: bytes) -> Transaction | None:
    """Return a login of what was sealed; None of what another version of mcpkit has written otherwise."""
    members: Json = json.loads(text)
    try:
        asked = Asked(**members.pop("asked"))
        return Transaction(asked=asked, **members)
    except TypeError:
        return None
