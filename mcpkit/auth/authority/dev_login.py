"""Login page of `DevAuth`: the user of the browser selects a user."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from html import escape

from starlette.requests import Request
from starlette.responses import Response

from .asked import Asked
from .consent import DENY, Consent
from .errors import OAuthError
from .grants import GrantRecord
from .login import Ending, Login
from .people import DevUser


class DevLogin(Login):
    """Login page with a list of users, each with a button or a password.

    Args:
        users: Users by name.
        consent: The consent page.
    """

    def __init__(self, users: Mapping[str, DevUser], consent: Consent) -> None:
        self._users = users
        self._consent = consent

    async def ask(self, ending: Ending, asked: Asked, request: Request) -> Response:
        """Return the page."""
        return self._consent.page(asked, self._forms(asked), request)

    async def answer(self, ending: Ending, request: Request) -> Response:
        """Process the form: a selected user, or a denial.

        Raises:
            OAuthError: The form is not valid.
        """
        asked, form = await self._consent.answered(request)
        if form.get("answer") == "deny":
            return ending.refused(asked, "access_denied", "the user denied the request")
        user = self._users.get(form.require("user"))
        if user is None:
            raise OAuthError("invalid_request", "there is no user with that name")
        given = form.get("password") or ""
        if user.password is not None and not hmac.compare_digest(given.encode(), user.password.encode()):
            ending.failed(request, "wrong password")
            wrong = f'<p class="note" role="alert">Wrong password for {escape(user.name)}.</p>'
            return self._consent.page(asked, wrong + self._forms(asked), request, status=403)
        self._consent.tell(asked, "allowed")
        await ending.claim(asked)
        return await ending.allowed(asked, user.name, user.scopes, user.claims)

    async def may_go_on(self, record: GrantRecord) -> bool:
        """Return True if the user is still in the list."""
        return record.subject in self._users

    def _forms(self, asked: Asked) -> str:
        hidden = self._consent.hidden(asked)
        forms = "".join(
            f'<form method="post">{hidden}{_choice(user)}</form>' for user in self._users.values()
        )
        deny = f'<button name="answer" value="deny">{DENY}</button>'
        return f'{forms}<form method="post">{hidden}{deny}</form>'


def _choice(user: DevUser) -> str:
    name = escape(user.name)
    password = (
        ""
        if user.password is None
        else f'<label>Password of {name} <input type="password" name="password" required autocomplete="off"></label> '
    )
    return f'{password}<button class="go" name="user" value="{name}">Allow it as {name}</button>'
