"""The command line as a whole: finds the command, runs it, and says what errors come to."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

import click
from click.shell_completion import CompletionItem, get_completion_class

from .._utils.option_checks import nearest
from .._utils.package import __version__
from .commands import COMMANDS, overview
from .failures import failure
from .output.written import remark, write
from .statuses import Status


class Commands(click.Group):
    """The commands, each imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or None where there is none of that name."""
        known = COMMANDS.get(cmd_name)
        if known is None:
            return None
        found: click.Command = import_module(f"{__package__}.{known.place}").command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that arguments begin with, and the rest of them."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            close = nearest(args[0], COMMANDS)
            hint = f"; did you mean {close}?" if close else ". Run mcpkit --help for a list"
            raise click.UsageError(f"no such command: {args[0]}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin so, without importing any."""
        options = click.Command.shell_complete(self, ctx, incomplete)
        known = (each for each in COMMANDS.values() if each.name.startswith(incomplete))
        return [*options, *(CompletionItem(each.name, help=each.summary) for each in known)]

    def get_help(self, ctx: click.Context) -> str:
        """Return what `mcpkit --help` shows."""
        return overview()


def _write_completion(context: click.Context, parameter: click.Parameter, shell: str | None) -> None:
    """Write what has a shell complete commands, options and files, and end."""
    if shell is None or context.resilient_parsing:
        return
    kind = get_completion_class(shell)
    assert kind is not None, "the shells are those of click"
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
    """Do what a command line says.

    Args:
        arguments: What follows the name of the program.

    Returns:
        The status of the process, see `Status`; what is wrong has been written to standard error.
    """
    words = list(arguments)
    has_own_words = "--" in words
    options = words[: words.index("--")] if has_own_words else words
    is_debugged = "--debug" in options
    if is_debugged:  # it may stand anywhere
        words.remove("--debug")
    try:
        status = mcpkit.main(words, prog_name="mcpkit", standalone_mode=False)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        _tell_usage(error)
        return Status.USAGE
    except (KeyboardInterrupt, click.Abort):
        return Status.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - whatever it is, people get a sentence
        if is_debugged:
            traceback.print_exc()
        message, status = failure(error, is_debugged=is_debugged)
        remark(f"mcpkit: {message}")
        return status
    return status if isinstance(status, int) else Status.DONE


def _tell_usage(error: click.ClickException) -> None:
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        print(context.get_usage(), file=sys.stderr)
    print(f"mcpkit: {error.format_message()}", file=sys.stderr)
