"""What a handler may ask of the request that it serves, and say before its result."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from ..calls.access import require
from ..calls.call import Call
from ..calls.reporting import HttpContext, Reporting
from ..common.current import current
from .catalog import ServerBase

if TYPE_CHECKING:
    from ..calls.sync_context import SyncContext
    from ..state.store import Store

State = TypeVar("State", default=Any)


class Context(Reporting, Generic[State]):
    """One request, as its handler sees it.

    A parameter annotated with it is filled in and stays out of the schema;
    `Context[Database]` types the lifespan's state. It ends with its call: whatever would send
    something afterwards raises RuntimeError. Two of one request are equal.
    """

    __slots__ = ()

    @property
    def server(self) -> ServerBase:
        """The server of the request: its components, and `notify_resource_updated`."""
        server = self._call.runtime.server
        assert isinstance(server, ServerBase), "every server is one"
        return server

    @property
    def state(self) -> State:
        """What the server's lifespan yielded; None without a lifespan.

        In a handler it is that of the server whose component it is, in a middleware that of the server which
        has the middleware.

        Raises:
            BusyError: In a middleware alone: the lifespan is still being entered, after the server's
                `Timeouts.startup`. Let it pass, as the client is told to try again.
            ProtocolError: In a middleware alone: it could not be entered.
        """
        return typing.cast("State", self._call.known_state)

    @property
    def storage(self) -> Store:
        """The storage of the server, `Server(storage=...)`, for data that its processes share."""
        return self._call.runtime.storage

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more: the call was cancelled, or its time is over.

        Code that does not await, such as a loop in a worker thread, asks from time to time.
        """
        return self._call.is_over

    @property
    def deadline(self) -> float | None:
        """When the call's time will be over, as `time.monotonic()` counts; None when it may take any.

        While a question to the client is open, the clock stands still.
        """
        return self._call.deadline

    def require_scopes(self, *scopes: str) -> None:
        """Go on only for whoever has been granted scopes; call it before anything has been done, from any thread.

        Over HTTP who lacks one is challenged (403), gets it granted, and sends the request again, as long as nothing
        has been sent and no `once` has been done in this round; `optional_scopes=` of the component alone delays the
        response until then. Later, and where there is no HTTP, the call fails: a tool with `isError: true` and the
        challenge in `_meta["mcp/www_authenticate"]` (basic/authorization, "Scope Challenge Handling").

        Args:
            scopes: All that what comes next needs: clients are asked for them at once.

        Raises:
            ChallengeError: One is missing; let it pass.
            InsufficientScopeError: One is missing, and it is too late to challenge whoever asks; let it pass.
            RegistrationError: The server has no such scope.
        """
        require(self._call, scopes)

    async def upstream_token(self, provider: str) -> str:
        """Return the access token that whoever asks has at the provider they have logged in with (`OAuthProxy`).

        It is good for a minute at least, where the provider lets it be: it is refreshed when that is due, once for all
        who ask at that time. Send it to that provider and to nobody else, and say nothing of it in a result or a log.

        Args:
            provider: The name of the provider, such as `"github"`.

        Raises:
            LoginNeededError: Whoever asks has not logged in there, as over stdio or by another provider, or has to do
                so again; let it pass.
            ProviderUnavailableError: The provider does not answer; let it pass.
            RegistrationError: Users of this server do not log in there.
            OSError: The shared store does not answer.
        """
        from ..calls.foreign import token_for

        return await token_for(self._call, provider)

    @property
    def http(self) -> HttpContext:
        """What the handler can do with the HTTP response."""
        return HttpContext(self._call)

    @property
    def sync(self) -> SyncContext:
        """The same reports and questions for functions that are not `async`."""
        from ..calls.sync_context import SyncContext

        return SyncContext(self)

    def __repr__(self) -> str:
        """Show the request."""
        return f"Context({self.method!r}, id={self.request_id!r}, protocol_version={self.protocol_version!r})"


def current_context() -> Context[Any]:
    """Return the Context of the request that is being served.

    Raises:
        RuntimeError: No request is being served here.
    """
    call = current.get(None)
    if not isinstance(call, Call):
        raise RuntimeError(  # noqa: TRY004 - there is none
            "no request is being handled. Call current_context() only within a handler"
        )
    return Context(call)
