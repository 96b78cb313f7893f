"""What an authorization server tells whoever watches: who was let in, refused, refreshed and sent away."""

from __future__ import annotations

from typing import Any

import pytest

from authority_site import ORIGIN, Here, clicked
from mcpkit.auth import DevAuth, DevClient, DevUser
from mcpkit.state.audit import AuditEvent

pytestmark = pytest.mark.anyio


def listening(here: Here) -> list[AuditEvent]:
    told: list[AuditEvent] = []
    here.site.audit(told.append)
    return told


def names(told: list[AuditEvent]) -> list[str]:
    return [event.name for event in told]


async def test_a_login_a_refresh_and_a_revocation_are_told() -> None:
    here = Here()
    told = listening(here)
    login = await here.login(scope="notes:write")
    tokens = await here.tokens(login)
    assert told[-1] == AuditEvent(
        "login", f"{ORIGIN}#sub=ada", login.client_id, ORIGIN, scopes=("notes:write",)
    )
    await here.refreshed(tokens, login)
    await here.post("/revoke", {"token": tokens["refresh_token"], "client_id": login.client_id})
    assert names(told) == ["login", "refresh", "revocation"]
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
    assert (event.name, event.status, event.reason, event.caller) == (
        "refusal",
        status,
        "failed",
        "127.0.0.1",
    )
    assert event.detail
    assert "guess" not in str(event)


async def test_a_wrong_password_is_a_refusal() -> None:
    here = Here([DevUser("ada", password="right")])
    told = listening(here)
    async with here.browser() as browser:
        await clicked(browser, await here.login(), "ada", "a guess")
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
