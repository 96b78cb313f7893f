"""Whatever comes to the listener: only the redirect with the right state is taken, and nothing of others is shown."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from hypothesis import given
from hypothesis import strategies as st

from mcpkit.client.authorization.redirect_request import Expected, RefusedError, redirected

STATE = "0123456789abcdef"
EXPECTED = Expected("127.0.0.1:8000", "/callback", STATE)
RIGHT = f"GET /callback?code=c&state={STATE} HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n\r\n".encode()


def taken(head: bytes) -> bool:
    """Whether it is taken; what is not must be refused, and in no other way."""
    try:
        redirected(head, EXPECTED)
    except RefusedError as refused:
        return refused.status.split()[0] not in {"400", "404", "405", "421"} or not refused.message.isascii()
    return True


@given(st.binary(max_size=300))
def test_bytes_are_refused(head: bytes) -> None:
    assert not taken(head + b"\r\n\r\n")


@given(st.integers(0, len(RIGHT) - 5), st.binary(min_size=1, max_size=4))
def test_a_redirect_with_a_part_written_over_is_refused_or_has_the_state(place: int, part: bytes) -> None:
    head = RIGHT[:place] + part + RIGHT[place + len(part) :]
    if taken(head):
        assert f"state={STATE}".encode() in head
        assert head.startswith(b"GET /callback?")


@given(st.text(max_size=40))
def test_another_state_is_refused(state: str) -> None:
    written = quote(state.encode("utf-8", "surrogatepass"))
    head = f"GET /callback?code=c&state={written} HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n\r\n"
    assert taken(head.encode()) == (state == STATE)


@given(
    st.dictionaries(st.text(max_size=10), st.text(max_size=30), max_size=20), st.text(min_size=1, max_size=60)
)
def test_what_comes_with_the_code_comes_back_as_it_was(more: dict[str, str], code: str) -> None:
    more.pop("error", None)
    query = {**more, "code": code, "state": STATE}
    try:
        text = urlencode(query)
    except UnicodeEncodeError:
        return
    head = f"GET /callback?{text} HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n\r\n".encode()
    assert redirected(head, EXPECTED) == query
