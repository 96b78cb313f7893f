"""Several processes that serve without a broker: what is said of it, at the start and when it shows."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, Memory, Server
from tests.helpers.asgi_client import Serve
from tests.helpers.asking_server import accept, asked, respond
from tests.helpers.serving import Served
from tests.helpers.session_server import SECRET
from tests.helpers.stateless_server import text_of

pytestmark = pytest.mark.long

WARNING = "workers serve, and share nothing"
PROGRAM = """
import os
from mcpkit import Memory, Server
from starlette.applications import Starlette
from starlette.routing import Mount

class Lasting(Memory):
    is_lasting = True

server = Server("s", secret="s" * 32, shared=Lasting() if os.environ.get("SHARED") else Memory())
app = server.asgi(stateless=bool(os.environ.get("STATELESS")))
mounted = Starlette(routes=[Mount("/x", app)])
"""

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="the workers are killed as a group")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def uvicorn(folder: Path, *options: str, app: str = "app") -> list[str]:
    return [
        sys.executable,
        "-m",
        "uvicorn",
        "--app-dir",
        str(folder),
        "--port",
        "0",
        *options,
        f"program:{app}",
    ]


def notes_of(command: Sequence[str], ready: str, times: int, **settings: str) -> str:
    """Return what a server has said on standard error when it has begun to serve."""
    with Served(command, **settings) as served:
        served.wait_for(ready, times=times)
        served.stop()
        return served.notes


@needs_posix
@pytest.mark.parametrize("app", ["app", "mounted"])
def test_the_workers_of_uvicorn_say_once_that_they_share_nothing(folder: Path, app: str) -> None:
    notes = notes_of(uvicorn(folder, "--workers", "2", app=app), "Application startup complete", 2)
    assert notes.count(f"2 {WARNING}") == 1
    assert "Server(shared=Sqlite(" in notes


@needs_posix
def test_those_of_the_environment_count_as_well(folder: Path) -> None:
    notes = notes_of(uvicorn(folder), "Application startup complete", 3, WEB_CONCURRENCY="3")
    assert notes.count(f"3 {WARNING}") == 1


@needs_posix
@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ([], {}),
        (["--workers", "1"], {}),
        (["--reload"], {}),
        (["--reload", "--workers", "2"], {}),
    ],
)
def test_one_process_has_nothing_to_share(folder: Path, options: list[str], settings: dict[str, str]) -> None:
    if "--reload" in options:
        options = [*options, "--reload-dir", str(folder)]
    assert WARNING not in notes_of(uvicorn(folder, *options), "Application startup complete", 1, **settings)


@needs_posix
@pytest.mark.parametrize("settings", [{"SHARED": "1"}, {"STATELESS": "1"}])
def test_workers_that_share_something_or_without_sessions_say_nothing(
    folder: Path, settings: dict[str, str]
) -> None:
    command = uvicorn(folder, "--workers", "2")
    assert WARNING not in notes_of(command, "Application startup complete", 2, **settings)


@needs_posix
@pytest.mark.parametrize(
    ("options", "times"), [(["-w", "2"], 1), (["-w", "2", "--preload"], 1), (["-w", "1"], 0)]
)
def test_the_workers_of_gunicorn_say_it_too(folder: Path, options: list[str], times: int) -> None:
    command = [sys.executable, "-m", "gunicorn", "--chdir", str(folder), "-b", "127.0.0.1:0", *options]
    command += ["-k", "uvicorn_worker.UvicornWorker", "program:app"]
    assert notes_of(command, "Application startup complete", int(options[1])).count(WARNING) == times


def test_workers_as_an_option_say_how_to_have_them() -> None:
    with pytest.raises(TypeError, match=r"serves in one process: .* `uvicorn module:app --workers 4`"):
        Server("s").run("http", workers=4)  # type: ignore[call-overload]  # on purpose


def curious(seconds: float, broker: Memory | None = None) -> Server:
    server = Server("curious", secret=SECRET, question_timeout=seconds, shared=broker)

    @server.tool
    async def name(ctx: Context) -> str:
        return (await ctx.elicit("Name?", str)).value

    return server


@pytest.mark.anyio
async def test_an_answer_to_another_process_is_logged_once(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(curious(60)) as one, serve(curious(60)) as other:
        session = await asked(one)
        call = session.call("name")
        question = await call.message()
        for _ in range(2):
            assert (await respond(session.at(other), question["id"], accept("Ada"))).status == 400
        assert (await respond(session.at(other), "of nobody", accept("Ada"))).status == 400
        warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
        assert ["a question that another process has asked" in each.getMessage() for each in warnings] == [
            True
        ]
        assert "sticky sessions" in warnings[0].getMessage()
        await respond(session, question["id"], accept("Ada"))
        assert text_of(await call.message()) == "Ada"


@pytest.mark.anyio
async def test_a_late_answer_where_it_was_asked_is_not_logged(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(curious(0.05)) as client:
        session = await asked(client)
        call = session.call("name")
        question = await call.message()
        assert (await call.message())["method"] == "notifications/cancelled"
        await call.message()
        await respond(session, question["id"], accept("Ada"))
        assert [each for each in caplog.records if each.levelno == logging.WARNING] == []


@pytest.mark.anyio
@pytest.mark.parametrize("is_shared", [False, True])
async def test_who_waits_in_vain_is_told_what_may_be_the_cause(serve: Serve, is_shared: bool) -> None:
    async with serve(curious(0.05, Memory() if is_shared else None)) as client:
        session = await asked(client)
        call = session.call("name")
        messages: list[dict[str, Any]] = [await call.message() for _ in range(3)]
        text = text_of(messages[-1])
        assert text.startswith("The client did not answer within 0.05 s")
        assert ("may have reached another one, whose log says what to do" in text) is not is_shared
