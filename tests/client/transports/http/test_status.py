"""What is made of answers that are no messages."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import pytest

from mcpkit import AuthorizationError, Client, ProtocolError, StatusError, TransportError
from mcpkit.client.transports.http.streamable_http import HttpTransport
from tests.helpers.heard import Heard
from tests.helpers.scripted_http import Asked, Reply, Script, greeting, scripted, text

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-11-25", "2026-07-28"]
EVERY = pytest.mark.parametrize("revision", REVISIONS)


async def call(script: Script, revision: str = "2026-07-28", **options: Any) -> Any:
    """Call a tool of a server that answers calls as the script does."""
    async with (
        scripted(greeting(script)) as server,
        Client(HttpTransport(server.url, **options), revision=revision, tries=1) as client,
    ):
        return await client.call("bake", retry=True)


async def failure(script: Script, revision: str = "2026-07-28", **options: Any) -> TransportError:
    with pytest.raises(TransportError) as caught:
        await call(script, revision, **options)
    assert "127.0.0.1" in str(caught.value)
    return caught.value


def status(number: int, body: bytes = b"", **headers: str) -> Script:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.send(number, body, {name.replace("_", "-"): value for name, value in headers.items()})

    return script


def rpc_error(
    number: int, code: int, said: str, headers: dict[str, str] | None = None, **more: Any
) -> Script:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.error(number, code, said, headers, **more)

    return script


@EVERY
@pytest.mark.parametrize("number", [400, 404, 409, 422])
@pytest.mark.parametrize("more", [{}, {"id": None}, {"id": "server-error"}])
async def test_an_error_of_the_protocol_is_the_answer_whatever_its_id(
    revision: str, number: int, more: dict[str, Any]
) -> None:
    if revision == "2025-11-25" and number == 404:
        return  # the session has ended
    with pytest.raises(ProtocolError, match="no such thing") as caught:
        await call(rpc_error(number, -32601, "no such thing", **more), revision)
    assert caught.value.code == -32601


@EVERY
@pytest.mark.parametrize("number", [400, 405, 406, 413, 415, 451])
async def test_other_refusals_have_begun_nothing(revision: str, number: int) -> None:
    error = await failure(status(number, b"go away\x07\n now"), revision)
    assert isinstance(error, StatusError)
    assert (error.status, error.may_have_begun) == (number, False)
    assert f"HTTP {number}{')' if number == 405 else ''}: 'go away now'" in str(error)


@EVERY
@pytest.mark.parametrize("number", [500, 502, 503, 504, 599])
async def test_nobody_knows_what_has_become_of_a_call_that_a_gateway_answers(
    revision: str, number: int
) -> None:
    error = await failure(status(number), revision)
    assert isinstance(error, StatusError)
    assert (error.status, error.may_have_begun, error.retry_after) == (number, True, None)


async def test_an_error_of_the_protocol_with_a_status_of_5xx_says_what_it_says() -> None:
    error = await failure(rpc_error(500, -32603, "no disk"))
    assert "HTTP 500: 'no disk'" in str(error)
    assert error.may_have_begun


async def test_a_server_that_says_itself_to_come_later_has_not_begun() -> None:
    error = await failure(rpc_error(503, -32603, "too many", {"Retry-After": "7"}))
    assert (error.may_have_begun, error.retry_after) == (False, 7)
    error = await failure(status(503, b"gateway", retry_after="7"))
    assert (error.may_have_begun, error.retry_after) == (True, 7)


@pytest.mark.parametrize("body", [b"", b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}'])
async def test_too_many_requests_have_begun_nothing(body: bytes) -> None:
    error = await failure(status(429, body, retry_after="12"))
    assert isinstance(error, StatusError)
    assert (error.status, error.may_have_begun, error.retry_after) == (429, False, 12)


NOW = datetime(2020, 1, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("said", "date", "seconds"),
    [
        ("0", None, 0),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), format_datetime(NOW, usegmt=True), 90),
        (format_datetime(NOW - timedelta(seconds=90), usegmt=True), format_datetime(NOW, usegmt=True), 0),
        (format_datetime(NOW, usegmt=True), None, 0),
        ("-5", None, None),
        ("1.5", None, None),
        ("soon", None, None),
        ("9" * 500, None, None),
        ("Wed, 99 Foo 2020", None, None),
        ("", None, None),
    ],
)
async def test_the_time_to_come_back_is_read(said: str, date: str | None, seconds: float | None) -> None:
    headers = {"retry_after": said} | ({"date": date} if date else {})
    assert (await failure(status(429, **headers))).retry_after == seconds


async def test_a_404_of_a_session_means_that_it_has_gone_and_nothing_began() -> None:
    error = await failure(status(404), "2025-11-25")
    assert (error.session_is_gone, error.may_have_begun) == (True, False)
    assert "session" in str(error)


async def test_a_404_without_a_session_is_none_of_it() -> None:
    async with (
        scripted(greeting(status(404), session=None)) as server,
        Client(HttpTransport(server.url), revision="2025-11-25", tries=1) as client,
    ):
        with pytest.raises(StatusError) as caught:
            await client.call("bake")
    assert not caught.value.session_is_gone


@pytest.mark.parametrize("said", ["Bad Request: No valid session ID provided", "unknown Mcp-Session-Id"])
async def test_many_servers_say_400_of_a_session_that_has_gone(said: str) -> None:
    error = await failure(rpc_error(400, -32000, said), "2025-11-25")
    assert (error.session_is_gone, error.may_have_begun) == (True, False)


@pytest.mark.parametrize(
    "says",
    [
        status(404),
        rpc_error(400, -32600, "Bad Request: Missing session ID"),
        rpc_error(400, -32000, "Bad Request: Mcp-Session-Id header is required"),
        rpc_error(400, -32000, "Bad Request: Server not initialized"),
        rpc_error(400, -32600, "Bad Request: Unsupported protocol version: 2026-07-28"),
        rpc_error(400, -32022, "no"),
    ],
)
async def test_a_server_that_has_become_one_of_another_revision_says_so(says: Script) -> None:
    error = await failure(says)
    assert (error.session_is_gone, error.may_have_begun) == (True, False)
    assert "the revision any more that was agreed upon" in str(error)


async def test_a_session_may_end_as_the_server_speaks_another_revision_by_now() -> None:
    error = await failure(rpc_error(400, -32022, "no"), "2025-11-25")
    assert (error.session_is_gone, error.may_have_begun) == (True, False)


@EVERY
async def test_401_says_in_words_what_the_server_asks_for(revision: str) -> None:
    challenge = 'Bearer realm="mcp", resource_metadata="https://a.example/meta", scope="read"'
    error = await failure(status(401, www_authenticate=challenge), revision)
    assert isinstance(error, AuthorizationError)
    assert (error.status, error.challenge, error.may_have_begun) == (401, challenge, False)
    assert "wants to know who asks" in str(error)
    assert "token=" in str(error)
    assert "Bearer, realm 'mcp', scope 'read', described at 'https://a.example/meta'" in str(error)


async def test_401_of_somebody_who_said_who_asks_says_so() -> None:
    error = await failure(status(401, www_authenticate='Bearer error="invalid_token"'), token="a-secret")
    assert "does not accept" in str(error)
    assert "invalid_token" in str(error)
    assert "a-secret" not in str(error)


async def test_403_says_what_is_missing() -> None:
    error = await failure(
        status(403, b"no", www_authenticate='Bearer error="insufficient_scope", scope="write"')
    )
    assert isinstance(error, AuthorizationError)
    assert "does not allow it (HTTP 403)" in str(error)
    assert "scope 'write'" in str(error)
    assert str(error).endswith(": 'no'")


async def test_a_challenge_that_the_body_repeats_is_said_once() -> None:
    challenge = 'Bearer scope="write"'
    error = await failure(rpc_error(403, -32600, challenge, {"WWW-Authenticate": challenge}))
    assert str(error).endswith("it asks for Bearer, scope 'write'")


async def test_403_without_a_challenge_repeats_what_the_server_says() -> None:
    error = await failure(rpc_error(403, -32600, "this origin is not allowed"))
    assert isinstance(error, AuthorizationError)
    assert error.challenge == ""
    assert "this origin is not allowed" in str(error)


PAGE = b"""<!DOCTYPE html><html><head><script>var secret = 1</script><title>Log in &amp; on</title></head>
<body>Welcome</body></html>"""


@EVERY
@pytest.mark.parametrize(
    ("page", "said"),
    [
        (PAGE, "'Log in & on'"),
        (b"<html><style>p {}</style><p>Please\n<b>log</b> in</p>", "'Please log in'"),
        (b"<" * 60_000, None),
    ],
)
async def test_a_web_page_is_said_to_be_one(revision: str, page: bytes, said: str | None) -> None:
    error = await failure(status(200, page, content_type="text/html; charset=utf-8"), revision)
    assert isinstance(error, StatusError)
    assert error.may_have_begun
    assert "with a web page, perhaps one to log in at" in str(error)
    assert said is None or str(error).endswith(said)
    assert len(str(error)) < 400


async def test_anything_else_is_named() -> None:
    assert "'application/pdf'" in str(await failure(status(200, b"\xff\x00", content_type="application/pdf")))
    assert "without saying what it sends" in str(await failure(status(200, b'{"jsonrpc": "2.0"}')))
    assert "without saying what it sends" in str(await failure(status(202)))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{broken",
        b'{"error": "invalid_token"}',
        b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}',
    ],
)
async def test_json_that_is_not_the_answer_is_an_error(body: bytes) -> None:
    error = await failure(status(200, body, content_type="application/json"))
    assert error.may_have_begun
    assert "not to what was asked" in str(error)


async def test_an_error_without_an_id_is_the_answer_there_is() -> None:
    with pytest.raises(ProtocolError, match="cannot be parsed"):
        await call(rpc_error(200, -32700, "cannot be parsed", id=None))


async def test_a_path_where_there_is_nothing_is_said_to_be_one() -> None:
    assert "serves no MCP at the path of the URL, or" in str(await failure(status(404)))


async def test_json_with_parameters_and_as_a_batch_is_read() -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.json(
            [reply.answer(text("done"))], headers={"Content-Type": "Application/JSON ; charset=utf-8"}
        )

    assert (await call(script, "2025-03-26")).text == "done"


async def done(asked: Asked, reply: Reply) -> None:
    await reply.result(text("done"))


async def test_a_notification_that_is_refused_is_an_error() -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.send(400, b"not so")

    async with scripted(script) as server:
        transport, heard = HttpTransport(server.url), Heard("2025-11-25")
        await transport.open(heard)
        with pytest.raises(StatusError, match="not so"):
            await transport.send(heard.wire.notification("notifications/initialized"))
        await transport.close()


@pytest.mark.parametrize("answer", [(200, b"{}"), (202, b""), (204, b""), (200, b"")])
async def test_a_notification_may_be_accepted_in_any_way(answer: tuple[int, bytes]) -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "notifications/initialized":
            await reply.send(*answer)
        else:
            await greeting(done)(asked, reply)

    async with scripted(script) as server, Client(HttpTransport(server.url), revision="2025-06-18") as client:
        assert (await client.call("bake")).text == "done"


@pytest.mark.parametrize("number", [400, 404, 405, 500])
async def test_a_refused_initialized_is_reported_and_no_other_transport_is_tried(number: int) -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "notifications/initialized":
            await reply.send(number, b'{"error": "this app is not enabled"}')
        elif asked.rpc == "server/discover":
            await reply.error(200, -32601, "Method not found")
        else:
            await greeting(script)(asked, reply)

    async with scripted(script) as server:
        with pytest.raises(TransportError, match=r"refused notifications/initialized.*not enabled") as caught:
            async with Client(server.url, tries=1):
                pass
        assert f"HTTP {number}" in str(caught.value)
        assert not server.of("GET")


async def test_what_refused_the_first_transport_is_reported_with_what_refused_the_last() -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        await (reply.send(405) if asked.method == "GET" else reply.send(404, b"this app is not enabled"))

    async with scripted(script) as server:
        with pytest.raises(StatusError, match=r"HTTP 404\): 'this app is not enabled'; .*HTTP 405"):
            async with Client(server.url):
                pass


async def test_a_silent_discover_over_http_leaves_time_for_initialize() -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "server/discover":
            await reply.hang_up()
        else:
            await greeting(script)(asked, reply)

    async with scripted(script) as server, Client(server.url, connect_timeout=1.0) as client:
        assert client.revision == "2025-11-25"
        assert "not answered within 0.5 s" in client.revision_reason


async def test_a_post_that_opens_a_stream_of_2024_leads_to_that_transport() -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        if asked.method == "GET":
            await reply.send(404, b"no stream")
        else:
            await reply.begin_stream()
            await reply.chunk(b"event: endpoint\ndata: /messages\n\n")
            await reply.hang_up()

    async with scripted(script) as server:
        with pytest.raises(StatusError, match=r"serves the transport of 2024-11-05.*'no stream'"):
            async with Client(server.url, connect_timeout=20):
                pass
        assert len(server.of("GET")) == 1
