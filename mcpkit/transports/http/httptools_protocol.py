"""uvicorn's protocol for httptools, with a fix for lost bodies; imported if uvicorn has loaded httptools.

A server may ignore an offer of an upgrade (RFC 9110, 7.8), and clients in Java and Kotlin offer h2c with their first
request. httptools ends a request with an offer after its head, whatever the server does with the offer. uvicorn then
drops the body, or takes it for the next request. So such a request is parsed again, without the offer.
"""

from __future__ import annotations

from typing import Any

from httptools import HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Header fields, and options of `Connection`, that offer an upgrade.
_OFFER = frozenset({b"upgrade", b"http2-settings"})

# Called by these names, as `super()` costs much more, at each request.
_feed = HttpRequestParser.feed_data
_begin = HttpToolsProtocol.on_headers_complete
_end = HttpToolsProtocol.on_message_complete


class DecliningProtocol(HttpToolsProtocol):
    """Protocol of one connection.

    Args:
        args: Positional arguments of uvicorn.
        options: Keyword arguments of uvicorn.

    Attributes:
        is_declined: Whether the current request offers an upgrade that is declined.
    """

    is_declined = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.parser = _Parser(self)

    def on_headers_complete(self) -> None:
        """Start to serve the request, unless it is to be parsed again."""
        if self.parser.should_upgrade() and self._declines():
            self.is_declined = True
        else:
            _begin(self)

    def on_message_complete(self) -> None:
        """Note the end of the body, unless the request is to be parsed again."""
        if not self.is_declined:
            _end(self)

    def _declines(self) -> bool:
        # A request of the method CONNECT has no such header.
        return not self._should_upgrade() and any(name == b"upgrade" for name, _ in self.headers)

    def head_without_offer(self) -> bytes:
        """Return the head of the request that is declined, as the client would send it without the offer."""
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        for name, value in self.headers:
            if name == b"connection":
                options = [option.strip() for option in value.split(b",")]
                kept = b", ".join(option for option in options if option.lower() not in _OFFER)
                lines.append(b"connection: " + kept)
            elif name not in _OFFER:
                lines.append(b"%b: %b" % (name, value))
        return b"\r\n".join(lines) + b"\r\n\r\n"


class _Parser(HttpRequestParser):
    def __init__(self, protocol: DecliningProtocol) -> None:
        super().__init__(protocol)
        self._protocol = protocol
        if hasattr(self, "set_dangerous_leniencies"):  # as uvicorn does, where httptools has it
            self.set_dangerous_leniencies(lenient_data_after_close=True)

    def feed_data(self, data: Any) -> None:
        """Parse data; a request with a declined upgrade is parsed again without the offer.

        Raises:
            HttpParserError: The data is not HTTP.
            HttpParserUpgrade: The request ends here, and its connection is upgraded.
        """
        parser = self
        while True:  # not recursive: a client may send many such requests at once
            try:
                return _feed(parser, data)
            except HttpParserUpgrade as upgrade:
                protocol = self._protocol
                if not protocol.is_declined:
                    raise
                data = memoryview(data)[upgrade.args[0] :]
                head = protocol.head_without_offer()
                parser = protocol.parser = _Parser(protocol)
                protocol.is_declined = False
                _feed(parser, head)
