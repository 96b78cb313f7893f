"""A shop that uses the extension `com.example/receipts`.

python server.py              # on stdin and stdout, for a host to start
python server.py --http 8000  # over HTTP, for clients of this machine
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Literal

from receipts import make_receipts

from mcpkit import Server, ToolError

PRICES = {"apple": 30, "pear": 40, "quince": 120}
"""Cents for each."""

server = Server("shop", version="1.0.0", instructions="A shop for fruit. Prices are in cents.")
server.include(make_receipts())


@dataclass
class Order:
    """An order."""

    fruit: str
    count: int
    total: int


@server.tool
async def buy(fruit: Literal["apple", "pear", "quince"], count: int = 1) -> Order:
    """Buy some fruit.

    Args:
        fruit: What to buy.
        count: How many.
    """
    if fruit == "quince":
        raise ToolError("Quinces are in season from October on")
    return Order(fruit, count, PRICES[fruit] * count)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python server.py"
    )
    parser.add_argument("--http", type=int, metavar="PORT", help="serve over HTTP, on this port of 127.0.0.1")
    options = parser.parse_args()
    if options.http is None:
        server.run()
    else:
        server.run("http", port=options.http)
