"""The commands call, list, read, prompt, complete, listen and ping: one request to a server, and its result."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click
from click import argument, option

from .._utils.exceptions import ProtocolError
from ..client.cache_and_pagination import IncompleteListError
from ..client.call_results import CallResult, InvalidResultError
from ..client.client import Client
from ..client.client_group import failures_of
from ..protocol.jsonrpc import Json, is_object, object_at
from ..protocol.objects import ResourceContents
from ..protocol.revisions import METHODS
from .console import (
    decode_base64,
    file_name_of_uri,
    save_content,
    write,
    write_content,
    write_json,
    write_stderr,
    write_table,
)
from .exit_status import CommandError, Status
from .key_values_and_usage import first_line, parse_arguments, parse_key_values, schema_of_prompt, signature
from .server_target import ServerTarget, client_command, interactive_client_command
from .tool_calls import call_tool, connected_servers, find_tool, has_capability, not_found

# mcpkit call


@click.command("call", epilog="Example: mcpkit call server.py forecast city=Oslo days=3")
@interactive_client_command
@argument("tool")
@argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@option("--args", "base", metavar="JSON|@FILE", help="All arguments as one JSON object.")
@option("--out", metavar="FOLDER", default=".", help="Save images and files here (default: current folder).")
@option(
    "--all-revisions", is_flag=True, help="Call the tool once per protocol revision and compare the results."
)
@option("--yes", is_flag=True, help="Also call tools that are not idempotent.")
async def call(
    server: ServerTarget,
    tool: str,
    arguments: tuple[str, ...],
    base: str | None,
    out: str,
    all_revisions: bool,
    yes: bool,
) -> int:
    """Call a tool and show its result.

    An argument is key=value, converted by the tool's schema; key:=JSON; or key=@file for the content of a file (@- for
    standard input). A repeated key makes an array.
    """
    assert server.handlers is not None
    if all_revisions:
        from .tool_calls import compare_revisions

        return await compare_revisions(server, tool, arguments, base, is_confirmed=yes)
    async with server.client() as client:
        definition = await find_tool(client, tool)
        values = parse_arguments(tool, object_at(definition, "inputSchema"), arguments, base)
        try:
            result = await call_tool(client, definition, values, progress=server.handlers.progress)
        except InvalidResultError as error:
            _write_call_result(error.result, server, tool, Path(out))
            raise
        except ProtocolError as error:
            data = "" if error.data is None else f"\n{json.dumps(error.data, indent=2, ensure_ascii=False)}"
            raise CommandError(f"{error}{data}", Status.TOOL_ERROR) from error
    _write_call_result(result, server, tool, Path(out))
    return Status.TOOL_ERROR if result.is_error else Status.DONE


def _write_call_result(result: CallResult, server: ServerTarget, tool: str, folder: Path) -> None:
    if server.is_json:
        write_json(result.raw)
    elif result.is_error:
        write_stderr(result.error_text)
    elif result.type != "complete":
        write_json(result.raw)
    elif result.is_structured_only:
        write_json(result.structured_content)
    else:
        for block in result.content:
            write_content(block, folder=folder, name=tool)


# mcpkit list

_KINDS: Final = ("tools", "resources", "templates", "prompts")
_CAPABILITIES: Final = {"templates": "resources"}
"""Capabilities of kinds that have another name."""

Columns = Mapping[str, Callable[[Json], object]]
"""Functions that return the cell of an item, by column."""

_CELLS: Final[Columns] = {
    "uri": lambda item: item.get("uri") or item.get("uriTemplate"),
    "name": lambda item: item.get("name"),
    "title": lambda item: item.get("title"),
    "mime type": lambda item: item.get("mimeType"),
    "description": first_line,
}


@click.command("list", epilog="Example: mcpkit list server.py tools")
@client_command
@argument("kinds", nargs=-1, type=click.Choice(_KINDS))
async def list_(server: ServerTarget, kinds: tuple[str, ...]) -> None:
    """List the tools, resources, resource templates and prompts of a server, or only the kinds that are named."""
    lists: dict[str, list[Any]] = {}
    incomplete: IncompleteListError | None = None
    async with server.client() as client:
        methods: dict[str, Callable[[], Awaitable[list[Any]]]] = {
            "tools": client.list_tools,
            "resources": client.list_resources,
            "templates": client.list_resource_templates,
            "prompts": client.list_prompts,
        }
        for kind in dict.fromkeys(kinds or _KINDS):
            if not has_capability(client, _CAPABILITIES.get(kind, kind)):
                continue
            try:
                lists[kind] = await methods[kind]()
            except IncompleteListError as error:
                lists[kind], incomplete = error.items, error
    if server.is_json:
        write_json(lists)
    else:
        for kind in dict.fromkeys(kinds):
            if kind not in lists:
                write_stderr(f"the server has no {kind}")
        if not lists and not kinds:
            write_stderr("the server has no tools, resources or prompts")
        for kind, items in lists.items():
            if items or kinds or kind != "templates":
                write_items(kind, items)
    if incomplete is not None:
        raise incomplete


def write_items(kind: str, items: list[Json], more_columns: Columns | None = None) -> None:
    """Write a list as a table.

    Args:
        kind: `tools`, `resources`, `templates` or `prompts`.
        items: The items of the list.
        more_columns: Further columns.
    """
    columns: dict[str, Callable[[Json], object]] = dict(_CELLS)
    if kind in ("tools", "prompts"):
        columns = {name: _CELLS[name] for name in ("name", "title", "description")}
        columns["arguments (? = optional)"] = lambda item: signature(
            object_at(item, "inputSchema") if kind == "tools" else schema_of_prompt(item)
        )
    columns.update(more_columns or {})
    title = f"{len(items)} {kind.removesuffix('s') if len(items) == 1 else kind}"
    rows = [
        {name: "" if (value := cell(item)) is None else str(value) for name, cell in columns.items()}
        for item in items
    ]
    write_table(title, list(columns), rows)


# mcpkit read


@click.command("read", epilog="Example: mcpkit read server.py config://settings")
@interactive_client_command
@argument("uri")
@option("--out", metavar="PATH", help="Save the content in this folder or as this file.")
async def read(server: ServerTarget, uri: str, out: str | None) -> None:
    """Read a resource and write its content to standard output.

    Binary content is not written to a terminal. Redirect it, or use --out to save it.
    """
    async with server.client() as client:
        contents = await client.read_resource(uri)
    if server.is_json:
        write_json({"contents": contents})
    else:
        _write_contents(contents, uri, out)


def _write_contents(contents: list[ResourceContents], uri: str, out: str | None) -> None:
    is_folder = out is not None and (Path(out).is_dir() or out.endswith(("/", "\\")) or len(contents) > 1)
    for each in contents:
        if out is None:
            _write_to_stdout(each, uri)
        elif is_folder:
            name = file_name_of_uri(str(each.get("uri", uri)))
            save_content(_bytes_of(each, uri), each.get("mimeType"), folder=Path(out), name=name)
        else:
            content, path = _bytes_of(each, uri), Path(out)
            try:
                with path.open("xb") as file:
                    file.write(content)
            except FileExistsError:
                raise CommandError(f"{path} exists already. Choose another name for --out") from None
            write_stderr(f"saved {path} ({len(content):,} bytes)")


def _write_to_stdout(contents: ResourceContents, uri: str) -> None:
    if "blob" not in contents:
        write(str(contents.get("text", "")))
        return
    content = _bytes_of(contents, uri)
    if sys.stdout.isatty():
        kind = contents.get("mimeType") or "bytes"
        raise CommandError(
            f"{uri} is binary ({kind}, {len(content):,} bytes). Save it with --out, or redirect the output"
        )
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _bytes_of(contents: ResourceContents, uri: str) -> bytes:
    if "blob" in contents:
        return decode_base64(contents["blob"], f"the blob of {uri}")
    return str(contents.get("text", "")).encode()


# mcpkit prompt


@click.command("prompt", epilog="Example: mcpkit prompt server.py review language=Python code=@main.py")
@interactive_client_command
@argument("name")
@argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@option("--out", metavar="FOLDER", default=".", help="Save images and files here (default: current folder).")
async def prompt(server: ServerTarget, name: str, arguments: tuple[str, ...], out: str) -> None:
    """Get a prompt and show its messages.

    Its arguments are strings: key=value, or key=@file for the content of a file.
    """
    async with server.client() as client:
        listed = await client.list_prompts() if has_capability(client, "prompts") else []
        prompts = {str(each.get("name")): each for each in listed}
        if name not in prompts:
            raise not_found("prompt", name, prompts)
        values = parse_arguments(name, schema_of_prompt(prompts[name]), arguments)
        messages = await client.get_prompt(name, {key: str(value) for key, value in values.items()})
    if server.is_json:
        write_json({"messages": messages})
        return
    for message in messages:
        write(f"{message.get('role')}:")
        if is_object(content := message.get("content")):
            write_content(content, folder=Path(out), name=name)


# mcpkit complete


@click.command("complete", epilog="Example: mcpkit complete server.py review language=Py framework=flask")
@client_command
@argument("reference", metavar="PROMPT|TEMPLATE")
@argument("argument", metavar="KEY=TYPED")
@argument("others", nargs=-1, metavar="[KEY=VALUE]...")
async def complete(server: ServerTarget, reference: str, argument: str, others: tuple[str, ...]) -> None:
    """Complete a partly typed argument of a prompt or of a resource template.

    KEY=VALUE arguments are those that are already complete.
    """
    [partial, *context] = parse_key_values([argument, *others])
    if any(pair.is_json for pair in (partial, *context)):
        raise CommandError(
            "arguments of prompts and templates are strings. Write key=value instead of key:=JSON"
        )
    values: list[str] = []
    async with server.client() as client:
        # Revisions before 2025-03-26 have no capability completions.
        if has_capability(client, "completions") or client.protocol_version < "2025-03-26":
            context_arguments = {pair.key: pair.text for pair in context}
            values = await client.complete(reference, partial.key, partial.text, context_arguments)
        else:
            write_stderr("the server does not declare the capability completions")
    if server.is_json:
        write_json({"values": values})
        return
    for value in values:
        write(value)


# mcpkit listen


@click.command("listen", epilog="Example: mcpkit listen server.py config://settings")
@interactive_client_command
@argument("uris", nargs=-1, metavar="[URI]...")
async def listen(server: ServerTarget, uris: tuple[str, ...]) -> None:
    """Show changes of a server's lists, or of the resources with these URIs, until Ctrl+C."""
    async with server.client() as client, client.listen(resource_subscriptions=uris) as changes:
        write_stderr(f"listening (revision {client.protocol_version}). Press Ctrl+C to stop")
        async for change in changes:
            if server.is_json:
                record = {"kind": change.kind, "uri": change.uri, "mayHaveMissed": change.may_have_missed}
                write(json.dumps({name: value for name, value in record.items() if value}))
            else:
                subject = f"the list of {change.kind}" if change.uri is None else change.uri
                missed = "may have changed: the connection was interrupted"
                write(f"{subject} {missed if change.may_have_missed else 'has changed'}")


