"""Headers against bodies (basic/transports/streamable-http, "Server Validation"): equal, or refused with -32020."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit import ProtocolError
from mcpkit.common.errors import HEADER_MISMATCH
from mcpkit.protocol.headers import check_mirrored, check_standard, decode, encode
from mcpkit.schema import MirroredParameter

REVISION = "2026-07-28"
CALL = {
    b"mcp-protocol-version": REVISION.encode(),
    b"mcp-method": b"tools/call",
    b"mcp-name": b"get_weather",
}
REGION = (MirroredParameter(b"mcp-param-region", ("region",)),)
NESTED = (MirroredParameter(b"mcp-param-region", ("place", "region")),)


def encoded(value: str) -> bytes:
    return b"=?base64?" + base64.b64encode(value.encode()) + b"?="


def standard(
    changes: dict[bytes, bytes | None], method: str = "tools/call", **params: Any
) -> ProtocolError | None:
    """Check a request; the headers of a call are changed, or left out where None."""
    headers = {name: value for name, value in {**CALL, **changes}.items() if value is not None}
    return mismatch(lambda: check_standard(headers, method, params, REVISION))


def refused(told: bytes | None, arguments: dict[str, Any], mirrored: Any = REGION) -> ProtocolError | None:
    """Check a call with one `Mcp-Param-Region` header, or none."""
    headers = {} if told is None else {b"mcp-param-region": told}
    return mismatch(lambda: check_mirrored(headers, mirrored, arguments))


def mismatch(check: Callable[[], None]) -> ProtocolError | None:
    """Return what a check raises."""
    caught: ProtocolError | None = None
    try:
        check()
    except ProtocolError as error:
        caught = error
    if caught is not None:
        assert caught.code == HEADER_MISMATCH == -32020
        assert caught.message.startswith(("Header mismatch: Mcp-", "Header mismatch: MCP-"))
    return caught


def test_headers_that_say_what_the_body_says_pass() -> None:
    assert standard({}, name="get_weather") is None


@pytest.mark.parametrize("pad", [b"  %s  ", b"\t%s\t", b"%s  ", b"  %s"])
def test_blanks_round_a_value_are_no_part_of_it(pad: bytes) -> None:
    assert standard({name: pad % value for name, value in CALL.items()}, name="get_weather") is None
    assert refused(pad % b"us-west1", {"region": "us-west1"}) is None
    assert refused(pad % b"=?base64?SGVsbG8=?=", {"region": "Hello"}) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({b"mcp-protocol-version": None}, "MCP-Protocol-Version header is missing"),
        ({b"mcp-method": None}, "Mcp-Method header is missing"),
        ({b"mcp-name": None}, "Mcp-Name header is missing"),
        ({b"mcp-protocol-version": b"2025-11-25"}, "'2025-11-25' does not match body value '2026-07-28'"),
        ({b"mcp-method": b"tools/list"}, "'tools/list' does not match body value 'tools/call'"),
        ({b"mcp-method": b"TOOLS/CALL"}, "'TOOLS/CALL' does not match"),
        ({b"mcp-method": b""}, "Mcp-Method header value '' does not match"),
        ({b"mcp-method": encoded("tools/call")}, "Mcp-Method header value '=\\?base64\\?"),
        ({b"mcp-name": b"get_time"}, "header value 'get_time' does not match body value 'get_weather'"),
        ({b"mcp-name": b"Get_Weather"}, "'Get_Weather' does not match"),
        ({b"mcp-name": b"get_weather, get_weather"}, "'get_weather, get_weather' does not match"),
        ({b"mcp-name": b"get_weather\n"}, "Mcp-Name must be visible ASCII"),
        ({b"mcp-name": b"\xff"}, "Mcp-Name must be visible ASCII"),
    ],
)
def test_headers_that_are_missing_or_differ_are_refused(
    changes: dict[bytes, bytes | None], message: str
) -> None:
    error = standard(changes, name="get_weather")
    assert error is not None
    assert re.search(message, error.message)


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "Grüße"}, "Grüße"),
        ("prompts/get", {"name": "plan"}, "plan"),
        ("resources/read", {"uri": "file:///a%20b", "name": "other"}, "file:///a%20b"),
        ("resources/read", {"uri": "file:///世界"}, "file:///世界"),
    ],
)
def test_what_is_named_depends_on_the_method(method: str, params: dict[str, Any], name: str) -> None:
    changes = {b"mcp-method": method.encode()}
    assert standard({**changes, b"mcp-name": encoded(name)}, method, **params) is None
    assert standard({**changes, b"mcp-name": encoded(name + "x")}, method, **params)
    assert standard({**changes, b"mcp-name": None}, method, **params)


@pytest.mark.parametrize("method", ["tools/list", "server/discover", "completion/complete", "unknown/method"])
def test_other_methods_need_no_name(method: str) -> None:
    assert standard({b"mcp-method": method.encode(), b"mcp-name": None}, method, name="a", uri="b") is None


@pytest.mark.parametrize("params", [{}, {"name": None}, {"name": 7}, {"name": ["get_weather"]}])
def test_params_without_a_name_are_left_to_the_method(params: dict[str, Any]) -> None:
    assert standard({}, **params) is None
    assert standard({b"mcp-name": None}, **params) is None


@pytest.mark.parametrize(
    ("told", "value"),
    [
        (b"us-west1", "us-west1"),
        (b"", ""),
        (b"=?base64??=", ""),
        (b"a\tb c", "a\tb c"),
        (b"=?base64?SGVsbG8=?=", "Hello"),
        (b"SGVsbG8=", "SGVsbG8="),  # no prefix: literal
        (b"=?base64?SGVsbG8=", "=?base64?SGVsbG8="),  # no suffix: literal
        (b"=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),  # the marker is of lower case
        (b"=?base64?SGVsbG8sIOS4lueVjA==?=", "Hello, 世界"),
        (b"=?base64?IHBhZGRlZCA=?=", " padded "),
        (b"=?base64?bGluZTEKbGluZTI=?=", "line1\nline2"),
        (b"=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "=?base64?literal?="),
        (b"42", 42),
        (b"42.0", 42),
        (b"42.000", 42.0),
        (b"-7", -7),
        (b"0", -0.0),
        (b"-0", 0),
        (b"=?base64?NDI=?=", 42),
        (b"9007199254740991", 2**53 - 1),
        (b"-9007199254740991", 1 - 2**53),
        (b"true", True),
        (b"false", False),
        (None, None),
    ],
)
def test_a_header_with_its_argument_passes(told: bytes | None, value: Any) -> None:
    assert refused(told, {"region": value}) is None


@pytest.mark.parametrize(
    ("told", "value"),
    [
        (b"us-west2", "us-west1"),
        (b"US-WEST1", "us-west1"),
        (None, "us-west1"),
        (None, ""),
        (None, 0),
        (None, False),
        (b"", None),
        (b"null", None),
        (b"us-west1", None),
        (b"padded", " padded "),
        (b"42", "42.0"),
        (b"042.5", 42),
        (b"43", 42),
        (b"4_2", 42),
        (b"+42", 42),
        (b"4.2e1", 42),
        (b"0x2a", 42),
        (b"", 0),
        (b"42.", 42),
        ("٤٢".encode(), 42),
        (encoded("٤٢"), 42),
        (b"1.5", 1.5),
        (b"9" * 5000, 42),
        (b"9007199254740992", 2**53),  # not exact in JavaScript
        (b"9007199254740992", 2**53 + 1),
        (b"9007199254740993", 2**53 + 1),
        (b"-9007199254740992", -(2**53)),
        (b"1", 10**400),
        (b"inf", float("1e300")),
        (b"1", True),
        (b"True", True),
        (b"true", "false"),
        (b"false", 0),
        (b"true", 1),
        (b"['a']", ["a"]),
        (b"{}", {}),
    ],
)
def test_a_header_unlike_its_argument_is_refused(told: bytes | None, value: Any) -> None:
    assert refused(told, {"region": value})


@pytest.mark.parametrize(
    ("told", "value"),
    [
        (b"=?base64?SGVsbG8?=", "Hello"),  # padding
        (b"=?base64?SGVsbG8==?=", "Hello"),
        (b"=?base64?SGVs!!!bG8=?=", "Hello"),  # alphabet
        (b"=?base64?SGVs bG8=?=", "Hello"),
        (b"=?base64?SGVsbG8=\n?=", "Hello"),
        (b"=?base64?SGVsbG9=?=", "Hello"),  # bits that no encoder leaves
        (b"=?base64?SGVsbG8=SGVsbG8=?=", "Hello"),
        (b"=?base64?Pz8_?=", "???"),  # another alphabet
        (b"=?base64?/w==?=", "\xff"),  # not UTF-8
        (b"=?base64?=", ""),
        (b"=?base64?=", "=?base64?="),
        (b"=?base64?literal?=", "=?base64?literal?="),
        ("世界".encode(), "世界"),
        (b"caf\xe9", "café"),
        (b"a\x00b", "a\x00b"),
        (b"a\nb", "a\nb"),
        (b"a\x7fb", "a\x7fb"),
    ],
)
def test_a_header_that_is_malformed_is_refused_whatever_the_argument(told: bytes, value: str) -> None:
    error = refused(told, {"region": value})
    assert error is not None
    assert "must be visible ASCII characters, or =?base64?...?=" in error.message


def test_an_argument_that_is_not_there_has_no_header() -> None:
    assert refused(None, {}) is None
    error = refused(b"us-west1", {})
    assert error is not None
    assert "is there, but its argument is not in the body" in error.message


@pytest.mark.parametrize("value", [{"a": 1}, ["us-west1"]])
def test_a_value_that_no_header_can_carry_is_left_to_the_validator(value: Any) -> None:
    assert refused(None, {"region": value}) is None


def test_a_field_of_an_object_is_read_by_its_path() -> None:
    assert refused(b"eu", {"place": {"region": "eu"}}, NESTED) is None
    assert refused(b"us", {"place": {"region": "eu"}}, NESTED)
    assert refused(None, {"place": {"region": "eu"}}, NESTED)
    assert refused(b"eu", {"place": {}}, NESTED)
    for absent in ({}, {"place": None}, {"place": "eu"}, {"place": ["eu"]}, {"place": {"region": None}}):
        assert refused(None, absent, NESTED) is None


def test_every_header_of_a_tool_is_checked() -> None:
    both = (*REGION, MirroredParameter(b"mcp-param-dry-run", ("dry",)))
    headers = {b"mcp-param-region": b"eu", b"mcp-param-dry-run": b"true", b"mcp-param-other": b"ignored"}
    check_mirrored(headers, both, {"region": "eu", "dry": True})
    with pytest.raises(
        ProtocolError, match=r"Mcp-Param-Dry-Run header value 'true' does not match body value False"
    ):
        check_mirrored(headers, both, {"region": "eu", "dry": False})


def test_messages_stay_short() -> None:
    error = refused(b"x" * 100_000, {"region": "y" * 100_000})
    assert error is not None
    assert len(error.message) < 400


def as_the_specification_encodes(value: str) -> bytes:
    """Encode a value as a client must ("Value Encoding"), written anew from the text."""
    is_safe = re.fullmatch(r"[\x20-\x7e\t]*", value) and value == value.strip(" \t")
    is_marked = value.startswith("=?base64?") and value.endswith("?=")
    return value.encode("ascii") if is_safe and not is_marked else encoded(value)


# Texts of all kinds, and those that come close to the markers, to blanks and to Base64.
TEXTS = st.text() | st.from_regex(r"\A[ \t]?(=\?base64\?)?[A-Za-z0-9+/=!]{0,12}(\?=)?[ \t]?\Z")


@given(TEXTS)
@settings(max_examples=300)
def test_what_a_client_encodes_comes_back(value: str) -> None:
    told = as_the_specification_encodes(value)
    assert decode("Mcp-Name", told) == decode("Mcp-Name", encode(value)) == value
    assert refused(told, {"region": value}) is None
    assert standard({b"mcp-name": told}, name=value) is None


@given(TEXTS, TEXTS)
@settings(max_examples=300)
def test_any_other_value_is_refused(told: str, value: str) -> None:
    header = as_the_specification_encodes(told)
    assert (refused(header, {"region": value}) is None) == (told == value)
    assert (standard({b"mcp-name": header}, name=value) is None) == (told == value)


@given(st.binary(max_size=40) | st.binary(max_size=20).map(lambda data: b"=?base64?" + data + b"?="), TEXTS)
@settings(max_examples=300)
def test_bytes_pass_only_as_one_of_the_two_forms_of_the_value(told: bytes, value: str) -> None:
    forms = {as_the_specification_encodes(value), encoded(value)}
    assert (refused(told, {"region": value}) is None) == (told.strip(b" \t") in forms)


@given(st.integers(), st.integers(min_value=-3, max_value=3))
@settings(max_examples=200)
def test_integers_pass_exactly_when_they_are_equal_and_safe(value: int, off: int) -> None:
    is_safe = abs(value) < 2**53
    assert (refused(str(value + off).encode(), {"region": value}) is None) == (off == 0 and is_safe)
    assert (refused(f"{value + off}.0".encode(), {"region": value}) is None) == (off == 0 and is_safe)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("us-west1", b"us-west1"),
        ("", b""),
        ("a b", b"a b"),
        ("=?base64?", b"=?base64?"),
        ("Hello, \u4e16\u754c", b"=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", b"=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", b"=?base64?bGluZTEKbGluZTI=?="),
        ("a\tb", b"=?base64?YQli?="),
        ("=?base64?literal?=", b"=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ],
)
def test_what_a_client_says_in_a_header(value: str, told: bytes) -> None:
    assert encode(value) == told


def test_half_of_a_surrogate_pair_has_no_header() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        encode("\ud800")
