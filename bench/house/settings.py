"""Writes the page on settings, `docs/reference/settings.md`, from signatures, docstrings and the options of commands.

python bench/house/settings.py            # writes the page
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import click

from plain import ROOT

PAGE: Final = ROOT / "docs" / "reference" / "settings.md"

HEAD: Final = """# Settings and environment variables

All options of servers, clients and commands with their defaults, and the environment variables that mcpkit reads.
`make house` writes this page from the code. [Limits](limits.md) lists what a client gets beyond a limit.
"""

VARIABLES: Final = {
    "MCPKIT_SECRET": "key that signs session ids and states and encrypts stored data, as `Server(secret_key=)`. It has "
    "at least 16 characters, and is the same in all processes of a server; see [Sessions](../guides/sessions.md)",
    "MCPKIT_CLIENT_SECRET": "client secret for `mcpkit auth login --client-id ...`",
    "WEB_CONCURRENCY": "number of worker processes of `mcpkit run` over HTTP, and of uvicorn, without `--workers`",
    "HTTP_PROXY": "proxy of clients for `http` URLs; `Client(proxy=)` replaces it, `trust_env=False` ignores it",
    "HTTPS_PROXY": "proxy of clients for `https` URLs",
    "ALL_PROXY": "proxy of clients for all URLs",
    "NO_PROXY": "hosts that clients reach without a proxy",
    "SSL_CERT_FILE": "file with certificate authorities for clients",
    "SSL_CERT_DIR": "folder with certificate authorities for clients",
    "BROWSER": "browser that a login opens",
    "DISPLAY": "without it, `WAYLAND_DISPLAY` or `BROWSER`, a login on Linux prints its URL and opens no browser",
    "WAYLAND_DISPLAY": "as `DISPLAY`",
    "SSH_CONNECTION": "if it is set, a login prints its URL, and how to forward the port",
    "COLUMNS": "width of tables of the command line",
    "NO_COLOR": "the command line prints no colors",
    "LOCALAPPDATA": "folder of the records of `mcpkit install` on Windows",
    "APPDATA": "folder of the configuration of hosts on Windows",
    "XDG_CONFIG_HOME": "folder of the configuration of hosts on Linux",
    "XDG_STATE_HOME": "folder of the records of `mcpkit install` on Linux",
    "XDG_RUNTIME_DIR": "folder of lock files for shared token storages on Linux",
    "PYTHONPATH": "is passed to servers that a client starts from a file",
    "PATH": "where programs of servers are searched",
    "CLAUDE_CONFIG_DIR": "folder of the configuration of Claude Code",
    "GEMINI_CLI_HOME": "folder of the configuration of Gemini CLI",
    "QWEN_HOME": "folder of the configuration of Qwen Code",
    "CODEX_HOME": "folder of the configuration of Codex",
    "GOOSE_PATH_ROOT": "folder of the configuration of Goose",
    "QODER_CONFIG_DIR": "folder of the configuration of Qoder",
    "FASTMCP_...": "settings of servers that run on `mcpkit.compat.fastmcp`, such as `FASTMCP_PORT`",
}
"""Environment variables, each with its effect. A test compares them with the code."""

INTERNAL: Final = frozenset({"MCPKIT_RELOAD_PARENT", "MCPKIT_RUN", "MCPKIT_SCRIPT", "_MCPKIT_COMPLETE"})
"""Variables between processes of mcpkit."""

_ENTRY: Final = re.compile(r"^ {4}(\w+): (.*(?:\n {8,}.*)*)", re.MULTILINE)


def described(docstring: str, section: str) -> dict[str, str]:
    """Return the entries of a section of a docstring in Google style."""
    lines = inspect.cleandoc(docstring).partition(f"\n{section}:\n")[2]
    lines = re.split(r"\n(?=\S)", lines, maxsplit=1)[0]
    return {name: " ".join(text.split()) for name, text in _ENTRY.findall(lines)}


def cell(text: str) -> str:
    """Return text as a cell of a table."""
    return text.replace("|", r"\|").replace("<", "&lt;")


def table(
    rows: list[tuple[str, str, str]], columns: tuple[str, str, str] = ("option", "default", "meaning")
) -> str:
    """Return a table of options."""
    lines = [f"| {' | '.join(columns)} |", "| --- | --- | --- |"]
    return "\n".join([*lines, *(f"| {' | '.join(map(cell, row))} |" for row in rows), ""])


def shown(default: object) -> str:
    """Return a default as code."""
    if default is inspect.Parameter.empty:
        return "required"
    if dataclasses.is_dataclass(default) and not isinstance(default, type):
        return f"`{type(default).__name__}()`"
    if isinstance(default, int) and not isinstance(default, bool) and default >= 10_000:
        mib, rest = divmod(default, 1024 * 1024)
        return f"{mib} MiB" if mib and not rest else f"{default:,}"
    return f"`{default!r}`"


def of_function(function: Any, docstring: str) -> str:
    """Return the table of the arguments of a function."""
    meanings = described(docstring, "Args")
    rows = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self":
            continue
        is_rest = parameter.kind is inspect.Parameter.VAR_KEYWORD
        rows.append(
            (
                f"`{'**' if is_rest else ''}{name}`",
                "" if is_rest else shown(parameter.default),
                meanings[name],
            )
        )
    return table(rows)


def of_group(group: Any) -> str:
    """Return the table of a group of options."""
    meanings = described(group.__doc__, "Attributes")
    if dataclasses.is_dataclass(group):
        values = [
            (each.name, each.default if each.default is not dataclasses.MISSING else {})
            for each in dataclasses.fields(group)
        ]
    else:
        values = list(group._field_defaults.items())
    return table([(f"`{name}`", shown(default), meanings[name]) for name, default in values])


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield the commands of `mcpkit`, with the commands below them."""
    from mcpkit.cli.command_table import COMMANDS

    for name, row in COMMANDS.items():
        module, _, attribute = row.module.partition(":")
        command = getattr(import_module(f"mcpkit.cli.{module}"), attribute or "command")
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", each) for inner, each in command.commands.items())


