"""The headers of an HTTP request, and those that came more than once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from .._utils.exceptions import MalformedError

_LISTS = frozenset(
    b"accept accept-charset accept-encoding accept-language access-control-request-headers baggage cache-control "
    b"connection content-encoding content-language cookie expect forwarded if-match if-none-match link pragma prefer "
    b"te trailer transfer-encoding tracestate upgrade via warning x-forwarded-for".split()
)
"""Fields with a list as value, perhaps in several lines (RFC 9110, "Field Lines and Combined Field Value")."""


class JoinedHeaders(dict[bytes, bytes]):
    """The headers of a request of which some came more than once; of these all values, one after the other.

    A client may have added one to those that a proxy sets: as another line, or as a trailer, which some servers put
    among the headers.

    Args:
        pairs: The headers as they came, names in lower case.

    Attributes:
        ambiguous: The names of those that came more than once though their values make no list.
    """

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        super().__init__()
        ambiguous: set[bytes] = set()
        for name, value in pairs:
            if name in self:
                self[name] += (b"; " if name == b"cookie" else b", ") + value
                if name not in _LISTS:
                    ambiguous.add(name)
            else:
                self[name] = value
        self.ambiguous = frozenset(ambiguous)


class RequestHeaders(Mapping[str, str]):
    """The headers of an HTTP request.

    Args:
        raw: Their values by name in lower case.
    """

    def __init__(self, raw: Mapping[bytes, bytes]) -> None:
        self._raw = raw

    def __getitem__(self, name: str) -> str:
        """Return the value of a header, by name in any case.

        Raises:
            KeyError: There is no such header.
            MalformedError: The header is repeated, and its values cannot be combined.
        """
        key = _key(name)
        if isinstance(self._raw, JoinedHeaders) and key in self._raw.ambiguous:
            raise MalformedError(f"the header {name} is repeated. Send it once")
        return self._raw[key].decode("latin-1")

    def __contains__(self, name: object) -> bool:
        """Return whether there is a header of this name."""
        return isinstance(name, str) and _key(name) in self._raw

    def __iter__(self) -> Iterator[str]:
        """Go through the names, in lower case."""
        return (name.decode("latin-1") for name in self._raw)

    def __len__(self) -> int:
        """Count the headers."""
        return len(self._raw)

    def __repr__(self) -> str:
        """Show the names alone: there are secrets among the values."""
        return f"<RequestHeaders {', '.join(self)}>"


def _key(name: str) -> bytes:
    return name.lower().encode("latin-1", "replace")
