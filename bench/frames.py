"""A stdio server that prints on stderr how many frames of its framework a call passes before it reaches the tool.

A frame counts when it is on the stack as the tool is entered, or was on the stack as work for this call was
handed to another task or thread: the call went through it too. The way begins with the frame that has the
message decoded. Frames of asyncio and anyio do not count, those of `mcp` below fastmcp do.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "peers"))

import workload

PACKAGES = ("mcpkit", "mcp", "mcp_types", "fastmcp", "chuk_mcp_server")
# Every way from one task or thread to another passes one of these.
HANDOVERS = {
    "call_soon",
    "call_soon_threadsafe",
    "create_task",
    "put",
    "put_nowait",
    "release",
    "notify",
    "submit",
}
DECODERS = {"from_json", "validate_json", "loads"}
QUIET = 0.2  # seconds without a handover, which separate one call from the next

Way = list[FrameType]
moments: list[tuple[float, str, Way]] = []


def is_of_package(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] in PACKAGES


def way_to(frame: FrameType | None) -> Way:
    """Return the frames of the packages from `frame` down to the event loop or the thread's start."""
    way = []
    while frame is not None and frame.f_code.co_name not in {"_run_once", "_bootstrap_inner"}:
        if is_of_package(frame):
            way.append(frame)
        frame = frame.f_back
    return way


def profile(frame: FrameType, event: str, arg: Any) -> None:
    if event == "c_call":
        name = getattr(arg, "__name__", "")
    elif event == "call" and not is_of_package(frame):
        name = frame.f_code.co_name
    else:
        return
    if name in HANDOVERS or name in DECODERS:
        moments.append((time.monotonic(), name, way_to(frame)))


def print_frames() -> None:
    """Print the frames that the call went through, and forget them."""
    entered = time.monotonic()
    ways = [way_to(sys._getframe(1))]
    decoding: Way = []
    for moment, name, way in reversed(moments):
        if entered - moment > QUIET:
            break
        entered = moment
        if name in HANDOVERS:
            ways.append(way)
        else:
            decoding = way  # in the end the first of this call
    moments.clear()
    passed = {id(frame): frame for way in ways for frame in way}
    # Of those that were there before the message was decoded, only the one that had it decoded counts.
    for frame in [frame for frame in decoding if id(frame) in passed][1:]:
        del passed[id(frame)]
    names = [f"{frame.f_globals['__name__']}.{frame.f_code.co_name}" for frame in passed.values()]
    print(json.dumps({"frames": len(names), "names": names}), file=sys.stderr, flush=True)


def with_frames(function: Any) -> Any:
    """Return `function`, which then prints the frames of each call."""

    @functools.wraps(function)
    async def of_coroutine(**arguments: Any) -> Any:
        print_frames()
        return await function(**arguments)

    @functools.wraps(function)
    def of_function(**arguments: Any) -> Any:
        print_frames()
        return function(**arguments)

    return of_coroutine if inspect.iscoroutinefunction(function) else of_function


if __name__ == "__main__":
    peer = importlib.import_module(sys.argv[1])
    server = peer.build([with_frames(workload.add), with_frames(workload.add_sync)])
    threading.setprofile(profile)
    sys.setprofile(profile)
    peer.run(server)
