"""Headers against bodies (basic/transports/streamable-http, "Server Validation"), and the fields of HTTP itself."""

from __future__ import annotations

import base64
import ipaddress
import os
import re
import string
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit import ProtocolError
from mcpkit.common.errors import HEADER_MISMATCH
from mcpkit.protocol.header_fields import accepts, host, is_same_origin, origin, token68
from mcpkit.protocol.headers import check_mirrored, check_standard, decode, encode
from mcpkit.schema import MirroredParameter
from tests.helpers.tables import each_row

TCHAR = set("!#$%&'*+-.^_`|~" + string.digits + string.ascii_letters)

OBS = {chr(code) for code in range(0x80, 0x100)}

VCHAR = {chr(code) for code in range(0x21, 0x7F)}

TYPES = [
    "application/json",
    "text/event-stream",
    "*/*",
    "application/*",
    "text/*",
    "text/html",
    "Application/JSON",
]


class Reader:
    """Reads a text from the left, one rule of the ABNF after the other; each returns None where it does not fit."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    @property
    def rest(self) -> str:
        return self.text[self.place :]

    def many(self, characters: set[str]) -> str:
        start = self.place
        while self.rest and self.rest[0] in characters:
            self.place += 1
        return self.text[start : self.place]

    def literal(self, text: str) -> bool:
        if self.rest.startswith(text):
            self.place += len(text)
            return True
        return False

    def quoted(self) -> str | None:
        start = self.place
        if not self.literal('"'):
            return None
        while self.rest:
            character = self.rest[0]
            self.place += 1
            if character == '"':
                return self.text[start : self.place]
            if character == "\\":
                if not self.rest or self.rest[0] not in {"\t", " "} | VCHAR | OBS:
                    break
                self.place += 1
            elif character not in ({"\t", " "} | VCHAR | OBS) - {'"', "\\"}:
                break
        self.place = start
        return None

    def type_and_subtype(self) -> str | None:
        kind = self.many(TCHAR)
        if kind and self.literal("/") and (subtype := self.many(TCHAR)):
            return f"{kind}/{subtype}".lower()
        return None

    def parameters(self) -> list[tuple[str, str]] | None:
        """*( OWS ";" OWS [ token "=" ( token / quoted-string ) ] ), up to the end."""
        found = []
        while self.rest:
            self.many({" ", "\t"})
            if not self.literal(";"):
                return None
            self.many({" ", "\t"})
            if self.rest and self.rest[0] in TCHAR:
                name = self.many(TCHAR)
                if not self.literal("="):
                    return None
                value = self.quoted() if self.rest.startswith('"') else self.many(TCHAR)
                if not value:
                    return None
                found.append((name.lower(), value))
        return found


def elements(value: str) -> list[str]:
    """#element: split at commas that are in no quoted string; what follows a quote that is none is one element."""
    reader, found, start = Reader(value), [], 0
    while reader.rest:
        if reader.rest[0] == '"':
            if reader.quoted() is None:
                reader.place = len(value)
        elif reader.rest[0] == ",":
            found.append(value[start : reader.place])
            reader.place += 1
            start = reader.place
        else:
            reader.place += 1
    found.append(value[start:])
    return [stripped for each in found if (stripped := each.strip(" \t"))]


@st.composite
def ranges(draw: st.DrawFn) -> str:
    space = st.sampled_from(["", "", " ", "\t "])
    text = draw(st.sampled_from(TYPES))
    for _ in range(draw(st.integers(0, 2))):
        name = draw(st.sampled_from(["charset", "v", "profile", "q", "Q"]))
        value = draw(
            st.sampled_from(
                ["utf-8", "0", "0.0", "0.001", "1", "1.0", '"a,b;c"', '"\\"q=0"', "0.1234", ".5", ".", "1.1"]
            )
        )
        text += f"{draw(space)};{draw(space)}{name}={value}"
    return draw(space) + text + draw(space)


