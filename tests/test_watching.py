"""`watch=`: the author's functions that run while somebody is subscribed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcpkit import RegistrationError, Registry, Server, resource
from mcpkit import watching as module
from mcpkit.changes import Change, Changes
from mcpkit.resource_dir import resource_dir
from mcpkit.resources import Resource, ResourceTemplate
from wire.pipe import META, open_pipe, settle

pytestmark = pytest.mark.anyio


class Source:
    """Something to watch: each `update` lets the functions that watch yield once."""

    def __init__(self) -> None:
        self.running: list[Any] = []
        self.story: list[str] = []
        self._waiting: list[asyncio.Future[Any]] = []

    async def _watch(self, name: Any) -> AsyncIterator[Any]:
        self.story.append(f"start {name}")
        self.running.append(name)
        try:
            while True:
                future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                self._waiting.append(future)
                yield await future
        finally:
            self.running.remove(name)
            self.story.append(f"stop {name}")

    async def fixed(self) -> AsyncIterator[Any]:
        async for update in self._watch("fixed"):
            yield update

    async def each(self, id: int) -> AsyncIterator[Any]:
        async for update in self._watch(id):
            yield update

    async def update(self, value: Any = None) -> None:
        await settle()
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(value)
        await settle()

    async def fail(self) -> None:
        await settle()
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            future.set_exception(OSError("the source is gone"))
        await settle()


class Ear:
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[Change] = []

    def changed(self, change: Change) -> None:
        self.heard.append(change)

    @property
    def uris(self) -> list[str | None]:
        return [uri for _, uri in self.heard]


def read() -> str:
    return ""


def station(id: int) -> str:
    return str(id)


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def server(source: Source) -> Server:
    server = Server("s")
    server.resource("data://x", watch=source.fixed)(read)
    server.resource("data://stations/{id}", watch=source.each)(station)
    return server


def updated(uri: str) -> Change:
    return ("resource", uri)


async def test_it_starts_with_the_first_subscriber_and_stops_after_the_last(
    server: Server, source: Source
) -> None:
    changes, one, other = Changes.of(server), Ear(), Ear()
    await settle()
    assert source.story == []
    changes.want(one, updated("data://x"))
    changes.want(other, updated("data://x"))
    await source.update()
    assert one.uris == other.uris == ["data://x"]
    changes.unwant(one, updated("data://x"))
    await source.update()
    assert len(other.uris) == 2
    changes.forget(other)
    await settle()
    assert source.story == ["start fixed", "stop fixed"]
    assert len(one.uris) == 1
    changes.want(one, updated("data://x"))
    await source.update()
    assert len(one.uris) == 2
    changes.forget(one)
    await settle()
    assert source.story == ["start fixed", "stop fixed"] * 2


async def test_with_the_variables_it_runs_for_each_uri_that_is_subscribed_to(
    server: Server, source: Source
) -> None:
    changes, ear = Changes.of(server), Ear()
    for uri in ("data://stations/1", "data://stations/2", "data://stations/{id}", "data://unknown"):
        changes.want(ear, updated(uri))
    await settle()
    assert source.running == [1, 2]
    await source.update()
    assert ear.uris == ["data://stations/1", "data://stations/2"]
    changes.unwant(ear, updated("data://stations/1"))
    await settle()
    assert source.running == [2]
    changes.forget(ear)
    await settle()
    assert source.running == []


async def test_a_uri_that_the_function_would_refuse_is_not_watched(server: Server, source: Source) -> None:
    ear = Ear()
    Changes.of(server).want(ear, updated("data://stations/many"))
    await settle()
    assert source.story == []
    Changes.of(server).forget(ear)


async def test_it_takes_the_variables_that_it_names() -> None:
    seen: list[Any] = []

    async def by_city(city: str) -> AsyncIterator[None]:
        seen.append(city)
        yield

    async def by_all(**variables: Any) -> AsyncIterator[None]:
        seen.append(variables)
        yield

    def street(city: str, number: int) -> str:
        return city

    server, ear = Server("s"), Ear()
    server.resource("a://{city}/{number}", watch=by_city)(street)
    server.resource("b://{city}/{number}", watch=by_all)(street)
    Changes.of(server).want(ear, updated("a://Bonn/7"))
    Changes.of(server).want(ear, updated("b://Bonn/7"))
    await settle()
    assert seen == ["Bonn", {"city": "Bonn", "number": 7}]
    assert ear.uris == ["a://Bonn/7", "b://Bonn/7"]
    Changes.of(server).forget(ear)


async def test_without_the_variables_it_runs_once_and_says_what_was_updated(source: Source) -> None:
    server, changes_heard = Server("s"), Ear()
    server.resource("data://stations/{id}", watch=source.fixed)(station)
    changes, ear, every = Changes.of(server), Ear(), Ear()
    changes.want(ear, updated("data://stations/1"))
    changes.want(ear, updated("data://stations/2"))
    changes.want(every, updated("data://stations/{id}"))
    changes.want(changes_heard, ("resources", None))
    await source.update("data://stations/2")
    await source.update("data://stations/3")
    assert ear.uris == ["data://stations/2"]
    assert every.uris == ["data://stations/2", "data://stations/3"]
    await source.update("data://stations/")
    assert ear.uris[1:] == ["data://stations/1", "data://stations/2"]
    assert every.uris[2:] == ["data://stations/1", "data://stations/2"]
    assert changes_heard.heard == []
    await source.update(None)
    assert changes_heard.heard == [("resources", None)]
    changes.forget(ear)
    await settle()
    assert source.running == ["fixed"]
    changes.forget(every)
    await settle()
    assert source.story == ["start fixed", "stop fixed"]


async def test_the_list_is_watched_where_a_template_has_entries(source: Source) -> None:
    server, ear = Server("s"), Ear()
    server.resource("data://stations/{id}", watch=source.fixed, entries=list)(station)
    server.resource("data://others/{id}", watch=source.fixed)(station)
    Changes.of(server).want(ear, ("resources", None))
    await source.update(None)
    assert source.story == ["start fixed"]
    assert ear.heard == [("resources", None)]
    Changes.of(server).forget(ear)
    await settle()
    assert source.running == []


async def test_under_a_prefix_it_tells_of_the_uris_that_clients_know(source: Source) -> None:
    inner, outer, server = Registry(), Registry(), Server("s")
    inner.resource("data://stations/{id}", watch=source.fixed)(station)
    inner.resource("data://x", watch=source.fixed)(read)
    inner.resource("data://each/{id}", watch=source.each)(station)
    outer.include(inner, prefix="stations")
    server.include(outer, prefix="us")
    ear = Ear()
    for uri in ("data://us/stations/stations/1", "data://us/stations/x", "data://us/stations/each/7"):
        Changes.of(server).want(ear, updated(uri))
    await settle()
    assert source.running == ["fixed", "fixed", 7]
    await source.update("data://stations/1")
    assert ear.uris == ["data://us/stations/stations/1", "data://us/stations/x", "data://us/stations/each/7"]
    Changes.of(server).forget(ear)


async def test_what_is_marked_may_be_watched(source: Source) -> None:
    class Weather:
        @resource("data://now", watch=source.fixed)
        def now(self) -> str:
            return ""

    server, ear = Server("s"), Ear()
    server.include(Weather())
    Changes.of(server).want(ear, updated("data://now"))
    await source.update()
    assert ear.uris == ["data://now"]
    Changes.of(server).forget(ear)


async def test_what_is_registered_later_is_watched_and_what_is_removed_is_not(source: Source) -> None:
    server, ear = Server("s"), Ear()
    Changes.of(server).want(ear, updated("data://x"))
    Changes.of(server).want(ear, updated("data://stations/1"))
    server.resource("data://x", watch=source.fixed)(read)
    server.resource("data://stations/{id}", watch=source.each)(station)
    await settle()
    assert source.running == ["fixed", 1]
    server.resources.disable("data://x")
    server.resource_templates.remove("data://stations/{id}")
    await settle()
    assert source.running == []
    server.resources.enable("data://x")
    await settle()
    assert source.running == ["fixed"]
    server.resource("data://x", replace=True)(read)
    await settle()
    assert source.running == []
    assert ear.heard == []
    Changes.of(server).forget(ear)


async def test_one_that_runs_is_not_disturbed_by_other_registrations(server: Server, source: Source) -> None:
    ear = Ear()
    Changes.of(server).want(ear, updated("data://x"))
    await settle()
    server.resource("data://new")(read)
    server.resource_templates.remove("data://stations/{id}")
    await settle()
    assert source.story == ["start fixed"]
    Changes.of(server).forget(ear)


class Clock:
    """asyncio, but without the waiting."""

    def __init__(self) -> None:
        self.delays: list[float] = []

    async def sleep(self, delay: float) -> None:
        self.delays.append(delay)

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let no watch wait before it starts again; say how long each would have."""
    clock = Clock()
    monkeypatch.setattr(module, "asyncio", clock)
    return clock.delays


