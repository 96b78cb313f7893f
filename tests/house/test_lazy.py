"""What a stdio server on the simple path must never import: each package costs every start of a server."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import mcpkit
from mcpkit import Ask, BaseTool, Elicit, LogHandler, Root, Sample, Topic, json_type, resource_dir
from mcpkit.components.injection.plan import Injection
from mcpkit.content.uri_template import UriTemplate
from mcpkit.engine.chain import through

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
WITH_AN_APP = SERVER.replace("server.run()", 'app = server.asgi(health="/health")\nserver.run()')
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


@pytest.mark.parametrize("loaded", [after_the_import, after_a_whole_conversation])
def test_nothing_of_http_is_loaded(loaded):
    assert loaded(1) & HTTP == set()


@pytest.mark.parametrize("loaded", [after_the_import, after_a_whole_conversation])
def test_the_http_transport_is_not_loaded(loaded):
    assert {name for name in loaded(3) if name.startswith("mcpkit.transports.http")} == set()


@pytest.mark.parametrize("loaded", [after_the_import, after_a_whole_conversation])
def test_nothing_heavy_is_loaded(loaded):
    assert loaded(1) & HEAVY == set()
    assert loaded(2) & MODULES == set()


def test_what_leads_requests_through_middleware_is_loaded_where_there_is_some():
    assert through.__module__ not in after_a_whole_conversation(9)
    middleware = (
        "@server.middleware\nasync def pass_on(request, call_next):\n    return await call_next(request)\n"
    )
    assert through.__module__ in after_a_whole_conversation(
        9, SERVER.replace("server.run()", middleware + "server.run()")
    )


RARE = (
    Ask,
    BaseTool,
    Elicit,
    Injection,
    LogHandler,
    Root,
    Sample,
    Topic,
    UriTemplate,
    json_type,
    resource_dir,
)


def test_what_few_servers_need_is_loaded_where_they_do():
    assert {what.__module__ for what in RARE} & after_a_whole_conversation(9) == set()


def test_all_public_names_are_there_however_late_they_are_loaded():
    program = "import mcpkit; assert set(mcpkit.__all__) <= {*dir(mcpkit)}; from mcpkit import *; print(Elicit, Topic)"
    shown = subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60)
    assert shown.split() == f"{Elicit} {Topic}".split()


def test_a_name_that_is_none_of_the_package_is_missed_as_in_others():
    with pytest.raises(AttributeError, match="module 'mcpkit' has no attribute 'Servant'"):
        getattr(mcpkit, "Servant")
    with pytest.raises(ImportError, match="cannot import name 'Servant'"):
        exec("from mcpkit import Servant")


def test_a_client_brings_nothing_of_the_server():
    program = "import json, sys; from mcpkit import Client; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60))
    rooms = {".".join(name.split(".")[:2]) for name in loaded}
    assert not rooms & {
        f"mcpkit.{room}" for room in ("components", "engine", "schema", "server", "transports")
    }
    assert not HTTP - {"http"} & set(loaded)


def test_the_import_alone_loads_nothing_of_urls():
    assert "urllib.parse" not in after_the_import(2)


def test_an_app_at_module_level_loads_nothing_but_what_checks_its_options():
    with_an_app, without = (after_a_whole_conversation(9, program) for program in (WITH_AN_APP, SERVER))
    assert with_an_app - without == {
        "mcpkit.state.keys",
        "mcpkit.common.nearest",
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
        await client.call("add", {"a": 1, "b": 2})


asyncio.run(main())
print(json.dumps(sorted(sys.modules)))
"""


def test_an_open_server_over_http_and_its_client_load_nothing_of_authorization():
    done = subprocess.run([sys.executable, "-c", OPEN], capture_output=True, check=True, text=True)
    of_authorization = (
        "joserfc",
        "cryptography",
        "mcpkit.auth",
        "mcpkit.client.authorization",
        "mcpkit.transports.http.protection",
    )
    assert [name for name in json.loads(done.stdout) if name.startswith(of_authorization)] == []