def expected_acceptance(value: str, wanted: str) -> bool:
    listed = elements(value)
    weights: dict[int, list[float]] = {}
    for element in listed:
        reader = Reader(element)
        kind = reader.type_and_subtype()
        parameters = None if kind is None else reader.parameters()
        if parameters is None:
            continue
        names = [name for name, _ in parameters]
        place = names.index("q") if "q" in names else len(names)
        text = parameters[place][1] if place < len(names) else "1"
        if not re.fullmatch(r"0|0\.|0?\.[0-9]+|1|1\.0*", text):  # any decimal number from 0 to 1
            continue
        of_type = wanted.split("/", maxsplit=1)[0] + "/*"
        rank = {wanted: 3 if place == 0 else 2, of_type: 1, "*/*": 0}.get(kind or "")
        if rank is not None and (rank >= 2 or place == 0):
            weights.setdefault(rank, []).append(float(text))
    return not listed or (bool(weights) and max(weights[max(weights)]) > 0)


@st.composite
def lists(draw: st.DrawFn) -> str:
    text = ",".join(draw(st.lists(ranges() | st.just(""), max_size=4)))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(TEXTS) + text[place + draw(st.integers(0, 3)) :]
    return text


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


def check_request(
    changes: dict[bytes, bytes | None], method: str = "tools/call", **params: Any
) -> ProtocolError | None:
    """Check a request; the headers of a call are changed, or left out where None."""
    headers = {name: value for name, value in {**CALL, **changes}.items() if value is not None}
    return mismatch(lambda: check_standard(headers, method, params, REVISION))


def check_argument(
    header: bytes | None, arguments: dict[str, Any], mirrored: Any = REGION
) -> ProtocolError | None:
    """Check a call with one `Mcp-Param-Region` header, or none."""
    headers = {} if header is None else {b"mcp-param-region": header}
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({b"mcp-protocol-version": None}, "MCP-Protocol-Version header is missing"),
        ({b"mcp-method": None}, "Mcp-Method header is missing"),
        ({b"mcp-name": None}, "Mcp-Name header is missing"),
        ({b"mcp-protocol-version": b"2025-11-25"}, "'2025-11-25' does not match body value '2026-07-28'"),
        ({b"mcp-method": b"tools/list"}, "'tools/list' does not match body value 'tools/call'"),
        ({b"mcp-method": b""}, "Mcp-Method header value '' does not match"),
        ({b"mcp-method": encoded("tools/call")}, "Mcp-Method header value '=\\?base64\\?"),
        ({b"mcp-name": b"get_time"}, "header value 'get_time' does not match body value 'get_weather'"),
        ({b"mcp-name": b"get_weather, get_weather"}, "'get_weather, get_weather' does not match"),
        ({b"mcp-name": b"get_weather\n"}, "Mcp-Name must be visible ASCII"),
        ({b"mcp-name": b"\xff"}, "Mcp-Name must be visible ASCII"),
    ],
)
def test_headers_missing_or_different_are_refused(changes: dict[bytes, bytes | None], message: str) -> None:
    error = check_request(changes, name="get_weather")
    assert error is not None
    assert re.search(message, error.message)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        (b"us-west1", "us-west1"),
        (b"", ""),
        (b"a\tb c", "a\tb c"),
        (b"=?base64?SGVsbG8=?=", "Hello"),
        (b"SGVsbG8=", "SGVsbG8="),  # no prefix: literal
        (b"=?base64?SGVsbG8sIOS4lueVjA==?=", "Hello, 世界"),
        (b"=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "=?base64?literal?="),
        (b"42", 42),
        (b"42.0", 42),
        (b"-0", 0),
        (b"=?base64?NDI=?=", 42),
        (b"9007199254740991", 2**53 - 1),
        (b"true", True),
        (None, None),
    ],
)
def test_header_with_its_argument_passes(header: bytes | None, value: Any) -> None:
    assert check_argument(header, {"region": value}) is None


