"""Clients in other event loops, forked processes, trio and interrupted threads: each fails at once with a reason."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork"), pytest.mark.slow]

PROGRAM = """
import asyncio, json, os, signal, sys, threading
from importlib.util import find_spec
from mcpkit import Client, Server, SyncClient

server = Server("elsewhere")

@server.tool
def hi() -> str:
    return "hi"

OPERATIONS = {
    "call": lambda client: client.call_tool("hi"),
    "enter": lambda client: client.__aenter__(),
    "exit": lambda client: client.__aexit__(None, None, None),
    "close": lambda client: client.close(),
    "watch": lambda client: client.listen(tools_list_changed=True).__aenter__(),
    "notify": lambda client: client.notify("notifications/other"),
}

async def do(operation, client):
    return await operation(client)

def in_fork(function):
    reading, writing = os.pipe()
    if os.fork() == 0:
        signal.alarm(20)
        try:
            outcome = f"returns {type(function()).__name__}"
        except BaseException as error:
            outcome = f"{type(error).__name__}: {error}"
        os.write(writing, outcome.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        return file.read() or "hangs"

def forked(operation):
    async def main():
        async with Client(server) as client:
            await client.call_tool("hi")
            def use():
                asyncio._set_running_loop(None)
                return asyncio.run(do(operation, client))
            outcome = in_fork(use)
            await client.call_tool("hi")  # the parent's client still works
        return outcome
    return asyncio.run(main())

def other_loop(operation):
    client, is_open, is_over = Client(server), threading.Event(), threading.Event()
    async def stay_open():
        async with client:
            is_open.set()
            await asyncio.to_thread(is_over.wait)
    def use():
        thread = threading.Thread(target=asyncio.run, args=(stay_open(),))
        thread.start()
        is_open.wait()
        try:
            return asyncio.run(do(operation, client))
        finally:
            is_over.set()
            thread.join()
    return in_fork(use)

def closed_loop(operation):
    def use():
        client = Client(server)
        asyncio.run(client.__aenter__())
        return asyncio.run(do(operation, client))
    return in_fork(use)

def report(situation, name, outcome):
    print(json.dumps([situation, name, outcome]), flush=True)

def in_loop(function):
    async def main():
        function()
    return in_fork(lambda: asyncio.run(main()))

for situation in (forked, other_loop, closed_loop):
    for name, operation in OPERATIONS.items():
        report(situation.__name__, name, situation(operation))
report("in_loop", "run", in_loop(server.run))
report("in_loop", "SyncClient", in_loop(SyncClient(server).__enter__))
if find_spec("trio"):
    import trio
    report("trio", "enter", in_fork(lambda: trio.run(do, OPERATIONS["enter"], Client(server))))
"""

REASONS = {
    "forked": "was opened by the parent process before a fork",
    "other_loop": "the client is open in another event loop",
    "closed_loop": "was opened in an event loop that is closed by now. Create another one",
    "in_loop": "an event loop is running in this thread",
    "trio": "a trio loop",
}


def test_client_in_wrong_loop_or_process_fails_with_reason() -> None:
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    result = subprocess.run(command, capture_output=True, text=True, timeout=170)
    assert result.returncode == 0, result.stderr[-3000:]
    outcomes = [json.loads(line) for line in result.stdout.splitlines()]
    assert {situation for situation, *_ in outcomes} >= REASONS.keys() - {"trio"}
    faults = []
    for situation, operation, outcome in outcomes:
        can_be_left = operation in {"exit", "close"} and situation != "other_loop"
        if ("returns NoneType" if can_be_left else REASONS[situation]) not in outcome:
            faults.append(f"{situation} {operation}: {outcome}")
    assert not faults, "\n".join(faults)


INTERRUPTED = """
import asyncio, os, signal, threading
from mcpkit import Server, SyncClient
server = Server("bakery")

@server.tool
async def bake() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    try:
        await asyncio.Event().wait()
    finally:
        print("cancelled", flush=True)

try:
    with SyncClient(server) as client:
        client.call_tool("bake")
except KeyboardInterrupt:
    print("interrupted", threading.active_count())
"""


def test_sync_client_interrupted_cancels_call() -> None:
    command = [sys.executable, "-W", "error", "-c", INTERRUPTED]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.split("\n")[:2] == ["cancelled", "interrupted 1"]
    assert result.stderr == ""
