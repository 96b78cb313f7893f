"""Who asks too much is asked to wait, alone: floods, oversized requests, and what they leave behind."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from mcpkit.auth.proxy.limits import Limits
from mcpkit.state.memory import Memory
from tests.helpers.authority_site import Login
from tests.helpers.two_browsers import EDITOR, EVIL, MCP, Browser, World, logged_in

pytestmark = pytest.mark.anyio

MOST = 600
"""Requests after which a flood must have been stopped."""
METADATA = {"redirect_uris": [EVIL], "token_endpoint_auth_method": "none"}


async def sent(browser: Browser, path: str) -> Any:
    """Send one request of a flood."""
    if path == "/register":
        return await browser.post(path, json=METADATA)
    if path == "/token":
        return await browser.post(path, data={"grant_type": "refresh_token", "refresh_token": "x"})
    if path == "/authorize":
        return await browser.get(path, params={"client_id": "mcpkit-1.nobody"})
    return await browser.get(path, params={"state": "x", "code": "x"})


async def flooded(browser: Browser, path: str) -> int | None:
    """Return after how many requests at once somebody is asked to wait; None where nobody is."""
    for number in range(MOST):
        response = await sent(browser, path)
        assert response.status_code < 500
        if response.status_code == 429:
            assert int(response.headers["retry-after"]) >= 1
            return number
    return None


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/register", "/authorize", "/token", "/callback"])
async def test_a_flood_from_one_address_leaves_others_served(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    async with world.browser(address="198.51.100.1") as attacker, world.browser("ada") as victim:
        assert await flooded(attacker, path) is not None
        for other in ("/register", "/authorize", "/token", "/callback"):
            assert (await sent(victim, other)).status_code != 429
        login = await world.client(EDITOR)
        assert await world.holds(login, await logged_in(world, victim, login)) == "ada"

        async def none(*_: Any, **more: Any) -> None:
            pass

        monkeypatch.setattr(Limits, "refusal", none)
        assert await flooded(attacker, path) is None


async def test_an_ipv6_network_is_one_address() -> None:
    """Else everybody has 2**64 of them."""
    world = World()
    for number in range(MOST):
        async with world.browser(address=f"2001:db8::{number:x}") as attacker:
            if (await sent(attacker, "/register")).status_code == 429:
                break
    else:
        pytest.fail("nobody has been asked to wait")
    async with world.browser(address="2001:db8:1::1") as other:
        assert (await sent(other, "/register")).status_code == 201


async def test_a_forged_address_is_no_other_one() -> None:
    """Headers of proxies that nobody has said are there."""
    world = World()
    async with world.browser(address="198.51.100.1") as attacker:
        for number in range(MOST):
            attacker.headers["X-Forwarded-For"] = f"192.0.2.{number % 250}, 198.51.100.{number % 250}"
            attacker.headers["Forwarded"] = f"for=192.0.2.{number % 250}"
            attacker.headers["X-Real-IP"] = f"192.0.2.{number % 250}"
            if (await sent(attacker, "/register")).status_code == 429:
                return
    pytest.fail("nobody has been asked to wait")


async def test_several_processes_count_together() -> None:
    shared = Memory()
    worlds = [World(shared=shared) for _ in range(4)]
    alone, together = 0, 0
    async with World().browser(address="198.51.100.1") as attacker:
        alone = await flooded(attacker, "/register") or MOST
    browsers = [world.browser(address="198.51.100.1") for world in worlds]
    for number in range(MOST):
        if (await sent(browsers[number % 4], "/register")).status_code == 429:
            together = number
            break
    for browser in browsers:
        await browser.aclose()
    assert 0 < together < 2 * alone


async def kept(shared: Memory) -> list[str]:
    """What is in a store."""
    return [key async for key, _ in shared.items("")]


@pytest.mark.slow
async def test_ten_thousand_registrations_and_pages_leave_the_store_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not counting what counts them, which is bounded by the addresses and ends by itself."""
    shared = Memory()
    world = World(shared=shared)
    before = await kept(shared)
    ids = set()
    for number in range(10_000):
        found = world_registration(world, number)
        ids.add(found["client_id"])
    assert len(ids) == 10_000
    async with world.browser("ada") as browser:
        for number, client_id in enumerate(sorted(ids)[:20]):
            login = Login(client_id, f"https://evil.example/{number}", resource=MCP)
            await browser.get("/authorize", params=login.query)
    assert await kept(shared) == before


def world_registration(world: World, number: int) -> dict[str, Any]:
    """Register a client without the way over HTTP, which would stop the flood."""
    registration = world.auth._serving().authority._registration
    return registration.register({**METADATA, "client_name": f"Client {number}"})


async def test_logins_that_are_begun_and_never_ended_leave_the_store_empty() -> None:
    from tests.helpers.two_browsers import consented

    shared = Memory()
    world = World(shared=shared)
    login = await world.client(EVIL)
    before = await kept(shared)
    for _ in range(5):
        async with world.browser("mallory") as attacker:
            assert (await consented(attacker, login)).status_code == 303
    assert await kept(shared) == before


