"""`mcpkit auth check`: looks at a URL, and says which clients cannot log in there."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import click

from ...client.authorization.checking.check import check_authorization
from ...client.authorization.checking.hosts import hosts_at
from ..output.written import write_json
from ..statuses import Status


@click.command("check", epilog="Example: mcpkit auth check https://mcp.example.com/mcp")
@click.argument("url")
@click.option("--page", metavar="ORIGIN", default="http://localhost:6274", show_default=True,
              help="The origin of web pages that may want to log in.")  # fmt: skip
@click.option(
    "--timeout", type=float, default=10.0, show_default=True, metavar="SECONDS", help="For each answer."
)
@click.option("--hosts", "tells_hosts", is_flag=True, help="Say what each known host will do.")
@click.option("--json", "is_json", is_flag=True, help="Write JSON, for scripts.")
def check(url: str, page: str, timeout: float, tells_hosts: bool, is_json: bool) -> Status:
    """Look at a server as clients do that want to log in, and say which of them will fail there, and why.

    Nobody logs in. The status is 6 where an error or a warning was found; a note is none.
    """
    findings = asyncio.run(check_authorization(url, page=page, timeout=timeout))
    hosts = hosts_at(findings) if tells_hosts else {}
    if is_json:
        told = [asdict(finding) for finding in findings]
        write_json({"findings": told, "hosts": hosts} if tells_hosts else told)
    else:
        for finding in findings:
            click.echo(str(finding))
        if not findings:
            click.echo("every client can log in", err=True)
        for name, outcome in hosts.items():
            click.echo(f"{name}: {outcome}")
    if any(finding.code == "unreachable" for finding in findings):
        return Status.NOT_REACHED
    return Status.FINDINGS if any(finding.severity != "note" for finding in findings) else Status.DONE
