from typing import Any

from starlette.testclient import TestClient

from server import ADA, BOB, server

ACCEPT = {"Accept": "application/json, text/event-stream"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "host", "version": "1"},
    },
}


def call(name: str) -> dict[str, Any]:
    params = {"name": name}
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}


app = server.asgi(public_url="https://mcp.example.com/mcp")
with TestClient(app, "https://mcp.example.com", headers=ACCEPT) as http:
    opened = http.post("/mcp", json=HELLO)
    session = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
    for token, tool in (
        (None, "weather"),
        (None, "whoami"),
        (ADA, "whoami"),
        (BOB, "whoami"),
        (None, "weather"),
    ):
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        response = http.post("/mcp", json=call(tool), headers=session | bearer)
        print(tool, response.status_code)
