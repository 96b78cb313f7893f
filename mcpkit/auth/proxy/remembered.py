"""What a user has allowed before, and need not be asked again: kept by their browser, and used where that is safe.

To skip the page takes all of this; what is not sure is asked:

- The user has said so on the page, in this browser, within 30 days, and it is they who come back from the provider: the
  next one who uses the browser is asked, and so is who has been sent away since (`server.revoke`).
- The client has registered itself, so that its id is known to one installation of one program. A metadata document is
  everybody's who uses that client: whoever rides on it would be let in by what its user has allowed elsewhere.
- The redirect URI leads to a program on this machine, and is the same but for the port. A site may have changed hands.
- It asks for the same resources, by name, and for no more scopes, with all that these imply today. A server of somebody
  else's that names this authorization server as its own gets a client to ask for another resource, or for none.
- The request was opened by a program, and by no page: `Sec-Fetch-Site: none`, which no page can say. A link, a form, a
  frame or a window of another site could have users log in unasked, and none the wiser.
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

from ...state.keys import Keys
from ...state.owner import digest_of
from ...state.principal import user
from ...state.revocations import Revocations
from ...state.scopes import Scopes
from ..authority.asked import Asked
from ..authority.cookies import set_cookie
from ..authority.redirects import is_local, is_web
from ..authority.registration import is_registration
from ..base64url import decode, encode

FIELD = "remember"
"""The form field that remembers the consent of a user."""
LIFETIME = 30 * 24 * 3600.0
"""Seconds for which it holds, from the page on; what is not asked prolongs nothing."""

_PURPOSE = "OAuth remembered consent"
_MOST = 8
_LONGEST = 3800
"""Consents in a browser, and characters of their cookie; the oldest is forgotten."""
_OPENED = {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
"""Fetch metadata headers of a top-level navigation that no page has caused."""
_BEFOREHAND = ("sec-purpose", "purpose")
"""Headers of what is fetched before a user wants it."""


@dataclass(frozen=True)
class _Consent:
    """What a user has allowed.

    Attributes:
        client: The client, as a digest.
        what: Where it has its users sent, and its resources, as a digest.
        scopes: The scopes, with those that they imply.
        whose: The user, as a digest.
        until: When it is to be asked again, in Unix seconds.
    """

    client: str
    what: str
    scopes: Sequence[str]
    whose: str
    until: float


class Remembered:
    """Remembers consents in one sealed cookie of the browser, and nowhere else.

    Args:
        issuer: The authorization server.
        provider: Who vouches for its users.
        scopes: What may be granted.
        keys: Seal the cookie.
        revocations: Who has been sent away.
        clock: The time in Unix seconds.
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
        """Say whether what this client asks may be remembered."""
        uri = asked.redirect_uri
        return is_registration(asked.client_id) and is_web(uri) and is_local(uri)

    def covers(self, asked: Asked, request: Request) -> str | None:
        """Return who has allowed what is asked before, and when; None where the user has to be asked.

        It is for `holds`, when somebody comes back from the provider.

        Args:
            asked: What is asked.
            request: What the browser has sent.
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
        """Say whether it was the user who comes back that has allowed it, and has not been sent away since.

        Args:
            whose: Who has allowed it, and when.
            subject: The user.

        Raises:
            OSError: The store does not answer.
        """
        since, _, digest = whose.partition(" ")
        if digest != self._whose(subject):
            return False
        sent_away = await self._revocations.latest(str(user(self._provider, subject, ()).id))
        return sent_away < float(since)

    def remember(self, asked: Asked, subject: str, request: Request, response: Response) -> None:
        """Let the browser that is answered remember what a user has allowed on the page.

        Args:
            asked: What they have allowed.
            subject: Who it was.
            request: What the browser has sent.
            response: What it is answered.
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
        """Let the browser that is answered forget what a client has been allowed.

        Args:
            client_id: The client.
            request: What the browser has sent.
            response: What it is answered.
        """
        kept = self._kept(request)
        others = [each for each in kept if each.client != _client(client_id)]
        if len(others) < len(kept):
            self._keep(others, response)

    def _whose(self, subject: str) -> str:
        """Return what stands for a user here."""
        return digest_of(f"{self._provider}\n{subject}")[:32]

    def _kept(self, request: Request) -> list[_Consent]:
        """Return what a browser remembers, the newest first."""
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
        """Set the cookie, or take it back where there is nothing to remember."""
        set_cookie(response, self._cookie, self._sealed(consents), LIFETIME, is_secure=self._is_secure)

    def _sealed(self, consents: list[_Consent]) -> str:
        if not consents:
            return ""
        text = json.dumps([asdict(each) for each in consents], separators=(",", ":"))
        return encode(self._keys.encrypt(_PURPOSE, zlib.compress(text.encode(), 9), self._place))


def _is_opened(headers: Mapping[str, str]) -> bool:
    """Say whether a program has opened a request in a browser, for its user to see."""
    is_navigation = all(headers.get(name) == value for name, value in _OPENED.items())
    return is_navigation and not any(name in headers for name in _BEFOREHAND)


def _client(client_id: str) -> str:
    return digest_of(client_id)[:32]


def _what(asked: Asked) -> str:
    """Return what stands for a client, where it has its users sent but for the port, and its resources."""
    uri = urlsplit(asked.redirect_uri)
    where = [uri.scheme, uri.hostname, uri.path, uri.query]
    return digest_of(json.dumps([asked.client_id, where, sorted(asked.resources)]))[:32]
