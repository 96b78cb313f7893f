import asyncio
from typing import Any

from starlette.responses import Response

from mcpkit import Client
from mcpkit.exceptions import AuthorizationError
from server import server

app = server.asgi()
TOKEN = (b"authorization", b"Bearer secret")


async def guarded(scope: Any, receive: Any, send: Any) -> None:
    """Require a token for HTTP requests."""
    if scope["type"] == "http" and TOKEN not in scope["headers"]:
        challenge = {"WWW-Authenticate": 'Bearer scope="read"'}
        response = Response(status_code=401, headers=challenge)
        await response(scope, receive, send)
    else:
        await app(scope, receive, send)


async def main() -> None:
    try:
        async with Client(guarded):
            pass
    except AuthorizationError as error:
        print(error)
    async with Client(guarded, token="secret") as client:
        result = await client.call_tool("forecast", {"city": "Oslo"})
        print(result.text)


asyncio.run(main())
