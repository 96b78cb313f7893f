"""`server.run("http")`: uvicorn, as it is told to be."""

from __future__ import annotations

import logging
import re
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from mcpkit import Server
from tests.helpers.serving import Served


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[uvicorn.Config]:
    """What uvicorn has been started with."""
    configs: list[uvicorn.Config] = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets=None: configs.append(self.config))
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


def test_it_says_that_it_is_one_process_whatever_the_environment_wants(
    started: list[uvicorn.Config], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "3")
    logging.getLogger("uvicorn.error").addHandler(caplog.handler)
    Server("one").run("http", uvicorn={"log_config": None})
    logging.getLogger("uvicorn.error").removeHandler(caplog.handler)
    assert "WEB_CONCURRENCY=3 is not used" in caplog.text
    assert "`uvicorn module:app`, which does" in caplog.text
    assert [config.workers for config in started] == [1]


def test_the_longest_line_is_for_stdio() -> None:
    with pytest.raises(ValueError, match=r'run\("sse"\) has no max_line; the longest message is max_body'):
        Server("s").run("sse", max_line=1024)


def test_it_listens_where_it_is_told_to(started: list[uvicorn.Config]) -> None:
    Server("open").run("http", host="0.0.0.0", port=9000, uvicorn={"log_level": "warning"})
    assert [(config.host, config.port, config.log_level) for config in started] == [
        ("0.0.0.0", 9000, "warning")
    ]


def test_streamable_http_is_understood(started: list[uvicorn.Config]) -> None:
    Server("named").run("streamable-http", port=9000)
    assert [config.port for config in started] == [9000]


SAYS_WHERE = """
import sys
from mcpkit import Server

Server("said").run("http", **eval(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"port": 0}, r"MCP is served at (http://127\.0\.0\.1:(?!0)\d+/mcp)\n"),
        ({"port": 0, "path": "/api/mcp"}, r"MCP is served at (http://127\.0\.0\.1:(?!0)\d+/api/mcp)\n"),
        ({"port": 0, "host": "::1"}, r"MCP is served at (http://\[::1\]:(?!0)\d+/mcp)\n"),
        ({"port": 0, "host": "0.0.0.0"}, r"MCP is served at (http://127\.0\.0\.1:(?!0)\d+/mcp)\n"),
    ],
    ids=str,
)
def test_it_says_where_the_endpoint_is(options: dict[str, Any], said: str) -> None:
    if options.get("host") == "::1":
        needs_ipv6()
    with Served([sys.executable, "-c", SAYS_WHERE, repr(options)]) as served:
        served.wait_for("MCP is served at")
        served.wait_for("\n", times=5)
        found = re.search(said, served.notes)
        assert found is not None, served.notes
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(found[1], timeout=30)
        with caught.value:
            assert b"jsonrpc" in caught.value.read()
        served.stop()


@pytest.mark.slow
def test_it_says_where_its_clients_reach_it() -> None:
    options = {"port": 0, "public_url": "https://example.com/said/mcp"}
    with Served([sys.executable, "-c", SAYS_WHERE, repr(options)]) as served:
        served.wait_for("https://example.com/said/mcp")
        served.stop()


@pytest.mark.slow
def test_on_a_socket_there_is_a_path_and_no_port(tmp_path: Path) -> None:
    options = {"uvicorn": {"uds": str(tmp_path / "s")}}
    with Served([sys.executable, "-c", SAYS_WHERE, repr(options)]) as served:
        served.wait_for(f"MCP is served at /mcp, on the socket {tmp_path / 's'}")
        served.stop()


def needs_ipv6() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