def of_command(command: click.Command) -> str:
    """Return the table of the options of a command."""
    rows = []
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
            if option.metavar:
                names += f" `{option.metavar}`"
            variable = f"`{option.envvar}`" if option.envvar else ""
            rows.append((names, variable, option.help or ""))
    return table(rows, ("option", "variable", "meaning")) if rows else ""


def page() -> str:
    """Return the page."""
    import mcpkit
    from mcpkit import options
    from mcpkit.client import Retries, Timeout

    server, client = mcpkit.Server, mcpkit.Client
    parts = [HEAD, "## Environment variables\n"]
    parts += [
        "\n".join(
            [
                "| variable | effect |",
                "| --- | --- |",
                *(f"| `{name}` | {text} |" for name, text in VARIABLES.items()),
                "",
            ]
        )
    ]
    parts += [
        "## Server\n",
        "Arguments of `Server(...)`:\n",
        of_function(server.__init__, server.__doc__ or ""),
    ]
    for group in (
        options.Limits,
        options.Timeouts,
        options.ServerOptions,
        options.TaskOptions,
        options.HttpOptions,
    ):
        about = (group.__doc__ or "").partition("\n")[0].replace(": `", ", such as `", 1)
        parts += [f"### {group.__name__}\n", about + "\n", of_group(group)]
    parts += ["### server.run\n", of_function(server.run, server.run.__doc__ or "")]
    parts += ["### server.asgi\n", of_function(server.asgi, server.asgi.__doc__ or "")]
    parts += [
        "## Client\n",
        "Arguments of `Client(...)`:\n",
        of_function(client.__init__, client.__doc__ or ""),
    ]
    for each in (Timeout, Retries):
        parts += [f"### {each.__name__}\n", (each.__doc__ or "").partition("\n")[0] + "\n", of_group(each)]
    parts += ["## Commands\n"]
    parts += ["All commands accept `--help` and `--debug`, which prints the traceback of an error.\n"]
    for name, command in commands():
        if rows := of_command(command):
            parts += [f"### mcpkit {name}\n", rows]
    return "\n".join(parts)


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
