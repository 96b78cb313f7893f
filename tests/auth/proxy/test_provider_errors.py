"""A provider that refuses or does not answer, and authors who let nobody in: what clients and users are told."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import anyio
import pytest

from mcpkit.auth import InvalidTokenError
from mcpkit.state.principal import Principal
from tests.helpers.authority_site import said
from tests.helpers.proxied import ORIGIN, Proxied

pytestmark = pytest.mark.anyio


def query_of(url: str) -> dict[str, str]:
    """What a URL says."""
    return dict(parse_qsl(urlsplit(url).query))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("access_denied", "access_denied"),
        ("temporarily_unavailable", "temporarily_unavailable"),
        ("invalid_scope", "server_error"),
        ("unauthorized_client", "server_error"),
        ("<script>", "server_error"),
    ],
)
async def test_what_the_provider_refuses_the_client_hears_with_its_own_state(error: str, told: str) -> None:
    here = Proxied()
    flow = here.flow(visit=lambda url: here.upstream.refuse(url, error))
    response = await flow.back()
    answer = said(response)
    assert (answer["error"], answer["iss"]) == (told, ORIGIN)
    assert answer["state"] == (await flow.begun()).query["state"]
    assert response.headers["location"].startswith(flow.callback)
    assert not [name for name in flow.browser.cookies if "login" in name]


async def test_a_code_of_another_login_is_worth_nothing() -> None:
    here = Proxied()
    mine, theirs = here.flow(), here.flow()
    stolen = query_of(await theirs.at_provider())["code"]
    url = await mine.at_provider()
    injected = url.replace(query_of(url)["code"], stolen)
    assert said(await mine.back(injected))["error"] == "server_error"
    assert here.upstream.live == {}


async def test_a_callback_that_says_something_twice_is_none() -> None:
    here = Proxied()
    flow = here.flow()
    url = await flow.at_provider()
    assert (await flow.back(f"{url}&code=another")).status_code == 400
    assert "redeem" not in here.upstream.asked
    assert "code" in said(await flow.back(url))


@pytest.mark.parametrize("query", ["", "state=", "code=x", "state=x", "error=access_denied", "%ff"])
async def test_a_callback_of_no_login_is_a_page_and_never_a_redirect(query: str) -> None:
    here = Proxied()
    response = await here.browser().get(f"/callback?{query}")
    assert response.status_code == 400
    assert response.headers["content-type"].startswith("text/html")
    assert response.headers["cache-control"] == "no-store"
    assert "location" not in response.headers


async def test_a_provider_that_is_away_when_a_user_is_to_be_sent_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    here = Proxied()
    here.upstream.down.add("authorization_url")
    answer = said(await here.flow().answered())
    assert (answer["error"], answer["iss"]) == ("temporarily_unavailable", ORIGIN)
    assert "does not answer" in caplog.text


async def test_a_provider_that_is_away_when_its_code_is_redeemed() -> None:
    here = Proxied()
    here.upstream.down.add("redeem")
    flow = here.flow()
    url = await flow.at_provider()
    assert said(await flow.back(url))["error"] == "temporarily_unavailable"
    here.upstream.down.clear()
    assert (await flow.back(url)).status_code == 400
    assert "code" in said(await here.flow().back())


async def test_a_store_that_is_away_when_a_user_comes_back_costs_a_reload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Proxied()
    flow = here.flow()
    url = await flow.at_provider()
    with monkeypatch.context() as away:
        away.setattr(here.site.shared, "put", failing)
        response = await flow.back(url)
        assert response.status_code == 503
        assert "redeem" not in here.upstream.asked
    assert "code" in said(await flow.back(url))


async def test_a_store_that_is_away_when_the_grant_is_kept_leaves_no_tokens_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Proxied()
    here.upstream.during = lambda name: (
        monkeypatch.setattr(here.site.shared, "put", failing) if name == "redeem" else None
    )
    assert said(await here.flow().back())["error"] == "temporarily_unavailable"
    assert here.upstream.asked[-1] == "revoke"
    assert here.upstream.live == {}


async def failing(*_: object, **__: object) -> None:
    raise ConnectionError


# allow=


async def slowly(who: Principal) -> bool:
    return who.claims["login"] == "ada"


@pytest.mark.parametrize(
    "allow", [lambda who: who.claims["login"] == "ada", slowly, lambda who: {"notes:read", "notes:write"}]
)
async def test_whom_the_author_lets_in(allow: Callable[[Principal], Any]) -> None:
    here = Proxied(allow=allow)
    tokens = await here.flow(scope="notes:write").tokens()
    assert tokens["scope"] == "notes:write"


@pytest.mark.parametrize("allow", [lambda who: who.claims["login"] == "grace", lambda who: ()])
async def test_whom_the_author_does_not_let_in(allow: Callable[[Principal], Any]) -> None:
    here = Proxied(allow=allow)
    answer = said(await here.flow().back())
    assert (answer["error"], answer["iss"]) == ("access_denied", ORIGIN)
    assert here.upstream.live == {}


@pytest.mark.parametrize(
    "allow",
    [
        lambda who: None,
        lambda who: 1,
        lambda who: who.claims,
        lambda who: who.claims["nothing"],
        lambda who: ["no scope"],
    ],
)
async def test_an_author_who_cannot_say_so_lets_nobody_in(
    allow: Callable[[Principal], Any], caplog: pytest.LogCaptureFixture
) -> None:
    here = Proxied(allow=allow)
    assert said(await here.flow().back())["error"] == "server_error"
    assert here.upstream.live == {}
    assert "allow= has failed" in caplog.text
    assert not [secret for secret in here.upstream.handed_out if secret in caplog.text]


async def test_an_author_who_never_says_so_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def allow(who: Principal) -> bool:
        await anyio.sleep_forever()
        raise AssertionError

    monkeypatch.setattr("mcpkit.auth.proxy.admission._PATIENCE", 0.05)
    here = Proxied(allow=allow)
    with anyio.fail_after(20):
        assert said(await here.flow().back())["error"] == "server_error"
    assert here.upstream.live == {}
    assert "allow= has not answered within 0.05 s" in caplog.text


async def test_an_author_who_blocks_stops_nobody_else() -> None:
    """What is not async may ask a database."""
    asked, served = threading.Event(), threading.Event()

    def allow(who: Principal) -> bool:
        asked.set()
        return served.wait(20)

    here = Proxied(allow=allow)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(here.flow().tokens)
        while not asked.is_set():
            await anyio.sleep(0.01)
        await here.flow().page()
        served.set()


async def test_a_scope_that_the_server_does_not_have_is_told_to_the_author(
    caplog: pytest.LogCaptureFixture,
) -> None:
    here = Proxied(allow=lambda who: ["notes:raed"])
    assert said(await here.flow().back())["error"] == "access_denied"
    problem = "allow= returns 'notes:raed', which is none of the server's scopes; did you mean 'notes:read'?"
    assert problem in caplog.text


async def test_the_author_hears_who_it_is_by_which_client_and_for_what() -> None:
    heard: list[Principal] = []
    here = Proxied(allow=lambda who: bool(heard.append(who)) or True)
    flow = here.flow(scope="notes:write")
    await flow.tokens()
    [who] = heard
    assert (who.issuer, who.subject, who.scopes) == ("https://id.example.com", "ada", {"notes:write"})
    assert who.client_id == (await flow.begun()).client_id


async def test_some_scopes_are_granted_of_those_that_were_asked_for() -> None:
    here = Proxied(allow=lambda who: ["notes:read"])
    tokens = await here.flow(scope="notes:admin").tokens()
    assert tokens["scope"] == "notes:read"


async def test_the_author_is_asked_again_at_each_refresh() -> None:
    may: list[bool | Collection[str]] = [True]
    here = Proxied(allow=lambda who: may[0])
    flow = here.flow(scope="notes:write")
    tokens = await flow.tokens()
    may[0] = ["notes:read"]
    fewer = (await flow.refreshed(tokens)).json()
    assert fewer["scope"] == "notes:read"
    may[0] = True
    again = (await flow.refreshed(fewer)).json()
    assert again["scope"] == "notes:write"
    may[0] = False
    response = await flow.refreshed(again)
    assert (response.status_code, response.json()["error"]) == (400, "invalid_grant")
    assert here.upstream.live == {}
    with pytest.raises(InvalidTokenError):
        await here.granted(again)


async def test_scopes_that_a_user_no_longer_has_are_not_named() -> None:
    may: list[bool | Collection[str]] = [True]
    here = Proxied(allow=lambda who: may[0])
    flow = here.flow(scope="notes:admin")
    tokens = await flow.tokens()
    may[0] = ["notes:read"]
    response = await flow.refreshed(tokens, scope="notes:admin")
    assert response.json()["scope"] == "notes:read"


async def test_an_author_who_cannot_say_so_at_a_refresh_costs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers: list[Any] = [True, None, True]
    here = Proxied(allow=lambda who: answers.pop(0))
    flow = here.flow()
    tokens = await flow.tokens()
    response = await flow.refreshed(tokens)
    assert (response.status_code, response.json()["error"]) == (503, "temporarily_unavailable")
    assert response.headers["retry-after"] == "5"
    assert (await flow.refreshed(tokens)).status_code == 200


async def test_nothing_of_the_provider_is_in_a_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    here = Proxied()
    flow = here.flow()
    tokens = await flow.tokens()
    await flow.refreshed(tokens)
    here.upstream.down.update({"refresh", "identify", "revoke"})
    here.clock.now += 3600
    await flow.refreshed(tokens)
    await flow.revoked(tokens["refresh_token"])
    told = "\n".join(each.getMessage() for each in caplog.records if each.name.startswith("mcpkit"))
    assert not [secret for secret in here.upstream.handed_out if secret in told + repr(here.proxy)]
