"""The handlers of all methods, independent of the era of the request, and the capabilities that a server declares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import cache, cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import TypeIs

from .._utils.exceptions import INVALID_PARAMS, METHOD_NOT_FOUND, MalformedError, ProtocolError
from ..components.component import Listed, optional
from ..content.uri_normalization import normalized
from ..execution.coroutines import is_cancelled_from_outside
from ..execution.lifespan import Lifespans
from ..execution.worker_threads import is_fatal
from ..identity.principals_and_scopes import LIST_NAMES
from ..protocol.jsonrpc import Json, Outcome, Ready, RepetitiveResult
from ..protocol.revisions import (
    LATEST,
    METHODS,
    ROUND_PARAMS,
    SERVER_CAPABILITIES,
    STATELESS,
    TASK_METHODS,
    TASKS,
    TASKS_IN_CORE,
    Handshake,
    Identity,
    check_log_level,
    narrow,
    narrow_block,
    narrow_tool_result,
)
from ..requests.access_and_error_responses import check_access, is_protocol_error, not_found, tool_error
from ..requests.request_record import Call
from .included_providers_and_extensions import CompositeCatalog, Extension
from .listing_and_visibility import LIST_METHODS, Listing
from .subscription_filters_and_delivery import check_keys

if TYPE_CHECKING:
    from ..components.custom_methods import CustomMethod
    from ..components.prompts_and_completion import Prompt
    from ..components.resource import Resource, ResourceTemplate
    from ..components.tool import AnyTool
    from ..content.blocks import ExtensionResult
    from ..providers.provider_and_transforms import Kind

# Maximum characters of a URI in `resources/read`, as it is matched against every template.
_MAX_URI_LENGTH = 8192

# Returns the result, or a coroutine if it runs the author's code.
Handler = Callable[["Call"], Ready | Coroutine[Any, Any, Outcome]]


# Capabilities

_TASKS_IN_CORE: Json = {"cancel": {}, "requests": {"tools": {"call": {}}}}


class Capabilities:
    """The declarations of a server (basic/lifecycle, "Capability Negotiation"; server/discover).

    A declared capability stays declared, even if its list becomes empty.

    Args:
        catalog: Components of the server.
        implementation: The `Implementation` in the form of the newest revision.
        offers: Capabilities to declare before a component needs them.
        instructions: Instructions for clients; None for none.

    Attributes:
        names: Capabilities that are declared so far; `has` adds to them.
        identity: Returns the `Implementation` with the members of a revision. Each result has it, so it is no method.
    """

    def __init__(
        self,
        catalog: CompositeCatalog,
        implementation: Json,
        offers: Collection[str],
        instructions: str | None,
    ) -> None:
        self.instructions = instructions
        self._catalog = catalog
        self.names = set(offers)

        @cache
        def identity(revision: str) -> Identity:
            return Identity(narrow("Implementation", implementation, revision))

        self.identity: Callable[[str], Identity] = identity
        catalog.listeners.add(lambda change: self.add(change.kind))

    def add(self, capability: str) -> None:
        """Declare a capability, after a component that needs it was registered."""
        self.names.add(capability)

    def has(self, capability: str) -> bool:
        """Return True if the server declares a capability."""
        if capability in self.names:
            return True
        catalog = self._catalog
        dynamic = {kind for each in catalog.providers for kind in each.kinds}
        is_needed = False
        if capability == "completions":
            is_needed = not dynamic.isdisjoint(("prompts", "resource_templates")) or any(
                each.completers for each in chain(catalog.prompts, catalog.resource_templates)
            )
        elif capability == "tasks":
            is_needed = catalog.derived(
                "has tasks", lambda: any(tool.task is not None for tool in catalog.tools)
            )
        elif capability == "logging":
            components = chain.from_iterable(catalog.parts)
            is_needed = bool(dynamic) or any(each.takes_context for each in components)
        if is_needed:
            self.add(capability)
        return is_needed

    def for_revision(self, revision: str, *, is_identified: bool = False) -> Json:
        """Return the `ServerCapabilities` with the members of a revision.

        Args:
            revision: The revision.
            is_identified: Whether the user is known. Only then a client can list tasks.
        """
        declared: Json = {name: how for name, how in SERVER_CAPABILITIES.items() if self.has(name)}
        extensions = {name: each.settings for name, each in self._catalog.extensions.items()}
        if self.has("tasks"):
            extensions[TASKS] = {}
            if revision == TASKS_IN_CORE:
                declared["tasks"] = {**({"list": {}} if is_identified else {}), **_TASKS_IN_CORE}
        if extensions:
            declared["extensions"] = extensions
        return narrow("ServerCapabilities", declared, revision)


# Methods


class TaskKeeper(Protocol):
    """Creates tasks from calls, serves the task methods, and runs tasks."""

    @property
    def extension(self) -> Extension:
        """The task extension of 2026-07-28, which clients declare, with its topic."""
        ...

    async def call(self, call: Call, tool: AnyTool, arguments: Json) -> Json | bytes:
        """Create a task if the client supports tasks or requests one, and return the rendered handle.

        Otherwise, and in the run of a task, call the tool and return its result as `AnyTool.call` does.

        Raises:
            ProtocolError: The tool requires a task, and the client does not support them; or there are too many tasks.
                In a run: its time limit has passed.
            InputRequired: The client must answer a request first.
            Exception: Any exception of the tool, of its arguments, or of the client's answers.
        """
        ...

    async def serve(self, call: Call) -> Outcome:
        """Serve a request about a task."""
        ...

    def running(self) -> AbstractAsyncContextManager[None]:
        """Run tasks in this event loop within the block, and deliver their changes to waiting calls."""
        ...

    def drain(self, grace: float | None) -> None:
        """Release the tasks that run in this event loop, before a block of `running` ends.

        Args:
            grace: Seconds that running tasks may take to end; None for no limit.
        """
        ...


class Methods:
    """Serves the requests of one server by method.

    Args:
        catalog: Components of the server.
        declared: Identity and capabilities of the server.
        listing: Serves the list methods.
        lifespans: The lifespan that provides the state of handlers.
        make_tasks: Creates the task keeper, when the server has its first tool with `task=`.
    """

    def __init__(
        self,
        catalog: CompositeCatalog,
        declared: Capabilities,
        listing: Listing,
        lifespans: Lifespans,
        make_tasks: Callable[[], TaskKeeper],
    ) -> None:
        self._make_tasks = make_tasks
        self._catalog = catalog
        self._declared = declared
        self._listing = listing
        self._lifespans = lifespans
        # All but `subscriptions/listen`, which the transports serve.
        self._handlers: dict[str, Handler] = {
            "initialize": self.initialize,
            "ping": lambda _: {},  # an object that has no members at all (basic/utilities/ping)
            "logging/setLevel": self.set_level,
            "server/discover": self.discover,
            "tools/call": self.call_tool,
            "resources/read": self.read_resource,
            "resources/subscribe": self.subscribe,
            "resources/unsubscribe": self.unsubscribe,
            "prompts/get": self.get_prompt,
            "completion/complete": self.complete_argument,
            **dict.fromkeys(LIST_METHODS, listing.answer),
            # Made on use, as most servers have no tasks.
            **dict.fromkeys(TASK_METHODS, lambda call: self.tasks.serve(call)),  # noqa: PLW0108
        }

    @cached_property
    def tasks(self) -> TaskKeeper:
        """The task keeper."""
        return self._make_tasks()

    def dispatch(self, call: Call) -> Ready | Coroutine[Any, Any, Outcome]:
        """Look up the method of a request and begin to serve it.

        Args:
            call: The request.

        Returns:
            The result, or an awaitable of it if it runs the author's code.

        Raises:
            ProtocolError: -32601 if the revision does not have the method or the server does not declare its
                capability, or an error of the method.
        """
        revisions, capability = METHODS.get(call.method, ((), None))
        if call.envelope.revision not in revisions:
            own = self._catalog.methods.shown(call.method, call.principal)
            if own is not None and call.revision in own.revisions:
                return self.serve_own(call, own)
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {call.method[:100]}")
        declared = self._declared
        if capability is not None and capability not in declared.names and not declared.has(capability):
            raise ProtocolError(
                METHOD_NOT_FOUND,
                f"Method not found: {call.method} (this server does not declare {capability})",
            )
        return self._handlers[call.method](call)

    def initialize(self, call: Call) -> Ready:
        """Serve `initialize`, after its session was opened (basic/lifecycle)."""
        _session(call).lists = frozenset(filter(self._declared.has, LIST_NAMES))
        return optional(
            protocolVersion=call.revision,
            capabilities=self._declared.for_revision(
                call.revision, is_identified=call.principal.id is not None
            ),
            serverInfo=self._declared.identity(call.revision).info,
            instructions=self._declared.instructions,
        )

    def discover(self, call: Call) -> Ready:
        """Serve `server/discover` (server/discover)."""
        result = optional(
            supportedVersions=list(STATELESS),
            capabilities=self._declared.for_revision(call.revision),
            instructions=self._declared.instructions,
        )
        return call.render(result)

    def set_level(self, call: Call) -> Ready:
        """Serve `logging/setLevel` (server/utilities/logging)."""
        call.envelope.log_level = check_log_level(call.params.get("level"))
        return {}

    def subscribe(self, call: Call) -> Ready | Coroutine[object, object, Outcome]:
        """Serve `resources/subscribe` (server/resources, "Subscriptions")."""
        session, uri = _session(call), _text(call.params, "uri")
        if uri not in session.subscriptions:
            check_keys((*session.subscriptions, uri))
            self._listing.visibility.check_subscriptions(call, (uri,))
            if (listening := session.subscribe(uri, True)) is not None:
                return _subscribed(session, uri, listening)
        return {}

    def unsubscribe(self, call: Call) -> Ready:
        """Serve `resources/unsubscribe`."""
        session, uri = _session(call), _text(call.params, "uri")
        subscribed, form = session.subscriptions, normalized(uri)
        for each in [uri] if uri in subscribed else [each for each in subscribed if normalized(each) == form]:
            session.subscribe(each, False)
        return {}

    async def call_tool(self, call: Call) -> Outcome:
        """Serve `tools/call` (server/tools, "Calling Tools" and "Error Handling")."""
        name = call.params.get("name")
        name = name if type(name) is str else _text(call.params, "name")
        is_usual = type(call.params.get("arguments")) is dict
        arguments: Json = call.params["arguments"] if is_usual else _object(call.params, "arguments")
        tool = self._catalog.tools.by_key.get(name)
        if (
            tool is None
            or not tool.is_enabled
            or (tool.visible is not None and not tool.is_visible(call.principal))
        ):
            tool = await self._find(call, "tools", name)
            _check_parameters(call, tool, arguments)
        home = tool.home or self._lifespans
        if home.function is not None or home is not self._lifespans:  # as in `_enter`: most have none
            call.state = await self._lifespans.state_of(home)
        try:
            if tool.is_guarded or (call.runtime.is_protected and call.channel.principal.id is None):
                check_access(call, tool)
            if tool.requires:
                call.client.require(*tool.requires)
            if call.runtime.options.single_use_state or not ROUND_PARAMS.isdisjoint(call.params):
                await _check_rounds(call)
            if tool.task is None and ("task" not in call.params or not self._declared.has("tasks")):
                result = await tool.call(arguments, call)
            elif isinstance(result := await self.tasks.call(call, tool, arguments), bytes):
                return result
            if type(result) is RepetitiveResult:
                return result.rendered(partial(_tool_result, call, tool))
            return _tool_result(call, tool, result)
        except ProtocolError:
            raise
        except BaseException as error:
            if not becomes_result(call, error):
                raise
            return _tool_result(call, tool, tool_error(call, error))

    async def read_resource(self, call: Call) -> Outcome:
        """Serve `resources/read` (server/resources, "Reading Resources")."""
        uri = _text(call.params, "uri")
        if len(uri) > _MAX_URI_LENGTH:
            raise ProtocolError(INVALID_PARAMS, f"uri: expected at most {_MAX_URI_LENGTH:,} characters")
        resource, values, is_for_all = self._serving(call, uri) or (
            await self._find(call, "resources", uri),
            {},
            False,
        )
        await self._prepare(call, resource)
        if _is_template(resource):
            result = await resource.read(uri, values, call)
        else:
            result = await resource.read(call)
        revision = call.envelope.revision
        contents = [narrow("ResourceContents", item, revision) for item in result["contents"]]
        if uri != resource.key and not _is_template(resource):  # another spelling, which the client knows
            contents = [{**item, "uri": uri} if item["uri"] == resource.key else item for item in contents]
        cache = resource.cache
        if not is_for_all:
            cache = (cache or call.runtime.cache[call.method]).private
        return call.render({**result, "contents": contents}, cache)

    async def _enter(self, call: Call, component: Listed | CustomMethod) -> None:
        """Check access and required capabilities, and set the state of the lifespan to which a component belongs."""
        if component.is_guarded or call.runtime.is_protected:
            check_access(call, component)
        if component.requires:
            call.client.require(*component.requires)
        home = component.home or self._lifespans
        if home.function is not None or home is not self._lifespans:
            call.state = await self._lifespans.state_of(home)

    async def _prepare(self, call: Call, component: Resource | ResourceTemplate | Prompt) -> None:
        """Do the same, and check the state of previous rounds."""
        await self._enter(call, component)
        if call.runtime.options.single_use_state or not ROUND_PARAMS.isdisjoint(call.params):
            await _check_rounds(call)

    def _serving(
        self, call: Call, uri: str
    ) -> tuple[Resource | ResourceTemplate, dict[str, str | list[str]], bool] | None:
        """Return the component that serves a URI, the values of its variables, and True if all users get the same one.

        Returns None if no registered component that the user sees serves the URI.
        """
        catalog = self._catalog
        resource = catalog.resources.get(uri)
        if resource is not None and (resource.visible is None or resource.is_visible(call.principal)):
            return resource, {}, resource.visible is None
        principal = call.principal
        # A hidden component may serve the URI for others. A cache hint of this URI alone would reveal that.
        is_for_all = not self._listing.visibility.restricted(("resources", "resource_templates"))
        templates = [each for each in catalog.resource_templates if each.is_enabled]
        for template in templates:
            values = template.template.match_exactly(uri)
            if values is not None and template.is_visible(principal):
                return template, values, is_for_all
        if resource is None and (resource := catalog.resources.shown(uri, principal)) is not None:
            return resource, {}, is_for_all
        for template in templates:
            values = template.template.match_spelling(uri)
            if values is not None and template.is_visible(principal):
                return template, values, is_for_all
        return None

    async def _find(self, call: Call, kind: Kind, key: str) -> Any:
        """Return the component with a name, URI or template that the user sees: a registered one, or one of a provider.

        Raises:
            ProtocolError: There is none.
            Exception: Any exception of a provider.
        """
        catalog = self._catalog
        part = getattr(catalog, kind)
        found: Listed | None = part.shown(key, call.principal)
        if found is not None:
            return found
        if catalog.providers and key not in part and len(key) <= _MAX_URI_LENGTH:
            from ..providers.provider_and_transforms import find

            found = await find(catalog.providers, self._lifespans, call, kind, key)
            if found is not None:
                return found
        if kind == "resources":
            raise not_found(call, key)
        raise ProtocolError(INVALID_PARAMS, f"Unknown {kind[:-1].replace('_', ' ')}: {key[:200]}")

    async def get_prompt(self, call: Call) -> Outcome:
        """Serve `prompts/get` (server/prompts, "Getting a Prompt")."""
        name = _text(call.params, "name")
        arguments = _texts(call.params, "arguments")
        prompt = await self._find(call, "prompts", name)
        await self._prepare(call, prompt)
        result = await prompt.get(arguments, call)
        for message in result["messages"]:
            message["content"] = narrow_block(message["content"], call.revision)
        return call.render(result)

    def is_registered(self, call: Call) -> bool:
        """Return True if the request names a component that is registered and visible to the user."""
        catalog, principal = self._catalog, call.principal
        try:
            if call.method == "resources/read":
                return self._serving(call, _text(call.params, "uri")) is not None
            part, key = catalog.methods, call.method
            if call.method in ("tools/call", "prompts/get"):
                part, key = getattr(catalog, call.method.partition("/")[0]), _text(call.params, "name")
            elif call.method == "completion/complete":
                kind, key = _reference(call)
                part = getattr(catalog, kind)
        except ProtocolError:
            return False
        return part.shown(key, principal) is not None

    async def complete_argument(self, call: Call) -> Outcome:
        """Serve `completion/complete` (server/utilities/completion)."""
        component = await self._find(call, *_reference(call))
        argument = _object(call.params, "argument")
        name, value = _text(argument, "name", "argument."), _text(argument, "value", "argument.")
        filled = _texts(_object(call.params, "context"), "arguments", "context.")
        await self._enter(call, component)
        if name not in {parameter.name for parameter in component.signature.parameters}:
            raise ProtocolError(INVALID_PARAMS, f"{component.key} has no argument {name[:200]}")
        completer = component.completers.get(name)
        if completer is None:
            return call.render({"completion": {"values": [], "total": 0, "hasMore": False}})
        from ..components.prompts_and_completion import complete

        return call.render({"completion": await complete(completer, value, filled, call)})

    async def serve_own(self, call: Call, method: CustomMethod) -> Outcome:
        """Serve a custom method, which the core protocol does not have."""
        await self._enter(call, method)
        return call.render(await method.serve(call), method.cache)


def is_of_extension(result: object) -> TypeIs[ExtensionResult]:
    """Return True if a result has a `resultType` of an extension."""
    return getattr(type(result), "__mcp_extension_result__", False) is True


def _is_template(resource: Resource | ResourceTemplate) -> TypeIs[ResourceTemplate]:
    return resource.kind == "resource template"


async def _check_rounds(call: Call) -> None:
    from ..requests.elicitation_and_sampling import check_rounds

    await check_rounds(call)


def becomes_result(call: Call, error: BaseException) -> bool:
    """Return True if an exception of a tool call is sent to the model as a result, and not as a JSON-RPC error."""
    if call.is_ended or is_protocol_error(call, error):
        return False
    return isinstance(error, Exception) or not (is_fatal(error) or is_cancelled_from_outside(error))


def _tool_result(call: Call, tool: AnyTool, result: Json) -> bytes:
    revision = call.envelope.revision
    if revision != LATEST and not is_of_extension(result):
        result = narrow_tool_result(result, revision, wrapped=tool.is_wrapped)
    return call.render(result)


def _check_parameters(call: Call, tool: AnyTool, arguments: Json) -> None:
    """Compare the HTTP headers of a stateless request with the arguments of a provider's tool.

    For registered tools, the HTTP transport does it.
    """
    headers = call.channel.request_headers
    if tool.mirrored and call.era == "stateless" and b"mcp-method" in headers:
        from ..protocol.http_headers import check_mirrored  # which HTTP alone needs

        check_mirrored(headers, tool.mirrored, arguments)


async def _subscribed(session: Handshake, uri: str, listening: Coroutine[object, object, None]) -> Outcome:
    """Respond to `resources/subscribe` when changes of other processes are received."""
    try:
        await listening
    except BaseException:
        if uri in session.subscriptions:
            session.subscribe(uri, False)
        raise
    return {}


def _session(call: Call) -> Handshake:
    session = call.envelope
    assert isinstance(session, Handshake), "the revisions table has this method in the handshake era only"
    return session


def _reference(call: Call) -> tuple[Kind, str]:
    """Return the kind and the key of the component in a completion request."""
    reference = _object(call.params, "ref")
    kind = reference.get("type")
    if kind == "ref/prompt":
        return "prompts", _text(reference, "name", "ref.")
    if kind == "ref/resource":
        return "resource_templates", _text(reference, "uri", "ref.")
    raise ProtocolError(INVALID_PARAMS, "ref.type: expected ref/prompt or ref/resource")


def _text(params: Json, name: str, where: str = "") -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise MalformedError(f"{where}{name}: expected a string")
    return value


def _object(params: Json, name: str) -> Json:
    value: Json | None = params.get(name)
    if value is None:
        return {}
    if type(value) is not dict:
        raise MalformedError(f"{name}: expected an object")
    return value


def _texts(params: Json, name: str, where: str = "") -> dict[str, str]:
    values = _object(params, name)
    for key, value in values.items():
        if not isinstance(value, str):
            raise MalformedError(f"{where}{name}.{key[:100]}: expected a string")
    return values
