import asyncio
from typing import Any

from mcpkit import Client
from mcpkit.client import FormRequest
from server import server


async def fill_in(form: FormRequest) -> dict[str, Any]:
    print(form.server["name"], "asks:", form.message)
    for field in form.fields:
        print(f"  {field.title} ({field.kind}), default {field.default}")
    return {"city": "Rome"}


async def main() -> None:
    async with Client(server, elicitation_handler=fill_in) as client:
        print((await client.call_tool("plan")).text)


asyncio.run(main())
