"""The client of several servers."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from .._utils.exceptions import INVALID_PARAMS, METHOD_NOT_FOUND, ProtocolError, RegistrationError
from .._utils.option_checks import nearest
from ..execution.coroutines import gather_or_cancel
from ..protocol.jsonrpc import Json
from .client import Client, negotiation_of
from .client_session import NOT_OPEN, NegotiationResult
from .client_subscriptions import (
    ChangeBuffer,
    ChangeSource,
    Subscription,
    SubscriptionFilter,
    announced_changes,
    not_announced,
)
from .server_message_handlers import Roots
from .targets.infer_target import Target
from .targets.target_transports import ServerEntry, TargetOptions, is_configuration, transports_of

if TYPE_CHECKING:
    from ..protocol.objects import (
        PromptDefinition,
        PromptMessage,
        ResourceContents,
        ResourceDefinition,
        ResourceTemplateDefinition,
        ToolDefinition,
    )
    from .task_handles import TaskHandle

F = TypeVar("F")

logger = logging.getLogger(__name__)

MAX_NAME_LENGTH: Final = 64
"""Characters that a name may have for the models of all vendors; the protocol allows 128."""

_DIGEST_LENGTH: Final = 8
_DIGEST: Final = re.compile(f"_[0-9a-f]{{{_DIGEST_LENGTH}}}$")
_INVALID_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
"""Characters that some model vendors refuse in names, while hosts allow them in server names."""

_NOT_FOUND: Final = frozenset({-32002, INVALID_PARAMS, METHOD_NOT_FOUND})
"""Error codes for an unknown resource, in all revisions."""

_FAILURES: Final = (OSError, ProtocolError, ImportError)
"""Exceptions that make one server unavailable, not the group. They include `ConnectionError` and `TimeoutError`."""


class UniqueNames:
    """Unique names for tools and prompts of several servers: `weather_forecast` is `forecast` of `weather`.

    With a single server, names are unchanged.

    A name that would be too long, or that is taken, ends in a digest, which is the same in every run.

    Args:
        servers: The names of the servers.

    Attributes:
        prefixes: The prefix of each server's names.
    """

    def __init__(self, servers: Sequence[str]) -> None:
        self.prefixes: dict[str, str] = {}
        for server in servers:
            valid = _INVALID_IN_NAMES.sub("_", server)
            prefix, number = f"{valid}_", 1
            while prefix in self.prefixes.values():
                number += 1
                prefix = f"{valid}_{number}_"
            self.prefixes[server] = prefix if len(servers) > 1 else ""

    def assign(self, listed: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, str]]:
        """Return the server and its own name for each unique name.

        Args:
            listed: The names that each server has.
        """
        return {self._name(server, own): (server, own) for server, names in listed.items() for own in names}

    def _name(self, server: str, own: str) -> str:
        name = self.prefixes[server] + own
        if name == own or (len(name) <= MAX_NAME_LENGTH and self.split(name) == (server, own)):
            return name
        import hashlib  # slow to import

        digest = hashlib.sha256(f"{server}\n{own}".encode()).hexdigest()[:_DIGEST_LENGTH]
        return f"{name[: MAX_NAME_LENGTH - _DIGEST_LENGTH - 1]}_{digest}"

    def split(self, name: str) -> tuple[str, str] | None:
        """Return the server that a name belongs to by its prefix, and the name there.

        If the name of one server is a prefix of another's, the longer one wins, so that no server can take the names of
        another.
        """
        matches = [
            (len(prefix), server) for server, prefix in self.prefixes.items() if name.startswith(prefix)
        ]
        if not matches:
            return None
        length, server = max(matches)
        return server, name[length:]

    def is_unambiguous(self, name: str) -> bool:
        """Return whether the prefix alone identifies the server and the name: the name has no digest."""
        return len(self.prefixes) == 1 or _DIGEST.search(name) is None


def _typed_as(_method: F) -> Callable[[Callable[..., Any]], F]:
    """Return a decorator that gives a method the type of another, with its overloads."""

    def decorate(method: Any) -> F:
        typed: F = method
        return typed

    return decorate


class ClientGroup(Client):
    """A client of all servers of a configuration: `async with ClientGroup("mcp.json") as client`.

    With several servers, the names of tools and prompts begin with the name of their server (`weather_forecast`). A
    resource is read from the server that lists it, or has a template for it. Notifications and log levels go to all
    servers. A server that cannot be reached is left out; see `failures`. Properties of one server, such
    as `server_info`, raise ValueError if there are several; use `servers`.

    Args:
        target: The configuration, or the path of one.
        options: The options of `Client`, which apply to each server.

    Raises:
        FileNotFoundError: There is no such file or folder.
        TypeError: There is no such option.
        ValueError: The configuration cannot be read, or an option does not apply to it.
    """

    def __init__(self, target: Target, **options: Any) -> None:
        reaching: Json = {
            option: options.pop(option) for option in TargetOptions.__optional_keys__ & options.keys()
        }
        entries = transports_of(target, **reaching)
        self._clients = {entry.name: Client(entry, **options) for entry in entries}
        self._filters = {entry.name: entry.tools for entry in entries}
        self._names = UniqueNames(list(self._clients))
        # Server and own name by unique name
        self._listed: dict[str, dict[str, tuple[str, str]]] = {"tools": {}, "prompts": {}}
        # The servers of resources by URI; None before they are listed
        self._owners: dict[str, str] | None = None
        self._templates: dict[str, str] | None = None  # the same by URI template
        self._failures: dict[str, Exception] = {}
        self._entered = 0
        self._is_open = False

    # Opening and closing

    async def _connect(self) -> None:
        """Connect to all servers concurrently.

        Raises:
            ConnectionError: No server can be reached.
        """
        self._is_open = True
        await _gather(self._open(name) for name in self._clients)
        if len(self._failures) == len(self._clients):
            first = next(iter(self._failures.values()))
            if len(self._clients) == 1:
                raise first
            each = "; ".join(f"{name}: {error}" for name, error in self._failures.items())
            raise ConnectionError(
                f"none of the {len(self._clients)} servers can be reached: {each}"
            ) from first

    async def _open(self, name: str) -> None:
        try:
            await self._clients[name].__aenter__()
        except _FAILURES as error:
            if len(self._clients) > 1:
                logger.warning("The server %s is left out until it can be reached: %s", name, error)
            self._failures[name] = error
        else:
            self._failures.pop(name, None)

    async def close(self) -> None:
        """Disconnect from all servers. Closing a closed client does nothing."""
        self._entered = 0
        self._is_open = False
        await _gather(client.close() for client in self._clients.values())
        self._failures.clear()

    def _check_loop(self) -> None:
        """Do nothing: the clients of the servers check the event loop."""

    async def _reach(self, name: str) -> Client:
        """Return the client of a server, after one more attempt to connect if the server could not be reached."""
        client = self._clients[name]
        self._check_open()
        if name in self._failures:
            try:
                await client.__aenter__()
            except _FAILURES as error:
                self._failures[name] = error
                raise
            self._failures.pop(name, None)
        return client

    def _check_open(self) -> None:
        if not self._is_open:
            raise ConnectionError(NOT_OPEN)

    # Properties of the servers

    @property
    def servers(self) -> Mapping[str, Client]:
        """The clients of the servers, by server name."""
        return dict(self._clients)

    @property
    def failures(self) -> Mapping[str, Exception]:
        """The errors of servers that cannot be reached, by server name."""
        return dict(self._failures)

    def _negotiated(self, name: str) -> NegotiationResult:
        return negotiation_of(self._only(name), name)

    @property
    def instructions(self) -> str | None:
        """The instructions of the servers for a model, or None.

        With several servers each text begins with the name of its server.
        """
        if len(self._clients) == 1:
            return self._only("instructions").instructions
        instructions = {name: self._clients[name].instructions for name in self._connected()}
        return "\n\n".join(f"{name}: {text}" for name, text in instructions.items() if text) or None

    @property
    def roots(self) -> Roots | None:
        """The folders that the servers may use, the same for all. They can be set at any time."""
        return next(iter(self._clients.values())).roots

    @roots.setter
    def roots(self, roots: Roots | None) -> None:
        for client in self._clients.values():
            client.roots = roots

    def _only(self, what: str) -> Client:
        """Return the client of the only server.

        Raises:
            ValueError: There are several servers.
        """
        if len(self._clients) > 1:
            name = next(iter(self._clients))
            raise ValueError(
                f"the group has several servers. Use one of them, such as client.servers[{name!r}].{what}"
            )
        return next(iter(self._clients.values()))

    def _connected(self, capability: str | None = None) -> list[str]:
        """Return the names of connected servers that declare a capability."""
        return [
            name
            for name, client in self._clients.items()
            if self._is_open
            and name not in self._failures
            and (capability is None or capability in client.server_capabilities)
        ]

    # Requests

    async def request(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> Json:
        """Send any request to the only server and return its result.

        Args:
            method: The method.
            params: The params of the request.
            options: The other arguments of `Client.request`.

        Raises:
            ValueError: There are several servers; use `servers`.
            Exception: `Client.request` failed.
        """
        return await self._only("request(...)").request(method, params, **options)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> Awaitable[None]:
        """Send a notification to all connected servers.

        Args:
            method: The method.
            params: The params of the notification.

        Returns:
            An awaitable that is done when the notifications have been sent. Awaiting it is optional.
        """
        return asyncio.ensure_future(
            _gather([self._clients[name].notify(method, params) for name in self._connected()])
        )

    @_typed_as(Client.call_tool)
    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Call a tool of the server that has it.

        Args:
            name: The name of the tool, as `list_tools` returns it.
            arguments: Its arguments, JSON values by name.
            options: The other arguments of `Client.call_tool`.

        Returns:
            A `CallResult`, or a value of `result_type`.

        Raises:
            ProtocolError: No server has the tool, the configuration leaves it out, or the server responded with an
                error.
            Exception: `Client.call_tool` failed.
        """
        server, own = await self._find("tools", name, self.list_tools)
        if not self._filters[server].allows(own):
            raise ProtocolError(
                INVALID_PARAMS,
                f"the configuration excludes the tool {own} of {server}. Include it to call it",
            )
        client: Any = await self._reach(server)  # the options decide on the overload
        return await client.call_tool(own, arguments, **options)

    @_typed_as(Client.task)
    def task(self, task_id: str, *, result_type: Any = None) -> TaskHandle[Any]:
        """Return a handle of a task of the only server; see `Client.task`.

        Args:
            task_id: The id of the task.
            result_type: The type of the result.

        Raises:
            ValueError: There are several servers; use `servers`.
        """
        return self._only("task(...)").task(task_id, result_type=result_type)

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> list[PromptMessage]:
        """Get a prompt of the server that has it and return its messages; see `Client.get_prompt`."""
        server, own = await self._find("prompts", name, self.list_prompts)
        return await (await self._reach(server)).get_prompt(own, arguments)

    async def list_tools(self, *, use_cache: bool = True) -> list[ToolDefinition]:
        """Return the tools of all connected servers, without those that the configuration leaves out."""
        listed = await self._list_all("tools", "name", lambda client: client.list_tools(use_cache=use_cache))
        for server, tools in listed.items():
            listed[server] = [tool for tool in tools if self._filters[server].allows(tool["name"])]
        return self._with_unique_names("tools", listed)

    async def list_prompts(self, *, use_cache: bool = True) -> list[PromptDefinition]:
        """Return the prompts of all connected servers."""
        listed = await self._list_all(
            "prompts", "name", lambda client: client.list_prompts(use_cache=use_cache)
        )
        return self._with_unique_names("prompts", listed)

    async def list_resources(self, *, use_cache: bool = True) -> list[ResourceDefinition]:
        """Return the resources of all connected servers. If several servers list one URI, the first of them counts."""
        listed = await self._list_all(
            "resources", "uri", lambda client: client.list_resources(use_cache=use_cache)
        )
        self._owners, resources = _firsts(listed, "uri")
        return resources

    async def list_resource_templates(self, *, use_cache: bool = True) -> list[ResourceTemplateDefinition]:
        """Return the resource templates of all connected servers.

        If several servers list the same template, the first of them counts.
        """
        listed = await self._list_all(
            "resources", "uriTemplate", lambda client: client.list_resource_templates(use_cache=use_cache)
        )
        self._templates, templates = _firsts(listed, "uriTemplate")
        return templates

    async def read_resource(self, uri: str, *, use_cache: bool = True) -> list[ResourceContents]:
        """Read a resource from the server that lists it, or has a template for it; otherwise try each server.

        Args:
            uri: The URI of the resource.
            use_cache: Whether a cached result may be returned.

        Returns:
            The contents, each with `uri` and either `text` or `blob`.

        Raises:
            ProtocolError: No server has the resource, or the server responded with an error.
        """
        *others, last = await self._servers_with(uri)
        for server in others:
            try:
                return await (await self._reach(server)).read_resource(uri, use_cache=use_cache)
            except ProtocolError as error:
                if error.code not in _NOT_FOUND:
                    raise
        return await (await self._reach(last)).read_resource(uri, use_cache=use_cache)

    async def complete(self, reference: str, *arguments: Any, **options: Any) -> list[str]:
        """Complete an argument of a prompt or template of the server that has it; see `Client.complete`."""
        if "{" in reference:
            if self._templates is None:
                await self.list_resource_templates()
            server = (self._templates or {}).get(reference) or next(iter(self._clients))
        else:
            server, reference = await self._find("prompts", reference, self.list_prompts)
        return await (await self._reach(server)).complete(reference, *arguments, **options)

    async def set_log_level(self, level: str) -> None:
        """Set the lowest level of log messages for all servers that support logging; see `Client.set_log_level`."""
        await _gather(self._clients[name].set_log_level(level) for name in self._connected("logging"))
        for name in self._failures:
            with suppress(ConnectionError):  # the level is sent when the server can be reached
                await self._clients[name].set_log_level(level)

    def _change_source(self, requested: SubscriptionFilter) -> ChangeSource:
        async def listen(queue: ChangeBuffer, acknowledged: asyncio.Future[None]) -> None:
            self._check_open()
            await _merge_subscriptions(await self._subscriptions(requested), queue, acknowledged)

        return listen

    async def _subscriptions(self, requested: SubscriptionFilter) -> list[_Part]:
        """Return the subscriptions for each connected server, limited to the changes that the server announces.

        Raises:
            ProtocolError: No server announces some of the requested changes.
        """
        clients = {name: self._clients[name] for name in self._connected()}
        announced = {
            name: announced_changes(client.server_capabilities, requested.lists)
            for name, client in clients.items()
        }
        uris: dict[str, list[str]] = {name: [] for name in clients}
        missing: list[str] = []
        for uri in requested.uris:
            names = [
                name for name in await self._servers_with(uri) if name in announced and announced[name][1]
            ]
            for name in names:
                uris[name].append(uri)
            missing += [] if names else [uri]
        all_lists = {each for lists, _ in announced.values() for each in lists}
        if not requested.allows_missing_lists:
            missing += [f"the list of {name}" for name in requested.lists if name not in all_lists]
        elif not all_lists:
            missing.append("any list")
        if missing:
            raise not_announced(missing)
        parts: list[_Part] = []
        for name, (lists, _) in announced.items():
            if lists or uris[name]:
                subscription = clients[name].listen(
                    tools_list_changed="tools" in lists,
                    prompts_list_changed="prompts" in lists,
                    resources_list_changed="resources" in lists,
                    resource_subscriptions=uris[name],
                )
                parts.append(_Part(name, subscription, bool(uris[name])))
        return parts

    async def _find(self, kind: str, name: str, list_all: Callable[[], Awaitable[object]]) -> tuple[str, str]:
        """Return the server of a tool or prompt, and its name there.

        Raises:
            ProtocolError: No server has it.
        """
        if name not in self._listed[kind] and not self._names.is_unambiguous(name):
            await list_all()
        found = self._listed[kind].get(name) or self._names.split(name)
        if found is None:
            close = nearest(name, self._listed[kind])
            prefixes = ", ".join(self._names.prefixes.values())
            hint = f"; did you mean {close}?" if close else f": they begin with {prefixes}"
            raise ProtocolError(INVALID_PARAMS, f"no server has {name[:100]} among its {kind}{hint}")
        return found

    async def _servers_with(self, uri: str) -> list[str]:
        """Return the servers that may have a resource: the one that lists it, or else all servers with resources."""
        servers = self._connected("resources") or list(self._clients)
        if len(servers) == 1:
            return servers
        if self._owners is None or self._templates is None:
            await asyncio.gather(self.list_resources(), self.list_resource_templates())
        if (owner := (self._owners or {}).get(uri)) is not None:
            return [owner]
        return [
            server for template, server in (self._templates or {}).items() if _matches(template, uri)
        ] or servers

    async def _list_all(
        self, capability: str, member: str, list_one: Callable[[Client], Awaitable[list[Any]]]
    ) -> dict[str, list[Any]]:
        """Request the lists of all connected servers. The list of a server that fails is empty.

        Args:
            capability: The capability that a server with such a list declares.
            member: The member that identifies an item. Items without it are left out.
            list_one: Requests the list of one server.

        Raises:
            Exception: All servers failed; the error of the first one.
        """
        names = self._connected(capability)
        answers = await asyncio.gather(
            *(list_one(self._clients[name]) for name in names), return_exceptions=True
        )
        listed: dict[str, list[Any]] = {}
        errors: list[BaseException] = []
        for server, answer in zip(names, answers, strict=True):
            if not isinstance(answer, BaseException):
                listed[server] = [each for each in answer if isinstance(each.get(member), str)]
                continue
            errors.append(answer)
            if not isinstance(answer, _FAILURES):
                raise answer
            logger.warning(
                "The server %s failed, so the list lacks its %s this time: %s", server, capability, answer
            )
        if errors and not listed:
            raise errors[0]
        return listed

    def _with_unique_names(self, kind: str, listed: Mapping[str, Sequence[Any]]) -> list[Any]:
        """Return the items of all servers with names that are unique in the group."""
        own = {server: [each["name"] for each in found] for server, found in listed.items()}
        assigned = self._listed[kind] = self._names.assign(own)
        names = {place: name for name, place in assigned.items()}
        items = ((server, each) for server, found in listed.items() for each in found)
        return [{**each, "name": names[server, each["name"]]} for server, each in items]


