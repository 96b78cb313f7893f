"""What a client is given is checked where it is given, and each error says what to change."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpkit import Client, Sampler, Server, TransportError
from mcpkit.client.transports.http.streamable_http import HttpTransport
from tests.helpers.waiting import PATIENCE

pytestmark = pytest.mark.anyio
server = Server("bakery")
URL = "http://127.0.0.1:9/mcp"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"timeout": "soon"}, TypeError, "timeout must be a number of seconds above 0, or None, got 'soon'"),
        ({"max_timeout": 0}, ValueError, "max_timeout must be a number of seconds above 0"),
        ({"connect_timeout": -1}, ValueError, "connect_timeout must be a number of seconds above 0"),
        ({"tries": 0}, ValueError, "tries must be at least 1, got 0"),
        ({"rounds": -1}, ValueError, "rounds must be at least 0, got -1"),
        ({"longest_wait": "long"}, TypeError, "longest_wait must be a number of seconds from 0, got 'long'"),
        ({"elicit": 3}, TypeError, "elicit must be a function of a FormRequest, got 3"),
        ({"elicit_url": "x"}, TypeError, "elicit_url must be a function of a UrlRequest, got 'x'"),
        ({"sample": 3}, TypeError, "sample must be a function of a SampleRequest, or a Sampler, got 3"),
        ({"roots": "/tmp"}, TypeError, "roots= is a list of paths and URIs, not '/tmp'"),
        ({"log": 3}, TypeError, "log must be a function of level, data and the logger's name, got 3"),
        (
            {"trace": "log.txt"},
            TypeError,
            "trace must be a function of `sent` or `came`, and a text, or True, got",
        ),
        ({"telemetry": True}, TypeError, "telemetry must be a ClientTelemetry, got True"),
        ({"timout": 3}, TypeError, "a client has no option timout=; did you mean timeout="),
        ({"elicitt": 3}, TypeError, "a client has no option elicitt=; did you mean elicit="),
        ({"headers": 3}, TypeError, "headers= is a mapping of names and values, not an int"),
    ],
)
def test_an_option_that_is_wrong_is_refused_when_it_is_given(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Client(server, **options)
    with pytest.raises(error, match=message):
        Client({"mcpServers": {"bakery": server, "empty": Server("empty")}}, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"token": 3}, "token must be a function of nothing that returns it, or a string, got 3"),
        ({"headers": {"X-Key": 3}}, "the value of the header X-Key must be a string"),
        ({"http_client": 3}, "http_client must be an httpx2.AsyncClient, got 3"),
    ],
)
def test_an_option_of_a_url_that_is_wrong_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Client(URL, **options)


def test_roots_that_are_wrong_are_refused_when_they_are_set() -> None:
    client = Client(server, roots=["/tmp"])
    with pytest.raises(TypeError, match="roots= is a list of paths and URIs, not 3"):
        client.roots = 3  # type: ignore[assignment]
    assert client.roots == ["/tmp"]
    with pytest.raises(TypeError, match="sample must be a function"):
        Sampler(3)  # type: ignore[arg-type]


async def test_what_is_watched_is_named_by_strings() -> None:
    for wrong in (3, [3]):
        with pytest.raises(TypeError, match=r"watch\(resources=\) takes True, a URI, or URIs, not"):
            Client(server).watch(resources=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"verify": "/no/such.pem"}, FileNotFoundError, "verify='/no/such.pem': there is no such file"),
        ({"cert": "/no/such.pem"}, FileNotFoundError, "cert='/no/such.pem': there is no such file"),
        ({"cert": (__file__, "/no/key.pem")}, FileNotFoundError, "cert='/no/key.pem': there is no such file"),
        ({"verify": __file__}, ValueError, "holds no authorities' certificates: "),
        ({"cert": __file__}, ValueError, "holds no certificate with its key: "),
        ({"verify": 3}, TypeError, "verify must be a path, got 3"),
    ],
)
async def test_files_of_certificates_are_named_where_they_are_wrong(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        async with Client("https://127.0.0.1:9/mcp", **options):
            pass


@pytest.mark.parametrize("proxy", ["garbage", 3, "ftp://proxy"])
def test_a_proxy_is_a_url(proxy: Any) -> None:
    with pytest.raises(ValueError, match="proxy= is the URL of a proxy"):
        Client(URL, proxy=proxy)


def test_a_port_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="perhaps a port up to 65535"):
        HttpTransport("http://localhost:99999/mcp")


@pytest.mark.parametrize(
    ("options", "environment", "said"),
    [
        ({"proxy": "http://127.0.0.1:9"}, {}, "by the proxy that proxy= names: "),
        (
            {},
            {"http_proxy": URL},
            r"by the proxy that the environment names \(http_proxy; trust_env=False goes without",
        ),
        ({}, {"http_proxy": URL, "no_proxy": "server.invalid"}, "to http://server.invalid: "),
        ({"trust_env": False}, {"http_proxy": URL}, "to http://server.invalid: "),
    ],
)
async def test_a_connection_that_fails_names_the_proxy_on_the_way(
    options: dict[str, Any], environment: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TransportError, match=said):
        async with Client("http://server.invalid/mcp", tries=1, **options):
            pass


async def test_a_server_without_tls_is_told_apart() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        client = Client(f"https://127.0.0.1:{port}/mcp", connect_timeout=PATIENCE)
        with pytest.raises(TransportError, match=r"it may speak http://, and not https://"):
            await client.__aenter__()
