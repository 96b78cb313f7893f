"""The `Context` of the package `fastmcp`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partialmethod
from typing import TYPE_CHECKING
from uuid import uuid4
from weakref import WeakKeyDictionary

from pydantic_core import PydanticSerializationError, to_json

from ...protocol.jsonrpc import Json, is_array
from ...protocol.objects import Incomplete
from .. import types
from ..lowlevel.client_session import http_request
from ..mcp_fastmcp.context import Context as PlainContext
from ..mcp_fastmcp.elicitation import CancelledElicitation, DeclinedElicitation
from .elicitation import AcceptedElicitation, Form
from .refusing import Refuses

if TYPE_CHECKING:
    from ...context import Context as NativeContext
    from .resources import ResourceResult

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class Sessions:
    """Data of a server's sessions: their ids, their state, and their minimum log level."""

    def __init__(self) -> None:
        self.ids: WeakKeyDictionary[object, str] = WeakKeyDictionary()
        self.states: WeakKeyDictionary[object, Json] = WeakKeyDictionary()
        self.levels: WeakKeyDictionary[object, str] = WeakKeyDictionary()


_VISIBLE = "use @server.tool(access=Access(visible=...)) of mcpkit"
_REFUSED = {
    "list_resources": "use await ctx.fastmcp.list_resources()",
    "list_prompts": "use await ctx.fastmcp.list_prompts()",
    "get_prompt": "use await ctx.fastmcp.render_prompt(name, arguments)",
    "enable_components": _VISIBLE,
    "disable_components": _VISIBLE,
    "reset_visibility": _VISIBLE,
    "input_responses": "use `await ctx.elicit(...)`, which works in every revision",
    "request_state": "use `await ctx.elicit(...)`, which works in every revision",
    "task_id": "use @server.tool(task=True) of mcpkit",
    "is_background_task": "use @server.tool(task=True) of mcpkit",
}


