"""`server.run("http")`: uvicorn, as it is told to be."""

from __future__ import annotations

from typing import Any

import pytest
import uvicorn

from mcpkit import Server


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[uvicorn.Config]:
    """What uvicorn has been started with."""
    configs: list[uvicorn.Config] = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda self: configs.append(self.config))
    return configs


@pytest.mark.parametrize("transport", ["http", "sse"])
def test_it_listens_on_this_machine_alone(transport: Any, started: list[uvicorn.Config]) -> None:
    Server("local").run(transport)
    assert [(config.host, config.port) for config in started] == [("127.0.0.1", 8000)]


@pytest.mark.parametrize(("asked", "flag"), [({"workers": 3}, "--workers 3"), ({"reload": True}, "--reload")])
def test_it_says_how_several_processes_are_started(
    asked: dict[str, Any], flag: str, started: list[uvicorn.Config]
) -> None:
    with pytest.raises(ValueError, match=f"`uvicorn module:app {flag}`"):
        Server("several").run("http", uvicorn=asked)
    Server("one").run("http", uvicorn={"workers": 1, "reload": False})
    assert len(started) == 1


def test_the_longest_line_is_for_stdio() -> None:
    with pytest.raises(ValueError, match=r'run\("sse"\) has no max_line; the longest message is max_body'):
        Server("s").run("sse", max_line=1024)


def test_it_listens_where_it_is_told_to(started: list[uvicorn.Config]) -> None:
    Server("open").run("http", host="0.0.0.0", port=9000, uvicorn={"log_level": "warning"})
    assert [(config.host, config.port, config.log_level) for config in started] == [
        ("0.0.0.0", 9000, "warning")
    ]
