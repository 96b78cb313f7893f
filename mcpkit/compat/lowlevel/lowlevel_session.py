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
from ..shared_models_and_settings import McpError, log_difference, to_json_object

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ...context import Context
    from ...requests.requests_to_client import StandaloneChannel

SessionT = TypeVar("SessionT")
LifespanContextT = TypeVar("LifespanContextT", default=object)
RequestT = TypeVar("RequestT", default=object)

_CHANGES = {
    **{f"notifications/{name}/list_changed": name for name in LIST_NAMES},
    "notifications/resources/updated": "resource",
}
"""Notifications of changes, with the kind of change."""
_CAPABILITIES = {
    "elicitation/create": ("elicitation.form", "Elicitation"),
    "sampling/createMessage": ("sampling", "Sampling"),
    "roots/list": ("roots", "List roots"),
}
"""Requests to a client, with the capability that it must have, and its name in an error."""


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


class _ClientRequest(Question[Json]):
    """A request to the client with the params of a low-level server, which also reads its result."""

    def __init__(self, method: str, params: Json) -> None:
        is_url = params.get("mode") == "url"
        super().__init__(None, *(("elicitation.url",) if is_url else _CAPABILITIES.get(method, ())[:1]))
        self.method, self._params = method, params

    def params(self, revision: str) -> Json:
        has_mode, has_id = knows(revision, "ElicitRequestParams", "mode"), revision in ELICITATION_IDS
        known = {"mode": has_mode, "elicitationId": has_id}
        return {name: value for name, value in self._params.items() if known.get(name, True)}

    def read(self, result: Mapping[str, object]) -> Json:
        return dict(result)


def _notifies(
    method: str, params_class: str = "", parameters: str = ""
) -> Callable[..., Coroutine[object, object, None]]:
    """Return a method that sends a notification; its arguments are those of `mcp`, by position or name."""
    names = parameters.split()

    async def send(session: ServerSession, *values: object, **keywords: object) -> None:
        arguments = {**dict(zip(names, values, strict=False)), **keywords}
        arguments.pop("related_request_id", None)
        if arguments.keys() - names:
            raise TypeError(f"notifications/{method} takes {', '.join(names)}, got {', '.join(arguments)}")
        members = {to_camel(name): _sendable(name, value) for name, value in arguments.items()}
        params: Incomplete = getattr(types, params_class)(**members) if params_class else Json()
        await session.notify(f"notifications/{method}", to_json_object(params))

    return send


