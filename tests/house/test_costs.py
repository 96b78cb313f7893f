"""The cost of a start and of a call: what is imported, and how many frames a call has."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import mcpkit
from mcpkit import Access, Ask, LogHandler, Server, TaskOptions, resource_dir
from mcpkit.components.injection.plan import Injection
from mcpkit.content.uri_template import UriTemplate
from mcpkit.elicitation import ElicitRequest, Root, SamplingRequest
from mcpkit.engine.chain import through
from mcpkit.engine.connection import Connection
from mcpkit.extensions import BaseTool, SubscriptionTopic
from mcpkit.types import json_type

PACKAGE = str(Path(mcpkit.__file__).parent)
LIMIT = 10

frames_server = Server("frames")
stacks: list[list[str]] = []


def package_frames(frame: FrameType | None) -> list[str]:
    """Name the package's frames on a stack, innermost first."""
    names = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


@frames_server.tool
async def in_the_loop() -> str:
    stacks.append(package_frames(sys._getframe()))
    return "done"


@frames_server.tool
def in_a_thread() -> str:
    stacks.append(package_frames(sys._getframe()))
    return "done"


@frames_server.resource("frames://fixed")
async def fixed() -> str:
    stacks.append(package_frames(sys._getframe()))
    return "done"


@frames_server.resource("frames://{number}")
async def templated(number: int) -> str:
    stacks.append(package_frames(sys._getframe()))
    return "done"


@frames_server.prompt
async def prompted() -> str:
    stacks.append(package_frames(sys._getframe()))
    return "done"


