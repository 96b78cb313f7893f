"""Measures what clients leave behind: sessions opened and abandoned, and connections killed in mid-call."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Sequence

import workload
from client import CLIENT_INFO, HANDSHAKE, line
from contenders import Contender
from web_client import WebServer, stateless, stateless_headers

SESSIONS = 10_000
KILLED = 1000
KILLED_IN_THREADS = 40
RESET = struct.pack(
    "ii", 1, 0
)  # SO_LINGER: close with a RST, as the kernel does for a process that was killed

Row = tuple[str, dict[str, float]]


def abandoned(contender: Contender, *, traced: bool, sessions: int) -> list[Row]:
    """Open sessions, leave them, and read what the server holds until they have expired; twice."""
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT_INFO}
    initialize = line({"id": 1, "method": "initialize", "params": params})
    rows: list[Row] = []
    with WebServer(contender, "brief", {"PYTHONTRACEMALLOC": "1"} if traced else None) as server:
        server.handshake()
        server.observe()
        rows.append(("before", server.observe()))
        for wave in (1, 2):
            for _ in range(sessions):
                assert server.post(initialize, {}).status == 200
            opened = time.monotonic()
            rows.append((f"{sessions:,} opened, wave {wave}", server.observe()))
            for share in (0.5, 1.0, 1.6):
                time.sleep(max(0.0, opened + share * workload.BRIEF - time.monotonic()))
                rows.append((f"{share * workload.BRIEF:.0f} s later", server.observe()))
    return rows


def killed(contender: Contender, *, clients: int) -> list[Row]:
    """Kill clients in the middle of an async call each, then some in that of a function in a thread."""
    rows: list[Row] = []
    with WebServer(contender, "streams") as server:
        before = server.observe()
        reset(begin(server, "wait_for_hours", 1))
        settle(server, lambda counts: counts["tasks"] <= before["tasks"])
        before = server.observe()
        rows.append(("before", before))
        connections = begin(server, "wait_for_hours", clients)

        def all_running(counts: dict[str, float]) -> bool:
            return counts["tasks"] >= clients and counts["descriptors"] >= before["descriptors"] + clients

        rows.append((f"{clients:,} calls run", settle(server, all_running)))
        reset(connections)
        rows.append(("clients killed", settle(server, lambda counts: counts["tasks"] <= before["tasks"])))
        connections = begin(server, "block", KILLED_IN_THREADS)
        busy = before["threads"] + KILLED_IN_THREADS
        rows.append(
            (f"{KILLED_IN_THREADS} in threads", settle(server, lambda counts: counts["threads"] >= busy))
        )
        reset(connections)
        rows.append(("clients killed", settle(server, lambda counts: counts["tasks"] <= before["tasks"])))
        server.ask(server.head(0, {}, "GET", "/let-go"))
        ended = settle(server, lambda counts: counts["tasks"] <= before["tasks"])
        rows.append(("functions ended", ended))
    return rows


def begin(server: WebServer, tool: str, count: int) -> list[socket.socket]:
    body = stateless("tools/call", {"name": tool, "arguments": {}})
    request = server.head(len(body), stateless_headers("tools/call", tool)) + body
    connections = [server.connect() for _ in range(count)]
    for connection in connections:
        connection.sendall(request)
    return connections


def reset(connections: Sequence[socket.socket]) -> None:
    for connection in connections:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        connection.close()


def settle(server: WebServer, is_there: Callable[[dict[str, float]], bool]) -> dict[str, float]:
    """Return what the server holds once it has got there, or when it has had ten seconds."""
    end = time.monotonic() + 10
    counts = server.observe()
    while not is_there(counts) and time.monotonic() < end:
        time.sleep(0.05)
        counts = server.observe()
    return counts


def endurance_table(title: str, rows: Sequence[Row]) -> str:
    """Return one contender's rows as a markdown table."""
    columns = ["resident", "traced", "objects", "blocks", "tasks", "threads", "descriptors"]
    if not any(counts["traced"] for _, counts in rows):
        columns.remove("traced")
    lines = [[title, *(f"{each} (MB)" if each in {"resident", "traced"} else each for each in columns)]]
    lines.append(["---"] * len(lines[0]))
    for moment, counts in rows:
        cells = [
            f"{counts[each] / 1e6:.1f}" if each in {"resident", "traced"} else f"{counts[each]:,.0f}"
            for each in columns
        ]
        lines.append([moment, *cells])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def plain_rows(rows: Sequence[Row]) -> list[dict[str, object]]:
    return [{"moment": moment, **counts} for moment, counts in rows]
