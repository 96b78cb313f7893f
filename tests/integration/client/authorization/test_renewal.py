"""Tokens that expire, are refused or grant too little: refreshed, replaced or extended once, and never shown."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from starlette.responses import JSONResponse, Response

from mcpkit import Client, Retries
from mcpkit.exceptions import TransportError
from tests.helpers.authorization_server import RESOURCE_METADATA, Clicks, Granting, clicking

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-11-25", "2026-07-28"]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_token_refused_is_refreshed(server: Granting, revision: str) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser), protocol_version=revision) as client:
        await client.call_tool("whoami")
        server.live.clear()
        assert (await client.call_tool("whoami")).text == "ada: notes:read"
    assert server.grants == ["authorization_code", "refresh_token"]
    assert server.of("token")[1]["resource"] == server.url
    assert "scope" not in server.of("token")[1]
    assert len(browser.visits) == 1


async def test_refresh_token_is_used_once_by_concurrent_calls(server: Granting) -> None:
    async with Client(server.url, auth=clicking()) as client:
        await client.call_tool("whoami")
        server.live.clear()
        results = await asyncio.gather(*(client.call_tool("whoami") for _ in range(20)))
    assert {result.text for result in results} == {"ada: notes:read"}
    assert server.grants == ["authorization_code", "refresh_token"]


async def test_token_expiring_is_refreshed_before_request(server: Granting) -> None:
    server.lifetime = 1e-3  # seconds: it ends before the next request begins
    async with Client(server.url, auth=clicking()) as client:
        await client.list_tools()
        server.lifetime = 3600
        server.authorizations.clear()
        await client.call_tool("whoami")
        await client.call_tool("whoami")
    assert "refresh_token" in server.grants
    newest = list(server.live)[-1]
    assert set(server.authorizations) == {f"Bearer {newest}"}


async def test_refresh_token_rejected_starts_login(server: Granting) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser)) as client:
        await client.call_tool("whoami")
        server.live.clear()
        server.answers["token"] = [JSONResponse({"error": "invalid_grant"}, 401)]
        assert (await client.call_tool("whoami")).text == "ada: notes:read"
    assert server.grants == ["authorization_code", "refresh_token", "authorization_code"]
    assert len(browser.visits) == 2


async def test_issuer_changed_needs_new_registration(server: Granting) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser)) as client:
        await client.call_tool("whoami")
        server.live.clear()
        described = {"resource": server.url, "authorization_servers": [f"{server.origin}/other"]}
        server.answers[RESOURCE_METADATA] = [JSONResponse(described)]
        assert (await client.call_tool("whoami")).text == "ada: notes:read"
    assert server.grants == ["authorization_code", "authorization_code"]
    first, second = server.of("authorize")
    assert len(server.of("register")) == 2
    assert first["client_id"] != second["client_id"]


@pytest.mark.parametrize("revision", REVISIONS[:1])
async def test_step_up_requests_missing_scope(server: Granting, revision: str) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser), protocol_version=revision) as client:
        await client.call_tool("whoami")
        assert (await client.call_tool("add_note", {"text": "milk"})).text == "added milk"
        assert (await client.call_tool("whoami")).text == "ada: notes:read notes:write"
    assert [page["scope"] for page in browser.visits] == ["notes:read", "notes:read notes:write"]


@pytest.mark.slow
async def test_secrets_are_in_no_output(
    server: Granting, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    auth = clicking(client_id="notebook", client_secret="very secret secret", issuer=server.origin)
    errors: list[BaseException] = []
    record = tmp_path / "talk.jsonl"
    async with Client(
        server.url, auth=auth, trace=True, record=record, retries=Retries(attempts=1)
    ) as client:
        await client.call_tool("whoami")
        await client.call_tool("add_note", {"text": "a"})
        server.live.clear()
        await client.call_tool("whoami")
        refused = {"error": "invalid_grant", "error_description": "{}"}
        for answer in (JSONResponse(refused, 400), Response("broken", 500)):
            server.live.clear()
            server.answers["token"] = [answer, Response("broken", 500)]
            with pytest.raises(TransportError) as failed:
                await client.call_tool("whoami")
            errors.append(failed.value)
        displayed = [repr(auth), repr(client), repr(auth.authorizer(server.url).tokens)]
    # What it has sent itself: the browser of the test logs where it was sent back to.
    ours = [each.getMessage() for each in caplog.records if "authorize" not in each.getMessage()]
    reported = "".join(line for line in ours if "/callback" not in line)
    reported += "".join(capsys.readouterr()) + record.read_text() + "".join(displayed)
    for error in errors:
        each: BaseException | None = error
        while each is not None:
            reported += f"{each} {each!r}"
            each = each.__cause__ or each.__context__
    secrets = {
        value
        for form in server.of("token")
        for name, value in form.items()
        if name in {"code", "code_verifier", "refresh_token", "client_secret"}
    }
    secrets |= {str(each).removeprefix("Bearer ") for each in server.authorizations if each}
    secrets.add("very secret secret")
    assert len(secrets) > 6
    assert [secret for secret in secrets if secret in reported] == []