@pytest.mark.parametrize(
    ("header", "value"),
    [
        (b"us-west2", "us-west1"),
        (None, "us-west1"),
        (None, ""),
        (b"", None),
        (b"padded", " padded "),
        (b"42", "42.0"),
        (b"43", 42),
        (b"0x2a", 42),
        ("٤٢".encode(), 42),
        (b"9007199254740992", 2**53),  # not exact in JavaScript
        (b"1", 10**400),
        (b"inf", float("1e300")),
        (b"1", True),
        (b"true", 1),
        (b"['a']", ["a"]),
    ],
)
def test_header_unlike_its_argument_is_refused(header: bytes | None, value: Any) -> None:
    assert check_argument(header, {"region": value})


@pytest.mark.parametrize(
    ("header", "value"),
    [
        (b"=?base64?SGVsbG8?=", "Hello"),  # padding
        (b"=?base64?SGVs!!!bG8=?=", "Hello"),  # alphabet
        (b"=?base64?SGVsbG9=?=", "Hello"),  # bits that no encoder leaves
        (b"=?base64?Pz8_?=", "???"),  # another alphabet
        (b"=?base64?/w==?=", "\xff"),  # not UTF-8
        (b"=?base64?=", "=?base64?="),
        ("世界".encode(), "世界"),
        (b"a\x00b", "a\x00b"),
        (b"a\nb", "a\nb"),
    ],
)
def test_malformed_header_is_refused(header: bytes, value: str) -> None:
    error = check_argument(header, {"region": value})
    assert error is not None
    assert "must be visible ASCII characters, or =?base64?...?=" in error.message


def test_a_field_of_an_object_is_read_by_its_path() -> None:
    assert check_argument(b"eu", {"place": {"region": "eu"}}, NESTED) is None
    assert check_argument(b"us", {"place": {"region": "eu"}}, NESTED)
    assert check_argument(None, {"place": {"region": "eu"}}, NESTED)
    assert check_argument(b"eu", {"place": {}}, NESTED)
    for absent in ({}, {"place": None}, {"place": "eu"}, {"place": ["eu"]}, {"place": {"region": None}}):
        assert check_argument(None, absent, NESTED) is None


def as_the_specification_encodes(value: str) -> bytes:
    """Encode a value as a client must ("Value Encoding"), written anew from the text."""
    is_safe = re.fullmatch(r"[\x20-\x7e\t]*", value) and value == value.strip(" \t")
    is_marked = value.startswith("=?base64?") and value.endswith("?=")
    return value.encode("ascii") if is_safe and not is_marked else encoded(value)


# Texts of all kinds, and those that come close to the markers, to blanks and to Base64.
TEXTS = st.text() | st.from_regex(r"\A[ \t]?(=\?base64\?)?[A-Za-z0-9+/=!]{0,12}(\?=)?[ \t]?\Z")


@given(TEXTS)
def test_encoded_value_is_decoded(value: str) -> None:
    header = as_the_specification_encodes(value)
    assert decode("Mcp-Name", header) == decode("Mcp-Name", encode(value)) == value
    assert check_argument(header, {"region": value}) is None
    assert check_request({b"mcp-name": header}, name=value) is None


@given(st.binary(max_size=40) | st.binary(max_size=20).map(lambda data: b"=?base64?" + data + b"?="), TEXTS)
def test_bytes_pass_only_in_the_two_forms_of_the_value(header: bytes, value: str) -> None:
    forms = {as_the_specification_encodes(value), encoded(value)}
    assert (check_argument(header, {"region": value}) is None) == (header.strip(b" \t") in forms)


EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "50"))
drawn = settings(derandomize=True)


