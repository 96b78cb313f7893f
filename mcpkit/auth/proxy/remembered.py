"""Remembered consents: stored in the browser of the user, and used only if that is safe.

The page is skipped only under all of these conditions:

- The user chose it on the page, in this browser, within 30 days, and the same user returns from the provider. Another
  user of the browser sees the page, and so does a user whose access was revoked since (`server.revoke`).
- The client registered itself, so its ID is known to one installation of one program. A metadata document belongs to
  all users of a client: an attacker with that client could use a consent given to it elsewhere.
- The redirect URI leads to a program on this machine, and is the same except for the port. A site can change owners.
- The request names the same resources, and no more scopes, including the scopes that these imply today. An attacker's
  server that names this authorization server as its own makes a client request another resource, or none.
- A program opened the request, not a page: `Sec-Fetch-Site: none`, which pages cannot send. Otherwise a link, form,
  frame or window of another site could log users in without their knowledge.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from ...identity.principal import digest_of, user
from ...identity.revocation import Revocations
from ...identity.scopes import Scopes
from ...storage.encryption_keys import Keys
from ..authority.asked import Asked
from ..authority.cookies import set_cookie
from ..authority.redirects import is_local, is_web
from ..authority.registration import is_registration
from ..base64url import decode, encode

FIELD = "remember"
"""Form field to remember the consent of a user."""
LIFETIME = 30 * 24 * 3600.0
"""Seconds for which a consent is valid, from the page on. Skipping the page does not extend it."""

_PURPOSE = "OAuth remembered consent"
_MOST = 8
_LONGEST = 3800
"""Maximum consents in a browser, and characters of their cookie. The oldest is dropped."""
_OPENED = {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
"""Fetch metadata headers of a top-level navigation that no page has caused."""
_BEFOREHAND = ("sec-purpose", "purpose")
"""Headers of speculative requests before a navigation of the user."""


@dataclass(frozen=True)
class _Consent:
    """A consent of a user.

    Attributes:
        client: Digest of the client ID.
        what: Digest of redirect URI and resources.
        scopes: The scopes, with the implied ones.
        whose: Digest of the user.
        until: Unix time in seconds at which the consent expires.
    """

    client: str
    what: str
    scopes: Sequence[str]
    whose: str
    until: float


class Remembered:
    """Stores consents in one encrypted cookie of the browser, and nowhere else.

    Args:
        issuer: The authorization server.
        provider: Issuer of the user identities.
        scopes: Scopes of the server.
        keys: Keys that encrypt the cookie.
        revocations: Revocations of users.
        clock: Returns the Unix time in seconds.
    """

    def __init__(
        self,
        issuer: str,
        provider: str,
        scopes: Scopes,
        keys: Keys,
        revocations: Revocations,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._place = issuer.encode("utf-8", "surrogatepass")
        self._provider = provider
        self._scopes = scopes
        self._keys = keys
        self._revocations = revocations
        self._clock = clock
        self._is_secure = issuer.startswith("https:")
        self._cookie = f"{'__Host-' if self._is_secure else ''}mcpkit-remembered-{digest_of(issuer)[:8]}"

    def may_be(self, asked: Asked) -> bool:
        """Return True if the consent to this client can be remembered."""
        uri = asked.redirect_uri
        return is_registration(asked.client_id) and is_web(uri) and is_local(uri)

    def covers(self, asked: Asked, request: Request) -> str | None:
        """Return user and time of a remembered consent that covers a request; None if the page must be shown.

        The value is for `holds`, after the user returns from the provider.

        Args:
            asked: The authorization request.
            request: The HTTP request.
        """
        if not self.may_be(asked) or not _is_opened(request.headers):
            return None
        if not any(request.query_params.getlist("resource")):
            return None
        wanted, what = self._scopes.expanded(asked.scopes), _what(asked)
        for each in self._kept(request):
            if each.what == what and wanted.issubset(each.scopes):
                return f"{each.until - LIFETIME!r} {each.whose}"
        return None

    async def holds(self, whose: str, subject: str) -> bool:
        """Return True if the consent is of the user that returns, and the access of the user was not revoked since.

        Args:
            whose: User and time of the consent.
            subject: The user.

        Raises:
            OSError: The storage does not respond.
        """
        since, _, digest = whose.partition(" ")
        if digest != self._whose(subject):
            return False
        sent_away = await self._revocations.latest(str(user(self._provider, subject, ()).id))
        return sent_away < float(since)

    def remember(self, asked: Asked, subject: str, request: Request, response: Response) -> None:
        """Store a consent in the cookie of the response.

        Args:
            asked: The allowed authorization request.
            subject: The user.
            request: The HTTP request.
            response: The response to it.
        """
        if not self.may_be(asked):
            return
        new = _Consent(
            _client(asked.client_id),
            _what(asked),
            sorted(self._scopes.expanded(asked.scopes)),
            self._whose(subject),
            self._clock() + LIFETIME,
        )
        others = [each for each in self._kept(request) if each.what != new.what]
        kept = [new, *others][:_MOST]
        while len(self._sealed(kept)) > _LONGEST:
            kept.pop()
        if kept:
            self._keep(kept, response)

    def forget(self, client_id: str, request: Request, response: Response) -> None:
        """Remove the consents to a client from the cookie of the response.

        Args:
            client_id: The client.
            request: The HTTP request.
            response: The response to it.
        """
        kept = self._kept(request)
        others = [each for each in kept if each.client != _client(client_id)]
        if len(others) < len(kept):
            self._keep(others, response)

    def _whose(self, subject: str) -> str:
        """Return the digest of a user."""
        return digest_of(f"{self._provider}\n{subject}")[:32]

    def _kept(self, request: Request) -> list[_Consent]:
        """Return the consents in the cookie of a request, the newest first."""
        data = decode(request.cookies.get(self._cookie, ""))
        opened = None if not data else self._keys.decrypt(_PURPOSE, data, self._place)
        if opened is None:
            return []
        now = self._clock()
        try:
            found = [_Consent(**members) for members in json.loads(zlib.decompress(opened))]
        except TypeError:  # another version of mcpkit has written it otherwise
            return []
        return [each for each in found if now < each.until]

    def _keep(self, consents: list[_Consent], response: Response) -> None:
        """Set the cookie, or delete it if there is no consent."""
        set_cookie(response, self._cookie, self._sealed(consents), LIFETIME, is_secure=self._is_secure)

    def _sealed(self, consents: list[_Consent]) -> str:
        if not consents:
            return ""
        text = json.dumps([asdict(each) for each in consents], separators=(",", ":"))
        return encode(self._keys.encrypt(_PURPOSE, zlib.compress(text.encode(), 9), self._place))


def _is_opened(headers: Mapping[str, str]) -> bool:
    """Return True if a program opened the request in a browser, visibly for the user."""
    is_navigation = all(headers.get(name) == value for name, value in _OPENED.items())
    return is_navigation and not any(name in headers for name in _BEFOREHAND)


def _client(client_id: str) -> str:
    return digest_of(client_id)[:32]


def _what(asked: Asked) -> str:
    """Return the digest of a client, its redirect URI without the port, and its resources."""
    uri = urlsplit(asked.redirect_uri)
    where = [uri.scheme, uri.hostname, uri.path, uri.query]
    return digest_of(json.dumps([asked.client_id, where, sorted(asked.resources)]))[:32]