async def test_one_that_raises_is_logged_and_started_again(
    server: Server, source: Source, delays: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    ear = Ear()
    Changes.of(server).want(ear, updated("data://x"))
    for _ in range(8):
        await source.fail()
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]
    assert source.story == [*["start fixed", "stop fixed"] * 8, "start fixed"]
    assert "the watch of data://x failed; it starts again in 1 s" in caplog.text
    assert "OSError: the source is gone" in caplog.text
    await source.update()
    assert ear.uris == ["data://x"]
    await source.fail()
    assert delays[8:] == [1]
    Changes.of(server).forget(ear)


async def test_one_that_waits_to_start_again_ends_with_its_last_subscriber(
    server: Server, source: Source
) -> None:
    ear = Ear()
    Changes.of(server).want(ear, updated("data://x"))
    await source.fail()
    before = asyncio.all_tasks()
    Changes.of(server).forget(ear)
    await settle()
    assert len(before - asyncio.all_tasks()) == 1


async def test_one_that_returns_is_not_started_again() -> None:
    starts: list[None] = []

    async def watch() -> AsyncIterator[None]:
        starts.append(None)
        yield

    server, ear = Server("s"), Ear()
    server.resource("data://x", watch=watch)(read)
    Changes.of(server).want(ear, updated("data://x"))
    await settle()
    assert len(starts) == 1
    Changes.of(server).forget(ear)


