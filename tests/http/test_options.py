"""What an author may write as options of the HTTP app, and what he is told else."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest

from mcpkit import Server
from mcpkit.transports.http.options import HttpOptions, Settings


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


def test_each_option_has_a_check_and_a_default() -> None:
    assert HttpOptions.__annotations__.keys() == get_type_hints(Settings).keys()
    assert all(hasattr(Settings(), name) for name in HttpOptions.__annotations__)
    for name in HttpOptions.__annotations__:
        with pytest.raises(TypeError, match=f"^{name} must be "):
            Settings(**{name: object()})  # type: ignore[misc]  # each by its name


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
