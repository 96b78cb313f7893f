"""The `Context` of a request, which handlers use to read the request and to send messages to its client."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from ._utils.current import current
from .components.catalog import ServerBase
from .requests.access import require
from .requests.call import Call
from .requests.reporting import HttpContext, Reporting

if TYPE_CHECKING:
    from .requests.sync_context import SyncContext
    from .storage.base import Store

State = TypeVar("State", default=Any)


class Context(Reporting, Generic[State]):
    """The current request: its parameters and user, and the messages that its handler sends to the client.

    mcpkit passes it to a parameter with this annotation, which is not part of the input schema. `Context[Database]`
    gives `ctx.state` the type of what the lifespan yields:

        @server.tool
        async def count(table: str, ctx: Context[Database]) -> int:
            await ctx.info(f"counting {table}")
            return await ctx.state.count(table)

    It is valid until the call ends. A method that sends something later raises RuntimeError. Two contexts of one
    request are equal.
    """

    __slots__ = ()

    @property
    def server(self) -> ServerBase:
        """The server of the request, for `ctx.server.catalog` and `ctx.server.notify_resource_updated`."""
        server = self._call.runtime.server
        assert isinstance(server, ServerBase), "every server is one"
        return server

    @property
    def state(self) -> State:
        """The object that the server's lifespan yielded; None without a lifespan.

        In a handler, it belongs to the server of the component. In middleware, it belongs to the server of the
        middleware.

        Raises:
            BusyError: Only in middleware: the lifespan is still being entered after the server's `Timeouts.startup`. Do
                not catch it; the client gets a retryable error.
            ProtocolError: Only in middleware: the lifespan failed.
        """
        return typing.cast("State", self._call.known_state)

    @property
    def storage(self) -> Store:
        """The storage of the server, `Server(storage=...)`, for data that its processes share."""
        return self._call.runtime.storage

    @property
    def cancelled(self) -> bool:
        """True if the result is no longer needed, because the call was cancelled or its time limit has passed.

        Code that does not await, such as a loop in a worker thread, should check it regularly.
        """
        return self._call.is_over

    @property
    def deadline(self) -> float | None:
        """The time at which the call times out, on the clock of `time.monotonic()`; None if it has no time limit.

        The clock stops while the call waits for an answer of the client (elicitation, sampling, roots).
        """
        return self._call.deadline

    def require_scopes(self, *scopes: str) -> None:
        """Refuse the request unless its access token has these scopes: `ctx.require_scopes("notes:write")`.

        Call it before the handler changes anything, from any thread. Over HTTP, the client gets a challenge (403),
        obtains the scopes, and sends the request again. This works as long as the response has not begun and no `once`
        has run in this round; `optional_scopes=` of the component delays the response until then. Later, or without
        HTTP, the call fails: a tool with `isError: true` and the challenge in `_meta["mcp/www_authenticate"]`
        (basic/authorization, "Scope Challenge Handling").

        Args:
            scopes: All scopes that the next steps need. The client requests them at once.

        Raises:
            ChallengeError: A scope is missing. Do not catch it.
            InsufficientScopeError: A scope is missing, and a challenge is no longer possible. Do not catch it.
            RegistrationError: The server does not have such a scope.
            RuntimeError: The call has ended.
        """
        require(self._call, scopes)

    async def upstream_token(self, provider: str) -> str:
        """Return the user's access token at the provider of the login: `await ctx.upstream_token("github")`.

        It needs a server with `auth=OAuthProxy(...)`. The token is valid for at least a minute, if the provider allows
        that. mcpkit refreshes it when needed, once for all requests that wait for it. Send it only to this provider,
        and keep it out of results and logs.

        Args:
            provider: Name of the provider, such as `"github"`.

        Raises:
            LoginNeededError: The user has not logged in at this provider, or must log in again. Do not catch it.
            ChallengeError: The login has ended, and the client can log in again and repeat the request. Do not catch
                it.
            ProviderUnavailableError: The provider does not answer. Do not catch it.
            RegistrationError: Users of this server do not log in at this provider.
            OSError: The storage does not answer.
            RuntimeError: The call has ended.
        """
        from .requests.upstream_tokens import token_for

        return await token_for(self._call, provider)

    @property
    def http(self) -> HttpContext:
        """Access to the HTTP response of the request, see `HttpContext`."""
        return HttpContext(self._call)

    @property
    def sync(self) -> SyncContext:
        """The same methods for functions that are not `async`: `ctx.sync.info("...")`."""
        from .requests.sync_context import SyncContext

        return SyncContext(self)

    def __repr__(self) -> str:
        """Return the method, the id and the protocol version of the request."""
        return f"Context({self.method!r}, id={self.request_id!r}, protocol_version={self.protocol_version!r})"


def current_context() -> Context[Any]:
    """Return the `Context` of the current request, for helpers that a handler calls.

    Raises:
        RuntimeError: No request is being handled here.
    """
    call = current.get(None)
    if not isinstance(call, Call):
        raise RuntimeError(  # noqa: TRY004 - there is none
            "no request is being handled. Call current_context() only within a handler"
        )
    return Context(call)
