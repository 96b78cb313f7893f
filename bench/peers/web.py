"""Serves one of the peers over HTTP: `python web.py MODULE MODE FD`, each under the same uvicorn.

FD is a listening socket. MODE is what the module's `asgi(server, mode)` is asked for; for "brief" and "streams" the
app is wrapped, so that GET /observe returns counts of the process. Load is measured without that wrapper.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import socket
import sys
import threading
import tracemalloc
from typing import Any

import uvicorn
import workload


def observed(app: Any) -> Any:
    """Return `app`, with two more paths: counts of this process, and "let the blocked functions go"."""

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/observe":
            await answer(send, counts())
        elif scope["type"] == "http" and scope["path"] == "/let-go":
            workload.LET_GO.set()
            await answer(send, {})
        else:
            await app(scope, receive, send)

    return wrapped


def counts() -> dict[str, float]:
    gc.collect()
    return {
        "tasks": len(asyncio.all_tasks()) - 1,  # without the one that asks
        "threads": threading.active_count(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "objects": len(gc.get_objects()),
        "blocks": sys.getallocatedblocks(),
        "traced": tracemalloc.get_traced_memory()[0],
    }


async def answer(send: Any, value: dict[str, float]) -> None:
    body = json.dumps(value).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def main() -> None:
    name, mode, descriptor = sys.argv[1:]
    peer = importlib.import_module(name)
    app = peer.asgi(peer.build([workload.add, workload.add_sync]), mode)
    config = uvicorn.Config(
        observed(app) if mode in {"brief", "streams"} else app,
        http="httptools",
        loop="uvloop",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=600,
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(descriptor))])


if __name__ == "__main__":
    main()
