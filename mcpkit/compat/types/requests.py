"""Base classes of the requests in `mcp.types`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Generic, TypeAlias, TypeVar

from pydantic import AnyUrl, BaseModel, Field, UrlConstraints

from ...protocol.jsonrpc import Json
from .basic import Cursor, Model, ProgressToken, Whole

Url: TypeAlias = Annotated[AnyUrl, UrlConstraints(host_required=False)]


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