async def test_what_yields_no_uri_for_a_template_is_told_so(
    delays: list[float], caplog: pytest.LogCaptureFixture, source: Source
) -> None:
    server, ear = Server("s"), Ear()
    server.resource("data://stations/{id}", watch=source.fixed)(station)
    Changes.of(server).want(ear, updated("data://stations/1"))
    await source.update(7)
    assert "yielded 7; yield the URI that was updated" in caplog.text
    assert ear.heard == []
    Changes.of(server).forget(ear)


async def test_it_is_not_started_anew_before_its_predecessor_has_cleaned_up() -> None:
    may_end = asyncio.Event()
    story: list[str] = []

    async def watch() -> AsyncIterator[None]:
        story.append("start")
        try:
            await asyncio.Event().wait()
            yield
        finally:
            await may_end.wait()
            story.append("stop")

    server, ear = Server("s"), Ear()
    server.resource("data://x", watch=watch)(read)
    changes = Changes.of(server)
    for _ in range(3):
        changes.want(ear, updated("data://x"))
        await settle()
        changes.forget(ear)
        await settle()
    changes.want(ear, updated("data://x"))
    await settle()
    assert story == ["start"]
    may_end.set()
    await settle()
    assert story == ["start", "stop", "start"]
    changes.forget(ear)
    await settle()
    assert story == ["start", "stop", "start", "stop"]


