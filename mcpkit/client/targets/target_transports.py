"""The servers of a target of a client, each with the transports by which it can be reached."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeGuard
from urllib.parse import urlsplit

from typing_extensions import TypedDict, Unpack

from ..._utils.exceptions import TransportError
from ..._utils.option_checks import unknown_option
from ...content.blocks import described
from ...protocol.jsonrpc import Json
from ..client_messages import OutgoingMessage
from ..transport_interface_and_memory import Transport, TransportListener
from .infer_target import (
    ALL_TOOLS,
    ConfiguredServer,
    HttpServerConfig,
    InferredTarget,
    StdioServerConfig,
    Target,
    ToolFilter,
    existing,
    infer_target,
    is_path,
    is_served,
    is_transport,
)

if TYPE_CHECKING:
    import ssl

    import httpx2

    from ..http.asgi_lifespan import AppLifespan
    from ..http.http_endpoint import Auth
    from ..stdio.stdio_transport import Stderr


class TargetOptions(TypedDict, total=False):
    """Options for reaching a server. An option that is not given has its default."""

    env: Mapping[str, str] | None
    """Environment variables of the server's process, in addition to the few that are inherited."""
    cwd: str | os.PathLike[str] | None
    """The working directory of the server's process.

    For a configuration it is the folder that stands for the host's workspace.
    """
    stderr: Stderr
    """The target of the server's standard error: a function that is called with each line, or an open file.

    `subprocess.DEVNULL` discards it. None passes it to the standard error of this process.
    """
    grace: float | None
    """Seconds to wait for the process to exit, and again after SIGTERM; 2 by default."""
    headers: Mapping[str, str] | None
    """The HTTP headers of each request."""
    token: str | Callable[[], str | Awaitable[str]] | None
    """The bearer token of each request, or a function that returns it."""
    auth: Auth | Literal["oauth"] | None
    """The authorization of requests: an `Authorization` such as `OAuth`, or "oauth" for `OAuth()`.

    It may also be an `httpx2.Auth`, user and password, or a function.
    """
    verify: bool | str | Path | ssl.SSLContext | None
    """Whether the server's certificate is verified; or a file or folder of authorities, or an `SSLContext`."""
    cert: str | Path | tuple[str | Path, ...] | None
    """A file with the client's certificate and key; or two files, and the key's password as a third item."""
    proxy: str | None
    """The URL of a proxy. None takes that of the environment."""
    trust_env: bool | None
    """Whether proxies and certificate authorities are read from the environment; True by default."""
    http_client: httpx2.AsyncClient | None
    """The `httpx2.AsyncClient` that sends the requests. It is not closed."""
    path: str | None
    """The path of the endpoint in an ASGI app; `/mcp` by default."""
    max_answer: int | None
    """The most bytes of a message from the server."""


@dataclass(frozen=True)
class ServerEntry:
    """A server and its possible transports.

    Attributes:
        name: The name of the server.
        transports: The transports, in the order in which they are tried.
        timeout: The time limit of a request in seconds; None if the configuration has none.
        tools: The filter of its tools.
        lifecycle: Keeps a server in this process running; None for other servers.
    """

    name: str
    transports: Sequence[Transport]
    timeout: float | None = None
    tools: ToolFilter = ALL_TOOLS
    lifecycle: AppLifespan | None = None


_PROCESS_OPTIONS: Final = ("env", "cwd", "stderr", "grace", "max_answer")
_URL_OPTIONS: Final = (
    "headers", "token", "auth", "verify", "cert", "proxy", "trust_env", "http_client", "max_answer"
)  # fmt: skip
_APP_OPTIONS: Final = ("headers", "token", "auth", "path", "max_answer")
_SERVER_OPTIONS: Final = ("headers",)
_SHARED_OPTIONS: Final = frozenset({"cwd", "stderr", "grace", "verify", "proxy", "trust_env", "max_answer"})
"""Options that apply to all servers of a configuration, unlike a token."""


