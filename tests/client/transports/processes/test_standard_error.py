"""What a server writes to standard error: where it goes, and what is said of it when the server has ended."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mcpkit.client.link.errors import TransportError
from mcpkit.client.transports.processes.standard_error import Stderr
from mcpkit.client.transports.processes.stdio import StdioTransport
from tests.helpers.child import ECHO, Received, ask, descriptors, script, send
from tests.helpers.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")]

SAY = """
import sys
sys.stderr.reconfigure(encoding="utf-8")
print("  indented", "\\n", "caf\\xe9\\r", file=sys.stderr)
sys.stderr.buffer.write(b"\\xff half")
sys.stderr.flush()
"""

FLOOD = """
import sys, threading
written = 0
def flood():
    global written
    while True:
        written += sys.stderr.write("x" * 79 + "\\n")
threading.Thread(target=flood, daemon=True).start()
"""

SAID = ["  indented ", " caf\xe9", "\ufffd half"]


async def run(code: str, stderr: Stderr = None, grace: float = 2.0) -> TransportError:
    """Run a script to its own end, and return what is said of it."""
    transport, received = StdioTransport(script(code), stderr=stderr, grace=grace), Received()
    await transport.open(received)
    error = await received.end()
    await transport.close()
    assert isinstance(error, TransportError)
    assert error.may_have_begun
    return error


async def test_a_function_is_called_with_each_line() -> None:
    lines: list[str] = []
    await run(SAY, lines.append)
    assert lines == SAID


async def test_a_function_that_fails_is_logged_and_called_again(caplog: pytest.LogCaptureFixture) -> None:
    await run(SAY, lambda line: 1 / 0)
    assert [record.exc_info is not None for record in caplog.records] == [True] * 3


async def test_it_goes_to_what_has_write() -> None:
    stream = io.StringIO()
    await run(SAY, stream)
    assert stream.getvalue() == "".join(f"{line}\n" for line in SAID)


async def test_it_goes_to_an_open_file_after_what_was_written_there(tmp_path: Path) -> None:
    before = descriptors()
    with (tmp_path / "log").open("w") as log:
        log.write("begun\n")
        await run(SAY, log)
    assert (tmp_path / "log").read_bytes() == b"begun\n  indented \n caf\xc3\xa9\n\xff half\n"
    assert descriptors() <= before


async def test_it_goes_to_a_file_that_is_closed_meanwhile(tmp_path: Path) -> None:
    log = (tmp_path / "log").open("w")
    transport, received = StdioTransport(script("input()" + SAY), stderr=log), Received()
    await transport.open(received)
    log.close()
    await send(transport, 1)
    await received.end()
    await transport.close()
    assert "indented" in (tmp_path / "log").read_text(errors="replace")


async def test_it_goes_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    await run(SAY.replace("\\xff half", "whole"))
    assert capfd.readouterr().err == "  indented \n caf\xe9\nwhole\n"


async def test_it_goes_to_what_stands_for_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    await run(SAY)
    assert capsys.readouterr().err == "".join(f"{line}\n" for line in SAID)


async def test_it_goes_to_the_output_of_a_notebook_although_that_has_a_descriptor(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Output(io.TextIOBase):
        text = ""

        def fileno(self) -> int:
            return 2

        def write(self, text: str) -> int:
            self.text += text
            return len(text)

    output = Output()
    monkeypatch.setattr(sys, "stderr", output)
    await run(SAY)
    assert output.text == "".join(f"{line}\n" for line in SAID)
    assert capfd.readouterr().err == ""


async def test_without_a_standard_error_it_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert "café" in str(await run(SAY))


async def test_it_may_be_dropped_and_its_last_words_are_told(capfd: pytest.CaptureFixture[str]) -> None:
    assert str(await run(SAY + "sys.exit(1)", subprocess.DEVNULL)) == (
        f"The server ({Path(sys.executable).name}) has ended with exit code 1;"
        " its last words on standard error:\nindented \n café\n\ufffd half"
    )
    assert capfd.readouterr().err == ""


async def test_a_server_that_has_said_nothing() -> None:
    error = await run("", subprocess.DEVNULL)
    assert str(error).endswith("has ended with exit code 0; it has said nothing on standard error")


async def test_a_server_that_was_killed() -> None:
    error = await run("import os; os.kill(os.getpid(), 9)", subprocess.DEVNULL)
    assert "was ended by SIGKILL; it has said nothing" in str(error)
    number = signal.SIGRTMIN + 1
    error = await run(f"import os; os.kill(os.getpid(), {number})", subprocess.DEVNULL)
    assert f"was ended by signal {number}; it" in str(error)


async def test_a_traceback_is_among_the_last_words() -> None:
    error = await run("import no_such_module", subprocess.DEVNULL)
    assert str(error).endswith("ModuleNotFoundError: No module named 'no_such_module'")


async def test_its_last_words_are_twenty_lines_at_most() -> None:
    error = await run(
        "import sys\nfor n in range(100): print('line', n, file=sys.stderr)", subprocess.DEVNULL
    )
    assert str(error).split("\n")[1:] == [f"line {n}" for n in range(80, 100)]


async def test_its_last_words_are_short_at_most() -> None:
    lines: list[str] = []
    error = await run("import sys; sys.stderr.write('x' * 1_000_000)", lines.append)
    assert str(error).endswith("\n" + "x" * 4096)
    assert "".join(lines) == "x" * 1_000_000
    assert max(map(len, lines)) < 256 * 1024


@pytest.mark.slow
async def test_nobody_who_reads_it_slowly_holds_up_the_loop() -> None:
    """A host that does not read this process's standard error blocks the server there, and nobody else."""
    before = descriptors()
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as log, os.fdopen(reading) as read:
        transport, received = StdioTransport(script(FLOOD + ECHO), stderr=log, grace=0), Received()
        await transport.open(received)
        for n in range(200):
            assert await ask(transport, received, n) == {}
        await transport.close()
        assert read.readline() == "x" * 79 + "\n"
    await until(lambda: descriptors() <= before)  # its end lets a thread end
    await until(lambda: "mcpkit-stdout" not in {thread.name for thread in threading.enumerate()})


async def test_what_is_not_read_does_not_grow() -> None:
    """The bound is that of the pipe, and a megabyte or so in this process."""
    reading, writing = os.pipe()
    code = """
import json
for line in sys.stdin:
    print(json.dumps({"id": json.loads(line)["id"], "result": written}), flush=True)
"""
    with os.fdopen(writing, "w") as log, os.fdopen(reading):
        transport, received = StdioTransport(script(FLOOD + code), stderr=log, grace=0), Received()
        await transport.open(received)
        seen = [-1]

        async def stands_still() -> bool:
            seen.append(await ask(transport, received, len(seen)))
            return seen[-1] == seen[-2] > 0

        while not await stands_still():
            await asyncio.sleep(0.1)
        assert seen[-1] < 8 * 1024 * 1024
        await transport.close()


async def test_lines_of_several_servers_are_not_mixed() -> None:
    lines: list[str] = []
    code = """
import sys
for letter in "abc":
    sys.stderr.write(%r * 40)
    sys.stderr.flush()
sys.stderr.write("\\n")
"""
    await asyncio.gather(*(run(code % letter, lines.append) for letter in "xyz"))
    assert sorted(lines) == ["x" * 120, "y" * 120, "z" * 120]