@pytest.mark.parametrize("is_stubborn", [False, True])
async def test_one_that_fails_or_goes_on_when_it_is_closed_ends_all_the_same(
    is_stubborn: bool, caplog: pytest.LogCaptureFixture
) -> None:
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

    server, ear = Server("s"), Ear()
    server.resource("data://x", watch=watch)(read)
    Changes.of(server).want(ear, updated("data://x"))
    await settle()
    Changes.of(server).forget(ear)
    await settle()
    assert story == ["start"]
    assert ("the watch of data://x failed; it has ended" in caplog.text) is not is_stubborn
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("mcpkit-watch")]


async def test_it_starts_once_the_lifespan_has_been_entered(source: Source) -> None:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncIterator[None]:
        await settle()
        source.story.append("ready")
        yield

    server, ear = Server("s", lifespan=lifespan), Ear()
    server.resource("data://x", watch=source.fixed)(read)
    async with server.running():
        Changes.of(server).want(ear, updated("data://x"))
        await settle()
        await settle()
        Changes.of(server).forget(ear)
    assert source.story == ["ready", "start fixed", "stop fixed"]


# Over the wire


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
async def test_a_session_is_told_of_what_the_watch_yields(
    server: Server, source: Source, schema_dir: Path, revision: str
) -> None:
    async with open_pipe(server, revision, schema_dir) as pipe:
        await pipe.result("resources/subscribe", {"uri": "data://x"})
        await source.update()
        (message,) = await pipe.answered()
        assert message["method"] == "notifications/resources/updated"
        await pipe.result("resources/unsubscribe", {"uri": "data://x"})
        await settle()
        assert source.running == []
        await pipe.result("resources/subscribe", {"uri": "data://stations/1"})
        await settle()
        assert source.running == [1]
    await settle()
    assert source.running == []  # the client just went away
    assert server._watchers == []


async def test_a_stream_is_told_of_what_the_watch_yields(
    server: Server, source: Source, schema_dir: Path
) -> None:
    async with open_pipe(server, "2026-07-28", schema_dir) as pipe:
        for id_ in ("a", "b"):
            wanted = {"resourceSubscriptions": ["data://x"]}
            pipe.send(pipe.message(id_, "subscriptions/listen", {"notifications": wanted}))
        await pipe.answered()
        await source.update()
        messages = await pipe.answered()
        assert [message["params"]["_meta"][META + "subscriptionId"] for message in messages] == ["a", "b"]
        pipe.cancel("a")
        await settle()
        assert source.running == ["fixed"]
        pipe.cancel("b")
        await settle()
        assert source.running == []


# What is refused when it is registered


async def plain() -> None: ...


def generator() -> Any:
    yield


async def asks(station: str) -> AsyncIterator[None]:
    yield


async def by_position(id: str, /) -> AsyncIterator[None]:
    yield


