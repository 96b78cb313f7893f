"""Serves what `bench/cancellation.py` stops: `python stoppable.py PEER TIMEOUT [FD]`.

TIMEOUT is the seconds that a call may take, or 0 for any number; FD is a listening socket for HTTP, without which
standard input and output are served. Only mcpkit runs functions in processes by itself: for the others `spin` is what
their authors would write, `anyio.to_process.run_sync(..., cancellable=True)` in an async function.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from typing import Any

import stoppable_work as work

from mcpkit import ResultOptions


def mcpkit(timeout: float | None) -> tuple[Callable[[], object], Callable[[], Any]]:
    from mcpkit import Server

    server = Server("bench", timeouts=timeout)
    for function in (work.wait, work.sleep, work.answer):
        server.tool(result=ResultOptions(structured=False))(function)
    server.tool(result=ResultOptions(structured=False), run_in="process")(work.spin)
    return server.run, server.asgi


def mcp(timeout: float | None) -> tuple[Callable[[], object], Callable[[], Any]]:
    import mcp_server

    server = mcp_server.build([work.wait, work.sleep, work.answer, spin_in_process])
    return lambda: server.run("stdio"), lambda: server.streamable_http_app(stateless_http=True)


def fastmcp(timeout: float | None) -> tuple[Callable[[], object], Callable[[], Any]]:
    import fastmcp_server
    from fastmcp import FastMCP

    server = FastMCP("bench")
    for function in (work.wait, work.sleep, work.answer, spin_in_process):
        server.tool(function, output_schema=None, timeout=timeout)
    return lambda: fastmcp_server.run(server), lambda: server.http_app(stateless_http=True)


async def spin_in_process(folder: str, seconds: float) -> str:
    """Keep a processor busy, in a process of anyio's."""
    import anyio.to_process

    return await anyio.to_process.run_sync(work.spin, folder, seconds, cancellable=True)


spin_in_process.__name__ = "spin"


def main() -> None:
    peer, timeout, *descriptor = sys.argv[1:]
    run, asgi = {"mcpkit": mcpkit, "mcp": mcp, "fastmcp": fastmcp}[peer](float(timeout) or None)
    if not descriptor:
        run()
        return
    import uvicorn

    config = uvicorn.Config(asgi(), log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(descriptor[0]))])


if __name__ == "__main__":
    main()
