"""`mcpkit inspect`: everything that a server says of itself, and what its tools cost a model."""

from __future__ import annotations

import click

from ...client.client import Client
from ...client.group import failures_of, servers_of
from ...protocol.jsonrpc import Json, is_array, is_object
from ...protocol.revisions import STATELESS
from ..console import escape_control_characters, stdout_console, write, write_json
from ..token_count import count_tokens, count_tool_tokens
from .lists import show
from .server import Asked, asks_server


@click.command("inspect", epilog="Example: mcpkit inspect server.py")
@asks_server
async def command(asked: Asked) -> None:
    """Show a server's name, revision, capabilities, instructions, tools, resources and prompts.

    For each tool it estimates the tokens that its name, description and input schema take in a model's context.
    """
    if not asked.is_json:
        stdout_console()  # raises CommandError before anything is written
    async with asked.client() as client:
        there = {name: each for name, each in servers_of(client).items() if name not in failures_of(client)}
        reports = {name: await _report(each) for name, each in there.items()}
    if asked.is_json:
        write_json(next(iter(reports.values())) if len(reports) == 1 else reports)
        return
    for number, report in enumerate(reports.values()):
        if number:
            write("")
        _write(report)


async def _report(client: Client) -> Json:
    declared = client.server_capabilities
    report: Json = {
        "server": client.server_info,
        "revision": client.protocol_version,
        "reason": client.protocol_version_reason,
        "capabilities": declared,
        "instructions": client.instructions,
    }
    if client.protocol_version in STATELESS:
        report["speaks"] = (await client.request("server/discover")).get("supportedVersions")
    if "tools" in declared:
        report["tools"] = await client.list_tools()
        costs = {str(tool.get("name")): count_tool_tokens(tool) for tool in report["tools"]}
        instructions = count_tokens(client.instructions or "")
        total = sum(costs.values()) + instructions
        report["tokens"] = {"tools": costs, "instructions": instructions, "total": total}
    if "resources" in declared:
        report["resources"] = await client.list_resources()
        report["templates"] = await client.list_resource_templates()
    if "prompts" in declared:
        report["prompts"] = await client.list_prompts()
    return report


def _write(report: Json) -> None:
    server = report["server"]
    name = " ".join(str(server[key]) for key in ("name", "version") if server.get(key))
    lines = [name or "(server without a name)"]
    lines += [f"  {key}: {server[key]}" for key in ("title", "description", "websiteUrl") if server.get(key)]
    lines.append(f"revision {report['revision']}: {report['reason']}")
    if is_array(spoken := report.get("speaks")):
        lines.append(f"supported revisions without sessions: {', '.join(map(str, spoken))}")
    lines.append(f"capabilities: {', '.join(map(_capability, report['capabilities'].items())) or 'none'}")
    if report["instructions"]:
        lines += ["instructions:", *(f"  {line}" for line in report["instructions"].splitlines())]
    write(escape_control_characters("\n".join(lines)))
    if "tools" in report:
        costs: Json = report["tokens"]["tools"]
        show("tools", report["tools"], {"tokens": lambda tool: costs[str(tool.get("name"))]})
        said = " including the instructions" if report["instructions"] else ""
        write(
            f"about {report['tokens']['total']:,} tokens in total{said} (an estimate; models count differently)"
        )
    for kind in ("resources", "templates", "prompts"):
        if report.get(kind):
            show(kind, report[kind])


def _capability(declared: tuple[str, object]) -> str:
    name, options = declared
    said = options if is_object(options) else {}
    named = [key for key, value in said.items() if value not in (False, None)]
    return f"{name} ({', '.join(named)})" if named else name
