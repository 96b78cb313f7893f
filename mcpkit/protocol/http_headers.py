"""HTTP headers: those of a request, values parsed by their grammars, and the `Mcp-*` headers that repeat the body.

A field that does not match its grammar (RFC 9110, RFC 3986, RFC 6454) has no value: no part of it matches anything.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .._utils.exceptions import HEADER_MISMATCH, MalformedError, ProtocolError
from .jsonrpc import is_array, is_object
from .objects import MirroredParameter

Headers = Mapping[bytes, bytes]  # values by name in lower case

# Patterns are compiled on first use, by `re` itself: they would cost every server's start.
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_QUOTED = r'"(?:[\t !\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t -\x7e\x80-\xff])*"'
_ELEMENT = rf'(?s)(?:[^,"]|{_QUOTED}|".*)+'  # a quote without an end takes the rest
_MEDIA_RANGE = rf"({_TOKEN}/{_TOKEN})"
_PARAMETER = rf"[ \t]*;[ \t]*(?:({_TOKEN})=({_TOKEN}|{_QUOTED}))?"
# Java's HttpURLConnection sends .2, and others more than three decimals.
_WEIGHT = r"0?\.[0-9]+|0\.?|1(?:\.0*)?"
_CONTENT_TYPE = rf"(?s)[ \t]*({_TOKEN}/{_TOKEN})[ \t]*(?:;.*)?"
_SCHEME = rf"{_TOKEN}(?=[ \t]|\Z)"
_TOKEN68 = r"[A-Za-z0-9\-._~+/]+=*"
_HOST = r"(\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})+)(?::([0-9]*))?"
_ORIGIN = r"(?s)([A-Za-z][A-Za-z0-9+.-]*)://(.+)"

_DEFAULT_PORTS = {"http": 80, "https": 443}

# Fields with a list as value, perhaps in several lines (RFC 9110, "Field Lines and Combined Field Value").
_LISTS = frozenset(
    b"accept accept-charset accept-encoding accept-language access-control-request-headers baggage cache-control "
    b"connection content-encoding content-language cookie expect forwarded if-match if-none-match link pragma prefer "
    b"te trailer transfer-encoding tracestate upgrade via warning x-forwarded-for".split()
)


# Headers of a request


class JoinedHeaders(dict[bytes, bytes]):
    """The headers of a request with repeated headers, of which the values are joined.

    A client may have added one to those that a proxy sets: as another line, or as a trailer, which some servers put
    among the headers.

    Args:
        pairs: Names in lower case and values, in the order of the request.

    Attributes:
        ambiguous: Names of repeated headers with values that are no lists.
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
        raw: Values by name in lower case.
    """

    def __init__(self, raw: Mapping[bytes, bytes]) -> None:
        self._raw = raw

    def __getitem__(self, name: str) -> str:
        """Return the value of a header by name, in any case.

        Raises:
            KeyError: There is no such header.
            MalformedError: The header is repeated, and its values cannot be combined.
        """
        key = name.lower().encode("latin-1", "replace")
        if isinstance(self._raw, JoinedHeaders) and key in self._raw.ambiguous:
            raise MalformedError(f"the header {name} is repeated. Send it once")
        return self._raw[key].decode("latin-1")

    def __contains__(self, name: object) -> bool:
        """Return True if there is a header of this name."""
        return isinstance(name, str) and name.lower().encode("latin-1", "replace") in self._raw

    def __iter__(self) -> Iterator[str]:
        """Yield the names, in lower case."""
        return (name.decode("latin-1") for name in self._raw)

    def __len__(self) -> int:
        """Return the number of headers."""
        return len(self._raw)

    def __repr__(self) -> str:
        """Show only the names, because values may be secrets."""
        return f"<RequestHeaders {', '.join(self)}>"


# Values of fields


class Host(NamedTuple):
    """A host.

    Attributes:
        name: Name or address in lower case; IPv6 in brackets, in its shortest form.
        port: Port; None if there is none.
    """

    name: str
    port: int | None


class Origin(NamedTuple):
    """The origin of a web page or an application.

    Attributes:
        scheme: Scheme in lower case.
        name: Name of the host, as in `Host`.
        port: Port; None for the default port of the scheme.
    """

    scheme: str
    name: str
    port: int | None


def media_type(value: str) -> str | None:
    """Return the type and subtype of a `Content-Type` field in lower case (RFC 9110, 8.3.1).

    Parameters are ignored: bodies are UTF-8 in any case, and some clients send invalid parameters.

    Returns:
        For example "application/json"; None if the field is invalid.
    """
    found = re.fullmatch(_CONTENT_TYPE, value)
    return None if found is None else found[1].lower()


def accepts(value: str, media_type: str) -> bool:
    """Return True if an `Accept` field allows a media type, with a weight other than 0 (RFC 9110, 12.5.1).

    The most specific range decides. One with parameters counts too, since the types sent here have none, but less than
    one without. Invalid elements are ignored. A field without any element counts as absent.

    Args:
        value: Value of the field.
        media_type: Type and subtype in lower case.
    """
    # The most specific first.
    ranges = (media_type, f"{media_type};", f"{media_type.partition('/')[0]}/*", "*/*")
    best, weight, is_empty = len(ranges), 0.0, True
    element: str
    for element in re.findall(_ELEMENT, value):
        if not (element := element.strip(" \t")):
            continue
        is_empty = False
        if (parsed := _weighted_range(element)) is not None and parsed[0] in ranges:
            place = ranges.index(parsed[0])
            if place < best or (place == best and parsed[1] > weight):
                best, weight = place, parsed[1]
    return is_empty or weight > 0


def _weighted_range(element: str) -> tuple[str, float] | None:
    """Return a media range in lower case, followed by a semicolon if it has parameters, and its weight."""
    found = re.match(_MEDIA_RANGE, element)
    if found is None:
        return None
    kind, end = found[1].lower(), found.end()
    weight: float | None = None
    pattern = re.compile(_PARAMETER)
    while end < len(element):
        parameter = pattern.match(element, end)
        if parameter is None:
            return None
        name, text = parameter.groups()
        end = parameter.end()
        if name is not None and name.lower() == "q" and weight is None:
            if not re.fullmatch(_WEIGHT, text):
                return None
            weight = float(text)
        elif name is not None and weight is None:  # after the weight they do not belong to the range
            kind = kind.rstrip(";") + ";"
    return kind, 1.0 if weight is None else weight


def token68(value: str, scheme: str) -> str | None:
    """Return the credentials in an `Authorization` field of a scheme that has them as one token (RFC 9110, 11.4).

    Args:
        value: The value of the field.
        scheme: The scheme in lower case, such as "bearer".

    Returns:
        The token; None for another scheme.

    Raises:
        ValueError: The field has this scheme, and its credentials are malformed.
    """
    value = value.strip(" \t")
    found = re.match(_SCHEME, value)
    if found is None or found[0].lower() != scheme:
        return None
    rest = value[found.end() :]
    token = rest.lstrip(" ")
    if rest == token or not re.fullmatch(_TOKEN68, token):
        raise ValueError(f"Authorization: the credentials of the scheme {scheme} are not a single token")
    return token


def host(value: str) -> Host | None:
    """Return the host of a `Host` field (RFC 9110, 7.2; RFC 3986, 3.2.2); None if it is malformed."""
    found = re.fullmatch(_HOST, value)
    if found is None:
        return None
    name, port = found[1].lower(), found[2]
    if name.startswith("["):
        from ipaddress import IPv6Address  # here, as few hosts need it

        try:
            name = f"[{IPv6Address(name[1:-1])}]"
        except ValueError:
            return None
    if not port:
        return Host(name, None)
    number = int(port) if len(port) < 10 else 65536
    return Host(name, number) if number < 65536 else None


def origin(value: str) -> Origin | None:
    """Return the origin of an `Origin` field (RFC 6454, 7.1); None for "null" and if it is malformed."""
    found = re.fullmatch(_ORIGIN, value)
    parsed = None if found is None else host(found[2])
    if found is None or parsed is None:
        return None
    scheme = found[1].lower()
    return Origin(scheme, parsed.name, None if parsed.port == _DEFAULT_PORTS.get(scheme) else parsed.port)


def is_same_origin(page: str, named: str) -> bool:
    """Return True if the `Origin` field and the `Host` field of a request have the same host.

    Args:
        page: Value of `Origin`.
        named: Value of `Host`.
    """
    of_page, of_request = origin(page), host(named)
    if of_page is None or of_request is None:
        return False
    port = None if of_request.port == _DEFAULT_PORTS.get(of_page.scheme) else of_request.port
    return (of_page.name, of_page.port) == (of_request.name, port)


# Client addresses

# Bits of an IPv6 address that identify a network. One client can use all addresses of its network.
_NETWORK_BITS = 64

# An address with a port, as some proxies send it. The port differs for each connection.
_ADDRESS_WITH_PORT = r"\[([^\[\]]+)\](?::\d*)?|([^:\[\]]+):\d*"


def caller_at(host: str) -> str | None:
    """Return the identifier of the client at an address.

    Args:
        host: The address, as text. All clients of a proxy count as one, if the ASGI server does not trust its headers.

    Returns:
        The IPv4 address or the IPv6 network. None for an address of this machine, where a proxy may serve any number of
        clients, and for an empty one.
    """
    if ":" in host:
        from ipaddress import AddressValueError, IPv6Address

        try:
            address = IPv6Address(host)
        except AddressValueError:
            without_port = re.fullmatch(_ADDRESS_WITH_PORT, host)
            return caller_at(without_port[1] or without_port[2]) if without_port else f"address {host}"
        if address.ipv4_mapped is None:
            network = IPv6Address(int(address) >> _NETWORK_BITS << _NETWORK_BITS)
            return None if address.is_loopback else f"address {network}/{_NETWORK_BITS}"
        host = str(address.ipv4_mapped)
    return None if not host or host.startswith("127.") else f"address {host}"


# Headers that repeat parts of the body (basic/transports/streamable-http, since 2026-07-28)

# Proxies that route or count by headers must see the values that the server uses. A header that is missing, malformed
# or different from the body is refused ("Server Validation").

# The member of the params that `Mcp-Name` repeats ("Standard Request Headers").
NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}

# Requests without a required `Mcp-Name`: fastmcp 4 omits it, and only the owner of a task can use its id.
_MAY_BE_UNNAMED = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})

_ENCODED_PREFIX = b"=?base64?"
_ENCODED_SUFFIX = b"?="
_BLANKS = b" \t"
# Visible ASCII, without the start of `_ENCODED_PREFIX`.
_PLAIN = bytes(range(ord("!"), ord("~") + 1)).replace(b"=", b"")
_UNCHANGED = r"(?! )[ -~]*(?<! )"  # text that a header has as it is, unless it looks like the Base64 form
_NUMBER = r"(-?[0-9]{1,16})(?:\.0+)?"
# Larger ones are not exact in JavaScript, so the specification excludes them from headers.
_MAX_INTEGER = 2**53 - 1


def check_standard(
    headers: Headers, method: str, params: dict[str, Any], revision: str, named_by: str | None = None
) -> None:
    """Compare the standard headers with a request.

    Args:
        headers: The headers of the POST.
        method: The request's method.
        params: Its params.
        revision: The `protocolVersion` of its `_meta`.
        named_by: The member that `Mcp-Name` repeats, for a method outside the core protocol.

    Raises:
        ProtocolError: -32020, when `MCP-Protocol-Version`, `Mcp-Method` or, for a request with a name, `Mcp-Name` is
            missing or differs. In a request about a task it may be missing.
    """
    for field, value in (("MCP-Protocol-Version", revision), ("Mcp-Method", method)):
        header = headers.get(field.lower().encode())
        if header != value.encode() and (header is None or header.strip(_BLANKS) != value.encode()):
            raise _mismatch(field, header, value)
    member = NAMED_BY.get(method, named_by)
    name = None if member is None else params.get(member)
    if type(name) is not str:  # params without a required name are refused by the handler of the method
        return
    header = headers.get(b"mcp-name")
    if header is None and method in _MAY_BE_UNNAMED:
        return
    is_same = header is not None and header == name.encode() and not header.strip(_PLAIN)
    if header is None or (not is_same and decode_value("Mcp-Name", header) != name):
        raise _mismatch("Mcp-Name", header, name)


def check_mirrored(
    headers: Headers, mirrored: Sequence[MirroredParameter], arguments: dict[str, Any]
) -> None:
    """Compare the `Mcp-Param-*` headers with the arguments of a call.

    Args:
        headers: The headers of the POST.
        mirrored: The arguments that clients of the tool repeat in headers.
        arguments: The arguments, not yet validated.

    Raises:
        ProtocolError: -32020, when a header is missing, malformed, unlike its argument, or there without one.
    """
    for each in mirrored:
        value: Any = arguments
        for name in each.path:
            value = value.get(name) if is_object(value) else None
        header = headers.get(each.header)
        if header is None and (value is None or is_object(value) or is_array(value)):
            continue  # a value of a wrong type is refused by the validator, with a better message
        field = each.header.decode().title()
        if header is None or value is None or not _is_same(decode_value(field, header), value):
            raise _mismatch(field, header, value)


def _is_same(text: str, value: Any) -> bool:
    if type(value) is str:
        return text == value
    if type(value) is bool:
        return text == ("true" if value else "false")
    if type(value) is int or type(value) is float:
        number = re.fullmatch(_NUMBER, text)
        return number is not None and int(number[1]) == value and abs(value) <= _MAX_INTEGER
    return False


def decode_value(field: str, value: bytes) -> str:
    """Return the text of a header value ("Value Encoding").

    Args:
        field: The header's name, for messages.
        value: Its value; blanks around it, which some servers do not remove, are ignored.

    Raises:
        ProtocolError: -32020 for characters that a header cannot hold, and for broken Base64.
    """
    value = value.strip(_BLANKS)
    try:
        if value.startswith(_ENCODED_PREFIX) and value.endswith(_ENCODED_SUFFIX):
            packed = value[len(_ENCODED_PREFIX) : -len(_ENCODED_SUFFIX)]
            data = a2b_base64(packed)
            # Decoding ignores other characters and wrong padding; the comparison finds them.
            if b2a_base64(data, newline=False) == packed and len(value) >= len(_ENCODED_PREFIX) + len(
                _ENCODED_SUFFIX
            ):
                return data.decode()
        else:
            text = value.decode("ascii")
            if text.isprintable() or text.replace("\t", "").isprintable():
                return text
    except ValueError:
        pass
    raise ProtocolError(
        HEADER_MISMATCH,
        f"Header mismatch: {field} must be visible ASCII characters, or =?base64?...?= with the Base64 of UTF-8",
    )


def encode_value(text: str) -> bytes:
    """Return a text as a header value: unchanged if possible, else the Base64 of its UTF-8 ("Value Encoding").

    Raises:
        ValueError: The text contains half of a surrogate pair.
    """
    if re.fullmatch(_UNCHANGED, text):
        plain = text.encode("ascii")
        if not (plain.startswith(_ENCODED_PREFIX) and plain.endswith(_ENCODED_SUFFIX)):
            return plain
    return _ENCODED_PREFIX + b2a_base64(text.encode(), newline=False) + _ENCODED_SUFFIX


def _mismatch(field: str, header: bytes | None, value: Any) -> ProtocolError:
    if header is None:
        what = f"{field} header is missing"
    elif value is None:
        what = f"{field} header is set, but the body has no such argument"
    elif type(value) is int and abs(value) > _MAX_INTEGER:
        what = (
            f"{field} header needs an integer from -(2**53 - 1) to 2**53 - 1, and the body value is not one"
        )
    else:
        shown = header[:100].decode(errors="backslashreplace")
        body = repr(value[:100] if isinstance(value, str) else value)[:110]
        what = f"{field} header value {shown!r} does not match body value {body}"
    return ProtocolError(HEADER_MISMATCH, f"Header mismatch: {what}")