@pytest.mark.parametrize("size", [40_000, 1_000_000])
async def test_what_is_too_long_is_refused_before_it_is_read(size: int) -> None:
    world = World()
    login = await world.client(EDITOR)
    big = "x" * size
    line = big[:60_000]  # no client sends longer ones
    async with world.browser() as attacker:
        answers = [
            await attacker.get("/authorize", params={**login.query, "state": line}),
            await attacker.get("/authorize", params={**login.query, "client_id": line}),
            await attacker.get("/callback", params={"state": line}),
            await attacker.post("/authorize", data={"request": big}),
            await attacker.post("/token", data={"grant_type": "refresh_token", "refresh_token": big}),
            await attacker.post("/revoke", data={"token": big}),
            await attacker.post("/register", json={**METADATA, "client_name": big}),
            await attacker.post("/register", json={**METADATA, "x": big}),
            await attacker.post("/register", json={"redirect_uris": [f"https://evil.example/{big}"]}),
            await attacker.post("/register", json={"redirect_uris": [EVIL] * 10_000}),
            await attacker.post(
                "/register", content=b"[" * size, headers={"Content-Type": "application/json"}
            ),
        ]
    for response in answers:
        assert response.status_code in {400, 401, 413}, response.url.path
        assert len(response.content) < 20_000
        assert big not in response.text


async def test_a_body_that_does_not_end_holds_up_nobody_else() -> None:
    """A form that is never sent whole: others are served meanwhile."""
    world = World()
    over = asyncio.Event()

    async def endless() -> Any:
        yield b"grant_type=refresh_token&refresh_token="
        await over.wait()

    async with world.browser(address="198.51.100.1") as attacker, world.browser("ada") as victim:
        held = [
            asyncio.create_task(
                attacker.post(
                    "/token",
                    content=endless(),
                    headers={"Content-Type": "application/x-www-form-urlencoded"},
                )
            )
            for _ in range(20)
        ]
        login = await world.client(EDITOR)
        assert await world.holds(login, await logged_in(world, victim, login)) == "ada"
        over.set()
        await asyncio.gather(*held)


@pytest.mark.parametrize("path", ["/authorize", "/token"])
async def test_slow_documents_asked_for_from_one_address_leave_others_served(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some seconds are spent on each document, and some documents are fetched at once: not all for one address."""
    over = asyncio.Event()

    async def answered(request: httpx2.Request) -> httpx2.Response:
        if request.url.host != "editor.example.org":
            await over.wait()
            return httpx2.Response(404)
        said = {"client_id": str(request.url), "client_name": "Editor", "redirect_uris": [EDITOR]}
        return httpx2.Response(200, json=said)

    def client() -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(answered))

    monkeypatch.setattr("mcpkit.auth.authority.public_internet.public_client", client)
    monkeypatch.setattr("mcpkit.auth.authority.client_documents._PATIENCE", 60.0)
    world = World()
    async with world.browser(address="198.51.100.1") as attacker, world.browser("ada") as victim:

        async def ask(number: int) -> httpx2.Response:
            slow = Login(f"https://{number}.slow.example/client.json", EVIL, resource=MCP)
            if path == "/authorize":
                return await attacker.get(path, params=slow.query)
            return await attacker.post(path, data=slow.form("x"))

        held = [asyncio.create_task(ask(number)) for number in range(40)]
        await asyncio.sleep(0)
        try:
            login = Login("https://editor.example.org/client.json", EDITOR, resource=MCP)
            page = await victim.get("/authorize", params=login.query)
            assert page.status_code == 200, page.status_code
            assert await world.holds(login, await logged_in(world, victim, login)) == "ada"
        finally:
            over.set()
            await asyncio.gather(*held)


async def test_many_who_ask_for_one_document_at_once_are_all_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that has its users' clients on its own servers: all of them come from one address, as one client."""
    fetched = 0
    waiting = asyncio.Event()

    async def answered(request: httpx2.Request) -> httpx2.Response:
        nonlocal fetched
        fetched += 1
        await waiting.wait()
        said = {"client_id": str(request.url), "client_name": "Editor", "redirect_uris": [EDITOR]}
        return httpx2.Response(200, json=said)

    def client() -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(answered))

    monkeypatch.setattr("mcpkit.auth.authority.public_internet.public_client", client)
    monkeypatch.setattr("mcpkit.auth.authority.client_documents._PATIENCE", 60.0)
    world = World()
    login = Login("https://editor.example.org/client.json", EDITOR, resource=MCP)
    async with world.browser(address="198.51.100.1") as host:
        asked = [asyncio.create_task(host.post("/token", data=login.form("x"))) for _ in range(40)]
        asyncio.get_running_loop().call_later(0.5, waiting.set)
        answers = await asyncio.gather(*asked)
    assert {each.status_code for each in answers} == {400}  # invalid_grant: the client was found
    assert fetched == 1
