"""What is wrong with a value is found in no more time than it took to see that something is."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from mcpkit.schema.problems import Reader

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


PATTERN = r"^(\w+\s?)+$"
TEXT = "a" * 60 + "!"

SEARCHES = {
    "an argument": """
        async def find(name: Annotated[str, Field(pattern=PATTERN)]) -> str:
            return name
        server.tool(find)
    """,
    "an argument of a JSON Schema": """
        async def find(arguments: dict) -> str:
            return "found"
        properties = {"name": {"type": "string", "pattern": PATTERN}}
        server.tool(find, input_schema={"type": "object", "properties": properties})
    """,
    "an answer": """
        async def find(ctx: Context, name: str) -> str:
            class Form(BaseModel):
                name: Annotated[str, Field(pattern=PATTERN)]
            return (await ctx.elicit("Whom?", Form)).value.name
        server.tool(find)
    """,
}

PROGRAM = """
import asyncio
from typing import Annotated
from pydantic import BaseModel, Field
from mcpkit import Context, Server
from mcpkit.testing import connect

PATTERN, TEXT = {pattern!r}, {text!r}

def answers(method, params):
    return {{"action": "accept", "content": {{"name": TEXT}}}}

async def main():
    server = Server("s")
{tool}
    async with connect(server, revision="2025-11-25", answers=answers) as client:
        print((await client.call("find", {{"name": TEXT}})).is_error)

asyncio.run(main())
"""


@pytest.mark.parametrize("where", SEARCHES)
def test_a_pattern_takes_no_longer_to_explain_than_to_check(where: str) -> None:
    tool = "\n".join(line[4:] for line in SEARCHES[where].splitlines())
    program = PROGRAM.format(pattern=PATTERN, text=TEXT, tool=tool)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


@pytest.mark.parametrize("schema", [{"type": "integer"}, {"anyOf": [{"type": "integer"}, {"type": "null"}]}])
def test_only_so_many_items_of_an_array_are_looked_at(schema: dict[str, Any]) -> None:
    looked_at: list[Any] = []
    array: dict[str, Any] = {"type": "array", "items": schema}

    def fits(part: dict[str, Any], value: Any) -> bool:
        looked_at.extend(value if part.get("type") == "array" else [])
        return False

    found = list(Reader(array, fits).faults(["x"] * 50_000))
    assert 500 < len(found) < 2_000
    assert len(found) <= len(looked_at) < len(found) + 300
    assert sum(1 for _ in Reader(array).faults(["x"] * 50_000)) == len(found)
