"""Uses clients and servers where they do not belong, each time in a process of its own; prints what became of it.

Each line is a JSON array: the situation, the target, the operation, and the outcome: a result, an error, or "hangs".
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from mcpkit import Client, Server, SyncClient
from mcpkit.testing import connect
from mcpkit.transports.stdio import serve_stdio

PATIENCE = 20

server = Server("elsewhere")


@server.tool(annotations={"readOnlyHint": True})
def hi() -> str:
    return "hi"


@server.tool(process=True)
def in_process() -> str:
    return "hi"


@server.tool
def fork_and_serve() -> str:
    """What a forked child says that serves by the streams of its parent."""
    return in_fork(lambda: server.run())


Operation = Callable[[Client], Awaitable[Any]]


OPERATIONS: dict[str, Operation] = {
    "call": lambda client: client.call("hi"),
    "enter": lambda client: client.__aenter__(),
    "exit": lambda client: client.__aexit__(None, None, None),
    "close": lambda client: client.close(),
    "watch": lambda client: client.watch(tools=True).__aenter__(),
    "list_tools": lambda client: client.list_tools(),
    "tools": lambda client: client.tools(),
    "request": lambda client: client.request("tools/list"),
    "notify": lambda client: client.notify("notifications/other"),
    "read": lambda client: client.read("x://y"),
    "complete": lambda client: client.complete("x", "y", ""),
}
FEW = ("call", "exit", "close", "watch")
SYNC: dict[str, Callable[[SyncClient], Any]] = {
    "call": lambda client: client.call("hi"),
    "enter": lambda client: client.__enter__(),
    "exit": lambda client: client.__exit__(None, None, None),
    "close": lambda client: client.close(),
    "watch": lambda client: client.watch(tools=True).__enter__(),
    "wait_for": lambda client: client.wait_for(asyncio.get_running_loop),
}


def in_fork(function: Callable[[], Any]) -> str:
    """Call a function in a forked child, and return what became of it."""
    sys.stdout.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(PATIENCE)
        try:
            outcome = f"returns {type(function()).__name__}"
        except BaseException as error:
            outcome = f"{type(error).__name__}: {error}"
        os.write(writing, outcome.encode())
        os._exit(0)
    os.close(writing)
    outcome = b""
    while piece := os.read(reading, 4096):
        outcome += piece
    os.close(reading)
    _, status = os.waitpid(child, 0)
    return "hangs" if status else outcome.decode()


async def _do(operation: Operation, client: Client) -> Any:
    return await operation(client)


def forked(target: Any, operation: Operation) -> Any:
    """In a forked child, in an event loop of its own."""

    async def main() -> str:
        async with Client(target) as client:
            await client.call("hi")

            def use() -> Any:
                asyncio._set_running_loop(None)
                return asyncio.run(_do(operation, client))

            outcome = in_fork(use)
            await client.call("hi")  # the parent's goes on
        return outcome

    return asyncio.run(main())


def forked_in_loop(target: Any, operation: Operation) -> Any:
    """In a child that was forked in a running event loop, and goes on there."""

    async def main() -> str:
        async with Client(target) as client:
            await client.call("hi")

            def use() -> Any:
                awaiting = _do(operation, client)
                try:
                    awaiting.send(None)
                except StopIteration as error:
                    return error.value
                raise AssertionError("it waits")

            outcome = in_fork(use)
            await client.call("hi")
        return outcome

    return asyncio.run(main())


def other_loop(target: Any, operation: Operation) -> Any:
    """In the event loop of another thread than that in which it is open."""
    client, opened, over = Client(target), threading.Event(), threading.Event()

    async def hold() -> None:
        async with client:
            opened.set()
            while not over.is_set():
                await asyncio.sleep(0.005)
            await client.call("hi")

    def use() -> Any:
        thread = threading.Thread(target=asyncio.run, args=(hold(),))
        thread.start()
        opened.wait()
        try:
            return asyncio.run(_do(operation, client))
        finally:
            over.set()
            thread.join()

    return in_fork(use)


def closed_loop(target: Any, operation: Operation) -> Any:
    """In an event loop after the one in which it was opened, and not closed."""

    def use() -> Any:
        client = Client(target)
        asyncio.run(client.__aenter__())
        return asyncio.run(_do(operation, client))

    return in_fork(use)


def abandoned_loop(target: Any, operation: Operation) -> Any:
    """The same, where the first loop has not even been run to its end."""

    def use() -> Any:
        client, loop = Client(target), asyncio.new_event_loop()
        loop.run_until_complete(client.__aenter__())
        loop.close()
        return asyncio.run(_do(operation, client))

    return in_fork(use)


def closed(target: Any, operation: Operation) -> Any:
    """After it was closed."""

    async def main() -> Any:
        client = Client(target)
        async with client:
            pass
        return await operation(client)

    return in_fork(lambda: asyncio.run(main()))


def sync_forked(target: Any, operation: Callable[[SyncClient], Any]) -> Any:
    """A SyncClient in a forked child, where its thread is not."""
    with SyncClient(target) as client:
        client.call("hi")
        outcome = in_fork(lambda: operation(client))
        client.call("hi")
    return outcome


def new_in_fork(target: Any) -> Any:
    """A new client in a forked child, of a server that has used its threads before."""
    tools = ("hi", "in_process") if target is server else ("hi",)
    with SyncClient(target) as client:
        for tool in tools:
            client.call(tool)

        def use() -> Any:
            with SyncClient(target) as another:
                assert [another.call(tool).text for tool in tools] == ["hi"] * len(tools)

        return in_fork(use)


def in_loop(function: Callable[[], Any]) -> str:
    """Call what waits in a running event loop."""

    async def main() -> None:
        function()

    return in_fork(lambda: asyncio.run(main()))


def in_trio(function: Callable[..., Any], *arguments: Any) -> str:
    import trio

    return in_fork(lambda: trio.run(function, *arguments))


async def _entered(make: Callable[[Any], Any], target: Any) -> None:
    async with make(target) as client:
        await client.call("hi")


async def _blocking(function: Callable[[], Any]) -> None:
    function()


async def _in_thread() -> str:
    import trio

    def work() -> str:
        with SyncClient(server) as client:
            return str(client.call("hi").text)

    return await trio.to_thread.run_sync(work)


async def _asgi(kind: str) -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup" if kind == "lifespan" else "http.request", "body": b"{}"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"].endswith("failed"):
            raise RuntimeError(message["message"])

    scope = {
        "type": kind,
        "method": "POST",
        "path": "/mcp",
        "headers": [(b"host", b"localhost")],
        "query_string": b"",
    }
    await server.asgi()(scope, receive, send)


def tell(situation: str, target: str, operation: str, outcome: str) -> None:
    print(json.dumps([situation, target, operation, outcome]), flush=True)


def main(script: str) -> None:
    port = socket.socket()
    port.bind(("127.0.0.1", 0))
    number = port.getsockname()[1]
    port.close()
    remote = subprocess.Popen(
        [sys.executable, script, "http", str(number)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert remote.stderr is not None
    while b"MCP is served at" not in remote.stderr.readline():
        pass
    targets = {"memory": server, "http": f"http://127.0.0.1:{number}/mcp", "stdio": [sys.executable, script]}
    try:
        use_everywhere(targets)
    finally:
        remote.kill()
        remote.wait()


def use_everywhere(targets: dict[str, Any]) -> None:
    for situation in (forked, forked_in_loop, other_loop, closed_loop, abandoned_loop, closed):
        for name, target in targets.items():
            for operation in OPERATIONS if name == "memory" else FEW:
                if name != "stdio" or operation in {"call", "close"}:
                    tell(situation.__name__, name, operation, situation(target, OPERATIONS[operation]))
    for name, target in targets.items():
        for operation, use in SYNC.items():
            if name != "stdio" or operation in {"call", "exit"}:
                tell("sync_forked", name, operation, sync_forked(target, use))
        tell("new_in_fork", name, "call", new_in_fork(target))
    for transport in ("stdio", "http", "sse"):
        tell("in_loop", transport, "run", in_loop(lambda transport=transport: server.run(transport)))
    tell("in_loop", "memory", "SyncClient", in_loop(lambda: SyncClient(server).__enter__()))
    with SyncClient(targets["stdio"]) as client:
        tell("served_by_parent", "stdio", "run", client.call("fork_and_serve").text)
    try:
        import trio  # noqa: F401
    except ModuleNotFoundError:
        return
    tell("trio", "memory", "Client", in_trio(_entered, Client, server))
    tell("trio", "stdio", "Client", in_trio(_entered, Client, targets["stdio"]))
    tell("trio", "http", "Client", in_trio(_entered, Client, targets["http"]))
    tell("trio", "memory", "connect", in_trio(_entered, connect, server))
    tell("trio", "memory", "several", in_trio(_entered, Client, {"mcpServers": {"a": server, "b": server}}))
    tell("trio", "memory", "SyncClient", in_trio(_blocking, lambda: SyncClient(server).__enter__()))
    tell("trio", "stdio", "run", in_trio(_blocking, server.run))
    tell("trio", "http", "run", in_trio(_blocking, lambda: server.run("http")))
    tell("trio", "stdio", "serve_stdio", in_trio(serve_stdio, server))
    tell("trio", "asgi", "lifespan", in_trio(_asgi, "lifespan"))
    tell("trio", "asgi", "http", in_trio(_asgi, "http"))
    tell("trio_thread", "memory", "SyncClient", in_trio(_in_thread))


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        server.run("http", port=int(sys.argv[2]))
    elif sys.argv[1:2] == ["use"]:
        main(__file__)
    else:
        server.run()
