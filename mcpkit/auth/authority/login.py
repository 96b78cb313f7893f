"""Who says who a user is: what an authorization server leaves to somebody else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from ...protocol.types import Json
from ...state.principal import Principal
from .asked import Asked
from .grants import GrantRecord


class Ending(Protocol):
    """How a login ends: the user is sent back to the client."""

    async def claim(self, asked: Asked) -> None:
        """Take it that a request is answered now, before anything is done about it that must not be done twice.

        Raises:
            OAuthError: It has been answered before, here or in another process.
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
        """Send a user back with a code; the request has been claimed.

        Args:
            asked: What the client asked for.
            subject: Who the user is.
            scopes: What the user may have; None for all that there is.
            claims: What else is known of them.
            held: What the login keeps with the grant; `Keeper.let_go` hears of it when the grant has ended, or where
                there is none in the end.

        Raises:
            OSError: The store does not answer, and there is no grant.
        """
        ...

    def refused(self, asked: Asked, error: str, description: str) -> Response:
        """Send a user back without one."""
        ...

    def failed(
        self, request: Request, detail: str, status: int = 403, principal: Principal | None = None
    ) -> None:
        """Tell whoever watches that somebody could not say who they are, or may not come in.

        Args:
            request: What they sent.
            detail: What went wrong, with no secret in it.
            status: What they are answered.
            principal: Who it is, where that is known.
        """
        ...


class Login(ABC):
    """Finds out who a user is and what they allow."""

    @abstractmethod
    async def ask(self, ending: Ending, asked: Asked, request: Request) -> Response:
        """Answer a browser that a client has sent, and whose request is good: with a page, or a redirect."""

    @abstractmethod
    async def answer(self, ending: Ending, request: Request) -> Response:
        """Answer the form of that page.

        Raises:
            OAuthError: It is none; the user is told so.
        """

    async def may_go_on(self, record: GrantRecord) -> bool | Collection[str]:
        """Say whether a user may be issued tokens again, on a refresh, whose token has not been used up yet.

        Args:
            record: The grant.

        Returns:
            Whether they may; or the scopes that they may have at most, from now until the next refresh.

        Raises:
            OAuthError: That cannot be said now: the refresh token stays good.
        """
        return True
