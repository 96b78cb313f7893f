"""`mcpkit call`: calls a tool."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..._utils.exceptions import ProtocolError
from ...client.link.errors import InvalidResultError
from ...client.link.results import CallResult
from ..console import write_json, write_stderr
from ..content_output import write_content
from ..exit_status import CommandError, Status
from .server import Asked, converses
from .tools import called, found, schema_of
from .values import arguments_of


@click.command("call", epilog="Example: mcpkit call server.py forecast city=Oslo days=3")
@converses
@click.argument("tool")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--args", "given", metavar="JSON|@FILE", help="All arguments as one JSON object.")
@click.option(
    "--out", metavar="FOLDER", default=".", help="Save images and files here (default: current folder)."
)
@click.option(
    "--all-revisions", is_flag=True, help="Call the tool once per protocol revision and compare the results."
)
@click.option("--yes", is_flag=True, help="Also call tools that are not idempotent.")
async def command(
    asked: Asked,
    tool: str,
    arguments: tuple[str, ...],
    given: str | None,
    out: str,
    all_revisions: bool,
    yes: bool,
) -> int:
    """Call a tool and show its result.

    An argument is key=value, converted by the tool's schema; key:=JSON; or key=@file for the content of a file (@- for
    standard input). A repeated key makes an array.
    """
    assert asked.conversation is not None
    if all_revisions:
        from .all_revisions import compare

        return await compare(asked, asked.conversation, tool, arguments, given, is_allowed=yes)
    async with asked.client() as client:
        definition = await found(client, tool)
        values = arguments_of(tool, schema_of(definition), arguments, given)
        try:
            result = await called(client, asked.conversation, definition, values)
        except InvalidResultError as error:
            _show(error.result, asked, tool, Path(out))
            raise
        except ProtocolError as error:
            details = (
                "" if error.data is None else f"\n{json.dumps(error.data, indent=2, ensure_ascii=False)}"
            )
            raise CommandError(f"{error}{details}", Status.TOOL_ERROR) from error
    return _show(result, asked, tool, Path(out))


def _show(result: CallResult, asked: Asked, tool: str, folder: Path) -> int:
    if asked.is_json:
        write_json(result.raw)
    elif result.is_error:
        write_stderr(result.error_text)
    elif result.type != "complete" or result.is_structured_only:
        write_json(result.structured_content if result.type == "complete" else result.raw)
    else:
        for block in result.content:
            write_content(block, folder=folder, name=tool)
    return Status.TOOL_ERROR if result.is_error else Status.DONE
