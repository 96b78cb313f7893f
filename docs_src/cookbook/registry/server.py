# /// script
# requires-python = ">=3.10"
# dependencies = ["mcpkit"]
# ///
from typing import Annotated

from pydantic import Field

from mcpkit import Server, ToolError

server = Server(
    "units",
    version="1.0.0",
    title="Units",
    instructions="Converts units of length.",
)

METRES = {"m": 1.0, "km": 1000.0, "ft": 0.3048, "mi": 1609.344}


@server.tool(annotations={"readOnlyHint": True})
def convert_length(
    value: Annotated[float, Field(ge=0)], source: str, target: str
) -> float:
    """Convert a length.

    Args:
        value: The length in the source unit.
        source: The unit of the value, for example mi.
        target: The unit of the result, for example km.
    """
    for unit in (source, target):
        if unit not in METRES:
            known = ", ".join(METRES)
            raise ToolError(f"Unknown unit {unit!r}. The units are {known}.")
    return round(value * METRES[source] / METRES[target], 6)


def main() -> None:
    """Start the server; the entry point of the package."""
    server.run()


if __name__ == "__main__":
    main()
