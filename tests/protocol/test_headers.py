"""Headers against bodies (basic/transports/streamable-http, "Server Validation"), and the fields of HTTP itself."""

import base64
import re
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcpkit import ProtocolError
from mcpkit._utils.exceptions import HEADER_MISMATCH
from mcpkit.protocol.http_headers import (
    accepts,
    check_mirrored,
    check_standard,
    decode_value,
    encode_value,
    host,
    is_same_origin,
    origin,
)
from mcpkit.schema import MirroredParameter
from tests.helpers.tables import each_row

REVISION = "2026-07-28"
CALL = {
    b"mcp-protocol-version": REVISION.encode(), b"mcp-method": b"tools/call", b"mcp-name": b"get_weather",
}  # fmt: skip
REGION = (MirroredParameter(b"mcp-param-region", ("region",)),)
NESTED = (MirroredParameter(b"mcp-param-region", ("place", "region")),)


def encoded(value: str) -> bytes:
    return b"=?base64?" + base64.b64encode(value.encode()) + b"?="


def mismatch(check: Callable[..., None], *arguments: Any) -> str:
    """Return the message of the error that a check raises, or an empty text."""
    caught = None
    try:
        check(*arguments)
    except ProtocolError as error:
        caught = error
    assert caught is None or caught.code == HEADER_MISMATCH == -32020
    return caught.message if caught else ""


def check_request(changes: dict[bytes, bytes | None], name: str) -> str:
    """Check a tool call; its headers are changed, or left out where None."""
    headers = {key: value for key, value in {**CALL, **changes}.items() if value is not None}
    return mismatch(check_standard, headers, "tools/call", {"name": name}, REVISION)


def check_argument(header: bytes | None, arguments: dict[str, Any], mirrored: Any = REGION) -> str:
    """Check a call with one `Mcp-Param-Region` header, or none."""
    return mismatch(
        check_mirrored, {} if header is None else {b"mcp-param-region": header}, mirrored, arguments
    )


@each_row(("header", "value", "message"), [
    ("mcp-protocol-version", None, "MCP-Protocol-Version header is missing"),
    ("mcp-method", None, "Mcp-Method header is missing"), ("mcp-name", None, "Mcp-Name header is missing"),
    ("mcp-protocol-version", b"2025-11-25", "'2025-11-25' does not match body value '2026-07-28'"),
    ("mcp-method", b"tools/list", "'tools/list' does not match body value 'tools/call'"),
    ("mcp-method", b"", "Mcp-Method header value '' does not match"),
    ("mcp-method", encoded("tools/call"), "Mcp-Method header value '=?base64?"),
    ("mcp-name", b"get_time", "header value 'get_time' does not match body value 'get_weather'"),
    ("mcp-name", b"get_weather, get_weather", "'get_weather, get_weather' does not match"),
    ("mcp-name", b"get_weather\n", "Mcp-Name must be visible ASCII"),
    ("mcp-name", b"\xff", "Mcp-Name must be visible ASCII"),
])  # fmt: skip
def test_header_missing_or_different_is_refused(header: str, value: bytes | None, message: str) -> None:
    assert message in check_request({header.encode(): value}, "get_weather")


