"""URLs that clients and verifiers may use, and the metadata found there."""

import asyncio
import threading
from contextlib import aclosing
from typing import Any

import httpx2
import pytest

from mcpkit.auth import oauth_http_client as http_client
from mcpkit.auth.urls_and_discovery import (
    AuthorizationServerMetadata,
    MetadataError,
    ResourceMetadata,
    authorization_server_urls,
    check_url,
    covers,
    protected_resource_urls,
)
from tests.helpers.tables import each_row

ISSUER = "https://id.example.com/tenant"


RESOURCE = "https://mcp.example.com/.well-known/oauth-protected-resource"


@each_row(("url", "expected"), [
    ("https://mcp.example.com", [RESOURCE]),
    ("https://mcp.example.com/", [RESOURCE]),
    ("https://mcp.example.com/public/mcp", [f"{RESOURCE}/public/mcp", RESOURCE]),
    ("HTTPS://user:secret@MCP.example.com:443/mcp?team=1#top", [f"{RESOURCE}/mcp?team=1", RESOURCE]),
])  # fmt: skip
def test_protected_resource_urls_are_path_then_root(url, expected):
    assert list(protected_resource_urls(url)) == expected


@each_row("issuer", [ISSUER, ISSUER + "/"])
def test_authorization_server_urls_with_path_follow_specification_order(issuer):
    assert authorization_server_urls(issuer) == (
        "https://id.example.com/.well-known/oauth-authorization-server/tenant",
        "https://id.example.com/.well-known/openid-configuration/tenant",
        "https://id.example.com/tenant/.well-known/openid-configuration",
    )


def resource(**changes: object) -> dict[str, object]:
    return {"resource": "https://a.example/mcp", "authorization_servers": [ISSUER], **changes}


def test_resource_metadata_is_read():
    url = "https://a.example/mcp"
    read = ResourceMetadata.read(resource(scopes_supported=["a", "b"]), url)
    assert (read.resource, read.authorization_servers, read.scopes) == (url, (ISSUER,), ("a", "b"))
    assert ResourceMetadata.read(resource(), url).scopes is None


@each_row(("document", "wrong"), [
    ([], "JSON object"),
    (resource(resource=None), "has no `resource` string"),
    (resource(resource="https://evil.example/mcp"), "another `resource`, 'https://evil.example/mcp'"),
    *((resource(resource=url), "another `resource`") for url in ("urn:a", "https://a.example/mcp#x")),
    *((resource(authorization_servers=value), "has no `authorization_servers`") for value in ([], None)),
    (resource(authorization_servers=ISSUER), "not a list of strings"),
    (resource(authorization_servers=[1]), "not a string"),
    (resource(scopes_supported="a b"), "not a list of strings"),
])  # fmt: skip
def test_resource_metadata_invalid_raises(document, wrong):
    with pytest.raises(MetadataError, match=wrong):
        ResourceMetadata.read(document, "https://a.example/mcp")


def server(**changes: object) -> dict[str, object]:
    return {
        "issuer": ISSUER, "authorization_endpoint": f"{ISSUER}/authorize",
        "token_endpoint": f"{ISSUER}/token", "code_challenge_methods_supported": ["plain", "S256"], **changes,
    }  # fmt: skip


def test_server_metadata_is_read():
    read = AuthorizationServerMetadata.read(server(client_id_metadata_document_supported=True), ISSUER)
    read.check_pkce()
    assert read.endpoint("token_endpoint") == f"{ISSUER}/token"
    assert read.is_true("client_id_metadata_document_supported")
    assert not read.is_true("authorization_response_iss_parameter_supported")
    assert not read.has("registration_endpoint")
    assert read.strings("scopes_supported") is None


@each_row(("issuer", "wrong"), [
    (None, "has no `issuer` string"),
    ("https://honest.example", "another `issuer`, 'https://honest.example'"),
    (ISSUER + "/", "differ only in the trailing slash"),
    (ISSUER.upper(), "another `issuer`"),
])  # fmt: skip
def test_server_metadata_issuer_must_match_exactly(issuer, wrong):
    with pytest.raises(MetadataError, match=wrong):
        AuthorizationServerMetadata.read(server(issuer=issuer), ISSUER)


def test_server_metadata_endpoint_missing_or_plain_raises():
    document = server(token_endpoint="http://id.example.com/token", jwks_uri=7)
    read = AuthorizationServerMetadata.read(document, ISSUER)
    with pytest.raises(MetadataError, match=r"token_endpoint of the authorization server .* not encrypted"):
        read.endpoint("token_endpoint")
    with pytest.raises(MetadataError, match="has no registration_endpoint"):
        read.endpoint("registration_endpoint")
    with pytest.raises(MetadataError, match=r"jwks_uri .* must be a string"):
        read.endpoint("jwks_uri")


@each_row(("methods", "wrong"), [
    (None, "Microsoft Entra ID and Amazon Cognito"),
    (["plain"], "its metadata lists 'plain'"),
    ([], "its metadata lists no method"),
])  # fmt: skip
def test_server_metadata_without_pkce_raises(methods, wrong):
    read = AuthorizationServerMetadata.read(server(code_challenge_methods_supported=methods), ISSUER)
    with pytest.raises(MetadataError, match=wrong):
        read.check_pkce()


@each_row(("url", "wrong"), [
    (None, "the endpoint must be a string"),
    ("http://id.example.com/token", "not encrypted"),
    *((url, "not a valid https URL") for url in (
        "javascript:alert(1)", "file:///etc/passwd", "https://", "https://id.example.com:99999/",
        "https://id.example.com/a b", "https://id.example.com/\n", "https://[bad/",
        "https://a..example/", "https://.example/", f"https://{'a' * 64}.example/",
    )),
    ("https://id.example.com/#x", "fragment"),
    ("https://id.example.com/#", "fragment"),
])  # fmt: skip
def test_check_url_rejects_unsafe_urls(url, wrong):
    with pytest.raises(MetadataError, match=wrong):
        check_url(url, "the endpoint")


def test_check_url_password_is_not_quoted():
    with pytest.raises(MetadataError) as caught:
        check_url("https://user:hunter2@id.example.com/", "the endpoint")
    assert "hunter2" not in str(caught.value)


@each_row(("resource", "url", "expected"), [
    *((resource, "https://a.example/mcp", True) for resource in (
        "https://a.example/mcp", "https://A.example/mcp/", "https://a.example", "https://a.example/",
    )),
    ("https://a.example/mcp", "https://a.example/mcp?team=1", True),
    *((resource, "https://a.example/mcp", False) for resource in (
        "https://a.example/mc", "https://a.example/other", "https://b.example/mcp",
        "http://a.example/mcp", "https://a.example:8443/mcp", "https://a.example/mcp?team=1",
    )),
    ("https://a.example/mcp", "https://a.example/mc", False),
])  # fmt: skip
def test_covers_resource_url_and_paths_below(resource, url, expected):
    assert covers(resource, url) is expected


# The HTTP client for authorization servers: bounds, repetition, and one request for concurrent callers


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
