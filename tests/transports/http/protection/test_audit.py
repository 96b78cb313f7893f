"""What a protected server tells of those who come: logins, refusals and step-ups, with nothing that is secret."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import Context, Server
from mcpkit.auth import AuditEvent, Grant, InvalidTokenError, Meter, TokenVerifier
from mcpkit.state.principal import user
from mcpkit.testing import connect
from tests.helpers.asgi_client import Serve, initialize
from tests.helpers.verified import ISSUER, Table, bearer

pytestmark = pytest.mark.anyio

URL = "https://mcp.example.com/mcp"
EVE: dict[str, Any] = {"client": ("203.0.113.7", 50000)}
WHERE = {"resource": URL}
ADA = {"principal": f"{ISSUER}#sub=ada", "client_id": "client", "issuer": ISSUER, **WHERE}


@pytest.fixture
def told(server: Server) -> list[dict[str, Any]]:
    """The facts of each event, without those that there are not."""
    events: list[dict[str, Any]] = []

    @server.on_audit
    def hear(event: AuditEvent) -> None:
        events.append({name: value for name, value in event._asdict().items() if value})

    return events


async def test_the_first_good_token_of_somebody_is_a_login(
    server: Server, serve: Serve, told: list[dict[str, Any]]
) -> None:
    async with serve(server) as client:
        for token in (bearer("ada"), bearer("ada"), bearer("bob", ["mail"]), bearer("ada")):
            assert (await client.call("whoami", headers=token).whole()).status == 200
    assert told == [
        {"name": "login", **ADA},
        {"name": "login", **ADA, "principal": f"{ISSUER}#sub=bob", "scopes": ("mail",)},
    ]


async def test_whoever_comes_back_with_more_has_stepped_up(
    server: Server, serve: Serve, told: list[dict[str, Any]]
) -> None:
    reader, writer = bearer("ada", ["notes:read"]), bearer("ada", ["notes:write"])
    async with serve(server) as client:
        assert (await client.call("add", headers=reader).whole()).status == 403
        assert (await client.call("add", headers=writer).whole()).status == 200
        assert (await client.call("add", headers=reader).whole()).status == 403
        assert (await client.call("add", headers=writer).whole()).status == 200
    refused = {
        "name": "refusal",
        **ADA,
        "status": 403,
        "reason": "insufficient_scope",
        "scopes": ("notes:write",),
    }
    assert told == [
        {"name": "login", **ADA, "scopes": ("notes:read",)},
        refused,
        {"name": "step_up", **ADA, "scopes": ("notes:write",)},
        refused,
    ]


async def test_who_is_refused_at_the_door_is_told_with_the_reason(
    server: Server, serve: Serve, table: Table, told: list[dict[str, Any]]
) -> None:
    async with serve(server) as client:
        assert (await client.post(initialize(), **EVE).whole()).status == 401
        assert (await client.post(initialize(), bearer("bad"), **EVE).whole()).status == 401
        assert (await client.post(initialize(), {"authorization": "Bearer a b"}, **EVE).whole()).status == 400
        table.is_down = True
        assert (await client.post(initialize(), bearer("ada"), **EVE).whole()).status == 503
    caller = {"name": "refusal", "caller": "address 203.0.113.7", **WHERE}
    assert told == [
        {**caller, "status": 401, "reason": "no_token"},
        {**caller, "status": 401, "reason": "invalid_token", "detail": "The access token has expired"},
        {
            **caller,
            "status": 400,
            "reason": "invalid_request",
            "detail": "the Authorization header is no Bearer token",
        },
        {**caller, "status": 503, "reason": "unavailable", "detail": "the table is locked"},
    ]


async def test_what_is_refused_in_the_midst_is_told_in_both_forms(
    server: Server, serve: Serve, told: list[dict[str, Any]]
) -> None:
    writer = bearer("ada", ["notes:write"])
    async with serve(server) as client:
        assert (await client.call("add", {"pinned": True}, headers=writer).whole()).status == 403
        answer = await client.call("add", {"pinned": True, "once": True}, headers=writer).whole()
        assert answer.json()["result"]["isError"]
    refusals = [event for event in told if event["name"] == "refusal"]
    scopes = ("mail", "notes:admin")
    assert [event.get("status") for event in refusals] == [403, None]
    assert all(event["scopes"] == scopes and event["reason"] == "insufficient_scope" for event in refusals)


async def test_what_is_refused_in_process_is_told_as_well(server: Server, told: list[dict[str, Any]]) -> None:
    async with connect(server) as client:
        await client.request("tools/call", {"name": "add", "arguments": {}})
    assert told == [{"name": "refusal", "reason": "insufficient_scope", "scopes": ("notes:write",)}]


async def test_somebody_who_has_to_say_who_they_are_is_told_with_the_address(
    make: Callable[..., Server], serve: Serve
) -> None:
    server = make()
    events: list[AuditEvent] = []
    server.on_audit(events.append)
    server.tool(lambda: "fine", name="weather", anonymous=True)
    async with serve(server) as client:
        params = {"name": "whoami", "arguments": {}}
        asked = client.ask("tools/call", params)
        assert (await asked.whole()).status == 401
    assert [(event.name, event.status, event.reason) for event in events] == [("refusal", 401, "no_token")]


async def test_own_routes_tell_as_well(server: Server, serve: Serve, told: list[dict[str, Any]]) -> None:
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response

    @server.route("/mine", scopes="mail")
    def mine(request: Request) -> Response:
        return PlainTextResponse("mine")

    async with serve(server) as client:
        assert (await client.open("GET", "/mine", **EVE).whole()).status == 401
        assert (await client.open("GET", "/mine", headers=bearer("ada")).whole()).status == 403
    assert [(event["name"], event.get("status")) for event in told] == [
        ("refusal", 401),
        ("login", None),
        ("refusal", 403),
    ]


class Known(TokenVerifier):
    """Knows one token, of somebody whose e-mail address is their name."""

    async def verify(self, token: str, audience: str) -> Grant:
        if token != "tokensecret":
            raise InvalidTokenError("The access token is none of this server's")
        return Grant(user(ISSUER, "ada@example.com", ["notes:read"], claims={"name": "claimsecret"}))


async def test_neither_tokens_nor_arguments_nor_e_mail_addresses_nor_claims_are_told(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = Server("notes", auth=Known())
    events: list[AuditEvent] = []
    server.on_audit(events.append)

    @server.tool(may_need="mail")
    async def say(text: str, ctx: Context) -> str:
        """Say something."""
        ctx.require("mail")
        return text

    async with serve(server) as client:
        arguments = {"text": "argumentsecret"}
        for header in (
            "Bearer tokensecret",
            "Bearer forgedsecret",
            "Bearer broken secret",
            "Basic basicsecret",
        ):
            await client.call("say", arguments, headers={"authorization": header}).whole()
    assert [(event.name, event.status) for event in events] == [
        ("login", None),
        ("refusal", 403),
        ("refusal", 401),
        ("refusal", 400),
        ("refusal", 401),
    ]
    for text in (str(events), caplog.text, str([vars(record) for record in caplog.records])):
        assert "secret" not in text
        assert "ada@example.com" not in text


async def test_meters_hear_of_verifications_and_refusals(
    make: Callable[..., Server], serve: Serve, table: Table
) -> None:
    class Counter(Meter):
        def __init__(self) -> None:
            self.told: list[Any] = []

        def attach(self, known_tokens: Callable[[], int]) -> None:
            self.known_tokens = known_tokens

        async def __call__(self, request: Any, call_next: Any) -> Any:
            return await call_next(request)

        def verified(self, outcome: str, seconds: float) -> None:
            assert seconds >= 0
            self.told.append(outcome)

        def refused(self, status: int | None, reason: str) -> None:
            self.told.append((status, reason))

    server, counter = make(), Counter()
    server.middleware(counter)
    async with serve(server) as client:
        for _ in range(3):
            await client.call("whoami", headers=bearer("ada")).whole()
        await client.call("whoami", headers=bearer("bad")).whole()
        await client.call("whoami").whole()
        await client.call("add", headers=bearer("ada")).whole()
        table.is_down = True
        await client.call("whoami", headers=bearer("bob")).whole()
    assert counter.told == [
        "verified",
        (401, "invalid_token"),
        "invalid",
        (401, "no_token"),
        (403, "insufficient_scope"),
        (503, "unavailable"),
        "unavailable",
    ]
    assert counter.known_tokens() == 3
