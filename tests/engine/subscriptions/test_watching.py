"""Functions of `watch=` and watched folders: they run while clients are subscribed, and restart when they fail."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcpkit import Context, LogHandler, RegistrationError, Server
from mcpkit.context import current_context
from mcpkit.engine import watch_functions as module
from mcpkit.identity.principals_and_scopes import Change
from mcpkit.middleware import CallNext, Request, Result
from mcpkit.providers.directory import resource_dir
from mcpkit.testing import connect
from tests.helpers.pipe import Ear, settle, updated
from tests.helpers.tables import each_row
from tests.helpers.waiting import until
from tests.helpers.watched import Source, listen, read, station, watched_server

RESOURCES = Change("resources")


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def server(source: Source) -> Server:
    return watched_server(source)


async def stop(server: Server, *listeners: Ear) -> None:
    for listener in listeners:
        server.engine.hub().unsubscribe_all(listener)
    await settle()


def watches() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("mcpkit-watch")]


async def test_watch_runs_from_the_first_subscriber_to_the_last(server: Server, source: Source) -> None:
    await settle()
    assert source.story == []
    one, other = listen(server, "data://x"), listen(server, "data://x")
    await source.update()
    assert one.uris == other.uris == ["data://x"]
    server.engine.hub().unsubscribe(one, updated("data://x"))
    await source.update()
    assert (len(one.uris), len(other.uris)) == (1, 2)
    await stop(server, other)
    assert source.story == ["start fixed", "stop fixed"]
    again = listen(server, "data://x")
    await source.update()
    assert again.uris == ["data://x"]
    await stop(server, again)
    assert source.story == ["start fixed", "stop fixed"] * 2


async def test_watch_with_variables_runs_for_each_subscribed_uri(server: Server, source: Source) -> None:
    uris = ["data://stations/1", "data://stations/2", "data://stations/{id}", "data://stations/many"]
    listener = listen(server, *uris, "data://unknown")  # the function takes no id "many"
    await settle()
    assert source.running == [1, 2]
    await source.update()
    assert listener.uris == uris[:2]
    server.engine.hub().unsubscribe(listener, updated("data://stations/1"))
    await settle()
    assert source.running == [2]
    await stop(server, listener)
    assert source.running == []


async def test_watch_without_variables_runs_once_for_all_uris(source: Source) -> None:
    server, one, two, three = Server("s"), *(f"data://stations/{id}" for id in (1, 2, 3))
    server.resource("data://stations/{id}", watch=source.fixed)(station)
    stations, template = listen(server, one, two), listen(server, "data://stations/{id}")
    lists = listen(server, RESOURCES)
    await source.update(two)
    await source.update(three)
    assert (stations.uris, template.uris) == ([two], [two, three])
    await source.update("data://stations/")
    assert (stations.uris[1:], template.uris[2:]) == ([one, two], [one, two])
    assert lists.heard == []
    await source.update(None)
    assert lists.heard == [RESOURCES]
    await stop(server, stations)
    assert source.running == ["fixed"]
    await stop(server, template)
    assert source.story == ["start fixed", "stop fixed"]


async def plain() -> None: ...


def generator() -> Any:
    yield


async def other_variable(station: str) -> AsyncIterator[None]:
    yield


@each_row("uri", ["data://x", "data://stations/{id}"])
@each_row(("watch", "message"), [
    *((each, "watch= needs an async generator function") for each in (plain, generator, "watch")),
    (other_variable, "no value for the parameter 'station' of watch="),
])  # fmt: skip
def test_watch_wrong_function_is_refused(uri: str, watch: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        Server("s").resource(uri, watch=watch)(station if "{" in uri else read)


async def test_watch_has_no_context_of_the_request_that_started_it() -> None:
    server, contexts, is_running = Server("s"), list[Context](), asyncio.Event()
    logger, handler = logging.getLogger("author of the watch"), LogHandler()
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)

    async def watch() -> AsyncIterator[None]:
        with suppress(RuntimeError):
            contexts.append(current_context())
        logger.info("for the operator of the server")
        is_running.set()
        yield

    server.resource("data://a", watch=watch)(read)

    @server.middleware("resources/subscribe")
    async def linger(request: Request, call_next: CallNext) -> Result:
        result = await call_next(request)
        await asyncio.wait_for(is_running.wait(), 10)
        return result

    try:
        async with connect(server, protocol_version="2025-11-25") as client:
            await client.request("resources/subscribe", {"uri": "data://a"})
            await client.notification("notifications/resources/updated")
            assert (contexts, client.notifications) == ([], [])
    finally:
        logger.removeHandler(handler)


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The delays before restarts of watches, none of which is waited for."""
    delays: list[float] = []

    async def sleep(delay: float) -> None:
        delays.append(delay)

    monkeypatch.setattr(module, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": sleep}))
    return delays


async def test_watch_that_returns_had_its_variables_and_is_not_restarted(delays: list[float]) -> None:
    values: list[Any] = []

    async def by_city(city: str) -> AsyncIterator[None]:
        values.append(city)
        yield

    async def by_all(**variables: Any) -> AsyncIterator[None]:
        values.append(variables)
        yield

    def street(city: str, number: int) -> str:
        return city

    server = Server("s")
    server.resource("a://{city}/{number}", watch=by_city)(street)
    server.resource("b://{city}/{number}", watch=by_all)(street)
    listener = listen(server, "a://Bonn/7", "b://Bonn/7")
    await settle()
    assert values == ["Bonn", {"city": "Bonn", "number": 7}]
    assert listener.uris == ["a://Bonn/7", "b://Bonn/7"]
    assert delays == []
    await stop(server, listener)


async def test_watch_that_raises_is_logged_and_restarted(server, source, delays, caplog) -> None:
    listener = listen(server, "data://x")
    for _ in range(8):
        await source.fail()
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]
    assert source.story == [*["start fixed", "stop fixed"] * 8, "start fixed"]
    assert "the watch of data://x failed; it restarts in 1 s" in caplog.text
    assert "OSError: the source is gone" in caplog.text
    await source.update()
    assert listener.uris == ["data://x"]
    await source.fail()
    assert delays[8:] == [1]
    await stop(server, listener)


