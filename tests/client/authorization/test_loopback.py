"""A login by the browser of this machine: the page is shown, and whoever comes back to the port has logged in."""

from __future__ import annotations

import asyncio
import socket
import threading
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from mcpkit.client.authorization.errors import AuthorizationFailedError
from mcpkit.client.authorization.loopback import Loopback
from tests.helpers.waiting import over, until

pytestmark = pytest.mark.anyio

STATE = "s" * 32
PAGE = "https://id.example.com/authorize"


def coming_back(uri: str) -> str:
    return f"{uri}?{urlencode({'code': 'c', 'state': STATE})}"


async def test_a_plain_function_shows_the_page_and_may_wait_for_the_browser() -> None:
    shown: list[tuple[str, str]] = []

    def browse(url: str) -> None:
        with urlopen(coming_back(landing.redirect_uri), timeout=30) as answer:
            shown.append((url, answer.read().decode()))

    async with Loopback(open_browser=browse).landing() as landing:
        assert await landing.visit(PAGE, STATE) == {"code": "c", "state": STATE}
    assert shown[0][0] == PAGE
    assert "You can close this page" in shown[0][1]


async def test_an_async_function_shows_the_page() -> None:
    async def browse(url: str) -> None:
        assert url == PAGE
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", landing.redirect_uri.split(":")[2].split("/")[0]
        )
        target = coming_back(landing.redirect_uri).removeprefix(landing.redirect_uri)
        host = landing.redirect_uri.split("/")[2]
        writer.write(f"GET /callback{target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        await reader.read()
        writer.close()

    async with Loopback(open_browser=browse).landing() as landing:
        assert (await landing.visit(PAGE, STATE))["code"] == "c"


async def test_nobody_coming_back_is_said_after_the_time() -> None:
    async with Loopback(timeout=0.01, open_browser=lambda _: None).landing() as landing:
        with pytest.raises(
            AuthorizationFailedError, match=r"come back from the login page within 0\.01 s"
        ) as raised:
            await landing.visit(PAGE, STATE)
    assert raised.value.may_pass


async def test_a_browser_that_fails_says_so_itself() -> None:
    def browse(_: str) -> None:
        raise RuntimeError("no window")

    async with Loopback(open_browser=browse).landing() as landing:
        with pytest.raises(RuntimeError, match="no window"):
            await landing.visit(PAGE, STATE)


@pytest.mark.parametrize("page", ["file:///etc/passwd", "https://id.example.com/ -x", "calc.exe"])
async def test_what_is_no_page_is_shown_to_nobody(page: str) -> None:
    shown: list[str] = []
    async with Loopback(open_browser=shown.append).landing() as landing:
        with pytest.raises(AuthorizationFailedError, match="no URL that a browser may be given"):
            await landing.visit(page, STATE)
    assert not shown


async def test_a_registered_redirect_uri_is_waited_at_where_its_port_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free, socket.create_server(("127.0.0.1", 0)) as taken:
        ports = [free.getsockname()[1], taken.getsockname()[1]]
        free.close()
        right = f"http://127.0.0.1:{ports[0]}/done"
        registered = ["https://app.example.com/done", f"http://127.0.0.1:{ports[1]}/done", right]
        async with Loopback().landing(registered) as landing:
            assert landing.redirect_uri == right
        async with Loopback().landing(registered[:2]) as landing:
            assert landing.redirect_uri not in registered
            assert landing.redirect_uri.endswith("/callback")
        async with Loopback().landing(["http://localhost/done"]) as landing:
            assert landing.redirect_uri.startswith("http://localhost:")
        async with Loopback(port=ports[0], path="/own").landing(registered) as landing:
            assert landing.redirect_uri == f"http://127.0.0.1:{ports[0]}/own"
        with pytest.raises(
            AuthorizationFailedError, match=f"cannot wait for the end of a login at .*:{ports[1]}/"
        ):
            async with Loopback(port=ports[1]).landing():
                pass


async def test_a_login_that_is_given_up_leaves_nothing() -> None:
    before, tasks = threading.active_count(), asyncio.all_tasks()
    uris: list[str] = []

    async def browse(_: str) -> None:
        uris.append(landing.redirect_uri)

    async def log_in() -> None:
        nonlocal landing
        async with Loopback(open_browser=browse).landing() as landing:
            await landing.visit(PAGE, STATE)

    landing = None  # type: ignore[assignment]  # until the block is entered
    task = asyncio.ensure_future(log_in())
    await until(lambda: uris)
    await over(task)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(uris[0].split(":")[2].split("/")[0])))
    assert asyncio.all_tasks() == tasks
    assert threading.active_count() == before


@pytest.mark.parametrize(
    "wrong",
    [{"host": "example.com"}, {"path": "callback"}, {"path": "/a b"}, {"path": "/c?d"}, {"port": 70_000}],
)
def test_what_leads_elsewhere_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="make a redirect URI such as"):
        Loopback(**wrong)  # type: ignore[arg-type]  # each is of the right type


def test_other_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="port must be at least 0"):
        Loopback(port=-1)
    with pytest.raises(ValueError, match="timeout must be a number of seconds above 0"):
        Loopback(timeout=0)
    with pytest.raises(TypeError, match="open_browser must be a function of the URL of a page"):
        Loopback(open_browser="firefox")  # type: ignore[arg-type]  # the mistake
