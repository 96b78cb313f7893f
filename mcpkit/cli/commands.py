"""The commands by name: where each is, and what is said of it in a line.

The help of all commands is written from here, without a library for command lines, which takes longer to import than
all of `mcpkit`.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Command(NamedTuple):
    """A command.

    Attributes:
        name: What it is called.
        place: The module below `mcpkit.cli` that has it, as the `click.Command` that is called `command` there.
        summary: What it does, in a line.
    """

    name: str
    place: str
    summary: str


GROUPS: Final = {
    "Write": (
        Command("new", "creating.new", "Begin a project with a server, tests and a CI file."),
        Command("run", "running.run", "Serve a server."),
        Command("check", "checking.commands.check", "Find what hosts, models and clients will stumble over."),
        Command("lock", "checking.commands.lock", "Write down what clients of a server rely on."),
    ),
    "Ask": (
        Command("list", "asking.lists", "List what a server has."),
        Command("call", "asking.call", "Call a tool."),
        Command("read", "asking.read", "Read a resource."),
        Command("prompt", "asking.prompt", "Get a prompt."),
        Command("complete", "asking.complete", "Complete an argument of a prompt or of a template."),
        Command("listen", "asking.listen", "Show what changes."),
        Command("ping", "asking.ping", "Ask for a sign of life."),
        Command("inspect", "asking.inspect", "Show all that a server says of itself, and what it costs a model."),
        Command("doctor", "doctor.command", "Say what a client meets at a server, and what cures it."),
    ),
    "Give to hosts": (
        Command("install", "hosts.install", "Give a server to a host."),
        Command("uninstall", "hosts.uninstall", "Take a server from a host."),
        Command("hosts", "hosts.hosts", "List the hosts, and the servers that they have."),
        Command("bundle", "packing.bundle", "Pack a server for people who install it by a click."),
    ),
    "Operate": (
        Command("worker", "operating.worker", "Run the tasks of a server, in a process of its own."),
        Command("auth", "operating.auth", "Log in and out at protected servers, or look who could."),
        Command("migrate", "operating.migrate", "Rewrite servers of the official SDK to native mcpkit."),
    ),
}  # fmt: skip
"""The commands, by what they are for."""

COMMANDS: Final = {command.name: command for group in GROUPS.values() for command in group}


def overview() -> str:
    """Return the help of `mcpkit` itself."""
    lines = [
        "Usage: mcpkit COMMAND [OPTIONS] TARGET ...",
        "",
        "  Write, run, ask, check and install MCP servers.",
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
        "mcpkit COMMAND --help tells of one of them; mcpkit --version of the version;",
        "mcpkit --completion bash (zsh, fish) writes what completes them in a shell.",
        "",
        "Exit status: 0 done, 1 wrong usage, 2 no such thing, 3 not authorized, 4 not",
        "reached, 5 the tool's error or wrong arguments, 6 findings, 130 interrupted.",
    ]
    return "\n".join(lines)