def client_for(target: Target | ServerEntry, **options: Any) -> Client:
    """Return a client of a target: a `ClientGroup` where it is a configuration."""
    if isinstance(target, ServerEntry) or not is_configuration(target):
        return Client(target, **options)
    return ClientGroup(target, **options)


def servers_of(client: Client) -> Mapping[str, Client]:
    """Return the clients of a group by server; a single client is that of `server`."""
    return client.servers if isinstance(client, ClientGroup) else {"server": client}


def failures_of(client: Client) -> Mapping[str, Exception]:
    """Return why servers of a group are not connected, by server."""
    return client.failures if isinstance(client, ClientGroup) else {}


def _firsts(listed: Mapping[str, Sequence[Any]], member: str) -> tuple[dict[str, str], list[Any]]:
    """Return the first server that lists each item, by the item's member, and these items."""
    owners: dict[str, str] = {}
    firsts: list[Any] = []
    for server, found in listed.items():
        for each in found:
            if owners.setdefault(each[member], server) == server:
                firsts.append(each)
    return owners, firsts


def _matches(template: str, uri: str) -> bool:
    from ..content.uri_templates import UriTemplate

    try:
        return UriTemplate(template, unsafe=True).match(uri) is not None
    except RegistrationError:  # one that can be read in two ways
        return False


