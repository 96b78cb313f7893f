"""Parsers of HTTP responses: event streams in any pieces, and WWW-Authenticate challenges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.client.transports.http.challenge import read_challenges
from mcpkit.client.transports.http.event_stream import Event, EventStream, TooLargeEventError
from tests.helpers.tables import each_row


def read_events(*pieces: bytes, most: int = 1000) -> list[Event]:
    stream = EventStream(most)
    return [event for piece in pieces for event in stream.feed(piece)]


def data(*pieces: bytes) -> list[bytes]:
    return [event.data for event in read_events(*pieces)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_event_stream_line_ends(end: bytes) -> None:
    text = end.join([b"event: a", b"data: 1", b"data: 2", b"", b"data: 3", b"", b""])
    assert read_events(text) == [(b"a", b"1\n2"), (b"message", b"3")]


@each_row(("pieces", "expected"), [
    ([b"data: 1\r", b"\ndata: 2\r\n\r", b"\ndata: 3\r", b"\n\r", b"\n"], [b"1\n2", b"3"]),
    ([b"data: 1\r", b"\r"], [b"1"]),
    ([b"data: 1\n\ndata: 2\n"], [b"1"]),
    ([b"data:1\n\ndata: 2\n\ndata:  3\n\n"], [b"1", b"2", b" 3"]),
    ([b"data\ndata\n\n"], [b"\n"]),
    ([b": hello\n:\nwhatever: x\ndata: 1\n\n:\n\n"], [b"1"]),
    ([b"id: 1\ndata:\n\nevent: ping\n\nretry: 10\n\n\n\n"], []),
    ([b"\xef\xbb", b"\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\n"], [b"1"]),
])  # fmt: skip
def test_event_stream_data(pieces: list[bytes], expected: list[bytes]) -> None:
    assert data(*pieces) == expected


@given(st.lists(st.integers(1, 12), max_size=30))
def test_event_stream_pieces_make_no_difference(sizes: list[int]) -> None:
    text = 'id: ä\r\ndata: {"é":\r\ndata: "日本"}\r\rretry: 5\n: c\n\ndata: 2\r\n\r\n'.encode()
    pieces = []
    rest = text
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    stream = EventStream(1000)
    found = [event.data.decode() for piece in [*pieces, rest] for event in stream.feed(piece)]
    assert found == ['{"é":\n"日本"}', "2"]
    assert (stream.last_id, stream.retry) == ("ä".encode(), 0.005)


@pytest.mark.parametrize("line", [b"id:", b"id: \x01", b"id: a "])
def test_event_stream_id_unusable_as_header_is_none(line: bytes) -> None:
    stream = EventStream(1000)
    assert list(stream.feed(b"id: 1\n\n" + line + b"\n\n")) == []
    assert stream.last_id is None


@pytest.mark.parametrize(
    "text", [b"data: " + b"x" * 200, b"data\n" * 40, b"x" * 200, b"id: " + b"x" * 200 + b"\n"]
)
def test_event_stream_event_too_large_is_error(text: bytes) -> None:
    with pytest.raises(TooLargeEventError, match="100 bytes"):
        read_events(text[:90], text[90:], most=100)


@each_row(("values", "found"), [
    ([], []),
    ([""], []),
    (["Basic"], [("Basic", {})]),
    (['Basic realm="a, b"'], [("Basic", {"realm": "a, b"})]),
    (['Bearer realm = "a\\"b\\\\c" , SCOPE=read'], [("Bearer", {"realm": 'a"b\\c', "scope": "read"})]),
    (['Bearer error="invalid_token", Basic realm="x"'],
     [("Bearer", {"error": "invalid_token"}), ("Basic", {"realm": "x"})]),
    (["Negotiate", 'Bearer scope="a b"'], [("Negotiate", {}), ("Bearer", {"scope": "a b"})]),
    (["Negotiate a87421000492aa874209af8bc028==, Bearer"], [("Negotiate", {}), ("Bearer", {})]),
    (["Digest a=1, a=2,, ,b=3"], [("Digest", {"a": "1", "b": "3"})]),
    (['Bearer realm="never ended'], [("Bearer", {})]),
    (["=?!"], []),
    (['Bearer realm=""'], [("Bearer", {"realm": ""})]),
])  # fmt: skip
def test_challenges_are_parsed(values: list[str], found: list[tuple[str, dict[str, str]]]) -> None:
    assert [(each.scheme, dict(each.parameters)) for each in read_challenges(values)] == found
