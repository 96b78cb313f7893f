"""Header fields against parsers that follow the ABNF one character at a time, over values that fit it or nearly do."""

from __future__ import annotations

import ipaddress
import os
import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit.protocol.header_fields import accepts, host, is_same_origin, media_type, origin, token68

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "200"))
drawn = settings(max_examples=EXAMPLES, deadline=None, derandomize=True)

TCHAR = set("!#$%&'*+-.^_`|~" + string.digits + string.ascii_letters)
OBS = {chr(code) for code in range(0x80, 0x100)}
VCHAR = {chr(code) for code in range(0x21, 0x7F)}


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


# Values

TYPES = [
    "application/json",
    "text/event-stream",
    "*/*",
    "application/*",
    "text/*",
    "text/html",
    "Application/JSON",
]
TEXTS = st.sampled_from(
    [
        '"',
        "\\",
        ",",
        ";",
        "=",
        "/",
        " ",
        "\t",
        "q",
        "q=0",
        ";q=0",
        ";q=0.5",
        ";q=1.000",
        ";q=2",
        "*",
        "a",
        "é",
        "\x7f",
    ]
)


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


@st.composite
def lists(draw: st.DrawFn) -> str:
    text = ",".join(draw(st.lists(ranges() | st.just(""), max_size=4)))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(TEXTS) + text[place + draw(st.integers(0, 3)) :]
    return text


@drawn
@given(lists(), st.sampled_from(["application/json", "text/event-stream"]))
def test_accept_is_read_as_its_grammar_has_it(value: str, wanted: str) -> None:
    assert accepts(value, wanted) == expected_acceptance(value, wanted)


@pytest.mark.parametrize(
    ("value", "json", "stream"),
    [
        ("application/json, text/event-stream", True, True),
        ("application/jsonl, text/event-streams", False, False),
        ("application/json;q=0, */*", False, True),
        ("application/json; charset=utf-8, text/event-stream;q=0.5", True, True),
        ("text/*;q=0.1, */*;q=0", False, True),
        ('text/html;title="application/json, text/event-stream"', False, False),
        ("application/json;version=1;q=0, application/json", True, False),
        ("", True, True),
        (" , ", True, True),
        ("*", False, False),
        ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", True, True),  # HttpURLConnection of Java
        ("application/json;q=0.90000001, text/event-stream;q=.0", True, False),
        ("application/json;q=1.0000, text/event-stream;q=1.1", True, False),
    ],
)
def test_accept_of_examples(value: str, json: bool, stream: bool) -> None:
    assert (accepts(value, "application/json"), accepts(value, "text/event-stream")) == (json, stream)


@drawn
@given(lists())
def test_a_media_type_is_a_type_and_a_subtype_and_parameters_behind_a_semicolon(value: str) -> None:
    reader = Reader(value.lstrip(" \t"))
    kind = reader.type_and_subtype()
    reader.many({" ", "\t"})
    assert media_type(value) == (kind if not reader.rest or reader.rest[0] == ";" else None)


@st.composite
def authorizations(draw: st.DrawFn) -> str:
    scheme = draw(st.sampled_from(["Bearer", "bearer", "BEARER", "Basic", "Bearer2", "Bear"]))
    space = draw(st.sampled_from([" ", " ", "  ", "\t", "", ",", " \t"]))
    token = draw(
        st.text("aZ9-._~+/=", max_size=6) | st.sampled_from(["a b", "a,b", 'a="b"', "é", "a==", "=a", "a\n"])
    )
    edge = st.sampled_from(["", "", " ", "\t"])
    return draw(edge) + scheme + space + token + draw(edge)


@drawn
@given(authorizations())
def test_credentials_are_a_scheme_and_one_token(value: str) -> None:
    reader = Reader(value.strip(" \t"))
    scheme = reader.many(TCHAR)
    if scheme.lower() != "bearer" or (reader.rest and reader.rest[0] not in " \t"):
        assert token68(value, "bearer") is None
        return
    spaces = reader.many({" "})
    token = reader.many(set(string.ascii_letters + string.digits + "-._~+/"))
    padding = reader.many({"="})
    if spaces and token and not reader.rest:
        assert token68(value, "bearer") == token + padding
    else:
        with pytest.raises(ValueError, match="not one token"):
            token68(value, "bearer")


REG_NAME = set(string.ascii_letters + string.digits + "-._~!$&'()*+,;=")


def expected_host(value: str) -> tuple[str, int | None] | None:
    """uri-host [ ":" port ] (RFC 3986, section 3.2)."""
    reader = Reader(value)
    if reader.literal("["):
        inside, bracket, _ = reader.rest.partition("]")
        if not bracket:
            return None
        try:
            if "%" in inside:
                return None
            name = f"[{ipaddress.IPv6Address(inside).compressed}]"
        except ValueError:
            return None
        reader.place += len(inside) + 1
    else:
        name = ""
        while reader.rest and (reader.rest[0] in REG_NAME or re.match(r"%[0-9A-Fa-f]{2}", reader.rest)):
            size = 3 if reader.rest[0] == "%" else 1
            name += reader.rest[:size].lower()
            reader.place += size
        if not name:
            return None
    port = None
    if reader.literal(":"):
        digits = reader.many(set(string.digits))
        port = int(digits) if digits else None
    return None if reader.rest or (port or 0) > 65535 else (name, port)


@st.composite
def hosts(draw: st.DrawFn) -> str:
    name = draw(
        st.sampled_from(
            ["localhost", "Example.com", "127.0.0.1", "[::1]", "[0:0:0:0:0:0:0:1]", "[2001:DB8::1]"]
        )
        | st.text("aB.-_%2Ff*,@/[]:é ", max_size=8)
    )
    port = draw(
        st.sampled_from(
            ["", "", ":", ":80", ":443", ":8000", ":65535", ":65536", ":x", ":80:80", ":²", ":080"]
        )
    )
    return name + port


@drawn
@given(hosts())
def test_a_host_is_a_name_or_an_address_and_perhaps_a_port(value: str) -> None:
    assert host(value) == expected_host(value)


@drawn
@given(st.sampled_from(["http", "HTTPS", "moz-extension", "vscode-webview", "1a", "", "null"]), hosts())
def test_an_origin_is_a_scheme_and_a_host(scheme: str, name: str) -> None:
    expected = expected_host(name) if re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme) else None
    found = origin(f"{scheme}://{name}")
    if expected is None:
        assert found is None
    else:
        default = {"http": 80, "https": 443}.get(scheme.lower())
        port = None if expected[1] == default else expected[1]
        assert found == (scheme.lower(), expected[0], port)
        is_same = is_same_origin(f"{scheme}://{name}", expected[0] + ("" if port is None else f":{port}"))
        assert is_same
        assert not is_same_origin(f"{scheme}://{name}", f"other.{expected[0]}")
    assert origin("null") is None
