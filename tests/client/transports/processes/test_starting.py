"""How a server is started: its environment, its folder, and what is said when it does not start."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpkit.client.link.errors import TransportError
from mcpkit.client.transports.processes.stdio import StdioTransport, _name
from tests.helpers.child import ECHO, Received, ask, descriptors, held, script

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")]

TELL_PLACE = """
import json, os
print(json.dumps({"environment": dict(os.environ), "cwd": os.getcwd()}), flush=True)
"""


async def told(**options: Any) -> Any:
    transport, received = StdioTransport(script(TELL_PLACE), **options), Received()
    await transport.open(received)
    try:
        return await received.next()
    finally:
        await transport.close()


async def test_it_inherits_what_it_needs_and_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "hidden")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("USER", "() { echo a function of the shell; }")
    environment = (await told(env={"API_KEY": "k", "TERM": "dumb"}))["environment"]
    assert environment["PATH"] == os.environ["PATH"]
    assert environment["HOME"] == "/home/me"
    assert environment["API_KEY"] == "k"
    assert environment["TERM"] == "dumb"
    assert environment.keys() <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "API_KEY", "LC_CTYPE"}


async def test_it_runs_in_the_folder_that_is_given(tmp_path: Path) -> None:
    assert (await told(cwd=tmp_path))["cwd"] == str(tmp_path)
    assert (await told())["cwd"] == os.getcwd()


def executable(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


async def refused(command: list[str], **options: Any) -> str:
    before = held()
    with pytest.raises(TransportError) as raised:
        await StdioTransport(command, **options).open(Received())
    assert not raised.value.may_have_begun
    assert not raised.value.may_pass
    assert isinstance(raised.value.__cause__, OSError)
    assert held() <= before
    return str(raised.value)


async def test_a_command_that_is_not_found() -> None:
    assert await refused(["no-such-command", "--port"], env={"PATH": "/bin"}) == (
        "The server cannot be started: 'no-such-command': it is not on PATH (/bin); install it, give its full"
        " path, or set PATH in env"
    )
    assert "it is not on PATH (which is empty)" in await refused(["no-such-command"], env={"PATH": ""})


async def test_a_file_that_does_not_exist(tmp_path: Path) -> None:
    assert "there is no such file" in await refused(["./server"], cwd=tmp_path)
    assert "there is no such file" in await refused([str(tmp_path / "server")])


async def test_a_file_that_may_not_be_executed(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("print()")
    message = await refused(["./server.py"], cwd=tmp_path)
    assert message == (
        "The server cannot be started: './server.py': it may not be executed; make it executable, or put the program"
        " that runs it before it"
    )


async def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    server = executable(tmp_path / "server.py", "print()")
    assert "it is no program; put the program that runs it before it, such as python" in await refused(
        [server]
    )


async def test_a_script_whose_interpreter_is_missing(tmp_path: Path) -> None:
    server = executable(tmp_path / "server.py", "#!/no/such/python\nprint()")
    assert "its first line names a program that does not exist" in await refused([server])


async def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    expected = f"The server cannot be started in cwd={str(missing)!r}: No such file or directory"
    assert await refused(script(ECHO), cwd=missing) == expected
    assert await refused(script(ECHO), cwd=str(missing)) == expected


@pytest.mark.slow
async def test_without_room_for_its_pipes_it_may_be_tried_again() -> None:
    transport, received = StdioTransport(script(ECHO)), Received()
    before, (soft, hard) = descriptors(), resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(each.split()[0]) for each in before)
    spare = [os.dup(0) for _ in range(highest + 1 - len(before))]  # the numbers in between
    refusals: list[TransportError] = []
    try:
        for room in range(12):
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + room, hard))
            try:
                await transport.open(received)
            except TransportError as error:
                refusals.append(error)
            else:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                assert await ask(transport, received, 1) == {}
                await transport.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in spare:
            os.close(descriptor)
    assert descriptors() <= before
    assert 6 <= len(refusals) < 12
    assert all(error.may_pass and not error.may_have_begun for error in refusals)


@pytest.mark.parametrize(
    ("command", "options", "error", "words"),
    [
        ("python server.py", {}, TypeError, "sequence of strings"),
        ([Path("server.py")], {}, TypeError, "sequence of strings"),
        ([], {}, ValueError, "name the program"),
        (["python\0"], {}, ValueError, "null"),
        (["python"], {"max_answer": 0}, ValueError, "max_answer"),
        (["python"], {"max_answer": "1"}, TypeError, "max_answer"),
        (["python"], {"grace": -1}, ValueError, "grace"),
        (["python"], {"stderr": 1}, ValueError, "stderr"),
        (["python"], {"stderr": "log.txt"}, TypeError, "stderr"),
        (["python"], {"env": {"A": 1}}, TypeError, "env"),
        (["python"], {"env": {"A": "\0"}}, ValueError, "null"),
        (["python"], {"env": {"A=B": ""}}, ValueError, "env"),
    ],
)
async def test_what_cannot_be_meant_is_refused(
    command: Any, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        StdioTransport(command, **options)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/usr/bin/python3.12", "-u", "/srv/server.py", "--token", "secret"], "python3.12 server.py"),
        (["python", "-m", "weather", "secret"], "python weather"),
        (["npx", "-y", "@modelcontextprotocol/server-memory"], "npx server-memory"),
        (["uv", "run", "server.py"], "uv server.py"),
        (["uv", "--token", "secret"], "uv"),
        (["node"], "node"),
        (["/opt/my-server", "secret"], "my-server"),
        (["docker", "run", "-e", "TOKEN=secret", "image"], "docker"),
    ],
)
def test_a_server_is_named_without_its_secrets(command: list[str], name: str) -> None:
    assert _name(command) == name
