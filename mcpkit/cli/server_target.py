"""The TARGET of a command, its client, and the options that all commands with a TARGET have."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click
from click import argument, option
from click.shell_completion import CompletionItem

from .._utils.exceptions import AuthorizationError
from .._utils.python_safe_path import mcpkit_command
from ..client.client import Client
from ..client.client_group import client_for, servers_of
from ..client.targets.infer_target import Target
from ..client.targets.target_transports import ServerEntry, is_configuration, transports_of
from ..protocol.jsonrpc import Json
from ..protocol.revisions import LOG_LEVELS
from .console import ServerStderr
from .exit_status import CommandError, Status
from .hosts.config_entries import find_server, is_qualified_name
from .interactive_handlers import InteractiveHandlers
from .key_values_and_usage import parse_options
from .server_loader import load_server, parse_server_location

if TYPE_CHECKING:
    from ..client.transport_interface_and_memory import MemoryTransport

TransportName = Literal["http", "sse"]

Command = Callable[..., Coroutine[Any, Any, "int | None"]]
"""An `async` command; it returns its exit status, or None for success."""


# Options of commands


def complete_files(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Let the shell complete file names."""
    return [CompletionItem(incomplete, type="file")]


_OPTIONS: Final = (
    argument("target", shell_complete=complete_files),
    option("--json", "is_json", is_flag=True, help="Write JSON."),
    option(
        "--revision",
        "protocol_version",
        metavar="DATE",
        help="Use this protocol revision (default: the newest that both sides support).",
    ),
    option("--http", "transport", flag_value="http", help="Use only the Streamable HTTP transport."),
    option("--sse", "transport", flag_value="sse", help="Use only the HTTP+SSE transport of 2024-11-05."),
    option("--timeout", type=float, metavar="SECONDS", help="Seconds to wait for a response."),
    option(
        "-e",
        "--env",
        multiple=True,
        metavar="NAME=VALUE",
        help="Environment variable of the server's process.",
    ),
    option("--cwd", metavar="FOLDER", help="Working directory of the server's process."),
    option("-H", "--header", multiple=True, metavar="NAME:VALUE", help="HTTP header to add to each request."),
    option("--token", metavar="TOKEN", help="Bearer token to send with each request."),
    option("--login", is_flag=True, help="Log in with a browser if the server requires authorization."),
    option(
        "--as",
        "user",
        metavar="USER",
        help="Run the server in this process and call it as this user (Python files and modules only).",
    ),
    option("--scopes", metavar="SCOPES", help="Scopes of the --as user, separated by spaces."),
    option("--trace", is_flag=True, help="Log each message to standard error, with secrets masked."),
    option("--debug", is_flag=True, hidden=True),
)

_INTERACTIVE_OPTIONS: Final = (
    option(
        "--answer",
        "answers",
        multiple=True,
        metavar="KEY=VALUE",
        help="Answer for a field of an elicitation form.",
    ),
    option("--sample-text", metavar="TEXT", help="Response to sampling requests of the server."),
    option(
        "--root",
        "roots",
        multiple=True,
        metavar="FOLDER",
        help="Root folder to send to the server (roots/list).",
    ),
    option(
        "--log-level", type=click.Choice(LOG_LEVELS), help="Minimum level of log messages from the server."
    ),
    option(
        "-v", "--verbose", "is_verbose", is_flag=True, help="Print progress as lines if there is no terminal."
    ),
)


def client_command(function: Command) -> Callable[..., int | None]:
    """Add the argument TARGET and its options to an `async` command; its first parameter is the `ServerTarget`."""
    return _add_options(_OPTIONS, function)


def interactive_client_command(function: Command) -> Callable[..., int | None]:
    """Do the same for a command during which the server may send requests, log messages and progress."""
    return _add_options((*_OPTIONS, *_INTERACTIVE_OPTIONS), function)


