from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit.common.errors import INVALID_REQUEST, ProtocolError, TooLongError
from mcpkit.transports.framing import MAX_LINE, Framing


def cut(stream: bytes, *, max_line: int = MAX_LINE, size: int | None = None) -> list[bytes | str]:
    """Frame a whole stream given in chunks of `size` bytes; "error" stands in for an error."""
    framing = Framing(max_line)
    lines: list[bytes | ProtocolError] = []
    for start in range(0, len(stream), size or len(stream) or 1):
        lines += framing.feed(stream[start : start + (size or len(stream))])
    lines += framing.finish()
    return ["error" if isinstance(line, ProtocolError) else line for line in lines]


@pytest.mark.parametrize("size", [None, 1, 2, 3, 7])
@pytest.mark.parametrize(
    ("stream", "lines"),
    [
        (b"", []),
        (b"{}\n", [b"{}"]),
        (b'{"a": 1}\n{"b": 2}\n', [b'{"a": 1}', b'{"b": 2}']),
        (b"{}\r\n[]\r\n", [b"{}", b"[]"]),
        (b"\n\r\n \t\n{}\n\n", [b"{}"]),
        (b"{}", [b"{}"]),
        (b"\r\n", []),
        (b"a\rb\n", [b"a\rb"]),
        (b"\0\n\xff\xfe\n", [b"\0", b"\xff\xfe"]),
        ('"\u2028 \u2029 \x85 \x0b \x0c \x1c"\n'.encode(), ['"\u2028 \u2029 \x85 \x0b \x0c \x1c"'.encode()]),
    ],
)
def test_lines_are_cut_at_newlines_only_however_they_arrive(
    stream: bytes, lines: list[bytes], size: int | None
) -> None:
    assert cut(stream, size=size) == lines


@pytest.mark.parametrize("size", [None, 1, 3, 9, 10, 11])
def test_a_line_that_is_too_long_is_one_error_in_its_place(size: int | None) -> None:
    stream = b"1234567890\n" + b"x" * 11 + b"\n" + b"y" * 1000 + b"\nlast\n"
    assert cut(stream, max_line=10, size=size) == [b"1234567890", "error", "error", b"last"]


def test_the_error_names_the_limit() -> None:
    (error,) = Framing(10).feed(b"x" * 11)
    assert isinstance(error, ProtocolError)
    assert error.code == INVALID_REQUEST
    assert "10 bytes" in error.message


def test_a_line_that_is_too_long_is_reported_before_it_ends_and_not_kept() -> None:
    framing = Framing(10)
    reported = [framing.feed(b"x" * 6) for _ in range(1000)]
    assert [len(lines) for lines in reported] == [0, 1, *[0] * 998]
    assert framing._partial is None
    assert framing.feed(b"\n{}\n") == [b"{}"]


@pytest.mark.parametrize("size", [None, 1, 3, 9, 10, 11])
def test_a_line_that_is_too_long_may_be_reported_when_it_has_ended(size: int | None) -> None:
    framing = Framing(10, waits_for_end=True)
    stream = b"first\n" + b"begun" + b"x" * 10_000 + b"ended\nlast\n"
    chunks = [stream] if size is None else [stream[n : n + size] for n in range(0, len(stream), size)]
    first, error, last = [line for chunk in chunks for line in framing.feed(chunk)]
    assert (first, last) == (b"first", b"last")
    assert isinstance(error, TooLongError)
    assert error.beginning.startswith(b"begunx")
    assert error.ending.endswith(b"xxended")
    assert len(error.ending) == 1024


def test_a_line_that_is_too_long_and_has_no_end_is_reported_with_the_stream() -> None:
    framing = Framing(10, waits_for_end=True)
    assert framing.feed(b"x" * 100) == []
    (error,) = framing.finish()
    assert isinstance(error, TooLongError)


def test_a_line_of_the_default_limit_is_taken() -> None:
    framing = Framing()
    megabyte = b"x" * 1024 * 1024
    for _ in range(64):
        assert framing.feed(megabyte) == []
    (line,) = framing.feed(b"\n")
    assert line == megabyte * 64


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=20), max_size=20), st.integers(1, 12))
def test_how_a_stream_is_chunked_makes_no_difference(chunks: list[bytes], max_line: int) -> None:
    framing = Framing(max_line)
    lines = [line for chunk in chunks for line in framing.feed(chunk)] + framing.finish()
    together = cut(b"".join(chunks), max_line=max_line)
    assert ["error" if isinstance(line, ProtocolError) else line for line in lines] == together
