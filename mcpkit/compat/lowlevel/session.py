"""The request context and the client session of low-level servers."""

# ruff: noqa: N803 - arguments have the names that they have in `mcp`

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic

from pydantic.alias_generators import to_camel
from pydantic_core import to_jsonable_python
from typing_extensions import TypeVar

from ..._utils.exceptions import INVALID_PARAMS, INVALID_REQUEST, ClientResponseError, MissingCapabilityError
from ...execution.coroutines import within
from ...identity.principals_and_scopes import LIST_NAMES, Change
from ...protocol import jsonrpc
from ...protocol.jsonrpc import Json, RequestId, is_object
from ...protocol.objects import Incomplete
from ...protocol.revisions import CLIENT_METHODS, ELICITATION_IDS, Handshake, knows
from ...requests.progress_and_logging import as_text, loggable
from ...requests.request_record import call_of
from ...requests.requests_to_client import Question
from .. import types
from ..shared import McpError, differs
from ..types.unbuilt import plain

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ...context import Context
    from ...requests.requests_to_client import StandaloneChannel

SessionT = TypeVar("SessionT")
LifespanContextT = TypeVar("LifespanContextT", default=object)
RequestT = TypeVar("RequestT", default=object)
_LISTS = {f"notifications/{name}/list_changed": name for name in LIST_NAMES}
_CHANGES = {**_LISTS, "notifications/resources/updated": "resource"}
_ASKED = {  # what a client must have declared to be asked this, and what is not supported where it has not
    "elicitation/create": ("elicitation.form", "Elicitation"),
    "sampling/createMessage": ("sampling", "Sampling"),
    "roots/list": ("roots", "List roots"),
}


class NoTasks:
    """The experimental tasks of `mcp`: no request is one, and other attributes raise AttributeError."""

    is_task = client_supports_tasks = False
    task_metadata = None

    def __getattr__(self, name: str) -> object:
        raise AttributeError(f"mcpkit.compat has no tasks (.{name}). Use @server.tool(task=True) of mcpkit")


@dataclass(eq=False, repr=False)
class RequestContext(Generic[SessionT, LifespanContextT, RequestT]):
    """The context of a request, from `server.request_context`; `native` is the mcpkit `Context` of the request."""

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
"""The HTTP request of a message, as in Starlette."""


def dumped(value: Incomplete) -> Json:
    """Return a model of `mcp.types`, of any package, as the JSON object that is sent."""
    root: Incomplete = getattr(value, "root", value)
    if is_object(root):
        return root
    said: Json = to_jsonable_python(plain(root), by_alias=True, exclude_none=True)
    return said


class _Asked(Question[Json]):
    """A request to the client in the words of a low-level server, which also reads its result."""

    def __init__(self, method: str, params: Json) -> None:
        needed = ("elicitation.url",) if params.get("mode") == "url" else _ASKED.get(method, ())[:1]
        super().__init__(None, *needed)
        self.method, self._params = method, params

    def params(self, revision: str) -> Json:
        has_mode, has_id = knows(revision, "ElicitRequestParams", "mode"), revision in ELICITATION_IDS
        known = {"mode": has_mode, "elicitationId": has_id}
        return {name: value for name, value in self._params.items() if known.get(name, True)}

    def read(self, result: Mapping[str, object]) -> Json:
        return dict(result)


def _tells(of: str, kind: str = "", members: str = "") -> Callable[..., Coroutine[object, object, None]]:
    """Return a method that sends a notification; its arguments are those of `mcp`, by position or name."""
    names = members.split()

    async def tell(session: ServerSession, *values: object, **named: object) -> None:
        given = {**dict(zip(names, values, strict=False)), **named}
        given.pop("related_request_id", None)
        if given.keys() - names:
            raise TypeError(f"notifications/{of} takes {', '.join(names)}, got {', '.join(given)}")
        said = {to_camel(name): _sendable(name, value) for name, value in given.items()}
        params = dumped(getattr(types, f"{kind}NotificationParams")(**said)) if kind else {}
        await session.tell(f"notifications/{of}", params)

    return tell


