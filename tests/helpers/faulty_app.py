"""A raw server over HTTP that does everything right but what it is told to do wrong."""

from __future__ import annotations

import json
from collections.abc import Collection
from email.utils import formatdate
from time import time
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
PAGE = "http://localhost:6274"
SENT = "content-type, mcp-protocol-version, mcp-session-id, last-event-id"


def faulty_app(faults: Collection[str]) -> ASGIApp:
    """Return a server at `/mcp` with some faults; `cors` lets pages ask, as sound servers may, too."""
    sessions: set[str] = set()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        response = await _answered(request, faults, sessions)
        if request.headers.get("origin") == PAGE and "cors" in faults and _is_allowed(request, faults):
            response.headers["Access-Control-Allow-Origin"] = PAGE
            if "cors-preflight" not in faults:
                response.headers["Access-Control-Allow-Headers"] = SENT
            if "cors-exposed" not in faults:
                response.headers["Access-Control-Expose-Headers"] = "Mcp-Session-Id"
        if "clock" in faults:
            response.headers["Date"] = formatdate(time() + 3600, usegmt=True)
        await response(scope, receive, send)

    return app


def _is_allowed(request: Request, faults: Collection[str]) -> bool:
    return request.method == "OPTIONS" or "cors-answer" not in faults


async def _answered(request: Request, faults: Collection[str], sessions: set[str]) -> Response:
    if request.url.path == "/sse" and request.method == "GET":
        endpoint = "http://elsewhere.example" if "endpoint-origin" in faults else ""
        named = "" if "buffered-events" in faults else f"event: endpoint\ndata: {endpoint}/messages\n\n"
        return Response(named, media_type="text/event-stream")
    if request.url.path != "/mcp" or "server-error" in faults:
        return Response(status_code=500 if "server-error" in faults else 404)
    origin, host = request.headers.get("origin", PAGE), request.headers.get("host", "")
    if (origin != PAGE and "foreign-origin" not in faults) or (
        not host.startswith("127.0.0.1") and "foreign-host" not in faults
    ):
        return Response(status_code=403)
    if request.method == "OPTIONS":
        return Response(status_code=204 if "cors" in faults else 405)
    session = request.headers.get("mcp-session-id")
    if session is not None and session not in sessions and "unknown-session" not in faults:
        return Response(status_code=404)
    if request.method == "GET":
        return Response("<html>", status_code=200 if "get-status" in faults else 405, media_type="text/html")
    if request.method == "DELETE":
        if "delete-fails" in faults:
            return Response(status_code=500)
        if "session-goes-on" not in faults:
            sessions.discard(session or "")
        return Response(status_code=204)
    if (
        request.headers.get("mcp-protocol-version", REVISIONS[-1]) not in REVISIONS
        and "revision-header" not in faults
    ):
        return Response(status_code=400)
    try:
        message: dict[str, Any] = await request.json()
    except ValueError:
        return Response(status_code=500 if "malformed-status" in faults else 400)
    if "id" not in message:
        return Response(status_code=200 if "notification-status" in faults else 202)
    return _result(message, faults, sessions)


def _result(message: dict[str, Any], faults: Collection[str], sessions: set[str]) -> Response:
    headers: dict[str, str] = {}
    method, params = message["method"], message.get("params", {})
    answer: dict[str, Any] = {"result": {}}
    if method == "initialize":
        asked = params["protocolVersion"]
        answer["result"] = {
            "protocolVersion": asked if asked in REVISIONS else REVISIONS[-1],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "faulty", "version": "1"},
        }
        headers["Mcp-Session-Id"] = f"session{' ' if 'session-id' in faults else '-'}{len(sessions)}"
        sessions.add(headers["Mcp-Session-Id"])
    elif method == "tools/list":
        answer["result"] = {"tools": []}
    elif method != "ping":
        answer = {"error": {"code": -32601, "message": "method not found"}}
    text = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer})
    if "content-type" in faults:
        return Response("<html>welcome</html>", media_type="text/html")
    return JSONResponse(json.loads(text), headers=headers)
