"""The middleware through which the handlers of a low-level server respond to requests of its mcpkit server."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from ..._utils.exceptions import INVALID_PARAMS, METHOD_NOT_FOUND, HandlerError, ProtocolError
from ...components.component import optional
from ...middleware.base import CallNext, Request, Result, ToolCallResult
from ...protocol.jsonrpc import Json
from ...protocol.objects import Incomplete
from ...protocol.revisions import RESUMABLE, SERVER_INFO, Handshake
from ...requests.request_record import call_of
from .. import types
from ..types.messages import FACTS
from ..types.unbuilt import plain
from .session import RequestContext, dumped, http_request, request_ctx, session_of

logger = logging.getLogger("mcpkit.compat")

_NAMES = {found[1]: name for name, fact in FACTS.items() if (found := re.search(r"method = ([\w/]+)", fact))}
"""The classes of requests and notifications, by method."""


class Bridge:
    """Calls the handlers of a low-level server; the engine serves requests without a handler."""

    def __init__(self, server: Incomplete) -> None:
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, request: Request, call_next: CallNext) -> Mapping[str, object]:
        """Serve one request, in either era."""
        method, ctx = request.method, request.ctx
        name = _NAMES.get(method)
        if name is None or method == "initialize":
            result = await call_next(request)
            if method in {"initialize", "server/discover"}:
                self._introduce(request, result)
            return result
        found = self._server.handler(name)
        if found is None:
            raise ProtocolError(METHOD_NOT_FOUND, "Method not found")
        kind, handler = found
        asked: Incomplete = None
        if request.params or getattr(handler, "with_request", handler):
            try:
                asked = _read(kind, name, optional(method=method, params=request.params or None))
            except ValidationError:
                raise ProtocolError(INVALID_PARAMS, "Invalid request parameters", "") from None
        http = http_request.get()
        meta = asked.params.meta if request.params else None
        state: object = {} if ctx.state is None else ctx.state
        close = ctx.http.close_stream if http is not None and ctx.protocol_version in RESUMABLE else None
        context: RequestContext[object] = RequestContext(
            ctx.request_id, meta, session_of(ctx), state, request=http, close_sse_stream=close, native=ctx
        )
        token = request_ctx.set(context)
        try:
            answer = await handler(asked)
            answer = getattr(answer, "root", answer)
            if call_of(ctx).era == "stateless":  # the engine adds what that wants
                return dumped(answer)
            written = to_json(plain(answer), by_alias=True, exclude_none=True, inf_nan_mode="null")
            return (ToolCallResult if method == "tools/call" else Result)(written)
        except (HandlerError, ProtocolError):
            raise
        except Exception as error:
            said: Incomplete = getattr(error, "error", None)
            if hasattr(said, "code") and hasattr(said, "message"):  # McpError
                raise ProtocolError(said.code, said.message, said.data) from error
            raise ProtocolError(0, str(error)) from error
        finally:
            request_ctx.reset(token)

    def _introduce(self, request: Request, result: Result) -> None:
        """Set the information of the low-level server in the result of `initialize` or `server/discover`."""
        options = self._server.initialization_options or self._server.create_initialization_options()
        said = dumped(options)
        info = {"name": said["server_name"], "version": said["server_version"]}
        info |= optional(websiteUrl=said.get("website_url"), icons=said.get("icons"))
        result["capabilities"] = said["capabilities"]
        if "instructions" in said:
            result["instructions"] = said["instructions"]
        envelope = call_of(request.ctx).envelope
        if isinstance(envelope, Handshake):
            result["serverInfo"] = info
            envelope.lists = frozenset()  # the server says itself what changes
        else:
            result["_meta"] = {SERVER_INFO: info}

    def hear(self, method: str, params: object) -> None:
        """Pass a notification of a client to its handler, if there is one."""
        name = _NAMES.get(method)
        if name is not None and (found := self._server.handler(name)):
            told = _heard(found[1], lambda: _read(found[0], name, optional(method=method, params=params)))
            task = asyncio.get_running_loop().create_task(told)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _heard(handler: Callable[[object], Awaitable[object]], told: Callable[[], object]) -> None:
    try:
        await handler(told())
    except Exception:
        logger.exception("The handler of a notification raised")


def _read(kind: type[BaseModel] | None, name: str, message: Json) -> Incomplete:
    """Return a message as an instance of its class, or of the class of mcpkit with this name."""
    return (kind or getattr(types, name)).model_validate(message)
