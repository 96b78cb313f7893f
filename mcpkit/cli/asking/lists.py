"""`mcpkit list`: what a server has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import click

from ...client.link.errors import IncompleteListError
from ...protocol.jsonrpc import Json
from ..console import write_json, write_stderr, write_table
from .schemas import first_line, of_prompt, signature
from .server import Asked, asks_server
from .tools import has, schema_of

_KINDS: Final = ("tools", "resources", "templates", "prompts")
_CAPABILITIES: Final = {"templates": "resources"}

Columns = Mapping[str, Callable[[Json], object]]

_TITLE: Final[Columns] = {"title": lambda item: item.get("title")}
_DESCRIPTION: Final[Columns] = {"description": first_line}
_MIME_TYPE: Final[Columns] = {"mime type": lambda item: item.get("mimeType")}
_NAME: Final[Columns] = {"name": lambda item: item.get("name")}
_COLUMNS: Final[Mapping[str, Columns]] = {
    "tools": {
        **_NAME, **_TITLE, **_DESCRIPTION, "arguments (? = optional)": lambda item: signature(schema_of(item)),
    },
    "resources": {"uri": lambda item: item.get("uri"), **_NAME, **_TITLE, **_MIME_TYPE, **_DESCRIPTION},
    "templates": {"uri": lambda item: item.get("uriTemplate"), **_NAME, **_TITLE, **_MIME_TYPE, **_DESCRIPTION},
    "prompts": {
        **_NAME, **_TITLE, **_DESCRIPTION, "arguments (? = optional)": lambda item: signature(of_prompt(item)),
    },
}  # fmt: skip


@click.command("list", epilog="Example: mcpkit list server.py tools")
@asks_server
@click.argument("kinds", nargs=-1, type=click.Choice(_KINDS))
async def command(asked: Asked, kinds: tuple[str, ...]) -> None:
    """List the tools, resources, resource templates and prompts of a server, or only the kinds that are named."""
    async with asked.client() as client:
        lists: dict[str, Callable[[], Awaitable[list[Any]]]] = {
            "tools": client.list_tools,
            "resources": client.list_resources,
            "templates": client.list_resource_templates,
            "prompts": client.list_prompts,
        }
        wanted = dict.fromkeys(kinds or _KINDS)
        declared = [kind for kind in wanted if has(client, _CAPABILITIES.get(kind, kind))]
        found: dict[str, list[Any]] = {}
        incomplete: IncompleteListError | None = None
        for kind in declared:
            try:
                found[kind] = await lists[kind]()
            except IncompleteListError as error:
                found[kind], incomplete = error.items, error
    if asked.is_json:
        write_json(found)
    else:
        _show_all(found, kinds)
    if incomplete is not None:
        raise incomplete


def _show_all(found: Mapping[str, list[Json]], kinds: Sequence[str]) -> None:
    for kind in dict.fromkeys(kinds):
        if kind not in found:
            write_stderr(f"the server has no {kind}")
    if not found and not kinds:
        write_stderr("the server has no tools, resources or prompts")
    for kind, items in found.items():
        if items or kinds or kind != "templates":
            show(kind, items)


def show(kind: str, items: list[Json], more: Columns | None = None) -> None:
    """Show a list as a table.

    Args:
        kind: What is in it.
        items: What the server has listed.
        more: Further columns.
    """
    columns = {**_COLUMNS[kind], **(more or {})}
    title = f"{len(items)} {kind.removesuffix('s') if len(items) == 1 else kind}"
    rows = [{name: _cell(read(item)) for name, read in columns.items()} for item in items]
    write_table(title, list(columns), rows)


def _cell(value: object) -> str:
    return "" if value is None else str(value)
