import asyncio
import json
import sys
from pathlib import Path
from types import FrameType

import mcpkit
from mcpkit import Server
from mcpkit.requests.request_record import Call
from mcpkit.transports import Connection


def print_frames() -> None:
    """Print the frames of the package on the stack, from the outside in."""
    package = Path(mcpkit.__file__).parent
    frame: FrameType | None = sys._getframe()  # noqa: SLF001
    names = []
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(package):
            names.append(
                f"{file.relative_to(package).as_posix()} {frame.f_code.co_name}"
            )
        frame = frame.f_back
    names.reverse()
    # The call's task, which Python 3.12 starts on the same stack.
    if "requests/running_requests.py _run" in names:
        names = names[names.index("requests/running_requests.py _run") :]
    print(*names, sep="\n")


server = Server("traced")
answer = server.engine.methods.dispatch


def traced(call: Call):
    """Print how a request comes to the method table."""
    print_frames()
    return answer(call)


server.engine.set_handler(traced)


@server.tool
async def look() -> None:
    """Print how a call comes to its function."""
    print_frames()


meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
call = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "look", "_meta": meta},
}


async def main() -> None:
    connection = Connection(server, lambda answer: None)
    connection.receive(json.dumps(call).encode())
    await connection.drain()
    await connection.aclose()


asyncio.run(main())
