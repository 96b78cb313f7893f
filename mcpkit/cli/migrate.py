"""`mcpkit migrate`: rewrites servers of the official SDK for mcpkit."""

from __future__ import annotations

import click

from ..compat.migrate.command import main


@click.command(
    "migrate",
    epilog="Example: mcpkit migrate server.py",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[--write|--check] FILE...")
def command(arguments: tuple[str, ...]) -> int:
    """Rewrite servers of the official SDK for mcpkit."""
    try:
        return main(arguments, "mcpkit migrate")
    except SystemExit as end:  # from the argument parser, which has printed the error
        return end.code if isinstance(end.code, int) else 1
