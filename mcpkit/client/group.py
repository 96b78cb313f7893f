"""Clients of several servers, used as one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from ..common.errors import INVALID_PARAMS, METHOD_NOT_FOUND, ProtocolError, RegistrationError
from ..common.nearest import nearest
from ..protocol.types import Json
from .asking.questions import Roots
from .changes.changes import Subscription, Wanted
from .client import Client
from .group_subscription import GroupSubscription, Part, watches_of
from .link.errors import NOT_OPEN
from .names import Names
from .targets.meant import Target
from .targets.targets import ServerEntry, TargetOptions, is_configuration, transports_of

logger = logging.getLogger(__name__)

_NOT_FOUND: Final = frozenset({-32002, INVALID_PARAMS, METHOD_NOT_FOUND})
"""Error codes for an unknown resource, in all revisions."""

_FAILURES: Final = (OSError, ProtocolError, ImportError)
"""What keeps one server away, and no other: among them are `ConnectionError` and `TimeoutError`."""


class ClientGroup(Client):
    """A client of all servers of a configuration: `async with ClientGroup("mcp.json") as client`.

    Tools and prompts are told apart by the names of their servers (`weather_forecast`), where there are several. A
    resource is read from the server that lists it, or has a template for it. What is said to nobody in particular is
    for all. A server that cannot be reached is left out; see `failures`.

    Args:
        target: The configuration.
        options: As for `Client`: they hold for each of the servers.
    """

    def __init__(self, target: Target, **options: Any) -> None:
        reaching: Json = {
            option: options.pop(option) for option in TargetOptions.__optional_keys__ & options.keys()
        }
        entries = transports_of(target, **reaching)
        self._clients = {entry.name: Client(entry, **options) for entry in entries}
        self._wanted = {entry.name: entry.tools for entry in entries}
        self._names = Names(list(self._clients))
        self._meant: dict[str, dict[str, tuple[str, str]]] = {"tools": {}, "prompts": {}}
        self._owners: dict[str, str] | None = (
            None  # the servers of resources, by URI; None before they are listed
        )
        self._templates: dict[str, str] | None = None  # the same by URI template
        self._failures: dict[str, Exception] = {}
        self._is_open = False

    # Its life

    async def _begin(self) -> None:
        """Connect to all servers at once.

        Raises:
            ConnectionError: None of them can be reached.
        """
        self._is_open = True
        await _all(self._open(name) for name in self._clients)
        if len(self._failures) == len(self._clients):
            raise self._nobody()

    async def _open(self, name: str) -> None:
        try:
            await self._clients[name].__aenter__()
        except _FAILURES as error:
            self._leave_out(name, error)
        else:
            self._failures.pop(name, None)

    def _leave_out(self, name: str, error: Exception) -> None:
        if len(self._clients) > 1:
            logger.warning("The server %s is left out, as it cannot be reached: %s", name, error)
        self._failures[name] = error

    def _nobody(self) -> Exception:
        """Return what is raised where no server can be reached."""
        first = next(iter(self._failures.values()))
        if len(self._clients) == 1:
            return first
        each = "; ".join(f"{name}: {error}" for name, error in self._failures.items())
        none = ConnectionError(f"none of the {len(self._clients)} servers can be reached: {each}")
        none.__cause__ = first
        return none

    async def close(self) -> None:
        """Leave all servers; called again it does nothing."""
        self._entered = 0
        self._is_open = False
        await _all(client.close() for client in self._clients.values())
        self._failures.clear()

    def _check_here(self) -> None:
        """Leave it to the clients of the servers."""

    async def _reach(self, name: str) -> Client:
        """Return the client of a server; where it could not be reached, it is tried once more."""
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

    # Who they are

    @property
    def servers(self) -> Mapping[str, Client]:
        """The clients of the servers, by name."""
        return dict(self._clients)

    @property
    def failures(self) -> Mapping[str, Exception]:
        """Why servers are left out, by name."""
        return dict(self._failures)

    @property
    def protocol_version(self) -> str:
        """The protocol version of the only server."""
        return self._only("protocol_version").protocol_version

    @property
    def protocol_version_reason(self) -> str:
        """Why it is that one, in words."""
        return self._only("protocol_version_reason").protocol_version_reason

    @property
    def server_info(self) -> Json:
        """What the only server says it is."""
        return self._only("server_info").server_info

    @property
    def server_capabilities(self) -> Json:
        """What the only server declares."""
        return self._only("server_capabilities").server_capabilities

    @property
    def instructions(self) -> str | None:
        """How the servers say that a model should use them, or None; of several each after its name."""
        if len(self._clients) == 1:
            return self._only("instructions").instructions
        said = {name: self._clients[name].instructions for name in self._there()}
        return "\n\n".join(f"{name}: {text}" for name, text in said.items() if text) or None

    @property
    def roots(self) -> Roots | None:
        """The folders that the servers are to stay within, the same for all."""
        return next(iter(self._clients.values())).roots

    @roots.setter
    def roots(self, roots: Roots | None) -> None:
        for client in self._clients.values():
            client.roots = roots

    def _only(self, what: str) -> Client:
        """Return the client of the only server.

        Raises:
            ValueError: There are several.
        """
        if len(self._clients) > 1:
            name = next(iter(self._clients))
            raise ValueError(
                f"there are several servers: ask for that of one, client.servers[{name!r}].{what}"
            )
        return next(iter(self._clients.values()))

    def _there(self, capability: str | None = None) -> list[str]:
        """Return the servers that are not left out, and have something."""
        return [
            name
            for name, client in self._clients.items()
            if self._is_open
            and name not in self._failures
            and (capability is None or capability in client.server_capabilities)
        ]

    # What is asked

    async def request(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> Json:
        """Send any request to the only server, and return its result.

        Raises:
            ValueError: There are several.
        """
        return await self._only("request(...)").request(method, params, **options)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> Awaitable[None]:
        """Send a notification to all servers; what is returned need not be awaited."""
        return asyncio.ensure_future(
            _all([self._clients[name].notify(method, params) for name in self._there()])
        )

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Call a tool of the server that has it.

        Raises:
            ProtocolError: No server has it, or the configuration leaves it out; or what the server has answered.
        """
        server, own = await self._find("tools", name, self.list_tools)
        if not self._wanted[server].have(own):
            raise ProtocolError(
                INVALID_PARAMS, f"the configuration leaves out the tool {own} of the server {server}"
            )
        return await (await self._reach(server)).call_tool(own, arguments, **options)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, **options: Any
    ) -> list[Json]:
        """Get a prompt of the server that has it, and return its messages."""
        server, own = await self._find("prompts", name, self.list_prompts)
        return await (await self._reach(server)).get_prompt(own, arguments, **options)

    async def list_tools(self, **options: Any) -> list[Json]:
        """Return the tools of all servers that are there, without those that the configuration leaves out."""
        listed = await self._ask_all("tools", "name", lambda client: client.list_tools(**options))
        for server, tools in listed.items():
            listed[server] = [tool for tool in tools if self._wanted[server].have(tool["name"])]
        return self._named("tools", listed)

    async def list_prompts(self, **options: Any) -> list[Json]:
        """Return the prompts of all servers that are there."""
        return self._named(
            "prompts", await self._ask_all("prompts", "name", lambda client: client.list_prompts(**options))
        )

    async def list_resources(self, **options: Any) -> list[Json]:
        """Return the resources of all servers that are there; of those of one URI the first."""
        listed = await self._ask_all("resources", "uri", lambda client: client.list_resources(**options))
        self._owners, resources = _firsts(listed, "uri")
        return resources

    async def list_resource_templates(self, **options: Any) -> list[Json]:
        """Return the resource templates of all servers that are there; of those that are alike the first."""
        listed = await self._ask_all(
            "resources", "uriTemplate", lambda client: client.list_resource_templates(**options)
        )
        self._templates, templates = _firsts(listed, "uriTemplate")
        return templates

    async def read_resource(self, uri: str, **options: Any) -> list[Json]:
        """Read a resource from the server that lists it, or has a template for it; else from whichever has it.

        Raises:
            ProtocolError: No server has it; or what the server has answered.
        """
        *others, last = await self._having(uri)
        for server in others:
            try:
                return await (await self._reach(server)).read_resource(uri, **options)
            except ProtocolError as error:
                if error.code not in _NOT_FOUND:
                    raise
        return await (await self._reach(last)).read_resource(uri, **options)

    async def complete(self, reference: str, *arguments: Any, **options: Any) -> list[str]:
        """Complete an argument of a prompt or template of the server that has it, and return the values."""
        if "{" in reference:
            if self._templates is None:
                await self.list_resource_templates()
            server = (self._templates or {}).get(reference) or next(iter(self._clients))
        else:
            server, reference = await self._find("prompts", reference, self.list_prompts)
        return await (await self._reach(server)).complete(reference, *arguments, **options)

    async def set_log_level(self, level: str) -> None:
        """Say which log messages the servers are to send from now on: all that send any."""
        await _all(self._clients[name].set_log_level(level) for name in self._there("logging"))
        for name in self._failures:
            with suppress(ConnectionError):  # it is told when it can be reached
                await self._clients[name].set_log_level(level)

    def listen(
        self,
        *,
        tools_list_changed: bool = False,
        prompts_list_changed: bool = False,
        resources_list_changed: bool = False,
        resource_subscriptions: str | Iterable[str] = (),
    ) -> Subscription:
        """Subscribe to changes at all servers that are connected; a list is that of all together.

        Raises:
            TypeError: A URI is not a string.
        """
        wanted = Wanted.of(
            tools=tools_list_changed,
            prompts=prompts_list_changed,
            resources=resources_list_changed,
            uris=resource_subscriptions,
        )

        def begin() -> Awaitable[list[Part]]:
            self._check_open()
            return watches_of({name: self._clients[name] for name in self._there()}, wanted, self._having)

        return Subscription(wanted, GroupSubscription(begin).listen)

    async def _find(self, kind: str, name: str, list_all: Callable[[], Awaitable[object]]) -> tuple[str, str]:
        """Return the server that has something of a name, and the name that it has there.

        Raises:
            ProtocolError: There is no such server.
        """
        if name not in self._meant[kind] and not self._names.is_certain(name):
            await list_all()
        likely = self._meant[kind].get(name) or self._names.likely(name)
        if likely is None:
            close = nearest(name, self._meant[kind])
            hint = (
                f"; did you mean {close}?"
                if close
                else f": they begin with {', '.join(self._names.prefixes.values())}"
            )
            raise ProtocolError(INVALID_PARAMS, f"no server has {name[:100]} among its {kind}{hint}")
        return likely

    async def _having(self, uri: str) -> list[str]:
        """Return the servers that may have a resource: one that is known to, else all that have any."""
        servers = self._there("resources") or list(self._clients)
        if len(servers) == 1:
            return servers
        if self._owners is None or self._templates is None:
            await asyncio.gather(self.list_resources(), self.list_resource_templates())
        if (owner := (self._owners or {}).get(uri)) is not None:
            return [owner]
        return [
            server for template, server in (self._templates or {}).items() if _matches(template, uri)
        ] or servers

    async def _ask_all(
        self, capability: str, member: str, ask: Callable[[Client], Awaitable[list[Json]]]
    ) -> dict[str, list[Json]]:
        """Ask all servers that are there for what they have; one that fails has nothing.

        Args:
            capability: What a server declares that has any.
            member: What tells one of them from others; those without are left out.
            ask: Asks one of them.

        Raises:
            Exception: Each of them has failed: the error of the first.
        """
        asked = self._there(capability)
        answers = await asyncio.gather(*(ask(self._clients[name]) for name in asked), return_exceptions=True)
        listed: dict[str, list[Json]] = {}
        errors: list[BaseException] = []
        for server, answer in zip(asked, answers, strict=True):
            if not isinstance(answer, BaseException):
                listed[server] = [each for each in answer if isinstance(each.get(member), str)]
                continue
            errors.append(answer)
            if not isinstance(answer, _FAILURES):
                raise answer
            logger.warning("What the server %s has is left out of a list: %s", server, answer)
        if errors and not listed:
            raise errors[0]
        return listed

    def _named(self, kind: str, listed: Mapping[str, Sequence[Json]]) -> list[Json]:
        """Return what servers have listed, each under the name that tells it apart."""
        own = {server: [each["name"] for each in found] for server, found in listed.items()}
        meant = self._meant[kind] = self._names.given(own)
        names = {place: name for name, place in meant.items()}
        return [
            {**each, "name": names[server, each["name"]]}
            for server, found in listed.items()
            for each in found
        ]


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


def _firsts(listed: Mapping[str, Sequence[Json]], member: str) -> tuple[dict[str, str], list[Json]]:
    """Return which server is the first to list what, and what it lists."""
    owners: dict[str, str] = {}
    firsts: list[Json] = []
    for server, found in listed.items():
        for each in found:
            if owners.setdefault(each[member], server) == server:
                firsts.append(each)
    return owners, firsts


def _matches(template: str, uri: str) -> bool:
    from ..content.uri_template import UriTemplate

    try:
        return UriTemplate(template, unsafe=True).match(uri) is not None
    except RegistrationError:  # one that can be read in two ways
        return False


async def _all(asked: Iterable[Awaitable[None]]) -> None:
    """Await all, and then raise what the first of those that failed has raised."""
    for result in await asyncio.gather(*asked, return_exceptions=True):
        if result is not None:
            raise result
