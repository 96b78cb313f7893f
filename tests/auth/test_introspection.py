"""Tokens that only their issuer can read."""

from __future__ import annotations

import asyncio
import base64
import logging
import threading
from typing import Any

import httpx2
import pytest
from starlette.responses import JSONResponse, PlainTextResponse, Response

from mcpkit.auth import Grant, Introspection, InvalidTokenError, VerifierUnavailableError
from mcpkit.auth.issuer_metadata import RETRY
from tests.helpers.clock import Clock
from tests.helpers.provider import INTROSPECTION, METADATA, Provider, providing
from tests.helpers.signed_tokens import AUDIENCE, NOW
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

TOKEN = "opaque-token-of-ada"
SECRET = "secret:with/odd&characters%"


def told(**changes: Any) -> dict[str, Any]:
    members = {
        "active": True,
        "sub": "ada",
        "client_id": "editor",
        "scope": "notes:read notes:write",
        "aud": AUDIENCE,
        "token_type": "Bearer",
        "exp": NOW + 600,
        "iat": NOW - 60,
        **changes,
    }
    return {name: value for name, value in members.items() if value is not None}


def introspection(provider: Provider, **options: Any) -> Introspection:
    options = {"client_id": "notes server", "client_secret": SECRET, "clock": Clock(NOW), **options}
    return Introspection(provider.url, **options)


async def granted(provider: Provider, answer: dict[str, Any], **options: Any) -> Grant:
    provider.tokens[TOKEN] = answer
    verifier = introspection(provider, **options)
    try:
        return await verifier.verify(TOKEN, AUDIENCE)
    finally:
        await verifier.aclose()


async def test_the_issuer_says_who_asks(provider: Provider) -> None:
    grant = await granted(provider, told(org="acme", iss=provider.url))

    assert grant.principal.id == f"{provider.url}#sub=ada"
    assert grant.principal.client_id == "editor"
    assert grant.principal.scopes == {"notes:read", "notes:write"}
    assert grant.principal.claims["org"] == "acme"
    assert (grant.expires, grant.issued, grant.fresh_until) == (NOW + 605, NOW - 60, NOW + 30)


async def test_this_server_says_who_it_is(provider: Provider) -> None:
    await granted(provider, told())
    await granted(provider, told(), authentication="post")

    (basic, first), (none, second) = provider.asked_about
    assert basic is not None
    assert (
        base64.b64decode(basic.removeprefix("Basic ")) == b"notes+server:secret%3Awith%2Fodd%26characters%25"
    )
    assert first == {"token": TOKEN, "token_type_hint": "access_token"}
    assert none is None
    assert second == {**first, "client_id": "notes server", "client_secret": SECRET}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"active": False}, "not active"),
        ({"active": None}, "not active"),
        ({"active": "true"}, "not active"),
        ({"active": 1}, "not active"),
        ({"iss": "https://other.example.com"}, "another issuer"),
        ({"aud": None}, "another audience"),
        ({"aud": "https://other.example.com"}, "another audience"),
        ({"token_type": "DPoP"}, "no bearer token"),
        ({"token_type": ["Bearer"]}, "no bearer token"),
        ({"exp": NOW - 5}, "has expired"),
        ({"nbf": NOW + 6}, "not valid yet"),
        ({"exp": "soon"}, "times of the token"),
        ({"sub": None, "client_id": None}, "whose it is"),
        ({"sub": 7}, "whose it is"),
        ({"scope": 7}, "scopes of the token"),
    ],
)
async def test_what_must_be_answered(provider: Provider, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidTokenError) as caught:
        await granted(provider, told(**changes))

    assert problem in caught.value.description


@pytest.mark.limit("age of what an issuer has answered of a token")
async def test_what_need_not_be_answered(provider: Provider) -> None:
    grant = await granted(provider, {"active": True, "client_id": "backup", "aud": [AUDIENCE]})
    assert grant.principal.id == f"{provider.url}#client=backup"
    assert (grant.expires, grant.fresh_until) == (None, NOW + 30)

    assert await granted(provider, told(aud=None), accept_tokens_for_any_audience=True)
    assert await granted(provider, told(aud="api"), audience=["api"])
    assert (await granted(provider, told(), fresh=5)).fresh_until == NOW + 5
    with pytest.raises(InvalidTokenError, match=r"\(org\)"):
        await granted(provider, told(), required={"org": "acme"})


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "\u00e9", "x" * 16_385])
async def test_what_can_be_no_token_asks_nobody(provider: Provider, token: str) -> None:
    with pytest.raises(InvalidTokenError, match="not active"):
        await introspection(provider).verify(token, AUDIENCE)

    assert not provider.asked


async def test_about_one_token_one_question_is_asked_at_a_time(provider: Provider) -> None:
    provider.tokens = {TOKEN: told(), "other": told(sub="bob")}
    verifier = introspection(provider)
    provider.is_open.clear()
    tasks = [
        asyncio.create_task(verifier.verify(token, AUDIENCE)) for token in (TOKEN, "other") for _ in range(20)
    ]
    await until(provider.is_asked.is_set)
    provider.is_open.set()

    subjects = [grant.principal.subject for grant in await asyncio.gather(*tasks)]
    await verifier.aclose()
    assert subjects == ["ada"] * 20 + ["bob"] * 20
    assert len(provider.asked_about) == 2