async def may_ask(id: str = "", more: int = 1, *rest: Any) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("uri", ["data://x", "data://stations/{id}"])
@pytest.mark.parametrize(
    ("watch", "message"),
    [
        (plain, "watch= needs an async generator function"),
        (generator, "watch= needs an async generator function"),
        ("watch", "watch= needs an async generator function"),
        (asks, "no value for the parameter 'station' of watch="),
    ],
)
def test_what_cannot_watch_is_refused(uri: str, watch: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        Server("s").resource(uri, watch=watch)(station if "{" in uri else read)


def test_what_can_watch_is_taken(source: Source) -> None:
    assert Resource(read, "data://x", watch=may_ask).watch is may_ask
    assert ResourceTemplate(station, "data://{id}", watch=may_ask).watched_variables == ("id",)
    assert ResourceTemplate(station, "data://{id}", watch=source.each).watched_variables == ("id",)
    assert ResourceTemplate(station, "data://{id}", watch=partial(asks, "x")).watched_variables == ()
    with pytest.raises(RegistrationError, match="its variables are id"):
        ResourceTemplate(station, "data://{id}", watch=asks)


# A folder


class Folder:
    """A folder that is served and watched, and somebody who listens."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.root = root
        self.server = Server("s")
        self.server.include(resource_dir(root, "docs://guide", watch=True, **options))
        self.ear = Ear()
        self.changes = Changes.of(self.server)

    def want(self, *changes: Change) -> None:
        for change in changes:
            self.changes.want(self.ear, change)

    async def hears(self, *expected: Change, make: Callable[[], Any]) -> None:
        """Make a change, and wait until all that is expected has been heard."""
        self.ear.heard.clear()
        make()
        for _ in range(1000):
            if set(expected) <= set(self.ear.heard):
                break
            await asyncio.sleep(0.01)
        assert set(self.ear.heard) == set(expected)


LIST: Change = ("resources", None)


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Folder]:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.txt").write_text("b")
    folder = Folder(tmp_path)
    yield folder
    folder.changes.forget(folder.ear)
    while any(task.get_name().startswith("mcpkit-watch") for task in asyncio.all_tasks()):
        await asyncio.sleep(0.01)


async def test_files_that_are_written_added_and_removed_are_told(folder: Folder) -> None:
    a, b, new = (updated(f"docs://guide/{name}") for name in ("a.txt", "sub/b.txt", "new%20one.txt"))
    folder.want(LIST, a, b, new)
    await settle()
    root = folder.root
    await folder.hears(a, make=lambda: (root / "a.txt").write_text("changed"))
    await folder.hears(b, make=lambda: (root / "sub" / "b.txt").write_text("changed"))
    await folder.hears(LIST, new, make=lambda: (root / "new one.txt").write_text("new"))
    await folder.hears(LIST, a, make=(root / "a.txt").unlink)


async def test_a_folder_that_is_moved_away_takes_its_files_with_it(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    b = updated("docs://guide/sub/b.txt")
    folder.want(LIST, b, updated("docs://guide/a.txt"))
    await settle()
    away = tmp_path_factory.mktemp("away") / "sub"
    await folder.hears(LIST, b, make=lambda: (folder.root / "sub").rename(away))
    await folder.hears(LIST, b, make=lambda: away.rename(folder.root / "sub"))


async def test_hidden_files_are_not_told_of(folder: Folder) -> None:
    folder.want(LIST, updated("docs://guide/.hidden"), updated("docs://guide/a.txt"))
    await settle()
    (folder.root / ".hidden").write_text("x")
    await folder.hears(
        updated("docs://guide/a.txt"), make=lambda: (folder.root / "a.txt").write_text("changed")
    )


async def test_who_listens_to_the_list_alone_is_told_of_it(folder: Folder) -> None:
    folder.want(LIST)
    await settle()
    await folder.hears(LIST, make=lambda: (folder.root / "new.txt").write_text("new"))


async def test_under_a_prefix_files_are_told_under_their_uris_there(folder: Folder) -> None:
    outer, ear = Server("outer"), Ear()
    outer.include(folder.server, prefix="in")
    folder.changes, folder.ear = Changes.of(outer), ear
    a = updated("docs://in/guide/a.txt")
    folder.want(a)
    await settle()
    await folder.hears(a, make=lambda: (folder.root / "a.txt").write_text("changed"))


async def test_a_folder_that_is_gone_is_told_and_looked_for_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FIRST_DELAY", 0.05)
    a = updated("docs://guide/a.txt")
    folder.want(a, LIST)
    await settle()
    (folder.root / "sub" / "b.txt").unlink()
    (folder.root / "sub").rmdir()
    await folder.hears(a, LIST, make=lambda: [(folder.root / "a.txt").unlink(), folder.root.rmdir()])
    for _ in range(1000):
        if "No path was found" in caplog.text:  # it has looked for the folder in vain
            break
        await asyncio.sleep(0.01)
    folder.root.mkdir()
    folder.ear.heard.clear()
    for number in range(1000):
        if a in folder.ear.heard:
            break
        (folder.root / "a.txt").write_text(str(number))
        await asyncio.sleep(0.01)
    assert a in folder.ear.heard


def test_without_watchfiles_the_author_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RegistrationError, match=r'pip install "mcpkit\[watch\]"'):
        resource_dir(tmp_path, "docs://guide", watch=True)
    assert resource_dir(tmp_path, "docs://guide").watch is None
