"""Table of the commands, and help text of `mcpkit`.

The help is written without click, whose import takes longer than that of all of `mcpkit`.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Command(NamedTuple):
    """A row of the table of commands.

    Attributes:
        name: The name.
        module: The module below `mcpkit.cli`, and after a colon the name of its `click.Command`; `command` without.
        summary: The help, in one line.
    """

    name: str
    module: str
    summary: str


GROUPS: Final = {
    "Write": (
        Command("new", "new_and_migrate:new", "Create a project with a server, tests and a CI file."),
        Command("run", "run", "Run a server over stdio or HTTP."),
        Command("check", "check.check_and_lock:check", "Check a server for problems in hosts, models and clients."),
        Command("lock", "check.check_and_lock:lock", "Write the lockfile of a server's interface."),
    ),
    "Call and inspect": (
        Command("list", "commands:list_", "List tools, resources, templates and prompts."),
        Command("call", "commands:call", "Call a tool."),
        Command("read", "commands:read", "Read a resource."),
        Command("prompt", "commands:prompt", "Get a prompt."),
        Command("complete", "commands:complete", "Complete an argument of a prompt or resource template."),
        Command("listen", "commands:listen", "Show change notifications of a server."),
        Command("ping", "commands:ping", "Measure how long a server takes to connect and respond."),
        Command("inspect", "inspect", "Show a server's details and what its tools cost in tokens."),
        Command("doctor", "doctor.diagnose", "Diagnose a server: connection, protocol and responses."),
    ),
    "Install": (
        Command("install", "install:install", "Add a server to the configuration of a host."),
        Command("uninstall", "install:uninstall", "Remove a server from the configuration of a host."),
        Command("hosts", "hosts.list_hosts", "List hosts and the servers in their configurations."),
        Command("bundle", "bundle", "Pack a server as an .mcpb bundle or a server.json."),
    ),
    "Operate": (
        Command("worker", "run:worker", "Run the tasks of a server in a separate process."),
        Command("auth", "auth", "Log in to protected servers, log out, check logins."),
        Command("migrate", "new_and_migrate:migrate", "Rewrite servers of the official SDK for mcpkit."),
    ),
}  # fmt: skip
"""The commands, by purpose."""

COMMANDS: Final = {command.name: command for group in GROUPS.values() for command in group}


def overview() -> str:
    """Return the help text of `mcpkit`."""
    lines = [
        "Usage: mcpkit COMMAND [OPTIONS] TARGET ...",
        "",
        "  Write, run, call, check and install MCP servers.",
        "",
        "  TARGET is a file with a server (server.py, or server.py:name), a module",
        "  (package.server:name), a URL, a command as one quoted word, or the name of",
        "  a server in the configuration of a host.",
        "",
        "  Example: mcpkit call server.py forecast city=Oslo",
    ]
    width = max(map(len, COMMANDS)) + 2
    for title, group in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {each.name:{width}}{each.summary}" for each in group)]
    lines += [
        "",
        "mcpkit COMMAND --help shows the options of a command; mcpkit --version shows the",
        "version; mcpkit --completion bash (zsh, fish) prints a shell completion script.",
        "",
        "Exit status: 0 success, 1 usage error, 2 not found, 3 not authorized, 4 not",
        "reachable, 5 tool error or invalid arguments, 6 findings, 130 interrupted.",
    ]
    return "\n".join(lines)
