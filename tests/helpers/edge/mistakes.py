"""Requests with something wrong."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tests.helpers.edge.messages import BASES, SESSION, Body, Request

JUNK = st.recursive(
    st.sampled_from(
        [None, True, 0, -1, 2**53, 10**30, 1.5, "", "name", "2026-07-28", "2024-11-05", "tools/call"]
    )
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
METHODS = ["GET", "POST", "DELETE", "PUT", "PATCH", "OPTIONS", "HEAD", "TRACE", "BREW", "post", "QUERY"]
TARGETS = [
    *(
        "/mcp",
        "/mcp/",
        "/mcp?x=1",
        "/mcp/x",
        "//mcp",
        "/%6dcp",
        "/mcp%2f",
        "/",
        "/health",
        "/nowhere",
        "/sse",
        "/sse/",
    ),
    *(
        "/messages",
        "/messages/",
        "/messages?session_id=(session)",
        "/messages?session_id=",
        "/messages?" + "a=&" * 100,
        "/..;/mcp",
        "/%ff%00",
        "*",
    ),
]
NAMES = [
    *(
        b"content-type",
        b"accept",
        b"host",
        b"origin",
        b"mcp-session-id",
        b"mcp-protocol-version",
        b"mcp-method",
    ),
    *(b"mcp-name", b"mcp-param-region", b"last-event-id", b"cookie", b"authorization", b"x-forwarded-host"),
    *(b"access-control-request-method", b"access-control-request-headers", b"content-encoding", b"range"),
]
VALUES = [
    *(
        b"",
        b"*/*",
        b"*",
        b"null",
        b"application/json",
        b"application/json; charset=utf-8",
        b"text/event-stream",
    ),
    *(
        b"text/plain",
        b"application/json;q=0",
        b";;,,=",
        b"2026-07-28",
        b"2025-11-25",
        b"2025-03-26",
        b"2024-11-05",
    ),
    *(
        b"1999-01-01",
        b"tools/call",
        b"tools/list",
        b"echo",
        b"=?base64?ZWNobw==?=",
        b"=?base64?ZWNo?=",
        SESSION,
    ),
    *(
        SESSION + b"x",
        SESSION[:-1],
        b"127.0.0.1",
        b"localhost:1",
        b"evil.example",
        b"http://evil.example",
        b"0",
    ),
    *(
        b"http://localhost:6274",
        b"9" * 400,
        b"a" * 2000,
        b"POST",
        b"gzip",
        b"bytes=0-1",
        b"\xff\xfe",
        b"\xc3\xa9",
    ),
]
VISIBLE = st.binary(max_size=12).map(lambda data: bytes(32 + byte % 95 for byte in data))
BYTES = st.sampled_from(
    [
        *(b"", b"{", b"[]", b"null", b"1", b'"x"', b"{}", b"[{}]", b"NaN", b"\xef\xbb\xbf{}", b"\xff\xfe{\x00}\x00"),
        *(b"[" * 2000, b'{"a":' * 700, b'{"jsonrpc":"2.0","id":1e400,"method":"ping"}', b"\x00", b" " * 5_000),
        *(b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}', b'"\\ud800"', b"9" * 4400, b"[1,2"),
    ]
) | st.binary(max_size=30)  # fmt: skip


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """One that is right, with up to four things wrong."""
    method, target, headers, message = draw(st.sampled_from(BASES))
    fields = list(headers.items())
    wrongs = draw(
        st.lists(st.sampled_from(["method", "target", "field", "json", "bytes", "body"]), max_size=4)
    )
    for wrong in wrongs:
        if wrong == "method":
            method = draw(st.sampled_from(METHODS))
        elif wrong == "target":
            target = draw(st.sampled_from(TARGETS))
        elif wrong == "field":
            fields = draw(changed_fields(fields))
        elif wrong == "json":
            message = draw(changed_json(message))
    content = b"" if message is None else json.dumps(message).encode()
    if "bytes" in wrongs:
        at = draw(st.integers(0, len(content)))
        content = draw(
            st.just(content[:at]) | BYTES | BYTES.map(lambda junk: content[:at] + junk + content[at:])
        )
    body: Body = "whole"
    if "body" in wrongs:
        body = draw(st.sampled_from(["chunked", "garbled", "stalled", "cut", "vanished", "unframed"]))
    cuts = sorted(draw(st.lists(st.integers(0, len(content)), max_size=3)))
    parts = [content[start:end] for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True)]
    return Request(method, target, tuple(fields), tuple(parts), body)


@st.composite
def changed_fields(draw: st.DrawFn, fields: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Drop a header, or set or repeat one."""
    name = draw(st.sampled_from(NAMES) | st.sampled_from([name for name, _ in fields] or NAMES))
    value = draw(st.sampled_from(VALUES) | VISIBLE)
    kept = [field for field in fields if field[0] != name]
    return draw(
        st.sampled_from([kept, [*kept, (name, value)], [*fields, (name, value)], [(name, value), *fields]])
    )


@st.composite
def changed_json(draw: st.DrawFn, value: Any) -> Any:
    """Put something else at some place, or take it away."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(value)))
        if draw(st.integers(0, 3)) == 0:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: draw(changed_json(value[key]))}
    if isinstance(value, dict) and draw(st.booleans()):
        return {**value, draw(st.sampled_from(["id", "_meta", "params", "x-mcp-header"])): draw(JUNK)}
    return draw(JUNK | st.just([value]) | st.just([value, value]) | st.just({"params": value}))
