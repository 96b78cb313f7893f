import sqlite3

from mcp import McpError
from mcp.server.fastmcp import FastMCP
from mcp.types import INVALID_PARAMS, ErrorData

mcp = FastMCP("ledger")
database = sqlite3.connect(":memory:")
database.execute("CREATE TABLE entries (account TEXT, amount INTEGER)")


def check(account: str) -> None:
    if not account.isalpha():
        raise ValueError(f"{account} is no account")


@mcp.tool()
def book(account: str, amount: int) -> str:
    """Book an amount."""
    check(account)
    if amount == 0:
        raise ValueError("Nothing to book")
    with database:
        database.execute("INSERT INTO entries VALUES (?, ?)", (account, amount))
    return "Booked"


@mcp.tool()
async def convert(amount: float, currency: str) -> float:
    """Convert dollars."""
    if currency != "EUR":
        raise McpError(ErrorData(code=INVALID_PARAMS, message=f"There is no rate for {currency}"))
    return amount / 1.08


if __name__ == "__main__":
    mcp.run()
