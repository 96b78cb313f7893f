from typing import Any

from starlette.testclient import TestClient

from mcpkit import Scope, Server
from mcpkit.auth import Jwt
from server import server as notes
from signing import KEYS, signed

server = Server(
    "notes",
    auth=Jwt("https://id.example.com", keys=KEYS),
    scopes={"notes:read": Scope("Read notes", default=True)},
)
server.include(notes)

MESSAGE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {
        "name": "whoami",
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    },
}
HEADERS = {
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "whoami",
}


def call(http: TestClient, token: str | None) -> Any:
    bearer = {"Authorization": f"Bearer {token}"} if token else {}
    return http.post("/mcp", json=MESSAGE, headers={**HEADERS, **bearer})


app = server.asgi(public_url="https://mcp.example.com/mcp")
with TestClient(app, base_url="https://mcp.example.com") as http:
    print(call(http, None).headers["WWW-Authenticate"])
    print(call(http, signed()).json()["result"]["content"][0]["text"])
    for token in (
        signed(exp=1),
        signed(aud="https://other.example.com"),
        signed(scope=""),
    ):
        refused = call(http, token)
        challenge = refused.headers["WWW-Authenticate"]
        print(refused.status_code, challenge.split(", resource_metadata")[0])
