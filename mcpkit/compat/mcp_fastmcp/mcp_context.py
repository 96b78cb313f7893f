"""The `Context` of `mcp.server.fastmcp`, and its elicitation requests with results that a model validates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Generic, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import core_schema
from typing_extensions import TypeVar

from ...protocol.objects import Incomplete

if TYPE_CHECKING:
    from pydantic import AnyUrl

    from ..lowlevel.lowlevel_server import ReadResourceContents
    from ..lowlevel.lowlevel_session import RequestContext, ServerSession
    from ..types import LoggingLevel

SessionT = TypeVar("SessionT", bound="ServerSession", default="Incomplete")
LifespanT = TypeVar("LifespanT", default="Incomplete")
RequestT = TypeVar("RequestT", default="Incomplete")
ElicitSchemaModelT = TypeVar("ElicitSchemaModelT", bound=BaseModel)

# Elicitation

_PRIMITIVE_TYPES = (str, int, float, bool)


class AcceptedElicitation(BaseModel, Generic[ElicitSchemaModelT]):
    """The user accepted the request."""

    action: Literal["accept"] = "accept"
    data: ElicitSchemaModelT


class DeclinedElicitation(BaseModel):
    """The user declined the request."""

    action: Literal["decline"] = "decline"


class CancelledElicitation(BaseModel):
    """The user dismissed the request."""

    action: Literal["cancel"] = "cancel"


class AcceptedUrlElicitation(BaseModel):
    """The user agreed to visit the page."""

    action: Literal["accept"] = "accept"


ElicitationResult = Union[AcceptedElicitation[ElicitSchemaModelT], DeclinedElicitation, CancelledElicitation]  # noqa: UP007
UrlElicitationResult = Union[AcceptedUrlElicitation, DeclinedElicitation, CancelledElicitation]  # noqa: UP007


def _is_primitive(annotation: object) -> bool:
    """Return True for the type of a field of a form."""
    is_union = get_origin(annotation) in {Union, UnionType}
    for each in get_args(annotation) if is_union else [annotation]:
        origin = get_origin(each)
        is_sequence = isinstance(origin, type) and issubclass(origin, Sequence)
        if each not in {None, NoneType, *_PRIMITIVE_TYPES} and not (is_sequence and get_args(each) == (str,)):
            return False
    return True


async def elicit_with_validation(
    session: ServerSession, message: str, schema: type[ElicitSchemaModelT], related_request_id: object = None
) -> ElicitationResult[ElicitSchemaModelT]:
    """Request that the user fills in the fields of a model."""
    for name, field in schema.model_fields.items():
        if not _is_primitive(field.annotation):
            raise TypeError(
                f"Elicitation schema field '{name}' must be a primitive type {_PRIMITIVE_TYPES}, a sequence of strings "
                "(list[str], etc.), or Optional of these types. Nested models and complex types are not allowed."
            )
    result = await session.elicit_form(message, schema.model_json_schema(), related_request_id)
    if result.action == "accept" and result.content is not None:
        return AcceptedElicitation(data=schema.model_validate(result.content))
    return _refused_elicitation(result.action)


async def elicit_url(
    session: ServerSession, message: str, url: str, elicitation_id: str, related_request_id: object = None
) -> UrlElicitationResult:
    """Request that the user visits a page."""
    result = await session.elicit_url(message, url, elicitation_id, related_request_id)
    return AcceptedUrlElicitation() if result.action == "accept" else _refused_elicitation(result.action)


def _refused_elicitation(action: str) -> DeclinedElicitation | CancelledElicitation:
    if action not in {"decline", "cancel"}:
        raise ValueError(f"Unexpected elicitation action: {action}")
    return DeclinedElicitation() if action == "decline" else CancelledElicitation()


# Context


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
        return await elicit_with_validation(self.session, message, schema, self.request_id)

    async def elicit_url(self, message: str, url: str, elicitation_id: str) -> UrlElicitationResult:
        """Request that the user visits a page."""
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
