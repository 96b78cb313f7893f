"""`mcpkit complete`: completes an argument."""

from __future__ import annotations

import click

from ..console import write, write_json, write_stderr
from ..exit_status import CommandError
from .server import Asked, asks_server
from .tools import has
from .values import words_of


@click.command("complete", epilog="Example: mcpkit complete server.py review language=Py framework=flask")
@asks_server
@click.argument("reference", metavar="PROMPT|TEMPLATE")
@click.argument("argument", metavar="KEY=TYPED")
@click.argument("others", nargs=-1, metavar="[KEY=VALUE]...")
async def command(asked: Asked, reference: str, argument: str, others: tuple[str, ...]) -> None:
    """Complete a partly typed argument of a prompt or of a resource template.

    KEY=VALUE arguments are those that are already complete.
    """
    [typed, *filled_in] = words_of([argument, *others])
    if typed.is_json or any(word.is_json for word in filled_in):
        raise CommandError(
            "arguments of prompts and templates are strings. Write key=value instead of key:=JSON"
        )
    async with asked.client() as client:
        values: list[str] = []
        if (
            has(client, "completions") or client.protocol_version < "2025-03-26"
        ):  # which has no such capability
            values = await client.complete(
                reference, typed.key, typed.text, {word.key: word.text for word in filled_in}
            )
        else:
            write_stderr("the server does not declare the capability completions")
    if asked.is_json:
        write_json({"values": values})
    for value in values if not asked.is_json else ():
        write(value)
