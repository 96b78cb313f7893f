"""A server over pipes whose tasks are in a file, so that they outlive it and its host.

FOLDER  where that file is, and the ledger; the task ends when there is a file `go` in it
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from mcpkit import Context, Server, Sqlite, Task, Tasks

FOLDER = Path(os.environ["FOLDER"])

server = Server(
    "lasting", secret="a secret of sixteen bytes", shared=Sqlite(FOLDER / "tasks.db"), tasks=Tasks(lease=1.0)
)


@server.tool(task=Task(rerun="safe"))
async def bake(cake: str, ctx: Context) -> str:
    """Bake until somebody says that it may be taken out; the oven is heated once."""
    heated = await ctx.once("heat", heat)
    with (FOLDER / "ledger").open("a") as ledger:
        ledger.write(f"begun {ctx.attempt}\n")
    while not (FOLDER / "go").exists():
        await asyncio.sleep(0.01)
    return f"{cake}, {heated}"


def heat() -> str:
    """Heat the oven."""
    with (FOLDER / "ledger").open("a") as ledger:
        ledger.write("heated\n")
    return "well done"


if __name__ == "__main__":
    server.run()
