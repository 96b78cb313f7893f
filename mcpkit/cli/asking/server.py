"""The server that a command asks: options that all such commands have, and the client."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, redirect_stdout
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Final, Literal

import click
from click.shell_completion import CompletionItem

from ..._utils.exceptions import AuthorizationError
from ...client.client import Client
from ...client.group import client_for, servers_of
from ...client.link.answerer import Answerer
from ...client.targets.meant import Target
from ...client.targets.reached import ALL_TOOLS
from ...client.targets.targets import ServerEntry, is_configuration, transports_of
from ...protocol.jsonrpc import Json
from ...protocol.revisions import LOG_LEVELS
from ..console import ServerStderr
from ..exit_status import CommandError, Status
from ..targets.pairs import pairs
from ..targets.served import found, place_of
from ..targets.target import target_of
from .conversation import Conversation

if TYPE_CHECKING:
    from ...client.transports.memory import MemoryTransport
    from .tasks import Answers

Command = Callable[..., Awaitable["int | None"]]
"""An `async` command; it returns its status, or nothing where all is done."""


def _files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete the names of files."""
    return [CompletionItem(incomplete, type="file")]


_OPTIONS: Final = (
    click.argument("target", shell_complete=_files),
    click.option("--json", "is_json", is_flag=True, help="Write JSON."),
    click.option(
        "--revision",
        metavar="DATE",
        help="Use this protocol revision (default: the newest that both sides support).",
    ),
    click.option("--http", "way", flag_value="http", help="Use only the Streamable HTTP transport."),
    click.option("--sse", "way", flag_value="sse", help="Use only the HTTP+SSE transport of 2024-11-05."),
    click.option("--timeout", type=float, metavar="SECONDS", help="Seconds to wait for a response."),
    click.option(
        "-e",
        "--env",
        multiple=True,
        metavar="NAME=VALUE",
        help="Environment variable of the server's process.",
    ),
    click.option("--cwd", metavar="FOLDER", help="Working directory of the server's process."),
    click.option(
        "-H", "--header", multiple=True, metavar="NAME:VALUE", help="HTTP header to add to each request."
    ),
    click.option("--token", metavar="TOKEN", help="Bearer token to send with each request."),
    click.option("--login", is_flag=True, help="Log in with a browser if the server requires authorization."),
    click.option(
        "--as",
        "user",
        metavar="USER",
        help="Run the server in this process and call it as this user (Python files and modules only).",
    ),
    click.option("--scopes", metavar="SCOPES", help="Scopes of the --as user, separated by spaces."),
    click.option("--trace", is_flag=True, help="Log each message to standard error, with secrets masked."),
    click.option("--debug", is_flag=True, hidden=True),
)

_OF_CONVERSATIONS: Final = (
    click.option(
        "--answer", multiple=True, metavar="KEY=VALUE", help="Answer for a field of an elicitation form."
    ),
    click.option("--sample-text", metavar="TEXT", help="Response to sampling requests of the server."),
    click.option(
        "--root", multiple=True, metavar="FOLDER", help="Root folder to send to the server (roots/list)."
    ),
    click.option(
        "--log-level", type=click.Choice(LOG_LEVELS), help="Minimum level of log messages from the server."
    ),
    click.option("-v", "--verbose", is_flag=True, help="Print progress as lines if there is no terminal."),
)


