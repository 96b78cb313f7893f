"""The `Context` of the package `fastmcp`, and its elicitation: the form for a type, and the result as a value of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partialmethod
from typing import TYPE_CHECKING, Generic, Literal, get_origin
from uuid import uuid4
from weakref import WeakKeyDictionary

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticSerializationError, core_schema, to_json
from typing_extensions import TypeVar

from ...protocol.jsonrpc import Json, is_array, is_object
from ...protocol.objects import Incomplete
from .. import types
from ..lowlevel.lowlevel_session import http_request
from ..mcp_fastmcp.mcp_server import CancelledElicitation, DeclinedElicitation
from ..mcp_fastmcp.mcp_server import Context as McpContext
from .fastmcp_components import Replacement, alternatives
from .function_calls import inlined, rooted

if TYPE_CHECKING:
    from ...context import Context as NativeContext
    from .resources_and_prompts import ResourceResult

# Elicitation

T = TypeVar("T", default=object)
_PRIMITIVE_TYPES = {"string", "number", "integer", "boolean"}


class AcceptedElicitation(BaseModel, Generic[T]):
    """The user accepted the request."""

    action: Literal["accept"] = "accept"
    data: T


@dataclass
class ScalarElicitationType(Generic[T]):
    """The form for one value."""

    value: T


class _FormSchema(GenerateJsonSchema):
    """Schema generator with inlined choices; lists of choices are `anyOf`."""

    def list_schema(self, schema: core_schema.ListSchema) -> JsonSchemaValue:
        made = super().list_schema(schema)
        items = made.get("items", {})
        return {**made, "items": {"anyOf": items["oneOf"]}} if "oneOf" in items else made


def _choices(of: Json, key: str) -> Json:
    return {key: [{"const": value, "title": each.get("title", value)} for value, each in of.items()]}


def _literal(values: Incomplete) -> Incomplete:
    return Literal[tuple(values)]


def _form_type(scalar: Incomplete, otherwise: Incomplete) -> Incomplete:
    generic: Incomplete = ScalarElicitationType
    return otherwise if scalar is None else generic[scalar]


class Form:
    """The form for a type of result.

    Args:
        response_type: A scalar, a `Literal`, an `Enum`, a dataclass, a model; or choices, as a list of texts or a dict
            of titles, within a list if several may be chosen.
        title: Title of the only field.
        description: Description of the only field.

    Raises:
        TypeError: The type has no form.
    """

    def __init__(
        self, response_type: Incomplete, title: str | None = None, description: str | None = None
    ) -> None:
        if response_type is None:
            raise TypeError("ctx.elicit() requires a response_type. Pass bool for a confirmation")
        inner: Incomplete = response_type[0] if is_array(response_type) and len(response_type) == 1 else None
        value: Json | None = None
        origin: Incomplete = get_origin(response_type)
        scalar: Incomplete = None  # the type of a form with one value
        if is_object(response_type):
            value, scalar = {**_choices(response_type, "oneOf"), "type": "string"}, _literal(response_type)
        elif inner and is_object(inner):
            value, scalar = {"type": "array", "items": _choices(inner, "anyOf")}, list[_literal(inner)]  # type: ignore[misc]  # made at run time
        elif inner and is_array(inner):
            value, scalar = {"type": "array", "items": {"enum": inner}}, list[_literal(inner)]  # type: ignore[misc]  # as above
        elif is_array(response_type):
            scalar = _literal(response_type)
        elif (
            response_type in (bool, int, float, str)
            or origin in (list, Literal)
            or (isinstance(response_type, type) and issubclass(response_type, Enum))
        ):
            scalar = response_type
        elif title is not None or description is not None:
            raise TypeError(
                "response_title and response_description work only with single values. Use Field(title=...) in a model"
            )
        self._adapter: TypeAdapter[Incomplete] = TypeAdapter(_form_type(scalar, response_type))
        if value is not None:
            self.schema: Json = {"type": "object", "properties": {"value": value}, "required": ["value"]}
        else:
            self.schema = inlined(rooted(self._adapter.json_schema(schema_generator=_FormSchema)))
            if scalar is not None:
                del self.schema["title"], self.schema["description"]
            _check_form(self.schema)
        if scalar is not None:
            texts = {"title": title, "description": description}
            self.schema["properties"]["value"].update(
                {name: each for name, each in texts.items() if each is not None}
            )

    def accepted(self, content: Incomplete) -> AcceptedElicitation[Incomplete]:
        """Return the result of the user. Raises pydantic's ValidationError."""
        value: Incomplete = self._adapter.validate_python(content)
        is_scalar = isinstance(value, ScalarElicitationType)
        return AcceptedElicitation(data=vars(value)["value"] if is_scalar else value)


