"""A local server with the format of the National Weather Service's API, and with switches for failures."""

import importlib
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from urllib.parse import unquote

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "weather"


@dataclass
class Answer:
    """The response of the service at a path."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    is_cut: bool = False
    is_silent: bool = False


class Service(ThreadingHTTPServer):
    """Answers from the example's sample data, but at a path in `answers` with what stands there.

    It keeps what was asked in `requests`: paths and headers.
    """

    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, Answer] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.is_over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    def answer(self, path: str) -> Answer:
        if path in self.answers:
            return self.answers[path]
        file = EXAMPLE / "sample" / f"{path.strip('/').replace('?', '/')}.json"
        if file.is_file():
            return Answer(200, file.read_bytes())
        return Answer(404, b'{"title": "Not Found", "status": 404}')


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_GET(self) -> None:
        path = unquote(self.path)
        self.server.requests.append((path, dict(self.headers)))
        answer = self.server.answer(path)
        if answer.is_silent:
            self.server.is_over.wait()
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/geo+json")
        self.send_header("Content-Length", str(len(answer.body) + answer.is_cut))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """The local service; no proxy stands before it."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Service() as service:
        thread = threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield service
        service.is_over.set()
        service.shutdown()
        thread.join()


class Example(NamedTuple):
    """The modules of the example."""

    nws: ModuleType
    places: ModuleType
    plot: ModuleType
    server: ModuleType


@pytest.fixture(scope="package")
def example() -> Iterator[Example]:
    """The example, imported as `python server.py` imports it; the URL of the real API is out of its reach."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.delenv("WEATHER_API_URL", raising=False)
        monkeypatch.syspath_prepend(EXAMPLE)
        for name in Example._fields:  # others have a module of that name, too
            monkeypatch.delitem(sys.modules, name, raising=False)
        try:
            yield Example(*(importlib.import_module(name) for name in Example._fields))
        finally:
            for name in Example._fields:
                del sys.modules[name]


@pytest.fixture
def environment(service: Service) -> dict[str, str]:
    """The environment of a weather server that asks the local service."""
    return {**os.environ, "WEATHER_API_URL": service.url, "no_proxy": "127.0.0.1"}
