"""What an authorization server tells whoever watches: who was let in, refused, refreshed and sent away."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from mcpkit.auth import DevAuth, DevClient, DevUser
from mcpkit.state.audit import AuditEvent
from tests.helpers.authority_site import CALLBACK, ORIGIN, Forms, Here, clicked

pytestmark = pytest.mark.anyio


def listening(here: Here) -> list[AuditEvent]:
    told: list[AuditEvent] = []
    here.site.audit(told.append)
    return told


def names(told: list[AuditEvent]) -> list[str]:
    return [event.name for event in told]


async def test_a_login_a_refresh_and_a_revocation_are_told() -> None:
    here = Here()
    login = await here.login(scope="notes:write")
    told = listening(here)
    tokens = await here.tokens(login)
    assert told[-1] == AuditEvent(
        "login", f"{ORIGIN}#sub=ada", login.client_id, ORIGIN, scopes=("notes:write",)
    )
    await here.refreshed(tokens, login)
    await here.post("/revoke", {"token": tokens["refresh_token"], "client_id": login.client_id})
    assert names(told) == ["consent", "login", "refresh", "revocation"]
    assert told[-1].principal == f"{ORIGIN}#sub=ada"


async def test_what_is_used_twice_is_a_revocation_and_a_refusal() -> None:
    here = Here()
    login = await here.login()
    code = await here.code(login)
    told = listening(here)
    await here.post("/token", login.form(code))
    here.clock.now += 11
    await here.post("/token", login.form(code))
    assert names(told) == ["revocation", "refusal"]


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"grant_type": "client_credentials", "client_id": "job", "client_secret": "a secret guess"}, 401),
        ({"grant_type": "refresh_token", "client_id": "job", "client_secret": "right"}, 400),
        ({"grant_type": "a secret guess", "client_id": "job", "client_secret": "right"}, 400),
    ],
)
async def test_a_refusal_says_why_and_shows_nothing_that_was_sent(form: Any, status: int) -> None:
    here = Here(clients=[DevClient("job", secret="right", scopes=["notes:read"])])
    told = listening(here)
    await here.post("/token", form)
    [event] = told
    assert (event.name, event.status, event.reason) == ("refusal", status, "failed")
    assert event.detail
    assert "guess" not in str(event)


async def test_a_refusal_says_where_it_came_from() -> None:
    here = Here()
    told = listening(here)
    transport = httpx2.ASGITransport(here.app, client=("2001:db8::7", 5000))
    async with httpx2.AsyncClient(transport=transport, base_url=ORIGIN) as client:
        await client.post("/token", data={})
    [event] = told
    assert event.caller == "address 2001:db8::/64"


async def test_a_registration_and_an_answer_at_the_page_are_told() -> None:
    here = Here()
    told = listening(here)
    login = await here.login(scope="notes:write")
    [event] = told
    assert (event.name, event.issuer, event.principal, event.detail) == ("registration", ORIGIN, None, None)
    named = event.client_id
    told.clear()
    await here.code(login)
    assert names(told) == ["consent", "login"]
    assert told[0] == AuditEvent(
        "consent",
        client_id=named,
        issuer=ORIGIN,
        detail="allowed, to 127.0.0.1:3000",
        scopes=("notes:write",),
    )
    told.clear()
    async with here.browser() as browser:
        page = await browser.get("/authorize", params=login.query)
        await browser.post("/authorize", data=Forms(page.text).forms[-1])
    [event] = told
    assert (event.name, event.detail, event.client_id) == ("consent", "denied, to 127.0.0.1:3000", named)


async def test_nobody_can_flood_the_audit_by_registering() -> None:
    here = Here()
    told = listening(here)
    for _ in range(20):
        await here.registered(redirect_uris=[CALLBACK])
    assert names(told) == ["registration"] * 5


async def test_a_wrong_password_is_a_refusal() -> None:
    here = Here([DevUser("ada", password="right")])
    login = await here.login()
    told = listening(here)
    async with here.browser() as browser:
        await clicked(browser, login, "ada", "a guess")
    [event] = told
    assert (event.name, event.status, event.detail) == ("refusal", 403, "a wrong password")


async def test_a_client_that_asks_for_itself_is_told_as_a_client() -> None:
    here = Here(clients=[DevClient("job", secret="right", scopes=["notes:read"])])
    told = listening(here)
    form = {"grant_type": "client_credentials", "client_id": "job", "client_secret": "right"}
    await here.post("/token", form)
    [event] = told
    assert (event.name, event.principal) == ("login", f"{ORIGIN}#client=job")


async def test_who_may_log_in_is_said_at_start(caplog: pytest.LogCaptureFixture) -> None:
    auth = DevAuth(users=["ada", DevUser("bob", password="hidden")])
    for _ in range(2):
        auth.enter(Here().site)
    [record] = caplog.records
    assert record.getMessage() == (f"notes: whoever opens {ORIGIN} on this machine may log in as ada, bob")
