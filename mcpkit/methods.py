"""The method table: what each request does once its era is out of the way."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .asking.asking import check_rounds
from .completion import complete
from .component import optional
from .content.values import ExtensionResult
from .errors import INVALID_PARAMS, METHOD_NOT_FOUND, MalformedError, ProtocolError
from .failures import is_protocol_error, not_found, tool_error
from .protocol import content
from .protocol.eras import Handshake, check_log_level
from .protocol.jsonrpc import Outcome, Ready
from .protocol.repetition import RepetitiveResult
from .protocol.revisions import LATEST, METHODS, ROUND_PARAMS, STATELESS, narrow
from .resources import Resource, ResourceTemplate
from .running.execution import is_fatal
from .running.steps import is_cancelled_from_outside
from .updates.change import LIST_NAMES
from .updates.listen import Listen, check_room, check_uri

if TYPE_CHECKING:
    from .context import Context
    from .own_methods import Method
    from .prompts import Prompt
    from .tools import Tool

_MAX_URI_LENGTH: Final = 8192
"""Characters of a URI that is read, as it is held against every template."""

Handler = Callable[["Context[Any]"], Ready | Coroutine[Any, Any, Outcome]]
"""Answers at once, or with a coroutine when the author's code has to run."""

Dispatch = Handler
"""Answers a request of any method."""


def initialize(ctx: Context[Any]) -> Ready:
    """Answer `initialize`, whose session has just been opened (basic/lifecycle)."""
    server, session = ctx.server, _session(ctx)
    declared = server._declared
    session.lists = frozenset(filter(declared.has, LIST_NAMES))
    return optional(
        protocolVersion=ctx.revision,
        capabilities=declared.capabilities(ctx.revision),
        serverInfo=declared.identity(ctx.revision).info,
        instructions=server.instructions,
    )


def discover(ctx: Context[Any]) -> Ready:
    """Answer `server/discover` (server/discover)."""
    server = ctx.server
    result = optional(
        supportedVersions=list(STATELESS),
        capabilities=server._declared.capabilities(ctx.revision),
        instructions=server.instructions,
    )
    return server._render(ctx, result)


def ping(ctx: Context[Any]) -> Ready:
    """Answer `ping` with an object that has no members at all (basic/utilities/ping)."""
    return {}


def set_level(ctx: Context[Any]) -> Ready:
    """Serve `logging/setLevel` (server/utilities/logging)."""
    ctx._envelope.log_level = check_log_level(ctx.params.get("level"))
    return {}


def subscribe(ctx: Context[Any]) -> Ready:
    """Serve `resources/subscribe` (server/resources, "Subscriptions")."""
    session, uri = _session(ctx), _text(ctx.params, "uri")
    if uri not in session.subscriptions:
        check_uri(uri)
        check_room(len(session.subscriptions) + 1, sum(map(len, session.subscriptions)) + len(uri))
        session.subscriptions.add(uri)
        if session.on_subscription is not None:
            session.on_subscription(uri, True)
    return {}


def listen(ctx: Context[Any]) -> Listen:
    """Read `subscriptions/listen`, whose stream the transport opens.

    Raises:
        ProtocolError: -32602 for a filter that is malformed or asks for too much.
    """
    server = ctx.server
    # What a lifespan registers is declared when it has been entered.
    is_offered = LIST_NAMES.__contains__ if server._entrance.is_waiting else server._declared.has
    return Listen(ctx.request_id, ctx.params.get("notifications"), is_offered, partial(server._render, ctx))


def unsubscribe(ctx: Context[Any]) -> Ready:
    """Serve `resources/unsubscribe`."""
    session, uri = _session(ctx), _text(ctx.params, "uri")
    if uri in session.subscriptions:
        session.subscriptions.remove(uri)
        if session.on_subscription is not None:
            session.on_subscription(uri, False)
    return {}


def list_page(ctx: Context[Any]) -> Ready | Coroutine[Any, Any, Outcome]:
    """Serve the four list methods (server/utilities/pagination)."""
    return ctx.server._listing.answer(ctx)


async def call_tool(ctx: Context[Any]) -> Outcome:
    """Serve `tools/call` (server/tools, "Calling Tools" and "Error Handling")."""
    name = _text(ctx.params, "name")
    arguments = _object(ctx.params, "arguments")
    tool = ctx.server.tools.get(name)
    if tool is None or (tool.visible is not None and not tool.is_visible(ctx.principal)):
        raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {name[:200]}")
    if ctx.server._has_lifespans:
        await ctx.server._enter(ctx, tool)
    try:
        if tool.requires:
            ctx.client.require(*tool.requires)
        if not ROUND_PARAMS.isdisjoint(ctx.params):
            await check_rounds(ctx, tool)
        result = await tool.call(arguments, ctx)
        if type(result) is RepetitiveResult:
            return result.rendered(partial(_tool_result, ctx, tool))
        return _tool_result(ctx, tool, result)
    except ProtocolError:
        raise
    except BaseException as error:
        if not becomes_result(ctx, error):
            raise
        return _tool_result(ctx, tool, tool_error(ctx, error))


