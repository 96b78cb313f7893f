"""The cost of a start and of a call: what is imported, and how many frames a call has."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from queue import SimpleQueue
from subprocess import PIPE
from types import FrameType
from typing import Any

import pytest

import mcpkit
import mcpkit.requests.running_requests
from mcpkit import Access, LogHandler, Server, TaskOptions, resource_dir
from mcpkit.components.dependency_runner import Injection
from mcpkit.content.uri_templates import UriTemplate
from mcpkit.elicitation import ElicitRequest, Root, SamplingRequest
from mcpkit.engine.message_dispatch import Connection
from mcpkit.engine.middleware_chain import build_chain
from mcpkit.extensions import BaseTool, SubscriptionTopic
from mcpkit.types import json_type
from tests.helpers.pipe import message
from tests.helpers.raw_client import initialize

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


def record() -> str:
    stacks.append(package_frames(sys._getframe()))
    return "done"


async def record_in_loop(number: int = 0) -> str:
    return record()


frames_server.tool(record_in_loop)
frames_server.tool(record)
frames_server.resource("frames://{number}")(record_in_loop)
frames_server.prompt(record_in_loop)
hops: list[list[str]] = []


@frames_server.resource("frames://fixed")
async def fixed() -> str:
    return record()


class HoppingQueue(SimpleQueue[Any]):
    """A queue that records the stack of each `put`."""

    def put(self, job: Any) -> None:
        hops.append(package_frames(sys._getframe()))
        super().put(job)


frames_server.engine.runtime.threads._jobs = HoppingQueue()


async def frames_of(method: str, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Serve one request; return the frames on its way, over every hop to a task or a thread."""
    answered = asyncio.Event()
    connection = Connection(frames_server, lambda _: answered.set())
    connection.receive(json.dumps(initialize()).encode())
    answered.clear()

    def start(*args: Any, **options: Any) -> Any:
        # What waits here has handed the request on; what it called to do so is not on the way.
        hops.append(package_frames(sys._getframe()))
        return original(*args, **options)

    original = mcpkit.requests.running_requests._start
    if sys.version_info < (3, 12):  # later, the task starts on the same stack
        monkeypatch.setattr(mcpkit.requests.running_requests, "_start", start)
    stacks.clear()
    hops.clear()
    connection.receive(json.dumps(message(method, params)).encode())
    await asyncio.wait_for(answered.wait(), 10)
    monkeypatch.undo()
    await connection.aclose()
    assert len(stacks) == 1
    return [name for stack in [stacks[0], *hops] for name in stack]


def test_call_has_no_more_than_ten_frames_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for method, params in (
        ("tools/call", {"name": "record_in_loop"}),
        ("tools/call", {"name": "record"}),
        ("resources/read", {"uri": "frames://fixed"}),
        ("resources/read", {"uri": "frames://7"}),
        ("prompts/get", {"name": "record_in_loop"}),
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
def loaded() -> list[str]:
    """Return the modules that are loaded."""
    return sorted(sys.modules)

server.run()
'''
WITH_AN_APP = SERVER.replace(
    "server.run()",
    "from mcpkit import HttpOptions\n"
    'app = server.asgi(http=HttpOptions(readiness_path="/health"))\nserver.run()',
)
HTTP = {
    *("asgiref", "django", "fastapi", "h11", "http", "httptools", "httpx", "httpx2", "litestar", "starlette"),
    *("sse_starlette", "urllib3", "uvicorn", "uvloop", "websockets"),
}
HEAVY = {"anyio", "docstring_parser", "email", "jsonschema", "multiprocessing", "pydantic", "unittest", "xml"}
MODULES = {"logging.config", "urllib.request"}


def run(program: str) -> str:
    """Run a program, and return its output."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def after_a_whole_conversation(program: str = SERVER) -> set[str]:
    """Return the modules that a server has imported by its second tool call."""
    messages = [
        initialize(),
        message("notifications/initialized", None, None),
        message("tools/list", None, 2),
        *(message("tools/call", {"name": "loaded"}, number) for number in (3, 4)),
    ]
    with subprocess.Popen([sys.executable, "-c", program], stdin=PIPE, stdout=PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for each in messages:  # each after the response to the one before, so that all runs load the same
            server.stdin.write(json.dumps(each) + "\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline()) if "id" in each else None
        server.stdin.close()
        assert server.wait(60) == 0
    return set(answer["result"]["structuredContent"]["result"])


def after_the_import() -> set[str]:
    return set(run("import sys; from mcpkit import Server; print(*sys.modules)").split())


RARE = (
    *(
        build_chain, BaseTool, ElicitRequest, Injection, LogHandler, Root, SamplingRequest,
        SubscriptionTopic,
    ),
    *(UriTemplate, json_type, resource_dir),
)  # fmt: skip


def packages(modules: set[str], depth: int) -> set[str]:
    return {".".join(name.split(".")[:depth]) for name in modules}


@pytest.mark.parametrize("load", [after_the_import, after_a_whole_conversation])
def test_stdio_server_does_not_import_http_and_heavy_packages(load):
    modules = load()
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
    assert run(program).split() == f"{Access} {TaskOptions}".split()


def test_unknown_name_of_the_package_raises():
    with pytest.raises(AttributeError, match="module 'mcpkit' has no attribute 'Servant'"):
        getattr(mcpkit, "Servant")
    with pytest.raises(ImportError, match="cannot import name 'Servant'"):
        exec("from mcpkit import Servant")


def test_client_does_not_import_the_server():
    program = "import json, sys; from mcpkit import Client; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(run(program))
    rooms = ("components", "engine", "schema", "server", "transports")
    assert not packages({*loaded}, 2) & {f"mcpkit.{room}" for room in rooms}
    assert not HTTP - {"http"} & set(loaded)


def test_asgi_app_at_module_level_imports_its_options_only():
    with_an_app, without = (after_a_whole_conversation(program) for program in (WITH_AN_APP, SERVER))
    http = {f"mcpkit.transports.http{name}" for name in ("", ".app_options", ".asgi")}
    assert with_an_app - without == {"mcpkit.storage.encryption_keys", "mcpkit.protocol.http_headers", *http}


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
    http = ("mcpkit.transports.http.bearer_auth", "mcpkit.transports.http.protected_resource")
    of_authorization = ("joserfc", "cryptography", "mcpkit.auth", "mcpkit.client.auth", *http)
    assert [name for name in json.loads(run(OPEN)) if name.startswith(of_authorization)] == []
