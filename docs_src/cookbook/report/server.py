import asyncio
from typing import Annotated

from pydantic import Field

from mcpkit import Context, Server, Task

server = Server("reports", version="1.0.0")

CHAPTERS = ["Sales", "Costs", "Staff", "Outlook"]


async def write_chapter(chapter: str, year: int) -> str:
    """Stands for slow work, such as queries or calls of an API."""
    await asyncio.sleep(0.05)
    return f"## {chapter}\n\n{chapter} in {year} were as planned.\n"


@server.tool(task=Task(timeout=1800))
async def write_report(
    year: Annotated[int, Field(ge=2000, le=2100)], ctx: Context
) -> str:
    """Write the annual report. This takes several minutes.

    Args:
        year: The year of the report.
    """
    parts = [f"# Report {year}\n"]
    async for chapter in ctx.track(CHAPTERS, "Writing chapters"):
        parts.append(await write_chapter(chapter, year))
    return "\n".join(parts)


if __name__ == "__main__":
    server.run()