class Asked:
    """The server that a command asks.

    Args:
        target: What the command line names.
        is_json: Whether JSON is to be written.
        options: How it is reached, as `Client` takes it.
        way: How a URL is reached; None for whichever it speaks.
        played: A transport to the server in this process, as the user that `--as` names; None without that.
        conversation: What answers the server's questions, and shows what it says meanwhile; None where it asks nothing.
    """

    def __init__(
        self,
        target: str,
        *,
        is_json: bool,
        options: Json,
        way: Literal["http", "sse"] | None = None,
        played: MemoryTransport | None = None,
        conversation: Conversation | None = None,
    ) -> None:
        self.target = target
        self.is_json = is_json
        self.options = options
        self.way: Literal["http", "sse"] | None = way
        self.played = played
        self.conversation = conversation

    @asynccontextmanager
    async def client(self, **more: object) -> AsyncGenerator[Client]:
        """Open a client of it, and close it.

        Args:
            more: Further options of `Client`.
        """
        target = target_of(self.target) if self.played is None else self.played
        conversation = self.conversation
        options: Json = {**self.options, **more}
        if conversation is not None:
            options.update(conversation.options(is_of_one=is_one(target)))
        if isinstance(target, str) and "://" in target and not _says_who_asks(options):
            options.update(_logged_in(target, may_ask="auth" in options))
        stderr = ServerStderr()
        if self.played is None and is_process(target):
            # It is the user's own, and finds what they have set in their shell, as API keys.
            options["env"] = {**os.environ, **options.get("env", {})}
            options["stderr"] = stderr.add_line
        served = target if self.way is None else _by(self.way, target, options)
        answers = None if conversation is None else conversation.answers
        made = client_for(served, **options) if answers is None else _Answering(served, answers, options)
        async with made as client:
            stderr.flush()
            if conversation is not None and conversation.log_level is not None:
                for each in servers_of(client).values():
                    if "logging" in each.server_capabilities:
                        await each.set_log_level(conversation.log_level)
            if conversation is not None and conversation.answers is not None:
                conversation.answers.server_info = lambda: client.server_info
            yield client


class _Answering(Client):
    """A client whose requests from the server are answered by the conversation in the terminal."""

    def __init__(self, target: Target | ServerEntry, answers: Answers, options: Json) -> None:
        self._answers = answers
        super().__init__(target, **options)

    def _answerer(self, questions: object) -> Answerer:
        return self._answers


def is_process(target: Target) -> bool:
    """Say whether a target is a file or a command of the user's own, and neither a URL nor of a configuration."""
    is_url = isinstance(target, str) and "://" in target
    return not is_url and not is_configuration(target)


def is_one(target: Target) -> bool:
    """Return whether a target is one server with all its tools, and no configuration of several."""
    if not is_configuration(target):
        return True
    entries = transports_of(target)
    return len(entries) == 1 and entries[0].tools == ALL_TOOLS


def asks_server(function: Command) -> Callable[..., int | None]:
    """Give an `async` command the target and the options of all that ask servers; it gets them as an `Asked` first."""
    return _with(_OPTIONS, function)


def converses(function: Command) -> Callable[..., int | None]:
    """Do the same for a command during which the server may ask, log and tell of progress."""
    return _with((*_OPTIONS, *_OF_CONVERSATIONS), function)


def _with(
    options: Sequence[Callable[[Callable[..., int | None]], Callable[..., int | None]]], function: Command
) -> Callable[..., int | None]:
    @wraps(function)
    def command(**given: object) -> int | None:
        own: Json = given
        asked = _asked(own)
        try:
            return asyncio.run(_awaited(asked, function(asked, **own)))
        except AuthorizationError as error:
            if error.status != 401 or "auth" in asked.options or _says_who_asks(asked.options):
                raise
            raise CommandError(_to_log_in(error, asked.target), Status.NOT_AUTHORIZED) from error

    made: Callable[..., int | None] = command
    for option in reversed(options):
        made = option(made)
    return made


def _asked(given: Json) -> Asked:
    """Take what all commands are given out of what one is given."""
    del given["debug"]
    options: Json = {
        "protocol_version": given.pop("revision"),
        "timeout": given.pop("timeout"),
        "env": pairs(given.pop("env"), "=", "--env NAME=VALUE") or None,
        "cwd": given.pop("cwd"),
        "headers": pairs(given.pop("header"), ":", "--header NAME:VALUE") or None,
        "token": given.pop("token"),
        "auth": "oauth" if given.pop("login") else None,
        "trace": given.pop("trace") or None,
    }
    user, scopes = given.pop("user"), given.pop("scopes")
    played = None
    if user == "":
        raise click.UsageError("--as has no user. Write a name, such as --as ada")
    if user is not None:
        played = _played(given["target"], user, scopes or "", {**options, "way": given["way"]})
        options["env"] = options["headers"] = None
    elif scopes is not None:
        raise click.UsageError("--scopes needs a user. Add --as USER")
    conversation = None
    if "answer" in given:
        conversation = Conversation(
            answers=given.pop("answer"),
            sample_text=given.pop("sample_text"),
            roots=given.pop("root"),
            log_level=given.pop("log_level"),
            is_verbose=given.pop("verbose"),
        )
    known = {name: value for name, value in options.items() if value is not None}
    return Asked(
        given.pop("target"),
        is_json=given.pop("is_json"),
        options=known,
        way=given.pop("way"),
        played=played,
        conversation=conversation,
    )


