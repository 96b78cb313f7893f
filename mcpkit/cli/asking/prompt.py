"""`mcpkit prompt`: gets a prompt."""

from __future__ import annotations

from pathlib import Path

import click

from ..._utils.option_checks import nearest
from ...protocol.jsonrpc import is_object
from ..console import write, write_json
from ..content_output import write_content
from ..exit_status import CommandError, Status
from .schemas import of_prompt
from .server import Asked, converses
from .tools import has
from .values import arguments_of


@click.command("prompt", epilog="Example: mcpkit prompt server.py review language=Python code=@main.py")
@converses
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--out", metavar="FOLDER", default=".", help="Save images and files here (default: current folder)."
)
async def command(asked: Asked, name: str, arguments: tuple[str, ...], out: str) -> None:
    """Get a prompt and show its messages.

    Its arguments are strings: key=value, or key=@file for the content of a file.
    """
    async with asked.client() as client:
        listed = await client.list_prompts() if has(client, "prompts") else []
        prompts = {str(each.get("name")): each for each in listed}
        if name not in prompts:
            close = nearest(name, prompts)
            there_are = f"the server has {', '.join(prompts)}" if prompts else "the server has no prompts"
            hint = f"did you mean {close}?" if close else there_are
            raise CommandError(f"no such prompt: {name}; {hint}", Status.NO_SUCH_THING)
        values = arguments_of(name, of_prompt(prompts[name]), arguments)
        messages = await client.get_prompt(name, {key: str(value) for key, value in values.items()})
    if asked.is_json:
        write_json({"messages": messages})
        return
    for message in messages:
        write(f"{message.get('role')}:")
        if is_object(content := message.get("content")):
            write_content(content, folder=Path(out), name=name)
