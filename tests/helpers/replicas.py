"""One of several servers that share an engine, as clients reach it over HTTP."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.helpers.event_streams import EventStream
from tests.helpers.serving import PATIENCE

BOTH = {"accept": "application/json, text/event-stream"}
CLIENT = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "test", "version": "1"},
}


class Replica:
    """One of the servers, as clients reach it."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url + "/mcp"
        self.http = httpx2.Client(base_url=url, timeout=PATIENCE, trust_env=False)

    def post(self, message: Any, session: str | None = None) -> httpx2.Response:
        headers = BOTH | ({} if session is None else {"mcp-session-id": session})
        return self.http.post("/mcp", json=message, headers=headers)

    def ask(self, session: str, method: str, **params: Any) -> Any:
        answer = self.post(request(method, **params), session)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        return answer.json()["result"]

    def call(self, session: str, tool: str, **arguments: Any) -> str:
        result = self.ask(session, "tools/call", name=tool, arguments=arguments)
        return str(result["content"][0]["text"])

    def stream(self, message: Any, session: str) -> EventStream:
        return EventStream(self.url, "POST", message, {"Mcp-Session-Id": session})

    def listen(self, session: str, after: str | None = None) -> EventStream:
        more = {} if after is None else {"Last-Event-ID": after}
        return EventStream(self.url, "GET", None, {"Mcp-Session-Id": session, **more})

    def open(self) -> str:
        answer = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": CLIENT})
        return str(answer.headers["mcp-session-id"])

    def delete(self, session: str) -> int:
        return self.http.delete("/mcp", headers={"mcp-session-id": session}).status_code


def request(method: str, id: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(tool: str, id: Any = 1, **arguments: Any) -> dict[str, Any]:
    return request("tools/call", id, name=tool, arguments=arguments)
