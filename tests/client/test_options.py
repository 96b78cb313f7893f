"""Options of clients and transports, checked where they are given."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Client, ClientGroup, Retries, Server, Timeout
from mcpkit.client.transports.http.streamable_http import HttpTransport
from mcpkit.client.transports.processes.stdio import StdioTransport
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio

server = Server("bakery")
URL = "http://127.0.0.1:9/mcp"


@each_row(("options", "error", "message"), [
    ({"timeout": "soon"}, TypeError, "must be a number of seconds above 0, or None, got 'soon'"),
    ({"retries": 3}, TypeError, r"retries must be Retries\(...\), got 3"),
    ({"attempts": 3}, TypeError, r"Write retries=Retries\(attempts=...\)"),
    ({"connect": 3}, TypeError, r"Write timeout=Timeout\(connect=...\)"),
    ({"elicitation_handler": 3}, TypeError, "elicitation_handler must be a function of a FormRequest, got 3"),
    ({"url_elicitation_handler": "x"}, TypeError, "url_elicitation_handler must be a function of a UrlRequest"),
    ({"sampling_handler": 3}, TypeError, "sampling_handler must be a function of a SampleRequest, or a SamplingH"),
    ({"roots": "/tmp"}, TypeError, "roots= must be a list of paths and URIs, got '/tmp'"),
    ({"log_handler": 3}, TypeError, "log_handler must be a function of level, data and the logger's name, got 3"),
    ({"trace": "log.txt"}, TypeError, r"trace must be a function of a direction .* and a string, or True, got"),
    ({"telemetry": True}, TypeError, "telemetry must be a ClientTelemetry, got True"),
    ({"timout": 3}, TypeError, "has no option 'timout'. Did you mean 'timeout'"),
    ({"elicitation_handlr": 3}, TypeError, "Did you mean 'elicitation_handler'"),
    ({"headers": 3}, TypeError, "headers= must be a mapping of names to values, got an int"),
])  # fmt: skip
def test_client_option_invalid_is_error(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Client(server, **options)
    with pytest.raises(error, match=message):
        ClientGroup({"mcpServers": {"bakery": server, "empty": Server("empty")}}, **options)


@each_row(("make", "error", "message"), [
    (lambda: Timeout(total=0), ValueError, "must be a number of seconds above 0"),
    (lambda: Timeout(connect=-1), ValueError, "must be a number of seconds above 0"),
    (lambda: Timeout(respons=1), TypeError, "Did you mean 'response'"),
    (lambda: Retries(attempts=0), ValueError, "must be at least 1, got 0"),
    (lambda: Retries(rounds=-1), ValueError, "must be at least 0, got -1"),
    (lambda: Retries(max_delay="long"), TypeError, "must be a number of seconds of at least 0, got 'long'"),
])  # fmt: skip
def test_client_option_group_invalid_is_error(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


SECRET = "very-secret"


@each_row("url", [
    "example.com/mcp", "ftp://example.com", "http://", "", "http://u:very-secret/x@b", "http://[x",
])  # fmt: skip
def test_http_url_invalid_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must begin with http://") as caught:
        HttpTransport(url)
    assert SECRET not in str(caught.value)


@each_row(("options", "message"), [
    ({"headers": {"a b": "x"}}, "not a valid header name"),
    ({"headers": {"": "x"}}, "not a valid header name"),
    ({"headers": {"x": f"{SECRET}\r\nY: 1"}}, "value of the header x"),
    ({"headers": {"x": f" {SECRET}"}}, "value of the header x"),
    ({"headers": {"x": f"{SECRET}\u20ac"}}, "value of the header x"),
    ({"token": f"{SECRET}\n"}, "token"),
    ({"headers": {"Mcp-Session-Id": "x"}}, "set by the transport"),
    ({"headers": {"content-type": "x"}}, "set by the transport"),
    ({"token": SECRET, "headers": {"authorization": "x"}}, "pass only one of"),
    ({"token": SECRET, "auth": ("a", "b")}, "pass only one of"),
    ({"http_client": object(), "verify": False}, "cannot be combined"),
    ({"app": object(), "proxy": "http://a"}, "cannot be combined"),
    ({"app": object(), "http_client": object()}, "Pass one of them"),
    ({"connect_timeout": 0}, "connect_timeout"),
    ({"max_answer": 0}, "max_answer"),
])  # fmt: skip
def test_http_transport_option_invalid_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        HttpTransport("http://127.0.0.1/mcp", **options)
    assert SECRET not in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@each_row(("command", "options", "error", "words"), [
    ("python server.py", {}, TypeError, "sequence of strings"),
    ([Path("server.py")], {}, TypeError, "sequence of strings"),
    ([], {}, ValueError, "Name the program"),
    (["python\0"], {}, ValueError, "null"),
    (["python"], {"max_answer": 0}, ValueError, "max_answer"),
    (["python"], {"max_answer": "1"}, TypeError, "max_answer"),
    (["python"], {"grace": -1}, ValueError, "grace"),
    (["python"], {"stderr": 1}, ValueError, "stderr"),
    (["python"], {"stderr": "log.txt"}, TypeError, "stderr"),
    (["python"], {"env": {"A": 1}}, TypeError, "env"),
    (["python"], {"env": {"A": "\0"}}, ValueError, "null"),
    (["python"], {"env": {"A=B": ""}}, ValueError, "env"),
])  # fmt: skip
async def test_stdio_option_invalid_is_refused(
    command: Any, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        StdioTransport(command, **options)


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"verify": "/no/such.pem"}, FileNotFoundError, "verify='/no/such.pem': the file does not exist"),
    ({"cert": "/no/such.pem"}, FileNotFoundError, "cert='/no/such.pem': the file does not exist"),
    ({"cert": (__file__, "/no/key.pem")}, FileNotFoundError, "cert='/no/key.pem': the file does not exist"),
    ({"verify": __file__}, ValueError, "contains no certificates of authorities: "),
    ({"cert": __file__}, ValueError, "contains no certificate with its private key: "),
    ({"verify": 3}, TypeError, "verify must be a path, got 3"),
])  # fmt: skip
async def test_certificate_files_are_checked(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        async with Client("https://127.0.0.1:9/mcp", **options):
            pass
