"""The page on which a user allows a client something, answered by the browser that was shown it and by no other."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from html import escape
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from ...protocol import header_fields
from ...state.keys import Keys
from ...state.principal import Principal
from .asked import Asked, opened, sealed
from .cookies import Cookies
from .errors import OAuthError
from .pages import page, quoted
from .parameters import Parameters, of_form
from .parts import Parts
from .redirects import host_of, is_local, is_web
from .registration import is_registration

FIELD = "request"
"""The field of the form in which the request stands, sealed."""

DENY = "Do not allow it"
"""What stands on the button for no."""

_MOST = 10
"""Pages of a browser that can be answered; a site could open them until no header holds their cookies."""
_ELSEWHERE = "The operator of that site will be able to act in your name"
_HERE = "A program on this device"
_WARNING = (
    '<p class="note"><strong>Have you just started this yourself?</strong> Any program on this device may pretend to '
    "be another one. If you came here by a link, or do not know why you are here, do not allow it.</p>"
)


class Consent:
    """Shows what a client asks, and takes the answer.

    What was asked is in the form, encrypted, so that nothing has to be kept of whoever never answers. It names a
    cookie of the browser's, so that no page elsewhere, and nobody who was sent the form, can answer for its user.

    Args:
        parts: The authorization server.
        keys: Encrypt the form.
        clock: The time in Unix seconds.
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
            asked: The request.
            forms: What the user may do, as HTML; each form has `hidden(asked)` in it.
            request: What the browser has sent; of its other pages those are forgotten that have waited longest.
            status: The HTTP status.
        """
        title = f"Allow {quoted(asked.client_name)} to use {self._title}?"
        response = page(title, self._said(asked) + forms, status, look=self._parts.look)
        self._cookies.keep(asked.id, asked.nonce, request, response)
        return response

    def hidden(self, asked: Asked) -> str:
        """Return the field by which a form says what it answers."""
        return f'<input type="hidden" name="{FIELD}" value="{sealed(asked, self._keys)}">'

    def choice(self, asked: Asked, allow: str, more: str = "") -> str:
        """Return a form in which a user says yes or no, in the field `answer`: `allow` or `deny`.

        Args:
            asked: The request.
            allow: What stands on the button for yes.
            more: What stands above the buttons, as HTML.
        """
        return (
            f'<form method="post">{self.hidden(asked)}{more}'
            f'<button class="go" name="answer" value="allow">{escape(allow)}</button>'
            f'<button name="answer" value="deny">{DENY}</button></form>'
        )

    async def answered(self, request: Request) -> tuple[Asked, Parameters]:
        """Return what a form answers, and what it says.

        Raises:
            OAuthError: It is none of the browser's that sends it.
        """
        origin = request.headers.get("origin")
        if origin is not None and not header_fields.is_same_origin(origin, request.headers.get("host", "")):
            raise OAuthError("invalid_request", "the form comes from another site", status=403)
        form = await of_form(request)
        asked = opened(form.require(FIELD), self._keys, self._clock)
        cookie = self._cookies.find(asked.id, request)
        if not hmac.compare_digest(cookie.encode(), asked.nonce.encode()):
            raise OAuthError("invalid_request", "the form was shown to another browser", status=403)
        if (answer := form.get("answer")) is not None:
            self.tell(asked, "allowed" if answer == "allow" else "denied")
        return asked, form

    def tell(self, asked: Asked, how: str) -> None:
        """Tell whoever watches what a user has answered; `answered` does so where the form has an `answer`.

        Args:
            asked: What was asked.
            how: `allowed`, `denied`, or `remembered` where they were not asked again.
        """
        whose = Principal(client_id=asked.client_id, issuer=self._parts.issuer)
        detail = f"{how}, to {host_of(asked.redirect_uri)}"
        self._parts.audit.emit("consent", whose, detail=detail, scopes=asked.scopes)

    @property
    def _title(self) -> str:
        return self._parts.look.title or self._parts.name

    def _said(self, asked: Asked) -> str:
        """Say who asks, where the user would be sent, and what for."""
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
    """Say who vouches for the name of a client, as HTML."""
    if client_id.startswith("https:"):
        return f"<b>{escape(host_of(client_id))}</b> vouches for that name"
    if is_registration(client_id):
        return "The application chose this name; it is not verified"
    return "The operator of this server vouches for that name"
