"""The group of all commands, and the function that runs a command line and reports its errors."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

import click
from click.shell_completion import CompletionItem, get_completion_class

from .._utils.option_checks import nearest
from .._utils.package import __version__
from .command_table import COMMANDS, overview
from .console import write, write_stderr
from .exit_status import Status, message_and_status


class Commands(click.Group):
    """The group of all commands; each is imported when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is no command with that name."""
        row = COMMANDS.get(cmd_name)
        if row is None:
            return None
        module, _, name = row.module.partition(":")
        command: click.Command = getattr(import_module(f"{__package__}.{module}"), name or "command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first argument, and the other arguments."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            close = nearest(args[0], COMMANDS)
            hint = f"; did you mean {close}?" if close else ". Run mcpkit --help for a list"
            raise click.UsageError(f"no such command: {args[0]}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin with a text, without importing them."""
        options = click.Command.shell_complete(self, ctx, incomplete)
        rows = (row for row in COMMANDS.values() if row.name.startswith(incomplete))
        return [*options, *(CompletionItem(row.name, help=row.summary) for row in rows)]

    def get_help(self, ctx: click.Context) -> str:
        """Return the help of `mcpkit` itself."""
        return overview()


def _write_completion(context: click.Context, parameter: click.Parameter, shell: str | None) -> None:
    """Write the completion script of a shell, and exit."""
    if shell is None or context.resilient_parsing:
        return
    kind = get_completion_class(shell)
    assert kind is not None, "click has a class for each choice of the option"
    write(kind(context.command, {}, "mcpkit", "_MCPKIT_COMPLETE").source())
    context.exit()


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="mcpkit %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of errors.")
@click.option(
    "--completion",
    type=click.Choice(["bash", "zsh", "fish"]),
    is_eager=True,
    expose_value=False,
    callback=_write_completion,
    help="Print the completion script for this shell.",
)
def mcpkit(debug: bool) -> None:
    """Write, run, call, check and install MCP servers."""


def run(arguments: Sequence[str]) -> int:
    """Run a command line, and write its errors to standard error.

    Args:
        arguments: The arguments after the name of the program.

    Returns:
        The exit status, see `Status`.
    """
    words = list(arguments)
    options = words[: words.index("--")] if "--" in words else words
    is_debug = "--debug" in options
    if is_debug:  # accepted before and after the name of the command
        words.remove("--debug")
    try:
        status = mcpkit.main(words, prog_name="mcpkit", standalone_mode=False)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        context = error.ctx if isinstance(error, click.UsageError) else None
        if context is not None:
            print(context.get_usage(), file=sys.stderr)
        print(f"mcpkit: {error.format_message()}", file=sys.stderr)
        return Status.USAGE
    except (KeyboardInterrupt, click.Abort):
        return Status.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - every error ends in a message and a status
        if is_debug:
            traceback.print_exc()
        message, status = message_and_status(error, is_debug=is_debug)
        write_stderr(f"mcpkit: {message}")
        return status
    return status if isinstance(status, int) else Status.DONE
