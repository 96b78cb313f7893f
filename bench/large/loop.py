"""The shortest loop that decodes and encodes the same bytes with the same library, and no framework."""

from __future__ import annotations

import sys
from base64 import b64encode
from typing import Any

import payloads
from pydantic_core import from_json, to_json
from serving import serve

TYPE = (b"content-type", b"application/json")
SESSION = (b"mcp-session-id", b"loop")


def answer(line: bytes) -> bytes:
    """Return the answer to a request, the bytes that mcpkit and mcp send."""
    message = from_json(line)
    id_, params = message.get("id"), message["params"]
    if message["method"] == "initialize":
        return to_json(
            {"jsonrpc": "2.0", "id": id_, "result": {"protocolVersion": params["protocolVersion"]}}
        )
    name, arguments = params["name"], params["arguments"]
    if name == "give_image":
        data = b64encode(payloads.image(arguments["size"])).decode()
        result: dict[str, Any] = {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}
    elif name == "give":
        text = payloads.text(arguments["kind"], arguments["size"])
        result = {"content": [{"type": "text", "text": text}], "structuredContent": {"result": text}}
    else:
        length = len(arguments["text"])
        result = {"content": [{"type": "text", "text": str(length)}], "structuredContent": {"result": length}}
    return to_json({"jsonrpc": "2.0", "id": id_, "result": result})


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer a POST."""
    if scope["type"] != "http":
        return
    parts: list[bytes] = []
    while True:
        event = await receive()
        parts.append(event["body"])
        if not event["more_body"]:
            break
    body = b"".join(parts)
    answered = b"" if b"notifications/initialized" in body[:100] else answer(body)
    headers = [TYPE, SESSION, (b"content-length", str(len(answered)).encode())]
    await send({"type": "http.response.start", "status": 200 if answered else 202, "headers": headers})
    await send({"type": "http.response.body", "body": answered})


def main() -> None:
    """Answer each line."""
    while line := sys.stdin.buffer.readline():
        if b"notifications/initialized" not in line[:100]:
            sys.stdout.buffer.write(answer(line) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    if sys.argv[1] == "http":
        serve(app, int(sys.argv[2]))
    else:
        main()