@each_row(
    ("value", "json", "stream"),
    [
        ("application/json, text/event-stream", True, True),
        ("application/jsonl, text/event-streams", False, False),
        ("application/json; charset=utf-8, text/event-stream;q=0.5", True, True),
        ("text/*;q=0.1, */*;q=0", False, True),
        ('text/html;title="application/json, text/event-stream"', False, False),
        ("application/json;version=1;q=0, application/json", True, False),
        ("", True, True),
        (" , ", True, True),
        ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", True, True),  # HttpURLConnection of Java
        ("application/json;q=0.90000001, text/event-stream;q=.0", True, False),
        ("application/json;q=1.0000, text/event-stream;q=1.1", True, False),
    ],
)
def test_accept_of_examples(value: str, json: bool, stream: bool) -> None:
    assert (accepts(value, "application/json"), accepts(value, "text/event-stream")) == (json, stream)


@each_row(
    ("value", "expected"),
    [
        ("Bearer aZ9-._~+/==", "aZ9-._~+/=="),
        ("bearer   a", "a"),
        (" BEARER a\t", "a"),
        ("Basic a", None),
        ("Bearer2 a", None),
        *((value, ValueError) for value in ("Bearer", "Bearer a b", "Bearer a,b", 'Bearer a="b"')),
        *((value, ValueError) for value in ("Bearer\ta", "Bearer =a", "Bearer é", "Bearer a\nb")),
    ],
)
def test_credentials_are_a_scheme_and_one_token(value: str, expected: str | type[ValueError] | None) -> None:
    if expected is ValueError:
        with pytest.raises(ValueError, match="not a single token"):
            token68(value, "bearer")
    else:
        assert token68(value, "bearer") == expected


HOST = re.compile(
    r"(?P<name>\[(?P<address>[^]%]+)\]|(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})+)(?::(?P<port>[0-9]*))?"
)
"""uri-host [ ":" port ] (RFC 3986, section 3.2)."""


def expected_host(value: str) -> tuple[str, int | None] | None:
    match = HOST.fullmatch(value)
    if match is None or int(match["port"] or 0) > 65535:
        return None
    name = match["name"].lower()
    if match["address"]:
        try:
            name = f"[{ipaddress.IPv6Address(match['address']).compressed}]"
        except ValueError:
            return None
    return name, int(match["port"]) if match["port"] else None


NAMES = ["localhost", "Example.com", "127.0.0.1", "[::1]", "[0:0:0:0:0:0:0:1]", "[2001:DB8::1]"]
PORTS = ["", "", ":", ":80", ":443", ":8000", ":65535", ":65536", ":x", ":80:80", ":²", ":080"]
HOSTS = st.builds(
    str.__add__,
    st.sampled_from(NAMES) | st.text("aB.-_%2Ff*,@/[]:é ", max_size=8),
    st.sampled_from(PORTS),
)


@drawn
@given(HOSTS)
def test_host_is_a_name_or_an_address_and_perhaps_a_port(value: str) -> None:
    assert host(value) == expected_host(value)


@drawn
@given(st.sampled_from(["http", "HTTPS", "moz-extension", "vscode-webview", "1a", "", "null"]), HOSTS)
def test_origin_is_a_scheme_and_a_host(scheme: str, name: str) -> None:
    expected = expected_host(name) if re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme) else None
    found = origin(f"{scheme}://{name}")
    if expected is None:
        assert found is None
    else:
        default = {"http": 80, "https": 443}.get(scheme.lower())
        port = None if expected[1] == default else expected[1]
        assert found == (scheme.lower(), expected[0], port)
        assert is_same_origin(f"{scheme}://{name}", expected[0] + ("" if port is None else f":{port}"))
        assert not is_same_origin(f"{scheme}://{name}", f"other.{expected[0]}")
    assert origin("null") is None


@drawn
@given(lists(), st.sampled_from(["application/json", "text/event-stream"]))
def test_accept_is_read_as_its_grammar_has_it(value: str, wanted: str) -> None:
    assert accepts(value, wanted) == expected_acceptance(value, wanted)
