"""`mcpkit auth check`: looks at a URL, and says which clients cannot log in there."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import click

from ..auth_check.check_authorization import check_authorization, hosts_at
from ..console import write_json
from ..exit_status import Status


@click.command("check", epilog="Example: mcpkit auth check https://mcp.example.com/mcp")
@click.argument("url")
@click.option("--page", metavar="ORIGIN", default="http://localhost:6274", show_default=True,
              help="Origin of a web page that logs in (checks CORS).")  # fmt: skip
@click.option(
    "--timeout",
    type=float,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Timeout of each request.",
)
@click.option("--hosts", "tells_hosts", is_flag=True, help="Show whether each known host can log in.")
@click.option("--json", "is_json", is_flag=True, help="Write JSON.")
def check(url: str, page: str, timeout: float, tells_hosts: bool, is_json: bool) -> Status:
    """Check whether clients can log in to a server: challenge, metadata, registration and CORS.

    The check does not log in. The exit status is 6 if there is an error or a warning; notes do not count.
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
            click.echo("no findings: every client can log in", err=True)
        for name, outcome in hosts.items():
            click.echo(f"{name}: {outcome}")
    if any(finding.code == "unreachable" for finding in findings):
        return Status.NOT_REACHED
    return Status.FINDINGS if any(finding.severity != "note" for finding in findings) else Status.DONE
