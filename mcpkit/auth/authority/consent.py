"""Consent page for a client, bound to the browser that received it."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from html import escape
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from ...identity.principal import Principal
from ...protocol import http_headers
from ...storage.encryption_keys import Keys
from .asked import Asked, opened, sealed
from .cookies import Cookies
from .errors import OAuthError
from .pages import page, quoted
from .parameters import Parameters, of_form
from .parts import Parts
from .redirects import host_of, is_local, is_web
from .registration import is_registration

FIELD = "request"
"""Form field with the encrypted request."""

DENY = "Do not allow it"
"""Label of the button to deny."""

_MOST = 10
"""Maximum open pages of one browser. Otherwise a site could open pages until the cookie header is too long."""
_ELSEWHERE = "The operator of that site will be able to act in your name"
_HERE = "A program on this device"
_WARNING = (
    '<p class="note"><strong>Have you just started this yourself?</strong> Any program on this device may pretend to '
    "be another one. If you came here by a link, or do not know why you are here, do not allow it.</p>"
)


class Consent:
    """Consent page for authorization requests.

    The form contains the encrypted request, so nothing is stored for users that never answer. The request contains a
    nonce that is also in a cookie. So no other site, and no other browser with the form, can answer for the user.

    Args:
        parts: Components of the authorization server.
        keys: Keys that encrypt the form.
        clock: Returns the Unix time in seconds.
    """

    def __init__(self, parts: Parts, keys: Keys, clock: Callable[[], float] = time.time) -> None:
        self._parts = parts
        self._keys = keys
        self._clock = clock
        is_secure = parts.issuer.startswith("https:")
        path = "/" if is_secure else urlsplit(parts.url("/authorize")).path
        self._cookies = Cookies("mcpkit-", _MOST, is_secure=is_secure, path=path)

    def page(self, asked: Asked, forms: str, request: Request, *, status: int = 200) -> Response:
        """Return the page for a request.

        Args:
            asked: The authorization request.
            forms: The forms as HTML, each with `hidden(asked)`.
            request: The HTTP request. The oldest open pages of its browser are discarded if there are too many.
            status: The HTTP status.
        """
        title = f"Allow {quoted(asked.client_name)} to use {self._title}?"
        response = page(title, self._said(asked) + forms, status, look=self._parts.look)
        self._cookies.keep(asked.id, asked.nonce, request, response)
        return response

    def hidden(self, asked: Asked) -> str:
        """Return the hidden form field that identifies the request."""
        return f'<input type="hidden" name="{FIELD}" value="{sealed(asked, self._keys)}">'

    def choice(self, asked: Asked, allow: str, more: str = "") -> str:
        """Return a form with the field `answer`: `allow` or `deny`.

        Args:
            asked: The authorization request.
            allow: Label of the button to allow.
            more: HTML above the buttons.
        """
        return (
            f'<form method="post">{self.hidden(asked)}{more}'
            f'<button class="go" name="answer" value="allow">{escape(allow)}</button>'
            f'<button name="answer" value="deny">{DENY}</button></form>'
        )

    async def answered(self, request: Request) -> tuple[Asked, Parameters]:
        """Return the authorization request that a form answers, and the parameters of the form.

        Raises:
            OAuthError: The form was not sent by the browser that received it.
        """
        origin = request.headers.get("origin")
        if origin is not None and not http_headers.is_same_origin(origin, request.headers.get("host", "")):
            raise OAuthError(
                "invalid_request",
                "the form was sent by a page of another site; start the login again in the client",
                status=403,
            )
        form = await of_form(request)
        asked = opened(form.require(FIELD), self._keys, self._clock)
        cookie = self._cookies.find(asked.id, request)
        if not hmac.compare_digest(cookie.encode(), asked.nonce.encode()):
            raise OAuthError(
                "invalid_request",
                "the form was shown to another browser, or cookies are off; start the login again in "
                "the client",
                status=403,
            )
        if (answer := form.get("answer")) is not None:
            self.tell(asked, "allowed" if answer == "allow" else "denied")
        return asked, form

    def tell(self, asked: Asked, how: str) -> None:
        """Write the answer of a user to the audit log. `answered` does that if the form has an `answer`.

        Args:
            asked: The authorization request.
            how: `allowed`, `denied`, or `remembered` if the page was skipped.
        """
        whose = Principal(client_id=asked.client_id, issuer=self._parts.issuer)
        detail = f"{how}, to {host_of(asked.redirect_uri)}"
        self._parts.audit.emit("consent", whose, detail=detail, scopes=asked.scopes)

    @property
    def _title(self) -> str:
        return self._parts.look.title or self._parts.name

    def _said(self, asked: Asked) -> str:
        """Return the client, the redirect host and the requested scopes as HTML."""
        name, host = escape(asked.client_name), escape(host_of(asked.redirect_uri))
        said = (
            f"<dl><div><dt>Application</dt><dd><strong><bdi>{name}</bdi></strong>"
            f"<small>{_voucher(asked.client_id)}</small></dd></div>"
            f'<div><dt>Sends you back to</dt><dd><strong class="host">{host}</strong>'
        )
        if not is_local(asked.redirect_uri):
            return f"{said}<small>{_ELSEWHERE}</small></dd></div></dl>{self._wanted(asked)}"
        where = f"The program that opens {host} links on this device"
        return (
            f"{said}<small>{_HERE if is_web(asked.redirect_uri) else where}</small></dd></div></dl>"
            f"{self._wanted(asked)}{_WARNING}"
        )

    def _wanted(self, asked: Asked) -> str:
        table, title = self._parts.scopes.table, escape(self._title)
        wanted = "".join(
            f"<li>{escape(table[name].description)} <small>({escape(name)})</small></li>"
            if name in table
            else f"<li>{escape(name)}</li>"
            for name in asked.scopes
        )
        if not wanted:
            return f"<p>If you allow it, it may use {title} in your name.</p>"
        return f"<p>If you allow it, it may do this at {title} in your name:</p><ul>{wanted}</ul>"


def _voucher(client_id: str) -> str:
    """Return the source of the name of a client, as HTML."""
    if client_id.startswith("https:"):
        return f"<b>{escape(host_of(client_id))}</b> vouches for that name"
    if is_registration(client_id):
        return "The application chose this name; it is not verified"
    return "The operator of this server vouches for that name"
