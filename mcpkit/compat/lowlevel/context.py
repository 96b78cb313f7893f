"""The request that a low-level server serves, as its handlers see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic

from typing_extensions import TypeVar

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ...components.context import Context
    from ...protocol.jsonrpc import RequestId

SessionT = TypeVar("SessionT")
LifespanContextT = TypeVar("LifespanContextT", default=object)
RequestT = TypeVar("RequestT", default=object)


class NoTasks:
    """What there is of the experimental tasks of `mcp`: a request is none, and all else is refused."""

    is_task = client_supports_tasks = False
    task_metadata = None

    def __getattr__(self, name: str) -> object:
        instead = "write @server.tool(task=True) of mcpkit"
        raise AttributeError(f"tasks of `mcp` (.{name}) are not here: {instead}")


@dataclass(eq=False)
class RequestContext(Generic[SessionT, LifespanContextT, RequestT]):
    """What `server.request_context` says; `native` is the mcpkit `Context` of the same request."""

    request_id: RequestId
    meta: BaseModel | None
    session: SessionT
    lifespan_context: LifespanContextT
    experimental: NoTasks = field(default_factory=NoTasks)
    request: RequestT | None = None
    close_sse_stream: Callable[[], Awaitable[None]] | None = None
    close_standalone_sse_stream: Callable[[], Awaitable[None]] | None = None
    native: Context | None = None


request_ctx: ContextVar[RequestContext[object]] = ContextVar("request_ctx")
http_request: ContextVar[object] = ContextVar("http_request", default=None)
"""The request of HTTP that brings a message, as Starlette has it."""