async def _gather(awaitables: Iterable[Awaitable[None]]) -> None:
    """Await all, and then raise the first exception, if any."""
    for result in await asyncio.gather(*awaitables, return_exceptions=True):
        if result is not None:
            raise result


# Subscriptions


class _Part(NamedTuple):
    """The subscription to changes at one server, not entered yet."""

    server: str
    subscription: Subscription
    is_needed: bool
    """Whether it covers a resource, which no other server has."""


async def _merge_subscriptions(
    parts: Sequence[_Part], queue: ChangeBuffer, acknowledged: asyncio.Future[None]
) -> None:
    """Receive the changes of several servers until all subscriptions have ended.

    A subscription that fails is left out, unless it is needed or the last one.

    Args:
        parts: The subscriptions.
        queue: The queue that takes the changes.
        acknowledged: Set once all servers have acknowledged their subscriptions.

    Raises:
        Exception: The error of a needed subscription, or the last error if all failed.
    """
    opening = {part.server for part in parts}
    failed: set[str] = set()

    def on_opened(server: str) -> None:
        opening.discard(server)
        if not opening and not acknowledged.done():
            acknowledged.set_result(None)

    async def receive(part: _Part) -> None:
        try:
            async with part.subscription as changes:
                on_opened(part.server)
                async for change in changes:
                    queue.add(change)
        except Exception as error:
            failed.add(part.server)
            if part.is_needed or len(failed) == len(parts):
                raise
            logger.warning(
                "change notifications of the server %s cannot be received: %s. Those of the other servers are; "
                "call listen() again to retry",
                part.server,
                error,
            )
            on_opened(part.server)

    await gather_or_cancel(receive(part) for part in parts)
