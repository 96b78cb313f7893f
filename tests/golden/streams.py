"""Byte streams of clients, valid and malformed, over a pipe and over HTTP, and what the server sends for each.

A stream begins with one of the dialogues below, in one protocol version; then one thing in it may be changed: a member
of a message, a header, or bytes. The same seed gives the same streams.
"""

import asyncio
import copy
import json
import re
from collections.abc import AsyncIterator, Iterator
from random import Random
from typing import Any, NamedTuple

from mcpkit import Server
from mcpkit.transports import Connection

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = "2026-07-28"
META = "io.modelcontextprotocol/"
CAPABILITIES = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}

REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("ping", {}),
    ("server/discover", {}),
    ("tools/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("prompts/list", {}),
    ("logging/setLevel", {"level": "info"}),
    ("resources/subscribe", {"uri": "note://one"}),
    ("resources/unsubscribe", {"uri": "note://one"}),
    ("resources/read", {"uri": "note://one"}),
    ("resources/read", {"uri": "note://two/more"}),
    ("resources/read", {"uri": "note://none/more"}),
    ("resources/read", {"uri": "note://fault/more"}),
    ("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}}),
    ("prompts/get", {"name": "greet", "arguments": {"name": "fault"}}),
    ("completion/complete", {
        "ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "style", "value": "b"},
    }),
    ("tools/call", {"name": "add", "arguments": {"first": 1, "second": 2}}),
    ("tools/call", {"name": "move", "arguments": {"point": {"x": 1}, "direction": "up"}}),
    ("tools/call", {"name": "structured", "arguments": {"size": 3}}),
    ("tools/call", {"name": "report", "arguments": {}}),
    ("tools/call", {"name": "ask", "arguments": {}}),
    ("tools/call", {"name": "sample", "arguments": {}}),
    ("tools/call", {"name": "roots", "arguments": {}}),
    ("tools/call", {"name": "slow", "arguments": {}}),
    ("tools/call", {"name": "wrong_output", "arguments": {}}),
    ("tools/call", {"name": "protected", "arguments": {}}),
    *[
        ("tools/call", {"name": "render", "arguments": {"kind": kind}})
        for kind in ("text", "image", "link", "all", "nothing")
    ],
    *[
        ("tools/call", {"name": "unsendable", "arguments": {"kind": kind}})
        for kind in ("object", "nan", "surrogate", "bytes")
    ],
    *[
        ("tools/call", {"name": "fail", "arguments": {"kind": kind}})
        for kind in (
            "tool", "empty", "value", "protocol", "resource", "not-found", "prompt", "cancelled", "timeout", "input",
        )
    ],
]  # fmt: skip
"""Each row of the error table, and each kind of result, by method and parameters."""

VALUES: list[Any] = [None, {}, [], "", "x" * 300, "\u2028é", 0, -1, 1.5, 2**70, True, [1], {"a": 1}]
BYTES = [b"NaN", b"1e999", rb'"\ud83d"', b'"a\tb"', b'"\xff"', b"[" * 2000, b"\xef\xbb\xbf{}", b"{", b""]
HEADERS = [
    "mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id", "accept", "content-type", "host", "origin",
]  # fmt: skip
HEADER_VALUES: list[str | None] = [
    None, "", "x", "2025-11-25", STATELESS, "1999-01-01", "tools/list", "text/event-stream", "application/json",
    "application/json; charset=latin-1", "*/*", "https://example.com", "example.com:99999",
]  # fmt: skip


class Stream(NamedTuple):
    """The messages of one client in order, and the change in them."""

    name: str
    messages: list[bytes]
    headers: dict[str, str]
    http_method: str = "POST"

    @property
    def waits_for_client(self) -> bool:
        """True if the server sends a request that this client does not answer."""
        return any(f"tools/call {name}" in self.name for name in ("ask", "sample", "roots"))


def dialogue(method: str, params: dict[str, Any], version: str) -> list[dict[str, Any]]:
    """Return the messages of a client that makes one request in a protocol version."""
    if version == STATELESS:
        meta = {
            META + "protocolVersion": version,
            META + "clientInfo": {"name": "golden", "version": "1"},
            META + "clientCapabilities": CAPABILITIES,
            META + "logLevel": "info",
            "progressToken": "p",
        }
        return [{"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}]
    client = {"name": "golden", "version": "1"}
    first = {"protocolVersion": version, "capabilities": CAPABILITIES, "clientInfo": client}
    return [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": first},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": {"progressToken": "p"}}},
    ]


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each member below a JSON value."""
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, member in members:
        yield (*at, key)
        yield from places(member, (*at, key))


def changed(random: Random, messages: list[dict[str, Any]]) -> tuple[str, list[bytes]]:
    """Return the messages as bytes with one change, and the name of the change."""
    messages = copy.deepcopy(messages)
    index = random.randrange(len(messages))
    path = random.choice(list(places(messages[index])))
    holder = messages[index]
    for key in path[:-1]:
        holder = holder[key]
    name = f"{index}:{'.'.join(map(str, path))}"
    kind = random.choice(["missing", "value", "value", "bytes", "twice", "cut", "batch"])
    lines = [json.dumps(each).encode() for each in messages]
    if kind == "missing":
        del holder[path[-1]]
    elif kind == "value":
        value = random.choice(VALUES)
        holder[path[-1]] = value
        name += f"={json.dumps(value):.20}"
    elif kind == "bytes":
        raw = random.choice(BYTES)
        holder[path[-1]] = "\ue000"
        lines[index] = json.dumps(messages[index]).encode().replace(rb'"\ue000"', raw)
        return f"{name}={raw[:9]!r}", lines
    elif kind == "twice":
        lines.insert(index, lines[index])
    elif kind == "cut":
        lines[index] = lines[index][: random.randrange(len(lines[index]))]
    elif kind == "batch":
        lines = [b"[" + b",".join(lines) + b"]"]
    if kind in {"missing", "value"}:
        lines[index] = json.dumps(messages[index]).encode()
    return f"{kind} {name}", lines


def headers_of(message: dict[str, Any], version: str) -> dict[str, str]:
    """Return the headers of a valid POST."""
    headers = {
        "host": "127.0.0.1",
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
    }
    if message.get("method") != "initialize":
        headers["mcp-protocol-version"] = version
    if version == STATELESS:
        headers["mcp-method"] = message["method"]
        if isinstance(name := message["params"].get("name", message["params"].get("uri")), str):
            headers["mcp-name"] = name
    return headers


def pipe_streams(count: int) -> Iterator[Stream]:
    """Yield streams for a pipe: each request in each version as it is, then changed ones."""
    for method, params in REQUESTS:
        for version in (*HANDSHAKE, STATELESS):
            lines = [json.dumps(each).encode() for each in dialogue(method, params, version)]
            yield Stream(f"{version} {method} {_label(params)}", lines, {})
            count -= 1
    random = Random(20261129)
    for _ in range(count):
        version = random.choice([HANDSHAKE[-1], HANDSHAKE[-1], STATELESS, STATELESS, *HANDSHAKE])
        method, params = random.choice(REQUESTS)
        name, lines = changed(random, dialogue(method, params, version))
        yield Stream(f"{version} {method} {_label(params)} {name}", lines, {})


def http_streams(count: int) -> Iterator[Stream]:
    """Yield single HTTP requests: each stateless request as it is, then changed bodies, headers and methods."""
    random = Random(20261130)
    for number in range(count):
        version = random.choice([STATELESS, STATELESS, HANDSHAKE[-1]])
        method, params = REQUESTS[number % len(REQUESTS)]
        message = dialogue(method, params, version)[0]
        headers = headers_of(message, version)
        name = f"{version} {method} {_label(params)}"
        http_method, body = "POST", json.dumps(message).encode()
        if number >= len(REQUESTS):
            if random.random() < 0.5:
                change, lines = changed(random, [message])
                body = lines[0]
            else:
                header, value = random.choice(HEADERS), random.choice(HEADER_VALUES)
                change = f"{header}: {value}"
                headers.pop(header, None)
                headers |= {} if value is None else {header: value}
                http_method = random.choice(["POST"] * 7 + ["GET", "DELETE", "PUT"])
            name += f" {http_method} {change}"
        yield Stream(name, [body], headers, http_method)


def _label(params: dict[str, Any]) -> str:
    arguments = params.get("arguments", {})
    return f"{params.get('name', params.get('uri', ''))} {arguments.get('kind', '')}".strip()


async def settle() -> None:
    """Let the event loop run until tasks that do not wait have ended."""
    for _ in range(30):
        await asyncio.sleep(0)


async def play_pipe(server: Server, stream: Stream) -> list[str]:
    """Send a stream over a pipe and return the messages of the server."""
    received: list[bytes] = []
    connection = Connection(server, received.append)
    for line in stream.messages:
        connection.receive(line)
        await settle()
        if not stream.waits_for_client:
            await asyncio.wait_for(connection.drain(), 5)
    await connection.aclose()
    return [normal(line.decode()) for line in received]


async def play_http(app: Any, stream: Stream) -> list[str]:
    """Send one HTTP request to an ASGI app and return the status, some headers, and the body."""
    sent: list[dict[str, Any]] = []
    inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    inbox.put_nowait({"type": "http.request", "body": stream.messages[0], "more_body": False})

    async def send(event: Any) -> None:
        sent.append(event)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": stream.http_method, "path": "/mcp",
        "raw_path": b"/mcp", "query_string": b"", "scheme": "http", "client": ("127.0.0.1", 1), "root_path": "",
        "server": ("127.0.0.1", 80), "headers": [(k.encode(), v.encode()) for k, v in stream.headers.items()],
    }  # fmt: skip
    await asyncio.wait_for(app(scope, inbox.get, send), 5)
    start = sent[0]
    shown = [
        f"{name.decode().lower()}: {value.decode()}"
        for name, value in start["headers"]
        if name.lower()
        in {b"content-type", b"allow", b"www-authenticate", b"mcp-session-id", b"mcp-protocol-version"}
    ]
    body = b"".join(event.get("body", b"") for event in sent[1:]).decode()
    return [str(start["status"]), *map(normal, sorted(shown)), normal(body)]


def normal(text: str) -> str:
    """Return a text without what differs from run to run: references, states and session ids."""
    text = re.sub(r"\(ref [0-9a-f]{8}\)", "(ref)", text)
    text = re.sub(r'"requestState":"[^"]*"', '"requestState":"*"', text)
    text = re.sub(r"0x[0-9a-f]{6,}", "0x", text)
    text = re.sub(r"\(/[^)]*/([\w.]+:\d+)\)", r"(\1)", text)
    text = re.sub(r"^id: \S+$", "id: *", text, flags=re.MULTILINE)
    return re.sub(r"(?i)(mcp-session-id: ).+", r"\1*", text)


async def record_pipe(server: Server, count: int = 2000) -> AsyncIterator[tuple[str, list[str]]]:
    """Play streams over a pipe and yield the name of each with the messages of the server."""
    for number, stream in enumerate(pipe_streams(count)):
        yield f"{number} {stream.name}", await play_pipe(server, stream)


async def record_http(server: Server, count: int = 1000) -> AsyncIterator[tuple[str, list[str]]]:
    """Send HTTP requests to an app and yield the name of each with the response."""
    app = server.asgi()
    for number, stream in enumerate(http_streams(count)):
        yield f"{number} {stream.name}", await play_http(app, stream)
