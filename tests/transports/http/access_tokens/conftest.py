import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Access, Context, Scope, Server
from tests.helpers.raw_client import Client, Serve, serving
from tests.helpers.servers.protected import ISSUER, Table

URL = "https://mcp.example.com/mcp"

SCOPES = {
    "notes:read": Scope("Read notes", default=True),
    "notes:write": Scope("Change notes", implies=["notes:read"]),
    "notes:admin": Scope("Everything", implies=["notes:write"]),
    "mail": Scope("Send mail"),
}


@pytest.fixture
def serve(schema_dir: Path) -> Serve:
    """Run a protected server in this process: `async with serve(server, **options) as client`."""

    def run(server: Server, **options: Any) -> AbstractAsyncContextManager[Client]:
        original = {"public_url": URL, "allowed_hosts": ["localhost"]} | options
        return serving(server, schema_dir, **original)

    return run


@pytest.fixture
def table() -> Table:
    return Table(ISSUER)


@pytest.fixture
def done() -> list[str]:
    """Effects of the tools."""
    return []


@pytest.fixture
def make(table: Table, done: list[str]) -> Callable[..., Server]:
    """Factory of servers that accept the tokens of the table."""

    def server(**options: Any) -> Server:
        made = Server(
            "notes", title="Notes", secret_key="a secret of some length", auth=table, scopes=SCOPES, **options
        )

        @made.tool
        async def whoami(ctx: Context) -> str:
            """Return the caller."""
            return f"{ctx.principal.subject} {sorted(ctx.principal.scopes)}"

        @made.tool(access=Access(scopes="notes:write", optional_scopes="notes:admin"))
        async def add(
            ctx: Context, pinned: bool = False, progress: bool = False, once: bool = False, late: bool = False
        ) -> str:
            """Add a note."""
            if progress:
                await ctx.report_progress(1, 2)
            if once:
                await ctx.once("add", lambda: done.append("once"))
            if late:
                await asyncio.sleep(0.05)
            if pinned:
                ctx.require_scopes("notes:admin", "mail")
            done.append("added")
            return "added"

        @made.resource("notes://{id}", scopes="notes:read")
        def note(id: str) -> str:
            """A note."""
            return id

        @made.prompt(scopes=["notes:read", "mail"])
        def send(text: str) -> str:
            """Send a note."""
            return text

        return made

    return server


@pytest.fixture
def server(make: Callable[..., Server]) -> Server:
    return make()
