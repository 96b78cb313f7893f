import asyncio

from mcpkit import Client
from mcpkit.client import UrlRequest
from server import server


async def visit(page: UrlRequest) -> bool:
    print(f"{page.message} Open {page.url} at {page.host}? Yes.")
    return True  # a real program opens it: webbrowser.open(page.url)


async def main() -> None:
    async with Client(server, url_elicitation_handler=visit) as client:
        print((await client.call_tool("pay")).text)


asyncio.run(main())
