"""Cookie of remembered consents: in the browser of the user, and used only if that is safe.

The consent page is skipped only under all of these conditions:

- The user chose it on the page, in this browser, within 30 days, and the same user returns from the provider. Another
  user of the browser sees the page, and so does a user after `server.revoke`.
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
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from ...identity.audit_and_revocation import Revocations
from ...identity.principals_and_scopes import digest_of, user
from ..authorization_server.consent_page import AuthorizationRequest
from ..authorization_server.html_pages import set_cookie
from ..authorization_server.oauth_clients import is_local, is_registration, is_web
from ..authorization_server.oauth_requests import Clock, seal, unseal
from ..verifier import ProtectedResource

FIELD = "remember"
"""Form field to remember the consent of a user."""
LIFETIME = 30 * 24 * 3600.0
"""Seconds for which a consent is valid, from the page on. Skipping the page does not extend it."""
MAX_CONSENTS = 8
"""Maximum consents in a browser. The oldest is dropped."""
MAX_COOKIE = 3800
"""Maximum characters of their cookie. The oldest consents are dropped."""

_PURPOSE = "OAuth remembered consent"
_NAVIGATION = {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
"""Fetch metadata headers of a top-level navigation that no page has caused."""
_SPECULATIVE = ("sec-purpose", "purpose")
"""Headers of requests that browsers send before a navigation of the user."""


@dataclass(frozen=True)
class _Consent:
    """A consent of a user.

    Attributes:
        client: Digest of the client ID.
        target: Digest of client ID, redirect URI and resources.
        scopes: The scopes, with the implied ones.
        user: Digest of the user.
        expires: Unix time in seconds at which the consent expires.
    """

    client: str
    target: str
    scopes: Sequence[str]
    user: str
    expires: float


class ConsentCookie:
    """Encrypted cookie of a browser with the remembered consents of its users, which are stored nowhere else.

    Args:
        issuer: The authorization server.
        user_issuer: Issuer of the user identities.
        resource: The protected server.
        clock: Returns the Unix time in seconds.
    """

    def __init__(
        self, issuer: str, user_issuer: str, resource: ProtectedResource, clock: Clock = time.time
    ) -> None:
        self._issuer = issuer
        self._user_issuer = user_issuer
        self._scopes = resource.scopes
        self._keys = resource.keys
        self._revocations = Revocations(resource.storage, resource.name)
        self._clock = clock
        self._is_secure = issuer.startswith("https:")
        self._cookie = f"{'__Host-' if self._is_secure else ''}mcpkit-remembered-{digest_of(issuer)[:8]}"

    def is_possible(self, authorization: AuthorizationRequest) -> bool:
        """Return True if the consent to this client can be remembered."""
        uri = authorization.redirect_uri
        return is_registration(authorization.client_id) and is_web(uri) and is_local(uri)

    def find(self, authorization: AuthorizationRequest, request: Request) -> str | None:
        """Return time and user of a consent that covers a request; None if the page must be shown.

        The value is for `is_valid`, after the user returns from the provider.

        Args:
            authorization: The authorization request.
            request: The HTTP request.
        """
        headers = request.headers
        if (
            not self.is_possible(authorization)
            or any(headers.get(name) != value for name, value in _NAVIGATION.items())
            or any(name in headers for name in _SPECULATIVE)
            or not any(request.query_params.getlist("resource"))
        ):
            return None
        scopes, target = self._scopes.expanded(authorization.scopes), _target(authorization)
        for each in self._read(request):
            if each.target == target and scopes.issubset(each.scopes):
                return f"{each.expires - LIFETIME!r} {each.user}"
        return None

    async def is_valid(self, consent: str, subject: str) -> bool:
        """Return True if a consent is of the user that returns, and the access of the user was not revoked since.

        Args:
            consent: Time and user of the consent.
            subject: The user.

        Raises:
            OSError: The storage does not respond.
        """
        since, _, digest = consent.partition(" ")
        if digest != self._user_digest(subject):
            return False
        revoked = await self._revocations.latest(str(user(self._user_issuer, subject, ()).id))
        return revoked < float(since)

    def remember(
        self, authorization: AuthorizationRequest, subject: str, request: Request, response: Response
    ) -> None:
        """Store a consent in the cookie of the response.

        Args:
            authorization: The allowed authorization request.
            subject: The user.
            request: The HTTP request.
            response: The response to it.
        """
        if not self.is_possible(authorization):
            return
        new = _Consent(
            _digest(authorization.client_id),
            _target(authorization),
            sorted(self._scopes.expanded(authorization.scopes)),
            self._user_digest(subject),
            self._clock() + LIFETIME,
        )
        consents = [new, *(each for each in self._read(request) if each.target != new.target)][:MAX_CONSENTS]
        while consents and len(self._seal(consents)) > MAX_COOKIE:
            consents.pop()
        if consents:
            self._write(consents, response)

    def forget(self, client_id: str, request: Request, response: Response) -> None:
        """Remove the consents to a client from the cookie of the response.

        Args:
            client_id: The client.
            request: The HTTP request.
            response: The response to it.
        """
        consents = self._read(request)
        others = [each for each in consents if each.client != _digest(client_id)]
        if len(others) < len(consents):
            self._write(others, response)

    def _user_digest(self, subject: str) -> str:
        return _digest(f"{self._user_issuer}\n{subject}")

    def _read(self, request: Request) -> list[_Consent]:
        """Return the consents in the cookie of a request, the newest first."""
        members = unseal(self._keys, _PURPOSE, request.cookies.get(self._cookie, ""), self._issuer)
        try:
            consents = [_Consent(**each) for each in members or ()]
        except TypeError:  # another version of mcpkit wrote other members
            return []
        now = self._clock()
        return [each for each in consents if now < each.expires]

    def _write(self, consents: list[_Consent], response: Response) -> None:
        """Set the cookie, or delete it if there is no consent."""
        value = self._seal(consents) if consents else ""
        set_cookie(response, self._cookie, value, LIFETIME, is_secure=self._is_secure)

    def _seal(self, consents: list[_Consent]) -> str:
        return seal(self._keys, _PURPOSE, [asdict(each) for each in consents], self._issuer)


def _digest(text: str) -> str:
    return digest_of(text)[:32]


def _target(authorization: AuthorizationRequest) -> str:
    """Return the digest of a client, its redirect URI without the port, and its resources."""
    uri = urlsplit(authorization.redirect_uri)
    where = [uri.scheme, uri.hostname, uri.path, uri.query]
    return _digest(json.dumps([authorization.client_id, where, sorted(authorization.resources)]))
