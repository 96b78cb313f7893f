import asyncio
import sys
import time
from pathlib import Path
from types import FrameType

import httpx2
from joserfc import jwt
from joserfc.jwk import ECKey

import mcpkit
from mcpkit import Scope, Server
from mcpkit.auth import Jwt

ISSUER, URL = "https://id.example.com", "https://mcp.example.com/mcp"
SHOWN = (
    "auth/",
    "identity/",
    "storage/",
    "requests/access_and_error_responses.py",
    "transports/http/routes.py",
    "transports/http/bearer_auth.py",
)

key = ECKey.generate_key("P-256")
server = Server(
    "notes",
    auth=Jwt(ISSUER, keys=key.as_dict(private=False)),
    scopes={"notes:read": Scope("Read notes")},
)


@server.tool(scopes="notes:read")
async def latest() -> str:
    """Return the latest note."""
    return "milk"


now = int(time.time())
claims = {
    "iss": ISSUER,
    "aud": URL,
    "sub": "ada",
    "client_id": "editor",
    "scope": "notes:read",
    "iat": now,
}
token = jwt.encode(
    {"alg": "ES256", "typ": "at+jwt"}, {**claims, "exp": now + 60}, key
)
meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
call = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "latest", "_meta": meta},
}
headers = {
    "Authorization": f"Bearer {token}",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "latest",
}
package = Path(mcpkit.__file__).parent
passed: dict[str, None] = {}


def note(frame: FrameType, event: str, argument: object) -> None:
    """Note the file of each function of the package that is called."""
    file = Path(frame.f_code.co_filename)
    if event == "call" and file.is_relative_to(package):
        name = file.relative_to(package).as_posix()
        if name.startswith(SHOWN):
            passed[name] = None


app = server.asgi(public_url=URL)


async def main() -> None:
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(
        transport=transport, base_url="https://mcp.example.com"
    ) as http:
        await http.post("/mcp", json=call)  # without a token: starts the app
        for title in ("The first call with a token", "The second"):
            passed.clear()
            sys.setprofile(note)
            answer = await http.post("/mcp", json=call, headers=headers)
            sys.setprofile(None)
            assert answer.status_code == 200
            print(title, *passed, sep="\n  ")


asyncio.run(main())
