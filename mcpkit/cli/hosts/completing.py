"""What a shell completes of commands for hosts: their names, and those of their servers."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from ..configurations.places import files_of
from ..configurations.reading import entries_in
from ..configurations.table import HOSTS
from ..exit_status import CommandError


def hosts(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete the name of a host."""
    return [
        CompletionItem(name, help=host.title) for name, host in HOSTS.items() if name.startswith(incomplete)
    ]


def servers(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete the name of a server of the host that has been named."""
    host = HOSTS.get(str(context.params.get("host")))
    names: dict[str, None] = {}
    for file in () if host is None else files_of(host, Path.cwd()):
        try:
            names.update(dict.fromkeys(entries_in(file)))
        except (CommandError, OSError):  # which the command itself will tell
            continue
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]