def transports_of(target: Target | ServerEntry, **options: Unpack[TargetOptions]) -> Sequence[ServerEntry]:
    """Return the servers of a target with their transports. Nothing is opened or started yet.

    Args:
        target: A server object, a transport, an ASGI app; a script or a folder with one; a command, as a list; a URL;
            an entry of a host's configuration, a whole one, or the path of its file.
        options: The options for reaching them.

    Returns:
        One server, or those of a configuration.

    Raises:
        FileNotFoundError: There is no such file or folder.
        TypeError: The target, or an entry in it, has a type that cannot be connected to; or there is no such option.
        ValueError: The target cannot be connected to, or an option does not apply to it.
    """
    if unknown := options.keys() - TargetOptions.__optional_keys__:
        raise TypeError(unknown_option("Client()", min(unknown), TargetOptions.__optional_keys__))
    values: Json = {option: value for option, value in options.items() if value is not None}
    for option in values.keys() & {"env", "headers"}:
        if not isinstance(values[option], Mapping):
            raise TypeError(
                f"{option}= must be a mapping of names to values, got {described(values[option])}"
            )
    if isinstance(target, ServerEntry):
        return [target]
    servers: Mapping[str, ConfiguredServer | InferredTarget]
    if is_mapping(target) or is_path_of_configuration(target):
        servers = _configured_servers(target, values.pop("cwd", None))
    else:
        servers = {"server": infer_target(target)}
    _check_options(values, list(servers.values()))
    return [_entry(name, server, values) for name, server in servers.items()]


def single_entry(entries: Sequence[ServerEntry]) -> ServerEntry:
    """Return the only server of a target.

    Raises:
        ValueError: There are several, or the configuration leaves out some of its tools.
    """
    if len(entries) > 1:
        names = ", ".join(entry.name for entry in entries)
        raise ValueError(
            f"the configuration has {len(entries)} servers ({names}). Use ClientGroup(...) for all of them, or pass "
            "Client(...) the entry of one"
        )
    if entries[0].tools != ALL_TOOLS:
        raise ValueError(
            f"the configuration leaves out tools of the server {entries[0].name!r}. Use ClientGroup(...), which "
            "applies that, or remove it from the entry"
        )
    return entries[0]


def is_configuration(target: object) -> bool:
    """Return whether a target is a configuration, or one entry of it, or the path of one."""
    return is_mapping(target) or is_path_of_configuration(target)


def is_mapping(target: object) -> TypeGuard[Mapping[str, object]]:
    """Return whether a target is a configuration, or one entry of it."""
    return isinstance(target, Mapping)


def is_path_of_configuration(target: object) -> TypeGuard[str | os.PathLike[str]]:
    """Return whether a target is the path of a configuration."""
    if not is_path(target):
        return False
    path = os.fspath(target)
    return path.casefold().endswith((".json", ".jsonc")) and "://" not in path


def is_of_one_user(options: TargetOptions) -> bool:
    """Return whether all requests have the same authorization, or the client is notified when it changes."""
    auth = options.get("auth")
    may_vary = callable(options.get("token")) or options.get("http_client") is not None
    return not may_vary and (auth is None or isinstance(auth, (tuple, str)) or hasattr(auth, "authorizer"))


def _configured_servers(
    target: Mapping[str, object] | str | os.PathLike[str], cwd: str | os.PathLike[str] | None
) -> Mapping[str, ConfiguredServer | InferredTarget]:
    """Return the servers of a configuration. In a mapping, any target may stand for an entry."""
    from .host_configuration import Configuration, load, workspace

    if isinstance(target, Mapping):
        configuration = Configuration(dict(target), "the configuration", Path.cwd() / (cwd or ""))
        return {
            name: configuration.read(name) if is_mapping(entry) else infer_target(entry)
            for name, entry in configuration.entries.items()
        }
    path = existing(Path(target).expanduser())
    configuration = Configuration(
        load(path), str(target), workspace(path) if cwd is None else Path.cwd() / cwd
    )
    servers: dict[str, ConfiguredServer | InferredTarget] = {}
    for name in configuration.entries:
        try:
            servers[name] = configuration.read(name)
        except (TypeError, ValueError) as error:
            servers[name] = _InvalidEntry(error)
    if all(isinstance(server, _InvalidEntry) for server in servers.values()):
        for name in servers:
            configuration.read(name)  # raises the error of the first one
    return servers