def _add_options(
    options: Sequence[Callable[[Callable[..., int | None]], Callable[..., int | None]]], function: Command
) -> Callable[..., int | None]:
    @wraps(function)
    def command(**parameters: object) -> int | None:
        own_parameters: Json = parameters
        server = _pop_server_target(own_parameters)
        try:
            status = asyncio.run(function(server, **own_parameters))
        except AuthorizationError as error:
            if error.status != 401 or "auth" in server.options or _has_credentials(server.options):
                raise
            message = str(error)
            if "mcpkit auth" not in message:  # that of an expired login has the command already
                message = (
                    f"{server.target} requires authorization. Run mcpkit auth login {server.target}, "
                    "or add --token"
                )
            raise CommandError(message, Status.NOT_AUTHORIZED) from error
        is_interrupted = server.handlers is not None and server.handlers.is_interrupted
        return Status.INTERRUPTED if is_interrupted else status

    decorated: Callable[..., int | None] = command
    for add_option in reversed(options):
        decorated = add_option(decorated)
    return decorated


def _pop_server_target(parameters: Json) -> ServerTarget:
    """Make the target of a command from its parameters, and leave only the command's own ones there."""
    del parameters["debug"]
    options: Json = {
        **{name: parameters.pop(name) for name in ("protocol_version", "timeout", "cwd", "token")},
        "env": parse_options(parameters.pop("env"), "=", "--env NAME=VALUE") or None,
        "headers": parse_options(parameters.pop("header"), ":", "--header NAME:VALUE") or None,
        "auth": "oauth" if parameters.pop("login") else None,
        "trace": parameters.pop("trace") or None,
    }
    target, transport = parameters.pop("target"), parameters.pop("transport")
    user, scopes = parameters.pop("user"), parameters.pop("scopes")
    memory_transport = None
    if user == "":
        raise click.UsageError("--as has no user. Write a name, such as --as ada")
    if user is not None:
        memory_transport = _memory_transport(target, user, scopes or "", {**options, "transport": transport})
        options["env"] = options["headers"] = None
    elif scopes is not None:
        raise click.UsageError("--scopes needs a user. Add --as USER")
    handlers = None
    if "answers" in parameters:
        names = ("answers", "sample_text", "roots", "log_level", "is_verbose")
        handlers = InteractiveHandlers(**{name: parameters.pop(name) for name in names})
    return ServerTarget(
        target,
        is_json=parameters.pop("is_json"),
        options={name: value for name, value in options.items() if value is not None},
        transport=transport,
        memory_transport=memory_transport,
        handlers=handlers,
    )


def _memory_transport(target: str, user: str, scopes: str, options: Json) -> MemoryTransport:
    """Import the server of a target, and return a transport with the user of `--as` as the principal.

    Raises:
        click.UsageError: The target is not a Python file or module, or an option needs another process.
        CommandError: The target has no server.
    """
    from ..client.transport_interface_and_memory import MemoryTransport
    from ..identity.principals_and_scopes import Principal

    if parse_server_location(target) is None:
        raise click.UsageError(
            f"--as needs a server in a Python file or module, got {target}. Use --token for a URL"
        )
    names = {"token": "--token", "auth": "--login", "cwd": "--cwd", "transport": f"--{options['transport']}"}
    for key, name in names.items():
        if options[key] is not None:
            raise click.UsageError(
                f"{name} cannot be used with --as, which runs the server in this process. Omit one of them"
            )
    os.environ.update(options["env"] or {})
    with redirect_stdout(sys.stderr):  # a module may print while it is imported
        server = load_server(target).server
    by_name: Mapping[str, str] = options["headers"] or {}
    headers = {name.lower().encode(): value.encode() for name, value in by_name.items()}
    return MemoryTransport(server, principal=Principal(user, scopes.split(), subject=user), headers=headers)


# The target and its client

_NODE_SCRIPTS: Final = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts")


def resolve_target(word: str) -> Target:
    """Return the target of a client for a TARGET.

    Args:
        word: A URL; a Python file, `FILE.py:OBJECT` or `MODULE:OBJECT`; a folder; a script for Node.js; a configuration
            of servers, or `FILE.json:NAME`; a command, as one word; or the name of a server in the configuration of a
            host, or `HOST:NAME`.

    Raises:
        CommandError: There is no such target; the message has a suggestion.
        FileNotFoundError: The file does not exist.
        ValueError: A configuration is invalid.
    """
    if not word.strip():
        raise CommandError("the target is empty. Name a file, a URL, a command or a server")
    scheme, separator, _ = word.partition("://")
    if separator and scheme.isalnum():
        return word
    path = Path(word).expanduser()
    if path.is_dir() and (path / "server.py").is_file():
        path /= "server.py"
        word = str(path)
    if path.is_dir() or (path.is_file() and path.suffix.casefold() != ".py"):
        return str(path)
    if not is_qualified_name(word):
        if not path.is_file() and any(letter.isspace() for letter in word):
            return _split_command(word)
        if parse_server_location(word) is not None:
            return mcpkit_command("run", word)
        if path.suffix.casefold() in _NODE_SCRIPTS:
            return word
    return find_server(word)


