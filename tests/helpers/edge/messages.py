"""Requests and responses over HTTP, and what requests look like when all is well."""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple

STATELESS = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": {"name": "edge", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "edge", "version": "1"}}
SESSION = b"(session)"
"""Stands for the id of the session that is open."""

Body = Literal["whole", "chunked", "garbled", "stalled", "cut", "vanished", "unframed"]
"""How a body comes: with its length, in chunks, in chunks that are none; with a part missing, the connection open,
half closed or reset; or with nothing that says there is one."""


class Request(NamedTuple):
    method: str
    target: str
    headers: tuple[tuple[bytes, bytes], ...]
    parts: tuple[bytes, ...] = ()
    body: Body = "whole"

    @property
    def content(self) -> bytes:
        return b"".join(self.parts)

    @property
    def is_endless(self) -> bool:
        """Whether its answer may be a stream that lasts."""
        return self.method == "GET" or b"subscriptions" in self.content

    def of(self, session: bytes) -> Request:
        return self._replace(
            target=self.target.replace(SESSION.decode(), session.decode()),
            headers=tuple((name, value.replace(SESSION, session)) for name, value in self.headers),
        )


class Response(NamedTuple):
    status: int
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def messages(self) -> list[Any]:
        """The JSON in the body, which is there whole."""
        kind = self.headers.get(b"content-type", b"")
        if kind == b"application/json":
            return [json.loads(self.body)]
        if kind == b"text/event-stream":
            lines = [line for line in self.body.splitlines() if line.startswith(b"data: ")]
            return [json.loads(line[6:]) for line in lines if len(line) > len(b"data: ")]
        return []


COMMON = {
    b"host": b"127.0.0.1",
    b"content-type": b"application/json",
    b"accept": b"application/json, text/event-stream",
}


def base(
    message: Any, method: str = "POST", target: str = "/mcp", /, **headers: bytes
) -> tuple[str, str, dict[bytes, bytes], Any]:
    named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return method, target, {**COMMON, **named}, message


def call(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def stateless(method: str, name: str | None = None, **params: Any) -> Any:
    headers = {"mcp_protocol_version": STATELESS.encode(), "mcp_method": method.encode()}
    if name is not None:
        headers["mcp_name"] = name.encode()
        params["uri" if method == "resources/read" else "name"] = name
    return base(call(method, **params, _meta=META), **headers)


def in_session(message: Any, method: str = "POST", /, **headers: bytes) -> Any:
    return base(message, method, mcp_session_id=SESSION, mcp_protocol_version=b"2025-11-25", **headers)


PROGRESS = {"progressToken": "p"}
BASES = [
    stateless("server/discover"),
    stateless("tools/list"),
    stateless("tools/call", "echo", arguments={"text": "a"}),
    stateless("tools/call", "block", arguments={"count": 3}),
    stateless("tools/call", "ask"),
    stateless("resources/read", "edge://fixed"),
    stateless("prompts/get", "plan", arguments={"city": "Bern"}),
    stateless("subscriptions/listen", notifications={"toolsListChanged": True}),
    base(
        call("tools/call", name="report", _meta={**META, **PROGRESS, "io.modelcontextprotocol/logLevel": "info"}),
        mcp_protocol_version=STATELESS.encode(),
        mcp_method=b"tools/call",
        mcp_name=b"report",
    ),
    base(
        call("tools/call", name="echo", arguments={"text": "a", "region": "eu"}, _meta=META),
        mcp_protocol_version=STATELESS.encode(),
        mcp_method=b"tools/call",
        mcp_name=b"echo",
        mcp_param_region=b"eu",
    ),
    base(call("initialize", **CLIENT)),
    in_session({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    in_session(call("ping")),
    in_session(call("tools/list")),
    in_session(call("tools/call", name="echo", arguments={"text": "a"})),
    in_session(call("tools/call", name="report", _meta=PROGRESS)),
    in_session(call("tools/call", name="close", _meta=PROGRESS)),
    in_session(call("tools/call", name="fail")),
    in_session(call("logging/setLevel", level="debug")),
    in_session(call("resources/subscribe", uri="edge://fixed")),
    in_session(call("completion/complete", ref={"type": "ref/prompt", "name": "plan"},
                    argument={"name": "city", "value": "B"})),
    in_session({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
    in_session({"jsonrpc": "2.0", "id": 1, "result": {}}),
    in_session([call("ping"), call("tools/list")]),
    in_session(None, "GET"),
    in_session(None, "GET", last_event_id=b"1"),
    in_session(None, "DELETE"),
    base(None, "GET", "/sse"),
    base(call("ping"), "POST", "/messages?session_id=(session)"),
    base(None, "GET", "/health"),
    base(None, "OPTIONS", origin=b"http://localhost:6274", access_control_request_method=b"POST"),
]  # fmt: skip


def make(number: int) -> Request:
    method, target, headers, message = BASES[number]
    return Request(method, target, tuple(headers.items()), (json.dumps(message).encode(),))


def find(marker: str) -> Request:
    """The request as it should be whose text has this in it."""
    return next(each for each in map(make, range(len(BASES))) if marker in str(each))
