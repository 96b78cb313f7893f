"""The HTTP client for authorization servers: bounds, repetition, and one request for concurrent callers."""

import asyncio
import threading
from contextlib import aclosing
from typing import Any

import httpx2
import pytest

from mcpkit.auth import oauth_http_client as http_client
from tests.helpers.tables import each_row

URL, NAME = "https://id.example.com/keys", "the keys"


def responding(*responses: Any) -> tuple[httpx2.AsyncClient, list[httpx2.Request]]:
    """Return a client whose server sends these responses, and the requests it has received."""
    requests: list[httpx2.Request] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        response = responses[len(requests) - 1]
        if isinstance(response, Exception):
            raise response
        return response

    return httpx2.AsyncClient(transport=httpx2.MockTransport(respond)), requests


async def test_redirect_of_a_request_with_a_secret_is_returned_and_not_followed():
    redirect = httpx2.Response(307, headers={"Location": "https://evil.example.com/"})
    client, requests = responding(redirect)
    http = http_client.HttpClient(client, 5)
    response = await http.request("POST", URL, NAME, {}, {"client_secret": "secret"})
    assert response.status == 307
    assert [request.url for request in requests] == [URL]
    assert (requests[0].content, requests[0].headers["accept-encoding"]) == (
        b"client_secret=secret",
        "gzip, deflate",
    )


@each_row("is_repeatable", [True, False])
async def test_request_is_repeated_once_if_the_connection_breaks(is_repeatable):
    client, requests = responding(httpx2.ReadError("reset"), httpx2.Response(200, json={"active": True}))
    request = http_client.HttpClient(client, 5).request("GET", URL, NAME, {}, is_repeatable=is_repeatable)
    if is_repeatable:
        assert (await request).members() == {"active": True}
    else:
        with pytest.raises(http_client.FetchError, match="broke before the response was complete"):
            await request
    assert len(requests) == 1 + is_repeatable


async def test_body_of_an_unread_status_is_not_bounded():
    large = httpx2.Response(404, content=b"x" * (http_client.MAX_DOCUMENT + 1))
    client, _ = responding(large, large)
    request = client.build_request("GET", URL)
    assert (await http_client.send(client, request, NAME, 5, body_statuses=(200,))).body == b""
    with pytest.raises(http_client.FetchError, match="more than the maximum") as caught:
        await http_client.send(client, request, NAME, 5)
    assert (caught.value.status, caught.value.may_pass) == (404, False)


@each_row(("error", "is_unreachable"), [(httpx2.ConnectError("no"), True), (httpx2.ReadTimeout("no"), False)])
async def test_failed_connection_makes_the_server_unreachable(error, is_unreachable):
    client, _ = responding(error)
    with pytest.raises(http_client.FetchError) as caught:
        await http_client.fetch_document(URL, NAME, http_client=client)
    assert (caught.value.is_unreachable, caught.value.may_pass) == (is_unreachable, True)


async def test_host_that_cannot_exist_is_an_error():
    with pytest.raises(http_client.FetchError, match=r"the host of .* is not valid") as caught:
        await http_client.fetch_document("https://999.1.1.1/keys", NAME)
    assert not caught.value.may_pass


async def test_closed_client_of_the_author_is_an_error():
    client, _ = responding()
    await client.aclose()
    with pytest.raises(http_client.FetchError, match="http_client= is closed"):
        await http_client.fetch_document(URL, NAME, http_client=client)


NOW = "Sun, 29 Nov 2026 12:00:00 GMT"


@each_row(("headers", "seconds"), [
    ({}, None),
    ({"cache-control": "max-age=60"}, 60.0),
    ({"cache-control": 'public, MAX-AGE="60"', "age": "20"}, 40.0),
    ({"cache-control": "max-age=60", "age": "100"}, 0.0),
    *(({"cache-control": f"max-age=60, {directive}"}, 0.0) for directive in ("no-store", "no-cache")),
    *(({"cache-control": f"max-age={value}"}, None) for value in ("soon", "-1", "9" * 12)),
    ({"expires": "Sun, 29 Nov 2026 12:01:00 GMT", "date": NOW}, 60.0),
    ({"expires": "0", "date": NOW}, 0.0),
])  # fmt: skip
def test_max_age_is_read_from_headers(headers, seconds):
    assert http_client.max_age_of(headers) == seconds


async def test_single_flight_runs_work_once_for_concurrent_callers():
    started: list[int] = []
    finish = asyncio.Event()

    async def work() -> int:
        started.append(1)
        await finish.wait()
        return len(started)

    async with aclosing(http_client.SingleFlight[int](5)) as flights:
        callers = [asyncio.create_task(flights.run("key", work)) for _ in range(5)]
        await asyncio.sleep(0)
        callers[0].cancel()  # the others still get the result
        finish.set()
        assert await asyncio.gather(*callers[1:]) == [1] * 4
        assert await flights.run("key", work) == 2


async def test_single_flight_raises_the_error_of_the_work_to_all_callers():
    async def work() -> int:
        await asyncio.sleep(0)
        raise LookupError("no")

    flights = http_client.SingleFlight[int](5)
    errors = await asyncio.gather(*(flights.run("key", work) for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in errors] == [LookupError] * 3


async def test_single_flight_repeats_work_of_an_event_loop_that_has_ended():
    flights = http_client.SingleFlight[str](30)

    async def never() -> str:
        await asyncio.Event().wait()
        return "never"

    async def start() -> None:
        flights.start("key", never)
        await asyncio.sleep(0)

    thread = threading.Thread(target=lambda: asyncio.run(start()))
    thread.start()
    await asyncio.to_thread(thread.join)

    async def work() -> str:
        return "done"

    assert flights.running("key") is None
    assert await flights.run("key", work) == "done"


async def test_single_flight_abandons_work_after_the_time_limit():
    flights = http_client.SingleFlight[str](0.01)

    async def never() -> str:
        await asyncio.Event().wait()
        return "never"

    async with aclosing(flights):
        with pytest.raises(http_client.AbandonedError):
            await flights.result("key", flights.start("key", never))
        assert flights.running("key") is None