class ServerSession:
    """One client: the same object for all requests of a session; without a session, one for each request."""

    experimental = NoTasks()
    send_log_message = _tells("message", "LoggingMessage", "level data logger")
    send_progress_notification = _tells("progress", "Progress", "progress_token progress total message")
    send_elicit_complete = _tells("elicitation/complete", "ElicitComplete", "elicitation_id")
    send_resource_updated = _tells("resources/updated", "ResourceUpdated", "uri")
    send_resource_list_changed = _tells("resources/list_changed")
    send_tool_list_changed = _tells("tools/list_changed")
    send_prompt_list_changed = _tells("prompts/list_changed")

    def __init__(self, ctx: Context) -> None:
        has_session = call_of(ctx).envelope.has_session
        self._native = None if has_session else ctx
        self._other: StandaloneChannel | None = call_of(ctx).channel.standalone if has_session else None
        self._is_stateless = call_of(ctx).era == "stateless"
        self._client, self._revision, self._server = ctx.client, ctx.protocol_version, ctx.server
        self._patience = call_of(ctx).runtime.timeouts.client_request

    @property
    def client_params(self) -> Incomplete:
        """The params of `initialize`: client info, capabilities and protocol version."""
        client = self._client
        info = {"name": "", "version": "", **client.info}
        said = {"protocolVersion": self._revision, "capabilities": client.capabilities, "clientInfo": info}
        return types.InitializeRequestParams.model_validate(said)

    def check_client_capability(self, capability: BaseModel) -> bool:
        """Return True if the client has declared a capability with all its members."""
        return _has(self._client.capabilities, dumped(capability))

    def _here(self) -> Context | None:
        """Return the current request of this client; None if it has ended."""
        context = request_ctx.get(None)
        native = self._native if context is None or context.session is not self else context.native
        return None if native is None or call_of(native).is_ended else native

    def _beside(self) -> StandaloneChannel:
        """Return the channel for messages outside of requests. Without one, raise the error of a closed stream."""
        why = "the request has ended, and the client has no session for further messages"
        if self._other is not None:
            if not self._other.has_ended:
                return self._other
            why = "the session of the client has ended"
        anyio = sys.modules.get("anyio")
        raise (RuntimeError if anyio is None else anyio.ClosedResourceError)(why)

    async def tell(self, method: str, params: Json) -> None:
        """Send a notification, on the stream of the current request or outside of requests."""
        here, is_change = self._here(), method in _CHANGES
        if self._is_stateless and is_change:  # whoever listens is told
            self._server.catalog.listeners.notify(Change(_CHANGES[method], params.get("uri")))
        elif self._is_stateless and here is not None and method == "notifications/message":
            await here.log(params["level"], params["data"], logger=params.get("logger"))
        else:
            is_beside = here is None or (is_change and self._other is not None and self._other.is_open)
            channel = self._beside() if here is None or is_beside else call_of(here).channel
            channel.send(jsonrpc.notification(method, params or None))
            await channel.ready()

    async def send_notification(self, notification: BaseModel, related_request_id: object = None) -> None:
        """Send a notification."""
        said = dumped(notification)
        await self.tell(said["method"], said.get("params", {}))

    async def send_request(
        self,
        request: BaseModel,
        result_type: type[Incomplete],
        request_read_timeout_seconds: timedelta | None = None,
        metadata: object = None,
        progress_callback: Callable[..., Awaitable[None]] | None = None,
    ) -> Incomplete:
        """Send a request to the client and return its result. Raises McpError if it has none."""
        if progress_callback is not None:
            raise NotImplementedError("mcpkit.compat has no send_request(progress_callback=). Omit it")
        said, limit = dumped(request), request_read_timeout_seconds
        asking = self._ask(_Asked(said["method"], said.get("params", {})))
        try:
            answer = await (asking if limit is None else within(limit.total_seconds(), asking))
        except TimeoutError:
            raise _error(408, f"Timed out while waiting for response to {type(request).__name__}") from None
        return result_type.model_validate(answer)

    async def _ask(self, asked: _Asked) -> Json:
        here = self._here()
        if self._is_stateless:
            again = "a handler that sends a request to a 2026-07-28 client runs again from the start with the response"
            differs("rounds", again)
        try:
            if here is not None and asked.method in CLIENT_METHODS:
                return (await here.ask(asked))[0]
            self._client.require(*asked.capabilities)
            way = self._beside()
            if way.questions is None or not way.is_open:
                why = "the client has no open stream for requests of the server"
                raise _error(types.CONNECTION_CLOSED, why)
            answers = await way.questions.ask([asked], [asked.request(self._revision)], way, self._patience)
            return dict(answers[0])
        except ClientResponseError as error:
            raise _error(error.code or 0, error.reason or str(error)) from None
        except MissingCapabilityError:
            if self._is_stateless:
                raise  # the client is told what it lacks
            raise _error(INVALID_REQUEST, f"{_ASKED[asked.method][1]} not supported") from None

    async def send_ping(self) -> Incomplete:
        """Ping the client."""
        return await self.send_request(types.PingRequest(), types.EmptyResult)

    async def list_roots(self) -> Incomplete:
        """Request the roots of the client."""
        return await self.send_request(types.ListRootsRequest(), types.ListRootsResult)

    async def elicit_form(
        self, message: str, requestedSchema: Json, related_request_id: object = None
    ) -> Incomplete:
        """Request that the user fills in a form."""
        form = types.ElicitRequestFormParams(message=message, requestedSchema=requestedSchema)
        return await self.send_request(types.ElicitRequest(params=form), types.ElicitResult)

    elicit = elicit_form

    async def elicit_url(
        self, message: str, url: str, elicitation_id: str, related_request_id: object = None
    ) -> Incomplete:
        """Request that the user visits a page."""
        page = types.ElicitRequestURLParams(message=message, url=url, elicitationId=elicitation_id)
        return await self.send_request(types.ElicitRequest(params=page), types.ElicitResult)

    async def create_message(
        self, messages: list[Incomplete], *, related_request_id: object = None, **options: object
    ) -> Incomplete:
        """Request a message from the client's model, with the options of `mcp`, such as `max_tokens=`."""
        has_tools, has_choice = (options.get(each) is not None for each in ("tools", "tool_choice"))
        if (has_tools or has_choice) and not self._client.supports("sampling.tools"):
            raise _error(INVALID_PARAMS, "Client does not support sampling tools capability")
        said = {to_camel(name): value for name, value in options.items()}
        asked = types.CreateMessageRequestParams(messages=messages, **said)
        kind = types.CreateMessageResultWithTools if has_tools else types.CreateMessageResult
        return await self.send_request(types.CreateMessageRequest(params=asked), kind)


def session_of(ctx: Context) -> ServerSession:
    """Return the session object for the client of a request."""
    envelope = call_of(ctx).envelope
    if not isinstance(envelope, Handshake) or not envelope.has_session:
        return ServerSession(ctx)
    if not isinstance(envelope.companion, ServerSession):
        envelope.companion = ServerSession(ctx)
    return envelope.companion


def _error(code: int, text: str) -> Exception:
    return McpError(types.ErrorData(code=code, message=text))


def _sendable(name: str, value: object) -> Any:
    """Return an argument of a notification as JSON; a log message may be any value."""
    if name == "data":
        return loggable(value)
    return as_text(value) if name in {"logger", "message"} and value is not None else value


def _has(declared: object, wanted: object, of: str = "") -> bool:
    """Return True if a capability is declared with all its members; experimental ones must have equal values."""
    if not is_object(wanted):
        return not wanted or bool(declared)
    if not is_object(declared):
        return False
    if of == "experimental":
        return wanted.items() <= declared.items()
    return of == "elicitation" or all(_has(declared.get(name), each, name) for name, each in wanted.items())
