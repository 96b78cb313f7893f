"""Logins that are under way at the provider: each is in a cookie of the browser that began it, and nowhere else."""

from __future__ import annotations

import json
import re
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
from ..authority.asked import ID_LENGTH, LIFETIME, Asked, dated_id
from ..authority.errors import OAuthError
from ..base64url import decode, encode

_PURPOSE = "OAuth login at a provider"
_LONGEST = 3800
"""Characters of one cookie's value: browsers keep 4096 bytes of a cookie, with its name and attributes."""
_MOST = 6000
"""Characters of all cookies of logins: proxies read a header of 8 KiB."""
_OTHERS = 3
"""Logins that may be under way in a browser beside a new one."""
_NOT_THERE = (
    "this login began in another browser, or is over: go back to the client and begin anew, in one browser"
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
        self._is_secure = issuer.startswith("https:")
        self._prefix = f"{'__Host-' if self._is_secure else ''}mcpkit-login-"
        self._name = re.compile(rf"{re.escape(self._prefix)}([A-Za-z0-9_-]{{{ID_LENGTH}}})(?:\.[0-9])?")

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
        if len(sealed) > _MOST:
            raise OAuthError("invalid_request", "the state, or the redirect_uri, is too long")
        for name in self._abandoned(request, _MOST - len(sealed)):
            self._set(response, name, "")
        parts = [sealed[start : start + _LONGEST] for start in range(0, len(sealed), _LONGEST)]
        for number, part in enumerate(parts):
            self._set(response, self._cookie(transaction.id, number), part)

    def find(self, request: Request, state: str) -> Transaction:
        """Return the login with which a user comes back.

        Raises:
            OAuthError: This browser has begun none of that id, or it is too late.
        """
        parts = list[str]()
        while part := request.cookies.get(self._cookie(state, len(parts))):
            parts.append(part)
        data = decode("".join(parts))
        opened = None if not data else self._keys.decrypt(_PURPOSE, data, self._place(state))
        transaction = None if opened is None else _read(zlib.decompress(opened))
        if transaction is None or self._clock() >= transaction.expires:
            raise OAuthError("invalid_request", _NOT_THERE)
        return transaction

    def forget(self, transaction: Transaction, request: Request, response: Response) -> None:
        """Take a login from the browser that is being answered."""
        for name in request.cookies:
            if (match := self._name.fullmatch(name)) and match[1] == transaction.id:
                self._set(response, name, "")

    def _abandoned(self, request: Request, room: int) -> list[str]:
        """Return the cookies of other logins that there is no room for: the oldest."""
        sizes, names = dict[str, int](), dict[str, list[str]]()
        for name, value in request.cookies.items():
            if match := self._name.fullmatch(name):
                sizes[match[1]] = sizes.get(match[1], 0) + len(value)
                names.setdefault(match[1], []).append(name)
        abandoned = list[str]()
        for count, id_ in enumerate(sorted(names, reverse=True)):
            room -= sizes[id_]
            if room < 0 or count >= _OTHERS:
                abandoned += names[id_]
        return abandoned

    def _set(self, response: Response, name: str, value: str) -> None:
        """Set a cookie, or take it back, where it has no value."""
        response.set_cookie(
            name,
            value,
            max_age=int(LIFETIME) if value else 0,
            path="/",
            secure=self._is_secure,
            httponly=True,
            samesite="lax",  # it has to come along when the provider, another site, sends the user back
        )

    def _cookie(self, id_: str, number: int) -> str:
        return f"{self._prefix}{id_}.{number}" if number else f"{self._prefix}{id_}"

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
