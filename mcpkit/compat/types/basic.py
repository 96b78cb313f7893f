"""The classes of `mcp.types` that every server has before it is asked for anything: of requests, and of tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Generic, Literal, TypeAlias, TypeVar

from pydantic import AnyUrl, BaseModel, Field, UrlConstraints

from ...protocol.types import Json

LATEST_PROTOCOL_VERSION = "2025-11-25"
DEFAULT_NEGOTIATED_VERSION = "2025-03-26"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CONNECTION_CLOSED = -32000
URL_ELICITATION_REQUIRED = -32042

ProgressToken: TypeAlias = str | int
Cursor: TypeAlias = str
Role: TypeAlias = Literal["user", "assistant"]
Whole: TypeAlias = Annotated[int, Field(strict=True)]
RequestId: TypeAlias = Whole | str
Url: TypeAlias = Annotated[AnyUrl, UrlConstraints(host_required=False)]
LoggingLevel: TypeAlias = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]
AnyFunction: TypeAlias = Callable[..., object]


class Model(BaseModel, extra="allow", defer_build=True):
    pass


class TaskMetadata(Model):
    ttl: Whole | None = None


class RequestParams(BaseModel, defer_build=True):
    class Meta(Model):
        progressToken: ProgressToken | None = None

    task: TaskMetadata | None = None
    meta: Meta | None = Field(alias="_meta", default=None)


class PaginatedRequestParams(RequestParams):
    cursor: Cursor | None = None


RequestParamsT = TypeVar("RequestParamsT", bound=RequestParams | Json | None)
MethodT = TypeVar("MethodT", bound=str)


class Request(Model, Generic[RequestParamsT, MethodT]):
    method: MethodT
    params: RequestParamsT


if TYPE_CHECKING:
    _Paginated: TypeAlias = Request[PaginatedRequestParams | None, str]
else:
    _Paginated = Request  # pydantic builds what is parametrized at once


class PaginatedRequest(_Paginated):
    params: PaginatedRequestParams | None = None


class Result(Model):
    meta: Json | None = Field(alias="_meta", default=None)


class PaginatedResult(Result):
    nextCursor: Cursor | None = None


class Annotations(Model):
    audience: list[Role] | None = None
    priority: Annotated[float, Field(ge=0.0, le=1.0)] | None = None


class Icon(Model):
    """An icon for display in user interfaces."""

    src: str
    mimeType: str | None = None
    sizes: list[str] | None = None


class BaseMetadata(BaseModel, defer_build=True):
    """Base class for entities with name and optional title fields."""

    name: str
    title: str | None = None


class ToolAnnotations(Model):
    """Additional properties describing a Tool to clients.

    NOTE: all properties in ToolAnnotations are **hints**.
    They are not guaranteed to provide a faithful description of
    tool behavior (including descriptive properties like `title`).

    Clients should never make tool use decisions based on ToolAnnotations
    received from untrusted servers.
    """

    title: str | None = None
    readOnlyHint: bool | None = None
    destructiveHint: bool | None = None
    idempotentHint: bool | None = None
    openWorldHint: bool | None = None


class ToolExecution(Model):
    """Execution-related properties for a tool."""

    taskSupport: Literal["forbidden", "optional", "required"] | None = None


class Tool(BaseMetadata, Model):
    """Definition for a tool the client can call."""

    description: str | None = None
    inputSchema: Json
    outputSchema: Json | None = None
    icons: list[Icon] | None = None
    annotations: ToolAnnotations | None = None
    meta: Json | None = Field(alias="_meta", default=None)
    execution: ToolExecution | None = None