class _InvalidEntry:
    """The transport to a server with an invalid entry: opening it fails. Other servers of the file can be used.

    Args:
        error: The error in the entry.
    """

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def open(self, receiver: TransportListener) -> None:
        """Raise TransportError."""
        raise TransportError(str(self._error), may_have_begun=False) from self._error

    def send(self, message: OutgoingMessage) -> None:
        """Do nothing: it is never open."""

    async def close(self) -> None:
        """Do nothing: it is never open."""


def _options_of(server: ConfiguredServer | InferredTarget) -> tuple[str, Sequence[str]]:
    """Return the kind of a server in words, and the options for it."""
    connection = server.connection if isinstance(server, ConfiguredServer) else server
    if isinstance(connection, StdioServerConfig):
        return "a process", _PROCESS_OPTIONS
    if isinstance(connection, HttpServerConfig):
        return "a URL", _URL_OPTIONS
    if is_served(connection):
        return "a server object", _SERVER_OPTIONS
    if is_transport(connection):
        return "a transport", ()
    return "an ASGI app", _APP_OPTIONS


def _check_options(values: Json, servers: Sequence[ConfiguredServer | InferredTarget]) -> None:
    """Raise an error for options that apply to none of the servers, or to more servers than intended."""
    kinds = [_options_of(server) for server in servers]
    for option in values:
        if len(servers) > 1 and option not in _SHARED_OPTIONS:
            raise ValueError(
                f"{option}= would apply to all {len(servers)} servers of the configuration. "
                "Set it in the entry of one server instead"
            )
        if not any(option in options for _, options in kinds):
            kind, options = kinds[0]
            there_are = f"Use {', '.join(f'{each}=' for each in options)}" if options else "It has no options"
            raise ValueError(f"{kind} does not have the option {option}=. {there_are}")


def _entry(name: str, server: ConfiguredServer | InferredTarget, values: Json) -> ServerEntry:
    own = {option: value for option, value in values.items() if option in _options_of(server)[1]}
    if isinstance(server, ConfiguredServer):
        try:
            return ServerEntry(name, _transports(server.connection, own), server.timeout, server.tools)
        except ValueError as error:
            raise ValueError(f"{server.place}: {error}") from error
    lifecycle = None
    if not (
        isinstance(server, StdioServerConfig | HttpServerConfig) or is_served(server) or is_transport(server)
    ):
        from ..http.asgi_lifespan import AppLifespan

        lifecycle = AppLifespan(server)
    return ServerEntry(name, _transports(server, own), lifecycle=lifecycle)


def _transports(target: InferredTarget, options: Json) -> Sequence[Transport]:
    # Imports of transports are local, as each of them is large.
    if isinstance(target, StdioServerConfig):
        from ..stdio.stdio_transport import StdioTransport

        env = {**target.env, **options.pop("env", {})}
        options = {"cwd": target.cwd, **options}
        return [StdioTransport(target.command, env=env, **options)]
    if isinstance(target, HttpServerConfig):
        headers = {**target.headers, **options.pop("headers", {})}
        if target.token is not None:
            options = {"token": target.token, **options}
        elif target.logs_in and "token" not in options:
            options = {"auth": "oauth", **options}
        return _http_transports(target.url, target.transport, {"headers": headers, **options})
    if is_served(target):
        from ..transport_interface_and_memory import MemoryTransport

        headers = options.get("headers", {})
        encoded = {name.lower().encode("ascii"): value.encode() for name, value in headers.items()}
        return [MemoryTransport(target, headers=encoded)]
    if is_transport(target):
        return [target]
    # The URL has a port, as servers that allow `localhost:*` require one.
    url = f"http://127.0.0.1:8000{options.pop('path', '/mcp')}"
    return _http_transports(url, None, {"app": target, **options})


def _http_transports(url: str, transport: str | None, options: Json) -> Sequence[Transport]:
    """Return the transports to a URL: the specified one, else both; SSE comes first if the path has `sse`."""
    from ..http.http_transports import HttpTransport, SseTransport

    if options.get("auth") == "oauth":
        from ..auth.oauth_grants import OAuth

        options = {**options, "auth": OAuth()}
    http, sse = HttpTransport(url, **options), SseTransport(url, **options)
    if transport == "sse":
        return [sse]
    is_sse_first = transport is None and "sse" in urlsplit(url).path.split("/")
    return [sse, http] if is_sse_first else [http, sse]
