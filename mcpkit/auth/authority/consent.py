"""The page on which a user allows a client something, answered by the browser that was shown it and by no other."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from html import escape
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from ...state.keys import Keys
from .asked import LIFETIME, Asked, opened, sealed
from .errors import OAuthError
from .pages import page
from .parameters import Parameters, of_form
from .parts import Parts
from .redirects import host_of, is_local

FIELD = "request"
"""The field of the form in which the request stands, sealed."""


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
        self._is_secure = parts.issuer.startswith("https:")

    def page(self, asked: Asked, forms: str, *, status: int = 200) -> Response:
        """Return the page for a request.

        Args:
            asked: The request.
            forms: What the user may do, as HTML; each form has `hidden(asked)` in it.
            status: The HTTP status.
        """
        response = page(
            f"{asked.client_name} wants to use {self._parts.name}", self._said(asked) + forms, status
        )
        response.set_cookie(
            self._cookie(asked),
            asked.nonce,
            max_age=int(LIFETIME),
            path="/" if self._is_secure else urlsplit(self._parts.url("/authorize")).path,
            secure=self._is_secure,
            httponly=True,
            samesite="strict",
        )
        return response

    def hidden(self, asked: Asked) -> str:
        """Return the field by which a form says what it answers."""
        return f'<input type="hidden" name="{FIELD}" value="{sealed(asked, self._keys)}">'

    async def answered(self, request: Request) -> tuple[Asked, Parameters]:
        """Return what a form answers, and what it says.

        Raises:
            OAuthError: It is none of the browser's that sends it.
        """
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
            raise OAuthError("invalid_request", "the form comes from another site", status=403)
        form = await of_form(request)
        asked = opened(form.require(FIELD), self._keys, self._clock)
        cookie = request.cookies.get(self._cookie(asked), "")
        if not hmac.compare_digest(cookie.encode(), asked.nonce.encode()):
            raise OAuthError("invalid_request", "the form was shown to another browser", status=403)
        return asked, form

    def _cookie(self, asked: Asked) -> str:
        return f"{'__Host-' if self._is_secure else ''}mcpkit-{asked.id}"

    def _said(self, asked: Asked) -> str:
        """Say who asks for what, and where the user would be sent."""
        table = self._parts.scopes.table
        wanted = "".join(
            f"<li>{escape(table[name].description)} <small>({escape(name)})</small></li>"
            if name in table
            else f"<li>{escape(name)}</li>"
            for name in asked.scopes
        )
        client_host = urlsplit(asked.client_id).netloc if asked.client_id.startswith("https:") else None
        known = f", known by {escape(client_host)}," if client_host else ""
        said = (
            f"<p>A client that calls itself <strong>{escape(asked.client_name)}</strong>{known} wants to use "
            f"<strong>{escape(self._parts.name)}</strong> in your name"
            f"{':' if wanted else '.'}</p>{f'<ul>{wanted}</ul>' if wanted else ''}"
            f"<p>You will be sent to <strong>{escape(host_of(asked.redirect_uri))}</strong>.</p>"
        )
        if is_local(asked.redirect_uri):
            said += (
                '<p class="note">That is a program on this computer, and any program here may use that name. '
                "Go on only if you have just started it yourself.</p>"
            )
        return said