def becomes_result(ctx: Context[Any], error: BaseException) -> bool:
    """Say whether an exception that is no ProtocolError ends a tool call with a result, for the model to read."""
    if ctx.is_ended or is_fatal(error) or is_protocol_error(ctx, error):
        return False
    return not is_cancelled_from_outside(error)


def _tool_result(ctx: Context[Any], tool: Tool, result: dict[str, Any]) -> bytes:
    if ctx.revision != LATEST and not isinstance(result, ExtensionResult):
        result = content.tool_result(result, ctx.revision, wrapped=tool.is_wrapped)
    return ctx.server._render(ctx, result)


async def read_resource(ctx: Context[Any]) -> Outcome:
    """Serve `resources/read` (server/resources, "Reading Resources")."""
    uri = _text(ctx.params, "uri")
    if len(uri) > _MAX_URI_LENGTH:
        raise ProtocolError(INVALID_PARAMS, f"uri: expected at most {_MAX_URI_LENGTH:,} characters")
    resource, values, is_for_all = _serving(ctx, uri)
    await _prepare(ctx, resource)
    if isinstance(resource, Resource):
        result = await resource.read(ctx)
    else:
        result = await resource.read(uri, values, ctx)
    contents = [narrow("ResourceContents", item, ctx.revision) for item in result["contents"]]
    cache = resource.cache
    if not is_for_all:
        cache = (cache or ctx.server._cache[ctx.method]).private
    return ctx.server._render(ctx, {**result, "contents": contents}, cache)


async def _prepare(ctx: Context[Any], component: Resource | ResourceTemplate | Prompt) -> None:
    """Refuse a client that cannot use a component, enter its lifespan, and take over what an earlier round has left."""
    if component.requires:
        ctx.client.require(*component.requires)
    if ctx.server._has_lifespans:
        await ctx.server._enter(ctx, component)
    if not ROUND_PARAMS.isdisjoint(ctx.params):
        await check_rounds(ctx, component)


def _serving(
    ctx: Context[Any], uri: str
) -> tuple[Resource | ResourceTemplate, dict[str, str | list[str]], bool]:
    """Return what serves a URI to who asks, the values of its variables, and whether it serves everybody so."""
    resource = ctx.server.resources.get(uri)
    if resource is not None and resource.is_visible(ctx.principal):
        return resource, {}, resource.visible is None
    # What is hidden may serve the URI for others. Were it said of this URI alone, it would be hidden no more.
    is_for_all = not ctx.server._listing.conditional.among("resources", "resource_templates")
    for template in ctx.server.resource_templates:
        values = template.template.match(uri) if template.is_enabled else None
        if values is not None and template.is_visible(ctx.principal):
            return template, values, is_for_all
    raise not_found(ctx, uri)


async def get_prompt(ctx: Context[Any]) -> Outcome:
    """Serve `prompts/get` (server/prompts, "Getting a Prompt")."""
    name = _text(ctx.params, "name")
    arguments = _texts(ctx.params, "arguments")
    prompt = ctx.server.prompts.get(name)
    if prompt is None or not prompt.is_visible(ctx.principal):
        raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {name[:200]}")
    await _prepare(ctx, prompt)
    result = await prompt.get(arguments, ctx)
    for message in result["messages"]:
        message["content"] = content.block(message["content"], ctx.revision)
    return ctx.server._render(ctx, result)


def is_there(ctx: Context[Any]) -> bool:
    """Say whether the component that a request names is there, for who asks; False where it names none."""
    try:
        if ctx.method == "tools/call":
            tool = ctx.server.tools.get(_text(ctx.params, "name"))
            return tool is not None and tool.is_visible(ctx.principal)
        if ctx.method == "prompts/get":
            prompt = ctx.server.prompts.get(_text(ctx.params, "name"))
            return prompt is not None and prompt.is_visible(ctx.principal)
        if ctx.method == "resources/read":
            return bool(_serving(ctx, _text(ctx.params, "uri")))
        if ctx.method == "completion/complete":
            return bool(_referred(ctx, _object(ctx.params, "ref")))
    except ProtocolError:
        return False
    own = ctx.server.methods.get(ctx.method)
    return own is not None and own.is_visible(ctx.principal)


