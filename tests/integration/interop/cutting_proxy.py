"""A TCP proxy that cuts the connection in the middle of an answer."""

from __future__ import annotations

import re
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit


class CuttingProxy(socketserver.ThreadingTCPServer):
    """Passes bytes on to a server; an event stream that says a marker is cut after that event, once for each.

    Args:
        origin: The server's URL, without a path.
        markers: What an event must hold for the connection to be cut.
    """

    daemon_threads = True

    def __init__(self, origin: str, markers: list[bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lead_to(origin)
        self.origin = f"http://127.0.0.1:{self.server_address[1]}"
        self.markers = markers
        self.resumptions = 0
        self.open: set[socket.socket] = set()

    def lead_to(self, origin: str) -> None:
        """Pass what new connections say on to this server."""
        address = urlsplit(origin)
        self.server = (address.hostname or "", address.port or 0)

    def cut(self) -> None:
        """Break all connections off."""
        for connection in tuple(self.open):
            shut(connection)

    def keep(self, received: bytes) -> int | None:
        """Take the first marker that a finished event holds; give where that event ends."""
        for marker in self.markers:
            if found := re.search(re.escape(marker) + rb".*?\r?\n\r?\n", received, re.DOTALL):
                self.markers.remove(marker)
                return found.end()
        return None


class Handler(socketserver.BaseRequestHandler):
    """One connection of a client."""

    server: CuttingProxy

    def handle(self) -> None:
        with socket.create_connection(self.server.server) as upstream:
            self.server.open.add(upstream)
            asking = threading.Thread(target=self.pass_on_requests, args=[upstream], daemon=True)
            asking.start()
            self.pass_on_answers(upstream)
            self.server.open.discard(upstream)
            shut(upstream)
            shut(self.request)
            asking.join()

    def pass_on_requests(self, upstream: socket.socket) -> None:
        while data := receive(self.request):
            self.server.resumptions += data.lower().count(b"last-event-id:")
            send(upstream, data)
        shut(upstream)

    def pass_on_answers(self, upstream: socket.socket) -> None:
        heard = b""
        while data := receive(upstream):
            before = len(heard)
            heard += data
            end = self.server.keep(heard)
            send(self.request, data if end is None else data[: max(0, end - before)])
            if end is not None:
                return


def receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except OSError:  # the other end has broken the connection off, which is an end too
        return b""


def send(connection: socket.socket, data: bytes) -> None:
    try:
        connection.sendall(data)
    except OSError:  # nobody listens any more; the end is seen where this connection is read
        return


def shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # it is shut
        return


@contextmanager
def cutting(origin: str, *markers: bytes) -> Iterator[CuttingProxy]:
    """Serve a cutting proxy until the end of the block."""
    with CuttingProxy(origin, list(markers)) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