@each_row(("header", "value"), [
    (b"us-west1", "us-west1"), (b"", ""), (b"a\tb c", "a\tb c"), (b"=?base64?SGVsbG8=?=", "Hello"),
    (b"SGVsbG8=", "SGVsbG8="),  # no prefix: literal
    (b"=?base64?SGVsbG8sIOS4lueVjA==?=", "Hello, 世界"),
    (b"=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "=?base64?literal?="),
    (b"42", 42), (b"42.0", 42), (b"-0", 0), (b"=?base64?NDI=?=", 42), (b"9007199254740991", 2**53 - 1),
    (b"true", True), (None, None),
])  # fmt: skip
def test_header_with_its_argument_passes(header: bytes | None, value: Any) -> None:
    assert not check_argument(header, {"region": value})


@each_row(("header", "value"), [
    (b"us-west2", "us-west1"), (None, "us-west1"), (None, ""), (b"", None), (b"padded", " padded "),
    (b"42", "42.0"), (b"43", 42), (b"0x2a", 42), ("٤٢".encode(), 42),
    (b"9007199254740992", 2**53),  # not exact in JavaScript
    (b"1", 10**400), (b"inf", float("1e300")), (b"1", True), (b"true", 1), (b"['a']", ["a"]),
])  # fmt: skip
def test_header_unlike_its_argument_is_refused(header: bytes | None, value: Any) -> None:
    assert check_argument(header, {"region": value})


@each_row(("header", "value"), [
    (b"=?base64?SGVsbG8?=", "Hello"),  # padding
    (b"=?base64?SGVs!!!bG8=?=", "Hello"),  # alphabet
    (b"=?base64?SGVsbG9=?=", "Hello"),  # bits that no encoder leaves
    (b"=?base64?Pz8_?=", "???"),  # another alphabet
    (b"=?base64?/w==?=", "\xff"),  # not UTF-8
    (b"=?base64?=", "=?base64?="), ("世界".encode(), "世界"), (b"a\x00b", "a\x00b"), (b"a\nb", "a\nb"),
])  # fmt: skip
def test_header_malformed_is_refused(header: bytes, value: str) -> None:
    assert "must be visible ASCII characters, or =?base64?...?=" in check_argument(header, {"region": value})


def test_header_of_a_nested_field_is_compared_by_its_path() -> None:
    assert not check_argument(b"eu", {"place": {"region": "eu"}}, NESTED)
    assert check_argument(b"us", {"place": {"region": "eu"}}, NESTED)
    assert check_argument(None, {"place": {"region": "eu"}}, NESTED)
    assert check_argument(b"eu", {"place": {}}, NESTED)
    for absent in ({}, {"place": None}, {"place": "eu"}, {"place": ["eu"]}, {"place": {"region": None}}):
        assert not check_argument(None, absent, NESTED)


def encoded_by_specification(value: str) -> bytes:
    """Encode a value as a client must ("Value Encoding")."""
    is_safe = re.fullmatch(r"[\x20-\x7e\t]*", value) and value == value.strip(" \t")
    is_marked = value.startswith("=?base64?") and value.endswith("?=")
    return value.encode("ascii") if is_safe and not is_marked else encoded(value)


# Texts of all kinds, and those that come close to the markers, to blanks and to Base64.
TEXTS = st.text() | st.from_regex(r"\A[ \t]?(=\?base64\?)?[A-Za-z0-9+/=!]{0,12}(\?=)?[ \t]?\Z")


@given(TEXTS)
def test_header_encoded_value_is_decoded(value: str) -> None:
    header = encoded_by_specification(value)
    assert decode_value("Mcp-Name", header) == decode_value("Mcp-Name", encode_value(value)) == value
    assert not check_argument(header, {"region": value})
    assert not check_request({b"mcp-name": header}, value)


@given(st.binary(max_size=40) | st.binary(max_size=20).map(lambda data: b"=?base64?" + data + b"?="), TEXTS)
def test_header_bytes_pass_only_in_the_two_forms_of_the_value(header: bytes, value: str) -> None:
    forms = {encoded_by_specification(value), encoded(value)}
    assert (not check_argument(header, {"region": value})) == (header.strip(b" \t") in forms)


@each_row(("value", "json", "stream"), [
    ("application/json, text/event-stream", True, True), ("", True, True), (" , ", True, True),
    ("application/jsonl, text/event-streams", False, False), (", ,application/json,,", True, False),
    ("Application/JSON;Q=0, TEXT/*", False, True),
    # HttpURLConnection of Java
    ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", True, True),
    # weights
    ("application/json; charset=utf-8, text/event-stream;q=0.5", True, True),
    ("application/json;q=0.90000001, text/event-stream;q=.0", True, False),
    ("application/json;q=1.0000, text/event-stream;q=1.1", True, False),
    ('application/json;q="1", text/event-stream;q=0.5x', False, False),
    ("application/json;q=00, text/event-stream;q=.", False, False), ("*/json, text/event-stream;q=", False, False),
    # the most specific range decides, and of two the one with more weight
    ("text/*;q=0.1, */*;q=0", False, True), ("*/*;v=1;q=0.5", False, False),
    ("*/*;q=0, application/*;q=0.001, text/event-stream;v=1;q=0", True, False),
    ("application/json;q=0, application/json;q=1, text/event-stream;q=0;q=1", True, False),
    ("text/*, application/*;q=0, text/*;q=0", False, True),
    # quoted strings
    ('text/html;title="application/json, text/event-stream"', False, False),
    ('application/json;v="a,b;c\\"q=0";q=1, text/event-stream;v="\\é\t"', True, True),
    ('text/event-stream;v="a, application/json', False, False), ('text/html;v="\\, application/json', False, False),
    ('application/json;v="\x01", text/event-stream', False, False), ('a"b", application/json', True, False),
    ('application/json;v="a"b, text/event-stream;v', False, False),
    # parameters
    ("application/json; ;, text/event-stream\t;\tv=1 ", True, True),
    ("application/json;v=, text/event-stream;=1", False, False),
    ("application, /json, text/, event-stream", False, False), ("application/json text/event-stream", False, False),
])  # fmt: skip
def test_accept_is_read_by_its_grammar(value: str, json: bool, stream: bool) -> None:
    assert (accepts(value, "application/json"), accepts(value, "text/event-stream")) == (json, stream)


HOSTS = [
    ("localhost", "localhost", None), ("Example.com:8000", "example.com", 8000), ("127.0.0.1:", "127.0.0.1", None),
    ("a.-_~!$&'()*+,;=%2F:0808", "a.-_~!$&'()*+,;=%2f", 808), ("[::1]:65535", "[::1]", 65535),
    ("[0:0:0:0:0:0:0:1]", "[::1]", None), ("[2001:DB8::1]", "[2001:db8::1]", None),
]  # fmt: skip
"""Values of Host (RFC 3986, section 3.2), with their name and port."""
NO_HOSTS = [
    *(
        "", ":80", "a:65536", "a:x", "a:80:80", "a:\u00b2", "a b", "a/b", "a@b", "%2", "\u00e9", "[::1",
        "::1", "[a]",
    ),
    *("[fe80::1%eth0]", "[::1]a", " a", "a\n"),
]  # fmt: skip


@each_row(("value", "name", "port"), HOSTS)
def test_host_is_a_name_or_an_address_and_perhaps_a_port(value: str, name: str, port: int | None) -> None:
    assert host(value) == (name, port)
    for scheme in ("http", "HTTPS", "vscode-webview"):
        assert origin(f"{scheme}://{value}") == (scheme.lower(), name, port)
        assert is_same_origin(f"{scheme}://{value}", value)
        assert not is_same_origin(f"{scheme}://{value}", f"other.{value}")


@each_row("value", NO_HOSTS)
def test_host_malformed_is_refused(value: str) -> None:
    assert host(value) is None
    assert origin(f"http://{value}") is None


@each_row(("value", "expected"), [
    ("http://a:80", ("http", "a", None)), ("https://a:443", ("https", "a", None)),
    ("https://a:80", ("https", "a", 80)), ("null", None), ("://a", None), ("1a://b", None), ("a", None),
])  # fmt: skip
def test_origin_omits_the_default_port(value: str, expected: Any) -> None:
    assert origin(value) == expected
