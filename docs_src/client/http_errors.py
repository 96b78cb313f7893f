import asyncio

from mcpkit import Client
from mcpkit.exceptions import AuthorizationError, StatusError, TransportError
from running import running


async def main() -> None:
    async with running() as url:
        async with Client(url) as client:
            try:
                await client.call_tool("publish", {"text": "hello"})
            except AuthorizationError as error:
                print(error)
                print(error.challenge)
        wrong = url.replace("/mcp", "/elsewhere")
        try:
            async with Client(wrong, protocol_version="2026-07-28"):
                pass
        except StatusError as error:
            print(error.status, error)
    try:
        async with Client("http://127.0.0.1:9/mcp"):
            pass
    except TransportError as error:
        print(error, error.may_have_begun)


asyncio.run(main())
