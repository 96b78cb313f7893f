"""Event streams, in whatever pieces they come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.client.transports.http.event_stream import Event, EventStream, TooLargeEventError


def read(*pieces: bytes, most: int = 1000) -> list[Event]:
    stream = EventStream(most)
    return [event for piece in pieces for event in stream.feed(piece)]


def data(*pieces: bytes) -> list[bytes]:
    return [event.data for event in read(*pieces)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_lines_end_by_cr_lf_or_both(end: bytes) -> None:
    text = end.join([b"event: a", b"data: 1", b"data: 2", b"", b"data: 3", b"", b""])
    assert read(text) == [(b"a", b"1\n2"), (b"message", b"3")]


def test_crlf_may_come_in_two_pieces() -> None:
    assert data(b"data: 1\r", b"\ndata: 2\r\n\r", b"\ndata: 3\r", b"\n\r", b"\n") == [b"1\n2", b"3"]


def test_a_blank_line_of_two_crs_in_two_pieces_ends_an_event() -> None:
    assert data(b"data: 1\r", b"\r") == [b"1"]


def test_an_event_without_its_blank_line_is_none() -> None:
    assert data(b"data: 1\n\ndata: 2\n") == [b"1"]


def test_one_blank_after_the_colon_belongs_to_it() -> None:
    assert data(b"data:1\n\ndata: 2\n\ndata:  3\n\n") == [b"1", b"2", b" 3"]


def test_a_field_without_a_colon_is_empty() -> None:
    assert data(b"data\ndata\n\n") == [b"\n"]


def test_comments_and_unknown_fields_are_passed_over() -> None:
    assert data(b": hello\n:\nwhatever: x\ndata: 1\n\n:\n\n") == [b"1"]


def test_events_without_data_are_not_given() -> None:
    assert data(b"id: 1\ndata:\n\nevent: ping\n\nretry: 10\n\n\n\n") == []


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    assert data(b"\xef\xbb", b"\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\n") == [b"1"]


@given(st.lists(st.integers(1, 12), max_size=30))
def test_pieces_make_no_difference(sizes: list[int]) -> None:
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


def test_the_id_is_that_of_the_last_event_that_was_complete() -> None:
    stream = EventStream(1000)
    assert list(stream.feed(b"id: 1\ndata: x\n\nid: 2\n")) != []
    assert stream.last_id == b"1"
    assert list(stream.feed(b"\n")) == []
    assert stream.last_id == b"2"
    assert list(stream.feed(b"data: y\n\n")) != []
    assert stream.last_id == b"2"


@pytest.mark.parametrize("line", [b"id:", b"id", b"id: \x01", b"id: a\x7f", b"id: a "])
def test_an_id_that_no_header_can_have_is_nothing_to_come_back_with(line: bytes) -> None:
    stream = EventStream(1000)
    assert list(stream.feed(b"id: 1\n\n" + line + b"\n\n")) == []
    assert stream.last_id is None


def test_an_id_with_a_null_is_passed_over() -> None:
    stream = EventStream(1000)
    assert list(stream.feed(b"id: 1\n\nid: a\0b\n\n")) == []
    assert stream.last_id == b"1"


@pytest.mark.parametrize("value", [b"-1", b"+1", b"1.5", b"1_0", b"x", b"", b"9" * 13, "٣".encode()])
def test_a_retry_that_is_no_number_is_passed_over(value: bytes) -> None:
    stream = EventStream(1000)
    assert list(stream.feed(b"retry: 20\n\nretry: " + value + b"\n\n")) == []
    assert stream.retry == 0.02


def test_an_event_that_was_not_complete_is_forgotten_on_the_next_connection() -> None:
    stream = EventStream(1000)
    assert list(stream.feed(b"id: 1\n\ndata: lost\nid: 2\ndata: half")) == []
    stream.begin()
    assert [event.data for event in stream.feed(b"data: new\n\n")] == [b"new"]
    assert stream.last_id == b"1"


def test_what_has_moved_is_an_event_and_no_comment() -> None:
    stream = EventStream(1000)
    assert list(stream.feed(b": here\n\n")) == []
    assert not stream.has_moved
    assert list(stream.feed(b"id: 1\n\n")) == []
    assert stream.has_moved
    stream.begin()
    assert not stream.has_moved


@pytest.mark.parametrize(
    "text", [b"data: " + b"x" * 200, b"data\n" * 40, b"x" * 200, b"id: " + b"x" * 200 + b"\n"]
)
def test_an_event_has_a_bound(text: bytes) -> None:
    with pytest.raises(TooLargeEventError, match="100 bytes"):
        read(text[:90], text[90:], most=100)


def test_comments_and_events_that_are_over_do_not_count() -> None:
    assert len(read((b": keep alive\ndata: " + b"x" * 80 + b"\n\n") * 50, most=100)) == 50
