"""`mcpkit auth`: logins at protected servers, and a look at who could log in there."""

from __future__ import annotations

import click

from .checking import check
from .logging_in import login
from .logging_out import logout
from .logins import list_logins


@click.group(
    "auth",
    epilog="Example: mcpkit auth login https://mcp.example.com/mcp",
    context_settings={"help_option_names": ["-h", "--help"]},
)
def command() -> None:
    """Log in to protected servers, log out, and check whether clients can log in."""


for each in (login, logout, list_logins, check):
    command.add_command(each)
