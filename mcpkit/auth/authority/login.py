"""Interface of the login of users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from ...identity.principal import Principal
from ...protocol.jsonrpc import Json
from .asked import Asked
from .grants import GrantRecord


class Ending(Protocol):
    """End of a login: redirects the user to the client."""

    async def claim(self, asked: Asked) -> None:
        """Mark a request as answered, before any step that must not run twice.

        Raises:
            OAuthError: The request was already answered, in this or another process.
        """
        ...

    async def allowed(
        self,
        asked: Asked,
        subject: str,
        scopes: Collection[str] | None,
        claims: Mapping[str, object],
        held: Json | None = None,
    ) -> Response:
        """Redirect the user to the client with a code, after `claim`.

        Args:
            asked: The authorization request.
            subject: ID of the user.
            scopes: Scopes that the user may have; None for all.
            claims: Claims of the user.
            held: Data to store with the grant. `Keeper.let_go` receives it when the grant has ended or was not created.

        Raises:
            OSError: The storage does not respond, and there is no grant.
        """
        ...

    def refused(self, asked: Asked, error: str, description: str) -> Response:
        """Redirect the user to the client with an error."""
        ...

    def failed(
        self, request: Request, detail: str, status: int = 403, principal: Principal | None = None
    ) -> None:
        """Write a failed login to the audit log.

        Args:
            request: The HTTP request.
            detail: The reason, without secrets.
            status: The HTTP status of the response.
            principal: The user, if known.
        """
        ...


class Login(ABC):
    """Identifies users and obtains their consent."""

    @abstractmethod
    async def ask(self, ending: Ending, asked: Asked, request: Request) -> Response:
        """Respond to the browser of a valid authorization request, with a page or a redirect."""

    @abstractmethod
    async def answer(self, ending: Ending, request: Request) -> Response:
        """Respond to the form of that page.

        Raises:
            OAuthError: The form is not valid. The user sees an error page.
        """

    async def may_go_on(self, record: GrantRecord) -> bool | Collection[str]:
        """Check at a refresh whether a user may have new tokens. The refresh token is not used up yet.

        Args:
            record: The grant.

        Returns:
            True or False, or the maximum scopes until the next refresh.

        Raises:
            OAuthError: The check is not possible now. The refresh token stays valid.
        """
        return True
