"""The `Context` of `mcp.server.fastmcp`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Generic

from pydantic_core import core_schema
from typing_extensions import TypeVar

from ...protocol.objects import Incomplete

if TYPE_CHECKING:
    from pydantic import AnyUrl

    from ..lowlevel.client_session import RequestContext, ServerSession
    from ..lowlevel.lowlevel_server import ReadResourceContents
    from ..types import LoggingLevel
    from .elicitation import ElicitationResult, ElicitSchemaModelT, UrlElicitationResult

SessionT = TypeVar("SessionT", bound="ServerSession", default="Incomplete")
LifespanT = TypeVar("LifespanT", default="Incomplete")
RequestT = TypeVar("RequestT", default="Incomplete")


class Context(Generic[SessionT, LifespanT, RequestT]):
    """The current request; passed to a parameter with this annotation."""

    __slots__ = ("_fastmcp", "_request_context")

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> core_schema.CoreSchema:
        return core_schema.is_instance_schema(cls)

    def __init__(
        self,
        *,
        request_context: RequestContext[SessionT, LifespanT, RequestT] | None = None,
        fastmcp: Incomplete = None,
    ) -> None:
        self._request_context, self._fastmcp = request_context, fastmcp

    @property
    def fastmcp(self) -> Incomplete:
        """The server."""
        if self._fastmcp is None:
            raise ValueError("Context is not available outside of a request")
        return self._fastmcp

    @property
    def request_context(self) -> RequestContext[SessionT, LifespanT, RequestT]:
        """The request context of the low-level server."""
        if self._request_context is None:
            raise ValueError("Context is not available outside of a request")
        return self._request_context

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Send a progress notification if the client requested progress."""
        if (token := getattr(self.request_context.meta, "progressToken", None)) is not None:
            await self.session.send_progress_notification(token, progress, total, message, self.request_id)

    async def read_resource(self, uri: str | AnyUrl) -> Iterable[ReadResourceContents]:
        """Read a resource of the same server."""
        assert self._fastmcp is not None, "Context is not available outside of a request"
        read: Iterable[ReadResourceContents] = await self._fastmcp.read_resource(uri)
        return read

    async def elicit(
        self, message: str, schema: type[ElicitSchemaModelT]
    ) -> ElicitationResult[ElicitSchemaModelT]:
        """Request that the user fills in the fields of a model with primitive fields."""
        from .elicitation import elicit_with_validation

        return await elicit_with_validation(self.session, message, schema, self.request_id)

    async def elicit_url(self, message: str, url: str, elicitation_id: str) -> UrlElicitationResult:
        """Request that the user visits a page."""
        from .elicitation import elicit_url

        return await elicit_url(self.session, message, url, elicitation_id, self.request_id)

    async def log(self, level: LoggingLevel, message: str, *, logger_name: str | None = None) -> None:
        """Send a log message to the client."""
        await self.session.send_log_message(level, message, logger_name, self.request_id)

    async def debug(self, message: str, *, logger_name: str | None = None) -> None:
        """Send a log message of level `debug`."""
        await self.log("debug", message, logger_name=logger_name)

    async def info(self, message: str, *, logger_name: str | None = None) -> None:
        """Send a log message of level `info`."""
        await self.log("info", message, logger_name=logger_name)

    async def warning(self, message: str, *, logger_name: str | None = None) -> None:
        """Send a log message of level `warning`."""
        await self.log("warning", message, logger_name=logger_name)

    async def error(self, message: str, *, logger_name: str | None = None) -> None:
        """Send a log message of level `error`."""
        await self.log("error", message, logger_name=logger_name)

    @property
    def client_id(self) -> str | None:
        """The `client_id` in the request's `_meta`."""
        return getattr(self.request_context.meta, "client_id", None)

    @property
    def request_id(self) -> str:
        """The id of the request."""
        return str(self.request_context.request_id)

    @property
    def session(self) -> SessionT:
        """The session object of the client."""
        return self.request_context.session

    async def close_sse_stream(self) -> None:
        """Close the event stream of this request, so that a client that can resume reconnects."""
        if self._request_context is not None and (close := self._request_context.close_sse_stream):
            await close()

    async def close_standalone_sse_stream(self) -> None:
        """Do nothing: the stream for messages outside of requests stays open until the client closes it."""