def _played(word: str, user: str, scopes: str, options: Json) -> MemoryTransport:
    """Return a transport to a server that is imported into this process, and whose requests come from a user.

    Raises:
        click.UsageError: The target is no Python file or module, or an option concerns another process.
        CommandError: There is no server in it.
    """
    from ...client.transports.memory import MemoryTransport
    from ...identity.principals_and_scopes import Principal

    if place_of(word) is None:
        raise click.UsageError(
            f"--as needs a server in a Python file or module, got {word}. Use --token for a URL"
        )
    names = {"token": "--token", "auth": "--login", "cwd": "--cwd", "way": f"--{options['way']}"}
    for option, name in names.items():
        if options[option] is not None:
            raise click.UsageError(
                f"{name} cannot be used with --as, which runs the server in this process. Omit one of them"
            )
    os.environ.update(options["env"] or {})
    with redirect_stdout(sys.stderr):  # of what a module prints while it is imported
        server = found(word).server
    given: Mapping[str, str] = options["headers"] or {}
    headers = {name.lower().encode(): value.encode() for name, value in given.items()}
    principal = Principal(user, scopes.split(), subject=user)
    return MemoryTransport(server, principal=principal, headers=headers)


async def _awaited(asked: Asked, awaitable: Awaitable[int | None]) -> int | None:
    """Wait for a command; where the user has cancelled a question of its, its status says that."""
    result = await awaitable
    if asked.conversation is not None and asked.conversation.is_interrupted:
        return Status.INTERRUPTED
    return result


def _says_who_asks(options: Json) -> bool:
    """Say whether a token is given, or a header in its place."""
    return "token" in options or any(name.lower() == "authorization" for name in options.get("headers", ()))


def _logged_in(url: str, *, may_ask: bool) -> Json:
    """Return the option that lets a server know who asks: by the login that is kept, or by one that is made now."""
    from ..logins.known import login_at  # as most servers are asked without

    login = login_at(url, may_be_new=may_ask)
    if login is None:
        return {}
    from ..logins.authorization import authorized

    return {"auth": authorized(login, may_ask=may_ask)}


def _to_log_in(error: AuthorizationError, target: str) -> str:
    """Say how to log in, where nobody has said who asks."""
    if "mcpkit auth" in str(error):  # a login has ended
        return str(error)
    return f"{target} requires authorization. Run mcpkit auth login {target}, or add --token"


def _by(way: Literal["http", "sse"], target: Target, options: Json) -> ServerEntry:
    """Return a server that is reached in one way alone."""
    from ...client.transports.http.sse import SseTransport

    if is_process(target):
        raise CommandError(f"--{way} needs a URL, and the target is a process. Omit --{way}")
    reaching: Json = {name: options[name] for name in ("headers", "token", "auth") if name in options}
    entries = transports_of(target, **reaching)
    if len(entries) != 1:
        raise CommandError(
            f"--{way} works with one server, and the configuration has {len(entries)}. "
            "Name one, for example FILE.json:NAME"
        )
    ways = [each for each in entries[0].transports if isinstance(each, SseTransport) is (way == "sse")]
    if not ways:
        raise CommandError(
            f"the configuration of {entries[0].name} sets another transport than --{way}. Omit --{way}"
        )
    return replace(entries[0], transports=ways)