# mcpkit ping


@click.command("ping", epilog="Example: mcpkit ping https://example.com/mcp")
@client_command
async def ping(server: ServerTarget) -> None:
    """Send a ping to a server, and show how long it took to connect and to respond."""
    begin = time.perf_counter()
    async with server.client() as client:
        connected = time.perf_counter() - begin
        failures = failures_of(client)
        for name, error in failures.items():
            write_stderr(f"{name}: {error}")
        reports: dict[str, Json] = {}
        for name, each in connected_servers(client).items():
            reports[name] = {
                "name": each.server_info.get("name"),
                "version": each.server_info.get("version"),
                "revision": each.protocol_version,
                "connected": round(connected, 6),
                "answered": round(await _response_time(each), 6),
            }
    if server.is_json:
        write_json(next(iter(reports.values())) if len(reports) == 1 else reports)
    else:
        for name, report in reports.items():
            server_name = " ".join(str(report[key]) for key in ("name", "version") if report[key]) or name
            times = f"connected in {connected * 1000:.1f} ms, responded in {report['answered'] * 1000:.1f} ms"
            write(f"{server_name} ({report['revision']}): {times}")
    if failures:
        raise CommandError(
            "some servers of the configuration cannot be reached. Their errors are above", Status.NOT_REACHED
        )


async def _response_time(client: Client) -> float:
    """Measure the seconds until a server responds to `ping`, or to `server/discover`, as 2026-07-28 has no ping."""
    revisions, _ = METHODS["ping"]
    begin = time.perf_counter()
    if client.protocol_version in revisions:
        await client.request("ping")
    else:
        await client.request("server/discover", use_cache=False)
    return time.perf_counter() - begin
