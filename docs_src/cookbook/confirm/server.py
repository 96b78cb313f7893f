import sqlite3
from collections.abc import Iterator
from typing import Annotated

from mcpkit import Context, Depends, Server, ToolError

server = Server("projects", version="1.0.0")


def open_database() -> Iterator[sqlite3.Connection]:
    """Open the database for one request, and commit if it succeeds."""
    connection = sqlite3.connect("projects.db", check_same_thread=False)
    try:
        with connection:
            connection.execute(
                "create table if not exists projects (name primary key, files)"
            )
            yield connection
    finally:
        connection.close()


Database = Annotated[sqlite3.Connection, Depends(open_database)]


@server.tool
def add_project(name: str, files: int, db: Database) -> str:
    """Add a project."""
    db.execute("insert or replace into projects values (?, ?)", [name, files])
    return f"Added {name}."


@server.tool(annotations={"destructiveHint": True})
async def delete_project(name: str, db: Database, ctx: Context) -> str:
    """Delete a project and its files. The user confirms it first."""
    row = db.execute(
        "select files from projects where name = ?", [name]
    ).fetchone()
    if row is None:
        raise ToolError(f"There is no project {name!r}.")
    answer = await ctx.elicit(
        f"Delete the project {name!r} and its {row[0]} files? "
        "Type the name of the project to confirm.",
        str,
    )
    if not answer:
        return f"The user did not agree ({answer.action}). Nothing is deleted."
    if answer.value != name:
        raise ToolError("The user typed another name. Nothing is deleted.")
    db.execute("delete from projects where name = ?", [name])
    return f"Deleted {name}."


if __name__ == "__main__":
    server.run()