def _split_command(command: str) -> list[str]:
    """Split a command into words as a shell of this system does."""
    is_posix = sys.platform != "win32"
    try:
        words = shlex.split(command, posix=is_posix)
    except ValueError as error:
        raise CommandError(
            f"the command cannot be split into words: {error}. Check its quotes and backslashes"
        ) from None
    if not is_posix:  # a backslash there is part of a path
        words = [word[1:-1] if word[:1] == word[-1:] == '"' else word for word in words]
    if not words:
        raise CommandError("the command is empty. Name a program and its arguments")
    return words


@dataclass
class ServerTarget:
    """The server of a command.

    Attributes:
        target: The TARGET on the command line.
        is_json: Whether the command writes JSON.
        options: Options of `Client`.
        transport: The transport of a URL; None for each that the server supports.
        memory_transport: A transport to the server in this process, with `--as`; None without.
        handlers: Handlers for requests, log messages and progress; None for commands during which there are none.
    """

    target: str
    is_json: bool
    options: Json
    transport: TransportName | None
    memory_transport: MemoryTransport | None
    handlers: InteractiveHandlers | None

    @asynccontextmanager
    async def client(self, **more_options: object) -> AsyncGenerator[Client]:
        """Open a client, and close it at the end.

        Args:
            more_options: Further options of `Client`.
        """
        target: Target = (
            resolve_target(self.target) if self.memory_transport is None else self.memory_transport
        )
        options: Json = {**self.options, **more_options}
        is_url = isinstance(target, str) and "://" in target
        is_process = self.memory_transport is None and not is_url and not is_configuration(target)
        if self.handlers is not None:
            options.update(self.handlers.client_options())
        if isinstance(target, str) and is_url and not _has_credentials(options):
            options.update(_saved_login(target, may_log_in="auth" in options))
        stderr = ServerStderr()
        if is_process:
            # The user's own program: it gets the whole environment, with API keys of the shell.
            options["env"] = {**os.environ, **options.get("env", {})}
            options["stderr"] = stderr.add_line
        entry: Target | ServerEntry = target
        if self.transport is not None:
            if is_process:
                name = self.transport
                raise CommandError(f"--{name} needs a URL, and the target is a process. Omit --{name}")
            entry = _entry_with_transport(self.transport, target, options)
        async with client_for(entry, **options) as client:
            stderr.flush()
            if self.handlers is not None and self.handlers.log_level is not None:
                for each in servers_of(client).values():
                    if "logging" in each.server_capabilities:
                        await each.set_log_level(self.handlers.log_level)
            yield client


def _has_credentials(options: Json) -> bool:
    return "token" in options or any(name.lower() == "authorization" for name in options.get("headers", ()))


def _saved_login(url: str, *, may_log_in: bool) -> Json:
    """Return the client option for the login at a URL; empty if there is none and none may be made."""
    from .saved_logins import find_login  # most servers need no login

    login = find_login(url, creates=may_log_in)
    if login is None:
        return {}
    from .saved_logins import oauth_for

    return {"auth": oauth_for(login, interactive=may_log_in)}


def _entry_with_transport(name: TransportName, target: Target, options: Json) -> ServerEntry:
    """Return the configuration entry of a server with one transport alone."""
    from ..client.http.http_transports import SseTransport

    http_options: Json = {key: options[key] for key in ("headers", "token", "auth") if key in options}
    entries = transports_of(target, **http_options)
    if len(entries) != 1:
        raise CommandError(
            f"--{name} works with one server, and the configuration has {len(entries)}. "
            "Name one, for example FILE.json:NAME"
        )
    transports = [each for each in entries[0].transports if isinstance(each, SseTransport) is (name == "sse")]
    if not transports:
        raise CommandError(
            f"the configuration of {entries[0].name} sets another transport than --{name}. Omit --{name}"
        )
    return replace(entries[0], transports=transports)
