import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from mcpkit import Depends, Server, ToolError

server = Server("shop", version="1.0.0")
DATABASE = Path(os.environ.get("SHOP_DB", "shop.db")).absolute()
MAX_ROWS = 100
MAX_SECONDS = 2
ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}


def authorize(action: int, *_: object) -> int:
    """Allow what reads tables, and deny all else, such as ATTACH."""
    return sqlite3.SQLITE_OK if action in ALLOWED else sqlite3.SQLITE_DENY


def open_read_only() -> Iterator[sqlite3.Connection]:
    """Open the database read-only for one request."""
    connection = sqlite3.connect(
        f"{DATABASE.as_uri()}?mode=ro", uri=True, check_same_thread=False
    )
    connection.row_factory = sqlite3.Row
    connection.set_authorizer(authorize)
    end = time.monotonic() + MAX_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > end, 10_000)
    try:
        yield connection
    finally:
        connection.close()


Database = Annotated[sqlite3.Connection, Depends(open_read_only)]


@server.resource("shop://schema", mime_type="text/plain")
def schema(db: Database) -> str:
    """The tables of the database as SQL."""
    rows = db.execute("select sql from sqlite_master where sql is not null")
    return ";\n".join(sql for (sql,) in rows)


@server.tool(annotations={"readOnlyHint": True})
def query(sql: str, db: Database) -> list[dict[str, Any]]:
    """Run one SQL SELECT on the shop database (SQLite).

    The table is products(name, category, price).

    Args:
        sql: The statement. At most 100 rows are returned.
    """
    try:
        rows = db.execute(sql).fetchmany(MAX_ROWS + 1)
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise ToolError(f"SQLite: {error}") from None
    if len(rows) > MAX_ROWS:
        raise ToolError(f"More than {MAX_ROWS} rows. Add a WHERE or LIMIT.")
    return [dict(row) for row in rows]


if __name__ == "__main__":
    server.run()
