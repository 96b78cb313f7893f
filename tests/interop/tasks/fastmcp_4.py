"""The client of fastmcp 4.x, which polls: `fastmcp_4.py JOURNEY stdio COMMAND ARGUMENT... | http URL TOKEN`.

It runs in an environment of its own, and prints what it saw as one JSON object.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp_tasks import call_tool_task
from mcp import MCPError


class Person:
    """Whoever is asked."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def elicit(self, message: str, response_type: Any, params: Any, context: Any) -> Any:
        self.asked.append(message)
        entry = self.answers[message]
        if isinstance(entry, str):
            return ElicitResult(action=entry)
        return ElicitResult(action="accept", content=entry)


async def call(client: Client[Any], person: Person, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool as a task, and poll until it has ended."""
    person.asked = []
    if (
        name == "reserve"
    ):  # with this client, what is asked before there is a task takes the call that hides it
        result = await client.call_tool(name, arguments)
        return {"asked": person.asked, "text": result.content[0].text, "isError": result.is_error}
    task = await call_tool_task(client, name, arguments, raise_on_error=False)
    result = await task.result()
    end = await task.status()
    met: dict[str, Any] = {"asked": person.asked, "status": end.status}
    if end.error is not None:
        return met | {"error": {"code": end.error["code"], "message": end.error["message"]}}
    return met | {"text": result.content[0].text, "isError": result.is_error}


async def visit(client: Client[Any], person: Person, calls: dict[str, Any], seen: dict[str, Any]) -> None:
    for name, arguments in calls.items():
        if name == "greet":
            result = await client.call_tool(name, arguments)
            seen["calls"][name] = {"asked": [], "status": None, "isError": result.is_error}
            seen["calls"][name]["text"] = result.content[0].text
        else:
            seen["calls"][name] = await call(client, person, name, arguments)
    seen["transparent"] = (await client.call_tool("add", {"a": 4, "b": 5})).data
    held = await call_tool_task(client, "hold")
    seen["created"] = (await held.status()).status
    await held.cancel()
    seen["stopped"] = (await client.call_tool("was_stopped")).content[0].text
    seen["cancelled"] = (await held.wait()).status
    held._create_result = held.create_result.model_copy(update={"task_id": "nobody-has-seen-this"})
    try:
        seen["unknown"] = (await held.status()).model_dump(mode="json")
    except MCPError as error:
        seen["unknown"] = {"code": error.code, "message": error.message}


async def main() -> None:
    journey, kind, *target = sys.argv[1:]
    known = json.loads(journey)
    person = Person(known["answers"])
    way: Any = (
        StdioTransport(target[0], target[1:])
        if kind == "stdio"
        else StreamableHttpTransport(target[0], headers={"authorization": f"Bearer {target[1]}"})
    )
    seen: dict[str, Any] = {"calls": {}}
    with anyio.fail_after(60):
        async with Client(way, elicitation_handler=person.elicit) as client:
            await visit(client, person, known["calls"], seen)
    print(json.dumps(seen))


if __name__ == "__main__":
    anyio.run(main)
