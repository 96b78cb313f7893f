"""A server in a process of its own that dies when it is told to, and notes in a file what it has done.

python tests/helpers/chaos/server.py FOLDER          over pipes
python tests/helpers/chaos/server.py FOLDER PORT     over HTTP on a port of this machine

The folder takes the notes, which outlive the process: `done` has the key of each call that was done, a line each, and
`pid` the number of the process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Literal

from mcpkit import Context, Server

FOLDER = Path(sys.argv[1])
Death = Literal["", "before", "in the stream", "after", "having answered"]

server = Server("chaos", version="1", secret="a secret that outlives the process")


def end() -> None:
    """Be killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def may_die(key: str, death: Death, times: int) -> bool:
    """Say whether a call has its death still before it: it has so many, whichever process it comes to."""
    for number in range(times if death else 0):
        try:
            (FOLDER / f"{key} died {number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return True
    return False


def note(key: str) -> None:
    """Note that something was done."""
    descriptor = os.open(FOLDER / "done", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, key.encode() + b"\n")
    os.close(descriptor)


async def work(ctx: Context, key: str, death: Death, times: int) -> str:
    """Do something, and die at some point of it."""
    dies = may_die(key, death, times)
    if dies and death == "before":
        end()
    await ctx.progress(1)
    if dies and death == "in the stream":
        await asyncio.sleep(0.01)
        end()
    note(key)
    if dies and death == "after":
        end()
    if dies:
        asyncio.get_running_loop().call_later(0.005, end)
    return key


@server.tool
async def bake(ctx: Context, key: str, death: Death = "", times: int = 1) -> str:
    """Do it."""
    return await work(ctx, key, death, times)


@server.tool(annotations={"readOnlyHint": True})
async def taste(ctx: Context, key: str, death: Death = "", times: int = 1) -> str:
    """Do it again and again."""
    return await work(ctx, key, death, times)


@server.tool(annotations={"idempotentHint": True})
async def clean(ctx: Context, key: str, death: Death = "", times: int = 1) -> str:
    """Do it again and again."""
    return await work(ctx, key, death, times)


@server.tool
async def ask(ctx: Context, key: str, death: Death = "", times: int = 1) -> str:
    """Do it once somebody has said so, where he can be asked."""
    if ctx.revision not in {"2024-11-05", "2025-03-26"}:
        await ctx.elicit("Bake it?", bool)
    return await work(ctx, key, death, times)


@server.resource("chaos://x")
async def text() -> str:
    """Something to read."""
    return "x"


@server.prompt
async def x() -> str:
    """Something to say."""
    return "x"


def main() -> None:
    """Serve."""
    (FOLDER / "pid.new").write_text(str(os.getpid()))
    (FOLDER / "pid.new").rename(FOLDER / "pid")
    if len(sys.argv) == 2:
        server.run("stdio")
        return
    import uvicorn

    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("127.0.0.1", int(sys.argv[2])))
    config = uvicorn.Config(server.asgi(), log_level="critical", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
