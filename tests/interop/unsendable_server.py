"""A server whose results cannot be sent: `python unsendable_server.py [transport]`."""

import sys
from typing import Any

from mcpkit import Server

server = Server("unsendable")


@server.tool
def rows() -> dict[str, Any]:
    """Return rows."""
    return {"rows": [{"price": 1.5}, {"price": object()}]}


@server.tool
async def total() -> int:
    """Return a total."""
    return "12"  # type: ignore[return-value]  # the mistake that is tested


@server.tool(process=True)
def keys() -> dict[str, int]:
    """Return two keys that become one."""
    return {1: 2, "1": 3}  # type: ignore[dict-item]  # the mistake that is tested


@server.resource("data://rows")
def data() -> Any:
    """Read rows."""
    return [{"price": object()}]


@server.prompt
def ask() -> Any:
    """Ask about rows."""
    return [{"role": "system", "content": "a"}]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run(sys.argv[1], port=0)
    else:
        server.run()
