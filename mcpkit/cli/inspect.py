"""The command inspect: the details of a server, its lists, and the tokens that its tools take."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Final

import click

from ..client.client import Client
from ..protocol.jsonrpc import Json, is_array, is_object
from ..protocol.revisions import STATELESS
from .commands import write_items
from .console import escape_control_characters, rich_console, write, write_json
from .server_target import ServerTarget, client_command
from .tool_calls import connected_servers


@click.command("inspect", epilog="Example: mcpkit inspect server.py")
@client_command
async def command(server: ServerTarget) -> None:
    """Show a server's name, revision, capabilities, instructions, tools, resources and prompts.

    For each tool it estimates the tokens that its name, description and input schema take in a model's context.
    """
    if not server.is_json:
        rich_console()  # raises CommandError before anything is written
    async with server.client() as client:
        reports = {name: await _report(each) for name, each in connected_servers(client).items()}
    if server.is_json:
        write_json(next(iter(reports.values())) if len(reports) == 1 else reports)
        return
    for number, report in enumerate(reports.values()):
        if number:
            write("")
        _write_report(report)


async def _report(client: Client) -> Json:
    """Return the report of a server, as `--json` writes it."""
    capabilities = client.server_capabilities
    report: Json = {
        "server": client.server_info,
        "revision": client.protocol_version,
        "reason": client.protocol_version_reason,
        "capabilities": capabilities,
        "instructions": client.instructions,
    }
    if client.protocol_version in STATELESS:
        report["speaks"] = (await client.request("server/discover")).get("supportedVersions")
    if "tools" in capabilities:
        report["tools"] = await client.list_tools()
        costs = {str(tool.get("name")): count_tool_tokens(tool) for tool in report["tools"]}
        instructions = count_tokens(client.instructions or "")
        total = sum(costs.values()) + instructions
        report["tokens"] = {"tools": costs, "instructions": instructions, "total": total}
    if "resources" in capabilities:
        report["resources"] = await client.list_resources()
        report["templates"] = await client.list_resource_templates()
    if "prompts" in capabilities:
        report["prompts"] = await client.list_prompts()
    return report


def _write_report(report: Json) -> None:
    server = report["server"]
    name = " ".join(str(server[key]) for key in ("name", "version") if server.get(key))
    lines = [name or "(server without a name)"]
    lines += [f"  {key}: {server[key]}" for key in ("title", "description", "websiteUrl") if server.get(key)]
    lines.append(f"revision {report['revision']}: {report['reason']}")
    if is_array(revisions := report.get("speaks")):
        lines.append(f"supported revisions without sessions: {', '.join(map(str, revisions))}")
    capabilities = (_capability(key, options) for key, options in report["capabilities"].items())
    lines.append(f"capabilities: {', '.join(capabilities) or 'none'}")
    if report["instructions"]:
        lines += ["instructions:", *(f"  {line}" for line in report["instructions"].splitlines())]
    write(escape_control_characters("\n".join(lines)))
    if "tools" in report:
        costs: Json = report["tokens"]["tools"]
        write_items("tools", report["tools"], {"tokens": lambda tool: costs[str(tool.get("name"))]})
        also = " including the instructions" if report["instructions"] else ""
        write(
            f"about {report['tokens']['total']:,} tokens in total{also} (an estimate; models count differently)"
        )
    for kind in ("resources", "templates", "prompts"):
        if report.get(kind):
            write_items(kind, report[kind])


def _capability(name: str, options: object) -> str:
    enabled = (
        [key for key, value in options.items() if value not in (False, None)] if is_object(options) else []
    )
    return f"{name} ({', '.join(enabled)})" if enabled else name


# Estimates of the tokens that tools take in a model's context

_CHUNK: Final = 50_000
"""Characters per tokenizer call: at most 200,000 bytes, and so tokens, which is the tokenizer's limit."""

_BYTES_PER_TOKEN: Final = 4
"""Average bytes per token of English and JSON, used without the tokenizer's tables."""


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text, without a network.

    Without the package `bpe-openai`, which has no wheel for some platforms, it is a quarter of the bytes, rounded up.
    """
    encode = _tokenizer()
    if encode is None:
        return -(-len(text.encode(errors="replace")) // _BYTES_PER_TOKEN)
    return sum(len(encode(text[start : start + _CHUNK])) for start in range(0, len(text), _CHUNK))


def count_tool_tokens(tool: Mapping[str, object]) -> int:
    """Estimate the tokens of a tool's name, description and input schema, as hosts send them to a model."""
    definition = {
        "name": tool.get("name"),
        "description": tool.get("description") or "",
        "input_schema": tool.get("inputSchema"),
    }
    return count_tokens(json.dumps(definition, ensure_ascii=False, separators=(",", ":")))


@cache
def _tokenizer() -> Callable[[str], Sequence[int]] | None:
    """Return the tokenizer, or None if it is not installed; loading its tables takes a second."""
    try:
        with warnings.catch_warnings():
            # On 3.11 and 3.12 it reads its tables with a function that was deprecated for a while.
            warnings.simplefilter("ignore", DeprecationWarning)
            library = import_module("bpe_openai")
    except ModuleNotFoundError:
        return None
    encode: Callable[[str], Sequence[int]] = library.get_encoding("o200k_base").encode_ordinary
    return encode
