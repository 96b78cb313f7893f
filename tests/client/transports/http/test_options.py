"""What may be said of requests to a URL: who asks, by which way, and how the server is known."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcpkit import AuthorizationError, Client, StatusError, TransportError
from mcpkit.client.transports.http.streamable_http import HttpTransport
from tests.helpers.certificates import Authority
from tests.helpers.scripted_http import Asked, Reply, Script, greeting, scripted, text

pytestmark = pytest.mark.anyio

SECRET = "very-secret"


async def done(asked: Asked, reply: Reply) -> None:
    await reply.result(text("done"))


async def requests(url: Callable[[str], str] = str, **options: Any) -> list[Asked]:
    """Return the requests of one call: those that discover the server, list its tools and call one."""
    async with scripted(greeting(done)) as server:
        async with Client(HttpTransport(url(server.url), **options)) as client:
            assert (await client.call("bake")).text == "done"
        return server.asked


# Who asks


async def test_headers_are_sent_with_each_request() -> None:
    asked = await requests(headers={"X-Region": "north", "User-Agent": "mine"})
    assert {(each.headers["x-region"], each.headers["user-agent"]) for each in asked} == {("north", "mine")}


async def test_the_client_says_what_it_is() -> None:
    assert all(each.headers["user-agent"].startswith("mcpkit/") for each in await requests())


async def later() -> str:
    return SECRET


@pytest.mark.parametrize("token", [SECRET, lambda: SECRET, later])
async def test_a_token_is_sent(token: Any) -> None:
    assert {each.headers["authorization"] for each in await requests(token=token)} == {f"Bearer {SECRET}"}


async def test_a_function_gives_each_request_its_token() -> None:
    tokens = iter("abcdef")
    asked = await requests(token=lambda: next(tokens))
    assert [each.headers["authorization"] for each in asked] == ["Bearer a", "Bearer b", "Bearer c"]


BASIC = "Basic dXNlcjpwOndvcmQ="


@pytest.mark.slow
async def test_a_user_in_the_url_is_sent_by_basic_authentication() -> None:
    asked = await requests(lambda url: url.replace("http://", "http://user:p%3Aword@"))
    assert {each.headers["authorization"] for each in asked} == {BASIC}
    assert {each.headers["host"].partition(":")[0] for each in asked} == {"127.0.0.1"}


async def test_authentication_of_httpx2_is_used() -> None:
    assert {each.headers["authorization"] for each in await requests(auth=("user", "p:word"))} == {BASIC}

    class Twice(httpx2.Auth):
        def auth_flow(self, request: httpx2.Request) -> Any:
            response = yield request
            if response.status_code == 401:
                request.headers["Authorization"] = SECRET
                yield request

    async def script(asked: Asked, reply: Reply) -> None:
        await (greeting(done)(asked, reply) if "authorization" in asked.headers else reply.send(401))

    async with scripted(script) as server, Client(HttpTransport(server.url, auth=Twice())) as client:
        assert (await client.call("bake")).text == "done"


async def test_the_query_of_the_url_is_sent_and_its_fragment_is_not() -> None:
    assert {each.target for each in await requests(lambda url: f"{url}/x?key=1&a=b#there")} == {
        "/mcp/x?key=1&a=b"
    }


async def test_cookies_of_the_server_come_back() -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.result(text(asked.headers.get("cookie", "")), {"Set-Cookie": "machine=3; Path=/"})

    async with scripted(greeting(script)) as server, Client(HttpTransport(server.url)) as client:
        assert (await client.call("bake")).text == ""
        assert (await client.call("bake")).text == "machine=3"


@pytest.mark.slow
async def test_cookies_do_not_become_ever_more() -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        cookies = asked.headers.get("cookie", "").split(";")
        await reply.result(text(str(len(cookies))), {"Set-Cookie": f"c{len(server.asked)}=1; Path=/"})

    async with scripted(greeting(script)) as server, Client(HttpTransport(server.url)) as client:
        counts = [int((await client.call("bake")).text) for _ in range(120)]
    assert max(counts) == 50


# Redirects


def leads_to(where: str, status: int = 307) -> Script:
    async def script(asked: Asked, reply: Reply) -> None:
        if asked.target == "/mcp":
            await reply.send(status, b"it has moved", {"Location": where})
        else:
            await greeting(done)(asked, reply)

    return script


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_within_the_origin_is_followed(status: int) -> None:
    async with scripted(leads_to("/mcp/", status)) as server:
        async with Client(HttpTransport(server.url, token=SECRET)) as client:
            assert (await client.call("bake")).text == "done"
        assert {each.headers["authorization"] for each in server.asked} == {f"Bearer {SECRET}"}
        assert server.connections == 1


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("credentials", [{}, {"token": SECRET}])
async def test_a_redirect_to_another_origin_is_not(status: int, credentials: dict[str, str]) -> None:
    async with scripted(greeting(done)) as other:
        elsewhere = f"{other.url}?code={SECRET}"
        async with scripted(leads_to(elsewhere, status)) as server:
            with pytest.raises(StatusError, match="not followed") as caught:
                await Client(HttpTransport(server.url, **credentials)).__aenter__()
        assert other.asked == []
    assert other.url in str(caught.value)
    assert SECRET not in str(caught.value)
    assert not caught.value.may_have_begun


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_redirect_that_would_lose_the_message_is_not_followed(status: int) -> None:
    async with scripted(leads_to("/mcp/", status)) as server:
        with pytest.raises(StatusError, match="redirect to '/mcp/', which is not followed"):
            await Client(HttpTransport(server.url)).__aenter__()


@pytest.mark.parametrize(
    "where", ["", "http://[broken", "https://127.0.0.1/", "http://user@127.0.0.1/x", "http:////["]
)
async def test_redirects_to_nowhere_are_errors(where: str) -> None:
    async with scripted(leads_to(where)) as server:
        with pytest.raises(TransportError):
            await Client(HttpTransport(server.url)).__aenter__()


async def test_redirects_in_circles_are_an_error() -> None:
    async with scripted(leads_to("/mcp")) as server:
        with pytest.raises(TransportError, match="circles"):
            await Client(HttpTransport(server.url)).__aenter__()


# TLS and proxies


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def serving_tls(authority: Authority, *, asks: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.certificate("server"))
    if asks:
        context.load_verify_locations(authority.file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def call_tls(server_tls: ssl.SSLContext, **options: Any) -> None:
    async with (
        scripted(greeting(done), tls=server_tls) as server,
        Client(HttpTransport(server.url, **options)) as client,
    ):
        assert (await client.call("bake")).text == "done"


async def test_a_certificate_of_nobody_that_is_known_is_an_error_that_says_what_to_do(
    authority: Authority,
) -> None:
    with pytest.raises(TransportError, match=r"certificate.*verify=") as caught:
        await call_tls(serving_tls(authority))
    assert not caught.value.may_have_begun


async def test_authorities_may_be_named(authority: Authority) -> None:
    tls = serving_tls(authority)
    await call_tls(tls, verify=authority.file)
    await call_tls(tls, verify=str(authority.file))
    await call_tls(tls, verify=ssl.create_default_context(cafile=authority.file))
    await call_tls(tls, verify=False)


async def test_authorities_may_be_a_folder(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    with pytest.raises(TransportError, match="certificate"):
        await call_tls(serving_tls(authority), verify=tmp_path / "here")


async def test_the_environment_names_authorities(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    await call_tls(serving_tls(authority))
    with pytest.raises(TransportError, match="certificate"):
        await call_tls(serving_tls(authority), trust_env=False)


async def test_the_client_shows_its_certificate(authority: Authority, tmp_path: Path) -> None:
    tls = serving_tls(authority, asks=True)
    certificate, key = authority.certificate("client")
    both = tmp_path / "both.pem"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    locked, locked_key = authority.certificate("locked", password=SECRET)
    await call_tls(tls, verify=authority.file, cert=(certificate, key))
    await call_tls(tls, verify=authority.file, cert=both)
    await call_tls(tls, verify=authority.file, cert=(str(locked), str(locked_key), SECRET))
    with pytest.raises(TransportError):
        await call_tls(tls, verify=authority.file)


async def test_a_file_that_is_not_there_is_an_error_when_it_is_opened(authority: Authority) -> None:
    with pytest.raises(OSError, match="no such file") as caught:
        await Client(HttpTransport("https://127.0.0.1:9/", verify="/nowhere.pem")).__aenter__()
    assert not isinstance(caught.value, TransportError)


@pytest.mark.parametrize("by_environment", [True, False])
async def test_a_proxy_is_asked(by_environment: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(greeting(done)) as proxy:
        options = {}
        if by_environment:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
        else:
            options["proxy"] = proxy.url.replace("http://", f"http://me:{SECRET}@")
        async with Client(HttpTransport("http://server.example/mcp?x=1", **options)) as client:
            assert (await client.call("bake")).text == "done"
        assert {asked.target for asked in proxy.asked} == {"http://server.example/mcp?x=1"}
        assert all(("proxy-authorization" in asked.headers) is not by_environment for asked in proxy.asked)


@pytest.mark.parametrize("options", [{"trust_env": False}, {}])
async def test_a_proxy_of_the_environment_may_be_passed_over(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    if not options:
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert await requests(**options)


async def test_a_proxy_that_refuses_is_an_error() -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        assert asked.method == "CONNECT"
        await reply.send(407)

    async with scripted(script) as proxy:
        with pytest.raises(
            TransportError, match=r"proxy on the way to https://server.example.*407"
        ) as caught:
            await Client(HttpTransport("https://server.example/", proxy=proxy.url)).__aenter__()
    assert not caught.value.may_have_begun


# Mistakes, and what is never shown


@pytest.mark.parametrize(
    "url",
    [
        "example.com/mcp",
        "ftp://example.com",
        "http://",
        "/mcp",
        "",
        "ws://a/b",
        "http://u:very-secret/x@b",
        "http://[x",
    ],
)
def test_what_is_no_url_of_http_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="begins with http://") as caught:
        HttpTransport(url)
    assert SECRET not in str(caught.value)


async def test_a_url_that_httpx2_cannot_read_is_refused_when_it_is_opened() -> None:
    with pytest.raises(ValueError, match="begins with http://"):
        await Client(HttpTransport(f"http://a/{'x' * 70_000}")).__aenter__()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"headers": {"a b": "x"}}, "no name of a header"),
        ({"headers": {"": "x"}}, "no name of a header"),
        ({"headers": {"x": f"{SECRET}\r\nY: 1"}}, "value of x"),
        ({"headers": {"x": f" {SECRET}"}}, "value of x"),
        ({"headers": {"x": f"{SECRET}\u20ac"}}, "value of x"),
        ({"token": f"{SECRET}\n"}, "token"),
        ({"headers": {"Mcp-Session-Id": "x"}}, "set by the transport"),
        ({"headers": {"content-type": "x"}}, "set by the transport"),
        ({"token": SECRET, "headers": {"authorization": "x"}}, "give one of them"),
        ({"token": SECRET, "auth": ("a", "b")}, "give one of them"),
        ({"http_client": object(), "verify": False}, "makes itself"),
        ({"app": object(), "proxy": "http://a"}, "makes itself"),
        ({"app": object(), "http_client": object()}, "give one of them"),
        ({"connect_timeout": 0}, "connect_timeout"),
        ({"max_answer": 0}, "max_answer"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        HttpTransport("http://127.0.0.1/mcp", **options)
    assert SECRET not in str(caught.value)


async def test_secrets_are_never_shown() -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.send(401)

    async with scripted(script) as server:
        url = server.url.replace("http://", f"http://user:{SECRET}@") + f"/{SECRET}?key={SECRET}#{SECRET}"
        transport = HttpTransport(url, headers={"X-Key": SECRET})
        assert SECRET not in repr(transport)

        with pytest.raises(AuthorizationError) as caught:
            await Client(transport).__aenter__()
    with pytest.raises(TransportError) as away:
        await Client(HttpTransport(url, headers={"X-Key": SECRET})).__aenter__()
    assert SECRET not in f"{caught.value!r}{caught.value}{away.value!r}{away.value}"