def test_each_event_loop_has_its_connections_and_closes_them(provider: Provider) -> None:
    provider.tokens[TOKEN] = told()
    verifier = introspection(provider, endpoint=provider.url + INTROSPECTION)
    found: list[Grant] = []

    async def ask() -> None:
        for _ in range(3):
            found.append(await verifier.verify(TOKEN, AUDIENCE))
        await verifier.aclose()
        found.append(await verifier.verify(TOKEN, AUDIENCE))  # and may be asked again
        await verifier.aclose()

    threads = [threading.Thread(target=lambda: asyncio.run(ask())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 16
    assert METADATA not in provider.asked


async def test_a_client_of_ones_own_is_not_closed(provider: Provider) -> None:
    async with httpx2.AsyncClient() as client:
        assert await granted(provider, told(), http_client=client)
        assert not client.is_closed
    with pytest.raises(VerifierUnavailableError, match="has been closed"):
        await granted(provider, told(), http_client=client)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Response(status_code=503), "has answered 503"),
        (Response(status_code=401), "look at client_id, client_secret and authentication"),
        (Response(status_code=400), "look at client_id, client_secret and authentication"),
        (Response(status_code=302, headers={"Location": "/"}), "has answered 302"),
        (PlainTextResponse("active"), "in one way alone (text/plain)"),
        (JSONResponse(["active"]), "no JSON object"),
        (Response('{"active": true, "active": false}', media_type="application/json"), "no JSON object"),
    ],
)
async def test_an_answer_that_says_nothing_is_no_refusal(
    provider: Provider, answer: Response, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    provider.tokens[TOKEN] = told()
    provider.instead = lambda request: answer if request.url.path == INTROSPECTION else None
    verifier = introspection(provider)
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            with pytest.raises(VerifierUnavailableError) as caught:
                await verifier.verify(TOKEN, AUDIENCE)
            assert problem in caught.value.description
        provider.mend()
        assert await verifier.verify(TOKEN, AUDIENCE)
    await verifier.aclose()

    ours = [record.getMessage() for record in caplog.records if record.name == "mcpkit"]
    assert len(ours) == 2, "the same is said once"
    assert ours[1].endswith("answers again")
    for secret in (TOKEN, SECRET, "secret%3A"):
        assert secret not in caplog.text


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"introspection_endpoint": None}, "has no introspection_endpoint"),
        ({"introspection_endpoint": "http://id.example.com/introspect"}, "not encrypted"),
        ({"issuer": "https://other.example.com"}, "is of another issuer"),
    ],
)
async def test_metadata_that_is_wrong_is_not_believed(
    provider: Provider, metadata: dict[str, Any], problem: str
) -> None:
    provider.metadata = metadata
    with pytest.raises(VerifierUnavailableError) as caught:
        await granted(provider, told())

    assert problem in caught.value.description
    assert not provider.asked_about


async def test_an_issuer_that_does_not_say_where_to_ask_is_asked_for_it_once_in_a_while(
    provider: Provider,
) -> None:
    provider.tokens = {f"token-{number}": told() for number in range(20)}
    provider.break_down()
    clock = Clock(NOW)
    verifier = introspection(provider, clock=clock)
    for _ in range(2):
        asked = [asyncio.create_task(verifier.verify(token, AUDIENCE)) for token in provider.tokens]
        for each in asked:
            with pytest.raises(VerifierUnavailableError, match="has answered 503"):
                await each
    assert provider.asked[METADATA] == 1
    provider.mend()
    clock.now += RETRY
    asked = [asyncio.create_task(verifier.verify(token, AUDIENCE)) for token in provider.tokens]
    assert {(await each).principal.subject for each in asked} == {"ada"}
    assert provider.asked[METADATA] == 2
    await verifier.aclose()


async def test_an_issuer_that_does_not_answer_or_is_not_there() -> None:
    with providing() as provider:
        verifier = introspection(provider, timeout=0.1, endpoint=provider.url + INTROSPECTION)
        provider.is_open.clear()
        with pytest.raises(VerifierUnavailableError, match=r"has not answered within 0\.1 s"):
            await verifier.verify(TOKEN, AUDIENCE)
    with pytest.raises(VerifierUnavailableError, match="cannot connect"):
        await verifier.verify(TOKEN, AUDIENCE)
    await verifier.aclose()


@pytest.mark.parametrize(
    ("options", "error", "problem"),
    [
        ({"client_id": ""}, TypeError, "client_id must be a text"),
        ({"client_secret": None}, TypeError, "client_secret must be a text"),
        ({"authentication": "none"}, ValueError, "authentication must be"),
        ({"endpoint": "http://id.example.com/introspect"}, ValueError, "not encrypted"),
        ({"fresh": 0}, ValueError, "fresh"),
        ({"audience": "a", "accept_tokens_for_any_audience": True}, ValueError, "contradict"),
    ],
)
def test_options_that_cannot_be_are_refused(options: Any, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem) as caught:
        Introspection("https://id.example.com", **{"client_id": "a", "client_secret": SECRET, **options})
    assert SECRET not in str(caught.value)