class ServerSession:
    """One client: the same object for all requests of a session; without a session, one for each request."""

    experimental = NoTasks()
    send_log_message = _notifies("message", "LoggingMessageNotificationParams", "level data logger")
    send_progress_notification = _notifies(
        "progress", "ProgressNotificationParams", "progress_token progress total message"
    )
    send_elicit_complete = _notifies(
        "elicitation/complete", "ElicitCompleteNotificationParams", "elicitation_id"
    )
    send_resource_updated = _notifies("resources/updated", "ResourceUpdatedNotificationParams", "uri")
    send_resource_list_changed = _notifies("resources/list_changed")
    send_tool_list_changed = _notifies("tools/list_changed")
    send_prompt_list_changed = _notifies("prompts/list_changed")

    def __init__(self, ctx: Context) -> None:
        call = call_of(ctx)
        has_session = call.envelope.has_session
        self._native = None if has_session else ctx
        self._standalone: StandaloneChannel | None = call.channel.standalone if has_session else None
        self._is_stateless = call.era == "stateless"
        self._client, self._revision, self._server = ctx.client, ctx.protocol_version, ctx.server
        self._timeout = call.runtime.timeouts.client_request

    @property
    def client_params(self) -> Incomplete:
        """The params of `initialize`: client info, capabilities and protocol version."""
        client = self._client
        return types.InitializeRequestParams.model_validate(
            {
                "protocolVersion": self._revision,
                "capabilities": client.capabilities,
                "clientInfo": {"name": "", "version": "", **client.info},
            }
        )

    def check_client_capability(self, capability: BaseModel) -> bool:
        """Return True if the client has declared a capability with all its members."""
        return _has_capability(self._client.capabilities, to_json_object(capability))

    # Notifications

    def _current(self) -> Context | None:
        """Return the current request of this client; None if it has ended."""
        context = request_ctx.get(None)
        native = self._native if context is None or context.session is not self else context.native
        return None if native is None or call_of(native).is_ended else native

    def _standalone_channel(self) -> StandaloneChannel:
        """Return the channel for messages outside of requests. Without one, raise the error of a closed stream."""
        reason = "the request has ended, and the client has no session for further messages"
        if self._standalone is not None:
            if not self._standalone.has_ended:
                return self._standalone
            reason = "the session of the client has ended"
        anyio = sys.modules.get("anyio")
        raise (RuntimeError if anyio is None else anyio.ClosedResourceError)(reason)

    async def notify(self, method: str, params: Json) -> None:
        """Send a notification, on the stream of the current request or outside of requests."""
        current, is_change = self._current(), method in _CHANGES
        if self._is_stateless and is_change:  # clients get it by their subscriptions
            self._server.catalog.listeners.notify(Change(_CHANGES[method], params.get("uri")))
        elif self._is_stateless and current is not None and method == "notifications/message":
            await current.log(params["level"], params["data"], logger=params.get("logger"))
        else:
            has_stream = self._standalone is not None and self._standalone.is_open
            is_standalone = current is None or (is_change and has_stream)
            channel = (
                self._standalone_channel() if current is None or is_standalone else call_of(current).channel
            )
            channel.send(jsonrpc.notification(method, params or None))
            await channel.ready()

    async def send_notification(self, notification: BaseModel, related_request_id: object = None) -> None:
        """Send a notification."""
        message = to_json_object(notification)
        await self.notify(message["method"], message.get("params", {}))

    # Requests

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
        message, limit = to_json_object(request), request_read_timeout_seconds
        response = self._request(_ClientRequest(message["method"], message.get("params", {})))
        try:
            result = await (response if limit is None else within(limit.total_seconds(), response))
        except TimeoutError:
            text = f"Timed out while waiting for response to {type(request).__name__}"
            raise _error(408, text) from None
        return result_type.model_validate(result)

    async def _request(self, request: _ClientRequest) -> Json:
        current = self._current()
        if self._is_stateless:
            log_difference(
                "rounds",
                "a handler that sends a request to a 2026-07-28 client runs again from the start with the response",
            )
        try:
            if current is not None and request.method in CLIENT_METHODS:
                return (await current.ask(request))[0]
            self._client.require(*request.capabilities)
            channel = self._standalone_channel()
            if channel.questions is None or not channel.is_open:
                text = "the client has no open stream for requests of the server"
                raise _error(types.CONNECTION_CLOSED, text)
            message = request.request(self._revision)
            results = await channel.questions.ask([request], [message], channel, self._timeout)
            return dict(results[0])
        except ClientResponseError as error:
            raise _error(error.code or 0, error.reason or str(error)) from None
        except MissingCapabilityError:
            if self._is_stateless:
                raise  # the engine sends the missing capability to the client
            raise _error(INVALID_REQUEST, f"{_CAPABILITIES[request.method][1]} not supported") from None

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
        params = types.ElicitRequestFormParams(message=message, requestedSchema=requestedSchema)
        return await self.send_request(types.ElicitRequest(params=params), types.ElicitResult)

    elicit = elicit_form

    async def elicit_url(
        self, message: str, url: str, elicitation_id: str, related_request_id: object = None
    ) -> Incomplete:
        """Request that the user visits a page."""
        params = types.ElicitRequestURLParams(message=message, url=url, elicitationId=elicitation_id)
        return await self.send_request(types.ElicitRequest(params=params), types.ElicitResult)

    async def create_message(
        self, messages: list[Incomplete], *, related_request_id: object = None, **options: object
    ) -> Incomplete:
        """Request a message from the client's model, with the options of `mcp`, such as `max_tokens=`."""
        has_tools, has_choice = (options.get(each) is not None for each in ("tools", "tool_choice"))
        if (has_tools or has_choice) and not self._client.supports("sampling.tools"):
            raise _error(INVALID_PARAMS, "Client does not support sampling tools capability")
        members = {to_camel(name): value for name, value in options.items()}
        params = types.CreateMessageRequestParams(messages=messages, **members)
        result = types.CreateMessageResultWithTools if has_tools else types.CreateMessageResult
        return await self.send_request(types.CreateMessageRequest(params=params), result)


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


def _has_capability(declared: object, capability: object, name: str = "") -> bool:
    """Return True if a capability is declared with all its members; experimental ones must have equal values."""
    if not is_object(capability):
        return not capability or bool(declared)
    if not is_object(declared):
        return False
    if name == "experimental":
        return capability.items() <= declared.items()
    return name == "elicitation" or all(
        _has_capability(declared.get(member), each, member) for member, each in capability.items()
    )
