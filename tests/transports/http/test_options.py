"""What an author may write as options of the HTTP app, and what he is told else."""

from __future__ import annotations

import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import docstring_parser
import pytest
from starlette.testclient import TestClient

from mcpkit import RegistrationError, Server
from mcpkit.transports.http.options import OPTIONS, Settings


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"pth": "/x"}, TypeError, "no option 'pth'; did you mean 'path'"),
        ({"allowed_host": ["x"]}, TypeError, "did you mean 'allowed_hosts'"),
        ({"zzz": 1}, TypeError, "no option 'zzz'; there are path, sse,"),
        ({"path": "mcp"}, ValueError, "path must begin with a slash"),
        ({"path": None}, TypeError, "path must be a path such as '/path', got None"),
        ({"health": 1}, TypeError, "health must be a path such as '/health', got 1"),
        ({"stateless": "yes"}, TypeError, "stateless must be True or False, got 'yes'"),
        ({"sse": None}, TypeError, "sse must be True or False, got None"),
        ({"cors": 1}, TypeError, "cors must be True or False, got 1"),
        ({"max_body": "4m"}, TypeError, "max_body must be a whole number of bytes, such as 4 . 1024"),
        ({"max_body": 0}, ValueError, "max_body must be at least 1, got 0"),
        ({"max_sessions": 1.5}, TypeError, "max_sessions must be a whole number such as 10_000, got 1.5"),
        ({"max_streams": True}, TypeError, "max_streams must be a whole number"),
        ({"max_kept": "4m"}, TypeError, "max_kept must be a whole number of bytes, such as 4 . 1024"),
        ({"max_kept": -1}, ValueError, "max_kept must be at least 0, got -1"),
        ({"keep_alive": "15s"}, TypeError, "keep_alive must be a number of seconds above 0, got '15s'"),
        ({"keep_alive": 0}, ValueError, "keep_alive must be a number of seconds above 0, got 0"),
        ({"session_ttl": None}, TypeError, "session_ttl must be a number of seconds above 0, got None"),
        ({"session_max_age": float("inf")}, ValueError, "session_max_age must be a number of seconds"),
        ({"body_timeout": float("nan")}, ValueError, "body_timeout must be a number of seconds"),
        ({"grace": -1}, ValueError, "grace must be a number of seconds from 0, or None, got -1"),
        ({"stream_after": "soon"}, TypeError, "stream_after must be a number of seconds from 0, or None"),
        (
            {"allowed_hosts": "example.com"},
            ValueError,
            r"allowed_hosts must be a list such as \['example.com'\]",
        ),
        (
            {"allowed_hosts": None},
            TypeError,
            r"allowed_hosts must be a list such as \['example.com'\], got None",
        ),
        (
            {"allowed_origins": [1]},
            TypeError,
            "allowed_origins must be a list of texts such as 'https://exam",
        ),
        ({"public_url": 1}, TypeError, "public_url must be text such as 'https://example.com/mcp', got 1"),
        ({"public_url": "https://example.com:99999"}, ValueError, "Port out of range 0-65535"),
        ({"path": "/sse"}, ValueError, "path='/sse' is a path of sse=True"),
        ({"path": "/messages/"}, ValueError, "path='/messages/' is a path of sse=True"),
        ({"health": "/mcp/"}, ValueError, "health='/mcp/' would never be reached, as path='/mcp' serves"),
        ({"health": "/sse"}, ValueError, "health='/sse' would never be reached, as sse=True serves"),
        ({"path": "/", "health": "/"}, ValueError, "health='/' would never be reached, as path='/' serves"),
    ],
)
def test_a_wrong_option_is_told_what_to_write(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        Server("s").asgi(**options)


def test_each_option_has_a_check_and_the_default_that_is_shown() -> None:
    shown = inspect.signature(Server("s").asgi).parameters
    settings = Settings()
    assert shown.keys() == OPTIONS.keys()
    for name in shown:
        with pytest.raises(TypeError, match=f"^{name} must be "):
            Settings(**{name: object()})
        if name != "stream_after":  # where None depends on whether there is a session
            assert getattr(settings, name) == shown[name].default


def test_what_runs_the_app_has_the_options_of_the_app() -> None:
    app, run = (inspect.signature(function).parameters for function in (Server.asgi, Server.run))
    meanings = [
        {
            each.arg_name: each.description
            for each in docstring_parser.parse(inspect.getdoc(function) or "").params
        }
        for function in (Server.asgi, Server.run)
    ]
    assert run.keys() - app.keys() == {"transport", "host", "port", "uvicorn", "max_line"}
    for name in app.keys() - {"self", "principal", "grace"}:  # which stdio has as well
        assert run[name] == app[name]
        assert meanings[0][name] == meanings[1][name]


def test_none_and_zero_are_right_where_they_mean_something() -> None:
    app = Server("s").asgi(public_url=None, health=None, stream_after=0, grace=0)
    assert (app.settings.stream_after, app.settings.stream_after_in_session, app.settings.grace) == (0, 0, 0)
    app = Server("s").asgi(stream_after=None, grace=None, sse=False, path="/sse")
    assert (app.settings.stream_after, app.settings.stream_after_in_session) == (10, 1)


@pytest.mark.parametrize("secret", ["", "short"])
def test_a_wrong_secret_in_the_environment_is_told_before_anything_is_served(
    secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPKIT_SECRET", secret)
    with pytest.raises(ValueError, match="MCPKIT_SECRET must have at least 16 bytes: make one with"):
        Server("s").asgi()


def test_an_app_is_mounted_before_and_after_the_first_event():
    outer, first, second = (Server(name).asgi() for name in ("outer", "first", "second"))
    outer.mount("/first", first)
    with pytest.raises(RegistrationError, match="such as '/other', got 'second'"):
        outer.mount("second", second)
    client = TestClient(outer, base_url="http://127.0.0.1:8000")
    assert client.get("/first/mcp").status_code == 400
    outer.mount("/second", second)
    assert client.get("/second/mcp").status_code == 400
    assert client.get("/third/mcp").status_code == 404


def test_event_loops_of_several_threads_share_one_door():
    app = Server("s").asgi()
    threads = 8
    gate = threading.Barrier(threads)

    def enter() -> object:
        gate.wait()
        return app.door()

    with ThreadPoolExecutor(threads) as pool:
        doors = {future.result() for future in [pool.submit(enter) for _ in range(threads)]}
    assert len(doors) == 1
