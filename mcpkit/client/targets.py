"""What a client may be given as its server, and the transports to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ..protocol.types import Json
from .configuration import Configuration, load, workspace
from .entry import ALL_TOOLS, Configured, Process, Remote, Tools
from .meant import Meant, Target, existing, is_served, is_transport, meant
from .transport import Transport
from .transports.memory import MemoryTransport

if TYPE_CHECKING:
    import ssl

    import httpx2
    from starlette.types import ASGIApp


@dataclass(frozen=True)
class TargetOptions:
    """How a server is reached; None where nothing is said.

    Attributes:
        env: Variables of the environment of its process.
        cwd: The folder in which its process starts; of a configuration the folder that stands for the host's workspace.
        stderr: Where the standard error of its process goes.
        headers: Headers of each request.
        token: The bearer token of each request, or a function that returns it.
        auth: How each request is authorized, by httpx2.
        verify: Whether the server's certificate is verified, or the context that does.
        cert: The client's certificate: a file, or a certificate's and a key's.
        proxy: The proxy that is used in the place of that of the environment.
        http_client: The client that makes the requests.
        path: Where in an ASGI app its endpoint is; `/mcp` where nothing is said.
        max_answer: Bytes that a message of the server's may have.
        connect_timeout: Seconds that it may take to connect.
    """

    env: Mapping[str, str] | None = None
    cwd: str | os.PathLike[str] | None = None
    stderr: object = None
    headers: Mapping[str, str] | None = None
    token: str | Callable[[], object] | None = None
    auth: httpx2.Auth | None = None
    verify: bool | ssl.SSLContext | None = None
    cert: object = None
    proxy: str | None = None
    http_client: httpx2.AsyncClient | None = None
    path: str | None = None
    max_answer: int | None = None
    connect_timeout: float | None = None

    def given(self) -> Json:
        """Return those that say something, by name."""
        named = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {name: value for name, value in named if value is not None}


@dataclass(frozen=True)
class ServerEntry:
    """A server, and how a client talks to it.

    Attributes:
        name: What tells it apart from others.
        transports: The ways to it, in the order in which they are tried.
        timeout: Seconds that a request may take; None where nothing is said.
        tools: Which of its tools are wanted.
    """

    name: str
    transports: Sequence[Transport]
    timeout: float | None = None
    tools: Tools = ALL_TOOLS


_NOTHING: Final = TargetOptions()

_OF_PROCESSES: Final = ("env", "cwd", "stderr", "max_answer")
_OF_URLS: Final = (
    "headers", "token", "auth", "verify", "cert", "proxy", "http_client", "max_answer", "connect_timeout"
)  # fmt: skip
_OF_APPS: Final = ("headers", "token", "auth", "path", "max_answer")
_OF_SERVERS: Final = ("headers",)
_OF_ALL: Final = frozenset({"cwd", "stderr", "verify", "proxy", "max_answer", "connect_timeout"})
"""What may be said of several servers at once: nothing of it is meant for one of them, as a token is."""


def transports_of(target: Target, options: TargetOptions = _NOTHING) -> Sequence[ServerEntry]:
    """Return the servers that a target means, and the ways to them. Nothing is opened or started yet.

    Args:
        target: A server object, a transport, an ASGI app; a script or a folder with one; a command, as a list; a URL;
            an entry of a host's configuration, a whole one, or the path of its file.
        options: How they are reached.

    Returns:
        One server; several where the target is a configuration that has several.

    Raises:
        FileNotFoundError: There is no such file or folder.
        TypeError: The target, or something in it, is nothing that can be connected to.
        ValueError: It has the right type, and cannot be connected to all the same; or an option is not for it.
    """
    given = options.given()
    if isinstance(target, Mapping):
        configuration = Configuration(dict(target), "the configuration", Path.cwd() / given.pop("cwd", ""))
        servers = {name: _entry(configuration, name) for name in configuration.entries}
    elif isinstance(target, str | os.PathLike) and _is_configuration(os.fspath(target)):
        path = existing(Path(target).expanduser())
        folder = Path.cwd() / given.pop("cwd") if "cwd" in given else workspace(path)
        configuration = Configuration(load(path), str(target), folder)
        servers = {name: configuration.read(name) for name in configuration.entries}
    else:
        servers = {"server": meant(target)}
    _check(given, list(servers.values()))
    return [_server(name, server, given) for name, server in servers.items()]


def _is_configuration(path: str) -> bool:
    return path.casefold().endswith((".json", ".jsonc")) and "://" not in path


def _entry(configuration: Configuration, name: str) -> Configured | Meant:
    """Return an entry; in a configuration that is written in Python, any target may stand in its place."""
    entry = configuration.entries[name]
    return configuration.read(name) if isinstance(entry, Mapping) else meant(entry)


def _known(server: Configured | Meant) -> tuple[str, Sequence[str]]:
    """Return what a server is called, and which options it has."""
    reached = server.reached if isinstance(server, Configured) else server
    if isinstance(reached, Process):
        return "a process", _OF_PROCESSES
    if isinstance(reached, Remote):
        return "a URL", _OF_URLS
    if is_served(reached):
        return "a server object", _OF_SERVERS
    if is_transport(reached):
        return "a transport", ()
    return "an ASGI app", _OF_APPS


def _check(given: Json, servers: Sequence[Configured | Meant]) -> None:
    """Refuse options that nobody would hear of, or that more would hear of than was meant."""
    for option in given:
        if len(servers) > 1 and option not in _OF_ALL:
            raise ValueError(
                f"{option}= would be for each of the {len(servers)} servers of the configuration; "
                "write it in the entry of the one that it is meant for"
            )
        known = [_known(server) for server in servers]
        if not any(option in options for _, options in known):
            kind, options = known[0]
            there_are = (
                f"there are {', '.join(f'{each}=' for each in options)}" if options else "it has no options"
            )
            raise ValueError(f"{option}= is nothing that {kind} has; {there_are}")


def _server(name: str, server: Configured | Meant, given: Json) -> ServerEntry:
    own = {option: value for option, value in given.items() if option in _known(server)[1]}
    if isinstance(server, Configured):
        return ServerEntry(name, _ways(server.reached, own), server.timeout, server.tools)
    return ServerEntry(name, _ways(server, own))


def _ways(reached: Meant, given: Json) -> Sequence[Transport]:
    if isinstance(reached, Process):
        env = {**reached.env, **given.pop("env", {})}
        return [_made("stdio", "StdioTransport", reached.command, env=env, **{"cwd": reached.cwd, **given})]
    if isinstance(reached, Remote):
        headers = {**reached.headers, **given.pop("headers", {})}
        if reached.token is not None:
            given = {"token": reached.token, **given}
        http, sse = (
            _made(file, name, reached.url, headers=headers, **given)
            for file, name in (("http", "HttpTransport"), ("sse", "SseTransport"))
        )
        if reached.way == "sse":
            return [sse]
        names_sse = "sse" in urlsplit(reached.url).path.split("/")
        return [sse, http] if names_sse and reached.way is None else [http, sse]
    if is_served(reached):
        headers = given.get("headers", {})
        named = {name.lower().encode("ascii"): value.encode() for name, value in headers.items()}
        return [MemoryTransport(reached, headers=named)]
    if is_transport(reached):
        return [reached]
    return [_app(reached, given)]


def _app(app: ASGIApp, given: Json) -> Transport:
    path = given.pop("path", "/mcp")
    return _made("http", "HttpTransport", f"http://127.0.0.1{path}", app=app, **given)


def _made(file: str, name: str, *arguments: object, **given: object) -> Transport:
    """Make a transport: imported when it is used, as each of them imports what the others do not need."""
    made: Transport = getattr(import_module(f"{__package__}.transports.{file}"), name)(*arguments, **given)
    return made