async def frames_of(method: str, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Serve one request; return the frames on its way, over every hop to a task or a thread."""
    hops: list[list[str]] = []
    answered = asyncio.Event()
    connection = Connection(frames_server, lambda message: answered.set())
    connection.receive(
        json.dumps(
            {
                "jsonrpc": "2.0",
                "id": 0,
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "frames", "version": "1"},
                },
            }
        ).encode()
    )
    answered.clear()

    def hop_of(original: Any) -> Any:
        def hop(*args: Any, **kwargs: Any) -> Any:
            # What waits here has handed the request on; what it called to do so is not on the way.
            hops.append(package_frames(sys._getframe()))
            return original(*args, **kwargs)

        return hop

    frames_server.engine.runtime.threads._jobs = HoppingQueue(
        frames_server.engine.runtime.threads._jobs, hops
    )  # type: ignore[assignment]
    if sys.version_info < (3, 12):  # later, the task starts on the same stack
        import mcpkit.calls.tasks

        monkeypatch.setattr(mcpkit.calls.tasks, "_start", hop_of(mcpkit.calls.tasks._start))
    stacks.clear()
    try:
        connection.receive(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        )
        await asyncio.wait_for(answered.wait(), 10)
    finally:
        frames_server.engine.runtime.threads._jobs = frames_server.engine.runtime.threads._jobs.queue
        await connection.aclose()
    assert len(stacks) == 1
    return [name for stack in [stacks[0], *hops] for name in stack]


class HoppingQueue:
    """Notes the stack of whoever hands a job to a thread."""

    def __init__(self, queue: Any, hops: list[list[str]]) -> None:
        self.queue = queue
        self.hops = hops

    def put(self, job: Any) -> None:
        self.hops.append(package_frames(sys._getframe()))
        self.queue.put(job)

    def get(self, timeout: float) -> Any:
        return self.queue.get(timeout=timeout)


def test_call_has_at_most_ten_frames_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for method, params in (
        ("tools/call", {"name": "in_the_loop"}),
        ("tools/call", {"name": "in_a_thread"}),
        ("resources/read", {"uri": "frames://fixed"}),
        ("resources/read", {"uri": "frames://7"}),
        ("prompts/get", {"name": "prompted"}),
    ):
        frames = asyncio.run(frames_of(method, params, monkeypatch))
        assert "receive" in frames  # the count begins at the bytes
        assert len(frames) <= LIMIT, (params, frames)


pytestmark = pytest.mark.slow

SERVER = '''
import sys
from mcpkit import Server

server = Server("lazy", version="1.0.0")

@server.tool
def loaded(depth: int = 1) -> list[str]:
    """The packages that are loaded."""
    return sorted({".".join(name.split(".")[:depth]) for name in sys.modules})

server.run()
'''
WITH_AN_APP = SERVER.replace(
    "server.run()",
    "from mcpkit import HttpOptions\n"
    'app = server.asgi(http=HttpOptions(readiness_path="/health"))\nserver.run()',
)
HTTP = {
    "asgiref",
    "django",
    "fastapi",
    "h11",
    "http",
    "httptools",
    "httpx",
    "httpx2",
    "litestar",
    "sse_starlette",
    "starlette",
    "urllib3",
    "uvicorn",
    "uvloop",
    "websockets",
}
HEAVY = {"anyio", "docstring_parser", "email", "jsonschema", "multiprocessing", "pydantic", "unittest", "xml"}
MODULES = {"logging.config", "urllib.request"}


def talk(*messages: dict[str, object], program: str = SERVER) -> list[dict[str, object]]:
    """Send messages to a server, each when the one before has been answered, so that all runs load the same."""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        answers = []
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            server.stdin.flush()
            if "id" in message:
                answers.append(json.loads(server.stdout.readline()))
        server.stdin.close()
        assert server.wait(60) == 0
    return answers


def after_a_whole_conversation(depth: int, program: str = SERVER) -> set[str]:
    client = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    call = {"name": "loaded", "arguments": {"depth": depth}}
    answers = talk(
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
        {"id": 3, "method": "tools/call", "params": call},
        {"id": 4, "method": "tools/call", "params": call},
        program=program,
    )
    results = {answer["id"]: answer["result"] for answer in answers}
    assert sorted(results) == [1, 2, 3, 4]
    return set(results[4]["structuredContent"]["result"])


def after_the_import(depth: int) -> set[str]:
    names = f"{{'.'.join(name.split('.')[:{depth}]) for name in sys.modules}}"
    program = f"import sys; from mcpkit import Server; print(*{names})"
    return set(subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60).split())


RARE = (
    through,
    Ask,
    BaseTool,
    ElicitRequest,
    Injection,
    LogHandler,
    Root,
    SamplingRequest,
    SubscriptionTopic,
    UriTemplate,
    json_type,
    resource_dir,
)


def packages(modules: set[str], depth: int) -> set[str]:
    return {".".join(name.split(".")[:depth]) for name in modules}


@pytest.mark.parametrize("load", [after_the_import, after_a_whole_conversation])
def test_stdio_server_does_not_import_http_and_heavy_packages(load):
    modules = load(9)
    assert packages(modules, 1) & (HTTP | HEAVY) == set()
    assert packages(modules, 2) & MODULES == set()
    assert "mcpkit.transports.http" not in packages(modules, 3)
    assert {what.__module__ for what in RARE} & modules == set()
    if load is after_the_import:
        assert "urllib.parse" not in modules


def test_public_names_can_be_imported():
    program = (
        "import mcpkit; assert set(mcpkit.__all__) <= {*dir(mcpkit)}\n"
        "from mcpkit import *; print(Access, TaskOptions)"
    )
    shown = subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60)
    assert shown.split() == f"{Access} {TaskOptions}".split()


def test_unknown_name_of_the_package_raises():
    with pytest.raises(AttributeError, match="module 'mcpkit' has no attribute 'Servant'"):
        getattr(mcpkit, "Servant")
    with pytest.raises(ImportError, match="cannot import name 'Servant'"):
        exec("from mcpkit import Servant")


def test_client_does_not_import_the_server():
    program = "import json, sys; from mcpkit import Client; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60))
    rooms = {".".join(name.split(".")[:2]) for name in loaded}
    assert not rooms & {
        f"mcpkit.{room}" for room in ("components", "engine", "schema", "server", "transports")
    }
    assert not HTTP - {"http"} & set(loaded)


def test_asgi_app_at_module_level_imports_its_options_only():
    with_an_app, without = (after_a_whole_conversation(9, program) for program in (WITH_AN_APP, SERVER))
    assert with_an_app - without == {
        "mcpkit.state.keys",
        "mcpkit.protocol.header_fields",
        "mcpkit.transports.http",
        "mcpkit.transports.http.app",
        "mcpkit.transports.http.intake",
        "mcpkit.transports.http.intake.guard",
        "mcpkit.transports.http.options",
    }


OPEN = """
import asyncio, json, sys
from mcpkit import Client, Server

server = Server("open")


@server.tool
async def add(a: int, b: int) -> int:
    return a + b


async def main() -> None:
    async with Client(server.asgi()) as client:
        await client.call_tool("add", {"a": 1, "b": 2})


asyncio.run(main())
print(json.dumps(sorted(sys.modules)))
"""


def test_http_without_auth_does_not_import_authorization():
    done = subprocess.run([sys.executable, "-c", OPEN], capture_output=True, check=True, text=True)
    of_authorization = (
        "joserfc",
        "cryptography",
        "mcpkit.auth",
        "mcpkit.client.authorization",
        "mcpkit.transports.http.protection",
    )
    assert [name for name in json.loads(done.stdout) if name.startswith(of_authorization)] == []
