"""Who says who a user is: what an authorization server leaves to somebody else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from .asked import Asked


class Ending(Protocol):
    """How a login ends: the user is sent back to the client."""

    async def allowed(
        self, asked: Asked, subject: str, scopes: Collection[str] | None, claims: Mapping[str, object]
    ) -> Response:
        """Send a user back with a code.

        Args:
            asked: What the client asked for.
            subject: Who the user is.
            scopes: What the user may have; None for all that there is.
            claims: What else their tokens say.

        Raises:
            OAuthError: This request has been answered before.
        """
        ...

    def refused(self, asked: Asked, error: str, description: str) -> Response:
        """Send a user back without one."""
        ...

    def failed(self, request: Request, detail: str) -> None:
        """Tell whoever watches that somebody could not say who they are.

        Args:
            request: What they sent.
            detail: What went wrong, with no secret in it.
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

    async def may_go_on(self, subject: str) -> bool:
        """Say whether a user may be issued tokens again, on a refresh."""
        return True
