"""What a function may ask of the request that it serves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Generic

from pydantic_core import core_schema
from typing_extensions import TypeVar

from ...protocol.types import Incomplete

if TYPE_CHECKING:
    from pydantic import AnyUrl

    from ..lowlevel.server import ReadResourceContents
    from ..lowlevel.session import RequestContext, ServerSession
    from ..types import LoggingLevel
    from .elicitation import ElicitationResult, ElicitSchemaModelT, UrlElicitationResult

SessionT = TypeVar("SessionT", bound="ServerSession", default="Incomplete")
LifespanT = TypeVar("LifespanT", default="Incomplete")
RequestT = TypeVar("RequestT", default="Incomplete")


class Context(Generic[SessionT, LifespanT, RequestT]):
    """The request that a function serves; a parameter of this type gets it."""

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
        """What the low-level server knows of the request."""
        if self._request_context is None:
            raise ValueError("Context is not available outside of a request")
        return self._request_context

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Say how far the request has come, where its client wants to know."""
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
        """Ask the user for what a model of primitive fields holds."""
        from .elicitation import elicit_with_validation

        return await elicit_with_validation(self.session, message, schema, self.request_id)

    async def elicit_url(self, message: str, url: str, elicitation_id: str) -> UrlElicitationResult:
        """Ask the user to visit a page."""
        from .elicitation import elicit_url

        return await elicit_url(self.session, message, url, elicitation_id, self.request_id)

    async def log(self, level: LoggingLevel, message: str, *, logger_name: str | None = None) -> None:
        """Tell the client something."""
        await self.session.send_log_message(level, message, logger_name, self.request_id)

    async def debug(self, message: str, *, logger_name: str | None = None) -> None:
        """Tell it what is of use in finding an error."""
        await self.log("debug", message, logger_name=logger_name)

    async def info(self, message: str, *, logger_name: str | None = None) -> None:
        """Tell it what happens."""
        await self.log("info", message, logger_name=logger_name)

    async def warning(self, message: str, *, logger_name: str | None = None) -> None:
        """Tell it what may be wrong."""
        await self.log("warning", message, logger_name=logger_name)

    async def error(self, message: str, *, logger_name: str | None = None) -> None:
        """Tell it what is wrong."""
        await self.log("error", message, logger_name=logger_name)

    @property
    def client_id(self) -> str | None:
        """The client, as it calls itself in the request's `_meta`."""
        return getattr(self.request_context.meta, "client_id", None)

    @property
    def request_id(self) -> str:
        """The id of the request."""
        return str(self.request_context.request_id)

    @property
    def session(self) -> SessionT:
        """What speaks to the client."""
        return self.request_context.session

    async def close_sse_stream(self) -> None:
        """Close the stream of this request, so that its client comes back for it, where it can."""
        if self._request_context is not None and (close := self._request_context.close_sse_stream):
            await close()

    async def close_standalone_sse_stream(self) -> None:
        """Do nothing: the stream of what belongs to no request stays open as long as its client wants it."""
