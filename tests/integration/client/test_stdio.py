"""Servers as child processes over stdio: messages, limits, environment, standard error, and their ends."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Client
from mcpkit.client.stdio.stdio_transport import StdioTransport
from mcpkit.exceptions import OutcomeUnknownError, TransportError
from tests.helpers.processes import CHILD_TIMEOUT, ECHO, Received, ask, is_alive, open_resources, script, send
from tests.helpers.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")]

ROOT = Path(__file__).parents[3]
SERVER = """
import os, sys
from mcpkit import Server

server = Server("child")

@server.tool
async def add(a: int, b: int) -> int:
    return a + b

@server.tool
def die(note: str) -> str:
    with open(note, "a") as file:
        file.write("x")
    print("goodbye", file=sys.stderr, flush=True)
    os._exit(7)

server.run("stdio")
"""


async def test_client_of_process_makes_concurrent_calls_and_restarts_it_after_its_death(tmp_path) -> None:
    before, note = open_resources(), tmp_path / "note"
    transport = StdioTransport(script(SERVER), env={"PYTHONPATH": str(ROOT)}, stderr=lambda line: None)
    async with Client(transport) as client:
        results = await asyncio.gather(*(client.call_tool("add", {"a": n, "b": 0}) for n in range(200)))
        assert [result.text for result in results] == [str(n) for n in range(200)]
        message = "exit code 7; the last lines on standard error:\ngoodbye"
        with pytest.raises(OutcomeUnknownError, match=message):
            await client.call_tool("die", {"note": str(note)})
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
    assert note.read_text() == "x", "the call was repeated"
    assert open_resources() <= before


async def opened(code: str, **options: Any) -> tuple[StdioTransport, Received]:
    transport, received = StdioTransport(script(code), **options), Received()
    await transport.open(received)
    return transport, received


# Answers with its members in the order of the request, and a text of so many bytes.
BIG = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    order, size = message["params"]["order"], message["params"]["size"]
    text = '\\\\"' * (size // 2)
    members = {"jsonrpc": '"2.0"', "id": message["id"], "result": f'{{"id": 9, "text": "{text}"}}'}
    print("{" + ", ".join(f'"{name}": {members[name]}' for name in order.split()) + "}", flush=True)
"""


@pytest.mark.parametrize("order", ["jsonrpc id result", "result jsonrpc id", "jsonrpc result id"])
async def test_stdio_answer_too_long_fails_its_request_only(order: str) -> None:
    transport, received = await opened(BIG, max_answer=100_000)
    for size in (100_000, 300_000, 1_000_000):
        await send(transport, size, order=order, size=size)
        id_, error = await received.next()
        assert id_ == size
        assert isinstance(error, TransportError)
        assert (error.may_have_begun, error.may_pass) == (True, False)
        assert "sent a message of more than 100,000 bytes, the limit" in str(error)
        assert (await ask(transport, received, 1, order=order, size=50_000))["id"] == 9
    await transport.close()
    assert received.error is None


async def test_stdio_large_messages_go_both_ways_in_order() -> None:
    transport, received = await opened(ECHO)
    sizes = [0, 1, 4095, 4096, 4097, 65_535, 65_536, 70_000, 1_000_000, 3_000_000, 10] * 3
    await asyncio.gather(*(send(transport, n, text="é" * (size // 2)) for n, size in enumerate(sizes)))
    for n, size in enumerate(sizes):
        answer = await received.next()
        assert (answer["id"], len(answer["result"]["text"])) == (n, size // 2)
    await transport.close()


async def test_stdio_environment_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "hidden")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("USER", "() { echo a function of the shell; }")
    code = "import json, os\nprint(json.dumps(dict(os.environ)), flush=True)"
    transport, received = await opened(code, env={"API_KEY": "k", "TERM": "dumb"})
    environment = await received.next()
    await transport.close()
    expected = {"PATH": os.environ["PATH"], "HOME": "/home/me", "API_KEY": "k", "TERM": "dumb"}
    assert {name: environment[name] for name in expected} == expected
    assert environment.keys() <= {*expected, "LOGNAME", "SHELL", "LC_CTYPE"}


LOGGING = """
import sys
sys.stderr.reconfigure(encoding="utf-8")
print("  indented", "\\n", "caf\\xe9\\r", file=sys.stderr)
sys.stderr.buffer.write(b"\\xff half")
sys.exit(1)
"""


async def test_stderr_last_lines_are_in_error(capfd: pytest.CaptureFixture[str]) -> None:
    transport, received = await opened(LOGGING, stderr=subprocess.DEVNULL)
    error = await received.end()
    await transport.close()
    assert isinstance(error, TransportError)
    assert error.may_have_begun
    assert str(error) == (
        f"The server ({Path(sys.executable).name}) ended with exit code 1;"
        " the last lines on standard error:\nindented \n café\n\ufffd half"
    )
    assert capfd.readouterr().err == ""


STUBBORN = "import signal, sys\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
SEND_PID = 'import json, os\nprint(json.dumps({"pid": os.getpid()}), flush=True)\n'
SLEEP = "import time\ntime.sleep(3600)\n"


async def test_close_ends_server_by_its_input(tmp_path: Path) -> None:
    note = tmp_path / "note"
    code = f"{SEND_PID}{ECHO}\nopen({str(note)!r}, 'w').write('in order')"
    transport, received = await opened(code, grace=3600)
    pid = (await received.next())["pid"]
    await transport.close()
    assert not is_alive(pid)
    assert note.read_text() == "in order"
    assert received.error is None


async def test_close_kills_server_ignoring_sigterm() -> None:
    transport, received = await opened(STUBBORN + SEND_PID + SLEEP, grace=0.1)
    pid = (await received.next())["pid"]
    await transport.close()
    assert not is_alive(pid)


async def test_close_terminates_grandchildren_before_killing(tmp_path: Path) -> None:
    note = tmp_path / "note"
    inner = f"""
import signal, sys, time

def end(number, frame):
    open({str(note)!r}, "w").write("terminated")
    sys.exit()

signal.signal(signal.SIGTERM, end)
{SEND_PID}{SLEEP}"""
    code = f"import subprocess, sys\ninner = subprocess.Popen([sys.executable, '-c', {inner!r}])\n{ECHO}"
    transport, received = await opened(code, grace=20)
    pid = (await received.next())["pid"]
    await transport.close()
    assert note.read_text() == "terminated"
    await until(lambda: not is_alive(pid))


# A process with a client of a server, which prints the server's pid and does not close it.
CLIENT = """
import asyncio, json, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # it is ignored where the tests run without a terminal
from mcpkit.client.stdio.stdio_transport import StdioTransport

is_started = asyncio.Event()

class Receiver:
    def receive(self, line):
        print(json.loads(line)["pid"], flush=True)
        is_started.set()
    def is_pending(self, id_):
        return False
    def connection_lost(self, error):
        pass

async def main():
    await StdioTransport([sys.executable, "-c", sys.argv[1]], grace=0.1).open(Receiver())
    await is_started.wait()
    await asyncio.sleep(float(sys.argv[2]))

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [None, signal.SIGKILL, signal.SIGHUP])
async def test_server_ends_with_client_that_did_not_close_it(number: signal.Signals | None) -> None:
    command = [*script(CLIENT), STUBBORN + SEND_PID + SLEEP, "0" if number is None else "3600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        if number is not None:
            process.send_signal(number)
        assert process.wait(CHILD_TIMEOUT) == (0 if number is None else -number)
    await until(lambda: not is_alive(pid))