class Context(Refuses, PlainContext["Incomplete", "Incomplete", "Incomplete"]):
    """The current request; passed to a parameter with this annotation."""

    __slots__ = ("_own",)

    refused = _REFUSED

    def __init__(self, fastmcp: Incomplete, request_context: Incomplete = None) -> None:
        super().__init__(request_context=request_context, fastmcp=fastmcp)
        self._own: Json = {}

    if TYPE_CHECKING:

        @property
        def fastmcp(self) -> Incomplete:
            """The server."""

    @property
    def request_context(self) -> Incomplete:
        """The request context of the low-level server; None outside of a request."""
        return self._request_context

    @property
    def native(self) -> NativeContext | None:
        """The context of mcpkit; None outside of a request."""
        native: NativeContext | None = getattr(self._request_context, "native", None)
        return native

    @property
    def session(self) -> Incomplete:
        """The session object of the client.

        Raises:
            RuntimeError: No request is being served.
        """
        if self._request_context is None:
            raise RuntimeError("session is not available outside of a request")
        return self._request_context.session

    @property
    def request_id(self) -> str:
        """The id of the request."""
        if self._request_context is None:
            raise RuntimeError("request_id is not available outside of a request")
        return str(self._request_context.request_id)

    @property
    def session_id(self) -> str:
        """The id of the session: over HTTP that of the protocol, otherwise a generated one."""
        request: Incomplete = http_request.get()
        given = None if request is None else request.headers.get("mcp-session-id")
        made: str = given or self.fastmcp.sessions.ids.setdefault(self.session, str(uuid4()))
        return made

    @property
    def transport(self) -> str | None:
        """The transport of `run`; None if the server was started in another way."""
        transport: str | None = self.fastmcp.transport
        return transport

    @property
    def lifespan_context(self) -> Incomplete:
        """The object that the lifespan yielded; an empty dict without a lifespan."""
        return {} if self._request_context is None else self._request_context.lifespan_context

    # What it tells

    async def _tell(
        self,
        level: str,
        message: str,
        logger_name: str | None = None,
        extra: Mapping[str, Incomplete] | None = None,
    ) -> None:
        """Send a log message to the client, unless its level is below the minimum level of the session."""
        least = self.fastmcp.sessions.levels.get(self.session, self.fastmcp.client_log_level)
        if least is None or _LEVELS.index(level) >= _LEVELS.index(least):
            data = {"msg": message, "extra": None if extra is None else dict(extra)}
            await self.session.send_log_message(level, data, logger_name)

    debug: Incomplete = partialmethod(_tell, "debug")
    info: Incomplete = partialmethod(_tell, "info")
    warning: Incomplete = partialmethod(_tell, "warning")
    error: Incomplete = partialmethod(_tell, "error")

    async def log(  # type: ignore[override]  # as fastmcp has it
        self, message: str, level: str | None = None, *said: Incomplete, **more: Incomplete
    ) -> None:
        """Send a log message to the client, of level `info` by default."""
        await self._tell(level or "info", message, *said, **more)

    # What it asks of the client

    async def elicit(  # type: ignore[override]  # as fastmcp has it
        self,
        message: str,
        response_type: Incomplete,
        *,
        response_title: str | None = None,
        response_description: str | None = None,
    ) -> AcceptedElicitation[Incomplete] | DeclinedElicitation | CancelledElicitation:
        """Request a value of a type from the user."""
        form = Form(response_type, response_title, response_description)
        result = await self.session.elicit_form(message, form.schema, self.request_id)
        if result.action == "accept":
            return form.accepted(result.content)
        return DeclinedElicitation() if result.action == "decline" else CancelledElicitation()

    async def sample(
        self,
        messages: Incomplete,
        system_prompt: str | None = None,
        include_context: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        model_preferences: Incomplete = None,
    ) -> Incomplete:
        """Return the content that the client's model generates for texts or messages; it has a `text`."""
        given = [messages] if isinstance(messages, str) else messages
        asked = [
            types.SamplingMessage(role="user", content=types.TextContent(type="text", text=each))
            if isinstance(each, str)
            else each
            for each in given
        ]
        names: Incomplete = [model_preferences] if isinstance(model_preferences, str) else model_preferences
        if is_array(names):
            model_preferences = types.ModelPreferences(hints=[types.ModelHint(name=each) for each in names])
        result = await self.session.create_message(
            asked,
            max_tokens=max_tokens or 512,
            system_prompt=system_prompt,
            include_context=include_context,
            temperature=temperature,
            model_preferences=model_preferences,
        )
        return result.content

    async def list_roots(self) -> list[Incomplete]:
        """Return the roots of the client."""
        roots: list[Incomplete] = (await self.session.list_roots()).roots
        return roots

    # What it asks of the server

    async def read_resource(self, uri: Incomplete) -> ResourceResult:  # type: ignore[override]  # as fastmcp has it
        """Read a resource of the same server."""
        found: ResourceResult = await self.fastmcp.read_resource(str(uri))
        return found

    # What it keeps

    async def set_state(self, key: str, value: Incomplete, *, serializable: bool = True) -> None:
        """Store a value for the session; with `serializable=False`, any object for this request only."""
        if not serializable:
            self._own[key] = value
            return
        try:
            to_json(value)
        except PydanticSerializationError as error:
            raise TypeError(
                f"Value for state key {key!r} is not serializable. Use set_state({key!r}, value, serializable=False)"
            ) from error
        self._own.pop(key, None)
        self.fastmcp.sessions.states.setdefault(self.session, {})[key] = value

    async def get_state(self, key: str) -> Incomplete:
        """Return a stored value; None if there is none."""
        return (
            self._own[key]
            if key in self._own
            else self.fastmcp.sessions.states.get(self.session, {}).get(key)
        )

    async def delete_state(self, key: str) -> None:
        """Delete a stored value."""
        self._own.pop(key, None)
        self.fastmcp.sessions.states.get(self.session, {}).pop(key, None)