async def complete_argument(ctx: Context[Any]) -> Outcome:
    """Serve `completion/complete` (server/utilities/completion)."""
    component = _referred(ctx, _object(ctx.params, "ref"))
    argument = _object(ctx.params, "argument")
    name, value = _text(argument, "name", "argument."), _text(argument, "value", "argument.")
    filled = _texts(_object(ctx.params, "context"), "arguments", "context.")
    if component.requires:
        ctx.client.require(*component.requires)
    if name not in {parameter.name for parameter in component.signature.parameters}:
        raise ProtocolError(INVALID_PARAMS, f"{component.key} has no argument {name[:200]}")
    completer = component.completers.get(name)
    if completer is None:
        return ctx.server._render(ctx, {"completion": {"values": [], "total": 0, "hasMore": False}})
    if ctx.server._has_lifespans:
        await ctx.server._enter(ctx, component)
    return ctx.server._render(ctx, {"completion": await complete(completer, value, filled, ctx)})


def _referred(ctx: Context[Any], reference: dict[str, Any]) -> Prompt | ResourceTemplate:
    kind = reference.get("type")
    found: Prompt | ResourceTemplate | None
    if kind == "ref/prompt":
        key = _text(reference, "name", "ref.")
        found = ctx.server.prompts.get(key)
    elif kind == "ref/resource":
        key = _text(reference, "uri", "ref.")
        found = ctx.server.resource_templates.get(key)
    else:
        raise ProtocolError(INVALID_PARAMS, "ref.type: expected ref/prompt or ref/resource")
    if found is None or not found.is_visible(ctx.principal):
        what = "prompt" if kind == "ref/prompt" else "resource template"
        raise ProtocolError(INVALID_PARAMS, f"Unknown {what}: {key[:200]}")
    return found


async def serve_own(ctx: Context[Any], method: Method) -> Outcome:
    """Serve a method outside the core protocol."""
    if method.requires:
        ctx.client.require(*method.requires)
    if ctx.server._has_lifespans:
        await ctx.server._enter(ctx, method)
    return ctx.server._render(ctx, await method.serve(ctx), method.cache)


def _session(ctx: Context[Any]) -> Handshake:
    session = ctx._envelope
    assert isinstance(session, Handshake), "the revisions table has this method in the handshake era only"
    return session


def _text(params: dict[str, Any], name: str, where: str = "") -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise MalformedError(f"{where}{name}: expected a string")
    return value


def _object(params: dict[str, Any], name: str) -> dict[str, Any]:
    value: dict[str, Any] | None = params.get(name)
    if value is None:
        return {}
    if type(value) is not dict:
        raise MalformedError(f"{name}: expected an object")
    return value


def _texts(params: dict[str, Any], name: str, where: str = "") -> dict[str, str]:
    values = _object(params, name)
    for key, value in values.items():
        if not isinstance(value, str):
            raise MalformedError(f"{where}{name}.{key[:100]}: expected a string")
    return values


HANDLERS: Final[dict[str, Handler]] = {
    "initialize": initialize,
    "ping": ping,
    "logging/setLevel": set_level,
    "server/discover": discover,
    "tools/list": list_page,
    "tools/call": call_tool,
    "resources/list": list_page,
    "resources/templates/list": list_page,
    "resources/read": read_resource,
    "resources/subscribe": subscribe,
    "resources/unsubscribe": unsubscribe,
    "prompts/list": list_page,
    "prompts/get": get_prompt,
    "completion/complete": complete_argument,
}
"""All but `subscriptions/listen`, which belongs to whoever holds the streams."""


def dispatch(ctx: Context[Any]) -> Ready | Coroutine[Any, Any, Outcome]:
    """Look the method of a request up and begin to answer.

    Args:
        ctx: The request.

    Returns:
        The result, or an awaitable of it when the author's code has to run.

    Raises:
        ProtocolError: -32601 for a method that the revision does not have or whose capability
            is not declared, or whatever the method refuses at once.
    """
    revisions, capability = METHODS.get(ctx.method, ((), None))
    if ctx.revision not in revisions:
        own = ctx.server.methods.get(ctx.method)
        if own is not None and ctx.revision in own.revisions and own.is_visible(ctx.principal):
            return serve_own(ctx, own)
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {ctx.method[:100]}")
    if capability is not None and not ctx.server._declared.has(capability):
        raise ProtocolError(
            METHOD_NOT_FOUND,
            f"Method not found: {ctx.method} (this server does not declare {capability})",
        )
    return HANDLERS[ctx.method](ctx)