def _check_form(schema: Json) -> None:
    if schema.get("type") != "object":
        raise TypeError(f"Elicitation schema must be an object schema, got type '{schema.get('type')}'.")
    for name, each in schema.get("properties", {}).items():
        items = each.get("items", {})
        if each.get("type") == "array":
            is_valid = (
                "enum" in items or "const" in items or all("const" in one for one in items.get("anyOf", [{}]))
            )
        else:
            members = each.get("anyOf") or each.get("oneOf") or [each]
            is_valid = all(
                "const" in one or "enum" in one or one.get("type") in _PRIMITIVE_TYPES for one in members
            )
        if not is_valid:
            raise TypeError(
                f"Elicitation schema field '{name}' must be a string, a number, a boolean or an enum: forms are flat"
            )


# Context

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class Sessions:
    """Data of a server's sessions: their ids, their state, and their minimum log level."""

    def __init__(self) -> None:
        self.ids: WeakKeyDictionary[object, str] = WeakKeyDictionary()
        self.states: WeakKeyDictionary[object, Json] = WeakKeyDictionary()
        self.levels: WeakKeyDictionary[object, str] = WeakKeyDictionary()


_ALTERNATIVES = alternatives("""
list_resources: use await ctx.fastmcp.list_resources()
list_prompts: use await ctx.fastmcp.list_prompts()
get_prompt: use await ctx.fastmcp.render_prompt(name, arguments)
enable_components disable_components reset_visibility: use @server.tool(access=Access(visible=...)) of mcpkit
input_responses request_state: use `await ctx.elicit(...)`, which works in every revision
task_id is_background_task: use @server.tool(task=True) of mcpkit
""")


class Context(Replacement, McpContext["Incomplete", "Incomplete", "Incomplete"]):
    """The current request; passed to a parameter with this annotation."""

    __slots__ = ("_request_state",)

    refused = _ALTERNATIVES

    def __init__(self, fastmcp: Incomplete, request_context: Incomplete = None) -> None:
        super().__init__(request_context=request_context, fastmcp=fastmcp)
        self._request_state: Json = {}

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
        header = None if request is None else request.headers.get("mcp-session-id")
        id_: str = header or self.fastmcp.sessions.ids.setdefault(self.session, str(uuid4()))
        return id_

    @property
    def transport(self) -> str | None:
        """The transport of `run`; None if the server was started in another way."""
        transport: str | None = self.fastmcp.transport
        return transport

    @property
    def lifespan_context(self) -> Incomplete:
        """The object that the lifespan yielded; an empty dict without a lifespan."""
        return {} if self._request_context is None else self._request_context.lifespan_context

    # Log messages

    async def _log(
        self,
        level: str,
        message: str,
        logger_name: str | None = None,
        extra: Mapping[str, Incomplete] | None = None,
    ) -> None:
        """Send a log message to the client, unless its level is below the minimum level of the session."""
        minimum = self.fastmcp.sessions.levels.get(self.session, self.fastmcp.client_log_level)
        if minimum is None or _LEVELS.index(level) >= _LEVELS.index(minimum):
            data = {"msg": message, "extra": None if extra is None else dict(extra)}
            await self.session.send_log_message(level, data, logger_name)

    debug: Incomplete = partialmethod(_log, "debug")
    info: Incomplete = partialmethod(_log, "info")
    warning: Incomplete = partialmethod(_log, "warning")
    error: Incomplete = partialmethod(_log, "error")

    async def log(  # type: ignore[override]  # as fastmcp has it
        self, message: str, level: str | None = None, *arguments: Incomplete, **options: Incomplete
    ) -> None:
        """Send a log message to the client, of level `info` by default."""
        await self._log(level or "info", message, *arguments, **options)

    # Requests to the client

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
        sampling_messages = [
            types.SamplingMessage(role="user", content=types.TextContent(type="text", text=each))
            if isinstance(each, str)
            else each
            for each in ([messages] if isinstance(messages, str) else messages)
        ]
        names: Incomplete = [model_preferences] if isinstance(model_preferences, str) else model_preferences
        if is_array(names):
            model_preferences = types.ModelPreferences(hints=[types.ModelHint(name=each) for each in names])
        result = await self.session.create_message(
            sampling_messages,
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

    # Requests to the server

    async def read_resource(self, uri: Incomplete) -> ResourceResult:  # type: ignore[override]  # as fastmcp has it
        """Read a resource of the same server."""
        result: ResourceResult = await self.fastmcp.read_resource(str(uri))
        return result

    # State

    async def set_state(self, key: str, value: Incomplete, *, serializable: bool = True) -> None:
        """Store a value for the session; with `serializable=False`, any object for this request only."""
        if not serializable:
            self._request_state[key] = value
            return
        try:
            to_json(value)
        except PydanticSerializationError as error:
            raise TypeError(
                f"Value for state key {key!r} is not serializable. Use set_state({key!r}, value, serializable=False)"
            ) from error
        self._request_state.pop(key, None)
        self.fastmcp.sessions.states.setdefault(self.session, {})[key] = value

    async def get_state(self, key: str) -> Incomplete:
        """Return a stored value; None if there is none."""
        if key in self._request_state:
            return self._request_state[key]
        return self.fastmcp.sessions.states.get(self.session, {}).get(key)

    async def delete_state(self, key: str) -> None:
        """Delete a stored value."""
        self._request_state.pop(key, None)
        self.fastmcp.sessions.states.get(self.session, {}).pop(key, None)
