"""What verifies the access tokens of requests: the interface of whatever stands in `Server(auth=...)`."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..common.errors import LoginNeededError

if TYPE_CHECKING:
    from starlette.routing import Route

    from ..state.audit import AuditLog
    from ..state.keys import Keys
    from ..state.principal import Principal
    from ..state.scopes import Scopes
    from ..state.shared import Storage

InThread = Callable[[Callable[[], object]], Awaitable[object]]
"""Calls a function in a thread, and returns what that returns."""


class InvalidTokenError(Exception):
    """A token is none of this server's: it is forged, expired, for somebody else, or no token at all (401).

    Args:
        description: Why, in one sentence that the client may read and the log keeps: visible ASCII without quotes and
            backslashes, and nothing of the token (RFC 6750, section 3).
        advice: What an operator may have to change, where that is likely: it goes to the log, once in a process, and to
            no client. Nothing of the token either.
    """

    def __init__(self, description: str, *, advice: str | None = None) -> None:
        super().__init__(description)
        self.description = description
        self.advice = advice


class VerifierUnavailableError(Exception):
    """Whether a token is good cannot be known now, as the provider does not answer (503).

    Args:
        description: What does not answer, for the log; the client is told no more than when to come again.
        retry_after: Seconds after which it makes sense to try again.
    """

    def __init__(self, description: str, *, retry_after: int = 5) -> None:
        super().__init__(description)
        self.description = description
        self.retry_after = retry_after


class AccessToken(NamedTuple):
    """What a verified token grants, and for how long.

    Attributes:
        principal: Who asks, with the scopes that were granted.
        expires: When the token expires, in Unix seconds; None where it does not.
        issued: When it was issued, in Unix seconds; None where nobody knows.
        fresh_until: Until when it need not be verified again, in Unix seconds; None for as long as it lives.
    """

    principal: Principal
    expires: float | None = None
    issued: float | None = None
    fresh_until: float | None = None


class ProtectedResource(NamedTuple):
    """Where a server is served, for what verifies its tokens.

    Attributes:
        public_url: Where clients reach the MCP endpoint.
        resources: The URLs of all endpoints that take tokens, each an audience of its own.
        name: The server's name.
        keys: What signs and encrypts for it.
        scopes: What may be granted.
        shared: What the processes that serve it share.
        audit: Hears of what happens, and whatever measures it.
        in_thread: Calls a function that may block in one of the server's worker threads.
    """

    public_url: str
    resources: tuple[str, ...]
    name: str
    keys: Keys
    scopes: Scopes
    shared: Storage
    audit: AuditLog
    in_thread: InThread = asyncio.to_thread


class VerifierContext(NamedTuple):
    """What a server keeps and signs with, for what verifies its tokens, also where it is not served.

    Attributes:
        name: The server's name.
        keys: What signs and encrypts for it.
        shared: What the processes that serve it share.
        audit: Hears of what happens.
    """

    name: str
    keys: Keys
    shared: Storage
    audit: AuditLog


class TokenVerifier(ABC):
    """Verifies the access tokens of a server. Write one for tokens of your own; `verify` is all it needs.

    Attributes:
        issuers: The authorization servers that clients are sent to; without any, nobody can log in by themselves.
        providers: The providers at which users have logged in, and whose tokens it has for them: what
            `ctx.upstream_token` takes.
    """

    issuers: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()

    @abstractmethod
    async def verify(self, token: str, audience: str) -> AccessToken:
        """Return what a token grants.

        It is not asked again for the same token while its grant is fresh.

        Args:
            token: What stands behind `Bearer`: text without spaces that anybody may have sent.
            audience: The URL of the endpoint, for which the token must have been issued.

        Raises:
            InvalidTokenError: It is none of this server's.
            VerifierUnavailableError: That cannot be known now.
        """

    def enter(self, site: ProtectedResource) -> None:  # noqa: B027 - most need nothing of it
        """Hear where the tokens are taken, once for each app before it serves.

        Raises:
            ValueError: It cannot be used there; the message says what to change.
        """

    def routes(self) -> Sequence[Route]:
        """Return what it serves at the root of the site, such as the endpoints of an authorization server.

        Pages of other sites are refused before, but where an endpoint has a true `is_for_any_origin`.
        """
        return ()

    def refusal(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Return why a request is not served at all, whatever token it has; None where it may be.

        Args:
            headers: Its headers by name in lower case.
        """
        return None

    def notices(self) -> Sequence[str]:
        """Return what an operator is told each time the server starts, such as what they have to register where."""
        return ()

    async def token_for(self, principal: Principal, provider: str, context: VerifierContext) -> str:
        """Return the access token that a user has at a provider, good for a while; see `Context.token_for`.

        Args:
            principal: The user.
            provider: One of `providers`.
            context: Whatever the server keeps.

        Raises:
            LoginNeededError: They have not logged in there, or have to do so again.
            ProviderUnavailableError: It does not answer.
        """
        raise LoginNeededError(provider)

    async def revoke(self, principal: Principal, context: VerifierContext) -> None:  # noqa: B027 - most have granted nothing
        """End what has been granted to somebody, by whichever client, so that no client gets tokens for it again.

        Raises:
            OSError: The shared store does not answer.
        """

    async def aclose(self) -> None:  # noqa: B027 - most have nothing to close
        """Close what it keeps open in the event loop that runs; it may be asked again all the same."""