@pytest.mark.parametrize("is_stubborn", [False, True])
async def test_watch_that_fails_or_ignores_closing_ends(is_stubborn, caplog) -> None:
    story: list[str] = []

    async def watch() -> AsyncIterator[None]:
        story.append("start")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not is_stubborn:
                raise OSError("cannot close") from None
            yield
        story.append("after the end")

    server = Server("s")
    server.resource("data://x", watch=watch)(read)
    listener = listen(server, "data://x")
    await settle()
    await stop(server, listener)
    assert story == ["start"]
    assert ("the watch of data://x failed; it stopped" in caplog.text) is not is_stubborn
    assert not watches()


async def test_watch_restarts_after_its_predecessor_has_cleaned_up() -> None:
    may_end, story = asyncio.Event(), []

    async def watch() -> AsyncIterator[None]:
        story.append("start")
        try:
            await asyncio.Event().wait()
            yield
        finally:
            await may_end.wait()
            story.append("stop")

    server = Server("s")
    server.resource("data://x", watch=watch)(read)
    for _ in range(3):
        listener = listen(server, "data://x")
        await settle()
        await stop(server, listener)
    listener = listen(server, "data://x")
    await settle()
    assert story == ["start"]
    may_end.set()
    await settle()
    assert story == ["start", "stop", "start"]
    await stop(server, listener)
    assert story == ["start", "stop", "start", "stop"]


# Folders


class Folder:
    """A watched folder, its server, and a listener to its list and files."""

    def __init__(self, root: Path, *names: str) -> None:
        self.root, self.a = root, root / "a.txt"
        self.a.write_text("first")
        self.server = Server("s")
        self.server.include(resource_dir(root, "docs://guide", watch=True))
        self.changes = [updated(f"docs://guide/{name}") for name in names]
        self.listener = listen(self.server, RESOURCES, *self.changes)

    async def check(self, act: Callable[[], Any], *expected: Change) -> None:
        """Check that an action leads to the expected changes only."""
        self.listener.heard.clear()
        act()
        await until(lambda: set(expected) <= set(self.listener.heard))
        assert set(self.listener.heard) == set(expected)


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Folder]:
    (tmp_path / "sub").mkdir()
    folder = Folder(tmp_path, "a.txt", "sub/b.txt", "new%20one.txt", ".hidden")
    await settle()
    yield folder
    await stop(folder.server, folder.listener)
    await until(lambda: not watches())


@pytest.mark.slow
async def test_watched_folder_reports_visible_files_written_added_and_removed(folder: Folder) -> None:
    a, b, new, _ = folder.changes
    (folder.root / ".hidden").write_text("x")
    await folder.check(lambda: folder.a.write_text("changed"), a)
    await folder.check(lambda: (folder.root / "sub" / "b.txt").write_text("new"), RESOURCES, b)
    await folder.check(lambda: (folder.root / "new one.txt").write_text("new"), RESOURCES, new)
    await folder.check(folder.a.unlink, RESOURCES, a)


@pytest.mark.slow
async def test_watched_folder_that_was_removed_is_reported_and_watched_again(folder, monkeypatch, caplog):
    monkeypatch.setattr(module, "FIRST_DELAY", 0.05)
    a, *_ = folder.changes
    (folder.root / "sub").rmdir()
    await folder.check(lambda: [folder.a.unlink(), folder.root.rmdir()], *folder.changes, RESOURCES)
    await until(lambda: "No path was found" in caplog.text)
    folder.root.mkdir()
    folder.listener.heard.clear()
    # The new folder is watched from some time on, so the file is written until a change is reported.
    await until(lambda: folder.a.write_text("again") and a in folder.listener.heard)


def test_watched_folder_without_watchfiles_names_the_extra(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RegistrationError, match=r"pip install .*\[watch\]"):
        resource_dir(tmp_path, "docs://guide", watch=True)
    assert resource_dir(tmp_path, "docs://guide").watch is None
