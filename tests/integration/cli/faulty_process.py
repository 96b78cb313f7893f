"""A raw server at a pipe with the faults of its arguments: `faulty_process.py FAULT...`."""

import json
import os
import signal
import subprocess
import sys
import time

FAULTS = set(sys.argv[1:])
REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
TOOL = {"name": "now", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
CAPABILITIES = {
    "tools": {}, "prompts": {}, "resources": {"subscribe": True}, "logging": {}, "completions": {},
}  # fmt: skip
LISTS = {
    "tools/list": ("tools", [{**TOOL, "outputSchema": {"type": "object", "required": ["time"]}}]),
    "resources/list": ("resources", [{"uri": "note://1", "name": "one"}]),
    "resources/templates/list": ("resourceTemplates", []),
    "prompts/list": ("prompts", [{"name": "greet", "arguments": [{"name": "name"}]}]),
}
for fault in FAULTS:
    if fault.startswith("tools="):  # a file with the tools of a server that has nothing else
        LISTS = {method: (key, []) for method, (key, _) in LISTS.items()}
        with open(fault.removeprefix("tools=")) as file:
            LISTS["tools/list"] = ("tools", json.load(file))


class RefusedError(Exception):
    """A request that is answered with an error."""


def answer(method: str, params: dict) -> dict:
    """Return the result of a request."""
    stateless = "io.modelcontextprotocol/protocolVersion" in params.get("_meta", {})
    if method == "initialize" and method not in FAULTS:
        revision = negotiate(params["protocolVersion"])
        info = {"name": "faulty", "version": "1"}
        return {"protocolVersion": revision, "capabilities": capabilities(), "serverInfo": info}
    if method == "server/discover" and "listen-refused" in FAULTS:
        declared = {**capabilities(), "tools": {"listChanged": True}}
        return {"supportedVersions": ["2026-07-28"], "capabilities": declared, "resultType": "complete"}
    if method in FAULTS or (stateless and "listen-refused" not in FAULTS):
        raise RefusedError(-32603 if method in FAULTS else -32601)
    if method in LISTS:
        return listed(method, params.get("cursor"))
    if method == "tools/call":
        return {"content": [], "structuredContent": {} if "output-mismatch" in FAULTS else {"time": 1}}
    if method in {"ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}:
        return {}
    if method == "completion/complete":
        return {"completion": {"values": []}}
    raise RefusedError(-32000 if "unknown-method" in FAULTS else -32601)


def negotiate(requested: str) -> str:
    """Return the revision that is spoken from now on."""
    if "echoed-revision" in FAULTS:
        return requested
    if "unknown-revision" in FAULTS:
        return "1.0"
    if requested not in REVISIONS and "no-common-revision" in FAULTS:
        raise RefusedError(-32602)
    return requested if requested in REVISIONS else REVISIONS[-1]


def capabilities() -> dict:
    """Return what is declared."""
    return {name: each for name, each in CAPABILITIES.items() if f"undeclared-{name}" not in FAULTS}


def listed(method: str, cursor: "str | None") -> dict:
    """Return a page of a list."""
    key, items = LISTS[method]
    if "cursor-loops" in FAULTS and method == "tools/list":
        return {key: items, "nextCursor": "same"}
    if "pages" in FAULTS and method == "tools/list":
        if cursor is None:
            return {key: items, "nextCursor": "2"}
        if cursor != "2" and "cursor-accepted" not in FAULTS:
            raise RefusedError(-32602)
        return {key: items}
    return {key: items}


def write(message: dict) -> None:
    """Write a message."""
    text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii="encoding" in FAULTS)
    if "encoding-windows" in FAULTS:
        print(text, flush=True)
        return
    out = sys.stdout.buffer
    out.write(text.encode() + (b"\r\n" if "crlf" in FAULTS else b"\n"))
    if "buffered-output" not in FAULTS:
        out.flush()


def serve() -> None:
    """Answer until standard input ends."""
    has_begun = False
    for line in sys.stdin if "encoding-windows" in FAULTS else sys.stdin.buffer:
        text = line if isinstance(line, str) else line.decode("latin-1" if "encoding" in FAULTS else "utf-8")
        try:
            message = json.loads(text)
        except ValueError:
            if "malformed-ends" in FAULTS:
                raise
            write({"id": None, "error": {"code": -32700, "message": "no JSON"}})
            continue
        method = message["method"]
        if not has_begun and method != "initialize":
            if "discover-ends" in FAULTS:
                sys.exit("unexpected request before initialize")
            if "discover-silent" in FAULTS:
                continue
            if "client-fails" in FAULTS:
                FAULTS.add("initialize")
        has_begun = True
        if "id" not in message:
            continue
        if "noise" in FAULTS and method == "prompts/list":
            print("listing prompts")
            sys.stdout.flush()
        try:
            write({"id": message["id"], "result": answer(method, message.get("params", {}))})
        except RefusedError as error:
            write({"id": message["id"], "error": {"code": error.args[0], "message": "refused"}})


if "ended-at-start" in FAULTS:
    sys.exit("DATABASE_URL is not set")
if "no-answer" in FAULTS:
    sys.stdin.read()
    sys.exit()
if "byte-order-mark" in FAULTS:
    sys.stdout.buffer.write(b"\xef\xbb\xbf")
if "noise" in FAULTS:
    print("Server is running...", flush=True)
if "sigterm-ignored" in FAULTS:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "orphans" in FAULTS:
    subprocess.Popen(
        ["sleep", "30"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
serve()
while "input-end-ignored" in FAULTS:
    time.sleep(0.1)
os._exit(0) if "buffered-output" not in FAULTS else sys.exit()
